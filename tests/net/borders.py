"""Clients cross borders while brokers fall: `python -m tests.net.borders --rides 1000 [--first 0] [--kills 0.01]`.

The kills of `kills.py`, under `prehandoff`, with a client that says where it is: every other broker has a virtual
consumer of it, made, filled, told and cancelled at any moment. It shows its tickets in three rides of four; it comes
before, while and after brokers notice that it is gone, and it tries brokers from which it hears nothing. Every message
of QoS 2 must come exactly once and in order, and nothing may be left of the client where it is not.
"""

import argparse
import sys
from collections import Counter
from typing import Any, Final

from roamq.core.context import Ticket
from roamq.core.events import BrokerId
from roamq.geo.cells import Place, cell_at
from roamq.schemes.parts.virtual_consumers import VirtualConsumer
from roamq.schemes.prehandoff import PreHandoff
from tests.net.fleet import Fleet
from tests.net.kills import Ride as KillsRide

RESOLUTION: Final = 8
AREAS: Final = {"b1": (52.50, 13.40), "b2": (52.50, 13.44), "b3": (52.53, 13.42), "b4": (52.53, 13.46)}
CELLS: Final = {broker: str(cell_at(Place(*place), RESOLUTION)) for broker, place in AREAS.items()}
KILL: Final = 0.01


def options_for(brokers: int) -> dict[str, Any]:
    """Areas around the brokers; whoever is anywhere is expected by every neighbor."""
    areas = dict(list(AREAS.items())[:brokers])
    return {"areas": areas, "resolution": RESOLUTION, "choose": "all"}


class Ride(KillsRide):
    """One client crosses borders, another publishes, brokers fall."""

    def __init__(self, seed: int, kill: float = KILL) -> None:
        self.kill = kill
        self.kills = 0
        self.sent = []
        brokers = 3 + seed % 2
        overlay = ("interest", "interest", "flooding")[seed % 3]
        self.fleet = Fleet(
            seed,
            "prehandoff",
            brokers,
            handoff_timeout_s=1000.0,
            overlay=overlay,
            scheme_options=options_for(brokers),
        )
        self._names = [str(name) for name in self.fleet.machines]
        self._home = self._names[0]
        self.mover = self.fleet.client("mover", shows_ticket=seed % 4 > 0)
        self.publisher = self.fleet.client("publisher")

    def run(self, moves: int = 12) -> None:
        fleet, chance = self.fleet, self.fleet.random
        self.publisher.connect(self._home)
        self._go(chance.choice(self._names))
        self.mover.subscribe("t/#", 2)
        fleet.settle()
        for _ in range(moves):
            for _ in range(chance.randrange(6)):
                self._come_back()
                self.sent.append(b"%d" % len(self.sent))
                self.publisher.publish("t/x", self.sent[-1], 2)
                self._steps(chance.randrange(8))
            self._steps(chance.choice((0, 20, 80)))
            self._part()
            if chance.random() < 0.2:
                self._go(chance.choice(self._names))  # it may hear nothing from there
                self._steps(chance.randrange(10))
                self._part()
            self._go(chance.choice(self._names))
            self._steps(chance.randrange(40))
        for _ in range(3):
            self._come_back()
            fleet.settle()

    def _go(self, broker: str) -> None:
        self.mover.connect(broker, cell=CELLS[broker])

    def _part(self) -> None:
        """The client is gone; sooner or later the broker notices."""
        chance, fleet = self.fleet.random, self.fleet
        self.mover.vanish()
        if chance.random() < 0.7:
            fleet.losses = [(min(at, fleet.now), broker, number) for at, broker, number in fleet.losses]
        self._steps(chance.choice((0, 10, 60)))

    def _steps(self, count: int) -> None:
        for _ in range(count):
            self.fleet.step()
            if self.fleet.random.random() < self.kill:
                self.kills += 1
                self.fleet.crash(self.fleet.random.choice(self._names))

    def _come_back(self) -> None:
        if self.publisher.at is None:
            self.publisher.connect(self._home)
        if self.mover.at is None:
            self._go(self.fleet.random.choice(self._names))

    def fault(self) -> str | None:
        found = super().fault()
        if found is not None:
            return found
        held = {name: machine.broker.scheme.held() for name, machine in self.fleet.machines.items()}
        left = [
            f"{context} at {name}"
            for name, contexts in held.items()
            for context in contexts
            if context.client == "mover" and name != self.mover.at and not self._is_expected(name, context)
        ]
        return f"left behind: {left}" if left else None

    def _is_expected(self, name: BrokerId, context: object) -> bool:
        """Whether this is a virtual consumer that the broker where the client is knows of."""
        assert self.mover.at is not None
        there, here = (
            self.fleet.machines[name].broker.scheme,
            self.fleet.machines[self.mover.at].broker.scheme,
        )
        assert isinstance(there, PreHandoff) and isinstance(here, PreHandoff)
        client = here.contexts[self.mover.device.name]  # type: ignore[index]
        virtual, attempt = there.virtual.get(client.client), here.preforwarding.of(client).get(name)
        is_known = virtual is not None and attempt is not None and virtual.attempt == attempt.number
        return is_known and virtual is not None and virtual.context is context


def count_served_at_once(count: Counter[str]) -> None:
    """Count from now on how clients are served that replace their virtual consumers."""
    was_told = VirtualConsumer.was_told

    def counted(self: VirtualConsumer, ticket: Ticket | None) -> bool:
        is_told = was_told(self, ticket)
        count["at once" if is_told else "asked"] += 1
        return is_told

    VirtualConsumer.was_told = counted  # type: ignore[method-assign]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.net.borders", description=__doc__)
    parser.add_argument("--rides", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kills", type=float, default=KILL, help="how often a step is followed by a kill")
    options = parser.parse_args()
    count: Counter[str] = Counter()
    count_served_at_once(count)
    for seed in range(options.first, options.first + options.rides):
        ride = Ride(seed, options.kills)
        ride.run()
        count.update(kills=ride.kills, messages=len(ride.sent))
        if (fault := ride.fault()) is not None:
            count["rides that went wrong"] += 1
            repeat = f"python -m tests.net.borders --rides 1 --first {seed} --kills {options.kills}"
            sys.stdout.write(f"seed {seed}: {fault}\nrepeat: {repeat}\n")
    sys.stdout.write(f"{options.rides} rides, {dict(count)}\n")
    return 1 if count["rides that went wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
