"""The page of a simulation: schemes side by side, from a summary's rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from roamq.report.exhibits import Figure, Kind, Section, Series, Table
from roamq.report.numbers import cell, with_interval
from roamq.report.page import Page


class SummaryRow(Protocol):
    """A row of `pipeline.schemas.SUMMARY`."""

    scenario: str
    scheme: str
    metric: str
    entity: str
    runs: int
    mean: float
    low: float | None
    high: float | None


TRAFFIC_NAMES = {
    "control": "control",
    "closing": "closing words",
    "context": "contexts",
    "stored_event": "stored events",
    "stored_delivery": "stored events, last hop",
    "event_ids": "event ids",
    "mobile_subscribe": "subscriptions moved",
    "mobile_unsubscribe": "unsubscriptions moved",
    "forward": "forwarded events",
}

BROKERS_SHOWN_MAX = 24
LOG_FROM = 50
"""A distribution that spans more than this factor is drawn on a logarithmic axis."""

TABLE_METRICS = {
    "received": "messages received",
    "throughput": "received per second",
    "loss_pct": "loss, %",
    "duplication_pct": "duplicates, %",
    "transferred_pct": "by state transfer, %",
    "latency_s_mean": "latency, mean s",
    "latency_s_p99": "latency, p99 s",
    "handoffs": "handoffs",
    "handoff_s_mean": "handoff, mean s",
    "handoff_s_p95": "handoff, p95 s",
    "overhead": "overhead ratio",
    "buffer_message_s": "buffered, message-seconds",
    "buffer_peak_bytes": "buffers' peak, bytes",
}


def simulation_page(
    summary: Sequence[Any],
    runs: Sequence[Any],
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
            ("handoffs per run", cell(_worst(summary, "handoffs"))),
            ("lost, at most", f"{cell(_worst(summary, 'loss_pct'))}%"),
            ("duplicated, at most", f"{cell(_worst(summary, 'duplication_pct'))}%"),
        ],
        sections=[
            Section(title="At a glance", tables=[_glance(summary, schemes)]),
            _delivery(summary, schemes, distribution),
            _traffic(summary, schemes),
        ],
        warnings=warnings,
    )


def _glance(summary: Sequence[SummaryRow], schemes: Sequence[str]) -> Table:
    found = {(row.scheme, row.metric): row for row in summary if row.entity == "all"}
    rows: list[list[Any]] = []
    for metric, label in TABLE_METRICS.items():
        present = [found.get((scheme, metric)) for scheme in schemes]
        if any(row is not None for row in present):
            rows.append(
                [label, *(None if row is None else with_interval(row.mean, row.high) for row in present)]
            )
    return Table(
        title="Schemes side by side",
        columns=["", *schemes],
        rows=rows,
        note="Mean over seeds ± half the 95% confidence interval.",
    )


def _delivery(
    summary: Sequence[SummaryRow], schemes: Sequence[str], distribution: Iterable[Mapping[str, Any]]
) -> Section:
    latency = _bars(
        summary, schemes, {"latency_s_mean": "mean", "latency_s_p95": "p95", "latency_s_p99": "p99"}
    )
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
        _handoff_latency(schemes, distribution),
        _figure("End-to-end latency", "bar", "", "seconds", latency, "From publication to the subscriber."),
    ]
    if not harmless:
        caption = "Of the messages due to clients, and of those received."
        figures.append(_figure("Loss and duplication", "bar", "", "% of messages", harm, caption))
    if 1 < len(brokers) <= BROKERS_SHOWN_MAX:
        caption = "Messages delivered to clients by each broker."
        figures.append(
            _figure("Throughput by broker", "bar", "broker", "messages per second", per_broker, caption)
        )
    return Section(
        title="Moving and receiving",
        text="No message was lost and none came twice, in any run." if harmless else "",
        figures=[figure for figure in figures if figure.series],
    )


def _handoff_latency(schemes: Sequence[str], distribution: Iterable[Mapping[str, Any]]) -> Figure:
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in distribution:
        curves.setdefault(row["scheme"], []).append((row["value"], row["probability"]))
    series = []
    for scheme in schemes:
        if scheme in curves:
            x, y = zip(*sorted(curves[scheme]), strict=True)
            series.append(Series(name=scheme, x=x, y=y))
    values = [x for one in series for x in one.x]
    return Figure(
        title="Handoff latency",
        kind="cdf",
        x_label="seconds from reconnect to the first message",
        y_label="share of handoffs",
        series=series,
        # A local delivery takes milliseconds, a wait for the next event may take seconds: both should show.
        x_log=bool(values) and min(values) > 0 and max(values) > LOG_FROM * min(values),
        caption="How long a client waits at its new broker, as a cumulative distribution over all handoffs.",
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
    title: str, kind: Kind, x_label: str, y_label: str, series: Sequence[Series], caption: str
) -> Figure:
    shown = [one for one in series if len(one.x)]
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


def _worst(summary: Sequence[SummaryRow], metric: str) -> float | None:
    """The largest mean of any scheme."""
    return max((row.mean for row in summary if row.metric == metric and row.entity == "all"), default=None)


def _natural(text: str) -> tuple[str, int]:
    """`b2` before `b10`."""
    digits = "".join(c for c in text if c.isdigit())
    return text.rstrip("0123456789"), int(digits or 0)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
