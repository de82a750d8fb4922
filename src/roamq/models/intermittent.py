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
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roamq.models.phase_type import MatrixExponential

Floats = NDArray[np.float64]

DISTRIBUTION_ERROR_MAX: Final = 1e-3
"""A distribution whose mean is further from the mean by moments lost too many digits to be shown."""


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
        return _kron(self.connectivity, np.eye(self.service.phases))

    @cached_property
    def completions(self) -> Floats:
        """Rates at which the head leaves and the next service phase is drawn; only while connected."""
        leave = np.outer(-self.service.generator @ self.service.end, self.service.start)
        return _kron(np.diag(self.is_on), leave)

    @cached_property
    def busy(self) -> Floats:
        """Rates between phases while the head stays."""
        return self.idle + np.kron(np.diag(self.is_on), self.service.generator)

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
        """Events at the centre, the one in service included.

        A sum over levels, or for a centre that is almost saturated, where (I - R) is a difference of nearly equal
        numbers, the moments of the balance equations: with P(z) = sum pi_n z^n, the first two derivatives at z = 1.
        """
        if not self._is_nearly_saturated:
            above = np.linalg.solve(self._complement, np.linalg.solve(self._complement, np.ones(self.phases)))
            return float(self._empty @ self._r @ above)
        ones = np.ones(self.phases)
        weight = self.rate * ones - self.completions @ ones
        flow = -(self._phases_at_arrival @ (self.rate * np.eye(self.phases) - self.completions))
        deviation = _solve_generator(self._phase_generator, flow - self._empty @ self.completions)
        spare = self._served_when_full * (1 - self.utilisation)
        return float((self.rate + deviation @ weight) / spare)

    def mean_response_s(self) -> float:
        """By Little's law."""
        return self.mean_present() / self.rate

    @property
    def busy_phases(self) -> Floats:
        """The probabilities of the phases while at least one event is present."""
        return self._phases_at_arrival - self._empty

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
        start = _kron(np.ones(self.phases), self._phases_at_arrival)
        law = MatrixExponential(start, generator, identity.ravel(order="F"))
        if not math.isclose(law.mean(), self.mean_response_s(), rel_tol=DISTRIBUTION_ERROR_MAX):
            raise ArithmeticError(
                f"utilisation {self.utilisation:.10g} is too near 1 for the distribution of the response time; "
                f"its mean is {self.mean_response_s():.6g} s"
            )
        return law

    def phases_when_unused(self) -> Floats:
        """The distribution of the phases if no event ever came: connectivity in its steady state."""
        connectivity = left_null_vector(self.connectivity, normal=np.ones(self.is_on.size))
        return _kron(connectivity, self.service.start)

    def in_time(self, ttl_s: float) -> float:
        """P(delivered within `ttl_s`), where late events are delivered too and so delay others."""
        return float(self.response_distribution().cdf(ttl_s))

    @cached_property
    def connectivity(self) -> Floats:
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
    def is_on(self) -> Floats:
        """1 for the phases of connectivity that are connected, 0 for the others."""
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
        return up @ np.linalg.inv(-(local + up @ first_passage_down(up, local, self.completions)))

    @cached_property
    def _complement(self) -> Floats:
        return np.eye(self.phases) - self._r

    @property
    def _is_nearly_saturated(self) -> bool:
        return self.utilisation > 0.9

    @cached_property
    def _phase_generator(self) -> Floats:
        """Rates between phases at a centre that never runs empty."""
        return self.busy + self.completions

    @cached_property
    def _phases_when_full(self) -> Floats:
        return left_null_vector(self._phase_generator, normal=np.ones(self.phases))

    @cached_property
    def _served_when_full(self) -> float:
        """Events per second that leave a centre that never runs empty."""
        return float(self._phases_when_full @ self.completions.sum(axis=1))

    @cached_property
    def _empty(self) -> Floats:
        """pi_0: the probabilities of an empty centre, by phase.

        All levels together have probability 1. For a centre that is almost saturated, the scale follows instead from
        the services that it misses while it is empty: they are all its spare ones.
        """
        balance = self.idle - self.rate * np.eye(self.phases) + self._r @ self.completions
        direction = left_null_vector(balance, normal=np.ones(self.phases))
        if not self._is_nearly_saturated:
            return direction / float(direction @ np.linalg.solve(self._complement, np.ones(self.phases)))
        served = self.completions.sum(axis=1)
        shift = _solve_generator(self._phase_generator, direction @ (self._phase_generator - self.idle))
        missed = float(direction @ served - shift @ served)
        return direction * (self._served_when_full * (1 - self.utilisation) / missed)

    @cached_property
    def _phases_at_arrival(self) -> Floats:
        """The probabilities of the phases whatever the level: P(1) of `mean_present`."""
        if not self._is_nearly_saturated:
            return np.asarray(np.linalg.solve(self._complement.T, self._empty), dtype=np.float64)
        flow = self._empty @ (self._phase_generator - self.idle)
        return self._phases_when_full + _solve_generator(self._phase_generator, flow)


def left_null_vector(matrix: Floats, *, normal: Floats) -> Floats:
    """x with x matrix = 0 and x . normal = 1, where `matrix` holds the rates of a Markov chain.

    Grassmann, Taksar and Heyman (1985): states are eliminated one by one, with rates that are only added, multiplied
    and divided. Nothing cancels, so every entry is accurate to almost all digits however far apart the rates are. The
    diagonal is not used: it is what the other rates of the row sum to.
    """
    members = _closed_class(matrix)
    rates = matrix[np.ix_(members, members)].copy()
    np.fill_diagonal(rates, 0.0)
    leaving = np.empty(members.size)
    for state in range(members.size - 1, 0, -1):
        leaving[state] = rates[state, :state].sum()
        rates[:state, :state] += np.outer(rates[:state, state] / leaving[state], rates[state, :state])
        np.fill_diagonal(rates, 0.0)
    weights = np.zeros(members.size)
    weights[0] = 1.0
    for state in range(1, members.size):
        weights[state] = weights[:state] @ rates[:state, state] / leaving[state]
        if weights[state] > 1e100:
            weights /= weights[state]
    solution: Floats = np.zeros(matrix.shape[0])
    solution[members] = weights / float(weights @ normal[members])
    return solution


def _solve_generator(generator: Floats, right: Floats) -> Floats:
    """x with x generator = right and entries that sum to 0; `right` sums to 0 as well."""
    size = generator.shape[0]
    scale = float(np.abs(generator).max()) or 1.0
    # Adding the same to every column leaves x as it is, for x sums to 0, and makes the matrix regular.
    regular = generator + scale * np.ones((size, size))
    return np.asarray(np.linalg.solve(regular.T, right), dtype=np.float64)


def _closed_class(matrix: Floats) -> NDArray[np.intp]:
    """The states that the chain comes back to for ever; all others have probability 0."""
    links = matrix > 0
    state = 0
    while True:
        reached = _reached(links, state)
        lost = reached & ~_reached(links.T, state)
        if not lost.any():
            return np.flatnonzero(reached)
        state = int(np.argmax(lost))  # from there the chain does not come back: fewer states can be reached


def _reached(links: NDArray[np.bool_], state: int) -> NDArray[np.bool_]:
    """The states that can be reached from this one, itself included."""
    reached = np.zeros(links.shape[0], dtype=bool)
    latest = np.zeros_like(reached)
    reached[state] = latest[state] = True
    while latest.any():
        latest = links[latest].any(axis=0) & ~reached
        reached |= latest
    return reached


def _kron(left: Floats, right: Floats) -> Floats:
    return np.asarray(np.kron(left, right), dtype=np.float64)


def first_passage_down(up: Floats, local: Floats, down: Floats) -> Floats:
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
            # The level below is reached with certainty.
            return np.asarray(passage / passage.sum(axis=1, keepdims=True), dtype=np.float64)
    raise ArithmeticError(f"logarithmic reduction did not converge; residue {math.log10(gain.max()):.0f}")
