"""The ON/OFF centre beyond exponential: phase-type periods and service, by the matrix-geometric method.

Theorem 2 of [TIME] gives the mean for exponential periods. Here connected and disconnected periods and
service may have any phase-type distribution, and the answers are the distributions themselves: events
present, response time, delivery within a time-to-live, and loss at a finite buffer.

The chain: level = events present, phase = (phase of connectivity, service phase of the head). The next
service phase is drawn when the head leaves, even from an empty queue, so all levels have the same phases
and the stationary law is geometric from level 0: pi_n = pi_0 R^n.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from roamq.models.phase_type import MatrixExponential

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class IntermittentQueue:
    """Poisson arrivals at `rate`; a service interrupted by a disconnection goes on at the reconnection."""

    rate: float
    service: MatrixExponential
    on: MatrixExponential | None = None
    """Connected periods; None with `off` None for a server that is always on."""
    off: MatrixExponential | None = None

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise ValueError(f"rate: {self.rate} is not positive")
        if (self.on is None) != (self.off is None):
            raise ValueError("on, off: give both or neither")

    @cached_property
    def idle(self) -> Floats:
        """Rates between phases while there is nothing to serve: connectivity alone changes."""
        return _kron(self._connectivity, np.eye(self.service.phases))

    @cached_property
    def completions(self) -> Floats:
        """Rates at which the head leaves and the next service phase is drawn; only while connected."""
        leave = np.outer(-self.service.generator @ self.service.end, self.service.start)
        return _kron(np.diag(self._is_on), leave)

    @cached_property
    def busy(self) -> Floats:
        """Rates between phases while the head stays."""
        return self.idle + np.kron(np.diag(self._is_on), self.service.generator)

    @property
    def phases(self) -> int:
        return int(self.idle.shape[0])

    @property
    def share_on(self) -> float:
        if self.on is None or self.off is None:
            return 1.0
        return self.on.mean() / (self.on.mean() + self.off.mean())

    @property
    def utilisation(self) -> float:
        return self.rate * self.service.mean() / self.share_on

    def mean_present(self) -> float:
        """Events at the centre, the one in service included."""
        present = np.linalg.solve(self._complement, np.linalg.solve(self._complement, np.ones(self.phases)))
        return float(self._empty @ self._r @ present)

    def mean_response_s(self) -> float:
        """By Little's law."""
        return self.mean_present() / self.rate

    def present_above(self, events: int) -> float:
        """P(more than `events` are at the centre)."""
        tail = np.linalg.matrix_power(self._r, events + 1) @ np.linalg.solve(
            self._complement, np.ones(self.phases)
        )
        return float(self._empty @ tail)

    def response_distribution(self) -> MatrixExponential:
        """The exact law of the response time of an event under first come, first served.

        An event that finds n others is still there after t if at most n services were completed by then.
        Summed over n with pi_n = pi_0 R^n this is pi_0 (I - R)^-1 Y(t) 1 with Y' = Y busy + R Y
        completions, Y(0) = I: a linear equation, whose matrix is written out here.
        """
        identity = np.eye(self.phases)
        generator = np.kron(self.busy.T, identity) + np.kron(self.completions.T, self._r)
        phase_at_arrival = np.linalg.solve(self._complement.T, self._empty)
        start = np.kron(np.ones(self.phases), phase_at_arrival)
        return MatrixExponential(start, generator, identity.ravel(order="F"))

    def phases_when_unused(self) -> Floats:
        """The law of the phases where no event ever came: connectivity in its steady state."""
        connectivity = left_null_vector(self._connectivity, normal=np.ones(self._is_on.size))
        return _kron(connectivity, self.service.start)

    def in_time(self, ttl_s: float) -> float:
        """P(delivered within `ttl_s`), where late events are delivered too and so delay others."""
        return float(self.response_distribution().cdf(ttl_s))

    @cached_property
    def _connectivity(self) -> Floats:
        """Generator of the connectivity alone: first the phases of ON, then those of OFF."""
        if self.on is None or self.off is None:
            return np.zeros((1, 1))
        on_ends = -self.on.generator @ self.on.end
        off_ends = -self.off.generator @ self.off.end
        return np.block(
            [
                [self.on.generator, np.outer(on_ends, self.off.start)],
                [np.outer(off_ends, self.on.start), self.off.generator],
            ]
        )

    @cached_property
    def _is_on(self) -> Floats:
        if self.on is None or self.off is None:
            return np.ones(1)
        return np.concatenate([np.ones(self.on.phases), np.zeros(self.off.phases)])

    @cached_property
    def _r(self) -> Floats:
        """R: the expected visits to level n + 1 per visit to level n."""
        if self.utilisation >= 1:
            raise ValueError(f"saturated: utilisation is {self.utilisation:.3g}, so there is no steady state")
        up = self.rate * np.eye(self.phases)
        local = self.busy - up
        return up @ np.linalg.inv(-(local + up @ _first_passage_down(up, local, self.completions)))

    @cached_property
    def _complement(self) -> Floats:
        return np.eye(self.phases) - self._r

    @cached_property
    def _empty(self) -> Floats:
        """pi_0: the probabilities of an empty centre, by phase."""
        balance = self.idle - self.rate * np.eye(self.phases) + self._r @ self.completions
        total = np.asarray(np.linalg.solve(self._complement, np.ones(self.phases)), dtype=np.float64)
        return left_null_vector(balance, normal=total)


def left_null_vector(matrix: Floats, *, normal: Floats) -> Floats:
    """x with x matrix = 0 and x . normal = 1; the rank must be one short."""
    system = np.vstack([matrix.T, normal])
    right = np.zeros(matrix.shape[0] + 1)
    right[-1] = 1.0
    solution: Floats = np.linalg.lstsq(system, right, rcond=None)[0]
    return solution


def _kron(left: Floats, right: Floats) -> Floats:
    return np.asarray(np.kron(left, right), dtype=np.float64)


def _first_passage_down(up: Floats, local: Floats, down: Floats) -> Floats:
    """G by logarithmic reduction (Latouche and Ramaswami): each round doubles the levels looked at."""
    inverse = np.linalg.inv(-local)
    rise, fall = inverse @ up, inverse @ down
    passage, weight = fall, rise
    for _ in range(64):
        both = rise @ fall + fall @ rise
        inverse = np.linalg.inv(np.eye(local.shape[0]) - both)
        rise, fall = inverse @ rise @ rise, inverse @ fall @ fall
        gain = weight @ fall
        passage = passage + gain
        weight = weight @ rise
        if gain.max() < 1e-15:
            return passage
    raise ArithmeticError(f"logarithmic reduction did not converge; residue {math.log10(gain.max()):.0f}")
