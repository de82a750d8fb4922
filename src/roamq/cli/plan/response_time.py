"""`roamq plan response-time`: how long events take from publisher to subscriber."""

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.plan.extras import add_extras
from roamq.cli.plan.network import answer_network
from roamq.cli.plan.path import (
    ALIASES,
    ResponseTimeQuestion,
    check_percentiles,
    hardly_varying,
    measures,
    path_of,
    solve,
    uncertainties,
    unused,
    unused_by_many,
    warnings,
)
from roamq.cli.plan.question import asks
from roamq.cli.plan.simulated import simulated
from roamq.cli.plan.sweep import Measures
from roamq.cli.plan.warehouse import response_time_fields
from roamq.cli.plan.warnings import careful, warned
from roamq.models.examples import TABLE_3, PublishedPath
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.report.numbers import rounded

if TYPE_CHECKING:
    from roamq.models.bursts import SolvedCentre
    from roamq.models.phase_type import MatrixExponential

SCV_QUICK: Final = 0.2

LEVELS_QUICK: Final = 50_000

BINS_QUICK: Final = 12

FIGURE_POINTS: Final = 80


def _preset(example: PublishedPath) -> dict[str, Any]:
    (publisher_on_s, publisher_off_s), (subscriber_on_s, subscriber_off_s) = (
        example.publisher,
        example.subscriber,
    )
    fields = {
        "subscriber_on_s": subscriber_on_s,
        "subscriber_off_s": subscriber_off_s,
        "rate": example.rate,
    }
    if publisher_off_s > 0:
        fields |= {"publisher_on_s": publisher_on_s, "publisher_off_s": publisher_off_s}
    return fields


PRESETS: Final = {example.name: _preset(example) for example in TABLE_3}


@asks(
    "response-time",
    ResponseTimeQuestion,
    PRESETS,
    response_time_fields,
    unused,
    Measures(measures, ALIASES, uncertainties, unused_by_many, warnings=warnings),
)
def response_time(question: ResponseTimeQuestion, preset: str | None) -> Answer:
    """Response time from a publisher to a subscriber that are not always connected ([TIME]).

    The command prints the mean and percentiles; on request also the share delivered within a time-to-live, the buffers
    for a given loss, and a day of changing rates. For a TOML file with a [network] table it answers for all publishers
    and subscribers of that network.

    \b
    Examples:
      roamq plan response-time --preset metro-1
      roamq plan response-time --rate 0.5 --subscriber-on-s 300 --subscriber-off-s 60 \\
          --ttl-s 30 --loss 0.001
      roamq plan response-time --subscriber-off-s 60 --sweep rate=0.5:7:8
      roamq plan response-time --subscriber-off-s 60 --solve-for rate --target p95=300
      roamq plan response-time --subscriber-on-s 20 --subscriber-off-s 20 \\
          --day-rates 1,3,9,5,1 --figure day.png
    """
    from roamq.models.bursts import law_of

    check_percentiles(question)
    if question.network is not None:
        return answer_network(question.network, question.percentiles, question.ttl_s)
    for reason in _slow(question):
        click.echo(f"this takes some seconds: {reason}", err=True)
    solved = solve(question)
    tables, data, notes = [_centres_table(solved)], _centres_data(solved), list[str]()
    figure = None
    saturated = [solution for solution in solved if solution.centre.is_saturated]
    if saturated and question.simulate and question.ttl_s is None and question.buffer_events is None:
        raise ValueError(
            f"simulate: {saturated[0].centre.name} is saturated, so a simulation has no mean either"
        )
    if saturated:
        data |= {"response_s": None, "saturated_by": [solution.centre.name for solution in saturated]}
        notes += [
            f"{solution.centre.name} is saturated: it can bear less than {solution.centre.rate_max:.4g} events/s"
            for solution in saturated
        ]
    law = law_of(solved)
    if law is not None:
        table, more = _response_table(law, solved, question, preset)
        tables.append(table)
        data |= more
        figure = _figure(law)
        notes += careful(warned(solved, on_scv=question.on_scv, off_scv=question.off_scv))
    notes += hardly_varying(question)
    notes += add_extras(question, solved, data, tables)
    if question.simulate:
        table, data["simulated"] = simulated(question, is_saturated=bool(saturated))
        tables.append(table)
    notes += _preset_notes(preset)
    day = _day(question, solved)
    if day is not None:
        table, figure, data["day"] = day
        tables.append(table)
    return Answer(data=data, tables=tables, notes=notes, figure=figure)


def _slow(question: ResponseTimeQuestion) -> list[str]:
    """Returns the reasons why an answer takes longer than a second."""
    reasons = []
    away = question.publisher_off_s or question.subscriber_off_s
    if away and min(question.on_scv, question.off_scv) < SCV_QUICK:
        reasons.append("periods that hardly vary have many phases (on_scv, off_scv)")
    live = question.rate * (question.ttl_s or 0.0)
    if away and live > LEVELS_QUICK and path_of(question).saturated:
        reasons.append(f"up to {live:,.0f} events live at a time (rate, ttl_s)")
    if question.buffer_events is not None and question.buffer_events > LEVELS_QUICK:
        reasons.append(f"a buffer of {question.buffer_events:,} events is followed (buffer_events)")
    if len(question.day_rates) > BINS_QUICK:
        reasons.append(f"the queue is followed through {len(question.day_rates)} bins (day_rates)")
    if question.simulate:
        reasons.append("the path is simulated (simulate)")
    return reasons


def _centres_table(solved: "list[SolvedCentre]") -> Table:
    return Table(
        title="Centres on the path",
        columns=["centre", "kind", "events/s", "utilisation", "mean response s", "by bursts s"],
        rows=[
            [
                solution.centre.name,
                "ON/OFF" if solution.centre.is_on_off else "M/M/1",
                solution.centre.rate + solution.centre.other_rate,
                solution.centre.utilisation,
                "saturated" if solution.law is None else solution.law.mean(),
                solution.burst_s,
            ]
            for solution in solved
        ],
    )


def _centres_data(solved: "list[SolvedCentre]") -> dict[str, Any]:
    return {
        "centres": [
            {
                "name": solution.centre.name,
                "utilisation": solution.centre.utilisation,
                "response_s": solution.law.mean() if solution.law else None,
                "burst_s": solution.burst_s,
            }
            for solution in solved
        ]
    }


def _response_table(
    law: "MatrixExponential",
    solved: "list[SolvedCentre]",
    question: ResponseTimeQuestion,
    preset: str | None,
) -> tuple[Table, dict[str, Any]]:
    without_bursts_s = sum(solution.poisson_mean_s or 0.0 for solution in solved)
    rows: list[list[Cell]] = [["mean", law.mean()]]
    if any(solution.burst_s for solution in solved):
        rows.append(["mean without bursts", without_bursts_s])
    data: dict[str, Any] = {
        "response_s": law.mean(),
        "response_without_bursts_s": without_bursts_s,
        "percentiles_s": {},
        "saturated_by": [],
    }
    within = law.quantiles([percentile / 100 for percentile in question.percentiles])
    for percentile, value in zip(question.percentiles, within, strict=True):
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
    columns = ["response time", "seconds"]
    if question.uncertain:
        _add_intervals(question, rows, columns, data)
    return Table(title="From publisher to subscriber", columns=columns, rows=rows), data


def _add_intervals(
    question: ResponseTimeQuestion, rows: list[list[Cell]], columns: list[str], data: dict[str, Any]
) -> None:
    """Adds the intervals of mean and percentiles that follow from the errors of estimated parameters."""
    from roamq.models.inverse import interval

    errors = uncertainties(question)
    cache: dict[tuple[float, ...], Mapping[str, float | None]] = {}

    def answer(name: str, values: Mapping[str, float]) -> float | None:
        key = tuple(values.values())
        if key not in cache:
            cache[key] = measures(msgspec.structs.replace(question, **values), ())
        return cache[key][name]

    named = {"mean": "mean", **{f"{p:g}% within": f"p{p:g}" for p in question.percentiles}}
    values = {field: float(getattr(question, field)) for field in errors}
    data["intervals_s"] = {}
    columns.append("95% interval")
    for row in rows:
        measure = named.get(str(row[0]))
        if measure is None:
            # This row has no interval: it is known no better than the rows that have one.
            row[1] = (
                f"{row[1]:.2g}" if isinstance(row[1], float) and "published" not in str(row[0]) else row[1]
            )
            row.append("")
            continue
        ends = interval(partial(answer, measure), values, errors)
        data["intervals_s"][measure] = ends
        if ends is None:
            row.append("may saturate")
            continue
        row[1], row_interval = rounded(float(str(row[1])), *ends)
        row.append(row_interval)


def _day(
    question: ResponseTimeQuestion, solved: "list[SolvedCentre]"
) -> tuple[Table, Figure, list[Any]] | None:
    from roamq.models.varying_rates import through_bins

    if not question.day_rates:
        return None
    queue = next((solution.queue for solution in reversed(solved) if solution.queue is not None), None)
    if queue is None:
        raise ValueError("day_rates: need a subscriber or publisher that disconnects (subscriber_off_s)")
    try:
        bins = through_bins(queue, question.day_rates, question.bin_s)
    except ValueError as error:
        raise ValueError(f"day_rates: {str(error).removeprefix('rates: ')}") from error
    begins = [i * question.bin_s for i in range(len(bins))]
    columns = ["begin s", "events/s", "utilisation", "bin alone s", "with carry-over s", "left over"]
    rows: list[list[Cell]] = [
        [
            begin,
            bin_.rate,
            bin_.utilisation,
            "saturated" if bin_.is_saturated else bin_.steady_response_s,
            bin_.response_s,
            bin_.present_at_end,
        ]
        for begin, bin_ in zip(begins, bins, strict=True)
    ]
    figure = Figure(
        title="Mean response time through the bins",
        kind="step",
        x_label="begin, seconds",
        y_label="seconds",
        series=[
            Series(name="with carry-over", x=begins, y=[bin_.response_s for bin_ in bins]),
            Series(
                name="bin alone",
                x=begins,
                y=[math.nan if bin_.steady_response_s is None else bin_.steady_response_s for bin_ in bins],
            ),
        ],
    )
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    return Table(title="Through the day", columns=columns, rows=rows), figure, data


def _figure(law: "MatrixExponential") -> Figure:
    step = law.quantile(0.99) / (FIGURE_POINTS - 1)
    return Figure(
        title="Share of events within a time",
        kind="line",
        x_label="seconds",
        y_label="share delivered",
        series=[
            Series(
                name="delivered",
                x=[i * step for i in range(FIGURE_POINTS)],
                y=(1 - law.sf_steps(step, FIGURE_POINTS)).tolist(),
            )
        ],
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
