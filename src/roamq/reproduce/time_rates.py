"""[TIME] section 4.1.2: arrival rates that change every ten minutes (Fig. 8 and 9).

The antenna counts are not public; counts with the published averages are drawn about a daily shape in their
place. `compare_bins` takes any rates, those of a real trace included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roamq.models.queueing import Centre
from roamq.models.varying_rates import Bin, mean_response_s, mean_steady_response_s, through_bins
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement
from roamq.reproduce.registry import Outcome, claim
from roamq.reproduce.time import WITHIN, over, simulated_centre
from roamq.sim import queueing as sim

F9_CENTRE: Final = Centre(name="ON/OFF", rate=0.04, demand_s=1.0, t_on_s=40.0, t_off_s=40.0)
F9_ANTENNAS: Final = {"antenna 9": 0.04, "antenna 24": 0.075}
"""Average events per second."""
BIN_S: Final = 600.0


def antenna_rates(mean_rate: float, *, days: int, seed: int) -> list[float]:
    """10-minute rates (Eq. 17) of an antenna with this average: Poisson counts about a daily shape.

    Quiet at night, busiest in the evening, as call records are; the published counts themselves are not
    public.
    """
    hours = (np.arange(days * 144) + 0.5) / 6 % 24
    shape = 0.15 + np.exp(-(((hours - 12.5) / 3.5) ** 2)) + 1.6 * np.exp(-(((hours - 20.5) / 2.0) ** 2))
    counts = np.random.default_rng(seed).poisson(mean_rate * BIN_S * shape / shape.mean())
    return [float(rate) for rate in counts / BIN_S]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mean response times with rates that vary."""

    bins: list[Bin]
    bin_by_bin_s: float
    """The paper's analysis, over all events: Theorem 2 for each bin that is not saturated."""
    carried_s: float
    """Ours: the queue carries over."""
    simulated: sim.MeanOfRuns


def compare_bins(rates: Sequence[float], *, runs: int) -> Comparison:
    bins = through_bins(F9_CENTRE.exact(), rates, BIN_S)
    steady = [(bin_.rate, bin_.steady_response_s) for bin_ in bins if bin_.steady_response_s is not None]
    bin_by_bin_s = sum(rate * response for rate, response in steady) / sum(rate for rate, _ in steady)
    until_s = BIN_S * len(rates)
    means = [
        sim.simulate(
            [simulated_centre(F9_CENTRE)], seed=run, bin_rates=rates, bin_s=BIN_S, until_s=until_s
        ).mean_s()
        for run in range(runs)
    ]
    return Comparison(bins, bin_by_bin_s, mean_response_s(bins), sim.mean_of_runs(means))


def _run(quick: bool) -> dict[str, Comparison]:
    """Antenna -> its comparison."""
    days, runs = (2, 12) if quick else (7, 30)
    return {
        name: compare_bins(antenna_rates(rate, days=days, seed=seed), runs=runs)
        for seed, (name, rate) in enumerate(F9_ANTENNAS.items())
    }


def _judge(compared: Mapping[str, Comparison]) -> Judgement:
    judgement = Judgement()
    for name, comparison in compared.items():
        judgement.says(
            f"simulation over analysis, {name}", over(comparison.simulated, comparison.bin_by_bin_s), WITHIN
        )
    return judgement


@claim("TIME-F9")
def rates_that_vary(evidence: Evidence) -> Outcome:
    compared = _run(evidence.quick)
    off = [abs(comparison.simulated.mean / comparison.bin_by_bin_s - 1) for comparison in compared.values()]
    return _judge(compared).outcome(
        "; ".join(
            f"{name}: analysis {comparison.bin_by_bin_s:.1f} s, simulation {comparison.simulated.mean:.1f} s"
            for name, comparison in compared.items()
        )
        + f"; at most {100 * max(off):.1f}% apart",
        figures=[
            _rates_figure({name: comparison.bins[-144:] for name, comparison in compared.items()}),
            _day_figure(compared["antenna 24"].bins[-144:]),
        ],
        tables=[_table(compared)],
    )


def _table(compared: Mapping[str, Comparison]) -> Table:
    rows: list[list[Cell]] = [
        [
            name,
            F9_ANTENNAS[name],
            mean_steady_response_s(comparison.bins),
            comparison.bin_by_bin_s,
            comparison.carried_s,
            comparison.simulated.mean,
            comparison.simulated.half_width,
        ]
        for name, comparison in compared.items()
    ]
    return Table(
        title="Mean response time with 10-minute rates, T = 40 s, D = 1 s (Fig. 9)",
        columns=[
            "antenna",
            "mean events/s",
            "analysis, mean over bins s",
            "analysis, mean over events s",
            "with carry-over s",
            "simulation s",
            "± s",
        ],
        rows=rows,
    )


def _rates_figure(days: Mapping[str, Sequence[Bin]]) -> Figure:
    return Figure(
        title="Events per second in bins of ten minutes (Fig. 8)",
        kind="step",
        x_label="hour",
        y_label="events per second",
        series=[
            Series(name=name, x=[i / 6 for i in range(len(day))], y=[bin_.rate for bin_ in day])
            for name, day in days.items()
        ],
        caption="Drawn about a daily shape with the published averages: the antennas' own counts are not public.",
    )


def _day_figure(day: Sequence[Bin]) -> Figure:
    hours = [i / 6 for i in range(len(day))]
    known = [(hour, bin_.steady_response_s) for hour, bin_ in zip(hours, day, strict=True)]
    steady = [(hour, response) for hour, response in known if response is not None]
    return Figure(
        title="Response time over a day, antenna 24's average rate (Fig. 9)",
        kind="line",
        x_label="hour",
        y_label="seconds",
        series=[
            Series(
                name="bin by bin (Theorem 2)",
                x=[hour for hour, _ in steady],
                y=[response for _, response in steady],
            ),
            Series(name="with carry-over", x=hours, y=[bin_.response_s for bin_ in day]),
        ],
    )
