"""The runs of [DRIP], in the paper's setting: what is varied, and what they came to.

Runs of one seed share movements, subscriptions and events; only the protocol differs.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from roamq.manet.experiment import Setting
from roamq.manet.ports import Parameters
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.registry import Evidence

RUNNER = "roamq.manet.experiment:run_job"
COVERAGE, DELAY, RATIO = "broker_coverage", "delivery_delay_s", "delivery_ratio"
TRANSMISSIONS = "transmissions_per_delivery"
WANTED_BY = "wanted_by"
DETECTED_DELAY, DETECTED_POPULATION = "detected_delay_s", "detected_population"
DETECTED_LIKE_OTHERS = "detected_delay_by_population_s"
PUBLICATION, SPREADING, BY_SOURCE = "publication_delay_s", "spreading_s", "delivered_by_source"


class Grid(NamedTuple):
    """What is varied."""

    ks: tuple[int, ...]
    ms: tuple[int, ...]
    seeds: int
    publishing_s: float
    event_bytes: tuple[int, ...]
    """Sizes of events on the contended channel."""
    nodes: tuple[int, ...]
    buffers: tuple[int, ...]
    """Places for events at a broker."""


FULL = Grid(
    (10, 20, 30, 40),
    (1, 2, 4),
    3,
    500.0,
    (512, 4096, 16384),
    (200, 500, 1000, 2000, 5000),
    (25, 50, 100, 500),
)
QUICK = Grid((10, 30), (1, 4), 1, 60.0, (), (200, 500), (10, 500))


def grid(quick: bool) -> Grid:
    return QUICK if quick else FULL


def setting(k: int, l: int, m: int = 1, *, scheme: str = "drip", quick: bool) -> Setting:  # noqa: E741
    """The paper's, with these k, l and m. SF has no m; it runs with m = 1 and does not look at it."""
    return Setting(scheme=scheme, parameters=Parameters(k=k, l=l, m=m), publishing_s=grid(quick).publishing_s)


def jobs_of(settings: Iterable[Setting], seeds: int) -> list[Job]:
    return [job_of(one, seed) for one in settings for seed in range(1, seeds + 1)]


def job_of(one: Setting, seed: int) -> Job:
    run_s = one.warm_up_s + one.publishing_s + one.drain_s
    return Job(
        scenario="drip",
        scheme=one.scheme,
        seed=seed,
        params=params_of(one),
        payload=one.to_payload(),
        runner=RUNNER,
        cost=one.nodes * one.parameters.k * run_s,
        replay="roamq reproduce DRIP",
    )


def params_of(one: Setting) -> dict[str, str]:
    """What tells the settings of this module apart; the same setting always has the same."""
    parameters = one.parameters
    return {
        "k": str(parameters.k),
        "l": str(parameters.l),
        "m": str(parameters.m),
        "selection": one.selection,
        "nodes": str(one.nodes),
        "channel": "free" if one.channel is None else "contended",
        "event_bytes": str(one.workload.event_bytes),
        "buffer_events": str(parameters.buffer_events),
    }


class Results:
    """The summary of runs, looked up by setting."""

    def __init__(self, evidence: Evidence, jobs: Sequence[Job]) -> None:
        from roamq.pipeline.regions import region_summary  # needs PySpark, which listing the claims does not

        rows = evidence.rows(region_summary, jobs)
        self._rows = {
            (row["scheme"], tuple(sorted(dict(row["params"]).items())), row["metric"], row["entity"]): row
            for row in rows
        }

    def mean(self, one: Setting, metric: str, entity: str = "all") -> float:
        return float(self._row(one, metric, entity)["mean"])

    def series(self, name: str, xs: Sequence[int], settings: Sequence[Setting], metric: str) -> Series:
        rows = [self._row(one, metric, "all") for one in settings]
        has_interval = all(row["low"] is not None for row in rows)
        return Series(
            name=name,
            x=xs,
            y=[float(row["mean"]) for row in rows],
            low=[float(row["low"]) for row in rows] if has_interval else None,
            high=[float(row["high"]) for row in rows] if has_interval else None,
        )

    def _row(self, one: Setting, metric: str, entity: str) -> dict[str, Any]:
        return self._rows[one.scheme, tuple(sorted(params_of(one).items())), metric, entity]


class Trends(NamedTuple):
    """How a metric moves over the grid of Figure 3: along m, along k, and against SF."""

    with_m: list[float]
    """For every k: the value at the largest m over that at the smallest, less one."""
    with_k: list[float]
    """For every m: the value at the largest k over that at the smallest, less one."""
    to_sf: list[float]
    """For every k and m: the value over SF's, less one."""


def trends(results: Results, metric: str, l: int, quick: bool) -> Trends:  # noqa: E741
    ks, ms = grid(quick).ks, grid(quick).ms
    value = {(k, m): results.mean(setting(k, l, m, quick=quick), metric) for k in ks for m in ms}
    epidemic = {k: results.mean(setting(k, l, scheme="sf", quick=quick), metric) for k in ks}
    return Trends(
        with_m=[value[k, ms[-1]] / value[k, ms[0]] - 1 for k in ks],
        with_k=[value[ks[-1], m] / value[ks[0], m] - 1 for m in ms],
        to_sf=[value[k, m] / epidemic[k] - 1 for k in ks for m in ms],
    )


def figure_3_settings(l: int, quick: bool) -> list[Setting]:  # noqa: E741
    ks, ms = grid(quick).ks, grid(quick).ms
    drip = [setting(k, l, m, quick=quick) for k in ks for m in ms]
    return drip + [setting(k, l, scheme="sf", quick=quick) for k in ks]


def figure_3(results: Results, metric: str, y_label: str, title: str, l: int, quick: bool) -> Figure:  # noqa: E741
    ks, ms = grid(quick).ks, grid(quick).ms
    curves = [
        results.series(f"DRIP, m={m}", ks, [setting(k, l, m, quick=quick) for k in ks], metric) for m in ms
    ]
    epidemic = results.series("SF", ks, [setting(k, l, scheme="sf", quick=quick) for k in ks], metric)
    return Figure(
        title=title,
        kind="line",
        x_label="broker nodes k",
        y_label=y_label,
        series=[*curves, epidemic],
        caption="The paper plots the same axes and prints no numbers; its trends are the claim.",
    )


def beyond_the_paper(results: Results, l: int, quick: bool) -> Table:  # noqa: E741
    """Delivery ratio and cost, of which the paper reports none."""
    rows: list[list[Cell]] = [
        [
            one.parameters.k,
            "SF" if one.scheme == "sf" else f"DRIP, m={one.parameters.m}",
            *(round(results.mean(one, metric), 4) for metric in (RATIO, COVERAGE, DELAY, SPREADING)),
            round(results.mean(one, TRANSMISSIONS), 1),
            round(results.mean(one, TRANSMISSIONS, "event"), 2),
        ]
        for one in sorted(figure_3_settings(l, quick), key=lambda one: (one.parameters.k, one.scheme))
    ]
    return Table(
        title=f"Beyond the paper: delivery ratio and transmissions per delivered event, l = {l}",
        columns=[
            "k",
            "scheme",
            "delivery ratio",
            "coverage",
            "delay, s",
            "last copy after, s",
            "transmissions",
            "of these: hand-overs",
        ],
        rows=rows,
        note="Transmissions include neighbor discovery and the brokers' broadcasts, which SF shares with DRIP.",
    )


def spread(changes: Sequence[float]) -> str:
    """`-12% to -30%`, or one number if they are the same."""
    low, high = f"{min(changes):+.0%}", f"{max(changes):+.0%}"
    return low if low == high else f"{low} to {high}"
