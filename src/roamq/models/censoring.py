"""Periods that observation cuts off: means, variability and fits that are not biased by the cut.

A period whose beginning was seen but not its end is longer than its observed length: it is *cut*. Leaving such periods
out favours short ones; taking them as whole makes all periods look shorter. Models and pipeline share one rule:

- a period whose beginning was seen counts, whole or cut, by the product-limit estimator (Kaplan and Meier 1958, which
  Gill 1980 shows to hold for alternating periods seen through a window);
- a period that was under way when observation began has an unknown age and counts for nothing, except that an
  *exponential* mean may use it (`exponential_mean_s`), because exponential periods have no age.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roamq.models.fitting import FAMILIES, Fit, Floats, law_of
from roamq.models.likelihood import Likelihood, climb, hyperexponential, lognormal, settled, weibull

Bools = NDArray[np.bool_]

TOLERANCE: Final = 1e-8
"""Fits are searched until a step would gain less likelihood, by its logarithm, than this."""


@dataclass(frozen=True, slots=True)
class Survival:
    """The product-limit estimate of P(period > t): a step function, and the counts behind it."""

    times_s: Floats
    """The distinct lengths at which periods were seen to end, ascending."""
    survival: Floats
    """P(period > t) from each of these times on."""
    at_risk: NDArray[np.int64]
    """Periods that were seen to last at least so long."""
    ended: NDArray[np.int64]
    """Periods that ended at this length."""
    tail_mean_s: float
    """What a period that outlives the last end lasts beyond it, on average: taken as exponential."""

    @property
    def tail(self) -> float:
        """The share of periods that outlives the last end seen: what lies beyond is extrapolated."""
        return float(self.survival[-1])

    def sf(self, t: ArrayLike) -> Floats:
        """P(period > t), with an exponential tail beyond the last end."""
        times = np.asarray(t, dtype=np.float64)
        steps = np.concatenate([[1.0], self.survival])
        inside = steps[np.searchsorted(self.times_s, times, side="right")]
        if self.tail <= 0:
            return np.asarray(inside)
        beyond = np.exp(-np.maximum(times - self.times_s[-1], 0.0) / self.tail_mean_s)
        return np.asarray(inside * beyond)

    def quantile_s(self, share: float) -> float:
        """The time that `share` of the periods stay within."""
        if not 0 <= share < 1:
            raise ValueError(f"share: {share} is not in [0, 1)")
        reached = np.flatnonzero(self.survival <= 1 - share + 1e-12)
        if reached.size:
            return float(self.times_s[reached[0]])
        return float(self.times_s[-1] + self.tail_mean_s * math.log(self.tail / (1 - share)))

    def mean_s(self) -> float:
        """The area under the curve."""
        widths, heights = self._steps()
        return float(widths @ heights) + self.tail * self.tail_mean_s

    def scv(self) -> float:
        """The squared coefficient of variation: 1 for exponential periods."""
        edges = np.concatenate([[0.0], self.times_s])
        _, heights = self._steps()
        last, tail_s = float(self.times_s[-1]), self.tail_mean_s
        second = float(np.diff(edges**2) @ heights) + self.tail * 2 * tail_s * (last + tail_s)
        return second / self.mean_s() ** 2 - 1

    def mean_error_s(self) -> float:
        """The standard error of the mean, by Greenwood's formula."""
        widths, heights = self._steps()
        areas = widths * heights
        # What the curve still covers beyond each end.
        remaining = np.append(areas[1:][::-1].cumsum()[::-1], 0.0) + self.tail * self.tail_mean_s
        survivors = self.at_risk - self.ended
        weight = np.divide(
            self.ended, self.at_risk * survivors, out=np.zeros(self.ended.size), where=survivors > 0
        )
        return math.sqrt(float(remaining**2 @ weight))

    def _steps(self) -> tuple[Floats, Floats]:
        widths = np.diff(np.concatenate([[0.0], self.times_s]))
        return widths, np.concatenate([[1.0], self.survival[:-1]])


def kaplan_meier(lengths_s: ArrayLike, is_whole: ArrayLike) -> Survival:
    """The survival of periods whose beginning was seen: `is_whole` says whose end was seen as well.

    Where the longest period is cut, the curve does not reach 0. It goes on exponentially, with the mean that the whole
    sample has under an exponential law; `tail` says for how many of the periods this is an extrapolation.
    """
    lengths, whole = _checked(lengths_s, is_whole)
    times, index = np.unique(lengths[whole], return_inverse=True)
    ended = np.bincount(index).astype(np.int64)
    at_risk = lengths.size - np.searchsorted(np.sort(lengths), times, side="left").astype(np.int64)
    survival = np.cumprod(1.0 - ended / at_risk, dtype=np.float64)
    return Survival(times, survival, at_risk, ended, float(lengths.sum()) / int(whole.sum()))


def exponential_mean_s(lengths_s: ArrayLike, is_ended: ArrayLike) -> float:
    """The maximum-likelihood mean of exponential periods: all time in the state by the number of ends seen.

    Periods that were under way when observation began may be among them.
    """
    lengths, ended = _checked(lengths_s, is_ended)
    return float(lengths.sum()) / int(ended.sum())


def fit_censored(
    lengths_s: ArrayLike,
    is_whole: ArrayLike,
    families: Sequence[str] = FAMILIES,
) -> list[Fit]:
    """Each family by maximum likelihood, cut periods by P(period > length); the smallest AIC comes first.

    `ks_statistic` is the largest distance to the product-limit curve at its steps. There is no p-value: its law
    depends on how the periods were cut.
    """
    lengths, whole = _checked(lengths_s, is_whole)
    if lengths.size < 2:
        raise ValueError(f"lengths_s: at least 2 periods are needed, got {lengths.size}")
    curve = kaplan_meier(lengths, whole)
    has_spread = bool(lengths.max() > lengths.min() * (1 + 1e-9)) and curve.times_s.size > 1
    chosen = [name for name in families if has_spread or name == "exponential"]
    fits = [_fit(name, lengths, whole, curve) for name in chosen]
    return sorted(fits, key=lambda fit: fit.aic)


def _fit(name: str, lengths: Floats, whole: Bools, curve: Survival) -> Fit:
    law = law_of(name)
    mean = float(lengths.sum()) / int(whole.sum())
    params, value = _SEARCHES[name](mean, lengths, whole)
    fitted = law.sf(curve.times_s, params[None, :]).ravel()
    before = np.concatenate([[1.0], curve.survival[:-1]])
    distance = np.maximum(np.abs(curve.survival - fitted), np.abs(before - fitted))
    return Fit(
        family=name,
        params=dict(zip(law.names, params.tolist(), strict=True)),
        log_likelihood=value,
        aic=2 * len(law.names) - 2 * value,
        ks_statistic=float(distance.max()),
        ks_pvalue=math.nan,
        n=int(lengths.size),
        mean=float(law.mean(params[None, :])[0]),
    )


LikelihoodSearch = Callable[[float, Floats, Bools], tuple[Floats, float]]
"""Called with all time by the number of ends, lengths and which are whole; returns parameters and log-likelihood."""


def _best(likelihood: Likelihood, lengths: Floats, whole: Bools, *starts: Floats) -> tuple[Floats, float]:
    """The highest of the maxima that the starts lead to, in unbounded numbers."""
    ended = whole.astype(np.float64)
    tops = [climb(likelihood, lengths, ended, start, TOLERANCE) for start in starts]
    heights = [likelihood(lengths, ended, top).height for top in tops]
    highest = int(np.argmax(heights))
    return tops[highest], heights[highest]


def _exponential(mean: float, lengths: Floats, whole: Bools) -> tuple[Floats, float]:
    ends = int(whole.sum())
    return np.array([mean]), -ends * (math.log(mean) + 1)


def _weibull(mean: float, lengths: Floats, whole: Bools) -> tuple[Floats, float]:
    free, value = _best(weibull, lengths, whole, np.log([1.0, mean]))
    return np.exp(free), value


def _lognormal(mean: float, lengths: Floats, whole: Bools) -> tuple[Floats, float]:
    logs = np.log(lengths[whole])
    start = np.array([float(logs.mean()), math.log(max(float(logs.std()), 1e-3))])
    free, value = _best(lognormal, lengths, whole, start)
    return np.array([free[0], math.exp(free[1])]), value


def _hyperexponential(mean: float, lengths: Floats, whole: Bools) -> tuple[Floats, float]:
    # Few long periods among short ones, and few short ones among long ones.
    guesses = (
        [2.0, math.log(0.5 * mean), math.log(5 * mean)],
        [-2.0, math.log(0.1 * mean), math.log(1.1 * mean)],
    )
    starts = [settled(lengths, whole.astype(np.float64), np.array(guess)) for guess in guesses]
    free, value = _best(hyperexponential, lengths, whole, *starts)
    return np.array([1 / (1 + math.exp(-free[0])), *np.exp(free[1:])]), value


_SEARCHES: Final[dict[str, LikelihoodSearch]] = {
    "exponential": _exponential,
    "weibull": _weibull,
    "lognormal": _lognormal,
    "hyperexponential": _hyperexponential,
}


def _checked(lengths_s: ArrayLike, is_ended: ArrayLike) -> tuple[Floats, Bools]:
    lengths = np.asarray(lengths_s, dtype=np.float64).ravel()
    ended = np.asarray(is_ended, dtype=bool).ravel()
    if lengths.size != ended.size:
        raise ValueError(f"is_whole: {ended.size} flags for {lengths.size} periods")
    if not np.isfinite(lengths).all() or (lengths <= 0).any():
        raise ValueError("lengths_s: periods must be positive and finite")
    if not ended.any():
        raise ValueError("is_whole: no period was seen to end, so their mean is unknown")
    return lengths, ended
