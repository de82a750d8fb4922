"""Quantiles of the binomial and of Student's distribution by `scipy.special`: importing `scipy.stats` takes longer than
most answers of `roamq plan`.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtrik, ndtri, stdtrit

ROUNDING: Final = 1e-13


def binomial_quantile(share: float, trials: int, chance: ArrayLike) -> NDArray[np.int64]:
    """The least number of successes that are not exceeded with probability `share`, for each chance."""
    chances = np.asarray(chance, dtype=np.float64)
    above = np.ceil(bdtrik(share, trials, chances))
    # The continuous solution may lie a rounding error above a whole number, and so may the share itself.
    below = np.maximum(above - 1, 0.0)
    counts = np.where(bdtr(below, trials, chances) >= share * (1 - ROUNDING), below, above)
    counts = np.where(chances <= 0, 0.0, np.where(chances >= 1, float(trials), counts))
    return np.asarray(counts, dtype=np.int64)


def student_quantile(share: float, freedom: float) -> float:
    """The value that Student's t with such degrees of freedom stays below with probability `share`. With infinitely
    many, it is the normal distribution."""
    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))
