"""What the people of [DIS] section 5.2 publish and subscribe to.

27 kinds of events, told apart by three levels of a topic: `news/0/0/0` to `news/2/2/2`. "The first 27 of these
subscriptions exactly match one of the 27 publications. Of the remaining subscriptions, 9 match 3 publications each,
3 match 9 publications each, and one matches all publications."
"""

import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Annotated, Final

from msgspec import Meta

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.sim.city import downtown
from roamq.sim.mobility import World
from roamq.sim.options import doc
from roamq.sim.workload import Publication, Publisher, Workload, periodic, workload_model

EVENTS: Final = tuple(f"news/{a}/{b}/{c}" for a, b, c in product(range(3), repeat=3))
EXACT: Final = tuple(Filter.parse(topic) for topic in EVENTS)
SUBSCRIPTIONS: Final = (
    *EXACT,
    *(Filter.parse(f"news/{a}/{b}/+") for a, b in product(range(3), repeat=2)),
    *(Filter.parse(f"news/{a}/#") for a in range(3)),
    Filter.parse("news/#"),
)
"""The 40 subscriptions: by how many of the 27 events they match, 1, 3, 9 or all."""


@workload_model("city-news")
class CityNews(Workload, frozen=True):
    """[DIS] Table 2: 100 publishers, each of which publishes one of 27 events once a minute."""

    publishers_count: Annotated[int, Meta(ge=1), doc("how many publishers")] = 100
    period_s: Annotated[float, Meta(gt=0), doc("how often each publishes its event")] = 60.0
    publisher_brokers: Annotated[
        int | None, doc("publishers are at one of so many downtown brokers; None: anywhere")
    ] = None
    subscription_count: Annotated[
        int, Meta(ge=1, le=40), doc("subscribers choose among the first so many of the 40")
    ] = 40
    locality: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        doc("share of subscribers with one identical interest; None: everybody chooses alike"),
    ] = None
    begin_s: Annotated[float, Meta(ge=0), doc("when publishing begins")] = 5.0
    payload_bytes: Annotated[int, Meta(ge=0), doc("size of a payload")] = 100

    def subscriptions(self, client: int, world: World, rng: random.Random) -> list[Filter]:
        choices = SUBSCRIPTIONS[: self.subscription_count]
        if self.locality is None:
            return [rng.choice(choices)]
        # "x% of the subscribers have identical interest and the remaining have a disjoint and random interest"
        return [choices[0] if rng.random() < self.locality else rng.choice(choices[1:])]

    def publishers(self, world: World, stream: Callable[[str], random.Random]) -> list[Publisher]:
        places = world.leaves
        if self.publisher_brokers is not None:
            places = tuple(downtown(world.leaves, self.publisher_brokers))
        return [self._publisher(places, stream(f"publisher/{n}")) for n in range(self.publishers_count)]

    def _publisher(self, places: tuple[BrokerId, ...], rng: random.Random) -> Publisher:
        broker = rng.choice(places)
        number = rng.randrange(len(EVENTS))
        payload = bytes(self.payload_bytes)

        def say(time: float) -> Publication:
            return Publication(time, EVENTS[number], payload=payload)

        publications: Iterator[Publication] = periodic(rng, self.begin_s, self.period_s, say)
        return Publisher(broker, (EXACT[number],), publications)
