"""The error of the burst approximation over uplink speed and utilisation, as a table and a figure.

    python -m benchmarks.bursts [--figure FILE.png]
    python -m benchmarks.bursts --paths 100 --seed 2

A publisher is connected for a time and away for as long; behind its uplink stands one centre, always on. Events come
once a second. The model (`roamq.models.bursts`) is held against a simulation without an event loop (`roamq.sim.tandem`)
for every cell. `--paths` draws paths at random that the map does not cover, and tells how often `roamq plan` warns
where its answer is wrong, and where it is right (`benchmarks._burst_paths`).
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._burst_paths import show
from roamq.models import phase_type as pt
from roamq.models.bursts import behind
from roamq.models.intermittent import IntermittentQueue
from roamq.report.exhibits import Figure, Series
from roamq.report.files import save
from roamq.sim.tandem import Station, responses

UPLINKS_S: Final = (0.001, 0.03, 0.1, 0.3, 0.45)
UTILISATIONS: Final = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
PERIODS_S: Final = (6.0, 60.0)
RUNS: Final = 6
EVENTS: Final = 500_000


def cell(uplink_s: float, utilisation: float, period_s: float, *, events: int, runs: int) -> dict[str, float]:
    """Errors of mean and 95th percentile, relative, and how wide the simulated mean's 95% interval is to each side."""
    source = IntermittentQueue(
        rate=1.0, service=pt.exponential(uplink_s), on=pt.exponential(period_s), off=pt.exponential(period_s)
    )
    centre = IntermittentQueue(rate=1.0, service=pt.exponential(utilisation))
    burst = behind(source, centre)
    law = source.response_distribution().then(pt.with_moments(burst.mean_s, burst.scv))
    stations = [Station(uplink_s, period_s, period_s), Station(utilisation)]
    found = [responses(stations, rate=1.0, events=events, seed=seed) for seed in range(runs)]
    means = [float(run.mean()) for run in found]
    mean_s, p95_s = float(np.mean(means)), float(np.mean([np.quantile(run, 0.95) for run in found]))
    poisson_s = source.mean_response_s() + centre.mean_response_s()
    return {
        "uplink_s": uplink_s,
        "utilisation": utilisation,
        "period_s": period_s,
        "mean": law.mean() / mean_s - 1,
        "p95": law.quantile(0.95) / p95_s - 1,
        "mean_without_bursts": poisson_s / mean_s - 1,
        "half_width": 2.57 * float(np.std(means, ddof=1)) / math.sqrt(runs) / mean_s,
    }


def figure(cells: Sequence[dict[str, float]]) -> Figure:
    return Figure(
        title="Error of the burst approximation: mean response time of a path behind a mobile publisher",
        kind="line",
        x_label="utilisation of the centre behind the uplink",
        y_label="model over simulation, less 1",
        series=[
            Series(
                name=f"uplink {uplink_s:g} s, periods {period_s:g} s",
                x=[c["utilisation"] for c in mine],
                y=[c["mean"] for c in mine],
                low=[c["mean"] - c["half_width"] for c in mine],
                high=[c["mean"] + c["half_width"] for c in mine],
            )
            for period_s in PERIODS_S
            for uplink_s in UPLINKS_S
            if (mine := [c for c in cells if (c["uplink_s"], c["period_s"]) == (uplink_s, period_s)])
        ],
        caption="Without the approximation the error reaches -80%.",
    )


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--paths", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which random paths (default: 1)")
    parser.add_argument("--every", action="store_true", help="list every path, not only the silent errors")
    parser.add_argument("--journal", type=Path, help="keep every judged path here, and go on from there")
    asked = parser.parse_args(argv)
    if asked.paths is not None:
        show(asked.paths, asked.seed, every=asked.every, journal=asked.journal)
        return
    cells = [
        cell(uplink_s, utilisation, period_s, events=asked.events, runs=RUNS)
        for period_s in PERIODS_S
        for uplink_s in UPLINKS_S
        for utilisation in UTILISATIONS
    ]
    for period_s in PERIODS_S:
        table = Table(
            title=f"Error of the mean (of the 95th percentile), %; periods of {period_s:g} s, 1 event/s"
        )
        table.add_column("uplink s")
        for utilisation in UTILISATIONS:
            table.add_column(f"util. {utilisation:g}", justify="right")
        for uplink_s in UPLINKS_S:
            mine = [c for c in cells if (c["uplink_s"], c["period_s"]) == (uplink_s, period_s)]
            table.add_row(f"{uplink_s:g}", *(f"{100 * c['mean']:+.0f} ({100 * c['p95']:+.0f})" for c in mine))
        Console(width=120).print(table)
    widest = max(c["half_width"] for c in cells)
    print(f"the simulated means are known to ±{100 * widest:.1f}% in the worst cell")
    if asked.figure is not None:
        save(figure(cells), asked.figure)


if __name__ == "__main__":
    main(sys.argv[1:])
