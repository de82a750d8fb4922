"""`roamq plan transfer-cost`: messages per reconnection, by scheme."""

from typing import Annotated, Any, Final

import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.plan.question import about, asks
from roamq.report.exhibits import Figure, Series, Table

RATE: Final = 100 / 60 / 27
"""Events a second that match one exact subscription in [DIS] section 5: 100 a minute, each one of 27 kinds."""

PRESETS: Final = {
    # Section 5.2.3: connected and disconnected for 10 to 30 minutes in turn.
    "random": {"rates": [RATE], "disconnected_s": 1200.0, "away_s": 1200.0},
    # Section 5.2.4: connected to each broker on the way, 0.5 km at 50 km/h, with very short disconnections.
    "pervasive": {"rates": [RATE], "disconnected_s": 1.0, "away_s": 36.0},
}


class TransferCostQuestion(msgspec.Struct, kw_only=True):
    rates: Annotated[list[float], about("Events per second that match each subscription of the client.")]
    disconnected_s: Annotated[float, about("Time from leaving a broker to reconnecting.", ge=0)]
    transfer_s: Annotated[float, about("Time to migrate subscriptions and stored events.", ge=0)] = 1.0
    covered_new: Annotated[float, about("Share of subscriptions covered at the new broker.", ge=0, le=1)] = (
        0.0
    )
    covered_old: Annotated[float, about("Share of subscriptions covered at the old broker.", ge=0, le=1)] = (
        0.0
    )
    on_device: Annotated[bool, about("The client carries its subscriptions.")] = False
    logged_share: Annotated[float, about("Share of missed events in the new broker's log.", ge=0, le=1)] = 0.5
    hit_share: Annotated[float, about("Share of moves predicted correctly.", ge=0, le=1)] = 1.0
    predicted_brokers: Annotated[int, about("Number of brokers that a context is pushed to.", ge=1)] = 1
    away_s: Annotated[float, about("Time connected to a broker other than the home broker.", ge=0)] = 3600.0


@asks("transfer-cost", TransferCostQuestion, PRESETS)
def transfer_cost(question: TransferCostQuestion, preset: str | None) -> Answer:
    """Messages that one reconnection costs, per mobility scheme ([DIS] Eq. 1-5).

    \b
    Examples:
      roamq plan transfer-cost --preset random
      roamq plan transfer-cost --rates 0.1,0.05 --disconnected-s 600 --hit-share 0.8
    """
    from roamq.models.transfer_cost import SCHEMES, Reconnection
    from roamq.models.transfer_cost import transfer_cost as cost_of

    reconnection = Reconnection(
        rates=question.rates,
        disconnected_s=question.disconnected_s,
        transfer_s=question.transfer_s,
        covered_new=question.covered_new,
        covered_old=question.covered_old,
    )
    costs = {
        scheme: cost_of(
            reconnection,
            scheme,
            on_device=question.on_device,
            logged_share=question.logged_share,
            hit_share=question.hit_share,
            predicted_brokers=question.predicted_brokers,
            away_s=question.away_s,
        )
        for scheme in SCHEMES
    }
    standard = costs["standard"].messages
    rows = [
        [
            scheme,
            cost.subscription_messages,
            cost.event_messages,
            cost.messages,
            cost.messages / standard if standard else None,
        ]
        for scheme, cost in costs.items()
    ]
    columns = ["scheme", "for subscriptions", "for events", "messages", "of standard"]
    data: dict[str, Any] = {"schemes": [dict(zip(columns, row, strict=True)) for row in rows]}
    return Answer(
        data=data,
        tables=[Table(title="Messages of one reconnection", columns=columns, rows=rows)],
        notes=["messages, not hops: the model's own limit ([DIS] section 4.2); `roamq simulate` counts hops"],
        figure=Figure(
            title="Messages of one reconnection",
            kind="bar",
            x_label="scheme",
            y_label="messages",
            series=[
                Series(name="messages", x=list(costs), y=[cost.messages for cost in costs.values()]),
            ],
        ),
    )
