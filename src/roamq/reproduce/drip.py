"""[DRIP] Figure 3(a): how many brokers an event reaches, and beside it what the paper leaves out.

The paper's figures come without tables, so their trends are the claims. It defines coverage twice: by the brokers that
have an event "when its subscriber gets it" (section VI-A), and by those "getting the delivered events" (VI-B1). The
claim is judged for both.
"""

from collections.abc import Sequence
from dataclasses import replace

from roamq.manet.protocol.ports import Parameters
from roamq.manet.simulation.experiment import Setting
from roamq.manet.simulation.waypoint import Walk
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Table
from roamq.reproduce.drip_film import one_event
from roamq.reproduce.drip_runs import (
    COVERAGE,
    COVERAGE_IN_THE_END,
    DELAY,
    RATIO,
    WANTED_BY,
    Results,
    beyond_the_paper,
    figure_3,
    figure_3_jobs,
    grid,
    jobs_of,
    setting,
)
from roamq.reproduce.drip_trends import FALLS, GROWS, Measure, by_setting, judge_trends, told, trends_table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement
from roamq.reproduce.registry import Outcome, claim

WHOLE_RUN_S = 500.0
BUFFER_SEEDS = 3


def coverage_jobs(quick: bool) -> list[Job]:
    return (
        figure_3_jobs(4, quick)
        + jobs_of(buffer_settings(quick), grid(quick).seeds if quick else BUFFER_SEEDS)
        + jobs_of(growth_settings(quick), 1)
    )


@claim("DRIP-F3a", jobs=coverage_jobs)
def broker_coverage(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    results = Results(evidence, coverage_jobs(quick))
    measures: dict[str, Measure] = {
        "when it is delivered": lambda chosen: results.seeds(chosen, COVERAGE),
        "in the end": lambda chosen: results.seeds(chosen, COVERAGE_IN_THE_END),
    }
    found = by_setting(measures, 4, quick)
    judgement = Judgement(complete=not quick)
    judge_trends(judgement, found, with_m=GROWS, with_k=FALLS)
    wanted_by = results.mean(setting(grid(quick).ks[0], 4, quick=quick), WANTED_BY)
    return judgement.outcome(
        "; ".join(f"{name}: {told(one, quick, name.rpartition('=')[2])}" for name, one in found.items()),
        note=f"on average {wanted_by:.1f} subscribers want an event",
        figures=[
            figure_3(results, COVERAGE, "broker coverage", "Figure 3(a): broker coverage, l = 4", 4, quick)
        ],
        tables=[
            trends_table(found),
            beyond_the_paper(results, 4, quick),
            buffers(results, quick),
            growth(results, quick),
        ],
        films=[one_event(quick)],
    )


def buffer_settings(quick: bool) -> list[Setting]:
    """The paper's setting with smaller and smaller buffers; the last one holds a whole run, of the paper's length."""
    k, m = grid(quick).ks[-1], grid(quick).ms[-1]
    one = setting(k, 4, m, quick=quick)
    return [
        replace(
            one,
            parameters=Parameters(k=k, l=4, m=m, buffer_events=places),
            publishing_s=one.publishing_s if quick else WHOLE_RUN_S,
        )
        for places in grid(quick).buffers
    ]


def buffers(results: Results, quick: bool) -> Table:
    rows: list[list[Cell]] = [
        [
            chosen.parameters.buffer_events,
            *(round(results.mean(chosen, metric), 4) for metric in (RATIO, COVERAGE, DELAY)),
        ]
        for chosen in buffer_settings(quick)
    ]
    return Table(
        title=f"What a full broker costs: k = {grid(quick).ks[-1]}, l = 4, m = {grid(quick).ms[-1]}",
        columns=["events a broker can hold", "delivery ratio", "coverage", "delay, s"],
        rows=rows,
        note="The event that the fewest known subscribers want goes first, among those the oldest.",
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
    sizes = growth_settings(quick)
    for chosen in sizes:
        kinds = {
            kind: results.mean(chosen, "transmissions_per_s", kind) / chosen.nodes
            for kind in ("all", "hello", "beacon", "contact")
        }
        rows.append(
            [
                chosen.nodes,
                chosen.parameters.k,
                *(round(value, 3) for value in kinds.values()),
                round(results.mean(chosen, "bytes_per_s") / chosen.nodes),
            ]
        )
    return Table(
        title="How the cost grows with the network: per node and second, at the same density",
        columns=["nodes", "brokers", "transmissions", "hello", "beacon", "contact", "bytes"],
        rows=rows,
        note=f"From {sizes[0].nodes} to {sizes[-1].nodes} nodes, the transmissions of a node change by "
        f"{_growth(results, sizes, 'transmissions_per_s'):+.0%}, its bytes by "
        f"{_growth(results, sizes, 'bytes_per_s'):+.0%}.",
    )


def _growth(results: Results, settings: Sequence[Setting], metric: str) -> float:
    """By what share a node's part changes from the smallest network to the largest."""
    few, many = (results.mean(chosen, metric) / chosen.nodes for chosen in (settings[0], settings[-1]))
    return many / few - 1
