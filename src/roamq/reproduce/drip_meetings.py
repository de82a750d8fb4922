"""[DRIP] Eq. 1 and 2 beside DRIP's own runs: when the destinations of an event have it.

1/lambda, the mean time until the regions of two brokers meet, is fitted for each k: m times the mean time in which a
destination is found, over all m alike. With it the formulas give the time until the last destination has the event,
which the same records measure. So only the formulas are judged, not the meeting time that the paper takes from its
reference [9].
"""

import math
from collections.abc import Mapping
from statistics import fmean, linear_regression
from typing import Final, NamedTuple

from roamq.models.paired import Estimate, interval, ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.drip_runs import Results, grid, jobs_of, setting
from roamq.reproduce.judging import Judgement, Wanted, about

L: Final = 5
FOUND, ALL_FOUND = "destination_found_s", "destinations_found_s"
DONE: Final = "destinations_found_share"
QUARTILES: Final = (25, 50, 75)
OFF: Final = 0.05
"""How far a share of events may be from the one that Eq. 1 gives."""
FACTORS: Final = {"H_l/(m lambda)": "destinations_harmonic", "Eq. 2": "destinations_printed"}
"""Formula -> the metric that it is a multiple of."""


def meeting_jobs(quick: bool) -> list[Job]:
    """The runs of Figure 3(b) with DRIP."""
    settings = [setting(k, L, m, quick=quick) for k in grid(quick).ks for m in grid(quick).ms]
    return jobs_of(settings, grid(quick).seeds)


class Found(NamedTuple):
    """One k and m, seed by seed."""

    measured_s: dict[int, float]
    """Until the last destination of an event has it."""
    by_formula: dict[str, dict[int, float]]


class Meetings:
    """What the runs say of meetings, and what the formulas make of it."""

    def __init__(self, results: Results, quick: bool) -> None:
        self.ks, self.ms = grid(quick).ks, grid(quick).ms
        one = {(k, m): results.seeds(setting(k, L, m, quick=quick), FOUND) for k in self.ks for m in self.ms}
        seeds = [*one[self.ks[0], self.ms[0]]]
        self.meeting_s = {
            k: {seed: math.exp(fmean(math.log(m * one[k, m][seed]) for m in self.ms)) for seed in seeds}
            for k in self.ks
        }
        """k -> seed -> 1/lambda(k)."""
        self.found = {
            (k, m): Found(
                results.seeds(setting(k, L, m, quick=quick), ALL_FOUND),
                {
                    name: {
                        seed: factor * self.meeting_s[k][seed] / m
                        for seed, factor in results.seeds(setting(k, L, m, quick=quick), metric).items()
                    }
                    for name, metric in FACTORS.items()
                },
            )
            for k in self.ks
            for m in self.ms
        }

        self.done = {
            (k, m, percent): results.seeds(setting(k, L, m, quick=quick), DONE, str(percent))
            for k in self.ks
            for m in self.ms
            for percent in QUARTILES
        }

    @property
    def power(self) -> float:
        """b of 1/lambda(k) = a k^b, by a regression of the logarithms."""
        means = [math.log(fmean(self.meeting_s[k].values())) for k in self.ks]
        return linear_regression([math.log(k) for k in self.ks], means).slope

    def over_measured(self, k: int, m: int, formula: str) -> Estimate:
        found = self.found[k, m]
        return ratio(found.by_formula[formula], found.measured_s, comparisons=len(self.found))

    def judge(self, judgement: Judgement) -> None:
        for k in self.ks:
            for percent in QUARTILES:
                judgement.says(
                    f"Eq. 1 gives the distribution in DRIP's runs at {percent}%, k={k} (share of events, mean over m)",
                    interval([*self.share_done(k, percent).values()]),
                    Wanted(at_least=percent / 100 - OFF, at_most=percent / 100 + OFF, named=percent / 100),
                )
        for k, m in self.found:
            judgement.says(
                f"Eq. 2 gives the delay of DRIP's runs, k={k}, m={m} (ratio)",
                self.over_measured(k, m, "Eq. 2"),
                about(1.0),
            )

    def share_done(self, k: int, percent: int) -> dict[int, float]:
        """The share of events whose destinations had all been found when Eq. 1 gives `percent`, mean over m."""
        by_m = [self.done[k, m, percent] for m in self.ms]
        return {seed: fmean(one[seed] for one in by_m) for seed in by_m[0]}

    def told(self) -> str:
        """1/lambda(k) as fitted, and the command that goes on from it."""
        first = self.ks[0]
        by_k = ", ".join(f"{fmean(self.meeting_s[k].values()):.3g} s for k={k}" for k in self.ks)
        return (
            f"in DRIP's runs two regions meet after {by_k}, as k^{self.power:.2f}: `roamq plan regions --brokers "
            f"{first} --meeting-s {fmean(self.meeting_s[first].values()):.3g} --meeting-power {self.power:.2f}`"
        )

    def table(self) -> Table:
        rows: list[list[Cell]] = [
            [
                k,
                m,
                round(fmean(self.meeting_s[k].values()), 1),
                round(fmean(found.measured_s.values()), 1),
                *(str(self.over_measured(k, m, name)) for name in FACTORS),
            ]
            for (k, m), found in self.found.items()
        ]
        return Table(
            title=f"Until all destinations have an event, in DRIP's own runs, l = {L}",
            columns=[
                "k",
                "m",
                "1/lambda, fitted, s",
                "measured, s",
                *(f"{name} over it" for name in FACTORS),
            ],
            rows=rows,
            note="An event has the destinations of all its subscribers, of whom there are about five.",
        )

    def distribution(self) -> Figure:
        shares = [percent / 100 for percent in QUARTILES]
        return Figure(
            title=f"Eq. 1 beside DRIP's own runs, l = {L}, mean over m",
            kind="line",
            x_label="share of events that have reached all destinations, by Eq. 1",
            y_label="share in the runs by then",
            series=[
                Series(name="as Eq. 1 says", x=shares, y=shares, published=True),
                *(
                    Series(
                        name=f"k={k}", x=shares, y=[fmean(self.share_done(k, p).values()) for p in QUARTILES]
                    )
                    for k in self.ks
                ),
            ],
            caption="1/(lambda m) is the mean time in which a destination was found in the same run.",
        )

    def figure(self) -> Figure:
        m = self.ms[-1]

        def mean_of(values: Mapping[int, float]) -> float:
            return fmean(values.values())

        return Figure(
            title=f"Until all destinations have an event, in DRIP's own runs, l = {L}, m = {m}",
            kind="line",
            x_label="broker nodes k",
            y_label="seconds",
            y_log=True,
            series=[
                Series(name="measured", x=self.ks, y=[mean_of(self.found[k, m].measured_s) for k in self.ks]),
                *(
                    Series(
                        name=name,
                        x=self.ks,
                        y=[mean_of(self.found[k, m].by_formula[name]) for k in self.ks],
                        published=name == "Eq. 2",
                    )
                    for name in FACTORS
                ),
            ],
            caption="1/lambda is fitted to the time in which a single destination is found.",
        )
