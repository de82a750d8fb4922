"""Constraints: the set of values that a conjunction of predicates leaves to one attribute.

Every class here is a canonical form: two constraints are equal exactly if they accept the same values. `meet`
(intersection) is therefore the only operation needed: `a` covers `b` if `a meet b == b`, and they overlap if
the meet is not empty. An empty meet is `None`, so that no constraint ever accepts nothing.

The attribute may be missing, a string, a number or a boolean; each predicate but `IS [NOT] NULL` speaks of
one type and is false for the others, `<>` and `NOT ...` included, as in JMS. Numbers are taken as the real
line, and NaN is not on it: no predicate but `IS NOT NULL` accepts it.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from roamq.core.events import Value

Number = int | float


@dataclass(frozen=True, slots=True)
class Missing:
    """`IS NULL`: the event does not have the attribute."""

    def accepts(self, value: Value | None) -> bool:
        return value is None


@dataclass(frozen=True, slots=True)
class Present:
    """`IS NOT NULL`: the event has the attribute, of whatever type."""

    def accepts(self, value: Value | None) -> bool:
        return value is not None


@dataclass(frozen=True, slots=True)
class Booleans:
    """Some of the two truth values."""

    values: tuple[bool, ...]

    def accepts(self, value: Value | None) -> bool:
        return (value is True or value is False) and value in self.values


class Interval(NamedTuple):
    """A stretch of the real line. Infinite ends count as closed, so an infinite float is a number too."""

    low: Number
    low_closed: bool
    high: Number
    high_closed: bool

    def is_point(self) -> bool:
        return self.low == self.high

    def meet(self, other: "Interval") -> "Interval | None":
        low, low_open = max((self.low, not self.low_closed), (other.low, not other.low_closed))
        high, high_closed = min((self.high, self.high_closed), (other.high, other.high_closed))
        if low < high or (low == high and not low_open and high_closed):
            return Interval(low, not low_open, high, high_closed)
        return None


EVERY_NUMBER = Interval(-math.inf, True, math.inf, True)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Disjoint intervals in ascending order, never touching one another; a finite set is a row of points."""

    intervals: tuple[Interval, ...]

    def accepts(self, value: Value | None) -> bool:
        if value is True or value is False or not isinstance(value, (int, float)):
            return False
        intervals = self.intervals
        if len(intervals) == 1:
            low, low_closed, high, high_closed = intervals[0]
        else:
            nearest = bisect_right(intervals, value, key=_low) - 1
            if nearest < 0:
                return False
            low, low_closed, high, high_closed = intervals[nearest]
        return (low < value or (low_closed and low == value)) and (
            value < high or (high_closed and value == high)
        )

    def is_finite(self) -> bool:
        return all(interval.is_point() for interval in self.intervals)


@dataclass(frozen=True, slots=True)
class Words:
    """A finite set of strings, sorted."""

    values: tuple[str, ...]

    def accepts(self, value: Value | None) -> bool:
        return value in self.values if isinstance(value, str) else False


@dataclass(frozen=True, slots=True)
class Texts:
    """The strings that begin with `prefix`, without those below `without_prefixes` and without some words.

    Canonical: the excluded prefixes are longer than `prefix`, none begins with another, and no excluded word
    lies below one. Never empty, and unique, because a selector is too short to exclude each of the million
    characters that may follow a prefix.
    """

    prefix: str
    without_prefixes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def accepts(self, value: Value | None) -> bool:
        return (
            isinstance(value, str)
            and value.startswith(self.prefix)
            and value not in self.without
            and not (self.without_prefixes and value.startswith(self.without_prefixes))
        )


Constraint = Missing | Present | Booleans | Numbers | Words | Texts

MISSING = Missing()
PRESENT = Present()


def booleans(values: Iterable[bool]) -> Booleans | None:
    distinct = tuple(sorted(set(values), reverse=True))
    return Booleans(distinct) if distinct else None


def words(values: Iterable[str]) -> Words | None:
    distinct = tuple(sorted(set(values)))
    return Words(distinct) if distinct else None


def texts(prefix: str, without_prefixes: Iterable[str] = (), without: Iterable[str] = ()) -> Texts | None:
    minimal: list[str] = []
    for candidate in sorted(set(without_prefixes)):  # a prefix sorts before all that begin with it
        if prefix.startswith(candidate):
            return None
        if candidate.startswith(prefix) and not (minimal and candidate.startswith(minimal[-1])):
            minimal.append(candidate)
    below = tuple(minimal)
    kept = {word for word in without if word.startswith(prefix) and not word.startswith(below)}
    return Texts(prefix, below, tuple(sorted(kept)))


def points(values: Iterable[Number]) -> Numbers | None:
    distinct = sorted(set(values))
    return Numbers(tuple(Interval(at, True, at, True) for at in distinct)) if distinct else None


def between(low: Number, low_closed: bool, high: Number, high_closed: bool) -> Numbers | None:
    interval = Interval(low, low_closed, high, high_closed).meet(EVERY_NUMBER)
    return Numbers((interval,)) if interval else None


def outside(low: Number, high: Number) -> Numbers:
    """Every number but those from `low` to `high`, both excluded."""
    if low > high:
        return Numbers((EVERY_NUMBER,))
    return Numbers((Interval(-math.inf, True, low, False), Interval(high, False, math.inf, True)))


def excluding(values: Iterable[Number]) -> Numbers:
    """Every number but these."""
    ends = [-math.inf, *sorted(set(values)), math.inf]
    gaps = pairwise(ends)
    return Numbers(tuple(Interval(low, low == -math.inf, high, high == math.inf) for low, high in gaps))


def meet(one: Constraint, other: Constraint) -> Constraint | None:
    """The values that both accept, or `None` if they have none in common."""
    match one, other:
        case (Missing(), Missing()):
            return one
        case (Missing(), _) | (_, Missing()):
            return None
        case (Present(), _):
            return other
        case (_, Present()):
            return one
        case (Booleans(), Booleans()):
            return booleans(value for value in one.values if value in other.values)
        case (Numbers(), Numbers()):
            return _meet_numbers(one, other)
        case (Words(), Words() | Texts()):
            return words(word for word in one.values if other.accepts(word))
        case (Texts(), Words()):
            return words(word for word in other.values if one.accepts(word))
        case (Texts(), Texts()):
            return _meet_texts(one, other)
        case _:
            return None  # of two types


def meet_all(constraints: Sequence[Constraint]) -> Constraint | None:
    """The values that all constraints accept; there is at least one. They are met in pairs, then pairs of pairs, so
    that n of them take n log n."""
    met = list(constraints)
    while len(met) > 1:
        pairs: list[Constraint] = []
        for one, other in zip(met[::2], met[1::2], strict=False):
            both = meet(one, other)
            if both is None:
                return None
            pairs.append(both)
        met = pairs + met[len(pairs) * 2 :]
    return met[0]


def covers(general: Constraint, special: Constraint) -> bool:
    return meet(general, special) == special


def _meet_numbers(one: Numbers, other: Numbers) -> Numbers | None:
    met: list[Interval] = []
    i = j = 0
    while i < len(one.intervals) and j < len(other.intervals):
        left, right = one.intervals[i], other.intervals[j]
        if common := left.meet(right):
            met.append(common)
        if (left.high, left.high_closed) < (right.high, right.high_closed):
            i += 1
        else:
            j += 1
    return Numbers(tuple(met)) if met else None


def _meet_texts(one: Texts, other: Texts) -> Texts | None:
    longer, shorter = (one, other) if len(one.prefix) >= len(other.prefix) else (other, one)
    if not longer.prefix.startswith(shorter.prefix):
        return None
    return texts(
        longer.prefix,
        one.without_prefixes + other.without_prefixes,
        one.without + other.without,
    )


def _low(interval: Interval) -> Number:
    return interval.low
