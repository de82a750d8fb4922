"""[DIS] section 5.2.2: the cost of commute over time, Figure 5."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import fmean

from roamq.models.paired import Estimate, interval, ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Figure, Series
from roamq.reproduce.dis_open import Said
from roamq.reproduce.dis_runs import ENDS_SEEDS, SCHEMES, populations, runs
from roamq.reproduce.evidence import Evidence, Seeds
from roamq.reproduce.judging import ABOUT, Judgement, Wanted
from roamq.reproduce.registry import Outcome, claim
from roamq.sim.scenario import load_scenario, mobility_of

METRICS = ["hops_in_bin", "unicast_hops_in_bin", "handoffs_in_bin"]
SETTLED_S = 300.0
"""After the last arrival, until transfers have ended."""


def timeline_jobs(quick: bool) -> list[Job]:
    return runs("commute", SCHEMES, {"clients": str(populations(quick)[-1])}, quick=quick, seeds=ENDS_SEEDS)


class Timeline:
    """What the runs measured in bins of five minutes, seed by seed."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.most = populations(evidence.quick)[-1]
        preset = mobility_of(load_scenario("commute"))
        self.clock_s: float = preset.clock_s  # type: ignore[attr-defined]
        self.leave_s: float = preset.leave_s[1]  # type: ignore[attr-defined]
        self.arrived_s: float = self.leave_s + preset.far_s[1]  # type: ignore[attr-defined]

    @cached_property
    def _seeds(self) -> Seeds:
        return Seeds(self._evidence.per_seed(timeline_jobs(self._evidence.quick), METRICS))

    @cached_property
    def bins(self) -> list[str]:
        return sorted(self._seeds.entities("standard", "hops_in_bin", clients=self.most), key=float)

    @property
    def hours(self) -> list[float]:
        return [(self.clock_s + float(end)) / 3600 for end in self.bins]

    def of(self, scheme: str, metric: str) -> dict[int, list[float]]:
        """Seed -> the value in each bin."""
        found = self._seeds.entities(scheme, metric, clients=self.most)
        numbers = sorted({seed for by_seed in found.values() for seed in by_seed})
        return {seed: [found.get(b, {}).get(seed, 0.0) for b in self.bins] for seed in numbers}

    def mean(self, scheme: str, metric: str) -> list[float]:
        """The value in each bin, over all seeds."""
        by_seed = self.of(scheme, metric).values()
        return [fmean(values) for values in zip(*by_seed, strict=True)] if by_seed else [0.0] * len(self.bins)

    def afterwards(self, scheme: str, metric: str) -> dict[int, float]:
        """The mean over the bins in which everybody is connected again."""
        after = [i for i, hour in enumerate(self.hours) if hour * 3600 > self.arrived_s + SETTLED_S]
        return {seed: fmean(by_bin[i] for i in after) for seed, by_bin in self.of(scheme, metric).items()}

    def follows(self, scheme: str) -> dict[int, float]:
        """The correlation of the cost in each bin with the transfers that begin in it."""
        moved = self.of("standard", "handoffs_in_bin")
        cost = self.of(scheme, "unicast_hops_in_bin")
        return {seed: correlation(by_bin, moved[seed]) for seed, by_bin in cost.items()}

    def densest(self) -> dict[int, float]:
        """The largest share of the clients that reconnect within ten minutes."""
        moved = self.of("standard", "handoffs_in_bin")
        return {seed: max(window(by_bin)) / self.most for seed, by_bin in moved.items()}

    def cost(self, scheme: str) -> Estimate:
        """What a scheme costs once everybody is connected again, over standard."""
        return ratio(*(self.afterwards(one, "hops_in_bin") for one in (scheme, "standard")))


def said_of_figure_5(timeline: Timeline) -> list[Said]:
    """Sentences that no model of what the paper leaves open changes."""

    def said(text: str, wanted: Wanted, measure: Callable[[], Mapping[int, float] | Estimate]) -> Said:
        def measured(_: object) -> Estimate:
            found = measure()
            return found if isinstance(found, Estimate) else interval([*found.values()])

        return Said(text=text, wanted=wanted, measure=measured, uses=())

    return [
        *(
            said(
                f"{scheme} follows the number of transfers (correlation)",
                Wanted(above=0.9),
                lambda scheme=scheme: timeline.follows(scheme),  # type: ignore[misc]
            )
            for scheme in ("standard", "logging")
        ),
        *(
            said(
                f"{scheme} costs nothing more after all have reconnected (unicast hops in a bin)",
                Wanted(below=1.0),
                lambda scheme=scheme: timeline.afterwards(scheme, "unicast_hops_in_bin"),  # type: ignore[misc]
            )
            for scheme in ("standard", "logging", "prefetching")
        ),
        *(
            said(
                f"{scheme} has the costs of standard then",
                Wanted(at_least=0.999, at_most=1.001),
                lambda scheme=scheme: timeline.cost(scheme),  # type: ignore[misc]
            )
            for scheme in ("logging", "prefetching")
        ),
        said("home broker stays high", Wanted(above=2.0), lambda: timeline.cost("home-broker")),
        said(
            "at most 10% of the clients reconnect concurrently (in ten minutes)",
            Wanted(at_most=0.1 * (1 + ABOUT)),
            timeline.densest,
        ),
    ]


@claim("DIS-F5", jobs=timeline_jobs)
def cost_over_time_in_commute(evidence: Evidence) -> Outcome:
    timeline = Timeline(evidence)
    judgement = Judgement()
    for said in said_of_figure_5(timeline):
        judgement.says(said.text, said.over_all(), said.wanted)
    hours, most = timeline.hours, timeline.most
    figures = [
        Figure(
            title=f"Fig. 5: message cost over time, commute, {most} subscribers",
            kind="step",
            x_label="time of day (hours)",
            y_label="messages per minute (link traversals)",
            series=[
                Series(name=s, x=hours, y=[hops / 5 for hops in timeline.mean(s, "hops_in_bin")])
                for s in SCHEMES
            ],
            y_log=True,
            marks={"last moveout": timeline.leave_s / 3600, "all at home": timeline.arrived_s / 3600},
        ),
        Figure(
            title="Fig. 5, the other curve: clients that begin a state transfer",
            kind="step",
            x_label="time of day (hours)",
            y_label="reconnections per 5 minutes",
            series=[Series(name="reconnections", x=hours, y=timeline.mean("standard", "handoffs_in_bin"))],
        ),
    ]
    follows = {scheme: fmean(timeline.follows(scheme).values()) for scheme in ("standard", "logging")}
    return judgement.outcome(
        f"correlation with reconnections: standard {follows['standard']:.3f}, logging {follows['logging']:.3f}; after "
        f"all are home home broker costs {timeline.cost('home-broker')} x the others; the densest ten minutes hold "
        f"{fmean(timeline.densest().values()):.1%} of the clients",
        figures=figures,
    )


def window(by_bin: Sequence[float]) -> list[float]:
    """Sums of two bins in a row: ten minutes."""
    return [a + b for a, b in itertools.pairwise(by_bin)]


def correlation(xs: list[float], ys: list[float]) -> float:
    """Pearson's; 0 where one of them does not vary."""
    n = len(xs)
    mean_x, mean_y = sum(xs) / n, sum(ys) / n
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    return covariance / spread**0.5 if spread > 0 else 0.0
