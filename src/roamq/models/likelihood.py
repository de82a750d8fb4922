"""The largest likelihood of periods of which some are cut, by Newton's method.

Each family has its logarithmic likelihood in unbounded numbers, with slope and curvature: the search then takes about
ten steps, where one without slopes takes hundreds. A step that does not climb is made shorter and turned towards the
slope (Levenberg 1944, Marquardt 1963), so the search never ends below where it began.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

STEPS_MAX: Final = 200
DAMPING_MAX: Final = 1e12
FREE_MAX: Final = 50.0
"""Logarithms of parameters stay within this: beyond it, a likelihood has its maximum at infinity."""
SETTLING_STEPS: Final = 20
_LEAST: Final = 1e-9
_LOG_SQRT_2PI: Final = 0.5 * math.log(2 * math.pi)


class Hill(NamedTuple):
    """A likelihood at one point: its logarithm, and how that rises and bends."""

    height: float
    slope: Floats
    curvature: Floats


Likelihood = Callable[[Floats, Floats, Floats], Hill]
"""Called with lengths, 1 where a length is whole and 0 where it is cut, and the unbounded numbers."""


def climb(likelihood: Likelihood, lengths: Floats, whole: Floats, start: Floats, tolerance: float) -> Floats:
    """The unbounded numbers at the maximum; the search ends when a step would gain less than `tolerance`."""
    at, damping = start, 1e-3
    here = likelihood(lengths, whole, at)
    for _ in range(STEPS_MAX):
        bend = -here.curvature
        scale = np.maximum(np.abs(np.diag(bend)), 1e-9)
        step = np.linalg.solve(bend + damping * np.diag(scale), here.slope)
        gain = float(step @ here.slope)
        there = np.clip(at + step, -FREE_MAX, FREE_MAX)
        found = likelihood(lengths, whole, there)
        if gain > 0 and found.height >= here.height:
            rose = found.height - here.height
            at, here, damping = there, found, max(damping / 10, 1e-12)
            if max(gain, rose) < tolerance:
                break
        else:
            damping *= 10
            if damping > DAMPING_MAX:
                break
    return at


def weibull(lengths: Floats, whole: Floats, free: Floats) -> Hill:
    """Logarithms of shape and scale."""
    log_shape, log_scale = free.tolist()
    shape = math.exp(log_shape)
    t = shape * (np.log(lengths) - log_scale)
    u = np.exp(np.minimum(t, 700.0))
    ended, ended_t = float(whole.sum()), float(whole @ t)
    u_sum, u_t, u_tt = float(u.sum()), float(u @ t), float(u @ (t * t))
    height = ended * (log_shape - log_scale) + ended_t - ended_t / shape - u_sum
    mixed = shape * (u_sum - ended + u_t)
    return Hill(
        height,
        np.array([ended + ended_t - u_t, shape * (u_sum - ended)]),
        np.array([[ended_t - u_t - u_tt, mixed], [mixed, -shape * shape * u_sum]]),
    )


def lognormal(lengths: Floats, whole: Floats, free: Floats) -> Hill:
    """Mean of the logarithm, and the logarithm of its deviation."""
    mu, log_sigma = free.tolist()
    sigma = math.exp(log_sigma)
    logs = np.log(lengths)
    z = (logs - mu) / sigma
    is_whole = whole > 0
    e, c = z[is_whole], z[~is_whole]
    left = special.log_ndtr(-c)
    hazard = np.exp(-c * c / 2 - _LOG_SQRT_2PI - left)
    bend = hazard * (hazard - c)
    height = (
        float(left.sum())
        - float(logs[is_whole].sum())
        - float(e @ e) / 2
        - e.size * (log_sigma + _LOG_SQRT_2PI)
    )
    mixed = (-2 * float(e.sum()) - float(bend @ c) - float(hazard.sum())) / sigma
    return Hill(
        height,
        np.array([(float(e.sum()) + float(hazard.sum())) / sigma, float(e @ e) - e.size + float(hazard @ c)]),
        np.array(
            [
                [-(e.size + float(bend.sum())) / sigma**2, mixed],
                [mixed, -2 * float(e @ e) - float((bend * c + hazard) @ c)],
            ]
        ),
    )


def hyperexponential(lengths: Floats, whole: Floats, free: Floats) -> Hill:
    """The share of the first phase as a logit, and the logarithms of both means."""
    logit, log_1, log_2 = free.tolist()
    share = 1 / (1 + math.exp(-logit))
    x_1, x_2 = lengths * math.exp(-log_1), lengths * math.exp(-log_2)
    first = -math.log1p(math.exp(-logit)) - whole * log_1 - x_1
    second = -math.log1p(math.exp(logit)) - whole * log_2 - x_2
    both = np.logaddexp(first, second)
    of_1 = np.exp(first - both)
    of_2 = 1 - of_1
    d_1, d_2 = x_1 - whole, x_2 - whole
    shared = of_1 * of_2
    s_1, s_2 = shared @ d_1, shared @ d_2
    cross = -float((shared * d_1) @ d_2)
    return Hill(
        float(both.sum()),
        np.array([of_1.sum() - share * lengths.size, of_1 @ d_1, of_2 @ d_2]),
        np.array(
            [
                [shared.sum() - share * (1 - share) * lengths.size, s_1, -s_2],
                [s_1, (shared * d_1) @ d_1 - of_1 @ x_1, cross],
                [-s_2, cross, (shared * d_2) @ d_2 - of_2 @ x_2],
            ]
        ),
    )


def settled(lengths: Floats, whole: Floats, free: Floats) -> Floats:
    """A start for `hyperexponential` that a few steps of expectation and maximisation have brought near a maximum.

    Its likelihood has several maxima. From afar, Newton's steps may leave the best one for one at infinity.
    """
    share, mean_1, mean_2 = 1 / (1 + math.exp(-free[0])), math.exp(free[1]), math.exp(free[2])
    time_s, ends = float(lengths.sum()), float(whole.sum())
    for _ in range(SETTLING_STEPS):
        first = math.log(share) - whole * math.log(mean_1) - lengths / mean_1
        second = math.log1p(-share) - whole * math.log(mean_2) - lengths / mean_2
        of_1 = special.expit(first - second)
        ends_1, time_1_s = float(of_1 @ whole), float(of_1 @ lengths)
        share = min(max(float(of_1.mean()), _LEAST), 1 - _LEAST)
        mean_1 = max(time_1_s, _LEAST) / max(ends_1, _LEAST)
        mean_2 = max(time_s - time_1_s, _LEAST) / max(ends - ends_1, _LEAST)
    return np.array([math.log(share / (1 - share)), math.log(mean_1), math.log(mean_2)])
