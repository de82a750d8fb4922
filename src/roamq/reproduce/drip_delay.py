"""[DRIP] Figure 3(b): how long deliveries take, beside an epidemic."""

from dataclasses import replace

from roamq.manet.protocol.ports import Parameters
from roamq.manet.simulation.contention import Channel
from roamq.manet.simulation.experiment import Setting
from roamq.manet.simulation.workload import NumberInterval
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Table
from roamq.reproduce.drip_runs import (
    COVERAGE,
    DELAY,
    RATIO,
    RESTRICTED,
    SPREADING,
    TRANSMISSIONS,
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

CONTENDED_SEEDS = 2


def delay_jobs(quick: bool) -> list[Job]:
    contended = [chosen for pair in contended_settings(quick) for chosen in pair]
    return figure_3_jobs(5, quick) + jobs_of(contended, CONTENDED_SEEDS)


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
    measures: dict[str, Measure] = {
        "deliveries alone": lambda chosen: results.seeds(chosen, DELAY),
        "undelivered counted at 60 s": lambda chosen: results.seeds(chosen, RESTRICTED),
    }
    found = by_setting(measures, 5, quick)
    judgement = Judgement(complete=not quick)
    judge_trends(judgement, found, with_m=FALLS, with_k=GROWS)
    return judgement.outcome(
        "; ".join(f"{name}: {told(one, quick, name.rpartition('=')[2])}" for name, one in found.items()),
        note=sf_words(results, quick),
        figures=[
            figure_3(results, DELAY, "delivery delay, s", "Figure 3(b): delivery delay, l = 5", 5, quick)
        ],
        tables=[trends_table(found), beyond_the_paper(results, 5, quick), *contended_table(results, quick)],
    )


def sf_words(results: Results, quick: bool) -> str:
    """How long SF takes to reach all brokers beside DRIP's deliveries, and both on a contended channel."""
    ks, m = (grid(quick).ks[0], grid(quick).ks[-1]), grid(quick).ms[-1]
    last = [results.mean(setting(k, 5, scheme="sf", quick=quick), SPREADING) for k in ks]
    ours = [results.mean(setting(k, 5, m, quick=quick), DELAY) for k in ks]
    words = (
        f"until the last broker has an event, SF takes {last[0]:.1f} s at k={ks[0]} and {last[1]:.1f} s at k={ks[1]}; "
        f"DRIP with m={m} delivers after {ours[0]:.1f} s and {ours[1]:.1f} s"
    )
    if contended_settings(quick):
        words += "; DRIP and SF with contention: " + contended_words(results, quick)
    return words


def contended_words(results: Results, quick: bool) -> str:
    parts = []
    for drip, epidemic in contended_settings(quick):
        ours, theirs = (results.mean(chosen, DELAY) for chosen in (drip, epidemic))
        delivered = [100 * results.mean(chosen, RATIO) for chosen in (drip, epidemic)]
        parts.append(
            f"{ours:.0f} s and {theirs:.0f} s ({delivered[0]:.0f}% and {delivered[1]:.0f}% delivered) "
            f"at {drip.workload.event_bytes} bytes"
        )
    return ", ".join(parts)


def contended_table(results: Results, quick: bool) -> list[Table]:
    rows: list[list[Cell]] = [
        [
            chosen.workload.event_bytes,
            chosen.scheme.upper(),
            *(
                round(results.mean(chosen, metric), 3)
                for metric in (DELAY, "delivery_delay_s_p50", RATIO, COVERAGE)
            ),
            round(results.mean(chosen, TRANSMISSIONS), 1),
        ]
        for pair in contended_settings(quick)
        for chosen in pair
    ]
    if not rows:
        return []
    return [
        Table(
            title="On a shared channel of 2 Mbit/s: k = 20, l = 5, m = 4",
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
            note="The paper names no size of events.",
        )
    ]
