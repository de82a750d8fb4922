"""`roamq plan capacity`: the number of brokers, and the size of buffers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.plan.question import about, asks
from roamq.cli.plan.sweep import Measures
from roamq.report.exhibits import Figure, Series, Table

PRESETS: Final = {
    "city": {
        "clients": 20_000,
        "event_rate": 50.0,
        "match_share": 0.02,
        "t_on_s": 300.0,
        "t_off_s": 60.0,
        "response_target_s": 120.0,
    }
}


class CapacityQuestion(msgspec.Struct, kw_only=True):
    clients: Annotated[int, about("Number of clients.", ge=1)]
    event_rate: Annotated[float, about("Events per second published in the whole network.", gt=0)]
    match_share: Annotated[float, about("Share of events that one client wants.", gt=0, lt=1)]
    t_on_s: Annotated[float, about("Mean time a client stays connected.", gt=0)]
    t_off_s: Annotated[float, about("Mean time a client stays disconnected.", ge=0)]
    response_target_s: Annotated[float, about("Events must arrive within this time.", gt=0)]
    response_share: Annotated[float, about("Share of events that must meet the target.", gt=0, lt=1)] = 0.95
    loss_target: Annotated[
        float, about("Share of events that a full client buffer may lose.", gt=0, lt=1)
    ] = 1e-3
    demand_in_s: Annotated[float, about("Broker's time per event.", ge=0)] = 0.002
    demand_copy_s: Annotated[float, about("Broker's time per client that receives it.", ge=0)] = 0.0005
    demand_out_s: (
        Annotated[
            float, about("Broker's time per neighbor that it passes an event to; else as per client.", ge=0)
        ]
        | None
    ) = None
    demand_client_s: Annotated[float, about("Time to transmit an event to a client.", gt=0)] = 0.01
    utilisation_max: Annotated[float, about("Highest utilisation of a broker.", gt=0, lt=1)] = 0.7
    busy_share: Annotated[float, about("Share of the time that brokers are sized for.", gt=0, lt=1)] = 0.99
    copies: Annotated[float, about("Brokers that hold a client's context (1 + neighbors).", ge=1)] = 1.0
    event_bytes: Annotated[int, about("Size of a stored event.", ge=1)] = 512
    degree: Annotated[int, about("Links per broker of the tree that brokers form.", ge=2)] = 4
    overlay: Annotated[
        str, about("`flooding`, `hierarchy`, or `advertisements` (a hierarchy that uses them).")
    ] = "flooding"


ALIASES: Final = {"rate": "event_rate", "t_off": "t_off_s", "t_on": "t_on_s"}


def measures(question: CapacityQuestion, _names: Sequence[str]) -> Mapping[str, float | None]:
    """Returns the brokers that are needed, and what they give; None where no number of brokers meets the targets."""
    from roamq.models.capacity import Demand, plan_capacity

    demand = Demand(**msgspec.structs.asdict(question))  # a mistake in the question itself is an error
    try:
        plan = plan_capacity(demand)
    except ValueError:
        return dict.fromkeys(("brokers", "utilisation", "mean_s", "at_share_s", "buffer_events"))
    return {
        "brokers": plan.brokers,
        "utilisation": plan.broker_utilisation,
        "mean_s": plan.response_s,
        "at_share_s": plan.response_s_at_share,
        "buffer_events": plan.client_buffer_events,
    }


@asks(
    "capacity",
    CapacityQuestion,
    PRESETS,
    measures=Measures(
        measures,
        ALIASES,
        unit="brokers, seconds, events",
        none_means="a client is saturated, or no number of brokers is enough",
    ),
)
def capacity(question: CapacityQuestion, preset: str | None) -> Answer:
    """How many brokers and how large a buffer a number of clients needs, for given targets.

    \b
    Examples:
      roamq plan capacity --preset city
      roamq plan capacity --clients 5000 --event-rate 20 --match-share 0.05 --t-on-s 300 --t-off-s 30 \\
          --response-target-s 60
      roamq plan capacity --preset city --sweep clients=5000:40000:8 --figure growth.png
      roamq plan capacity --preset city --solve-for clients --target brokers=40
    """
    from roamq.models.capacity import CapacityPlan, Demand, evaluate, plan_capacity

    demand = Demand(**msgspec.structs.asdict(question))
    plan = plan_capacity(demand)

    def row(option: CapacityPlan) -> list[Any]:
        return [
            option.brokers,
            option.clients_per_broker_busy,
            option.broker_utilisation,
            option.transit_share,
            option.response_s,
            option.response_s_at_share,
            option.broker_buffer_bytes / 2**20,
            "yes" if option.meets else f"no: {option.binding}",
        ]

    around = sorted({max(1, plan.brokers // 2), max(1, plan.brokers - 1), plan.brokers, 2 * plan.brokers})
    nearby = [evaluate(demand, number, plan.client_buffer_events) for number in around]
    columns = [
        "brokers",
        "clients at busy times",
        "utilisation",
        "in transit",
        "mean response s",
        f"response s at {question.response_share:.0%}",
        "buffer MiB",
        "meets targets",
    ]
    return Answer(
        data={"plan": asdict(plan), "nearby": [asdict(option) for option in nearby]},
        tables=[
            Table(
                title=f"{plan.brokers} brokers, {plan.client_buffer_events} events of buffer per client",
                columns=columns,
                rows=[row(option) for option in nearby],
                note="utilisation: of the busiest broker; in transit: its share of events that no client there wants",
            )
        ],
        notes=[
            {
                "utilisation": "the load of the brokers decides",
                "response": "the response time decides",
                "nothing": "a single broker suffices",
            }[plan.binding]
            + f"; a client's buffer of {plan.client_buffer_events} events loses at most "
            f"{question.loss_target:g} of them",
        ],
        figure=Figure(
            title="Utilisation of the busiest broker by number of brokers",
            kind="line",
            x_label="brokers",
            y_label="utilisation",
            series=[
                Series(name="utilisation", x=around, y=[option.broker_utilisation for option in nearby]),
            ],
        ),
    )
