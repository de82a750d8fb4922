"""`roamq plan schemes`: what each mobility scheme adds at a handoff."""

from typing import Annotated, Any, Final

import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.plan.question import about, asks
from roamq.report.exhibits import Figure, Series, Table

PRESETS: Final = {
    # [PRO] section 5: clients of the testbed that move to a neighbor; three of four reconnections are moves.
    "testbed": {"t_on_s": 60.0, "t_off_s": 7.5, "rate": 2.0, "move_share": 0.75, "hit_share": 0.67},
}


COLUMNS: Final = (
    "scheme",
    "trips",
    "predicts",
    "handoff adds s",
    "mean delay s",
    "messages per move",
    "broker utilisation",
    "with the broker s",
)


class SchemesQuestion(msgspec.Struct, kw_only=True):
    t_on_s: Annotated[float, about("Mean time a client stays connected.", gt=0)]
    t_off_s: Annotated[float, about("Mean time between two connections.", gt=0)]
    rate: Annotated[float, about("Events per second for one client.", gt=0)] = 1.0
    demand_s: Annotated[float, about("To hand over one event.", gt=0)] = 0.001
    link_s: Annotated[float, about("One-way delay of a link between brokers.", ge=0)] = 0.005
    last_hop_s: Annotated[float, about("One-way delay between a client and its broker.", ge=0)] = 0.002
    hops: Annotated[float, about("Links between the old and the new broker.", ge=0)] = 1.0
    home_hops: Annotated[float, about("Links between the home broker and a visited one.", ge=0)] = 2.0
    move_share: Annotated[float, about("Share of reconnections at another broker.", ge=0, le=1)] = 1.0
    hit_share: Annotated[float, about("Share of moves that a scheme predicts.", ge=0, le=1)] = 0.8
    clients: Annotated[int, about("Clients at one broker.", ge=1)] = 100
    broker_demand_s: Annotated[float, about("Broker's time per message.", gt=0)] = 0.0002


@asks("schemes", SchemesQuestion, PRESETS)
def schemes(question: SchemesQuestion, preset: str | None) -> Answer:
    """What each mobility scheme adds at a handoff, and the mean delay of a client's events with it.

    The time from the reconnection to the first stored event is part of the time away ([TIME]'s OFF period), and the
    messages of handoffs are part of a broker's load, so the model speaks about the schemes of [DIS], [PRO] and [PRE].
    `durable` is not listed: its events wait at the old broker.

    \b
    Examples:
      roamq plan schemes --preset testbed
      roamq plan schemes --t-on-s 300 --t-off-s 5 --link-s 0.05 --hops 3 --hit-share 0.6
    """
    from roamq.models.handoff import PREDICTS, TRIPS, Distances, broker_centre, delay_s, handoff_s
    from roamq.models.transfer_cost import SCHEMES, Reconnection, transfer_cost

    network = Distances(
        link_s=question.link_s,
        last_hop_s=question.last_hop_s,
        hops=question.hops,
        home_hops=question.home_hops,
        move_share=question.move_share,
        hit_share=question.hit_share,
    )
    rows: list[list[Any]] = []
    for scheme in TRIPS:
        added_s = handoff_s(scheme, network)
        move = Reconnection(rates=[question.rate], disconnected_s=question.t_off_s, transfer_s=added_s)
        messages = (
            transfer_cost(move, scheme, hit_share=question.hit_share, away_s=question.t_on_s).messages
            if scheme in SCHEMES
            else None
        )
        mean_s = delay_s(
            scheme,
            network,
            rate=question.rate,
            demand_s=question.demand_s,
            t_on_s=question.t_on_s,
            t_off_s=question.t_off_s,
        )
        row = [scheme, TRIPS[scheme], "yes" if scheme in PREDICTS else "no", added_s, mean_s, messages]
        if messages is not None:
            broker = broker_centre(
                clients=question.clients,
                rate=question.rate,
                messages_per_move=messages,
                moves_per_s=question.move_share / (question.t_on_s + question.t_off_s + added_s),
                demand_s=question.broker_demand_s,
            )
            with_broker_s = "saturated" if broker.is_saturated else mean_s + broker.response_s()
            row += [broker.utilisation, with_broker_s]
        rows.append(row + [None] * (len(COLUMNS) - len(row)))
    rows.sort(key=lambda row: float(row[3]))
    return Answer(
        data={"schemes": [dict(zip(COLUMNS, row, strict=True)) for row in rows]},
        tables=[Table(title="At a reconnection", columns=COLUMNS, rows=rows)],
        notes=[
            "messages by [DIS] Eq. 1-5, for the schemes that it counts; `roamq simulate` counts them for all",
            f"the broker handles the events of its {question.clients} clients and the messages of their moves",
        ],
        figure=Figure(
            title="What a handoff adds",
            kind="bar",
            x_label="scheme",
            y_label="seconds",
            series=[Series(name="handoff", x=[row[0] for row in rows], y=[row[3] for row in rows])],
        ),
    )
