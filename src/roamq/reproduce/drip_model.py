"""[DRIP] section V-C: Eq. 1 and 2 beside the random walk that they approximate, and beside DRIP's own runs."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roamq.manet.simulation.walk import WalkModel, delays
from roamq.models.paired import Estimate, interval
from roamq.models.region_delay import RegionDelay, brokers_for_delay
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.drip_meetings import Meetings, meeting_jobs
from roamq.reproduce.drip_runs import Results, spread
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement, about
from roamq.reproduce.registry import Outcome, claim

WALK_CELLS = 1600
WALK_BROKERS = 40
WALK_TRIALS = 2000
REACHES = (10, 20, 40, 80, 160, 320)
"""Numbers of brokers at which the meeting time of two is compared: the more, the shorter their reach."""


BATCHES = 10
REDRAWN = 20_000
EARLY = 0.05
"""A meeting within this share of the mean is early."""


class WalkRow(NamedTuple):
    """One l and m: the mean delay as simulated, and as three models derive it from the meeting times of two walkers."""

    destinations: int
    copies: int
    batches: tuple[float, ...]
    """The simulated means of equal shares of the walks, which tell how certain their mean is."""
    redrawn: float
    """Carriers and destinations that meet independently, after times drawn from those simulated for two."""
    exact: float
    """The same, after exponential times of the same mean: H_l/(m lambda)."""
    paper: float
    """Eq. 2."""

    @property
    def simulated(self) -> float:
        return fmean(self.batches)

    def over_simulated(self, mean: float, comparisons: int) -> Estimate:
        """What a formula gives over what the walks gave."""
        return interval([mean / batch for batch in self.batches], comparisons=comparisons)


@claim("DRIP-eq", jobs=meeting_jobs)
def region_delay(evidence: Evidence) -> Outcome:
    in_runs = Meetings(Results(evidence, meeting_jobs(evidence.quick)), evidence.quick)
    trials = WALK_TRIALS // 4 if evidence.quick else WALK_TRIALS
    random = np.random.default_rng(1)
    pairs = delays(WalkModel(n=WALK_CELLS, k=WALK_BROKERS), 4 * trials, random)
    rows = [
        walk_row(destinations, copies, pairs, trials, random)
        for destinations in (1, 2, 3, 5)
        for copies in (1, 2, 4)
    ]
    exact, paper, redrawn = (
        spread([getattr(row, name) / row.simulated - 1 for row in rows])
        for name in ("exact", "paper", "redrawn")
    )
    early = float((pairs <= EARLY * pairs.mean()).mean())
    meetings = [meeting_row(k, trials, random) for k in REACHES]
    judgement = Judgement()
    for row in rows:
        judgement.says(
            f"Eq. 2 gives the delay of the walk, l={row.destinations}, m={row.copies} (ratio)",
            row.over_simulated(row.paper, len(rows)),
            about(1.0),
        )
    in_runs.judge(judgement)
    shortest, longest = meetings[0], meetings[-1]
    return judgement.outcome(
        f"as printed {paper} off the random walk; H_l/(m lambda), the exact mean of exponential meetings, {exact}",
        note=(
            f"{early:.0%} of the pairs meet within {EARLY:.0%} of the mean time, where exponential ones would be "
            f"{1 - math.exp(-EARLY):.0%}; with meeting times drawn from those simulated for two, {redrawn}; 1/lambda "
            f"is {shortest[3] / shortest[2]:.1f} times the simulated meeting time for k={shortest[0]}, and "
            f"{longest[3] / longest[2]:.1f} times for k={longest[0]}; {in_runs.told()}"
        ),
        figures=[
            walk_figure(rows, early),
            meeting_figure(meetings),
            in_runs.figure(),
            in_runs.distribution(),
        ],
        tables=[in_runs.table(), brokers_table()],
    )


def walk_row(
    destinations: int,
    copies: int,
    pairs: NDArray[np.float64],
    trials: int,
    random: np.random.Generator,
) -> WalkRow:
    """`pairs` are the simulated meeting times of two walkers."""
    model = WalkModel(n=WALK_CELLS, k=WALK_BROKERS, l=destinations, m=copies)
    walks = delays(model, trials, random)
    batches = tuple(float(share.mean()) for share in np.array_split(walks, BATCHES))
    formula = RegionDelay(
        grid_cells=WALK_CELLS, brokers=WALK_BROKERS, copies=copies, destinations=destinations
    )
    meetings = random.choice(pairs, size=(REDRAWN, destinations, copies))
    redrawn = float(meetings.min(axis=2).max(axis=1).mean())
    exact, paper = (
        formula.mean_s(kind) / formula.meeting_s() * float(pairs.mean()) for kind in ("exact", "paper")
    )
    return WalkRow(destinations, copies, batches, redrawn, exact, paper)


def walk_figure(rows: Sequence[WalkRow], early: float) -> Figure:
    """`early` is the share of pairs that meet within `EARLY` of the mean time."""
    names = [f"l={row.destinations}, m={row.copies}" for row in rows]
    return Figure(
        title=f"Delay until l destinations have the event from m carriers, N = {WALK_CELLS}, k = {WALK_BROKERS}",
        kind="bar",
        x_label="",
        y_label="mean delay, steps",
        series=[
            Series(name="random walk, simulated", x=names, y=[row.simulated for row in rows]),
            Series(name="meetings redrawn from the walk of two", x=names, y=[row.redrawn for row in rows]),
            Series(
                name="H_l/(m lambda), exact for exponential meetings", x=names, y=[row.exact for row in rows]
            ),
            Series(name="Eq. 2", x=names, y=[row.paper for row in rows], published=True),
        ],
        caption="1/lambda is the simulated meeting time of two walkers, so that only the formulas differ. "
        f"{early:.0%} of the pairs meet within {EARLY:.0%} of the mean time, of exponential ones "
        f"{1 - math.exp(-EARLY):.0%} would.",
    )


def meeting_row(k: int, trials: int, random: np.random.Generator) -> tuple[int, float, float, float]:
    """k, the reach, the simulated meeting time of two brokers, and the formula's."""
    model = WalkModel(n=WALK_CELLS, k=k)
    formula = RegionDelay(grid_cells=WALK_CELLS, brokers=k, copies=1, destinations=1)
    return k, model.alpha, float(delays(model, trials, random).mean()), formula.meeting_s()


def meeting_figure(rows: Sequence[tuple[int, float, float, float]]) -> Figure:
    ks = [row[0] for row in rows]
    return Figure(
        title=f"Mean time until two brokers can talk, N = {WALK_CELLS}",
        kind="line",
        x_label="broker nodes k",
        y_label="steps",
        x_log=True,
        series=[
            Series(name="random walk, simulated", x=ks, y=[row[2] for row in rows]),
            Series(name="1/lambda of Eq. 2", x=ks, y=[row[3] for row in rows], published=True),
        ],
        caption="The formula's term for the reach, alpha / (2^alpha - 1), vanishes where the reach is long.",
    )


def brokers_table() -> Table:
    """The k for a requested delay, as section V-C proposes, by the printed formula and by the exact one."""
    rows: list[list[Cell]] = []
    for target in (600.0, 700.0, 800.0):
        row: list[Cell] = [target]
        for formula in ("exact", "paper"):
            try:
                row.append(
                    brokers_for_delay(
                        target,
                        grid_cells=WALK_CELLS,
                        copies=2,
                        destinations=3,
                        formula=formula,
                        brokers_max=WALK_CELLS,
                    )
                )
            except ValueError:
                row.append("none")
        rows.append(row)
    return Table(
        title=f"Brokers for a requested delay, N = {WALK_CELLS}, l = 3, m = 2",
        columns=["delay, steps", "largest k, exact", "largest k, Eq. 2"],
        rows=rows,
        note="`roamq plan regions` answers the same for other numbers.",
    )
