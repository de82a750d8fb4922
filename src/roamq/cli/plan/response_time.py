"""`roamq plan response-time`: how long events take from publisher to subscriber."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.plan.network import NetworkSpec, answer_network
from roamq.cli.plan.question import about, asks
from roamq.cli.plan.warehouse import response_time_fields
from roamq.report.exhibits import Cell, Figure, Series, Table

if TYPE_CHECKING:
    from roamq.models.intermittent import IntermittentQueue
    from roamq.models.network import Path
    from roamq.models.phase_type import MatrixExponential
    from roamq.models.queueing import Centre


def _preset(publisher: tuple[float, float], subscriber: tuple[float, float], rate: float) -> dict[str, Any]:
    fields = {"subscriber_on_s": subscriber[0], "subscriber_off_s": subscriber[1], "rate": rate}
    if publisher[1] > 0:
        fields |= {"publisher_on_s": publisher[0], "publisher_off_s": publisher[1]}
    return fields


PRESETS: Final = {
    "metro-1": _preset((109.0, 121.5), (146.3, 96.0), 1.0),
    "metro-2": _preset((292.1, 78.7), (155.8, 72.1), 1.0),
    "voluntary-1": _preset((60.0, 600.0), (30.0, 900.0), 0.1),
    "voluntary-2": _preset((0.0, 0.0), (30.0, 900.0), 0.1),
    "degraded": _preset((1.0, 1.0), (1.5, 1.5), 2.0),
}


class ResponseTimeQuestion(msgspec.Struct, kw_only=True):
    rate: Annotated[float, about("Events per second of this publisher for this subscriber.", gt=0)] = 1.0
    publisher_on_s: Annotated[float, about("Publisher's mean connected period.", gt=0)] = 60.0
    publisher_off_s: Annotated[float, about("Its mean disconnected period; 0 = always on.", ge=0)] = 0.0
    subscriber_on_s: Annotated[float, about("Subscriber's mean connected period.", gt=0)] = 60.0
    subscriber_off_s: Annotated[float, about("Its mean disconnected period; 0 = always on.", ge=0)] = 0.0
    on_scv: Annotated[float, about("Variability of connected periods; 1 = exponential.", gt=0)] = 1.0
    off_scv: Annotated[float, about("Variability of disconnected periods.", gt=0)] = 1.0
    demand_s: Annotated[float, about("Service time at every centre.", gt=0)] = 0.0625
    other_rate: Annotated[float, about("Events per second of other flows at every broker.", ge=0)] = 0.0
    brokers: Annotated[int, about("Brokers on the path.", ge=1)] = 3
    percentiles: Annotated[list[float], about("Percentiles of the response time.")] = msgspec.field(
        default_factory=lambda: [50.0, 95.0, 99.0]
    )
    ttl_s: Annotated[float, about("Also: the share delivered within this time-to-live.", gt=0)] | None = None
    loss: Annotated[float, about("Also: buffers for this share of lost events.", gt=0, lt=1)] | None = None
    day_rates: Annotated[
        list[float], about("Also: the subscriber's centre through bins of these rates.")
    ] = []
    bin_s: Annotated[float, about("Length of a bin.", gt=0)] = 600.0
    simulate: Annotated[bool, about("Also: simulate the path (a few seconds).")] = False
    warehouse: Annotated[str, about("Take what the pipeline learned: folder of its tables.")] | None = None
    dataset: Annotated[str, about("Which dataset of the warehouse.")] | None = None
    site: Annotated[str, about("Site whose daily rates are taken.")] | None = None
    network: NetworkSpec | None = None


@asks("response-time", ResponseTimeQuestion, PRESETS, response_time_fields)
def response_time(question: ResponseTimeQuestion, preset: str | None) -> Answer:
    """Response time from publisher to subscriber, both connected only at times ([TIME]).

    Mean and percentiles; on request delivery within a time-to-live, buffers for a given loss, and a day of
    changing rates. A TOML file with a [network] table answers for all its publishers and subscribers.

    \b Examples:
    roamq plan response-time --preset metro-1
    roamq plan response-time --rate 0.5 --subscriber-on-s 300 --subscriber-off-s 60 --ttl-s 30 --loss 0.001
    roamq plan response-time --subscriber-on-s 20 --subscriber-off-s 20 --day-rates 1,3,9,5,1 --figure
    day.png
    """
    if question.network is not None:
        return answer_network(question.network)
    for percentile in question.percentiles:
        if not 0 < percentile < 100:
            raise ValueError(f"percentiles: {percentile:g} is not between 0 and 100")
    solved = [_solve(centre, question) for centre in _path(question).centres]
    tables, data, notes = [_centres_table(solved)], _centres_data(solved), list[str]()
    figure = None
    saturated = [one for one in solved if one.centre.is_saturated]
    if saturated:
        data |= {"response_s": None, "saturated_by": [one.centre.name for one in saturated]}
        notes += [
            f"{one.centre.name} is saturated: it can bear less than {one.centre.rate_max:.4g} events/s"
            for one in saturated
        ]
    else:
        law = _sum(solved)
        table, more = _response_table(law, question, preset)
        tables.append(table)
        data |= more
        figure = _figure(law)
    notes += _extras(question, solved, data, tables)
    notes += _preset_notes(preset)
    day = _day(question, solved)
    if day is not None:
        table, figure, data["day"] = day
        tables.append(table)
    return Answer(data=data, tables=tables, notes=notes, figure=figure)


@dataclass(frozen=True, slots=True)
class Solved:
    """A centre and, unless it is saturated, its law; `queue` is the exact model of an ON/OFF centre."""

    centre: "Centre"
    queue: "IntermittentQueue | None"
    law: "MatrixExponential | None"


def _path(question: ResponseTimeQuestion) -> "Path":
    from roamq.models.network import Publisher, Subscriber, compose_path

    names = [f"broker {i + 1}" for i in range(question.brokers)]
    publisher = Publisher(
        name="p",
        broker=names[0],
        rates={"events": question.rate},
        demand_s=question.demand_s,
        t_on_s=question.publisher_on_s,
        t_off_s=question.publisher_off_s,
    )
    subscriber = Subscriber(
        name="s",
        broker=names[-1],
        topics=["events"],
        demand_s=question.demand_s,
        processing_s=question.demand_s,
        t_on_s=question.subscriber_on_s,
        t_off_s=question.subscriber_off_s,
    )
    others = [f"{name} in" for name in names]
    others += [f"{one} out to {other}" for one, other in pairwise(names)]
    return compose_path(
        publisher,
        names,
        subscriber,
        rate=question.rate,
        demand_in_s=question.demand_s,
        demand_out_s=question.demand_s,
        other_rates=dict.fromkeys(others, question.other_rate),
    )


def _solve(centre: "Centre", question: ResponseTimeQuestion) -> Solved:
    from roamq.models.intermittent import IntermittentQueue
    from roamq.models.phase_type import exponential, with_moments

    queue = None
    if centre.is_on_off:
        queue = IntermittentQueue(
            rate=centre.rate + centre.other_rate,
            service=exponential(centre.demand_s),
            on=with_moments(centre.t_on_s, question.on_scv),
            off=with_moments(centre.t_off_s, question.off_scv),
        )
    if centre.is_saturated:
        return Solved(centre, queue, None)
    return Solved(centre, queue, queue.response_distribution() if queue else centre.response_distribution())


def _sum(solved: list[Solved]) -> "MatrixExponential":
    laws = [one.law for one in solved if one.law is not None]
    total = laws[0]
    for law in laws[1:]:
        total = total.then(law)
    return total


def _centres_table(solved: list[Solved]) -> Table:
    return Table(
        title="Centres on the path",
        columns=["centre", "kind", "events/s", "utilisation", "mean response s"],
        rows=[
            [
                one.centre.name,
                "ON/OFF" if one.centre.is_on_off else "M/M/1",
                one.centre.rate + one.centre.other_rate,
                one.centre.utilisation,
                "saturated" if one.law is None else one.law.mean(),
            ]
            for one in solved
        ],
    )


def _centres_data(solved: list[Solved]) -> dict[str, Any]:
    return {
        "centres": [
            {
                "name": one.centre.name,
                "utilisation": one.centre.utilisation,
                "response_s": one.law.mean() if one.law else None,
            }
            for one in solved
        ]
    }


def _response_table(
    law: "MatrixExponential", question: ResponseTimeQuestion, preset: str | None
) -> tuple[Table, dict[str, Any]]:
    from roamq.reproduce.time_end_to_end import TABLE_3, simulate_path

    rows: list[list[Cell]] = [["mean", law.mean()]]
    data: dict[str, Any] = {"response_s": law.mean(), "percentiles_s": {}, "saturated_by": []}
    for percentile in question.percentiles:
        value = law.quantile(percentile / 100)
        rows.append([f"{percentile:g}% within", value])
        data["percentiles_s"][f"{percentile:g}"] = value
    if question.ttl_s is not None:
        data["in_time_share"] = float(law.cdf(question.ttl_s))
        rows.append([f"share within {question.ttl_s:g} s", data["in_time_share"]])
    published = next((row for row in TABLE_3 if row.name == preset), None)
    if published is not None:
        printed_s = published.printed_path().response_s()
        data["published"] = {"analysis_s": published.analysis_s, "simulation_s": published.simulation_s}
        data["with_four_centres_s"] = printed_s
        rows.append(["with four M/M/1 centres", printed_s])
        rows.append(["published analysis", published.analysis_s])
        rows.append(["published simulation", published.simulation_s])
    if question.simulate:
        if (question.on_scv, question.off_scv) != (1.0, 1.0):
            raise ValueError("simulate: takes exponential periods only; leave on_scv and off_scv at 1")
        run = simulate_path(_path(question), quick=True)
        data["simulated_s"] = {"mean": run.mean, "half_width": run.half_width}
        rows.append(["simulated", f"{run.mean:.4g} ± {run.half_width:.2g}"])
    return Table(title="From publisher to subscriber", columns=["response time", "seconds"], rows=rows), data


def _extras(
    question: ResponseTimeQuestion, solved: list[Solved], data: dict[str, Any], tables: list[Table]
) -> list[str]:
    """Time-to-live with dropping, and buffers: per ON/OFF centre, saturated ones included."""
    from roamq.models.buffers import capacity_for_loss
    from roamq.models.lifetimes import with_lifetime

    notes = []
    centres = [(one.centre.name, one.queue) for one in solved if one.queue is not None]
    if question.ttl_s is not None and centres:
        shares = {name: with_lifetime(queue, question.ttl_s).delivered_share for name, queue in centres}
        data["delivered_share_if_dropped"] = shares
        tables.append(
            Table(
                title=f"Expired events dropped: delivered share (exponential lifetimes of {question.ttl_s:g} s)",
                columns=["centre", "delivered"],
                rows=[list(item) for item in shares.items()],
            )
        )
    if question.loss is not None:
        if not centres:
            notes.append("no buffer is needed: publisher and subscriber are always connected")
        data["buffer_events"] = {name: capacity_for_loss(queue, question.loss) for name, queue in centres}
        if centres:
            tables.append(
                Table(
                    title=f"Buffer for a loss of {question.loss:g}",
                    columns=["centre", "events"],
                    rows=[list(item) for item in data["buffer_events"].items()],
                )
            )
    return notes


def _day(question: ResponseTimeQuestion, solved: list[Solved]) -> tuple[Table, Figure, list[Any]] | None:
    from roamq.models.varying_rates import through_bins

    if not question.day_rates:
        return None
    queue = next((one.queue for one in reversed(solved) if one.queue is not None), None)
    if queue is None:
        raise ValueError("day_rates: need a subscriber or publisher that disconnects (subscriber_off_s)")
    bins = through_bins(queue, question.day_rates, question.bin_s)
    begins = [i * question.bin_s for i in range(len(bins))]
    columns = ["begin s", "events/s", "utilisation", "bin alone s", "with carry-over s", "left over"]
    rows: list[list[Cell]] = [
        [
            begin,
            one.rate,
            one.utilisation,
            "saturated" if one.is_saturated else one.steady_response_s,
            one.response_s,
            one.present_at_end,
        ]
        for begin, one in zip(begins, bins, strict=True)
    ]
    figure = Figure(
        title="Mean response time through the bins",
        kind="step",
        x_label="begin, seconds",
        y_label="seconds",
        series=[
            Series(name="with carry-over", x=begins, y=[one.response_s for one in bins]),
            Series(
                name="bin alone",
                x=begins,
                y=[math.nan if one.steady_response_s is None else one.steady_response_s for one in bins],
            ),
        ],
    )
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    return Table(title="Through the day", columns=columns, rows=rows), figure, data


def _figure(law: "MatrixExponential") -> Figure:
    import numpy as np

    times = np.linspace(0, law.quantile(0.99), 80)
    return Figure(
        title="Share of events within a time",
        kind="line",
        x_label="seconds",
        y_label="share delivered",
        series=[Series(name="delivered", x=times.tolist(), y=law.cdf(times).tolist())],
    )


def _preset_notes(preset: str | None) -> list[str]:
    notes = []
    if preset is not None:
        notes.append("Algorithm 1 names six M/M/1 centres on this path; the published sum has four")
    if preset in ("voluntary-1", "voluntary-2"):
        notes.append(
            "the paper prints 0.5 events/s, which nearly saturates the subscriber; its figures match 0.1"
        )
    return notes
