"""Rides in which several brokers join in the same moment: `python -m tests.net.at_once --rides 100`.

While they join, what some brokers of the core have for others takes long, so that each hears of the newcomers at its
own time; and time passes, so that hand-overs go without what is late. The client roams to one newcomer, a publisher to
another and publishes at once. All comes, once at QoS 2, and in order of a publisher that stays. Brokers leave and begin
anew beside it.
"""

import argparse
from collections import Counter
from collections.abc import Callable

from roamq.core.events import BrokerId, ClientId
from roamq.core.late import late_origins, stands_for_unknown
from tests.net.growing import GrowingFleet
from tests.net.growing import Ride as GrowingRide

SCHEMES = ("standard", "proactive", "logging", "prefetching", "prehandoff")
OVERLAYS = ("flooding", "interest")
NAMES = ("a", "m", "z")


class SlowFleet(GrowingFleet):
    """Frames from some brokers to others take as long as the test likes."""

    def __init__(self, seed: int, scheme: str, brokers: int = 3, **settings: object) -> None:
        self.slow: set[tuple[BrokerId, BrokerId]] = set()
        super().__init__(seed, scheme, brokers, handoff_timeout_s=1000.0, **settings)  # type: ignore[arg-type]

    def is_open(self, source: BrokerId, target: BrokerId) -> bool:
        return super().is_open(source, target) and (source, target) not in self.slow

    def set_slow(self, *pairs: tuple[str, str]) -> None:
        """Of these links, and of no others."""
        self.slow = {(BrokerId(source), BrokerId(target)) for source, target in pairs}

    def run(self, is_enough: Callable[[], bool]) -> None:
        """Time passes until something is so."""
        for _ in range(20_000):
            if is_enough():
                return
            if not self.step():
                self.now = max(self.now, min(self.later(30)))
        raise AssertionError("it does not come to that")

    def wait(self, for_s: float) -> None:
        until = self.now + for_s
        self.run(lambda: self.now >= until or not (self.choices() or self.later(30)))


class Ride(GrowingRide):
    """Brokers join in twos and threes, and clients go there at once."""

    fleet: SlowFleet

    def __init__(self, seed: int, scheme: str, *, overlay: str, moves: int = 14) -> None:
        self.count: Counter[str] = Counter()
        """What happened, by its name."""
        super().__init__(seed, scheme, faults=True, overlay=overlay, moves=moves)

    def fleet_of(self, seed: int, scheme: str, overlay: str) -> GrowingFleet:
        fleet = SlowFleet(seed, scheme, 3 + seed % 3, overlay=overlay)
        self.may_depart = fleet.machines[fleet.core[0]].broker.scheme.lets_brokers_depart
        return fleet

    def _change(self) -> None:
        fleet = self.fleet
        edges = [name for name in fleet.serving if name not in fleet.core]
        match self.random.randrange(8):
            case 0 | 1 | 2 | 3 if not edges:
                self._join_at_once()
            case 4 if edges and self.may_depart:
                fleet.leave(self.random.choice(edges))
            case 5:
                fleet.slow.clear()
            case 6:
                fleet.crash(self.random.choice(list(fleet.machines)))
            case 7 if self.may_depart and len(up := [one for one in fleet.core if one in fleet.serving]) > 1:
                fleet.leave(self.random.choice(up), "empty")

    def _join_at_once(self) -> None:
        fleet = self.fleet
        known = fleet.machines[fleet.core[0]].membership.members
        free = [name for name in NAMES if BrokerId(name) not in fleet.machines]
        usable = [name for name in free if BrokerId(name) not in known or self._all_know_gone(name)]
        names = self.random.sample(usable, min(len(usable), self.random.choice((2, 2, 3))))
        up = [name for name in fleet.core if name not in fleet.going]
        if not up or not names:
            return
        between = self.random.choice(up)
        inner = [pair for pair in fleet.links if set(pair) <= set(fleet.core)]
        fleet.slow = {pair for pair in inner if self.random.random() < (0.85 if between in pair else 0.15)}
        for name in names:
            drawn = [self.random.choice(up) for _ in range(self.random.randrange(3))]
            at = sorted({between, *drawn})
            fleet.join(name, *at, asked=self.random.choice([*at, *drawn]))
            self.count["joins"] += 1
        self._steps(150)
        newcomers = [BrokerId(name) for name in names if BrokerId(name) in fleet.serving]
        self.random.shuffle(newcomers)
        if len(newcomers) > 1:
            self.publishers[1].connect(newcomers[0])
            self._steps(30)
            self._publish()
            self.mover.connect(newcomers[1])
            self._steps(60)
            if self.random.random() < 0.8:
                fleet.now += 1.5  # longer than a hand-over waits
                self._steps(60)
            self._publish()
            self.count["moves to newcomers"] += 1
            self.count["before all had heard"] += self._is_open(newcomers[1])
        fleet.slow = {pair for pair in inner if pair in fleet.slow and self.random.random() < 0.5}
        self._publish()

    def _is_open(self, at: BrokerId) -> bool:
        """Whether the client's session has come without events of brokers that nobody had heard of where it was."""
        context = self.fleet.machines[at].broker.contexts.get(ClientId("mover"))
        return context is not None and any(map(stands_for_unknown, late_origins(context)))

    def _steps(self, at_most: int) -> None:
        for _ in range(self.random.randrange(at_most // 2, at_most)):
            self.fleet.step()

    def _settle(self) -> None:
        self.fleet.slow.clear()
        super()._settle()
        self.fleet.settle(60_000)  # a broker may have begun anew in the last moment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rides", type=int, default=100, help="for each scheme and overlay")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--overlay", action="append", choices=OVERLAYS)
    parser.add_argument("--go-on", action="store_true", help="after a ride that went wrong")
    options = parser.parse_args()
    count: Counter[str] = Counter()
    wrong = 0
    for seed in range(options.first, options.first + options.rides):
        for scheme in SCHEMES:
            for overlay in options.overlay or OVERLAYS:
                try:
                    ride = Ride(seed, scheme, overlay=overlay)
                    count["messages"] += ride.check()
                except Exception as error:
                    wrong += 1
                    print(f"seed {seed}, {scheme}, {overlay}: {type(error).__name__}: {error}", flush=True)  # noqa: T201
                    if not options.go_on:
                        raise
                    continue
                count += ride.count
                count["rides"] += 1
    told = ", ".join(f"{number:,} {what}" for what, number in count.items())
    print(f"{told}; {wrong} rides went wrong")  # noqa: T201 - a command
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
