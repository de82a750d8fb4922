"""Rates that change by bins: what an event meets when the queue carries over from bin to bin.

Paper: [TIME] section 4.1.2 (Eq. 17) takes Theorem 2 bin by bin, as if each bin had always lasted; a bin
that is saturated has no answer then, and what it leaves behind does not reach the next one.
Goes further: the transient law of the queue is followed through the bins. The response time of an event
depends on what it finds and on the connectivity after it, not on later arrivals, so the mean over a bin's
arrivals is exact up to the time step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from roamq.models.intermittent import IntermittentQueue

Floats = NDArray[np.float64]

_TOP_MASS_MAX: Final = 1e-10
"""Probability at the highest level followed, beyond which more levels are added."""

_LEVELS_MAX: Final = 400_000

_GAMMA: Final = 2 - math.sqrt(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """One bin of the day."""

    rate: float
    utilisation: float
    steady_response_s: float | None
    """Theorem 2 for this bin alone, as the paper has it; None where the bin is saturated."""
    response_s: float
    """Mean over the events that arrive in this bin, whatever earlier bins left behind."""
    present: float
    """Mean number of events at the centre over the bin."""
    present_at_end: float
    """What the next bin inherits."""

    @property
    def is_saturated(self) -> bool:
        return self.utilisation >= 1


def through_bins(
    queue: IntermittentQueue, rates: Sequence[float], bin_s: float, *, steps: int | None = None, days: int = 1
) -> list[Bin]:
    """Follow `queue` (its own rate is ignored) through bins of `bin_s` seconds, starting empty.

    With `days` above 1 the bins are gone through as often and the last round is reported: the day after other
    such days, not the first.
    """
    if not rates or min(rates) < 0 or max(rates) <= 0:
        raise ValueError("rates: must not be negative, and some must be positive")
    if not bin_s > 0:
        raise ValueError(f"bin_s: {bin_s} is not positive")
    steps = steps or _steps(queue, bin_s)
    law = _Law(queue)
    bins: list[Bin] = []
    for _ in range(days):
        bins = [law.through(rate, bin_s, steps) for rate in rates]
    return bins


def mean_response_s(bins: Sequence[Bin]) -> float:
    """Over all events of the day: bins with more events weigh more."""
    return sum(bin_.rate * bin_.response_s for bin_ in bins) / sum(bin_.rate for bin_ in bins)


def mean_steady_response_s(bins: Sequence[Bin]) -> float | None:
    """The paper's average over bins of Theorem 2; None if any bin is saturated."""
    steady = [bin_.steady_response_s for bin_ in bins if bin_.rate > 0]
    known = [value for value in steady if value is not None]
    return sum(known) / len(known) if len(known) == len(steady) else None


class _Law:
    """The probabilities of (level, phase), moved on in time."""

    def __init__(self, queue: IntermittentQueue) -> None:
        self.queue = queue
        self.p = np.zeros((64, queue.phases))
        self.p[0] = queue.phases_when_unused()

    def through(self, rate: float, bin_s: float, steps: int) -> Bin:
        queue = self.queue
        step_s = bin_s / steps
        solver = _Solver(queue, rate, step_s, self.p.shape[0])
        responses_s = _responses_s(queue, self.p.shape[0])
        expected_s, present = [], []
        for step in range(steps + 1):
            expected_s.append(float((self.p * responses_s).sum()))
            present.append(float(np.arange(self.p.shape[0]) @ self.p.sum(axis=1)))
            if step == steps:
                break
            moved = solver.step(self.p)
            while moved[-1].sum() > _TOP_MASS_MAX:
                self._add_levels()
                solver = _Solver(queue, rate, step_s, self.p.shape[0])
                responses_s = _responses_s(queue, self.p.shape[0])
                moved = solver.step(self.p)
            self.p = moved
        here = replace(queue, rate=rate) if rate > 0 else None
        utilisation = here.utilisation if here else 0.0
        return Bin(
            rate=rate,
            utilisation=utilisation,
            steady_response_s=here.mean_response_s() if here and utilisation < 1 else None,
            response_s=float(np.trapezoid(expected_s)) / steps,
            present=float(np.trapezoid(present)) / steps,
            present_at_end=present[-1],
        )

    def _add_levels(self) -> None:
        levels = self.p.shape[0]
        if 2 * levels > _LEVELS_MAX:
            raise ValueError(f"rates: the backlog exceeds {_LEVELS_MAX} events; the day cannot be followed")
        self.p = np.vstack([self.p, np.zeros_like(self.p)])


class _Solver:
    """One step of TR-BDF2: second order, and stable for the fast rates however long the step."""

    def __init__(self, queue: IntermittentQueue, rate: float, step_s: float, levels: int) -> None:
        transposed = _generator(queue, rate, levels).T.tocsc()
        identity = sparse.identity(transposed.shape[0], format="csc")
        half = _GAMMA * step_s / 2
        self.explicit = (identity + half * transposed).tocsr()
        implicit = (identity - half * transposed).tocsc()
        self.solve: SuperLU = splu(implicit, permc_spec="NATURAL")

    def step(self, p: Floats) -> Floats:
        before = p.ravel()
        middle = self.solve.solve(self.explicit @ before)
        weight = 1 / (_GAMMA * (2 - _GAMMA))
        after = self.solve.solve(weight * middle - (weight - 1) * before)
        return np.reshape(after, p.shape)


def _generator(queue: IntermittentQueue, rate: float, levels: int) -> sparse.csr_matrix:
    """Levels 0 to `levels` - 1; arrivals at the last level are turned away, which `_TOP_MASS_MAX` guards."""
    m = queue.phases
    is_first = np.eye(levels, 1).ravel()
    is_last = is_first[::-1]
    local = (
        sparse.kron(sparse.diags_array(is_first), queue.idle)
        + sparse.kron(sparse.diags_array(1 - is_first), queue.busy)
        - rate * sparse.kron(sparse.diags_array(1 - is_last), np.eye(m))
    )
    up = sparse.kron(sparse.diags_array(np.ones(levels - 1), offsets=1), rate * np.eye(m))
    down = sparse.kron(sparse.diags_array(np.ones(levels - 1), offsets=-1), queue.completions)
    return sparse.csr_matrix(local + up + down)


def _responses_s(queue: IntermittentQueue, levels: int) -> Floats:
    """Mean response time of an event that finds (level, phase): level + 1 services, one after the other."""
    one_service = np.linalg.solve(-queue.busy, np.ones(queue.phases))
    phase_after = np.linalg.solve(-queue.busy, queue.completions)
    responses_s = np.empty((levels, queue.phases))
    responses_s[0] = one_service
    for level in range(1, levels):
        responses_s[level] = one_service + phase_after @ responses_s[level - 1]
    return responses_s


def _steps(queue: IntermittentQueue, bin_s: float) -> int:
    """A few steps per connected and disconnected period, and never fewer than 20 a bin."""
    periods = [period.mean() for period in (queue.on, queue.off) if period is not None]
    return max(20, math.ceil(4 * bin_s / min(periods))) if periods else 60
