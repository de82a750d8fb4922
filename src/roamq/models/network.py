"""Networks of queueing centres: one path from publisher to subscriber, or all paths of a network at once.

Paper: [TIME] section 3.2 and Algorithm 1: a publisher is an ON/OFF centre, a broker on the way an `in` and
an `out` centre, the subscriber's home broker an `in` centre and the subscriber's ON/OFF centre, the
subscriber itself a last centre. Algorithm 1 takes the other flows' rates as given; `PubSubNetwork` derives
them from topology, topics and subscriptions.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise

from roamq.models.phase_type import MatrixExponential
from roamq.models.queueing import Centre


@dataclass(frozen=True, slots=True)
class Path:
    """The centres an event passes, in order. They are taken as independent, as queueing networks are."""

    centres: tuple[Centre, ...]

    @property
    def saturated(self) -> list[Centre]:
        return [centre for centre in self.centres if centre.is_saturated]

    @property
    def bottleneck(self) -> Centre:
        return max(self.centres, key=lambda centre: centre.utilisation)

    def response_s(self) -> float:
        """Mean end-to-end response time; raises `SaturationError` for the most loaded centre if one is."""
        if self.saturated:
            return self.bottleneck.response_s()
        return sum(centre.response_s() for centre in self.centres)

    def response_distribution(self) -> MatrixExponential:
        if self.saturated:
            return self.bottleneck.response_distribution()
        parts = (centre.response_distribution() for centre in self.centres)
        return reduce(lambda before, part: before.then(part), parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    name: str
    broker: str
    rates: Mapping[str, float]
    """Topic -> events per second."""
    demand_s: float
    """To transmit one event to the broker."""
    t_on_s: float = float("inf")
    t_off_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    name: str
    broker: str
    topics: Sequence[str]
    demand_s: float
    """To transmit one event from the home broker."""
    processing_s: float
    """To process one event on the device."""
    t_on_s: float = float("inf")
    t_off_s: float = 0.0


def compose_path(
    publisher: Publisher,
    brokers: Sequence[str],
    subscriber: Subscriber,
    *,
    rate: float,
    demand_in_s: float,
    demand_out_s: float,
    other_rates: Mapping[str, float] | None = None,
) -> Path:
    """Algorithm 1: the queueing network of one path. `other_rates` is by name of the centre."""
    if not brokers:
        raise ValueError("brokers: a path needs at least one")
    others = other_rates or {}

    def centre(name: str, demand_s: float, peer: Publisher | Subscriber | None = None) -> Centre:
        made = Centre(name=name, rate=rate, demand_s=demand_s, other_rate=others.get(name, 0.0))
        return made if peer is None else replace(made, t_on_s=peer.t_on_s, t_off_s=peer.t_off_s)

    centres = [centre(_publisher(publisher.name), publisher.demand_s, publisher)]
    for broker, following in pairwise(brokers):
        centres.append(centre(_in(broker), demand_in_s))
        centres.append(centre(_out(broker, following), demand_out_s))
    centres.append(centre(_in(brokers[-1]), demand_in_s))
    centres.append(centre(_to(brokers[-1], subscriber.name), subscriber.demand_s, subscriber))
    centres.append(centre(_subscriber(subscriber.name), subscriber.processing_s))
    return Path(tuple(centres))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What a subscriber gets from a publisher."""

    publisher: str
    subscriber: str
    rate: float
    response_s: float | None
    """None if a centre on the path is saturated."""
    saturated_by: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PubSubNetwork:
    """All publishers, subscribers and brokers; events take shortest paths and cross a link once."""

    links: Mapping[str, Sequence[str]]
    """Broker -> its neighbors."""
    publishers: Sequence[Publisher]
    subscribers: Sequence[Subscriber]
    demand_in_s: float
    demand_out_s: float
    _toward: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        peers: list[Publisher | Subscriber] = [*self.publishers, *self.subscribers]
        for peer in peers:
            if peer.broker not in self.links:
                raise ValueError(f"{peer.name}: broker {peer.broker} is not in links")
        for broker, neighbors in self.links.items():
            for neighbor in neighbors:
                if neighbor not in self.links:
                    raise ValueError(f"links: {broker} names {neighbor}, which is not a broker")

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """Events per second at every centre, by its name."""
        rates: defaultdict[str, float] = defaultdict(float)
        homes: defaultdict[str, set[str]] = defaultdict(set)
        by_topic: defaultdict[str, list[Subscriber]] = defaultdict(list)
        for subscriber in self.subscribers:
            for topic in dict.fromkeys(subscriber.topics):
                homes[topic].add(subscriber.broker)
                by_topic[topic].append(subscriber)
        published: defaultdict[tuple[str, str], float] = defaultdict(float)
        for publisher in self.publishers:
            rates[_publisher(publisher.name)] += sum(publisher.rates.values())
            for topic, rate in publisher.rates.items():
                published[publisher.broker, topic] += rate
        for (source, topic), rate in published.items():
            # An event is processed where it enters even if nobody wants it, and crosses each link once.
            crossed = {link for home in homes[topic] for link in self._links_on_path(source, home)}
            for broker in {source, *(after for _, after in crossed)}:
                rates[_in(broker)] += rate
            for before, after in crossed:
                rates[_out(before, after)] += rate
            for subscriber in by_topic[topic]:
                rates[_to(subscriber.broker, subscriber.name)] += rate
                rates[_subscriber(subscriber.name)] += rate
        return dict(rates)

    def flow(self, publisher: Publisher, subscriber: Subscriber) -> float:
        """lambda_ps: the rate of events from this publisher that this subscriber wants."""
        wanted = set(subscriber.topics)
        return sum(rate for topic, rate in publisher.rates.items() if topic in wanted)

    def path(self, publisher: Publisher, subscriber: Subscriber) -> Path:
        """Algorithm 1 for one pair, loaded by everything else in the network."""
        rate = self.flow(publisher, subscriber)
        return compose_path(
            publisher,
            self.route(publisher.broker, subscriber.broker),
            subscriber,
            rate=rate,
            demand_in_s=self.demand_in_s,
            demand_out_s=self.demand_out_s,
            other_rates={name: max(0.0, total - rate) for name, total in self.rates.items()},
        )

    def pairs(self) -> list[Pair]:
        """Every publisher and subscriber that share a topic."""
        found = []
        for publisher in self.publishers:
            for subscriber in self.subscribers:
                rate = self.flow(publisher, subscriber)
                if rate == 0:
                    continue
                path = self.path(publisher, subscriber)
                names = tuple(centre.name for centre in path.saturated)
                found.append(
                    Pair(
                        publisher=publisher.name,
                        subscriber=subscriber.name,
                        rate=rate,
                        response_s=None if names else path.response_s(),
                        saturated_by=names,
                    )
                )
        return found

    def route(self, source: str, target: str) -> list[str]:
        toward = self._tree(target)
        if source not in toward:
            raise ValueError(f"links: no way leads from {source} to {target}")
        route = [source]
        while route[-1] != target:
            route.append(toward[route[-1]])
        return route

    def _links_on_path(self, source: str, target: str) -> list[tuple[str, str]]:
        """Along the tree rooted at `source`, so that paths to several targets share their links."""
        toward = self._tree(source)
        if target not in toward:
            raise ValueError(f"links: no way leads from {source} to {target}")
        links = []
        while target != source:
            links.append((toward[target], target))
            target = toward[target]
        return links

    def _tree(self, root: str) -> dict[str, str]:
        """Each broker -> the next one on the way to `root`; kept, for every path asks for it."""
        if root not in self._toward:
            toward = {root: root}
            queue = deque([root])
            while queue:
                here = queue.popleft()
                for neighbor in self.links[here]:
                    if neighbor not in toward:
                        toward[neighbor] = here
                        queue.append(neighbor)
            self._toward[root] = toward
        return self._toward[root]


def _publisher(name: str) -> str:
    return f"publisher {name}"


def _subscriber(name: str) -> str:
    return f"subscriber {name}"


def _in(broker: str) -> str:
    return f"{broker} in"


def _out(broker: str, following: str) -> str:
    return f"{broker} out to {following}"


def _to(broker: str, subscriber: str) -> str:
    return f"{broker} to {subscriber}"
