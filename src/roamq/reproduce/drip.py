"""[DRIP]: coverage and delay of brokers that move, in the paper's setting, and what it leaves out.

Figures 3(a), 3(b) and 4 print no table, so their trends are the claims. Runs of one seed share movements,
subscriptions and events; only the protocol differs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from roamq.manet.contention import Channel
from roamq.manet.experiment import Setting
from roamq.manet.ports import Parameters
from roamq.manet.waypoint import Walk
from roamq.manet.workload import NumberInterval
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.drip_film import one_event
from roamq.reproduce.registry import Evidence, Outcome, Verdict, claim

RUNNER = "roamq.manet.experiment:run_job"
COVERAGE, DELAY, RATIO = "broker_coverage", "delivery_delay_s", "delivery_ratio"
TRANSMISSIONS = "transmissions_per_delivery"
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


FULL = Grid((10, 20, 30, 40), (1, 2, 4), 3, 500.0, (512, 4096, 16384), (200, 500, 1000, 2000, 5000))
QUICK = Grid((10, 30), (1, 4), 1, 60.0, (), (200, 500))


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


# ---- Figure 3(a): broker coverage ---------------------------------------------------------------------------


def coverage_jobs(quick: bool) -> list[Job]:
    return jobs_of(figure_3_settings(4, quick), grid(quick).seeds) + jobs_of(growth_settings(quick), 1)


@claim("DRIP-F3a", jobs=coverage_jobs)
def broker_coverage(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    results = Results(evidence, coverage_jobs(quick))
    found = trends(results, COVERAGE, 4, quick)
    holds = min(found.with_m) > 0 and max(found.with_k) < 0 and max(found.to_sf) < 0
    return Outcome(
        verdict=Verdict.REPRODUCED if holds else Verdict.DIFFERS,
        ours=(
            f"{spread(found.with_m)} from m={grid(quick).ms[0]} to {grid(quick).ms[-1]}, "
            f"{spread(found.with_k)} from k={grid(quick).ks[0]} to {grid(quick).ks[-1]}, "
            f"{spread(found.to_sf)} against SF"
        ),
        why="an event has about five subscribers in this workload, so its destinations are more than l",
        figures=[
            figure_3(results, COVERAGE, "broker coverage", "Figure 3(a): broker coverage, l = 4", 4, quick)
        ],
        tables=[beyond_the_paper(results, 4, quick), growth(results, quick)],
        films=[one_event(quick)],
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


def growth_settings(quick: bool) -> list[Setting]:
    """More nodes on a larger field at the same density, a tenth of them brokers."""
    return [
        Setting(
            nodes=nodes,
            parameters=Parameters(k=nodes // 10, l=5, m=3),
            walk=Walk(side_m=1000.0 * (nodes / 200) ** 0.5),
            warm_up_s=20.0,
            publishing_s=10.0,
            drain_s=0.0,
        )
        for nodes in grid(quick).nodes
    ]


def growth(results: Results, quick: bool) -> Table:
    rows: list[list[Cell]] = []
    for one in growth_settings(quick):
        kinds = {
            kind: results.mean(one, "transmissions_per_s", kind) / one.nodes
            for kind in ("all", "hello", "beacon", "contact")
        }
        rows.append(
            [
                one.nodes,
                one.parameters.k,
                *(round(value, 3) for value in kinds.values()),
                round(results.mean(one, "bytes_per_s") / one.nodes),
            ]
        )
    return Table(
        title="How the cost grows with the network: per node and second, at the same density",
        columns=["nodes", "brokers", "transmissions", "hello", "beacon", "contact", "bytes"],
        rows=rows,
        note="Transmissions per node stay level, for broadcasts are pruned by the l nearest; bytes grow, for "
        "every broker learns every subscription.",
    )


# ---- Figure 3(b): delivery delay ----------------------------------------------------------------------------

CONTENDED_SEEDS = 2


def delay_jobs(quick: bool) -> list[Job]:
    contended = [one for pair in contended_settings(quick) for one in pair]
    return jobs_of(figure_3_settings(5, quick), grid(quick).seeds) + jobs_of(contended, CONTENDED_SEEDS)


def contended_settings(quick: bool) -> list[tuple[Setting, Setting]]:
    """DRIP and SF on a channel of 2 Mbit/s, by the size of events."""
    pairs = []
    for size in grid(quick).event_bytes:
        drip = replace(
            setting(20, 5, 4, quick=quick),
            channel=Channel(),
            workload=NumberInterval(event_bytes=size),
            publishing_s=100.0,
        )
        epidemic = replace(drip, scheme="sf", parameters=Parameters(k=20, l=5, m=1))
        pairs.append((drip, epidemic))
    return pairs


@claim("DRIP-F3b", jobs=delay_jobs)
def delivery_delay(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    results = Results(evidence, delay_jobs(quick))
    found = trends(results, DELAY, 5, quick)
    with_m, with_k, below_sf = max(found.with_m) < 0, min(found.with_k) > 0, max(found.to_sf) < 0
    why = sf_words(results, quick) if with_m and with_k and not below_sf else ""
    return Outcome(
        verdict=Verdict.REPRODUCED if with_m and with_k and below_sf else Verdict.DIFFERS,
        ours=(
            f"{spread(found.with_m)} from m={grid(quick).ms[0]} to {grid(quick).ms[-1]}, "
            f"{spread(found.with_k)} from k={grid(quick).ks[0]} to {grid(quick).ks[-1]}, "
            f"{spread(found.to_sf)} against SF"
        ),
        why=why,
        figures=[
            figure_3(results, DELAY, "delivery delay, s", "Figure 3(b): delivery delay, l = 5", 5, quick)
        ],
        tables=[beyond_the_paper(results, 5, quick), *contended_table(results, quick)],
    )


def sf_words(results: Results, quick: bool) -> str:
    """Why SF is faster here, and the two ways in which the paper's explanation can be read."""
    ks, m = (grid(quick).ks[0], grid(quick).ks[-1]), grid(quick).ms[-1]
    last = [results.mean(setting(k, 5, scheme="sf", quick=quick), SPREADING) for k in ks]
    ours = [results.mean(setting(k, 5, m, quick=quick), DELAY) for k in ks]
    words = (
        "falls with m and grows with k as published, but SF is faster: an epidemic also takes every way that m "
        "carriers take, so without contention nothing can be earlier; until the last broker has an event, SF takes "
        f"{last[0]:.1f} s at k={ks[0]} and {last[1]:.1f} s at k={ks[1]}, where DRIP with m={m} delivers after "
        f"{ours[0]:.1f} s and {ours[1]:.1f} s"
    )
    if contended_settings(quick):
        words += "; with contention " + contended_words(results, quick)
    return words


def contended_words(results: Results, quick: bool) -> str:
    parts = []
    for drip, epidemic in contended_settings(quick):
        ours, theirs = (results.mean(one, DELAY) for one in (drip, epidemic))
        delivered = [100 * results.mean(one, RATIO) for one in (drip, epidemic)]
        parts.append(
            f"{ours:.0f} s to {theirs:.0f} s ({delivered[0]:.0f}% and {delivered[1]:.0f}% delivered) "
            f"at {drip.workload.event_bytes} bytes"
        )
    return ", ".join(parts)


def contended_table(results: Results, quick: bool) -> list[Table]:
    rows: list[list[Cell]] = [
        [
            one.workload.event_bytes,
            one.scheme.upper(),
            *(
                round(results.mean(one, metric), 3)
                for metric in (DELAY, "delivery_delay_s_p50", RATIO, COVERAGE)
            ),
            round(results.mean(one, TRANSMISSIONS), 1),
        ]
        for pair in contended_settings(quick)
        for one in pair
    ]
    if not rows:
        return []
    return [
        Table(
            title="Why the paper may have seen SF slower: a shared channel of 2 Mbit/s, k = 20, l = 5, m = 4",
            columns=[
                "event, bytes",
                "scheme",
                "delay, s",
                "median, s",
                "delivery ratio",
                "coverage",
                "transmissions",
            ],
            rows=rows,
            note="The paper names no size of events. Only a channel near its capacity takes SF's lead away.",
        )
    ]


# ---- Figure 4: how brokers are chosen -----------------------------------------------------------------------

SELECTION_M = 2
SELECTION_SEEDS = 4


def selection_settings(quick: bool) -> list[tuple[Setting, Setting]]:
    """For every k: brokers by ability, and at random."""
    m = grid(quick).ms[0] if quick else SELECTION_M
    return [
        (one, replace(one, selection="random"))
        for one in (setting(k, 5, m, quick=quick) for k in grid(quick).ks)
    ]


def selection_jobs(quick: bool) -> list[Job]:
    settings = [one for pair in selection_settings(quick) for one in pair]
    return jobs_of(settings, grid(quick).seeds if quick else SELECTION_SEEDS)


@claim("DRIP-F4", jobs=selection_jobs)
def broker_selection(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    results = Results(evidence, selection_jobs(quick))
    pairs, ks = selection_settings(quick), grid(quick).ks
    changes = [results.mean(able, DELAY) / results.mean(drawn, DELAY) - 1 for able, drawn in pairs]
    holds = max(changes) < 0
    return Outcome(
        verdict=Verdict.REPRODUCED if holds else Verdict.DIFFERS,
        ours=", ".join(f"k={k}: {change:+.0%}" for k, change in zip(ks, changes, strict=True)),
        why="" if holds else selection_words(results, pairs),
        figures=[
            Figure(
                title="Figure 4: delivery delay by how brokers are chosen, l = 5",
                kind="line",
                x_label="broker nodes k",
                y_label="delivery delay, s",
                series=[
                    results.series("by ability", ks, [pair[0] for pair in pairs], DELAY),
                    results.series("at random", ks, [pair[1] for pair in pairs], DELAY),
                ],
                caption="The paper plots the same axes and prints no numbers; its trend is the claim.",
            )
        ],
        tables=[selection_table(results, pairs)],
    )


def selection_words(results: Results, pairs: Sequence[tuple[Setting, Setting]]) -> str:
    """What the step that ability saves is worth here, and what works against it."""

    def average(metric: str, which: int) -> float:
        return sum(results.mean(pair[which], metric) for pair in pairs) / len(pairs)

    words = (
        "the step from the detecting node to the first broker, which ability is to save, takes "
        f"{average(PUBLICATION, 1):.2f} s at random and {average(PUBLICATION, 0):.2f} s by ability, of a delay of "
        f"{average(DELAY, 1):.1f} s"
    )
    if average(BY_SOURCE, 1) > average(BY_SOURCE, 0):
        words += (
            "; against it, an event that any node detects enters at the broker of a populous region, where "
            f"{average(BY_SOURCE, 1):.1%} of the deliveries need no other broker; "
            f"by ability {average(BY_SOURCE, 0):.1%}"
        )
    return words


def selection_table(results: Results, pairs: Sequence[tuple[Setting, Setting]]) -> Table:
    rows: list[list[Cell]] = [
        [
            one.parameters.k,
            one.selection,
            *(round(results.mean(one, metric), 3) for metric in (DELAY, PUBLICATION, BY_SOURCE, RATIO)),
        ]
        for pair in pairs
        for one in pair
    ]
    return Table(
        title="Where the difference comes from",
        columns=[
            "k",
            "chosen by",
            "delay, s",
            "until the first broker has it, s",
            "by the source",
            "delivery ratio",
        ],
        rows=rows,
        note="'By the source' is the share of deliveries in the region where the event was published.",
    )


def spread(changes: Sequence[float]) -> str:
    """`-12% to -30%`, or one number if they are the same."""
    low, high = f"{min(changes):+.0%}", f"{max(changes):+.0%}"
    return low if low == high else f"{low} to {high}"
