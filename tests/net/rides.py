"""Everything at once, on random graphs: `python -m tests.net.rides --rides 100000 --processes 2 --first 0`.

Three to twelve brokers on a random graph with cycles, small ones more often, with direct paths or with paths along the
links, under either overlay and every scheme that hands contexts over. Brokers join and leave, are drained and start
with empty folders, are killed, stay dead for a while and come back; connections are cut and mended; operators change
the scheme, broker by broker. Meanwhile a client roams and listens, and others publish, some of them from wherever they
are. In the end all that was published has come, once, in order of each publisher that stayed; all brokers have the same
account of the network; and nothing is left of the client where it is not.

A seed is a ride. One that goes wrong prints the command that repeats it. A line a minute says from which seed to go on.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from random import Random

import msgspec

from roamq.core.events import BrokerId
from tests.net.carried import CarriedFleet, random_connections
from tests.net.dead import Ride as DeadRide
from tests.net.growing import GrowingFleet

DEPARTING = ("standard", "proactive", "logging")
"""The schemes under which brokers can leave, and can start with empty folders."""
SCHEMES = (*DEPARTING, "prefetching", "prehandoff")
OVERLAYS = ("interest", "flooding")
NAMES = ("a", "m", "z")
"""Names for brokers that join."""


class Ride(DeadRide):
    """One ride; all of it follows from the seed."""

    fleet: CarriedFleet

    def __init__(self, seed: int, moves: int = 8) -> None:
        drawn = Random(f"{seed}/mixed")
        self.overlay = drawn.choice(OVERLAYS)
        self.schemes = DEPARTING if drawn.random() < 0.7 else SCHEMES
        self.brokers = 3 + int(10 * drawn.random() ** 2)
        self.is_direct = drawn.random() < 0.5
        self.told: dict[BrokerId, str] = {}
        """Brokers that have not read the file since an operator edited it -> the scheme that it names."""
        super().__init__(seed, drawn.choice(self.schemes), overlay=self.overlay, rough=True, moves=moves)

    def fleet_of(self, seed: int, scheme: str, overlay: str) -> GrowingFleet:
        connections = random_connections(seed, self.brokers)
        fleet = CarriedFleet(
            seed, scheme, connections, is_direct=self.is_direct, overlay=overlay, handoff_timeout_s=1000.0
        )
        fleet.settle()
        assert not fleet.not_linked(), fleet.not_linked()
        return fleet

    def _steps(self, at_most: int) -> None:
        super()._steps(at_most)
        if self.told and self.random.random() < 0.5:
            self._read_file(self.random.choice(sorted(self.told)))

    # --- what brokers do ---------------------------------------------------------------------------------------

    def _change(self) -> None:
        kinds = ["kill", "kill", "start", "start", "cut", "mend", "join", "join", "scheme", "wait", "crash"]
        if self.schemes is DEPARTING:
            kinds += ["leave", "core leaves", "empty", "empty"]
        kind = self.random.choice(kinds)
        if self._do(kind):
            self.count[kind] += 1

    def _do(self, kind: str) -> bool:
        """Let something of this kind happen; False if nothing of the kind can happen now."""
        fleet = self.fleet
        up = [name for name in fleet.core if name in fleet.serving]
        match kind:
            case "kill" | "crash" if names := self._may_die():
                (fleet.kill if kind == "kill" else fleet.crash)(self.random.choice(names))
            case "start" if fleet.dead:
                fleet.start(self.random.choice(sorted(fleet.dead)))
            case "cut" if pairs := self._may_be_cut():
                fleet.cut_connection(self.random.choice(pairs))
            case "mend" if fleet.cut:
                fleet.mend()
            case "join" if up and (usable := [name for name in NAMES if self._is_free(name)]):
                calls = self.random.sample(up, min(len(up), self.random.choice((1, 1, 2, 3))))
                fleet.join(self.random.choice(usable), *sorted(calls))
            case "leave" if edges := [name for name in fleet.calls if name in fleet.serving]:
                fleet.leave(self.random.choice(edges))
            case "core leaves" if names := [one for one in fleet.may_leave() if self._can_spare(one)]:
                name = self.random.choice(names)
                fleet.core.remove(name)
                fleet.leave(name)
            case "empty" if len(up) > 1:
                fleet.leave(self.random.choice(up), "empty")
            case "scheme":
                self._edit_file(self.random.choice(self.schemes))
            case "wait":
                self._pass_time(self.random.choice((1.5, 12.0)))
            case _:
                return False
        return True

    def _edit_file(self, scheme: str) -> None:
        """An operator names another scheme in the file of the network; each broker reads it at a time of its own."""
        self.fleet.scheme = scheme  # brokers that join have the new file
        self.told = dict.fromkeys(self.fleet.machines, scheme)

    def _read_file(self, name: BrokerId) -> None:
        """A broker reloads the file. A dead one does so when it starts, before anything else."""
        scheme = self.told.pop(name)
        machine = self.fleet.machines.get(name)
        if machine is not None and machine.settings.scheme != scheme:
            machine.set_settings(
                msgspec.structs.replace(machine.settings, scheme=scheme), self.fleet.clock(name)
            )

    # --- the end -------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        for name in sorted(self.told):
            self._read_file(name)
        super()._settle()


def ride(seed: int) -> tuple[int, Counter[str], str | None]:
    """Ride once; returns the seed, what happened how often, and what went wrong, if anything did."""
    try:
        one = Ride(seed)
        checked = one.check()
    except Exception as error:
        return seed, Counter(), f"{type(error).__name__}: {str(error)[:500]}"
    count = Counter({"rides": 1, "messages": checked}) + one.count
    return seed, count, None


def all_rides(seeds: range, processes: int) -> Iterator[tuple[int, Counter[str], str | None]]:
    """The results of all rides, in the order of their seeds."""
    if processes == 1:
        yield from map(ride, seeds)
        return
    with get_context("fork").Pool(processes) as pool:
        yield from pool.imap(ride, seeds, chunksize=4)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.net.rides", description=__doc__)
    parser.add_argument("--rides", type=int, default=100)
    parser.add_argument(
        "--first", type=int, default=0, help="the first seed; to go on, the one that was told last"
    )
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    count: Counter[str] = Counter()
    wrong, told_at = 0, time.monotonic()
    for seed, happened, fault in all_rides(
        range(options.first, options.first + options.rides), options.processes
    ):
        count += happened
        if fault is not None:
            wrong += 1
            print(f"{fault}\nrepeat: python -m tests.net.rides --rides 1 --first {seed}", flush=True)  # noqa: T201
        if time.monotonic() - told_at > 60:
            told_at = time.monotonic()
            print(f"{count['rides']:,} rides, {wrong} went wrong; go on with --first {seed + 1}", flush=True)  # noqa: T201
    told = ", ".join(f"{number:,} {what}" for what, number in sorted(count.items()))
    print(f"{told}; {wrong} rides went wrong")  # noqa: T201 - a command
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
