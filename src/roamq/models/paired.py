"""Intervals over seeds: of one quantity, and of the difference or ratio of two that were measured with the same seeds.

Runs of one seed share their moves and publications. Two schemes are therefore compared seed by seed: what the seed
does to both cancels, and a difference that every seed shows is told from a chance one with few seeds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roamq.models.quantiles import student_quantile

CONFIDENCE = 0.95
PLAIN_BELOW = 1e6
"""Smaller numbers are written without an exponent."""


class Estimate(NamedTuple):
    """A mean and the ends of its confidence interval. One seed alone has no interval: its ends are infinite."""

    mean: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """The whole width; infinite where one seed tells nothing."""
        return self.high - self.low

    def __str__(self) -> str:
        return self.told(3)

    def told(self, digits: int) -> str:
        """The mean and its interval in so many digits: `0.95 (0.93 to 0.97)`."""
        mean, low, high = (_plain(value, digits) for value in self)
        if not math.isfinite(self.width):
            return f"{mean} (one seed)"
        return mean if self.width == 0 else f"{mean} ({low} to {high})"


def _plain(value: float, digits: int) -> str:
    """`1330` and not `1.33e+03`, up to a million."""
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(value) < PLAIN_BELOW else text


def interval(values: Sequence[float], *, comparisons: int = 1, confidence: float = CONFIDENCE) -> Estimate:
    """The mean of independent values with its interval by Student's t.

    With several `comparisons` each interval is widened (Bonferroni), so that all of them hold together with the
    confidence asked for.
    """
    assert values, "an interval needs at least one value"
    mean = math.fsum(values) / len(values)
    freedom = len(values) - 1
    if freedom == 0:
        return Estimate(mean, -math.inf, math.inf)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / freedom)
    t = student_quantile(1 - (1 - confidence) / (2 * comparisons), freedom)
    half = t * deviation / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def exactly(value: float) -> Estimate:
    """A value that no seed decides, such as one that a formula gives."""
    return Estimate(value, value, value)


def difference(a: Mapping[int, float], b: Mapping[int, float], *, comparisons: int = 1) -> Estimate:
    """`a` less `b`, seed by seed; both are seed -> value."""
    return interval([a[seed] - b[seed] for seed in _common(a, b)], comparisons=comparisons)


def ratio(a: Mapping[int, float], b: Mapping[int, float], *, comparisons: int = 1) -> Estimate:
    """`a` over `b`, seed by seed; infinite where `b` is 0 in some seed."""
    seeds = _common(a, b)
    if any(b[seed] == 0 for seed in seeds):
        return Estimate(math.inf, -math.inf, math.inf)
    return interval([a[seed] / b[seed] for seed in seeds], comparisons=comparisons)


def _common(a: Mapping[int, float], b: Mapping[int, float]) -> list[int]:
    seeds = sorted(a.keys() & b.keys())
    assert seeds, "two quantities are compared over seeds that both have"
    return seeds
