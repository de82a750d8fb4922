"""Intervals over seeds: of one quantity, and of the difference or ratio of two that were measured with the same seeds.

Runs of one seed share their moves and publications. Two schemes are therefore compared seed by seed: what the seed
does to both cancels, and a difference that every seed shows is told from a chance one with few seeds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from roamq.models.quantiles import student_quantile

CONFIDENCE = 0.95
PLAIN_BELOW = 1e6
"""Smaller numbers are written without an exponent."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and the ends of its confidence interval. One seed alone has no interval: its ends are infinite."""

    mean: float
    low: float
    high: float
    freedom: float = field(default=math.inf, compare=False)
    """Degrees of freedom of the Student's t that gave the interval; infinite for a normal one."""
    comparisons: int = field(default=1, compare=False)
    """For how many intervals that hold together it is wide enough (Bonferroni)."""

    @property
    def width(self) -> float:
        """The whole width; infinite where one seed tells nothing."""
        return self.high - self.low

    def __iter__(self) -> Iterator[float]:
        """The mean and both ends."""
        yield from (self.mean, self.low, self.high)

    def widened(self, comparisons: int) -> "Estimate":
        """The interval that holds together with so many; itself, if it is wide enough for them already."""
        if comparisons <= self.comparisons or not 0 < self.width < math.inf:
            return self
        wide, narrow = (reach(self.freedom, count) for count in (comparisons, self.comparisons))
        return replace(
            self,
            low=self.mean - (self.mean - self.low) * wide / narrow,
            high=self.mean + (self.high - self.mean) * wide / narrow,
            comparisons=comparisons,
        )

    def scaled(self, factor: float) -> "Estimate":
        """The same in another unit; the factor is positive."""
        return replace(self, mean=self.mean * factor, low=self.low * factor, high=self.high * factor)

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


def reach(freedom: float, comparisons: int = 1, confidence: float = CONFIDENCE) -> float:
    """How many standard errors an interval reaches to either side."""
    return student_quantile(1 - (1 - confidence) / (2 * comparisons), freedom)


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
    half = reach(freedom, comparisons, confidence) * deviation / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half, freedom, comparisons)


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
