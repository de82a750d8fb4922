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
from scipy.linalg.lapack import dgbtrf, dgbtrs

from roamq.models.intermittent import IntermittentQueue

Floats = NDArray[np.float64]

_TOP_MASS_MAX: Final = 1e-9
"""Probability at the highest level followed, beyond which more levels are added."""

_LEVELS_MAX: Final = 400_000

_LEVELS_MIN: Final = 64

_EMPTY_MAX: Final = 1e-9
"""Probability of levels that are given up."""

_GAMMA: Final = 2 - math.sqrt(2)

_ERROR: Final = (-3 * _GAMMA**2 + 4 * _GAMMA - 2) / (12 * (2 - _GAMMA))

_WEIGHTS: Final = (0.5 - 1 / (6 * _GAMMA), 1 / (6 * _GAMMA * (1 - _GAMMA)), 0.5 - 1 / (6 * (1 - _GAMMA)))
"""Of begin, middle and end of a step in an integral over it: exact for parabolas."""

_STEPS_MAX: Final = 2**24
"""No step is shorter than a bin divided by this."""

ERROR_MAX: Final = 1e-3
"""Of one step."""


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
    queue: IntermittentQueue,
    rates: Sequence[float],
    bin_s: float,
    *,
    error_max: float = ERROR_MAX,
    days: int = 1,
) -> list[Bin]:
    """Follow `queue` (its own rate is ignored) through bins of `bin_s` seconds, starting empty.

    With `days` above 1 the bins are gone through as often and the last round is reported: the day after other
    such days, not the first. `error_max` is that of one step in time.
    """
    if not rates or min(rates) < 0 or max(rates) <= 0:
        raise ValueError("rates: must not be negative, and some must be positive")
    if not bin_s > 0:
        raise ValueError(f"bin_s: {bin_s} is not positive")
    first_step_s = _first_step_s(queue, bin_s)
    law = _Law(queue)
    bins: list[Bin] = []
    for _ in range(days):
        bins = [law.through(rate, bin_s, first_step_s, error_max) for rate in rates]
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
        self.p = np.zeros((_LEVELS_MIN, queue.phases))
        self.p[0] = queue.phases_when_unused()
        self._responses = _Responses(queue)

    def through(self, rate: float, bin_s: float, first_step_s: float, error_max: float) -> Bin:
        """Steps are as long as their error allows: short after a change of the rate, long once the queue has settled.

        A step is half as long as another, or half of that, so that few lengths need a factorisation.
        """
        self._remove_empty_levels()
        queue, solver = self.queue, _Solver(self.queue, rate, self.p.shape[0])
        expected_s = present = 0.0
        halvings = max(0, math.ceil(math.log2(bin_s / first_step_s)))
        done, steps = 0, 2**halvings  # so many steps of this length are behind us, and make a bin
        while done < steps:
            step_s = bin_s / steps
            step = solver.step(self.p, step_s)
            if step.after[-1].sum() > _TOP_MASS_MAX:
                self._add_levels()
                solver = _Solver(queue, rate, self.p.shape[0])
                continue
            error = self._error(step)
            if error > error_max and steps < _STEPS_MAX:
                done, steps = 2 * done, 2 * steps
                continue
            for weight, law in zip(_WEIGHTS, (self.p, step.middle, step.after), strict=True):
                expected_s += weight * step_s * self._expected_s(law)
                present += weight * step_s * _present(law)
            self.p = step.after
            done += 1
            # Twice as long a step has eight times the error.
            while error < error_max / 10 and steps > 1 and done % 2 == 0:
                done, steps, error = done // 2, steps // 2, 8 * error
        here = replace(queue, rate=rate) if rate > 0 else None
        utilisation = here.utilisation if here else 0.0
        return Bin(
            rate=rate,
            utilisation=utilisation,
            steady_response_s=here.mean_response_s() if here and utilisation < 1 else None,
            response_s=expected_s / bin_s,
            present=present / bin_s,
            present_at_end=_present(self.p),
        )

    def _expected_s(self, law: Floats) -> float:
        """The mean response time of an event that arrives now."""
        return float((law * self._responses.up_to(law.shape[0])).sum())

    def _error(self, step: "_Step") -> float:
        """Of one step: in probability, and of the response time that follows, in proportion."""
        expected_s = abs(float((step.error * self._responses.up_to(step.error.shape[0])).sum()))
        return max(float(np.abs(step.error).sum()), expected_s / self._expected_s(step.after))

    def _add_levels(self) -> None:
        levels = self.p.shape[0]
        if 2 * levels > _LEVELS_MAX:
            raise ValueError(f"rates: the backlog exceeds {_LEVELS_MAX:,} events; the day cannot be followed")
        self.p = np.vstack([self.p, np.zeros_like(self.p)])

    def _remove_empty_levels(self) -> None:
        """After a peak the queue is short again: half of the levels are enough if the other half is empty."""
        levels = self.p.shape[0]
        while levels > _LEVELS_MIN and np.abs(self.p[levels // 2 :]).sum() < _EMPTY_MAX:
            levels //= 2
        self.p = self.p[:levels]


def _present(law: Floats) -> float:
    return float(np.arange(law.shape[0]) @ law.sum(axis=1))


@dataclass(frozen=True, slots=True)
class _Step:
    middle: Floats
    after: Floats
    error: Floats
    """The estimated error of `after`."""


class _Solver:
    """Steps of TR-BDF2: second order, and stable for the fast rates however long the step.

    The error of a step is that of the embedded third-order formula (Hosea and Shampine 1996), damped by the implicit
    matrix, for it would else see the fast rates that the method itself damps. A level has to do with those next to it
    alone, so the matrix has a band of two levels, and its factors cost no more than a few steps.
    """

    def __init__(self, queue: IntermittentQueue, rate: float, levels: int) -> None:
        self._queue, self._rate = queue, rate
        self._reach = 2 * queue.phases - 1
        self._band = _band(queue, rate, levels)
        self._factors: dict[float, tuple[Floats, Floats]] = {}

    def step(self, p: Floats, step_s: float) -> _Step:
        change = self._change(p)
        middle = self._solved(p + _GAMMA * step_s / 2 * change, step_s)
        weight = 1 / (_GAMMA * (2 - _GAMMA))
        after = self._solved(weight * middle - (weight - 1) * p, step_s)
        third = (
            change / _GAMMA
            - self._change(middle) / (_GAMMA * (1 - _GAMMA))
            + self._change(after) / (1 - _GAMMA)
        )
        return _Step(middle, after, self._solved(2 * _ERROR * step_s * third, step_s))

    def _change(self, p: Floats) -> Floats:
        """How fast the probabilities change. Arrivals at the last level are turned away; `_TOP_MASS_MAX` guards."""
        change = p @ self._queue.busy
        change[0] = p[0] @ self._queue.idle
        arriving = self._rate * p[:-1]
        change[:-1] += p[1:] @ self._queue.completions - arriving
        change[1:] += arriving
        return np.asarray(change, dtype=np.float64)

    def _solved(self, right: Floats, step_s: float) -> Floats:
        """The law whose change, over the implicit part of a step, leads to `right`."""
        reach = self._reach
        if step_s not in self._factors:
            implicit = -(_GAMMA * step_s / 2) * self._band
            implicit[2 * reach] += 1
            factors, pivots, failed = dgbtrf(implicit, reach, reach, overwrite_ab=True)
            assert not failed, "the matrix of an implicit step is never singular"
            self._factors[step_s] = factors, pivots
        factors, pivots = self._factors[step_s]
        solved, _ = dgbtrs(factors, reach, reach, right.ravel(), pivots)
        return np.reshape(solved, right.shape)


def _band(queue: IntermittentQueue, rate: float, levels: int) -> Floats:
    """The transposed generator, diagonal by diagonal, as LAPACK wants a band, with room for the factors above."""
    m = queue.phases
    reach = 2 * m - 1
    band = np.zeros((3 * reach + 1, levels * m), order="F")
    for before in range(m):
        for after in range(m):
            row, columns = 2 * reach + after - before, slice(before, None, m)
            own = np.full(levels, queue.busy[before, after])
            own[0] = queue.idle[before, after]
            if before == after:
                own[:-1] -= rate
                band[row + m, columns][:-1] = rate
            band[row, columns] = own
            band[row - m, columns][1:] = queue.completions[before, after]
    return band


class _Responses:
    """Mean response times of an event that finds (level, phase): level + 1 services, one after the other."""

    def __init__(self, queue: IntermittentQueue) -> None:
        one_service = np.linalg.solve(-queue.busy, np.ones(queue.phases))
        self._phase_after = np.linalg.solve(-queue.busy, queue.completions)
        self._known: Floats = np.asarray(one_service[None, :], dtype=np.float64)

    def up_to(self, levels: int) -> Floats:
        """Of the first `levels` levels; a level is computed once."""
        known = self._known
        while known.shape[0] < levels:
            # After as many services as there are levels known, the phase has moved on by this power.
            moved = np.linalg.matrix_power(self._phase_after, known.shape[0])
            known = np.vstack([known, np.asarray(known[-1] + known @ moved.T, dtype=np.float64)])
        self._known = known
        return known[:levels]


def _first_step_s(queue: IntermittentQueue, bin_s: float) -> float:
    """A few steps per connected and disconnected period, and never fewer than 20 a bin."""
    periods = [period.mean() for period in (queue.on, queue.off) if period is not None]
    return min([bin_s / 20, *(period_s / 4 for period_s in periods)])
