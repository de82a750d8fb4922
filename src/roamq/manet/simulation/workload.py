"""What nodes detect and what they subscribe to: the Number Interval model ([DRIP] section VI-A2).

An event is an integer in [1, 100]. A subscription is an interval, with a uniform center and a length from a normal
distribution with mean 5 and variance 2; half of the nodes subscribe. Events occur as a Poisson process, and the node
that detects one is drawn in proportion to the detecting abilities, which follow a power law. It is drawn among all
nodes (`detections`), or among those near the place where the event occurs (`occurrences`): the paper can be read in
both ways (docs/drip.md, choice 0096).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.manet.protocol.messages import NodeId
from roamq.manet.protocol.subscriptions import name_of

TOPIC = "number"
LOWEST, HIGHEST = 1, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberInterval:
    """The parameters of the workload. We chose the exponent and the size of events; the others are the paper's."""

    events_per_s: float = 0.8
    subscribing: float = 0.5
    length_mean: float = 5.0
    length_variance: float = 2.0
    ability_exponent: float = 2.0
    """P(ability > x) = x ** (1 - exponent): the probability density falls with this power."""
    event_bytes: int = 512
    sensing_m: float = 120.0
    """How near a node must be to detect an event that has a place."""

    def __post_init__(self) -> None:
        if self.events_per_s <= 0 or not 0 <= self.subscribing <= 1 or self.ability_exponent <= 1:
            raise ConfigError(
                f"needs events_per_s > 0, 0 <= subscribing <= 1 and ability_exponent > 1, got {self}"
            )
        if self.sensing_m <= 0:
            raise ConfigError(f"sensing_m must be positive, got {self.sensing_m}")


class Detection(NamedTuple):
    """At this time this node detects this event."""

    time_s: Seconds
    node: NodeId
    event: Event


class Occurrence(NamedTuple):
    """At this time an event with this value occurs at this place; nobody may be near enough to detect it."""

    time_s: Seconds
    place: tuple[float, float]
    """The shares of the field's width and height."""
    luck: float
    """A uniform number that decides which of the nodes near the place detects the event."""
    value: int


def abilities(nodes: int, workload: NumberInterval, random: np.random.Generator) -> list[float]:
    """The detecting ability of each node, Pareto distributed, at least 1."""
    drawn: list[float] = (1.0 + random.pareto(workload.ability_exponent - 1.0, size=nodes)).tolist()
    return drawn


def subscriptions(
    nodes: int, workload: NumberInterval, random: np.random.Generator
) -> list[tuple[Filter, ...]]:
    """The filters of each node: one interval for a subscriber, none for others. A negative length is drawn again."""
    wanted: list[tuple[Filter, ...]] = []
    for _ in range(nodes):
        subscribes = random.random() < workload.subscribing
        center = random.uniform(LOWEST, HIGHEST)
        length = -1.0
        while length < 0.0:
            length = random.normal(workload.length_mean, workload.length_variance**0.5)
        low, high = max(LOWEST, center - length / 2), min(HIGHEST, center + length / 2)
        wanted.append((Filter.parse(TOPIC, f"value BETWEEN {low:.6f} AND {high:.6f}"),) if subscribes else ())
    return wanted


def detections(
    ability: list[float],
    workload: NumberInterval,
    begin: Seconds,
    end: Seconds,
    random: np.random.Generator,
) -> Iterator[Detection]:
    """The events in order of time. Each node numbers the events that it detects."""
    share = np.cumsum(ability) / np.sum(ability)
    detected = [0] * len(ability)
    time = begin
    while (time := time + random.exponential(1.0 / workload.events_per_s)) < end:
        node = drawn_by_share(share, random.random())
        value = int(random.integers(LOWEST, HIGHEST + 1))
        detected[node] += 1
        yield Detection(time, node, event_of(node, detected[node], value, time, workload))


def occurrences(
    workload: NumberInterval, begin: Seconds, end: Seconds, random: np.random.Generator
) -> Iterator[Occurrence]:
    """The events in order of time, each at a uniform place of the field."""
    time = begin
    while (time := time + random.exponential(1.0 / workload.events_per_s)) < end:
        across, up, luck = random.random(3).tolist()
        yield Occurrence(time, (across, up), luck, int(random.integers(LOWEST, HIGHEST + 1)))


def drawn_by_share(share: NDArray[np.float64], luck: float) -> int:
    """The index that a uniform number falls on; `share` ascends to 1."""
    return int(np.searchsorted(share, luck, side="right"))


def event_of(node: NodeId, number: int, value: int, time: Seconds, workload: NumberInterval) -> Event:
    """The event that this node detects as its `number`-th."""
    return Event(
        id=EventId(BrokerId(name_of(node)), number),
        topic=TOPIC,
        attributes={"value": value},
        payload=bytes(workload.event_bytes),
        published_at=time,
        publisher=ClientId(name_of(node)),
    )
