"""[PRO] section 6.3 and 6.4: throughput of a broker from its expected subscribers, fitted on random mobility.

Our runs go the paper's way: subscribers and throughput of every broker are observed under random mobility, a cubic is
fitted, and at the subscribers that the Markov chain expects it gives the throughput that Fig. 12 and 13 set beside the
measured one. Goes further: other curves compete under cross-validation, and a prediction has an interval.

The paper prints its curve and the totals of Table 2 but not its points; what can be recomputed from those, is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Final

import numpy as np

from roamq.models.curves import Curve, fit_curve, paper_throughput
from roamq.models.paired import exactly
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement, Wanted, about
from roamq.reproduce.pro_judging import Fitted, mean_of
from roamq.reproduce.pro_models import TESTBED, neighboring_occupancy, random_occupancy
from roamq.reproduce.pro_prediction import (
    Observation,
    Prediction,
    by_curve,
    by_pace,
    observations,
    predictions,
    r2_of,
)
from roamq.reproduce.pro_runs import PATTERNS, TABLE_POPULATIONS, fit_cells, fit_jobs, jobs_of, populations
from roamq.reproduce.pro_tables import PUBLISHED_THROUGHPUT
from roamq.reproduce.registry import Outcome, claim

CUBIC: Final = "polynomial-3"
GOOD_R2: Final = 0.9
"""The published curve has 0.9198."""
NEAR_PCT: Final = 20.0
"""How far a curve may be from what was measured, or from the printed totals, to be called close."""
CLOSE: Final = Wanted(at_least=1 - NEAR_PCT / 100, at_most=1 + NEAR_PCT / 100)
CHAINS: Final = {"RND": random_occupancy, "NBR": neighboring_occupancy}


METRICS: Final = ("broker_subscribers", "broker_throughput")


@claim("PRO-fit", jobs=fit_jobs)
def throughput_from_subscribers(evidence: Evidence) -> Outcome:
    """Every accepted parameter set has runs, and a curve, of its own."""
    fitted = Fitted(evidence)
    if not fitted.names:
        return fitted.none_fits()
    by_set = {name: observed_with(evidence, name) for name in fitted.names}
    population = populations(evidence.quick)[-1]
    judgement = judge({name: BySeed(observed, population) for name, observed in by_set.items()})
    first = fitted.names[0]
    shown = Shown(by_set[first], population)
    return fitted.outcome(
        judgement,
        f"{first}: {shown.told()}",
        note=shown.note(),
        figures=shown.figures(),
        tables=shown.tables(),
    )


def observed_with(evidence: Evidence, name: str) -> list[Observation]:
    """Every broker in every run of one parameter set."""
    cells = [cell for cell in fit_cells(evidence.quick) if cell.name == name]
    return observations(row._asdict() for row in evidence.per_seed(jobs_of(cells, evidence.quick), METRICS))


class BySeed:
    """A curve fitted on the random runs of each seed, and what it gives beside the runs of that seed."""

    def __init__(self, observed: Sequence[Observation], population: int) -> None:
        self.r2: dict[int, float] = {}
        self.over_measured: dict[tuple[str, str], dict[int, float]] = {}
        """Pattern and broker -> seed -> the curve at the chain's expected subscribers, over the measured throughput."""
        self.over_expected: dict[tuple[str, str], dict[int, float]] = {}
        """The same of the measured subscribers over the expected ones."""
        for seed in sorted({o.seed for o in observed}):
            mine = [o for o in observed if o.seed == seed]
            rnd = [o for o in mine if o.pattern == "RND"]
            [cubic] = fit_curve([o.subscribers for o in rnd], [o.throughput for o in rnd], [CUBIC])
            self.r2[seed] = cubic.r2
            for o in mine:
                if o.population == population:
                    expected = CHAINS[o.pattern]().expected(population)[o.broker]
                    given = float(cubic.predict(expected))
                    here = o.pattern, o.broker
                    if o.throughput > 0:
                        self.over_measured.setdefault(here, {})[seed] = given / o.throughput
                    self.over_expected.setdefault(here, {})[seed] = o.subscribers / expected

    def mean_over_measured(self, pattern: str) -> dict[int, float]:
        """Over all brokers, seed by seed."""
        of = [by_seed for (which, _), by_seed in self.over_measured.items() if which == pattern]
        return {seed: fmean(by_seed[seed] for by_seed in of if seed in by_seed) for seed in self.r2}

    def close(self, pattern: str) -> dict[int, float]:
        """How many brokers' throughput the curve comes close to, seed by seed."""
        of = [by_seed for (which, _), by_seed in self.over_measured.items() if which == pattern]
        return {
            seed: float(sum(abs(by_seed.get(seed, math.inf) - 1) <= NEAR_PCT / 100 for by_seed in of))
            for seed in self.r2
        }


def judge(sets: Mapping[str, BySeed]) -> Judgement:
    """Section 6.3 and 6.4, over all sets; and what the paper's printed curve and totals say of each other."""
    judgement = Judgement()

    def says(text: str, of: Callable[[BySeed], Mapping[int, float]], wanted: Wanted) -> None:
        judgement.says(text, {name: mean_of(of(one)) for name, one in sets.items()}, wanted)

    says("R2 of the cubic on random runs (published 0.9198)", lambda one: one.r2, Wanted(at_least=GOOD_R2))
    for broker in TESTBED:
        for pattern in PATTERNS:
            says(
                f"{broker} has the expected number of subscribers, very close, {pattern} (over it)",
                lambda one, here=(pattern, broker): one.over_expected.get(here, {}),  # type: ignore[misc]
                about(1.0),
            )
        says(
            f"the curve is close to the throughput of {broker}, RND (over it)",
            lambda one, broker=broker: one.over_measured.get(("RND", broker), {}),  # type: ignore[misc]
            CLOSE,
        )
    says(
        "the curve is relatively higher than the throughput, RND (over it, mean of all brokers)",
        lambda one: one.mean_over_measured("RND"),
        Wanted(above=1.0),
    )
    says(
        "the curve is close to the throughput of most brokers, NBR (of six)",
        lambda one: one.close("NBR"),
        Wanted(above=len(TESTBED) / 2),
    )
    for broker in ("B3", "B6"):
        says(
            f"the curve is relatively lower than the throughput of {broker}, NBR (over it)",
            lambda one, broker=broker: one.over_measured.get(("NBR", broker), {}),  # type: ignore[misc]
            Wanted(below=1.0),
        )
    for pattern, n, _, _, off in printed_rows():
        side = {"above": 0.0, "below": NEAR_PCT} if pattern == "RND" else {"above": -NEAR_PCT, "below": 0.0}
        judgement.says(
            f"Eq. 16 against Table 2 at {n}, {pattern}: somewhat {'high' if pattern == 'RND' else 'low'} (%)",
            exactly(off),
            Wanted(**side),
        )
    return judgement


class Shown:
    """One parameter set: all its runs together, as the paper fits and shows them."""

    def __init__(self, observed: Sequence[Observation], population: int) -> None:
        self.population = population
        self.rnd, self.nbr = ([o for o in observed if o.pattern == pattern] for pattern in PATTERNS)
        self.curves = fit_curve([o.subscribers for o in self.rnd], [o.throughput for o in self.rnd])
        self.cubic = next(curve for curve in self.curves if curve.kind == CUBIC)
        self.predicted = {
            "RND": predictions(by_curve(self.cubic), self.rnd, random_occupancy()),
            "NBR": predictions(by_curve(self.cubic), self.nbr, neighboring_occupancy()),
        }
        self.paced = predictions(by_pace(self.rnd), self.nbr, neighboring_occupancy())

    def at_population(self, pattern: str) -> list[Prediction]:
        return [one for one in self.predicted[pattern] if one.population == self.population]

    def told(self) -> str:
        agree = {p: sum(one.agrees for one in self.at_population(p)) for p in PATTERNS}
        return (
            f"R2 {self.cubic.r2:.4f} on RND, {r2_of(self.predicted['NBR']):.4f} on NBR; intervals overlap at "
            f"{agree['RND']} of {len(TESTBED)} brokers under RND and {agree['NBR']} of {len(TESTBED)} under NBR at "
            f"{self.population}; best by cross-validation: {self.curves[0].kind}"
        )

    def note(self) -> str:
        missed = [one for p in PATTERNS for one in disagreements(self.at_population(p), p)]
        pace = f"subscribers x pace of the population has R2 {r2_of(self.paced):.4f} on NBR"
        return "; ".join([*missed, pace, f"Eq. 16 against Table 2 is {printed_deviations()}"])

    def figures(self) -> list[Figure]:
        bars = [
            prediction_bars(
                self.at_population(p), f"{name} mobility, {self.population} subscribers ({figure})"
            )
            for p, name, figure in (("RND", "Random", "Fig. 12"), ("NBR", "Neighboring", "Fig. 13"))
        ]
        return [fit_figure(self.cubic, self.curves[0], self.rnd, self.nbr), *bars]

    def tables(self) -> list[Table]:
        return [
            kinds_table(self.curves),
            prediction_table(self.predicted["NBR"], self.paced),
            printed_table(),
        ]


def disagreements(predicted: Sequence[Prediction], pattern: str) -> list[str]:
    """The brokers whose measured throughput the curve misses."""
    missed = [prediction for prediction in predicted if not prediction.agrees]
    told = ", ".join(
        f"{prediction.broker} {prediction.predicted:.0f} for {prediction.measured:.0f}"
        for prediction in missed
    )
    return [f"the cubic misses {len(missed)} brokers under {pattern} ({told} msg/s)"] if missed else []


def printed_deviations() -> str:
    """Section 6.4 on the paper's own figures: the curve is somewhat high for RND and somewhat low for NBR."""
    off = {pattern: [row[-1] for row in printed_rows() if row[0] == pattern] for pattern in PATTERNS}
    told = ", ".join(f"{pattern} {'/'.join(f'{d:+.1f}' for d in off[pattern])}%" for pattern in PATTERNS)
    return f"{told} at {'/'.join(map(str, TABLE_POPULATIONS))}"


def printed_rows() -> list[tuple[str, int, float, float, float]]:
    """Pattern, subscribers, Table 2's total, Eq. 16's at the expected subscribers, and its deviation in per cent."""
    rows = []
    for pattern in PATTERNS:
        connected = CHAINS[pattern]().connected
        for n in TABLE_POPULATIONS:
            total = PUBLISHED_THROUGHPUT["proactive", pattern, n]
            curve = float(paper_throughput(n * connected).sum())
            rows.append((pattern, n, total, curve, 100 * (curve / total - 1)))
    return rows


# --- exhibits ------------------------------------------------------------------------------------------------


def fit_figure(cubic: Curve, best: Curve, rnd: Sequence[Observation], nbr: Sequence[Observation]) -> Figure:
    grid = np.linspace(cubic.x_range[0], max(o.subscribers for o in (*rnd, *nbr)), 60)
    low, high = cubic.interval(grid)
    x = grid.tolist()
    series = [
        Series(
            name=f"{pattern} runs",
            x=[o.subscribers for o in some],
            y=[o.throughput for o in some],
            joined=False,
        )
        for pattern, some in (("RND", rnd), ("NBR", nbr))
    ]
    series.append(
        Series(name="cubic", x=x, y=cubic.predict(grid).tolist(), low=low.tolist(), high=high.tolist())
    )
    if best.kind != cubic.kind:
        series.append(Series(name=best.kind, x=x, y=best.predict(grid).tolist()))
    series.append(Series(name="Eq. 16", x=x, y=paper_throughput(grid).tolist(), published=True))
    return Figure(
        title="Throughput of a broker by its subscribers (Fig. 11)",
        kind="line",
        x_label="subscribers connected at the broker, average of a run",
        y_label="messages per second",
        series=series,
        caption=f"A point is a broker in a run. The cubic is fitted on random mobility, up to {cubic.x_range[1]:.0f} "
        "subscribers; its band is the 95% prediction interval. Eq. 16 is for the paper's machines.",
    )


def prediction_bars(predicted: Sequence[Prediction], title: str) -> Figure:
    brokers = [prediction.broker for prediction in predicted]
    published = paper_throughput([prediction.expected for prediction in predicted]).tolist()
    return Figure(
        title=title,
        kind="bar",
        x_label="broker",
        y_label="messages per second",
        series=[
            Series(
                name="measured",
                x=brokers,
                y=[prediction.measured for prediction in predicted],
                low=[prediction.measured - prediction.error for prediction in predicted],
                high=[prediction.measured + prediction.error for prediction in predicted],
            ),
            Series(
                name="predicted",
                x=brokers,
                y=[prediction.predicted for prediction in predicted],
                low=[prediction.low for prediction in predicted],
                high=[prediction.high for prediction in predicted],
            ),
            Series(name="predicted", x=brokers, y=published, published=True),
        ],
        caption="The cubic at the subscribers that the Markov chain expects. Bars: 95% confidence interval of the "
        "measured mean, 95% prediction interval of the curve. Published: Eq. 16 at the same numbers.",
    )


def kinds_table(curves: Sequence[Curve]) -> Table:
    rows: list[list[Cell]] = [
        [
            curve.kind,
            round(curve.r2, 4),
            round(curve.r2_cross_validated, 4),
            " ".join(f"{value:.4g}" for value in curve.coefficients),
        ]
        for curve in curves
    ]
    return Table(
        title="Curves fitted on random mobility, the best first",
        columns=["curve", "R2", "R2 on runs left out", "coefficients"],
        rows=rows,
        note="Of a polynomial highest power first, Eq. 16: 0.0019 -0.2256 12.36 1.711; of a monotone curve its values "
        "at knots.",
    )


def prediction_table(by_cubic: Sequence[Prediction], paced: Sequence[Prediction]) -> Table:
    rows: list[list[Cell]] = [
        [
            prediction.population,
            prediction.broker,
            round(prediction.expected, 2),
            round(prediction.observed, 2),
            f"{prediction.measured:.1f} ± {prediction.error:.1f}",
            round(prediction.predicted, 1),
            f"{prediction.low:.1f} to {prediction.high:.1f}",
            round(other.predicted, 1),
        ]
        for prediction, other in zip(by_cubic, paced, strict=True)
    ]
    return Table(
        title="Throughput per broker under neighboring mobility, predicted from random mobility",
        columns=[
            "subscribers",
            "broker",
            "expected",
            "observed",
            "measured msg/s",
            "cubic",
            "its 95% interval",
            "with pace",
        ],
        rows=rows,
        note="Expected and observed: subscribers at the broker. With pace: expected ones x what one of them gets in "
        "random runs of the same population.",
    )


def printed_table() -> Table:
    return Table(
        title="What the paper prints: Eq. 16 at the expected subscribers, all brokers, and Table 2",
        columns=["pattern", "subscribers", "Table 2 msg/s", "Eq. 16 msg/s", "deviation %"],
        rows=[
            [pattern, n, total, round(curve, 2), round(off, 1)]
            for pattern, n, total, curve, off in printed_rows()
        ],
    )
