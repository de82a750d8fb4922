"""A workload of sites: at each broker somebody publishes about that broker's site, and clients want some sites."""

import random
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from roamq.core.filters import Filter
from roamq.sim.mobility import World
from roamq.sim.options import Seconds, doc
from roamq.sim.workload import Publication, Publisher, Workload, poisson, workload_model


@workload_model("sites")
class Sites(Workload, frozen=True):
    """The publisher at broker b publishes on the topic `site/b`. A client wants the topics of some sites, drawn at
    random, or of all."""

    wanted: Annotated[int, Meta(ge=0), doc("how many sites a client wants; 0: all")] = 1
    rate: Annotated[float, Meta(gt=0), doc("publications per second of each publisher")] = 1.0
    payload_bytes: Annotated[int, Meta(ge=0), doc("size of a payload")] = 100
    begin_s: Annotated[Seconds, doc("when publishing begins")] = 5.0

    def subscriptions(self, client: int, world: World, rng: random.Random) -> list[Filter]:
        if not self.wanted:
            return [Filter.parse("site/#")]
        count = min(self.wanted, len(world.brokers))
        return [Filter.parse(f"site/{broker}") for broker in rng.sample(world.brokers, count)]

    def publishers(self, world: World, stream: Callable[[str], random.Random]) -> list[Publisher]:
        made = []
        for broker in world.brokers:
            topic, payload = f"site/{broker}", bytes(self.payload_bytes)

            def say(time: float, topic: str = topic, payload: bytes = payload) -> Publication:
                return Publication(time, topic, payload=payload)

            publications = poisson(stream(f"publisher/{broker}"), self.begin_s, self.rate, say)
            made.append(Publisher(broker, (Filter(topic),), publications))
        return made
