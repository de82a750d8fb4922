"""The error of the burst approximation over uplink speed and utilisation, as a table and a figure.

    python -m benchmarks.bursts [--figure FILE.png] [--write]
    python -m benchmarks.bursts --paths 28

A publisher is connected for a time and away for as long; behind its uplink stands one centre, always on. Events come
once a second. The model (`roamq.models.bursts`) is held against a simulation without an event loop (`roamq.sim.tandem`)
for every cell. `--write` puts the map where `roamq plan` looks up whether to warn. `--paths` draws paths at random that
the map does not cover: periods of any length, several centres, other flows, peers that disconnect at the other end. It
shows the error beside the number of warnings that `roamq plan` would print.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from roamq.models import phase_type as pt
from roamq.models.bursts import ERRORS_FILE, behind, doubts, law_of, solve_path
from roamq.models.intermittent import IntermittentQueue
from roamq.models.queueing import Centre
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


def random_path(rng: np.random.Generator) -> list[Centre]:
    """A publisher and one to three centres behind it, about a third of them ON/OFF; 1 event per second."""

    def periods() -> tuple[float, float]:
        on_s, off_s = np.exp(rng.uniform(math.log(3), math.log(200), 2))
        return float(on_s), float(off_s)

    on_s, off_s = periods()
    uplink_s = float(rng.choice([0.001, 0.03, 0.1, 0.3])) * on_s / (on_s + off_s)
    path = [Centre(name="publisher", rate=1.0, demand_s=uplink_s, t_on_s=on_s, t_off_s=off_s)]
    for place in range(int(rng.integers(1, 4))):
        other_rate, utilisation = float(rng.choice([0, 0, 1, 3])), float(rng.uniform(0.1, 0.85))
        if rng.random() < 0.35:
            on_s, off_s = periods()
            demand_s = utilisation * on_s / (on_s + off_s)
            path.append(Centre(name=f"c{place}", rate=1.0, demand_s=demand_s, t_on_s=on_s, t_off_s=off_s))
        else:
            demand_s = utilisation / (1 + other_rate)
            path.append(Centre(name=f"c{place}", rate=1.0, other_rate=other_rate, demand_s=demand_s))
    return path


def path_error(path: Sequence[Centre], *, events: int, runs: int) -> dict[str, float]:
    """Relative errors of mean and 95th percentile, the interval of the simulated mean, and the warnings."""
    solved = solve_path(path)
    law = law_of(solved)
    assert law is not None
    stations = [Station(c.demand_s, c.t_on_s if c.is_on_off else 0.0, c.t_off_s, c.other_rate) for c in path]
    found = [responses(stations, rate=1.0, events=events, seed=seed) for seed in range(runs)]
    means = [float(run.mean()) for run in found]
    return {
        "mean": law.mean() / float(np.mean(means)) - 1,
        "half_width": 2.57 * float(np.std(means, ddof=1)) / math.sqrt(runs) / float(np.mean(means)),
        "p95": law.quantile(0.95) / float(np.mean([np.quantile(run, 0.95) for run in found])) - 1,
        "without_bursts": sum(c.response_s() for c in path) / float(np.mean(means)) - 1,
        "warnings": len(doubts(solved)),
    }


def show_paths(count: int) -> None:
    rng = np.random.default_rng(5)
    table = Table(title=f"{count} random paths: error of the model, %")
    for column in ("utilisations (* ON/OFF)", "mean", "±", "95%", "mean without bursts", "warnings"):
        table.add_column(column, justify="right")
    for _ in range(count):
        path = random_path(rng)
        errors = path_error(path, events=150_000, runs=RUNS)
        table.add_row(
            " ".join(f"{c.utilisation:.2f}{'*' if c.is_on_off else ''}" for c in path),
            *(f"{100 * errors[key]:+.0f}" for key in ("mean", "half_width", "p95", "without_bursts")),
            f"{errors['warnings']:.0f}",
        )
    Console(width=120).print(table)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--paths", type=int, metavar="N")
    asked = parser.parse_args(argv)
    if asked.paths is not None:
        show_paths(asked.paths)
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
    if asked.write:
        rounded = [{key: round(value, 4) for key, value in c.items()} for c in cells]
        ERRORS_FILE.write_text(json.dumps(rounded, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
