"""The runs of [DRIP], in the paper's setting: what is varied, and how their results are looked up.

Runs of one seed share movements, subscriptions and events; only the protocol differs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

from roamq.manet.protocol.ports import Parameters
from roamq.manet.simulation.contention import Channel
from roamq.manet.simulation.experiment import Setting, run_job
from roamq.models.paired import Estimate, interval
from roamq.pipeline.jobs import AFTER_THE_RUN, Job, Runner
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.evidence import Evidence


def position_files(payload: Mapping[str, Any]) -> Sequence[str]:
    """The recorded positions that a run reads, if it reads any."""
    path = payload.get("positions")
    return () if path is None else (path,)


MOBILE_BROKERS = Runner(
    run=run_job, unrelated=AFTER_THE_RUN | {"cli", "fieldtest", "net"}, files=position_files
)
"""Simulates a network whose brokers move; the payload is a `Setting` as plain data."""

COVERAGE, DELAY, RATIO = "broker_coverage", "delivery_delay_s", "delivery_ratio"
COVERAGE_IN_THE_END = "broker_coverage_in_the_end"
RESTRICTED = "restricted_delay_s"
"""The mean delay with what was not delivered within a minute counted as a minute."""
TRANSMISSIONS = "transmissions_per_delivery"
WANTED_BY = "wanted_by"
DETECTED_DELAY, DETECTED_POPULATION = "detected_delay_s", "detected_population"
DETECTED_LIKE_OTHERS = "detected_delay_by_population_s"
PUBLICATION, SPREADING, BY_SOURCE = "publication_delay_s", "spreading_s", "delivered_by_source"


class Grid(NamedTuple):
    """The parameters that are varied."""

    ks: tuple[int, ...]
    ms: tuple[int, ...]
    seeds: int
    publishing_s: float
    """The paper's runs last 500 time units. Seeds differ more than the parts of a run do: more and shorter runs."""
    event_bytes: tuple[int, ...]
    """Sizes of events on the contended channel."""
    nodes: tuple[int, ...]
    buffers: tuple[int, ...]
    """Places for events at a broker."""


FULL = Grid(
    (10, 20, 30, 40),
    (1, 2, 4),
    10,
    100.0,
    (512, 16384),
    (200, 500, 1000, 2000, 5000),
    (25, 50, 100, 500),
)
QUICK = Grid((10, 30), (1, 4), 2, 60.0, (), (200, 500), (10, 500))


def grid(quick: bool) -> Grid:
    return QUICK if quick else FULL


class RadioRuns(NamedTuple):
    """A radio, with what of Figure 3 is run on it."""

    channel: Channel | None
    ks: tuple[int, ...]
    ms: tuple[int, ...]
    seeds: int


def radios(quick: bool) -> dict[str, RadioRuns]:
    """What the paper's "IEEE 802.11" in a network whose delay follows the distance may be. Runs on a shared channel
    take several times as long to simulate: there are fewer of them, at the ends of the axes, and shorter ones."""
    one = grid(quick)
    free = RadioRuns(None, one.ks, one.ms, one.seeds)
    return (
        {"free": free}
        if quick
        else {
            "free": free,
            "802.11": RadioRuns(Channel(), one.ks[:: len(one.ks) - 1], one.ms[:: len(one.ms) - 1], 5),
        }
    )


WARM_UP_S, PUBLISHING_S, DRAIN_S = 20.0, 30.0, 30.0
"""On 802.11."""


def on_channel(one: Setting, channel: Channel | None) -> Setting:
    """The same on a radio; shorter on one that is shared."""
    if channel is None:
        return one
    return replace(one, channel=channel, warm_up_s=WARM_UP_S, publishing_s=PUBLISHING_S, drain_s=DRAIN_S)


def setting(
    k: int,
    l: int,  # noqa: E741
    m: int = 1,
    *,
    scheme: str = "drip",
    quick: bool,
    channel: Channel | None = None,
) -> Setting:
    """The paper's setting with these k, l and m. SF has no m; it runs with m = 1 and ignores it."""
    one = Setting(scheme=scheme, parameters=Parameters(k=k, l=l, m=m), publishing_s=grid(quick).publishing_s)
    return on_channel(one, channel)


def jobs_of(settings: Iterable[Setting], seeds: int) -> list[Job]:
    return [job_of(chosen, seed) for chosen in settings for seed in range(1, seeds + 1)]


def job_of(chosen: Setting, seed: int) -> Job:
    run_s = chosen.warm_up_s + chosen.publishing_s + chosen.drain_s
    return Job(
        scenario="drip",
        scheme=chosen.scheme,
        seed=seed,
        params=params_of(chosen),
        payload=chosen.to_payload(),
        runner=MOBILE_BROKERS,
        cost=chosen.nodes * chosen.parameters.k * run_s,
        replay="roamq reproduce DRIP",
    )


def params_of(chosen: Setting) -> dict[str, str]:
    """The parameters that tell the settings of this module apart; equal settings have equal parameters."""
    parameters = chosen.parameters
    return {
        "k": str(parameters.k),
        "l": str(parameters.l),
        "m": str(parameters.m),
        "selection": chosen.selection,
        "detects": chosen.detects,
        "nodes": str(chosen.nodes),
        "channel": "free" if chosen.channel is None else "contended",
        "event_bytes": str(chosen.workload.event_bytes),
        "buffer_events": str(parameters.buffer_events),
        "events_per_s": f"{chosen.workload.events_per_s:g}",
        "interval": f"{chosen.workload.length_mean:g}",
        "publishing_s": f"{chosen.publishing_s:g}",
    }


class Results:
    """What every seed measured, looked up by setting."""

    def __init__(self, evidence: Evidence, jobs: Sequence[Job]) -> None:
        from roamq.pipeline.regions import region_metrics  # needs PySpark, which listing the claims does not

        self._seeds: dict[tuple[str, tuple[tuple[str, str], ...], str, str], dict[int, float]] = {}
        for row in evidence.rows(region_metrics, jobs):
            key = row["scheme"], tuple(sorted(dict(row["params"]).items())), row["metric"], row["entity"]
            self._seeds.setdefault(key, {})[row["seed"]] = row["value"]

    def seeds(self, chosen: Setting, metric: str, entity: str = "all") -> dict[int, float]:
        """Seed -> value. Runs of one seed share movements and events, whatever the setting."""
        return self._seeds[chosen.scheme, tuple(sorted(params_of(chosen).items())), metric, entity]

    def mean(self, chosen: Setting, metric: str, entity: str = "all") -> float:
        return fmean(self.seeds(chosen, metric, entity).values())

    def mean_if_any(self, chosen: Setting, metric: str, entity: str) -> float | None:
        """The mean, or None if no run measured it: in short runs perhaps no broker detects an event."""
        key = chosen.scheme, tuple(sorted(params_of(chosen).items())), metric, entity
        return self.mean(chosen, metric, entity) if key in self._seeds else None

    def series(self, name: str, xs: Sequence[int], settings: Sequence[Setting], metric: str) -> Series:
        found = [interval([*self.seeds(chosen, metric).values()]) for chosen in settings]
        has_interval = all(math.isfinite(one.width) for one in found)
        return Series(
            name=name,
            x=xs,
            y=[one.mean for one in found],
            low=[one.low for one in found] if has_interval else None,
            high=[one.high for one in found] if has_interval else None,
        )


def figure_3_settings(l: int, quick: bool, radio: str = "free") -> list[Setting]:  # noqa: E741
    channel, ks, ms, _ = radios(quick)[radio]
    drip = [setting(k, l, m, quick=quick, channel=channel) for k in ks for m in ms]
    return drip + [setting(k, l, scheme="sf", quick=quick, channel=channel) for k in ks]


def figure_3_jobs(l: int, quick: bool) -> list[Job]:  # noqa: E741
    return [
        job
        for name, radio in radios(quick).items()
        for job in jobs_of(figure_3_settings(l, quick, name), radio.seeds)
    ]


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
    """Delivery ratio and cost, which the paper does not report."""
    rows: list[list[Cell]] = [
        [
            chosen.parameters.k,
            "SF" if chosen.scheme == "sf" else f"DRIP, m={chosen.parameters.m}",
            *(round(results.mean(chosen, metric), 4) for metric in (RATIO, COVERAGE, DELAY, SPREADING)),
            round(results.mean(chosen, TRANSMISSIONS), 1),
            round(results.mean(chosen, TRANSMISSIONS, "event"), 2),
        ]
        for chosen in sorted(
            figure_3_settings(l, quick), key=lambda chosen: (chosen.parameters.k, chosen.scheme)
        )
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


def with_intervals(name: str, x: Sequence[float], estimates: Sequence[Estimate]) -> Series:
    """A curve of estimates, and the band of their intervals."""
    low, high = [one.low for one in estimates], [one.high for one in estimates]
    return Series(name=name, x=x, y=[one.mean for one in estimates], low=low, high=high)
