"""[PRE]: is delivery just in time when the paper says so, and what do virtual consumers cost?

The paper has no evaluation ("Currently, we are studying the performance of our algorithm in simulation environment"),
so its two statements are the claims, and its future work is measured beside them.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final, NamedTuple

from roamq.models.paired import Estimate, difference, interval, ratio
from roamq.pipeline.jobs import Job
from roamq.pipeline.prehandoff import (
    just_in_time,
    normal_handoff_delay,
    prehandoff_metrics,
    timeliness_by_seed,
)
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement
from roamq.reproduce.pre_film import one_client
from roamq.reproduce.registry import Outcome, claim
from roamq.sim.scenario import load_scenario

SUBSCRIPTIONS_ARRIVE = 0.6
"""Request, answer and subscriptions are three of the five messages that set a virtual consumer up; a client that
comes before the third has arrived gains nothing.
"""


LIMIT_KMH = 60
"""The speed limit of the city, a little above its fastest trips."""


class Size(NamedTuple):
    delays_s: tuple[float, ...]
    haste: tuple[float, ...]
    limited_haste: tuple[float, ...]
    """The same where the speed limit is known."""
    cones_deg: tuple[float, ...]
    seeds: int
    duration_s: float
    jit_seeds: int
    jit_duration_s: float
    least_probabilities: tuple[float, ...] = (0.02, 0.05, 0.1)
    """With the learned movement pattern: how likely a server must be to get a virtual consumer."""
    hysteresis_s: tuple[float, ...] = (0.0, 15.0, 60.0)


FULL = Size(
    delays_s=(0.25, 0.5, 1.0, 2.0, 4.0),
    haste=(0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0),
    limited_haste=(1.25, 1.5, 2.0),
    cones_deg=(45.0, 90.0, 135.0),
    seeds=5,
    duration_s=1800.0,
    jit_seeds=3,
    jit_duration_s=1500.0,
)
QUICK = Size((0.5, 2.0), (1.0, 2.0), (2.0,), (90.0,), 2, 600.0, 2, 600.0, least_probabilities=(0.05,))


def size(quick: bool) -> Size:
    return QUICK if quick else FULL


def jobs_of(name: str, scheme: str, seeds: int, overrides: Mapping[str, str]) -> list[Job]:
    scenario = load_scenario(name, overrides=overrides, scheme=scheme)
    payload = json.loads(scenario.to_json())
    return [
        Job(scenario=name, scheme=scheme, seed=seed, params=dict(overrides), payload=payload)
        for seed in range(1, seeds + 1)
    ]


# --- PRE-jit -------------------------------------------------------------------------------------------------


LINKS: Final[dict[str, Callable[[float], dict[str, str]]]] = {
    "constant": lambda delay_s: {},
    "jittered": lambda delay_s: {"link.jitter_s": str(delay_s)},
    "loaded": lambda delay_s: {"link.bandwidth_bps": "16000"},
}
"""What links do besides delaying -> the parameters, for a delay. Jitter doubles the delay at most. With 16 kbit/s, the
links at the middle of the city carry events for two thirds of the time, and set-up messages wait behind them."""


def jit_jobs(quick: bool) -> list[Job]:
    return [job for links in LINKS for job in jobs_with(links, quick)]


def jobs_with(links: str, quick: bool) -> list[Job]:
    """Slower and slower links: the same journeys against longer and longer times to set routes up."""
    chosen = size(quick)
    delays_s = chosen.delays_s if links == "constant" else chosen.delays_s[-2:]
    return [
        job
        for delay_s in delays_s
        for scheme in ("prehandoff", "standard")
        for job in jobs_of(
            "prehandoff_jit",
            scheme,
            chosen.jit_seeds,
            {
                "link.delay_s": str(delay_s),
                "duration_s": str(chosen.jit_duration_s),
                **LINKS[links](delay_s),
            },
        )
    ]


class Timeliness:
    """What the runs over one kind of links say of travel time and set-up time."""

    def __init__(self, evidence: Evidence, links: str) -> None:
        jobs = jobs_with(links, evidence.quick)
        self.bins = sorted(
            (row for row in evidence.rows(just_in_time, jobs) if row["scheme"] == "prehandoff"),
            key=lambda row: row["bin"],
        )
        self.normal = evidence.rows(normal_handoff_delay, jobs)[0]
        self._by_seed = [
            row for row in evidence.rows(timeliness_by_seed, jobs) if row["scheme"] == "prehandoff"
        ]

    def share(self, low: float, high: float) -> Estimate:
        """How many handoffs with such a travel time over set-up time were just in time."""
        return self._per_seed(low, high, "timely", "handoffs")

    def delay(self, low: float, high: float) -> Estimate:
        """Their delay, over that of a normal handoff."""
        found = self._per_seed(low, high, "delay", "delays")
        return Estimate(*(value / self.normal["delay"] for value in found))

    def _per_seed(self, low: float, high: float, what: str, of: str) -> Estimate:
        found: dict[int, list[float]] = {}
        for row in self._by_seed:
            if low <= row["bin"] < high and row[of]:
                sums = found.setdefault(row["seed"], [0.0, 0.0])
                sums[0] += row[what]
                sums[1] += row[of]
        if not found:
            return Estimate(math.nan, math.nan, math.nan)
        return interval([a / b for a, b in found.values()])


@claim("PRE-jit", jobs=jit_jobs)
def just_in_time_when_travel_exceeds_setup(evidence: Evidence) -> Outcome:
    """ "Pre-handoff technique can successfully provide just-in-time service if and only if travel time of host from
    current border cell to that of new ES is more than equal the time for establishing paths of notifications"."""
    found = {f"links={links}": Timeliness(evidence, links) for links in LINKS}
    on_time, early, hardly = (1.0, math.inf), (0.0, 1.0), (0.0, SUBSCRIPTIONS_ARRIVE)
    judgement = Judgement()
    judgement.says(
        "just in time if travel >= set-up (share)",
        {links: one.share(*on_time) for links, one in found.items()},
        at_least=0.99,
    )
    judgement.says(
        "not just in time otherwise (share)",
        {links: one.share(*early) for links, one in found.items()},
        at_most=0.01,
    )
    judgement.says(
        "then hardly any delay, over that of a normal handoff",
        {links: one.delay(*on_time) for links, one in found.items()},
        at_most=0.15,
    )
    judgement.says(
        f"no gain for clients that come before {SUBSCRIPTIONS_ARRIVE} of the set-up, over a normal handoff",
        {links: one.delay(*hardly) for links, one in found.items()},
        at_least=0.75,
        at_most=1.25,
    )
    plain = found["links=constant"]
    handoffs = {links: sum(row["handoffs"] for row in one.bins) for links, one in found.items()}
    return judgement.outcome(
        f"{plain.share(*on_time).mean:.1%} of handoffs with travel >= set-up, {plain.share(*early).mean:.1%} of the "
        "others; delay over that of a normal handoff: "
        + "; ".join(
            f"{links.partition('=')[2]} {one.delay(*on_time).mean:.2g} and {one.delay(*hardly).mean:.2g}"
            for links, one in found.items()
        ),
        note="handoffs: " + ", ".join(f"{links} {number}" for links, number in handoffs.items()),
        figures=[timeliness(plain.bins), delays(plain.bins, plain.normal)],
        films=[one_client()],
    )


def timeliness(bins: Sequence[Mapping[str, Any]]) -> Figure:
    return Figure(
        title="Just-in-time handoffs by travel time over route set-up time",
        kind="line",
        x_label="travel time from the border cell / route set-up time",
        y_label="share of handoffs, %",
        series=[
            Series(
                name="just in time",
                x=[round(row["ratio"], 3) for row in bins],
                y=[100 * row["just_in_time"] for row in bins],
            )
        ],
        x_log=True,
        marks={"travel = set-up": 1.0},
        caption="A handoff is just in time if the virtual consumer is complete when the client connects.",
    )


def delays(bins: Sequence[Mapping[str, Any]], normal: Mapping[str, Any]) -> Figure:
    measured = [row for row in bins if row["delay"] is not None]
    xs = [round(row["ratio"], 3) for row in measured]
    errors = [row["delay_error"] or 0.0 for row in measured]
    return Figure(
        title="Handoff delay by travel time over route set-up time",
        kind="line",
        x_label="travel time from the border cell / route set-up time",
        y_label="delay to the first message / set-up time",
        series=[
            Series(
                name="pre-handoff",
                x=xs,
                y=[row["delay"] for row in measured],
                low=[row["delay"] - error for row, error in zip(measured, errors, strict=True)],
                high=[row["delay"] + error for row, error in zip(measured, errors, strict=True)],
            ),
            Series(name="normal handoff", x=[xs[0], xs[-1]], y=[normal["delay"]] * 2),
        ],
        x_log=True,
        marks={"travel = set-up": 1.0},
        caption="From the connection to the first message that the client had not read, in set-up times. The line of "
        "the normal handoff is the mean of the runs of `standard` over the same journeys.",
    )


# --- PRE-cost ------------------------------------------------------------------------------------------------

COSTS = {
    "virtual_consumers_per_handoff": "virtual consumers",
    "virtual_consumer_s_per_handoff": "lifetime, s",
    "control_hops_per_handoff": "control hops",
    "wasted_events_per_handoff": "wasted events",
}
OF_WHAT = {
    "virtual_consumers_per_handoff": "the virtual consumers",
    "virtual_consumer_s_per_handoff": "the time they exist",
    "control_hops_per_handoff": "the control messages",
    "wasted_events_per_handoff": "the events stored for nobody",
}


LEARNED = "learned pattern, at least"


def variants(quick: bool) -> dict[str, dict[str, str]]:
    """How servers are chosen: name -> options."""
    chosen = size(quick)
    found = {"all neighbors": {"scheme.choose": "all"}, "border cells": {"scheme.choose": "border"}}
    for haste in chosen.haste:
        found[f"streets ahead, haste {haste:g}"] = {"scheme.choose": "ahead", "scheme.haste": str(haste)}
    for haste in chosen.limited_haste:
        found[f"streets ahead, limit {LIMIT_KMH} km/h, haste {haste:g}"] = {
            "scheme.choose": "ahead",
            "scheme.haste": str(haste),
            "scheme.limit_mps": f"{LIMIT_KMH / 3.6:.2f}",
        }
    for cone in chosen.cones_deg:
        found[f"cone of {cone:g} degrees"] = {"scheme.choose": "cone", "scheme.cone_deg": str(cone)}
    for least in chosen.least_probabilities:
        found[f"{LEARNED} {least:g}"] = {"scheme.choose": "learned", "scheme.least_probability": str(least)}
    return found


def cost_jobs(quick: bool) -> list[Job]:
    chosen = size(quick)
    return [
        job
        for options in variants(quick).values()
        for job in jobs_of(
            "prehandoff",
            "prehandoff",
            chosen.seeds,
            {**options, "duration_s": str(chosen.duration_s)},
        )
    ]


class Costs:
    """What every seed measured of the variants, looked up by name and metric."""

    def __init__(self, evidence: Evidence) -> None:
        self.names = variants(evidence.quick)
        self._seeds: dict[tuple[frozenset[tuple[str, str]], str], dict[int, float]] = {}
        for row in evidence.rows(prehandoff_metrics, cost_jobs(evidence.quick)):
            if row["value"] is not None:
                key = self._options(dict(row["params"])), row["metric"]
                self._seeds.setdefault(key, {})[row["seed"]] = row["value"]

    @staticmethod
    def _options(params: Mapping[str, str]) -> frozenset[tuple[str, str]]:
        return frozenset((name, value) for name, value in params.items() if name.startswith("scheme."))

    def seeds(self, name: str, metric: str) -> dict[int, float]:
        return self._seeds[self._options(self.names[name]), metric]

    def mean(self, name: str, metric: str) -> float:
        return fmean(self.seeds(name, metric).values())


@claim("PRE-cost", jobs=cost_jobs)
def border_cells_cost_less_than_all_neighbors(evidence: Evidence) -> Outcome:
    """ "If an ES of a moving host executes pre-handoff at every neighboring ESs, it causes substantially unnecessary
    overheads. [...] the proposed algorithm chooses ESs for pre-handoff based on locations of mobile hosts"."""
    costs = Costs(evidence)
    border, every = "border cells", "all neighbors"
    shares = {
        metric: ratio(costs.seeds(border, metric), costs.seeds(every, metric), comparisons=len(COSTS))
        for metric in COSTS
    }
    judgement = Judgement()
    judgement.says(
        "the same hit rate (percentage points)",
        difference(costs.seeds(border, "hit_pct"), costs.seeds(every, "hit_pct")),
        at_least=-0.5,
        at_most=0.5,
    )
    for metric, share in shares.items():
        judgement.says(f"less of {OF_WHAT[metric]} (ratio)", share, below=1.0)
    return judgement.outcome(
        f"hit rate {costs.mean(border, 'hit_pct'):.1f}% against {costs.mean(every, 'hit_pct'):.1f}%; "
        + ", ".join(f"{share.mean:.0%} of {OF_WHAT[metric]}" for metric, share in shares.items()),
        note=f"{by_direction_and_speed(costs)}; {by_movement_pattern(costs)}",
        figures=[relative_costs(costs), trade(costs)],
        tables=[cost_table(costs)],
    )


def by_direction_and_speed(costs: Costs) -> str:
    """The paper's future work in a sentence: the cheapest choice of servers that misses no more clients than border
    cells do.
    """
    border, number = "border cells", "virtual_consumers_per_handoff"
    ahead = sorted((costs.mean(name, number), name) for name in costs.names if name.startswith("streets"))
    equal = [
        (count, name) for count, name in ahead if costs.mean(name, "hit_pct") >= costs.mean(border, "hit_pct")
    ]
    if not equal:
        return "chosen by direction and speed, servers are missed more often than by border cells, at every haste"
    count, name = equal[0]
    return (
        f"chosen by direction and speed ({name}), {1 - count / costs.mean(border, number):.0%} fewer virtual consumers "
        f"still, at a hit rate of {costs.mean(name, 'hit_pct'):.2f}% against {costs.mean(border, 'hit_pct'):.2f}%"
    )


def by_movement_pattern(costs: Costs) -> str:
    """Section 2.3's pattern in a sentence, at each least probability."""
    border, number = "border cells", "virtual_consumers_per_handoff"
    told = [
        f"{name.removeprefix(LEARNED).strip()}: {1 - costs.mean(name, number) / costs.mean(border, number):.1%} fewer "
        f"virtual consumers, hit rate {costs.mean(name, 'hit_pct'):.2f}%"
        for name in costs.names
        if name.startswith(LEARNED)
    ]
    return f"chosen by a pattern learned during the run, by least probability: {', '.join(told)}"


def relative_costs(costs: Costs) -> Figure:
    shown = [
        "all neighbors",
        "border cells",
        *(name for name in costs.names if name.endswith(("haste 1", "haste 2", f"{LEARNED} 0.05"))),
    ]
    return Figure(
        title="What a handoff costs, by how servers are chosen (all neighbors = 100%)",
        kind="bar",
        x_label="",
        y_label="% of pre-handoff at all neighbors",
        series=[
            Series(
                name=name,
                x=list(COSTS.values()),
                y=[100 * costs.mean(name, metric) / costs.mean("all neighbors", metric) for metric in COSTS],
            )
            for name in shown
        ],
        caption="The same journeys in the same city; hit rates are in the table.",
    )


def trade(costs: Costs) -> Figure:
    """The paper's future work: fewer virtual consumers, and how many clients are missed for it."""

    def series(title: str, names: Sequence[str]) -> Series:
        placed = sorted((costs.mean(name, "virtual_consumers_per_handoff"), name) for name in names)
        return Series(
            name=title,
            x=[round(x, 3) for x, _ in placed],
            y=[round(100 - costs.mean(name, "hit_pct"), 3) for _, name in placed],
        )

    def named(beginning: str) -> list[str]:
        return [name for name in costs.names if name.startswith(beginning)]

    curves = [
        series("border cells", ["border cells"]),
        series("streets ahead", named("streets ahead, haste")),
        series(f"streets ahead, limit {LIMIT_KMH} km/h", named("streets ahead, limit")),
        series("cone ahead", named("cone")),
        series("learned pattern", named(LEARNED)),
    ]
    return Figure(
        title="Areas chosen from direction and speed, or a learned pattern: misses by virtual consumers",
        kind="line",
        x_label="virtual consumers per handoff",
        y_label="handoffs that find no virtual consumer, %",
        y_log=all(y > 0 for curve in curves for y in curve.y),
        series=curves,
        caption=(
            "Streets ahead: areas from when on the client can be there, by street from where it came into its cell, "
            "at so many times (haste) the speed it was seen at, or no faster than the limit allows. Cone "
            "ahead: areas within an angle of its direction. Learned pattern: areas that clients who came the same way "
            "went to often enough, learned during the run. All have the same journeys; at the level of border "
            "cells only those are missed whom the paper's algorithm misses too."
        ),
    )


def cost_table(costs: Costs) -> Table:
    rows: list[list[Cell]] = [
        [
            name,
            round(costs.mean(name, "hit_pct"), 2),
            *(round(costs.mean(name, metric), 2) for metric in COSTS),
        ]
        for name in costs.names
    ]
    return Table(
        title="Cost per handoff",
        columns=["servers", "hit rate, %", *COSTS.values()],
        rows=rows,
        note="A client that is switched off at a border, or stands in a border cell for longer than T, has no virtual "
        "consumer under any choice of servers.",
    )
