"""[TIME] section 4.1: the ON/OFF centre, Theorem 2 beside the simulation (Fig. 7, 11 and 12).

The paper's metro recordings are not public; recordings with the published parameters are generated in their
place, and the outcome says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roamq.models.paired import Estimate, exactly
from roamq.models.queueing import Centre
from roamq.report.exhibits import Figure, Series, Table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement, Wanted, about
from roamq.reproduce.registry import Outcome, claim
from roamq.sim import queueing as sim
from roamq.sim import tandem


def simulated_centre(centre: Centre) -> sim.SimulatedCentre:
    """The centre of a model, for the simulation."""
    return sim.exponential_centre(
        centre.demand_s, t_on_s=centre.t_on_s, t_off_s=centre.t_off_s, other_rate=centre.other_rate
    )


def over(run: sim.MeanOfRuns, value: float) -> Estimate:
    """What runs gave over a value, with their 99.9% interval: many points are judged at once."""
    low, high = run.mean - run.half_width_joint, run.mean + run.half_width_joint
    return Estimate(run.mean / value, low / value, high / value, comparisons=JOINTLY)


JOINTLY: Final = 50
"""Of so many points 99.9% intervals hold together at 95%."""


WITHIN: Final = Wanted(at_least=1 - sim.DEVIATION_MAX, at_most=1 + sim.DEVIATION_MAX, named=1.0)
"""The paper's "within 5%"."""


# Fig. 7

F7_PERIODS_S: Final = (20.0, 40.0, 60.0)
F7_RATES: Final = (0.05, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5)


@dataclass(frozen=True, slots=True)
class Point:
    """One centre, by Theorem 2 and by simulation."""

    name: str
    centre: Centre
    run: sim.MeanOfRuns

    @property
    def deviation(self) -> float:
        return self.run.mean / self.centre.response_s() - 1


def _run_fig_7(quick: bool) -> dict[str, list[Point]]:
    """Name of a curve -> its points, by rate."""
    rates = F7_RATES[1:-1:2] if quick else F7_RATES
    curves: dict[str, list[Point]] = {}
    for period_s in F7_PERIODS_S:
        for rate in rates:
            centre = Centre(name="ON/OFF", rate=rate, demand_s=0.125, t_on_s=period_s, t_off_s=period_s)
            run = _simulated(centre, quick, first_seed=round(100_000 * period_s + 10_000 * rate))
            curves.setdefault(f"T={period_s:g} s", []).append(Point(f"T={period_s:g} s", centre, run))
    return curves


def _judged(point: Point) -> bool:
    """Beyond 3 events/s the paper's two curves differ as well."""
    return point.centre.rate < F7_RATES[-1]


def _judge_fig_7(points: Sequence[Point], saturates_at: float) -> Judgement:
    judgement = Judgement()
    for point in filter(_judged, points):
        judgement.says(
            f"simulation over analysis, {point.name} at {point.centre.rate:g}/s",
            over(point.run, point.centre.response_s()),
            WITHIN,
        )
    at_4 = Wanted(at_least=4 - 1e-9, at_most=4 + 1e-9, named=4.0)
    judgement.says("saturation at 4 events/s", exactly(saturates_at), at_4)
    return judgement


@claim("TIME-F7")
def on_off_centre(evidence: Evidence) -> Outcome:
    curves = _run_fig_7(evidence.quick)
    points = [point for curve in curves.values() for point in curve]
    saturates_at = Centre(name="", rate=1, demand_s=0.125, t_on_s=20, t_off_s=20).rate_max
    worst = max(filter(_judged, points), key=lambda point: abs(point.deviation))
    return _judge_fig_7(points, saturates_at).outcome(
        f"largest deviation up to {max(p.centre.rate for p in filter(_judged, points)):g} events/s: "
        f"{100 * abs(worst.deviation):.1f}%, in runs with an interval of "
        f"± {100 * worst.run.half_width / worst.centre.response_s():.1f}%; saturation at {saturates_at:g}",
        figures=[_response_figure("Response time of the ON/OFF centre, D = 0.125 s (Fig. 7)", curves)],
        tables=[_table("Theorem 2 and simulation", points)],
    )


RUNS: Final = 512
"""At most: the sentences are judged by 99.9% intervals of a few percent."""

BATCH: Final = 64

NARROW: Final = 0.03
"""Runs are added, a batch at a time, until the 99.9% interval is so narrow to either side: "within 5%" is told then."""

CYCLES: Final = 200
"""Of a run, each connected and disconnected once, at a centre with little to do."""


def _simulated(centre: Centre, quick: bool, *, first_seed: int) -> sim.MeanOfRuns:
    """A queue forgets its state in about a cycle over (1 - utilisation)^2: a run must be that much longer. Near
    saturation it would never end; such points are shown but not judged.
    """
    longer = min(16.0, (1 - centre.utilisation) ** -2)
    means: list[float] = []
    while True:
        begin = first_seed + len(means)
        means += tandem.mean_responses(
            [tandem.Station(centre.demand_s, centre.t_on_s, centre.t_off_s)],
            rate=centre.rate,
            until_s=CYCLES * (centre.t_on_s + centre.t_off_s) * longer,
            seeds=range(begin, begin + (RUNS // 32 if quick else BATCH)),
        )
        found = sim.mean_of_runs(means)
        if quick or len(means) >= RUNS or found.half_width_joint <= NARROW * found.mean:
            return found


# Fig. 11, 12

METRO_PATHS: Final = {"path 1": (146.38, 96.0), "path 2": (155.88, 72.15)}
RECORDED_PATH: Final = "path 2"

METRO_RATES: Final = {0.125: (1.0, 2.0, 3.0, 3.5), 0.0625: (2.0, 4.0, 6.0, 7.0)}
"""Service demand -> events per second, up to where Fig. 11 says the response time becomes too high."""

LOW: Final = 0.5
"""Up to this share of the highest rate, a rate is low."""

RECORDING_S: Final = 12.13 * 3600
"""All journeys on path 2."""

RECORDINGS: Final = 128
"""The paper has one; how far a recording of its size is from the analysis is a matter of chance."""

REPLAYS: Final = 4


def _recorded_periods(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Periods of path 2 as long as the paper's recordings, scaled to their published means."""
    t_on, t_off = METRO_PATHS["path 2"]
    cycles = round(RECORDING_S / (t_on + t_off))
    rng = np.random.default_rng(seed)
    on, off = rng.exponential(t_on, cycles), rng.exponential(t_off, cycles)
    return on * t_on / on.mean(), off * t_off / off.mean()


def _run_metro(quick: bool) -> dict[str, list[Point]]:
    """Name of a curve -> its points; path 2 replays periods as a recording has them, path 1 draws them anew."""
    curves: dict[str, list[Point]] = {}
    for path, (t_on, t_off) in METRO_PATHS.items():
        for demand_s, all_rates in METRO_RATES.items():
            for rate in all_rates[1:3] if quick else all_rates:
                centre = Centre(name=path, rate=rate, demand_s=demand_s, t_on_s=t_on, t_off_s=t_off)
                run = (
                    _replayed(demand_s, rate, quick)
                    if path == RECORDED_PATH
                    else _simulated(centre, quick, first_seed=round(1e7 * demand_s + 10_000 * rate))
                )
                name = f"{path}, D={demand_s:g} s"
                curves.setdefault(name, []).append(Point(name, centre, run))
    return curves


def _judge_metro(points: Sequence[Point]) -> Judgement:
    """Fig. 12: "Results match with high accuracy for low rates. For higher rates, there is a quite good match between
    the two with the maximum difference of about 10%"."""
    judgement = Judgement()
    for point in points:
        high = point.centre.rate > LOW * METRO_RATES[point.centre.demand_s][-1]
        judgement.says(
            f"simulation over analysis, {point.name} at {point.centre.rate:g}/s",
            over(point.run, point.centre.response_s()),
            about(1.0) if high and point.centre.name == RECORDED_PATH else WITHIN,
        )
    return judgement


@claim("TIME-F11/12")
def metro_paths(evidence: Evidence) -> Outcome:
    curves = _run_metro(evidence.quick)
    points = [point for curve in curves.values() for point in curve]
    furthest = max(abs(point.deviation) for point in points if point.centre.name == RECORDED_PATH)
    return _judge_metro(points).outcome(
        f"path 2, generated periods of the recordings' length and means, at most {100 * furthest:.0f}% "
        "from the analysis",
        figures=[_response_figure("Response time on two metro paths (Fig. 11, 12)", curves)],
        tables=[_table("Theorem 2 and simulation on two metro paths", points)],
    )


def _replayed(demand_s: float, rate: float, quick: bool) -> sim.MeanOfRuns:
    """Many recordings, each replayed several times: the spread is that of small data."""
    means = []
    for seed in range(RECORDINGS // 8 if quick else RECORDINGS):
        station = tandem.recorded_station(demand_s, *_recorded_periods(seed))
        events = round(REPLAYS * RECORDING_S * rate)
        means.append(float(tandem.responses([station], rate=rate, events=events, seed=seed).mean()))
    return sim.mean_of_runs(means)


# Drawing


def _table(title: str, points: Sequence[Point]) -> Table:
    return Table(
        title=title,
        columns=["curve", "events/s", "analysis s", "simulation s", "± s", "deviation %"],
        rows=[
            [
                point.name,
                point.centre.rate,
                point.centre.response_s(),
                point.run.mean,
                point.run.half_width,
                100 * point.deviation,
            ]
            for point in points
        ],
    )


def _response_figure(title: str, curves: Mapping[str, Sequence[Point]]) -> Figure:
    return Figure(
        title=title,
        kind="line",
        x_label="events per second",
        y_label="mean response time, seconds",
        series=[series for name, points in curves.items() for series in _two_series(name, points)],
        y_log=True,
    )


def _two_series(name: str, points: Sequence[Point]) -> list[Series]:
    rates = [point.centre.rate for point in points]
    return [
        Series(name=f"{name}, analysis", x=rates, y=[point.centre.response_s() for point in points]),
        Series(
            name=f"{name}, simulation",
            x=rates,
            y=[point.run.mean for point in points],
            low=[point.run.mean - point.run.half_width for point in points],
            high=[point.run.mean + point.run.half_width for point in points],
        ),
    ]
