"""The page of a simulation: schemes side by side, from a summary's rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roamq.pipeline.schemas import RunRow, SummaryRow
from roamq.report.exhibits import ChartKind, Figure, Section, Series, Table
from roamq.report.numbers import cell, with_interval
from roamq.report.page import Page

TRAFFIC_NAMES = {
    "control": "control",
    "closing": "closing words",
    "context": "contexts",
    "stored_event": "stored events",
    "event_ids": "event ids",
    "mobile_subscribe": "subscriptions moved",
    "mobile_unsubscribe": "unsubscriptions moved",
    "forward": "forwarded events",
}

BARS_SHOWN_MAX = 40
"""A figure with more bars than this is a wall."""
LOG_FROM = 50
"""A distribution that spans more than this factor is drawn on a logarithmic axis."""

TABLES = {
    "What clients received": {
        "received": "received",
        "throughput": "per second",
        "loss_pct": "lost, %",
        "duplication_pct": "twice, %",
        "transferred_pct": "by transfer, %",
    },
    "How long it took": {
        "waiting_delay_s_mean": "waiting delay, s",
        "waiting_delay_s_p95": "its p95, s",
        "catch_up_s_mean": "catch-up, s",
        "mobility_delay_s_mean": "late, s",
        "mobility_delay_s_p95": "its p95, s",
        "latency_s_mean": "latency, s",
    },
    "What it cost": {
        "handoffs": "handoffs",
        "overhead": "overhead ratio",
        "traffic_bytes": "bytes over links",
        "traffic_peak_bytes": "in the busiest bin",
        "buffer_message_s": "stored, message-s",
        "buffer_peak_bytes": "buffers' peak, bytes",
        "price": "price of a million messages",
    },
}
"""The tables at the top of the page: metric -> label, few enough for a phone."""

TABLE_NOTE = (
    "Mean over seeds ± half the 95% confidence interval. Waiting delay: from a reconnect at another broker to the "
    "first message that was waiting. Catch-up: to the last of them. Late: how much later a message came than to a "
    "client that never moved. Latency counts from publication, and includes the time a client was away."
)


def simulation_page(
    summary: Sequence[SummaryRow],
    runs: Sequence[RunRow],
    distribution: Iterable[Mapping[str, Any]],
    *,
    title: str | None,
    command: str,
    warnings: Sequence[str] = (),
) -> Page:
    """Everything a campaign has to show, scheme beside scheme."""
    schemes = list(dict.fromkeys(row.scheme for row in summary))
    scenarios = ", ".join(dict.fromkeys(row.scenario for row in runs))
    records = sum(row.records for row in runs)
    return Page(
        title=title or f"Simulation of {scenarios}",
        lead=(
            f"{_plural(len(schemes), 'mobility scheme')}, {_plural(len(runs), 'run')}. Bars and points are means "
            "over seeds; whiskers are 95% confidence intervals."
        ),
        command=command,
        facts=[
            ("runs", f"{len(runs):,}"),
            ("records", f"{records:,}"),
            ("handoffs per run", cell(_largest(summary, "handoffs"))),
            *_harm_facts(summary),
        ],
        sections=[
            Section(title="At a glance", tables=_glance(summary, schemes)),
            _delivery(summary, schemes, distribution),
            _traffic(summary, schemes),
        ],
        warnings=warnings,
    )


def _glance(summary: Sequence[SummaryRow], schemes: Sequence[str]) -> list[Table]:
    """One row per scheme, in as many tables as keep them narrow."""
    found = {(row.scheme, row.metric): row for row in summary if row.entity == "all"}
    tables = []
    for title, metrics in TABLES.items():
        shown = {m: label for m, label in metrics.items() if any((s, m) in found for s in schemes)}
        rows: list[list[Any]] = [
            [scheme, *(_shown(found.get((scheme, metric))) for metric in shown)] for scheme in schemes
        ]
        if shown:
            tables.append(Table(title=title, columns=["scheme", *shown.values()], rows=rows))
    if tables:
        tables[-1] = replace(tables[-1], note=TABLE_NOTE)
    return tables


def _shown(row: SummaryRow | None) -> str | None:
    return None if row is None else with_interval(row.mean, row.high)


def _harm_facts(summary: Sequence[SummaryRow]) -> list[tuple[str, str]]:
    """Lost and repeated messages, by the scheme that did worst, which is named."""
    facts = []
    for metric, what in (("loss_pct", "lost"), ("duplication_pct", "received twice")):
        rows = [row for row in summary if row.metric == metric and row.entity == "all"]
        if rows:
            worst = max(rows, key=lambda row: row.mean)
            by = f"{what}, most by {worst.scheme}" if worst.mean > 0 else f"{what}, by any scheme"
            facts.append((by, f"{worst.mean:.2g}%"))
    return facts


def _delivery(
    summary: Sequence[SummaryRow], schemes: Sequence[str], distribution: Iterable[Mapping[str, Any]]
) -> Section:
    late = _bars(summary, schemes, {"mobility_delay_s_mean": "mean", "mobility_delay_s_p95": "p95"})
    harm = _bars(summary, schemes, {"loss_pct": "lost", "duplication_pct": "duplicated"})
    harmless = bool(harm) and not any(y for series in harm for y in series.y)
    brokers = {row.entity for row in summary if row.metric == "broker_throughput"}
    per_broker = [
        _series(
            scheme, [row for row in summary if row.scheme == scheme and row.metric == "broker_throughput"]
        )
        for scheme in schemes
    ]
    figures = [
        _waiting_delay(schemes, distribution),
        _figure(
            "Mobility delay",
            "bar",
            "",
            "seconds",
            late,
            "How much later a message came than it would have come to a client that never moved.",
        ),
    ]
    if not harmless:
        caption = "Of the messages due to clients, and of those received."
        figures.append(_figure("Loss and duplication", "bar", "", "% of messages", harm, caption))
    if len(brokers) > 1 and len(brokers) * len(schemes) <= BARS_SHOWN_MAX:
        caption = "Messages delivered to clients by each broker."
        figures.append(
            _figure("Throughput by broker", "bar", "broker", "messages per second", per_broker, caption)
        )
    return Section(
        title="Moving and receiving",
        text="No message was lost and none came twice, in any run." if harmless else "",
        figures=[figure for figure in figures if figure.series],
    )


def _waiting_delay(schemes: Sequence[str], distribution: Iterable[Mapping[str, Any]]) -> Figure:
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in distribution:
        curves.setdefault(row["scheme"], []).append((row["value"], row["probability"]))
    series = []
    for scheme in schemes:
        if scheme in curves:
            x, y = zip(*sorted(curves[scheme]), strict=True)
            series.append(Series(name=scheme, x=x, y=y))
    values = [x for curve in series for x in curve.x]
    return Figure(
        title="Waiting delay",
        kind="cdf",
        x_label="seconds from reconnect to the first message that was waiting",
        y_label="share of handoffs",
        series=series,
        # A local delivery takes milliseconds, a transfer may take seconds: the axis shows both.
        x_log=bool(values) and min(values) > 0 and max(values) > LOG_FROM * min(values),
        caption="How long a client waits at its new broker, as a cumulative distribution over the handoffs for which "
        "a message was waiting.",
    )


def _traffic(summary: Sequence[SummaryRow], schemes: Sequence[str]) -> Section:
    by_kind = []
    for kind, label in TRAFFIC_NAMES.items():
        rows = {r.scheme: r for r in summary if r.metric == "overhead_of_kind" and r.entity == kind}
        if rows:
            present = [scheme for scheme in schemes if scheme in rows]
            by_kind.append(Series(name=label, x=present, y=[rows[scheme].mean for scheme in present]))
    over_time = [
        _series(
            scheme,
            [row for row in summary if row.scheme == scheme and row.metric == "overhead_in_bin"],
            number=lambda entity: float(entity) / 60,
        )
        for scheme in schemes
    ]
    figures = [
        _figure(
            "What moving costs",
            "stack",
            "",
            "link traversals per regular one",
            by_kind,
            "Traffic that exists because clients move, over the traffic that exists anyway, by kind.",
        ),
        _figure(
            "Overhead over time",
            "line",
            "minutes",
            "overhead ratio",
            [series for series in over_time if len(series.x) > 1],
            "The same ratio, all kinds together, in each bin of the records.",
        ),
    ]
    return Section(title="Traffic", figures=[figure for figure in figures if figure.series])


def _figure(
    title: str, kind: ChartKind, x_label: str, y_label: str, series: Sequence[Series], caption: str
) -> Figure:
    shown = [curve for curve in series if len(curve.x)]
    return Figure(title=title, kind=kind, x_label=x_label, y_label=y_label, series=shown, caption=caption)


def _bars(summary: Sequence[SummaryRow], schemes: Sequence[str], metrics: Mapping[str, str]) -> list[Series]:
    """One group of bars per metric, over schemes."""
    made = []
    for metric, label in metrics.items():
        found = {row.scheme: row for row in summary if row.metric == metric and row.entity == "all"}
        rows = [found[scheme] for scheme in schemes if scheme in found]
        made.append(_with_bounds(label, [row.scheme for row in rows], rows))
    return made


def _series(scheme: str, rows: Sequence[SummaryRow], number: Any = None) -> Series:
    """One scheme's values over entities, in their natural order."""
    keyed = [(number(row.entity) if number else row.entity, row) for row in rows]
    keyed.sort(key=(lambda pair: pair[0]) if number else (lambda pair: _natural(pair[0])))
    return _with_bounds(scheme, [key for key, _ in keyed], [row for _, row in keyed])


def _with_bounds(name: str, x: Sequence[Any], rows: Sequence[SummaryRow]) -> Series:
    bounded = bool(rows) and all(row.low is not None and row.high is not None for row in rows)
    return Series(
        name=name,
        x=list(x),
        y=[row.mean for row in rows],
        low=[row.low for row in rows if row.low is not None] if bounded else None,
        high=[row.high for row in rows if row.high is not None] if bounded else None,
    )


def _largest(summary: Sequence[SummaryRow], metric: str) -> float | None:
    """The largest mean of any scheme."""
    return max((row.mean for row in summary if row.metric == metric and row.entity == "all"), default=None)


def _natural(text: str) -> tuple[str, int]:
    """`b2` before `b10`."""
    digits = "".join(c for c in text if c.isdigit())
    return text.rstrip("0123456789"), int(digits or 0)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
