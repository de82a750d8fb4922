"""The city of [DIS] section 5.2: leaf brokers side by side from west to east, and how its people move.

"The first few leaf brokers are located at the west end of the city, the next few in downtown and the last few in the
east end. Each broker services a 0.5km range, so the 64 brokers service a 32km wide city."
"""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated

from msgspec import Meta

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.sim.mobility import Mobility, Step, World, mobility_model
from roamq.sim.options import Seconds, doc

HOUR_S = 3600.0


def downtown(leaves: Sequence[BrokerId], count: int) -> Sequence[BrokerId]:
    """Returns the `count` brokers in the middle of the city."""
    if not 1 <= count <= len(leaves):
        raise ConfigError(f"downtown of {count} brokers: the city has {len(leaves)}")
    first = (len(leaves) - count) // 2
    return leaves[first : first + count]


@mobility_model("commute")
class Commute(Mobility, frozen=True):
    """[DIS] section 5.2.2, Table 3: everybody leaves work between 4 and 6 pm and reconnects at home.

    `clock_s` is the time of day at which the run begins, counted in seconds from midnight as all times here are.
    """

    clock_s: Annotated[Seconds, doc("time of day at which the run begins")] = 16 * HOUR_S
    leave_s: Annotated[tuple[float, float], doc("first and last moveout, time of day")] = (
        16 * HOUR_S,
        18 * HOUR_S,
    )
    work_brokers: Annotated[int, Meta(ge=1), doc("startbroker: one of so many downtown brokers")] = 20
    home_brokers: Annotated[int, Meta(ge=1), doc("endbroker of those who live near: downtown brokers")] = 30
    near_share: Annotated[float, Meta(ge=0, le=1), doc("share of people who live near")] = 0.4
    near_s: Annotated[tuple[float, float], doc("shortest and longest way of those who live near")] = (
        900.0,
        2700.0,
    )
    far_s: Annotated[tuple[float, float], doc("shortest and longest way of the others")] = (2700.0, 5400.0)

    def steps(self, client: int, world: World, rng: random.Random) -> Iterator[Step]:
        inner = downtown(world.leaves, self.home_brokers)
        yield Step(rng.random(), rng.choice(downtown(world.leaves, self.work_brokers)))
        moveout = max(rng.uniform(*self.leave_s) - self.clock_s, 2.0)  # nobody leaves before having come
        yield Step(moveout, None)
        if rng.random() < self.near_share:
            yield Step(moveout + rng.uniform(*self.near_s), rng.choice(inner))
        else:
            outer = [leaf for leaf in world.leaves if leaf not in set(inner)]
            yield Step(moveout + rng.uniform(*self.far_s), rng.choice(outer))


class Traveller(Mobility, frozen=True):
    """Alternates between staying and travelling east or west; subclasses say what the client does on the way."""

    stay_s: Annotated[tuple[float, float], doc("shortest and longest time at a place, connected")] = (
        600.0,
        1800.0,
    )
    travel_s: Annotated[tuple[float, float], doc("shortest and longest time on the way")] = (600.0, 1800.0)
    speeds_kmh: Annotated[tuple[float, ...], doc("one is chosen for each way")] = (5.0, 50.0, 100.0)
    cell_km: Annotated[float, Meta(gt=0), doc("how wide the range of a broker is")] = 0.5
    edge: Annotated[
        str,
        Meta(pattern="^(stop|turn|wrap|redraw)$"),
        doc(
            "what a traveller does at the city's edge: stop, turn around, wrap (go on at the other end), or redraw "
            "(draw journeys until one stays inside)"
        ),
    ] = "stop"
    spread_start: Annotated[bool, doc("begin anywhere in the first stay, not all together")] = True

    def steps(self, client: int, world: World, rng: random.Random) -> Iterator[Step]:
        leaves = world.leaves
        place = rng.randrange(len(leaves))
        time = rng.random()
        yield Step(time, leaves[place])
        stay = rng.uniform(*self.stay_s)
        time += stay * (rng.random() if self.spread_start else 1.0)
        while True:
            duration, speed, way = self.journey(place, len(leaves), rng)
            yield from self.travel(leaves, way, time, duration, speed)
            place = self.within(way[-1], len(leaves) - 1)
            time += duration + rng.uniform(*self.stay_s)

    def journey(self, place: int, places: int, rng: random.Random) -> tuple[float, float, range]:
        """Draws a journey from `place`: its duration, its speed, and the places on its way in a city without an edge,
        `place` first."""
        while True:
            duration = rng.uniform(*self.travel_s)
            speed = rng.choice(self.speeds_kmh) / HOUR_S
            direction = rng.choice((-1, 1))
            # From the middle of one broker's range to some point in another's.
            cells = int((speed * duration) / self.cell_km + 0.5)
            if self.edge != "redraw" or 0 <= place + direction * cells < places:
                return duration, speed, range(place, place + direction * (cells + 1), direction)

    def within(self, target: int, last: int) -> int:
        """Keeps a traveller in the city: at the edge it stops, turns around, or goes on at the other end."""
        if self.edge == "wrap":
            return target % (last + 1)
        if self.edge == "turn":
            there_and_back = target % (2 * last)
            return min(there_and_back, 2 * last - there_and_back)
        return min(max(target, 0), last)

    def travel(
        self,
        leaves: Sequence[BrokerId],
        way: Sequence[int],
        begin_s: float,
        duration_s: float,
        speed_km_s: float,
    ) -> Iterator[Step]:
        """Yields the steps from leaving the first place of `way` to connecting at its last, or where the edge led."""
        raise NotImplementedError


@mobility_model("random-travel")
class RandomTravel(Traveller, frozen=True):
    """[DIS] section 5.2.3: disconnected on the way, "speed together with a randomly chosen direction [...]
    determine the broker that the subscriber reconnects to"."""

    def travel(
        self,
        leaves: Sequence[BrokerId],
        way: Sequence[int],
        begin_s: float,
        duration_s: float,
        speed_km_s: float,
    ) -> Iterator[Step]:
        yield Step(begin_s, None)
        yield Step(begin_s + duration_s, leaves[self.within(way[-1], len(leaves) - 1)])


@mobility_model("pervasive-travel")
class PervasiveTravel(Traveller, frozen=True):
    """[DIS] section 5.2.4: connected on the way, "by connecting in turn to the intermediate brokers"."""

    gap_s: Annotated[Seconds, doc("how long a client is disconnected between two brokers on its way")] = 0.5

    def travel(
        self,
        leaves: Sequence[BrokerId],
        way: Sequence[int],
        begin_s: float,
        duration_s: float,
        speed_km_s: float,
    ) -> Iterator[Step]:
        places = (self.within(target, len(leaves) - 1) for target in way)
        for crossed, (here, there) in enumerate(pairwise(places)):
            if here != there:  # a traveller that has stopped at the edge crosses nothing more
                time = begin_s + (crossed + 0.5) * self.cell_km / speed_km_s
                yield Step(time, None)
                yield Step(time + self.gap_s, leaves[there])
