"""Networks of queueing centres: one path from publisher to subscriber, or all paths of a network at once.

Paper: [TIME] section 3.2 and Algorithm 1: a publisher is an ON/OFF centre, a broker on the way an `in` and
an `out` centre, the subscriber's home broker an `in` centre and the subscriber's ON/OFF centre, the
subscriber itself a last centre. Algorithm 1 takes the other flows' rates as given; `PubSubNetwork` derives
them from topology, topics and subscriptions.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import Final

from roamq.models.phase_type import MatrixExponential
from roamq.models.queueing import Centre

OVERLAYS: Final = ("flooding", "hierarchy", "advertisements")
"""Flooding: every event to every broker. Hierarchy: up to the root (the first broker), and down where somebody wants
it. Advertisements: only to where somebody wants it."""


@dataclass(frozen=True, slots=True)
class EndToEndPath:
    """The centres that an event passes, in order; taken as independent, as is usual for queueing networks."""

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
class PublishingPeer:
    """A publisher, the broker it publishes at, and how long it is connected and disconnected on average."""

    name: str
    broker: str
    rates: Mapping[str, float]
    """Topic -> events per second."""
    demand_s: float
    """To transmit one event to the broker."""
    t_on_s: float = float("inf")
    t_off_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribingPeer:
    """A subscriber, its home broker, and how long it is connected and disconnected on average."""

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
    publisher: PublishingPeer,
    brokers: Sequence[str],
    subscriber: SubscribingPeer,
    *,
    rate: float,
    demand_in_s: float,
    demand_out_s: float,
    other_rates: Mapping[str, float] | None = None,
    total_rates: Mapping[str, float] | None = None,
    demands_s: Mapping[str, tuple[float, float]] | None = None,
) -> EndToEndPath:
    """Algorithm 1: the queueing network of one path.

    `other_rates`, or in its place `total_rates` with this path's own rate in it, is by name of the centre. `demands_s`
    has the brokers that are faster or slower than the others: (per event, per event sent on).
    """
    if not brokers:
        raise ValueError("brokers: a path needs at least one")
    others = other_rates or {}

    def centre(name: str, demand_s: float, peer: PublishingPeer | SubscribingPeer | None = None) -> Centre:
        other_rate = others.get(name, 0.0) if total_rates is None else _beside(name, total_rates, rate)
        always_on = Centre(name=name, rate=rate, demand_s=demand_s, other_rate=other_rate)
        return always_on if peer is None else replace(always_on, t_on_s=peer.t_on_s, t_off_s=peer.t_off_s)

    centres = [centre(_publisher(publisher.name), publisher.demand_s, publisher)]
    own, usual = demands_s or {}, (demand_in_s, demand_out_s)
    for broker, following in pairwise(brokers):
        in_s, out_s = own.get(broker, usual)
        centres.append(centre(_in(broker), in_s))
        centres.append(centre(_out(broker, following), out_s))
    centres.append(centre(_in(brokers[-1]), own.get(brokers[-1], usual)[0]))
    centres.append(centre(_to(brokers[-1], subscriber.name), subscriber.demand_s, subscriber))
    centres.append(centre(_subscriber(subscriber.name), subscriber.processing_s))
    return EndToEndPath(tuple(centres))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherToSubscriber:
    """The rate and the response time from one publisher to one subscriber."""

    publisher: str
    subscriber: str
    rate: float
    response_s: float | None
    """None if a centre on the path is saturated."""
    saturated_by: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PubSubNetwork:
    """All publishers, subscribers and brokers.

    An event follows the shortest-path tree of the broker where it enters; among equally short paths, the one through
    the lexically first neighbor. The brokers' overlay has the same rule, so that load and path are those of the
    brokers. An event crosses a link at most once.
    """

    links: Mapping[str, Sequence[str]]
    """Broker -> its neighbors."""
    publishers: Sequence[PublishingPeer]
    subscribers: Sequence[SubscribingPeer]
    demand_in_s: float
    demand_out_s: float
    demands_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Broker -> its own times per event and per event sent on, where it is not as fast as the others."""
    overlay: str = "advertisements"
    """One of `OVERLAYS`: which brokers an event passes beside those that lead to somebody who wants it."""
    _toward: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.overlay not in OVERLAYS:
            raise ValueError(f"overlay: unknown {self.overlay}; known are {', '.join(OVERLAYS)}")
        _require_own_names("publishers", [peer.name for peer in self.publishers])
        _require_own_names("subscribers", [peer.name for peer in self.subscribers])
        peers: list[PublishingPeer | SubscribingPeer] = [*self.publishers, *self.subscribers]
        for peer in peers:
            if peer.broker not in self.links:
                raise ValueError(f"{peer.name}: broker {peer.broker} is not in links")
        for broker in self.demands_s:
            if broker not in self.links:
                raise ValueError(f"brokers: {broker} is not in links")
        for broker, neighbors in self.links.items():
            for neighbor in neighbors:
                if neighbor not in self.links:
                    raise ValueError(f"links: {broker} names {neighbor}, which is not a broker")
        if self.overlay == "hierarchy" and not self._is_tree():
            raise ValueError("overlay: a hierarchy needs links that form a tree; use flooding otherwise")

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """Events per second at every centre, by its name."""
        rates: defaultdict[str, float] = defaultdict(float)
        homes: defaultdict[str, set[str]] = defaultdict(set)
        by_topic: defaultdict[str, list[SubscribingPeer]] = defaultdict(list)
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
            targets = {*homes[topic], *self._always(source)}
            crossed = {link for target in targets for link in pairwise(self.route(source, target))}
            for broker in {source, *(after for _, after in crossed)}:
                rates[_in(broker)] += rate
            for before, after in crossed:
                rates[_out(before, after)] += rate
            for subscriber in by_topic[topic]:
                rates[_to(subscriber.broker, subscriber.name)] += rate
                rates[_subscriber(subscriber.name)] += rate
        return dict(rates)

    def flow(self, publisher: PublishingPeer, subscriber: SubscribingPeer) -> float:
        """lambda_ps: the rate of events from this publisher that this subscriber wants."""
        wanted = set(subscriber.topics)
        return sum(rate for topic, rate in publisher.rates.items() if topic in wanted)

    def path(self, publisher: PublishingPeer, subscriber: SubscribingPeer) -> EndToEndPath:
        """Algorithm 1 for one pair, loaded by everything else in the network."""
        rate = self.flow(publisher, subscriber)
        return compose_path(
            publisher,
            self.route(publisher.broker, subscriber.broker),
            subscriber,
            rate=rate,
            demand_in_s=self.demand_in_s,
            demand_out_s=self.demand_out_s,
            total_rates=self.rates,
            demands_s=self.demands_s,
        )

    def pairs(self) -> list[PublisherToSubscriber]:
        """Every publisher and subscriber that share a topic."""
        answers = []
        for publisher in self.publishers:
            for subscriber in self.subscribers:
                rate = self.flow(publisher, subscriber)
                if rate == 0:
                    continue
                path = self.path(publisher, subscriber)
                names = tuple(centre.name for centre in path.saturated)
                answers.append(
                    PublisherToSubscriber(
                        publisher=publisher.name,
                        subscriber=subscriber.name,
                        rate=rate,
                        response_s=None if names else path.response_s(),
                        saturated_by=names,
                    )
                )
        return answers

    def route(self, source: str, target: str) -> list[str]:
        """The brokers that an event which enters at `source` passes on its way to `target`."""
        tree = self._tree(source)
        if target not in tree:
            raise ValueError(f"links: no way leads from {source} to {target}")
        route = [target]
        while route[-1] != source:
            route.append(tree[route[-1]])
        return route[::-1]

    def _is_tree(self) -> bool:
        """Whether every broker is reached from the first, and no link is more than that takes."""
        pairs = {frozenset((a, b)) for a, neighbors in self.links.items() for b in neighbors}
        return len(pairs) == len(self.links) - 1 and len(self._tree(next(iter(self.links)))) == len(
            self.links
        )

    def _always(self, source: str) -> Iterable[str]:
        """Brokers that every event from `source` reaches, whether somebody wants it there or not."""
        match self.overlay:
            case "flooding":
                return self._tree(source)
            case "hierarchy":
                return [next(iter(self.links))]
            case _:
                return []

    def _tree(self, root: str) -> dict[str, str]:
        """Each broker -> the one that an event from `root` comes from; kept, for every path asks for it."""
        if root not in self._toward:
            toward = {root: root}
            queue = deque([root])
            while queue:
                here = queue.popleft()
                for neighbor in sorted(self.links[here]):
                    if neighbor not in toward:
                        toward[neighbor] = here
                        queue.append(neighbor)
            self._toward[root] = toward
        return self._toward[root]


def _beside(name: str, total_rates: Mapping[str, float], rate: float) -> float:
    """The rate of the other flows at a centre. A path whose own flow is not in the load is an error, not a zero."""
    other = total_rates.get(name, 0.0) - rate
    if other < -1e-9 * rate:
        raise AssertionError(f"{name}: the load of {total_rates.get(name, 0.0)} lacks the path's own {rate}")
    return max(0.0, other)


def _require_own_names(field: str, names: Sequence[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{field}: {repeated[0]} is named twice; give each its own name")


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
