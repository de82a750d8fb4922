"""Workloads: who publishes what and when, and who subscribes to what.

Like a mobility model, a workload is a parameter group that draws from random streams of its own, so that changing
it does not change the moves. New ones register under a name and are chosen by `workload.model`.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, NamedTuple, TypeVar

from msgspec import Meta

from roamq.core.events import NO_ATTRIBUTES, BrokerId, Value
from roamq.core.filters import Filter
from roamq.sim.mobility import World
from roamq.sim.options import Options, Seconds, doc


class Publication(NamedTuple):
    """An event that a publisher publishes at `time_s`."""

    time_s: float
    topic: str
    attributes: Mapping[str, Value] = NO_ATTRIBUTES
    payload: bytes = b""
    lifetime_s: float | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.topic) + len(self.payload)


class Publisher(NamedTuple):
    """A publisher's broker, its advertisement, and its publications in order of time."""

    broker: BrokerId
    advertisements: tuple[Filter, ...]
    publications: Iterator[Publication]


def advertised_at(broker: BrokerId, publishers: Iterable[Publisher]) -> list[str] | None:
    """Returns topic filters of all events published at a broker; None if a publisher there advertises nothing."""
    here = [publisher.advertisements for publisher in publishers if publisher.broker == broker]
    if not all(here):
        return None
    return sorted({filter.topic for advertisements in here for filter in advertisements})


class Workload(Options, frozen=True):
    """Base of all workloads."""

    model: ClassVar[str]

    def subscriptions(self, client: int, world: World, rng: random.Random) -> list[Filter]:
        """Returns the filters that client number `client` subscribes to at its first connection."""
        raise NotImplementedError

    def publishers(self, world: World, stream: Callable[[str], random.Random]) -> list[Publisher]:
        """Returns all publishers; `stream(name)` is a random stream of its own for each purpose."""
        raise NotImplementedError


MODELS: dict[str, type[Workload]] = {}
_W = TypeVar("_W", bound=type[Workload])


def workload_model(name: str) -> Callable[[_W], _W]:
    """Class decorator: make a workload selectable as `workload.model = name`."""

    def decorate(model: _W) -> _W:
        model.model = name
        MODELS[name] = model
        return model

    return decorate


def periodic(
    rng: random.Random, begin_s: float, period_s: float, say: Callable[[float], Publication]
) -> Iterator[Publication]:
    """Publishes once every `period_s`, from a random phase after `begin_s`."""
    time = begin_s + rng.random() * period_s
    while True:
        yield say(time)
        time += period_s


def poisson(
    rng: random.Random, begin_s: float, rate: float, say: Callable[[float], Publication]
) -> Iterator[Publication]:
    """Publishes at random times, `rate` events per second on average."""
    time = begin_s
    while True:
        time += rng.expovariate(rate)
        yield say(time)


@workload_model("groups")
class Groups(Workload, frozen=True):
    """Publishers say things about `topics` subjects with a `value` from 0 to 99; a client wants a share of them.

    Each client picks a subject or all of them, and a range of values such that it wants about `share` of all.
    """

    publishers_count: Annotated[int, Meta(ge=1), doc("how many publishers")] = 1
    rate: Annotated[float, Meta(gt=0), doc("publications per second of each publisher")] = 5.0
    topics: Annotated[int, Meta(ge=1), doc("number of subjects")] = 5
    share: Annotated[float, Meta(gt=0, le=1), doc("fraction of all events that a client wants")] = 0.2
    payload_bytes: Annotated[int, Meta(ge=0), doc("size of a payload")] = 100
    begin_s: Annotated[Seconds, doc("when publishing begins")] = 5.0
    lifetime_s: Annotated[float | None, doc("how long an event is of use; None for ever")] = None
    regular: Annotated[bool, doc("publish at equal intervals, not at random")] = False

    def subscriptions(self, client: int, world: World, rng: random.Random) -> list[Filter]:
        if self.share * self.topics <= 1:
            width = max(1, round(100 * self.share * self.topics))
            low = rng.randrange(0, 101 - width)
            topic = f"news/{rng.randrange(self.topics)}"
        else:
            width = max(1, round(100 * self.share))
            low = rng.randrange(0, 101 - width)
            topic = "news/#"
        if width == 100:
            return [Filter.parse(topic)]
        return [Filter.parse(topic, f"value BETWEEN {low} AND {low + width - 1}")]

    def publishers(self, world: World, stream: Callable[[str], random.Random]) -> list[Publisher]:
        made = []
        for number in range(self.publishers_count):
            rng = stream(f"publisher/{number}")
            broker = rng.choice(world.leaves)
            payload = bytes(self.payload_bytes)

            def say(time: float, rng: random.Random = rng, payload: bytes = payload) -> Publication:
                topic = f"news/{rng.randrange(self.topics)}"
                return Publication(time, topic, {"value": rng.randrange(100)}, payload, self.lifetime_s)

            publications = (
                periodic(rng, self.begin_s, 1 / self.rate, say)
                if self.regular
                else poisson(rng, self.begin_s, self.rate, say)
            )
            made.append(Publisher(broker, (Filter.parse("news/#"),), publications))
        return made
