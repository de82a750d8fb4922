"""Random paths with bursts: how often does `roamq plan` warn where its answer is wrong, and where it is right?

Half of the paths are questions that `roamq plan response-time` could be asked; half are rows of centres that differ in
everything, as a [network] has them. None of them set anything in the model. An answer is wrong if its mean or its 95th
percentile is off by more than a tenth of what the simulation gives.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from roamq.cli.plan.path import ResponseTimeQuestion, path_of
from roamq.cli.plan.warnings import ERROR_MAX, SimulatedPath, half_width, warned
from roamq.models.bursts import law_of, solve_path
from roamq.models.queueing import Centre

EVENTS: Final = 200_000
RUNS: Final = 6

OUTCOMES: Final = ("right", "wrong", "the simulation cannot tell")


@dataclass(frozen=True, slots=True)
class Row:
    centres: Sequence[Centre]
    on_scv: float = 1.0
    off_scv: float = 1.0

    def __str__(self) -> str:
        parts = [f"{c.utilisation:.2f}{'*' if c.is_on_off else ''}" for c in self.centres]
        return " ".join(parts) + ("" if self.on_scv == self.off_scv == 1 else f", scv {self.on_scv:g}")


@dataclass(frozen=True, slots=True)
class Error:
    """The model over the simulation, less 1, with half the width of the simulation's 95% interval."""

    of: float
    half_width: float

    @property
    def outcome(self) -> str:
        if abs(self.of) + self.half_width <= ERROR_MAX:
            return "right"
        return "wrong" if abs(self.of) - self.half_width > ERROR_MAX else "the simulation cannot tell"


@dataclass(frozen=True, slots=True)
class Judged:
    row: str
    mean: Error
    p95: Error
    without_bursts: float
    warnings: Sequence[str]

    @property
    def outcome(self) -> str:
        found = {self.mean.outcome, self.p95.outcome}
        return next(outcome for outcome in (OUTCOMES[1], OUTCOMES[2], OUTCOMES[0]) if outcome in found)


def random_row(rng: np.random.Generator) -> Row:
    """A publisher and one to three centres behind it, about a third of them ON/OFF; 1 event per second."""
    on_s, off_s = _periods(rng)
    uplink_s = float(rng.choice([0.001, 0.03, 0.1, 0.3])) * on_s / (on_s + off_s)
    row = [Centre(name="publisher", rate=1.0, demand_s=uplink_s, t_on_s=on_s, t_off_s=off_s)]
    for place in range(int(rng.integers(1, 4))):
        other_rate, utilisation = float(rng.choice([0, 0, 1, 3])), float(rng.uniform(0.1, 0.85))
        if rng.random() < 0.35:
            on_s, off_s = _periods(rng)
            demand_s = utilisation * on_s / (on_s + off_s)
            row.append(Centre(name=f"c{place}", rate=1.0, demand_s=demand_s, t_on_s=on_s, t_off_s=off_s))
        else:
            demand_s = utilisation / (1 + other_rate)
            row.append(Centre(name=f"c{place}", rate=1.0, other_rate=other_rate, demand_s=demand_s))
    return Row(row)


def random_question(rng: np.random.Generator) -> Row:
    """A path as the command composes it: equal brokers, and periods of any variability."""
    on_s, off_s = _periods(rng)
    uplink_s = float(rng.uniform(0.01, 0.6)) * on_s / (on_s + off_s)
    to_on_s, to_off_s = _periods(rng) if rng.random() < 0.5 else (60.0, 0.0)
    to_s = float(rng.uniform(0.01, 0.8)) * to_on_s / (to_on_s + to_off_s)
    other_rate = float(rng.choice([0, 0, 1, 3]))
    scv = float(rng.choice([1, 1, 0.5, 0.1, 3]))
    question = ResponseTimeQuestion(
        publisher_on_s=on_s,
        publisher_off_s=off_s,
        subscriber_on_s=to_on_s,
        subscriber_off_s=to_off_s,
        publisher_demand_s=uplink_s,
        broker_demand_s=float(rng.uniform(0.01, 0.8)) / (1 + other_rate),
        subscriber_demand_s=to_s,
        processing_s=float(rng.uniform(0.01, 0.5)),
        other_rate=other_rate,
        brokers=int(rng.integers(1, 4)),
    )
    return Row(path_of(question).centres, scv, scv)


def _periods(rng: np.random.Generator) -> tuple[float, float]:
    on_s, off_s = np.exp(rng.uniform(math.log(3), math.log(200), 2))
    return float(on_s), float(off_s)


def judged(row: Row, *, events: int, first_seed: int) -> Judged:
    solved = solve_path(row.centres, on_scv=row.on_scv, off_scv=row.off_scv)
    law = law_of(solved)
    assert law is not None
    runs = SimulatedPath(solved, on_scv=row.on_scv, off_scv=row.off_scv)
    for seed in range(first_seed, first_seed + RUNS):
        runs.run(events, seed)
    means, p95s = runs.answers()
    return Judged(
        str(row),
        _error(law.mean(), means),
        _error(law.quantile(0.95), p95s),
        sum(part.poisson_mean_s or 0.0 for part in solved) / fmean(means) - 1,
        warned(solved, on_scv=row.on_scv, off_scv=row.off_scv),
    )


def _error(model: float, simulated: Sequence[float]) -> Error:
    ratio = model / fmean(simulated)
    return Error(ratio - 1, half_width(model, simulated))


def _all_judged(count: int, seed: int, journal: Path | None) -> list[Judged]:
    """Every path is judged once, and kept in the journal: whoever is interrupted goes on from there."""
    rng = np.random.default_rng(seed)
    rows = [random_question(rng) if place % 2 else random_row(rng) for place in range(count)]
    lines = journal.read_bytes().splitlines() if journal is not None and journal.exists() else []
    found = [msgspec.json.decode(line, type=Judged) for line in lines[:count]]
    for place, (row, known) in enumerate(zip(rows, found, strict=False)):
        if str(row) != known.row:
            raise SystemExit(f"{journal}: line {place + 1} is another path than that of seed {seed}")
    for place in range(len(found), count):
        found.append(judged(rows[place], events=EVENTS, first_seed=1_000_000 * seed + RUNS * place))
        if journal is not None:
            with journal.open("ab") as file:
                file.write(msgspec.json.encode(found[-1]) + b"\n")
    return found


def show(count: int, seed: int, *, every: bool, journal: Path | None = None) -> None:
    """The confusion table of `count` paths, and the paths that the command is silent about though it is wrong."""
    found = _all_judged(count, seed, journal)
    counts = Counter((one.outcome, bool(one.warnings)) for one in found)
    table = Table(title=f"{count} random paths, seed {seed}: does `roamq plan` warn?")
    for column in ("mean and 95th percentile within a tenth", "silent", "warns"):
        table.add_column(column, justify="right")
    for outcome in OUTCOMES:
        table.add_row(outcome, str(counts[outcome, False]), str(counts[outcome, True]))
    console = Console(width=150)
    console.print(table)
    shown = [one for one in found if every or (one.outcome == "wrong" and not one.warnings)]
    details = Table(title="error of the model, %" if every else "wrong, and silent: error of the model, %")
    for column in ("utilisations (* ON/OFF)", "mean", "95%", "mean without bursts", "warnings"):
        details.add_column(column)
    for one in shown:
        details.add_row(
            one.row,
            *(f"{100 * error.of:+.0f} ± {100 * error.half_width:.0f}" for error in (one.mean, one.p95)),
            f"{100 * one.without_bursts:+.0f}",
            "; ".join(one.warnings),
        )
    if shown:
        console.print(details)
