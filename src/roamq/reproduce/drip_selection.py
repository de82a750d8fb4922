"""[DRIP] Figure 4: does it help to choose brokers by their detecting ability?"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from roamq.manet.simulation.experiment import Setting
from roamq.models.paired import ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Figure, Table
from roamq.reproduce.drip_runs import (
    BY_SOURCE,
    DELAY,
    DETECTED_DELAY,
    DETECTED_LIKE_OTHERS,
    DETECTED_POPULATION,
    PUBLICATION,
    RATIO,
    Results,
    grid,
    jobs_of,
    setting,
)
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement
from roamq.reproduce.registry import Outcome, claim

SELECTION_M = 2
SELECTION_SEEDS = 20


def selection_settings(quick: bool) -> list[tuple[Setting, Setting]]:
    """For every k: brokers by ability, and at random."""
    m = grid(quick).ms[0] if quick else SELECTION_M
    return [
        (chosen, replace(chosen, selection="random"))
        for chosen in (setting(k, 5, m, quick=quick) for k in grid(quick).ks)
    ]


def selection_jobs(quick: bool) -> list[Job]:
    settings = [chosen for pair in selection_settings(quick) for chosen in pair]
    return jobs_of(settings, grid(quick).seeds if quick else SELECTION_SEEDS)


@claim("DRIP-F4", jobs=selection_jobs)
def broker_selection(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    results = Results(evidence, selection_jobs(quick))
    pairs, ks = selection_settings(quick), grid(quick).ks
    changes = {
        k: ratio(results.seeds(able, DELAY), results.seeds(drawn, DELAY), comparisons=len(ks))
        for k, (able, drawn) in zip(ks, pairs, strict=True)
    }
    judgement = Judgement()
    for k, change in changes.items():
        judgement.says(f"less delay by ability, at k={k} (ratio)", change, below=1.0)
    return judgement.outcome(
        ", ".join(f"k={k}: {change.mean - 1:+.0%}" for k, change in changes.items()),
        note=selection_words(results, pairs),
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
    """How much time the saved step is worth here, and what works against it."""

    def average(metric: str, which: int) -> float:
        return sum(results.mean(pair[which], metric) for pair in pairs) / len(pairs)

    words = (
        "the step from the detecting node to the first broker takes "
        f"{average(PUBLICATION, 1):.2f} s at random and {average(PUBLICATION, 0):.2f} s by ability, of a delay of "
        f"{average(DELAY, 1):.1f} s"
    )
    own, others = detected(results, pairs, "broker"), detected(results, pairs, "node")
    words += (
        f"; an event that any node detects begins among {others.population:.0f} nodes and is delivered after "
        f"{others.delay_s:.1f} s; one that a broker detects begins among {own.population:.0f}, and is delivered after "
        f"{own.delay_s:.1f} s, or {own.like_others_s:.1f} s if each counts as often as its region has nodes"
    )
    return words


class Detected(NamedTuple):
    """Events by who detected them, in the runs by ability; means over k."""

    delay_s: float
    population: float
    like_others_s: float


def detected(results: Results, pairs: Sequence[tuple[Setting, Setting]], entity: str) -> Detected:
    metrics = (DETECTED_DELAY, DETECTED_POPULATION, DETECTED_LIKE_OTHERS)
    return Detected(
        *(sum(results.mean(able, metric, entity) for able, _ in pairs) / len(pairs) for metric in metrics)
    )


def selection_table(results: Results, pairs: Sequence[tuple[Setting, Setting]]) -> Table:
    rows: list[list[Cell]] = [
        [
            chosen.parameters.k,
            chosen.selection,
            *(round(results.mean(chosen, metric), 3) for metric in (DELAY, PUBLICATION, BY_SOURCE, RATIO)),
            *(
                round(results.mean(chosen, metric, entity), places)
                for metric, places in ((DETECTED_POPULATION, 1), (DETECTED_DELAY, 2))
                for entity in ("broker", "node")
            ),
            round(results.mean(chosen, DETECTED_LIKE_OTHERS, "broker"), 2),
        ]
        for pair in pairs
        for chosen in pair
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
            "nodes around: broker detects",
            "other detects",
            "delay: broker detects",
            "other detects, s",
            "broker detects, by population",
        ],
        rows=rows,
        note="'By the source' is the share of deliveries in the region where the event was published. By population: "
        "each event counts as often as its region has nodes, as if any of these had detected it.",
    )
