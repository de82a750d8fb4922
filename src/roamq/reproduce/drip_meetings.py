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

from roamq.models.paired import Estimate, ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.drip_runs import Results, grid, jobs_of, setting
from roamq.reproduce.judging import Judgement, about

L: Final = 5
FOUND, ALL_FOUND = "destination_found_s", "destinations_found_s"
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

    @property
    def power(self) -> float:
        """b of 1/lambda(k) = a k^b, by a regression of the logarithms."""
        means = [math.log(fmean(self.meeting_s[k].values())) for k in self.ks]
        return linear_regression([math.log(k) for k in self.ks], means).slope

    def over_measured(self, k: int, m: int, formula: str) -> Estimate:
        found = self.found[k, m]
        return ratio(found.by_formula[formula], found.measured_s, comparisons=len(self.found))

    def judge(self, judgement: Judgement) -> None:
        for k, m in self.found:
            judgement.says(
                f"Eq. 2 gives the delay of DRIP's runs, k={k}, m={m} (ratio)",
                self.over_measured(k, m, "Eq. 2"),
                about(1.0),
            )

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
