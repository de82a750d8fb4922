"""[TIME] section 4.1.3: connectivity traces, from tuples to fitted periods.

The recordings of Fig. 10 are not public. The claim is that the method recovers the parameters: traces of
the same size are generated with the published parameters, in the paper's form (a tuple at every change and
every 30 s, journeys of 26 minutes), and fitted blindly.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from roamq.models.connectivity import Connectivity, Periods, concatenate, join, periods
from roamq.models.fitting import Fit, ccdf, fit_durations
from roamq.models.paired import Estimate
from roamq.report.exhibits import Figure, Series, Table
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


@claim("TIME-fit")
def fits_of_connectivity(evidence: Evidence) -> Outcome:
    repeats = 60 if evidence.quick else 400
    rows: list[list[str | float]] = []
    figures = []
    judgement = Judgement()
    for number, path in enumerate(PATHS):
        rng = np.random.default_rng(number)
        first = _observed(generate(path, rng))
        glued = concatenate(generate(path, np.random.default_rng(number)))
        inside = np.zeros(2)
        rejected = np.zeros(2)
        for _ in range(repeats):
            observed = _observed(generate(path, rng))
            for i, (state, true_s) in enumerate(_states(observed, path)):
                inside[i] += abs(state.exponential_mean_s() / true_s - 1) <= 1.96 / np.sqrt(state.ends)
                rejected[i] += fit_durations(state.whole_s, ["exponential"])[0].ks_pvalue < 0.05
        for i, ((state, true_s), paper) in enumerate(
            zip(_states(first, path), (glued.on, glued.off), strict=True)
        ):
            fits = fit_durations(state.whole_s)
            exponential = next(fit for fit in fits if fit.family == "exponential")
            name = f"{path.name} {'ON' if i == 0 else 'OFF'}"
            rows.append(
                [
                    name,
                    true_s,
                    state.exponential_mean_s(),
                    float(paper.whole_s.mean()),
                    state.ends,
                    exponential.ks_pvalue,
                    fits[0].family,
                    float(100 * inside[i] / repeats),
                    float(100 * rejected[i] / repeats),
                ]
            )
            # Nominally 95% and 5%. The intervals are those of a share of `repeats` data sets.
            judgement.says(
                f"{name}: share of data sets whose interval holds the truth",
                share_of(inside[i], repeats),
                at_least=0.90,
            )
            judgement.says(
                f"{name}: share of data sets for which the exponential is rejected at 5%",
                share_of(rejected[i], repeats),
                at_most=0.10,
            )
            figures.append(_ccdf_figure(name, state, exponential))
    return judgement.outcome(
        "; ".join(f"{row[0]} {row[2]:.1f} s of {row[1]:g}" for row in rows)
        + f"; over {repeats} data sets the interval holds the truth in {min(float(r[7]) for r in rows):.0f}% or more",
        note="traces generated with the published parameters and size",
        figures=figures,
        tables=[
            Table(
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
        ],
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
