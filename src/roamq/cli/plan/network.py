"""A whole network for `roamq plan response-time`: the [network] table of its file."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.plan.question import about
from roamq.cli.plan.warnings import careful, warned
from roamq.cli.suggest import did_you_mean
from roamq.report.exhibits import Cell, Figure, Series, Table

if TYPE_CHECKING:
    from roamq.models.network import PublisherToSubscriber, PubSubNetwork

PAIRS_SHOWN: Final = 60
PAIRS_WITH_BURSTS: Final = 20
"""Paths to which bursts are added; one takes up to a tenth of a second."""
PAIRS_CHECKED: Final = 3
"""Paths that are checked by simulation; one takes a few tenths of a second."""
PAIRS_WITH_PERCENTILES: Final = 60
"""Paths that have percentiles: one takes some milliseconds, and a network may have ten thousand paths."""


class PublisherSpec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    broker: str
    rates: dict[str, Annotated[float, msgspec.Meta(ge=0)]]
    demand_s: Annotated[float, about("To transmit one event.", gt=0)] = 0.0625
    on_s: Annotated[float, about("Mean connected period.", gt=0)] = 60.0
    off_s: Annotated[float, about("Mean disconnected period.", ge=0)] = 0.0


class SubscriberSpec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    broker: str
    topics: list[str]
    demand_s: Annotated[float, about("To transmit one event.", gt=0)] = 0.0625
    processing_s: Annotated[float, about("To process it on the device.", gt=0)] = 0.0625
    on_s: Annotated[float, about("Mean connected period.", gt=0)] = 60.0
    off_s: Annotated[float, about("Mean disconnected period.", ge=0)] = 0.0


class BrokerSpec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A broker that is not as fast as the others."""

    name: str
    demand_in_s: Annotated[float, about("Broker's time per event.", gt=0)] | None = None
    demand_out_s: Annotated[float, about("Broker's time per event sent on.", gt=0)] | None = None


class NetworkSpec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    links: list[tuple[str, str]]
    publishers: list[PublisherSpec]
    subscribers: list[SubscriberSpec]
    demand_in_s: Annotated[float, about("Broker's time per event.", gt=0)] = 0.002
    demand_out_s: Annotated[float, about("Broker's time per event sent on.", gt=0)] = 0.002
    brokers: list[BrokerSpec] = []
    """Brokers that have demands of their own."""
    overlay: str = "flooding"
    """`flooding`, `hierarchy` with the first broker of `links` as its root, or `advertisements`."""


def answer_network(spec: NetworkSpec, percentiles: Sequence[float], ttl_s: float | None) -> Answer:
    """Answers for every publisher and every subscriber that wants its events; saturated and slow pairs first."""
    from roamq.models.bursts import law_of, solve_path

    network = make_network(spec)
    pairs = sorted(
        network.pairs(), key=lambda pair: -math.inf if pair.response_s is None else -pair.response_s
    )
    columns = ["publisher", "subscriber", "events/s", "mean response s"]
    columns += [f"{percentile:g}% within" for percentile in percentiles]
    columns += [] if ttl_s is None else [f"share within {ttl_s:g} s"]
    publishers = {peer.name: peer for peer in network.publishers}
    subscribers = {peer.name: peer for peer in network.subscribers}
    rows: list[list[Cell]] = []
    data: list[dict[str, Any]] = []
    warnings, checked = list[str](), 0
    bursting = _slowest_with_bursts(network, pairs)
    for place, pair in enumerate(pairs):
        more: list[Cell] = [None] * (len(columns) - 4)
        entry: dict[str, Any] = {
            "publisher": pair.publisher,
            "subscriber": pair.subscriber,
            "rate": pair.rate,
            "response_s": pair.response_s,
            "saturated_by": list(pair.saturated_by),
        }
        mean: Cell = "saturated" if pair.response_s is None else pair.response_s
        if pair.response_s is not None and place < PAIRS_WITH_PERCENTILES:
            path = network.path(publishers[pair.publisher], subscribers[pair.subscriber])
            law = path.response_distribution()
            if place in bursting:
                solved = solve_path(path.centres)
                law = law_of(solved) or law
                if checked < PAIRS_CHECKED:
                    checked += 1
                    warnings += [f"{pair.publisher} to {pair.subscriber}: {text}" for text in warned(solved)]
                entry["response_s"], entry["response_without_bursts_s"] = law.mean(), pair.response_s
                mean = law.mean()
            values = law.quantiles([percentile / 100 for percentile in percentiles])
            entry["percentiles_s"] = {f"{p:g}": value for p, value in zip(percentiles, values, strict=True)}
            more = [*values]
            if ttl_s is not None:
                entry["in_time_share"] = float(law.cdf(ttl_s))
                more.append(entry["in_time_share"])
        data.append(entry)
        rows.append([pair.publisher, pair.subscriber, pair.rate, mean, *more, ", ".join(pair.saturated_by)])
    known = [(f"{p.publisher} → {p.subscriber}", p.response_s) for p in pairs if p.response_s is not None]
    notes = careful(warnings)
    notes += _unheard(spec)
    if any(peer.off_s > 0 for peer in spec.publishers):
        notes.append(
            f"bursts of a pair's own publisher are computed for the {PAIRS_WITH_BURSTS} slowest pairs that have them, "
            f"and held against a simulation for the {PAIRS_CHECKED} slowest; "
            "the flows of other publishers are taken as steady"
        )
    if len(rows) > PAIRS_SHOWN:
        notes.append(f"the first {PAIRS_SHOWN} of {len(rows)}; --json has all")
    if len(rows) > PAIRS_WITH_PERCENTILES:
        notes.append(f"percentiles are computed for the {PAIRS_WITH_PERCENTILES} slowest pairs")
    return Answer(
        data={"pairs": data, "rates": dict(network.rates)},
        tables=[
            Table(
                title=f"{len(pairs)} pairs of publisher and subscriber",
                columns=[*columns, "saturated by"],
                rows=rows[:PAIRS_SHOWN],
            )
        ],
        notes=notes,
        figure=Figure(
            title="Mean response time by pair",
            kind="bar",
            x_label="pair",
            y_label="seconds",
            series=[Series(name="mean", x=[n for n, _ in known[:12]], y=[value for _, value in known[:12]])],
        )
        if known
        else None,
    )


def _unheard(spec: NetworkSpec) -> list[str]:
    """Names subscribers that wait for topics in vain. Topics are names here: the model knows no wildcards."""
    published = {topic for peer in spec.publishers for topic, rate in peer.rates.items() if rate > 0}
    return [
        f"{peer.name} wants {topic}, which nobody publishes{did_you_mean(topic, sorted(published))}"
        for peer in spec.subscribers
        for topic in dict.fromkeys(peer.topics)
        if topic not in published
    ]


def _slowest_with_bursts(network: "PubSubNetwork", pairs: "Sequence[PublisherToSubscriber]") -> set[int]:
    """Returns the places of the slowest pairs whose publisher disconnects."""
    mobile = {peer.name for peer in network.publishers if peer.t_off_s > 0}
    places = [
        place for place, pair in enumerate(pairs) if pair.response_s is not None and pair.publisher in mobile
    ]
    return set(places[:PAIRS_WITH_BURSTS])


def make_network(spec: NetworkSpec) -> "PubSubNetwork":
    """Returns the model's network. The first broker of `links` comes first, because it is a hierarchy's root."""
    from roamq.models.network import PublishingPeer, PubSubNetwork, SubscribingPeer

    links: dict[str, list[str]] = {}
    for broker, other in spec.links:
        if broker == other:
            raise ValueError(f"links: {broker} is linked with itself")
        links.setdefault(broker, []).append(other)
        links.setdefault(other, []).append(broker)
    homes = [(peer.name, peer.broker) for peer in spec.publishers]
    homes += [(peer.name, peer.broker) for peer in spec.subscribers]
    if not links:  # a network of one broker has no links
        links = {home: [] for _, home in homes}
    for name, home in homes:
        if home not in links:
            raise ValueError(f"{name}: broker {home} is not in links{did_you_mean(home, list(links))}")
    return PubSubNetwork(
        links=links,
        publishers=[
            PublishingPeer(
                name=peer.name,
                broker=peer.broker,
                rates=peer.rates,
                demand_s=peer.demand_s,
                t_on_s=peer.on_s,
                t_off_s=peer.off_s,
            )
            for peer in spec.publishers
        ],
        subscribers=[
            SubscribingPeer(
                name=peer.name,
                broker=peer.broker,
                topics=peer.topics,
                demand_s=peer.demand_s,
                processing_s=peer.processing_s,
                t_on_s=peer.on_s,
                t_off_s=peer.off_s,
            )
            for peer in spec.subscribers
        ],
        demand_in_s=spec.demand_in_s,
        demand_out_s=spec.demand_out_s,
        demands_s=_demands_s(spec),
        overlay=spec.overlay,
    )


def _demands_s(spec: NetworkSpec) -> dict[str, tuple[float, float]]:
    demands_s: dict[str, tuple[float, float]] = {}
    for broker in spec.brokers:
        if broker.name in demands_s:
            raise ValueError(f"brokers: {broker.name} is named twice; give each its own name")
        demands_s[broker.name] = (
            spec.demand_in_s if broker.demand_in_s is None else broker.demand_in_s,
            spec.demand_out_s if broker.demand_out_s is None else broker.demand_out_s,
        )
    return demands_s
