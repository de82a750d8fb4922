"""`python -m tests.net.kills [--kills 5000] [--minutes 8] [--seed 0] [--live]`: brokers fall while a client moves.

A publisher and a subscriber of QoS 2 roam through a network without sockets (`fleet.py`); at every step a broker may be
killed, and starts again from its journal. Nobody is made to begin anew, so that every message must come exactly once
and in order. A ride that fails prints what brokers recorded of the messages concerned, and the command to repeat it.
With `--live` the brokers are processes (`live_kills.py`): some 15 kills a minute. Rides follow one another until so
many brokers were killed, or so many minutes are over; the last line says what came of all of them.
"""

import argparse
import sys
import time
from collections import Counter

from tests.net import live_kills
from tests.net.fleet import Fleet
from tests.net.live_kills import DURABILITIES, Outcome

SCHEMES = ("standard", "proactive", "prefetching", "logging", "home-broker", "prehandoff")
KILL = 0.02
"""How often a step is followed by a kill."""


class Ride:
    """One client moves, another publishes, brokers fall."""

    def __init__(self, seed: int, scheme: str) -> None:
        self.fleet = Fleet(seed, scheme, 3 + seed % 2, handoff_timeout_s=1000.0)
        self.kills = 0
        self.sent: list[bytes] = []
        self._names = [str(name) for name in self.fleet.machines]
        self.mover, self.publisher = self.fleet.client("mover"), self.fleet.client("publisher")
        self._home = self._names[0]

    def run(self, moves: int = 12) -> None:
        fleet, chance = self.fleet, self.fleet.random
        self.publisher.connect(self._home)
        self.mover.connect(chance.choice(self._names))
        self.mover.subscribe("t/#", 2)
        fleet.settle()
        for _ in range(moves):
            for _ in range(chance.randrange(6)):
                self._come_back()
                self.sent.append(b"%d" % len(self.sent))
                self.publisher.publish("t/x", self.sent[-1], 2)
                self._steps(chance.randrange(8))
            self.mover.connect(chance.choice(self._names))
            self._steps(chance.randrange(40))
        for _ in range(3):
            self._come_back()
            fleet.settle()

    def _steps(self, count: int) -> None:
        for _ in range(count):
            self.fleet.step()
            if self.fleet.random.random() < KILL:
                self.kills += 1
                self.fleet.crash(self.fleet.random.choice(self._names))

    def _come_back(self) -> None:
        for client, at in ((self.publisher, self._home), (self.mover, None)):
            if client.at is None:
                client.connect(at or self.fleet.random.choice(self._names))

    def fault(self) -> str | None:
        """What came wrong, with the records of it."""
        got = self.mover.payloads()
        if got == self.sent:
            return None
        twice = [payload for payload, count in Counter(got).items() if count > 1]
        lost = [payload for payload in self.sent if payload not in set(got)]
        published = [record for record in self.fleet.records if record.kind == "published"]
        told = [
            f"sent {len(self.sent)}, got {len(got)}, twice {twice}, lost {lost}, in order {got == sorted(got, key=int)}"
        ]
        for payload in (*twice, *lost):
            for event in published[int(payload) : int(payload) + 1]:
                told += [
                    f"  {payload!r}: {record}"
                    for record in self.fleet.records
                    if (record.origin, record.sequence) == (event.origin, event.sequence)
                ]
        return "\n".join(told)


def ridden(seed: int, scheme: str) -> Outcome:
    ride = Ride(seed, scheme)
    ride.run()
    return Outcome(ride.kills, len(ride.sent), ride.fault())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.net.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no ride after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scheme", choices=SCHEMES, action="append")
    parser.add_argument("--durability", choices=DURABILITIES, help="of live brokers; default: in turns")
    parser.add_argument("--live", action="store_true")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    kills = rides = messages = failed = 0
    falls: Counter[int] = Counter()
    seed, schemes = options.seed, options.scheme or SCHEMES
    while kills < options.kills and time.monotonic() < end:
        scheme = schemes[rides % len(schemes)]
        done = live_kills.ride(seed, scheme, options.durability) if options.live else ridden(seed, scheme)
        kills, rides, messages = kills + done.kills, rides + 1, messages + done.messages
        falls += done.falls
        if options.live:
            print(f"{scheme}, seed {seed}: {kills} kills so far", flush=True)
        if done.fault is not None:
            failed += 1
            more = " --live" if options.live else ""
            more += f" --durability {options.durability}" if options.durability else ""
            repeat = f"python -m tests.net.kills --kills 1 --seed {seed} --scheme {scheme}{more}"
            print(f"{scheme}, seed {seed}: {done.fault}\nrepeat: {repeat}", flush=True)
        if not rides % len(schemes):
            seed += 1
    at_once = ", ".join(f"{count} times {brokers}" for brokers, count in sorted(falls.items()))
    at_once = f" ({at_once} at once)" if at_once else ""
    print(f"{rides:,} rides, {messages:,} messages, {kills:,} kills{at_once}, {failed} rides that went wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
