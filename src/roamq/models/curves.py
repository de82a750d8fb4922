"""Curves from subscribers to throughput: polynomial or monotone, chosen by cross-validation.

Paper: [PRO] section 6.3 fits a cubic to per-broker throughput of random-mobility runs (Eq. 16, R2 0.9198)
and reads neighboring-mobility runs off it. The printed cubic rises without bound past its data.
Goes further: a monotone curve competes, the choice is made on data that the fit has not seen, and a
prediction comes with an interval.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import interpolate, optimize, stats

Floats = NDArray[np.float64]

FOLDS = 5
"""Of the cross-validation."""


def paper_throughput(subscribers: ArrayLike) -> Floats:
    """[PRO] Eq. 16 as printed: messages per second of a broker with this many subscribers."""
    x = np.asarray(subscribers, dtype=np.float64)
    return np.asarray(0.0019 * x**3 - 0.2256 * x**2 + 12.362 * x + 1.7111)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A fitted curve."""

    kind: str
    """`polynomial-1` to `polynomial-4`, or `monotone`."""
    r2: float
    """On the data fitted."""
    r2_cross_validated: float
    """On data left out: what the choice between kinds rests on. May be negative."""
    x_range: tuple[float, float]
    """Where there were data; a prediction outside is an extrapolation."""
    coefficients: tuple[float, ...]
    """Of a polynomial, highest power first; of a monotone curve its values at equally filled knots."""
    _predict: Callable[[Floats], Floats]
    _half_width: Callable[[Floats, float], Floats]

    def predict(self, x: ArrayLike) -> Floats:
        return self._predict(np.asarray(x, dtype=np.float64))

    def interval(self, x: ArrayLike, *, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Where a new observation at `x` falls with this confidence."""
        points = np.asarray(x, dtype=np.float64)
        middle, half = self.predict(points), self._half_width(points, confidence)
        return middle - half, middle + half


def fit_curve(x: ArrayLike, y: ArrayLike, kinds: Sequence[str] | None = None) -> list[Curve]:
    """Fit every kind; the best under cross-validation comes first."""
    points = np.asarray(x, dtype=np.float64).ravel()
    values = np.asarray(y, dtype=np.float64).ravel()
    if points.size != values.size:
        raise ValueError(f"y: {values.size} values for {points.size} points")
    if not (np.isfinite(points).all() and np.isfinite(values).all()):
        raise ValueError("x, y: must be finite")
    wanted = list(kinds) if kinds is not None else [*(f"polynomial-{d}" for d in range(1, 5)), "monotone"]
    distinct = np.unique(points).size
    for kind in wanted:
        if kind not in _FITTERS:
            raise ValueError(f"kinds: unknown {kind}; known are {', '.join(_FITTERS)}")
    # A kind must leave data over to judge it by; with few distinct points only the simple ones qualify.
    able = [kind for kind in wanted if distinct > _LEAST_POINTS[kind]]
    if not able:
        raise ValueError(f"x: {distinct} distinct points are too few for {', '.join(wanted)}")
    curves = [_curve(kind, points, values) for kind in able]
    return sorted(curves, key=lambda curve: -curve.r2_cross_validated)


def r_squared(observed: Floats, predicted: Floats) -> float:
    """The coefficient of determination."""
    total = float(((observed - observed.mean()) ** 2).sum())
    rest = float(((observed - predicted) ** 2).sum())
    return 1 - rest / total if total > 0 else math.nan


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    coefficients: Floats
    predict: Callable[[Floats], Floats]
    half_width: Callable[[Floats, float], Floats] | None
    """None if the interval comes from the residuals of cross-validation."""


def _curve(kind: str, x: Floats, y: Floats) -> Curve:
    fit = _FITTERS[kind]
    whole = fit(x, y)
    left_out = np.empty_like(y)
    for test in _folds(x):
        train = np.setdiff1d(np.arange(x.size), test)
        left_out[test] = fit(x[train], y[train]).predict(x[test])
    residuals = np.abs(y - left_out)

    def from_residuals(points: Floats, confidence: float) -> Floats:
        rank = min(1.0, math.ceil((residuals.size + 1) * confidence) / residuals.size)
        return np.full(points.shape, float(np.quantile(residuals, rank)))

    return Curve(
        kind,
        r_squared(y, whole.predict(x)),
        r_squared(y, left_out),
        (float(x.min()), float(x.max())),
        tuple(whole.coefficients.tolist()),
        whole.predict,
        whole.half_width or from_residuals,
    )


def _folds(x: Floats) -> list[NDArray[np.intp]]:
    """Folds that each span the range: points are dealt out in order of x, repeated measurements together."""
    _, group = np.unique(x, return_inverse=True)
    count = min(FOLDS, int(group.max()) + 1)
    return [np.flatnonzero(group % count == fold) for fold in range(count)]


def _polynomial(degree: int) -> Callable[[Floats, Floats], _Fitted]:
    def fit(x: Floats, y: Floats) -> _Fitted:
        scale = float(np.abs(x).max()) or 1.0
        design = np.vander(x / scale, degree + 1)
        coefficients = np.asarray(np.linalg.lstsq(design, y, rcond=None)[0], dtype=np.float64)
        freedom = x.size - degree - 1
        variance = float(((y - design @ coefficients) ** 2).sum()) / max(freedom, 1)
        inverse = np.linalg.pinv(design.T @ design)

        def predict(points: Floats) -> Floats:
            return np.asarray(np.polyval(coefficients, points / scale))

        def half_width(points: Floats, confidence: float) -> Floats:
            rows = np.vander(np.atleast_1d(points / scale).ravel(), degree + 1)
            leverage = np.einsum("ij,jk,ik->i", rows, inverse, rows)
            t = stats.t.ppf((1 + confidence) / 2, max(freedom, 1))
            return np.reshape(t * np.sqrt(variance * (1 + leverage)), points.shape)

        powers = np.arange(degree, -1, -1)
        return _Fitted(coefficients / scale**powers, predict, half_width)

    return fit


def _monotone(x: Floats, y: Floats) -> _Fitted:
    """Never falling: least squares over non-negative rises between knots, smoothed without overshoot."""
    distinct = np.unique(x)
    count = min(6, distinct.size)
    knots = distinct[np.round(np.linspace(0, distinct.size - 1, count)).astype(int)]
    rises = np.clip((x[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
    design = np.hstack([np.ones((x.size, 1)), rises])
    lower = np.append(-np.inf, np.zeros(count - 1))
    solution = optimize.lsq_linear(design, y, bounds=(lower, np.full(count, np.inf))).x
    values = np.cumsum(solution)
    smooth = interpolate.PchipInterpolator(knots, values)

    def predict(points: Floats) -> Floats:
        return np.asarray(smooth(np.clip(points, knots[0], knots[-1])))

    return _Fitted(values, predict, None)


_FITTERS: dict[str, Callable[[Floats, Floats], _Fitted]] = {
    **{f"polynomial-{degree}": _polynomial(degree) for degree in range(1, 5)},
    "monotone": _monotone,
}

_LEAST_POINTS = {**{f"polynomial-{degree}": degree + 1 for degree in range(1, 5)}, "monotone": 3}
