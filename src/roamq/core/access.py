"""Access plans: they say by which of its predicates, and in which order, a filter is found.

A plan is a chain of steps, the most selective kind first: a value or one of a few, a prefix, a stretch of
numbers, the mere presence or absence of an attribute. Every step names places in a hash table, so that an
event finds by its own values the places where it has to look. A step may promise too much (a stretch of
numbers is rounded to cells, and Python takes TRUE for 1): the filter itself has the last word.

Numbers. An interval between 2^(k-1) and 2^k long lies in at most two cells of the grid with cells 2^k long,
and an event looks into one cell of each grid in use: a few look-ups, however many intervals there are. The
last step of a filter with ranges keeps all its bounds in order; see `BoundsGroup` in `branches`.
"""

import math
from enum import IntEnum
from typing import NamedTuple

from roamq.core.constraints import Booleans, Constraint, Missing, Number, Numbers, Texts, Words
from roamq.core.selectors import Predicates

COPIES_MAX = 64
"""A filter with several lists of values hangs at no more places than this; lists left over are only verified."""

_GRID_EXPONENT_MIN = -64
_GRID_LIMIT = 2.0**900
"""Beyond this limit a scaled number might not fit a float; such bounds are kept in order only."""


class Kind(IntEnum):
    """What a step looks at, in the order in which a plan takes its steps."""

    EQUAL = 0
    PREFIX = 1
    CELL = 2
    BOUNDS = 3
    PRESENT = 4
    ABSENT = 5


class Bound(NamedTuple):
    """One end of a range: the attribute, whether it is the lower end, and where it lies."""

    attribute: str
    is_low: bool
    at: Number


class AccessStep(NamedTuple):
    kind: Kind
    attribute: str
    size: int
    """The length of a prefix, or the exponent of a cell."""
    keys: tuple[object, ...]
    """The places in the table of that kind and size; for BOUNDS, the bounds."""


Plan = tuple[AccessStep, ...]


def plan_access(predicates: Predicates) -> Plan:
    """The steps by which a filter with these predicates is found."""
    if not predicates:
        return ()
    steps = [step for name, constraint in predicates for step in _steps(name, constraint)]
    steps.sort(key=_breadth)
    bounds = [bound for name, constraint in predicates for bound in _bounds(name, constraint)]
    if bounds:
        steps = [step for step in steps if step.kind < Kind.BOUNDS]
        steps.append(AccessStep(Kind.BOUNDS, bounds[0].attribute, 0, tuple(bounds)))
    plan: list[AccessStep] = []
    copies = 1
    for step in steps:
        places = 1 if step.kind is Kind.BOUNDS else len(step.keys)
        if not plan or copies * places <= COPIES_MAX:
            plan.append(step)
            copies *= places
    return tuple(plan)


def cell_of(value: Number, exponent: int) -> int:
    """The cell of the grid with cells 2^exponent long in which a number lies."""
    return math.floor(math.ldexp(value, -exponent))


def in_grid(value: object) -> bool:
    """Is this a number that the grids can hold?"""
    return isinstance(value, (int, float)) and -_GRID_LIMIT < value < _GRID_LIMIT


def _breadth(step: AccessStep) -> tuple[int, int, int, str]:
    """Selective steps first: few values, a long prefix, a short interval."""
    size = -step.size if step.kind is Kind.PREFIX else step.size
    return (step.kind, len(step.keys) if step.kind is Kind.EQUAL else 0, size, step.attribute)


def _steps(name: str, constraint: Constraint) -> list[AccessStep]:
    match constraint:
        case Missing():
            return [AccessStep(Kind.ABSENT, name, 0, (name,))]
        case Booleans(values) if len(values) == 1:
            return [AccessStep(Kind.EQUAL, name, 0, values)]
        case Words(values):
            return [AccessStep(Kind.EQUAL, name, 0, values)]
        case Texts(prefix) if prefix:
            return [AccessStep(Kind.PREFIX, name, len(prefix), (prefix,))]
        case Numbers(intervals) if constraint.is_finite():
            return [AccessStep(Kind.EQUAL, name, 0, tuple(interval.low for interval in intervals))]
        case Numbers(intervals) if in_grid(intervals[0].low) and in_grid(intervals[-1].high):
            low, high = intervals[0].low, intervals[-1].high
            exponent = max(math.frexp(float(high) - float(low))[1], _GRID_EXPONENT_MIN)
            cells = range(cell_of(low, exponent), cell_of(high, exponent) + 1)
            return [AccessStep(Kind.CELL, name, exponent, tuple(cells))]
        case _:
            return [AccessStep(Kind.PRESENT, name, 0, (name,))]


def _bounds(name: str, constraint: Constraint) -> list[Bound]:
    if not isinstance(constraint, Numbers) or constraint.is_finite():
        return []
    low, high = constraint.intervals[0].low, constraint.intervals[-1].high
    ends = []
    if low != -math.inf:
        ends.append(Bound(name, True, low))
    if high != math.inf:
        ends.append(Bound(name, False, high))
    return ends
