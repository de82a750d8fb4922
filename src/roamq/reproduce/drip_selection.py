"""[DRIP] Figure 4: does it help to choose brokers by their detecting ability?

The paper says that ability decides "whether a node in the network detects the event". Either it decides which node of
the network detects an event, or which of those near the place where an event occurs; the claim is judged for both, on a
radio without contention and on 802.11.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final, NamedTuple

from roamq.manet.simulation.contention import Channel
from roamq.manet.simulation.experiment import DETECTS, Setting
from roamq.models.paired import Estimate, interval, ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Figure, Series, Table
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
    with_intervals,
)
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement
from roamq.reproduce.registry import Outcome, claim
from roamq.reproduce.settings import text_of

SELECTION_M = 2
RADIOS: Final[dict[str, Channel | None]] = {"free": None, "802.11": Channel()}
SEEDS: Final = {"free": 20, "802.11": 5}
"""A second on 802.11 takes six times as long to simulate, so its runs are fewer, and shorter too."""


class Reading(NamedTuple):
    """One way to read what the paper leaves open."""

    detects: str
    radio: str

    def __str__(self) -> str:
        return text_of({"detects": self.detects, "radio": self.radio})


class SelectionPair(NamedTuple):
    """Brokers by ability and at random, and nothing else different."""

    able: Setting
    drawn: Setting


def readings(quick: bool) -> list[Reading]:
    return [Reading(detects, radio) for radio in ([*RADIOS][:1] if quick else RADIOS) for detects in DETECTS]


def pairs_of(reading: Reading, quick: bool) -> list[SelectionPair]:
    """One pair for every k."""
    m = grid(quick).ms[0] if quick else SELECTION_M
    channel = RADIOS[reading.radio]
    chosen = [
        replace(setting(k, 5, m, quick=quick, channel=channel), detects=reading.detects)
        for k in grid(quick).ks
    ]
    return [SelectionPair(one, replace(one, selection="random")) for one in chosen]


def selection_jobs(quick: bool) -> list[Job]:
    return [
        job
        for reading in readings(quick)
        for pair in pairs_of(reading, quick)
        for job in jobs_of(pair, grid(quick).seeds if quick else SEEDS[reading.radio])
    ]


@claim("DRIP-F4", jobs=selection_jobs)
def broker_selection(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    results = Results(evidence, selection_jobs(quick))
    ks = grid(quick).ks
    changes = {
        reading: [
            ratio(results.seeds(pair.able, DELAY), results.seeds(pair.drawn, DELAY), comparisons=len(ks))
            for pair in pairs_of(reading, quick)
        ]
        for reading in readings(quick)
    }
    judgement = Judgement(complete=not quick)
    for place, k in enumerate(ks):
        judgement.says(
            f"less delay by ability, at k={k} (ratio)",
            {str(reading): by_k[place] for reading, by_k in changes.items()},
            below=1.0,
        )
    return judgement.outcome(
        "; ".join(f"{reading}: {told(ks, by_k)}" for reading, by_k in changes.items()),
        note="; ".join(selection_words(results, reading, quick) for reading in readings(quick)),
        figures=[
            figure_4(results, readings(quick)[0], quick),
            by_reading(ks, changes),
        ],
        tables=[selection_table(results, quick)],
    )


def told(ks: Sequence[int], changes: Sequence[Estimate]) -> str:
    return ", ".join(f"k={k}: {change.mean - 1:+.0%}" for k, change in zip(ks, changes, strict=True))


def figure_4(results: Results, reading: Reading, quick: bool) -> Figure:
    pairs, ks = pairs_of(reading, quick), grid(quick).ks
    return Figure(
        title=f"Figure 4: delivery delay by how brokers are chosen, l = 5 ({reading})",
        kind="line",
        x_label="broker nodes k",
        y_label="delivery delay, s",
        series=[
            results.series("by ability", ks, [pair.able for pair in pairs], DELAY),
            results.series("at random", ks, [pair.drawn for pair in pairs], DELAY),
        ],
        caption="The paper plots the same axes and prints no numbers; its trend is the claim.",
    )


def by_reading(ks: Sequence[int], changes: Mapping[Reading, Sequence[Estimate]]) -> Figure:
    """The delay by ability over that at random: below the line at 1, choosing by ability helps."""
    return Figure(
        title="Does choosing brokers by ability help? By what the paper leaves open",
        kind="line",
        x_label="broker nodes k",
        y_label="delay by ability over delay at random",
        series=[
            Series(name="no difference", x=ks, y=[1.0] * len(ks)),
            *(with_intervals(str(reading), ks, by_k) for reading, by_k in changes.items()),
        ],
        caption="Below 1, choosing by ability helps; a band that holds 1 tells nothing.",
    )


def selection_words(results: Results, reading: Reading, quick: bool) -> str:
    """How much time the saved step is worth here, and what works against it."""
    pairs = pairs_of(reading, quick)

    def average(metric: str, which: int) -> float:
        return sum(results.mean(pair[which], metric) for pair in pairs) / len(pairs)

    words = (
        f"with {reading}, the mean of the ratio over k is {over_all_k(results, pairs)}; "
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


def over_all_k(results: Results, pairs: Sequence[SelectionPair]) -> Estimate:
    """The delay by ability over that at random, averaged over k in each seed: a tighter interval than at one k."""
    found = [(results.seeds(pair.able, DELAY), results.seeds(pair.drawn, DELAY)) for pair in pairs]
    seeds = set.intersection(*(set(able) & set(drawn) for able, drawn in found))
    return interval([fmean(able[seed] / drawn[seed] for able, drawn in found) for seed in sorted(seeds)])


class Detected(NamedTuple):
    """Events by who detected them, in the runs by ability; means over k."""

    delay_s: float
    population: float
    like_others_s: float


def detected(results: Results, pairs: Sequence[SelectionPair], entity: str) -> Detected:
    metrics = (DETECTED_DELAY, DETECTED_POPULATION, DETECTED_LIKE_OTHERS)
    return Detected(
        *(sum(results.mean(pair.able, metric, entity) for pair in pairs) / len(pairs) for metric in metrics)
    )


def rounded(value: float | None, places: int) -> Cell:
    return None if value is None else round(value, places)


def selection_table(results: Results, quick: bool) -> Table:
    rows: list[list[Cell]] = [
        [
            reading.detects,
            reading.radio,
            chosen.parameters.k,
            chosen.selection,
            *(round(results.mean(chosen, metric), 3) for metric in (DELAY, PUBLICATION, BY_SOURCE, RATIO)),
            *(
                rounded(results.mean_if_any(chosen, metric, entity), places)
                for metric, places in ((DETECTED_POPULATION, 1), (DETECTED_DELAY, 2))
                for entity in ("broker", "node")
            ),
            rounded(results.mean_if_any(chosen, DETECTED_LIKE_OTHERS, "broker"), 2),
        ]
        for reading in readings(quick)
        for pair in pairs_of(reading, quick)
        for chosen in pair
    ]
    return Table(
        title="Where the difference comes from",
        columns=[
            "ability decides by",
            "radio",
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
