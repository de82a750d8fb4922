"""A whole network for `roamq plan response-time`: the [network] table of its file."""

from typing import Annotated, Any

import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.plan.question import about
from roamq.report.exhibits import Cell, Figure, Series, Table

PAIRS_SHOWN = 60


class PublisherSpec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    broker: str
    rates: dict[str, float]
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


class NetworkSpec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    links: list[tuple[str, str]]
    publishers: list[PublisherSpec]
    subscribers: list[SubscriberSpec]
    demand_in_s: Annotated[float, about("Broker's time per event.", gt=0)] = 0.002
    demand_out_s: Annotated[float, about("Broker's time per event sent on.", gt=0)] = 0.002


def answer_network(spec: NetworkSpec) -> Answer:
    """Every publisher to every subscriber that wants its events, slowest first, saturated before all."""
    from roamq.models.network import Publisher, PubSubNetwork, Subscriber

    homes = [*(one.broker for one in spec.publishers), *(one.broker for one in spec.subscribers)]
    links: dict[str, list[str]] = {home: [] for home in homes}
    for one, other in spec.links:
        links.setdefault(one, []).append(other)
        links.setdefault(other, []).append(one)
    network = PubSubNetwork(
        links=links,
        publishers=[
            Publisher(
                name=one.name,
                broker=one.broker,
                rates=one.rates,
                demand_s=one.demand_s,
                t_on_s=one.on_s,
                t_off_s=one.off_s,
            )
            for one in spec.publishers
        ],
        subscribers=[
            Subscriber(
                name=one.name,
                broker=one.broker,
                topics=one.topics,
                demand_s=one.demand_s,
                processing_s=one.processing_s,
                t_on_s=one.on_s,
                t_off_s=one.off_s,
            )
            for one in spec.subscribers
        ],
        demand_in_s=spec.demand_in_s,
        demand_out_s=spec.demand_out_s,
    )
    pairs = sorted(
        network.pairs(), key=lambda pair: float("-inf") if pair.response_s is None else -pair.response_s
    )
    rows: list[list[Cell]] = [
        [
            pair.publisher,
            pair.subscriber,
            pair.rate,
            "saturated" if pair.response_s is None else pair.response_s,
            ", ".join(pair.saturated_by),
        ]
        for pair in pairs
    ]
    data: dict[str, Any] = {
        "pairs": [
            {
                "publisher": pair.publisher,
                "subscriber": pair.subscriber,
                "rate": pair.rate,
                "response_s": pair.response_s,
                "saturated_by": list(pair.saturated_by),
            }
            for pair in pairs
        ],
        "rates": dict(network.rates),
    }
    known = [(f"{p.publisher} → {p.subscriber}", p.response_s) for p in pairs if p.response_s is not None]
    return Answer(
        data=data,
        tables=[
            Table(
                title=f"{len(pairs)} pairs of publisher and subscriber",
                columns=["publisher", "subscriber", "events/s", "mean response s", "saturated by"],
                rows=rows[:PAIRS_SHOWN],
                note=f"the first {PAIRS_SHOWN} of {len(rows)}; --json has all"
                if len(rows) > PAIRS_SHOWN
                else "",
            )
        ],
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
