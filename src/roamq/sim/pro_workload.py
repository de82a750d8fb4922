"""The workload of [PRO] section 5.1: one publisher that does not pause, subscribers that want 20% each."""

import random
from collections.abc import Callable, Iterator
from typing import Annotated

from msgspec import Meta

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.sim.mobility import World
from roamq.sim.options import Seconds, doc
from roamq.sim.workload import Publication, Publisher, Workload, workload_model

VALUES = 100


@workload_model("testbed")
class Testbed(Workload, frozen=True):
    """One publisher and content-based subscribers; with `sleep_s` = 0 it publishes as fast as it is let.

    What an event is about is a number from 0 to 99; a subscriber wants a range of them, so that about `share` of
    all events match and neighbors in the range have interests in common.
    """

    publisher: Annotated[str, doc("the broker that the publisher is connected to")] = "b6"
    sleep_s: Annotated[
        Seconds, doc("pause between two publications; 0: flow control alone sets the pace")
    ] = 0.0
    share: Annotated[float, Meta(gt=0, le=1), doc("fraction of all events that a subscriber wants")] = 0.2
    payload_bytes: Annotated[int, Meta(ge=0), doc("size of a payload")] = 5000
    begin_s: Annotated[Seconds, doc("when publishing begins")] = 5.0

    def subscriptions(self, client: int, world: World, rng: random.Random) -> list[Filter]:
        width = max(1, round(VALUES * self.share))
        low = rng.randrange(VALUES)
        high = low + width - 1
        if high < VALUES:
            return [Filter.parse("news", f"value BETWEEN {low} AND {high}")]
        # Ranges may go around the end, so that every value is equally wanted.
        return [
            Filter.parse("news", f"value >= {low}"),
            Filter.parse("news", f"value <= {high - VALUES}"),
        ]

    def publishers(self, world: World, stream: Callable[[str], random.Random]) -> list[Publisher]:
        if self.publisher not in world.brokers:
            raise ConfigError(f"workload.publisher: {self.publisher!r} is not a broker of the network")
        publications = self._publications(stream("publisher"))
        return [Publisher(BrokerId(self.publisher), (Filter.parse("news"),), publications)]

    def _publications(self, rng: random.Random) -> Iterator[Publication]:
        time, payload = self.begin_s, bytes(self.payload_bytes)
        while True:
            yield Publication(time, "news", {"value": rng.randrange(VALUES)}, payload)
            time += self.sleep_s
