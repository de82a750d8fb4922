"""Distributions of connectivity periods: maximum likelihood, goodness of fit, CCDF.

Paper: [TIME] section 4.1.3 fits exponential distributions to connected and disconnected periods.
Goes further: three alternatives compete by AIC, and each fit is tested. The parameters of a fit come from the
very sample it is tested on, so the textbook Kolmogorov-Smirnov p-value would be far too kind; ours is the
share of samples drawn from the fit and *fitted again* that lie further off (Lilliefors' test, generalised).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]
Params = dict[str, float]

FAMILIES: Final = ("exponential", "weibull", "lognormal", "hyperexponential")

REPLICATES: Final = 199
"""Samples behind a p-value; its resolution is 1/200."""

REPLICATE_SIZE_MAX: Final = 400
"""Beyond this the law of sqrt(n) times the statistic hardly changes, so larger samples are not simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One family fitted to one sample of durations, in the sample's unit of time."""

    family: str
    params: Params
    """exponential: mean; weibull: shape, scale; lognormal: mu, sigma; hyperexponential: p, mean_1, mean_2."""
    log_likelihood: float
    aic: float
    ks_statistic: float
    ks_pvalue: float
    """Of "the sample is from this family"; nan when the test was not asked for."""
    n: int
    mean: float
    """The mean of the fitted distribution, which need not be the sample's."""

    def sf(self, t: ArrayLike) -> Floats:
        """P(duration > t)."""
        times = np.asarray(t, dtype=np.float64)
        return np.reshape(FAMILY_BY_NAME[self.family].sf(times, _row(self.params)), times.shape)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Durations drawn from the fit."""
        return np.ravel(FAMILY_BY_NAME[self.family].draw(np.ravel(_row(self.params)), (1, size), rng))


def fit_durations(
    samples: ArrayLike, families: Sequence[str] = FAMILIES, *, replicates: int = REPLICATES
) -> list[Fit]:
    """Fit each family by maximum likelihood; the smallest AIC comes first.

    `replicates=0` leaves the p-values out, which is what a first pass over many groups wants. A sample
    without any spread has a likelihood with a maximum in the exponential family alone: only that is returned.
    """
    sample = _checked(samples)
    unknown = sorted(set(families) - set(FAMILY_BY_NAME))
    if unknown:
        raise ValueError(f"families: unknown {', '.join(unknown)}; known are {', '.join(FAMILY_BY_NAME)}")
    has_spread = bool(sample.max() > sample.min() * (1 + 1e-9))
    fits = [_fit(name, sample, replicates) for name in families if has_spread or name == "exponential"]
    return sorted(fits, key=lambda fit: fit.aic)


def ccdf(samples: ArrayLike) -> tuple[Floats, Floats]:
    """The empirical P(duration > t) as a plot wants it: the distinct durations, and the share above each."""
    times, counts = np.unique(np.asarray(samples, dtype=np.float64), return_counts=True)
    return times, 1.0 - np.cumsum(counts) / counts.sum()


@dataclass(frozen=True, slots=True)
class Family:
    """A family works on many samples at once: `estimate` maps (replicates, n) to (replicates, parameters)."""

    names: tuple[str, ...]
    estimate: Callable[[Floats], Floats]
    log_pdf: Callable[[Floats, Floats], Floats]
    sf: Callable[[Floats, Floats], Floats]
    mean: Callable[[Floats], Floats]
    draw: Callable[[Floats, tuple[int, int], np.random.Generator], Floats]
    is_pivotal: bool
    """The law of the KS statistic does not depend on the parameters, so it is simulated once and kept."""


def law_of(name: str) -> Family:
    """Return the family of this name: its density, survival and mean."""
    if name not in FAMILY_BY_NAME:
        raise ValueError(f"families: unknown {name}; known are {', '.join(FAMILIES)}")
    return FAMILY_BY_NAME[name]


def _fit(name: str, sample: Floats, replicates: int) -> Fit:
    family = FAMILY_BY_NAME[name]
    params = family.estimate(sample[None, :])
    log_likelihood = float(family.log_pdf(sample, params).sum())
    statistic = float(_ks_statistics(family, np.sort(sample)[None, :], params)[0])
    pvalue = math.nan
    if replicates:
        size = min(sample.size, REPLICATE_SIZE_MAX)
        at = (1.0,) * len(family.names) if family.is_pivotal else tuple(params[0].tolist())
        null = _null_statistics(name, at, size, replicates)
        exceeding = int(np.count_nonzero(null >= statistic * math.sqrt(sample.size / size)))
        pvalue = (1 + exceeding) / (1 + replicates)
    return Fit(
        family=name,
        params=dict(zip(family.names, params[0].tolist(), strict=True)),
        log_likelihood=log_likelihood,
        aic=2 * len(family.names) - 2 * log_likelihood,
        ks_statistic=statistic,
        ks_pvalue=pvalue,
        n=sample.size,
        mean=float(family.mean(params)[0]),
    )


def _ks_statistics(family: Family, ordered: Floats, params: Floats) -> Floats:
    """The largest distance between empirical and fitted distribution, per row of sorted samples."""
    n = ordered.shape[1]
    cdf = 1.0 - family.sf(ordered, params)
    above = np.arange(1, n + 1) / n - cdf
    below = cdf - np.arange(n) / n
    return np.asarray(np.maximum(above, below).max(axis=1))


@lru_cache(maxsize=1024)
def _null_statistics(name: str, params: tuple[float, ...], size: int, replicates: int) -> Floats:
    """KS statistics of samples that truly are from the family, each fitted anew.

    Seeded by the size alone, so equal input has an equal p-value.
    """
    family = FAMILY_BY_NAME[name]
    rng = np.random.default_rng(size)
    drawn = np.sort(family.draw(np.asarray(params), (replicates, size), rng), axis=1)
    drawn = np.maximum(drawn, np.finfo(np.float64).tiny)
    return _ks_statistics(family, drawn, family.estimate(drawn))


def _checked(samples: ArrayLike) -> Floats:
    sample = np.asarray(samples, dtype=np.float64).ravel()
    if sample.size < 2:
        raise ValueError(f"samples: at least 2 durations are needed, got {sample.size}")
    if not np.isfinite(sample).all() or (sample <= 0).any():
        raise ValueError("samples: durations must be positive and finite")
    return sample


def _row(params: Params) -> Floats:
    return np.array([list(params.values())])


# Exponential


def _exponential_estimate(x: Floats) -> Floats:
    return np.asarray(x.mean(axis=1, keepdims=True))


def _exponential_log_pdf(x: Floats, params: Floats) -> Floats:
    return -np.log(params[:, :1]) - x / params[:, :1]


def _exponential_sf(t: Floats, params: Floats) -> Floats:
    return np.exp(-t / params[:, :1])


# Weibull


def _weibull_estimate(x: Floats) -> Floats:
    """Newton's method on the profile likelihood of the shape, all rows in step."""
    log_x = np.log(x)
    mean_log = log_x.mean(axis=1, keepdims=True)
    centred = log_x - mean_log
    shape = 1.2825 / np.maximum(centred.std(axis=1, keepdims=True), 1e-9)  # the moments of log Weibull
    for _ in range(60):
        weight = np.exp(shape * centred)
        total = weight.sum(axis=1, keepdims=True)
        first = (weight * centred).sum(axis=1, keepdims=True) / total
        second = (weight * centred**2).sum(axis=1, keepdims=True) / total
        step = (first - 1 / shape) / (second - first**2 + 1 / shape**2)
        shape = np.maximum(shape - step, shape / 4)
        if np.abs(step).max() < 1e-10 * shape.max():
            break
    scale = np.exp(mean_log) * np.exp(shape * centred).mean(axis=1, keepdims=True) ** (1 / shape)
    return np.hstack([shape, scale])


def _weibull_log_pdf(x: Floats, params: Floats) -> Floats:
    shape, scale = params[:, :1], params[:, 1:2]
    return np.asarray(np.log(shape / scale) + (shape - 1) * np.log(x / scale) - (x / scale) ** shape)


def _weibull_sf(t: Floats, params: Floats) -> Floats:
    return np.asarray(np.exp(-((t / params[:, 1:2]) ** params[:, :1])))


# Lognormal


def _lognormal_estimate(x: Floats) -> Floats:
    log_x = np.log(x)
    return np.hstack([log_x.mean(axis=1, keepdims=True), log_x.std(axis=1, keepdims=True)])


def _lognormal_log_pdf(x: Floats, params: Floats) -> Floats:
    mu, sigma = params[:, :1], params[:, 1:2]
    log_x = np.log(x)
    return np.asarray(-log_x - np.log(sigma * math.sqrt(2 * math.pi)) - ((log_x - mu) / sigma) ** 2 / 2)


def _lognormal_sf(t: Floats, params: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(special.ndtr(-(np.log(t) - params[:, :1]) / params[:, 1:2]))


# Hyperexponential of two phases


def _hyperexponential_estimate(x: Floats) -> Floats:
    """Expectation-maximisation, all rows in step.

    A sample less variable than the exponential has its maximum at two equal phases: that is where this goes.
    """
    mean = x.mean(axis=1, keepdims=True)
    p = np.full_like(mean, 0.5)
    mean_1, mean_2 = mean * 0.3, mean * 1.7
    for _ in range(500):
        density_1 = p / mean_1 * np.exp(-x / mean_1)
        density_2 = (1 - p) / mean_2 * np.exp(-x / mean_2)
        share = density_1 / np.maximum(density_1 + density_2, np.finfo(np.float64).tiny)
        weight = np.clip(share.sum(axis=1, keepdims=True), 1e-9, x.shape[1] - 1e-9)
        new_p = weight / x.shape[1]
        mean_1 = (share * x).sum(axis=1, keepdims=True) / weight
        mean_2 = (x.sum(axis=1, keepdims=True) - mean_1 * weight) / (x.shape[1] - weight)
        moved = np.abs(new_p - p).max()
        p = new_p
        if moved < 1e-6:
            break
    return np.hstack([p, mean_1, mean_2])


def _hyperexponential_log_pdf(x: Floats, params: Floats) -> Floats:
    p, mean_1, mean_2 = params[:, :1], params[:, 1:2], params[:, 2:3]
    return np.logaddexp(np.log(p / mean_1) - x / mean_1, np.log((1 - p) / mean_2) - x / mean_2)


def _hyperexponential_sf(t: Floats, params: Floats) -> Floats:
    p, mean_1, mean_2 = params[:, :1], params[:, 1:2], params[:, 2:3]
    return p * np.exp(-t / mean_1) + (1 - p) * np.exp(-t / mean_2)


def _hyperexponential_draw(params: Floats, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    p, mean_1, mean_2 = params
    return np.asarray(np.where(rng.random(shape) < p, mean_1, mean_2) * rng.standard_exponential(shape))


FAMILY_BY_NAME: Final[dict[str, Family]] = {
    "exponential": Family(
        names=("mean",),
        estimate=_exponential_estimate,
        log_pdf=_exponential_log_pdf,
        sf=_exponential_sf,
        mean=lambda params: params[:, 0],
        draw=lambda params, shape, rng: params[0] * rng.standard_exponential(shape),
        is_pivotal=True,
    ),
    "weibull": Family(
        names=("shape", "scale"),
        estimate=_weibull_estimate,
        log_pdf=_weibull_log_pdf,
        sf=_weibull_sf,
        mean=lambda params: np.asarray(params[:, 1] * special.gamma(1 + 1 / params[:, 0])),
        draw=lambda params, shape, rng: params[1] * rng.weibull(params[0], shape),
        is_pivotal=True,
    ),
    "lognormal": Family(
        names=("mu", "sigma"),
        estimate=_lognormal_estimate,
        log_pdf=_lognormal_log_pdf,
        sf=_lognormal_sf,
        mean=lambda params: np.asarray(np.exp(params[:, 0] + params[:, 1] ** 2 / 2)),
        draw=lambda params, shape, rng: rng.lognormal(params[0], params[1], shape),
        is_pivotal=True,
    ),
    "hyperexponential": Family(
        names=("p", "mean_1", "mean_2"),
        estimate=_hyperexponential_estimate,
        log_pdf=_hyperexponential_log_pdf,
        sf=_hyperexponential_sf,
        mean=lambda params: params[:, 0] * params[:, 1] + (1 - params[:, 0]) * params[:, 2],
        draw=_hyperexponential_draw,
        is_pivotal=False,
    ),
}
