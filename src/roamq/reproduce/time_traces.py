"""[TIME] section 4.1.3: connectivity traces, from tuples to fitted periods.

The recordings of Fig. 10 are not public. The claim is that the method recovers the parameters: traces of
the same size are generated with the published parameters, in the paper's form (a tuple at every change and
every 30 s, journeys of 26 minutes), and fitted blindly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roamq.models.connectivity import Connectivity, Periods, concatenate, join, periods
from roamq.models.fitting import Fit, ccdf, fit_durations
from roamq.models.paired import Estimate
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement
from roamq.reproduce.registry import Outcome, claim

SAMPLING_S: Final = 30.0

Journey = tuple[list[float], list[bool]]


@dataclass(frozen=True, slots=True)
class MetroPath:
    """One path of the paper's data set."""

    name: str
    t_on_s: float
    t_off_s: float
    journeys: int
    journey_s: float


PATHS: Final = (
    MetroPath("path 1", 146.38, 96.0, 34, 26.8 * 60),
    MetroPath("path 2", 155.88, 72.15, 28, 26.0 * 60),
)


def generate(path: MetroPath, rng: np.random.Generator) -> list[Journey]:
    """Journeys of one path as the application records them."""
    journeys = []
    for _ in range(path.journeys):
        state = bool(rng.random() < path.t_on_s / (path.t_on_s + path.t_off_s))
        changes = [0.0]
        states = [state]
        while changes[-1] < path.journey_s:
            changes.append(changes[-1] + rng.exponential(path.t_on_s if states[-1] else path.t_off_s))
            states.append(not states[-1])
        regular = np.arange(0.0, path.journey_s, SAMPLING_S)
        times = np.union1d([t for t in changes if t < path.journey_s], [*regular, path.journey_s])
        at = np.searchsorted(changes, times, side="right") - 1
        journeys.append((times.tolist(), [states[i] for i in at]))
    return journeys


@dataclass(frozen=True, slots=True)
class FittedState:
    """Connected or disconnected periods of one path: those of one data set, and how often the fit of many was right."""

    name: str
    true_s: float
    state: Periods
    glued_s: float
    """The mean of periods that are joined across journeys, as the paper does."""
    repeats: int
    inside: int
    """Data sets whose interval holds the truth."""
    rejected: int
    """Data sets for which the exponential is rejected at 5%."""


def _run(path: MetroPath, seed: int, repeats: int) -> list[FittedState]:
    rng = np.random.default_rng(seed)
    first = _observed(generate(path, rng))
    glued = concatenate(generate(path, np.random.default_rng(seed)))
    inside, rejected = [0, 0], [0, 0]
    for _ in range(repeats):
        for i, (state, true_s) in enumerate(_states(_observed(generate(path, rng)), path)):
            inside[i] += bool(abs(state.exponential_mean_s() / true_s - 1) <= 1.96 / np.sqrt(state.ends))
            rejected[i] += bool(fit_durations(state.whole_s, ["exponential"])[0].ks_pvalue < 0.05)
    return [
        FittedState(
            f"{path.name} {name}",
            true_s,
            state,
            float(joined.whole_s.mean()),
            repeats,
            inside[i],
            rejected[i],
        )
        for i, (name, (state, true_s), joined) in enumerate(
            zip(("ON", "OFF"), _states(first, path), (glued.on, glued.off), strict=True)
        )
    ]


def _judge(fitted: Sequence[FittedState]) -> Judgement:
    """Nominally 95% and 5%. The intervals are those of a share of `repeats` data sets."""
    judgement = Judgement()
    for one in fitted:
        judgement.says(
            f"{one.name}: share of data sets whose interval holds the truth",
            share_of(one.inside, one.repeats),
            at_least=0.90,
        )
        judgement.says(
            f"{one.name}: share of data sets for which the exponential is rejected at 5%",
            share_of(one.rejected, one.repeats),
            at_most=0.10,
        )
    return judgement


@claim("TIME-fit")
def fits_of_connectivity(evidence: Evidence) -> Outcome:
    repeats = 60 if evidence.quick else 1000
    fitted = [one for seed, path in enumerate(PATHS) for one in _run(path, seed, repeats)]
    fits = [fit_durations(one.state.whole_s) for one in fitted]
    exponentials = [next(fit for fit in families if fit.family == "exponential") for families in fits]
    least = min(100 * one.inside / repeats for one in fitted)
    return _judge(fitted).outcome(
        "; ".join(f"{one.name} {one.state.exponential_mean_s():.1f} s of {one.true_s:g}" for one in fitted)
        + f"; over {repeats} data sets the interval holds the truth in {least:.0f}% or more",
        note="traces generated with the published parameters and size",
        figures=[
            _ccdf_figure(one.name, one.state, fit) for one, fit in zip(fitted, exponentials, strict=True)
        ],
        tables=[_table(fitted, fits, exponentials)],
    )


def _table(
    fitted: Sequence[FittedState], fits: Sequence[Sequence[Fit]], exponentials: Sequence[Fit]
) -> Table:
    rows: list[list[Cell]] = [
        [
            one.name,
            one.true_s,
            one.state.exponential_mean_s(),
            one.glued_s,
            one.state.ends,
            exponential.ks_pvalue,
            families[0].family,
            100 * one.inside / one.repeats,
            100 * one.rejected / one.repeats,
        ]
        for one, families, exponential in zip(fitted, fits, exponentials, strict=True)
    ]
    return Table(
        title="Exponential fits of connected and disconnected periods (Fig. 10)",
        columns=[
            "periods",
            "true mean s",
            "fitted s",
            "glued as in the paper s",
            "ends seen",
            "p-value",
            "best family",
            "interval holds truth %",
            "exponential rejected %",
        ],
        rows=rows,
    )


def share_of(count: float, repeats: int) -> Estimate:
    """A share of repetitions with its 95% interval, by Wilson's formula."""
    z, share = 1.96, float(count) / repeats
    middle = (share + z**2 / (2 * repeats)) / (1 + z**2 / repeats)
    half = z / (1 + z**2 / repeats) * float(np.sqrt(share * (1 - share) / repeats + z**2 / (4 * repeats**2)))
    return Estimate(share, middle - half, middle + half)


def _observed(journeys: list[Journey]) -> Connectivity:
    return join([periods(times, states) for times, states in journeys])


def _states(observed: Connectivity, path: MetroPath) -> tuple[tuple[Periods, float], tuple[Periods, float]]:
    return (observed.on, path.t_on_s), (observed.off, path.t_off_s)


def _ccdf_figure(name: str, state: Periods, fit: Fit) -> Figure:
    times, share_above = ccdf(state.whole_s)
    grid = np.linspace(0, times[-1], 60)
    return Figure(
        title=f"Complementary distribution of periods: {name} (Fig. 10)",
        kind="line",
        x_label="seconds",
        y_label="P(period > x)",
        series=[
            Series(name="observed", x=times[:-1].tolist(), y=share_above[:-1].tolist()),
            Series(name=f"exponential, mean {fit.mean:.1f} s", x=grid.tolist(), y=fit.sf(grid).tolist()),
        ],
        y_log=True,
    )
