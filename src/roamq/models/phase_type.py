"""Matrix-exponential distributions: what durations and response times are made of.

P(X > t) = start exp(generator t) end. With `end` all ones and a sub-generator this is a phase-type
distribution, the time a Markov chain takes to be absorbed; response times come out in the wider form. Sums
and mixtures stay in the class, so a path of queueing centres has an exact distribution too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from roamq.models.fitting import Fit

Floats = NDArray[np.float64]

MANY: Final = 16
"""So many times at once are worth a look at the eigenvalues."""

CONDITION_MAX: Final = 1e8
"""Beyond this, eigenvectors lose too many digits; a matrix with repeated eigenvalues, such as Erlang's, has none."""


DIGITS: Final = 28
"""Binary digits of a quantile, counted from the mean; what is finer is interpolated."""


@dataclass(frozen=True, slots=True, eq=False)
class MatrixExponential:
    """A distribution on [0, infinity) as (start, generator, end), with start . end = 1."""

    start: Floats
    generator: Floats
    end: Floats

    @property
    def phases(self) -> int:
        return int(self.start.size)

    def mean(self) -> float:
        return float(self.start @ np.linalg.solve(-self.generator, self.end))

    def variance(self) -> float:
        once = np.linalg.solve(-self.generator, self.end)
        return float(2 * self.start @ np.linalg.solve(-self.generator, once)) - self.mean() ** 2

    def sf(self, t: ArrayLike) -> Floats:
        """P(X > t)."""
        times = np.asarray(t, dtype=np.float64)
        if times.size >= MANY and (parts := self._exponentials()) is not None:
            weights, rates = parts
            values = (np.exp(np.multiply.outer(times.ravel(), rates)) @ weights).real.tolist()
            return np.asarray(np.clip(np.reshape(values, times.shape), 0.0, 1.0))
        values = [float(self.start @ linalg.expm(self.generator * time) @ self.end) for time in times.flat]
        return np.asarray(np.clip(np.reshape(values, times.shape), 0.0, 1.0))

    def _exponentials(self) -> tuple[NDArray[np.complex128], NDArray[np.complex128]] | None:
        """(weights, rates) with P(X > t) = the sum of weight exp(rate t); None if that would lose digits."""
        rates, vectors = np.linalg.eig(self.generator)
        if np.linalg.cond(vectors) > CONDITION_MAX:
            return None
        weights = (self.start @ vectors) * np.linalg.solve(vectors, self.end)
        return weights.astype(np.complex128), rates.astype(np.complex128)

    def cdf(self, t: ArrayLike) -> Floats:
        return 1.0 - self.sf(t)

    def quantile(self, share: float) -> float:
        """The time that `share` of all stay within."""
        return self.quantiles([share])[0]

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """The times that these shares stay within: several at once cost hardly more than one.

        A time is built from halves of a bound, as a number from its binary digits; the matrix of a half is the square
        of the one for the next half, so that only the first is an exponential.
        """
        for share in shares:
            if not 0 <= share < 1:
                raise ValueError(f"share: {share} is not in [0, 1)")
        step = (self.mean() or 1.0) / 2**DIGITS
        steps = [linalg.expm(self.generator * step)]
        ends = [steps[0] @ self.end]
        least = 1 - max(shares, default=0.0)
        while len(steps) <= DIGITS or float(self.start @ ends[-1]) > least:
            steps.append(steps[-1] @ steps[-1])
            ends.append(steps[-1] @ self.end)
        return [self._within(share, step, steps, ends) for share in shares]

    def _within(self, share: float, step: float, steps: Sequence[Floats], ends: Sequence[Floats]) -> float:
        at, count, lasting = self.start, 0, float(self.start @ self.end)
        if lasting <= 1 - share:
            return 0.0
        for digit in range(len(steps) - 1, -1, -1):
            left = float(at @ ends[digit])
            if left > 1 - share:
                at, count, lasting = at @ steps[digit], count + 2**digit, left
        following = float(at @ ends[0])
        rest = (lasting - (1 - share)) / (lasting - following) if lasting > following else 0.0
        return step * (count + min(rest, 1.0))

    def sf_steps(self, step: float, count: int) -> Floats:
        """P(X > t) for t = 0, step, 2 step and so on, `count` times."""
        once, at, values = linalg.expm(self.generator * step), self.start, []
        for _ in range(count):
            values.append(float(at @ self.end))
            at = at @ once
        return np.asarray(np.clip(values, 0.0, 1.0), dtype=np.float64)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """So many durations at random. Only of a phase-type distribution: there, `start` and rates are chances."""
        leaving = -np.diag(self.generator)
        ends = -self.generator.sum(axis=1)
        chances = (
            np.column_stack([self.generator - np.diag(np.diag(self.generator)), ends]) / leaving[:, None]
        )
        edges = np.cumsum(chances, axis=1)
        drawn = np.zeros(size)
        alive = np.arange(size)
        at = np.searchsorted(np.cumsum(self.start), rng.random(size) * self.start.sum(), side="right")
        while alive.size:
            at = np.minimum(at, self.phases - 1)
            drawn[alive] += rng.standard_exponential(alive.size) / leaving[at]
            following = (rng.random(alive.size)[:, None] >= edges[at, :-1]).sum(axis=1)
            stays = following < self.phases
            alive, at = alive[stays], following[stays]
        return drawn

    def then(self, other: "MatrixExponential") -> "MatrixExponential":
        """The distribution of the sum with an independent duration."""
        exit_rates = -self.generator @ self.end
        generator = np.block(
            [
                [self.generator, np.outer(exit_rates, other.start)],
                [np.zeros((other.phases, self.phases)), other.generator],
            ]
        )
        start = np.concatenate([self.start, np.zeros(other.phases)])
        return MatrixExponential(start, generator, np.concatenate([self.end, other.end]))


def phase_type(start: ArrayLike, generator: ArrayLike) -> MatrixExponential:
    """A phase-type distribution, checked: entered as `start` says, and left with certainty."""
    probabilities = np.atleast_1d(np.asarray(start, dtype=np.float64))
    matrix = np.atleast_2d(np.asarray(generator, dtype=np.float64))
    off_diagonal = matrix - np.diag(np.diag(matrix))
    if matrix.shape != (probabilities.size,) * 2:
        raise ValueError(f"generator: has shape {matrix.shape} for {probabilities.size} phases")
    if (probabilities < 0).any() or not math.isclose(probabilities.sum(), 1.0, abs_tol=1e-9):
        raise ValueError("start: must be probabilities that sum to 1")
    if (off_diagonal < 0).any() or (matrix.sum(axis=1) > 1e-9).any():
        raise ValueError(
            "generator: off-diagonal rates must not be negative, rows must not sum to more than 0"
        )
    if np.linalg.matrix_rank(matrix) < probabilities.size:
        raise ValueError("generator: some phase is never left")
    return MatrixExponential(probabilities, matrix, np.ones(probabilities.size))


def exponential(mean_s: float) -> MatrixExponential:
    _require_positive("mean_s", mean_s)
    return phase_type([1.0], [[-1.0 / mean_s]])


def erlang(phases: int, mean_s: float) -> MatrixExponential:
    """Less variable than exponential: `phases` equal steps; the squared variation coefficient is 1/phases."""
    _require_positive("mean_s", mean_s)
    if phases < 1:
        raise ValueError(f"phases: {phases} is less than 1")
    rate = phases / mean_s
    return phase_type(np.eye(phases)[0], rate * (np.eye(phases, k=1) - np.eye(phases)))


def hyperexponential(shares: ArrayLike, means_s: ArrayLike) -> MatrixExponential:
    """More variable than exponential: one of several exponential means, drawn by `shares`."""
    means = np.asarray(means_s, dtype=np.float64)
    if (means <= 0).any():
        raise ValueError("means_s: must be positive")
    return phase_type(shares, np.diag(-1.0 / means))


def with_moments(mean_s: float, scv: float) -> MatrixExponential:
    """A small phase-type distribution with this mean and squared coefficient of variation.

    Above 1 a hyperexponential with balanced means; below 1 a mixture of two Erlangs of neighbouring order
    (Tijms). A coefficient below 1/20 gets 20 phases: more would cost much and change little.
    """
    _require_positive("mean_s", mean_s)
    _require_positive("scv", scv)
    if math.isclose(scv, 1.0, rel_tol=1e-6):
        return exponential(mean_s)
    if scv > 1:
        p = (1 + math.sqrt((scv - 1) / (scv + 1))) / 2
        return hyperexponential([p, 1 - p], [mean_s / (2 * p), mean_s / (2 * (1 - p))])
    scv = max(scv, 1 / 20)
    k = math.ceil(1 / scv)
    p = (k * scv - math.sqrt(k * (1 + scv) - k * k * scv)) / (1 + scv)
    rate = (k - p) / mean_s
    start = np.zeros(k)
    start[0], start[1] = 1 - p, p  # with probability p one step fewer
    return phase_type(start, rate * (np.eye(k, k=1) - np.eye(k)))


def from_fit(fit: Fit) -> MatrixExponential:
    """The phase-type stand-in of a fitted distribution: itself where it is one, else by two moments."""
    params = fit.params
    match fit.family:
        case "exponential":
            return exponential(params["mean"])
        case "hyperexponential":
            return hyperexponential([params["p"], 1 - params["p"]], [params["mean_1"], params["mean_2"]])
        case "weibull":
            second = math.gamma(1 + 2 / params["shape"]) / math.gamma(1 + 1 / params["shape"]) ** 2
            return with_moments(fit.mean, second - 1)
        case "lognormal":
            return with_moments(fit.mean, math.expm1(params["sigma"] ** 2))
        case _:
            raise ValueError(f"family: {fit.family} has no phase-type stand-in")


def _require_positive(field: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{field}: {value} is not a positive number")
