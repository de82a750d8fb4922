"""Branches: the tree of tables in which filters hang by their access plans.

A node keeps up to `LEAF_MAX` filters in a row and asks each of them; beyond that it hangs every filter one
step further along its plan. Filters that agree in a predicate share a branch and are told apart by their next
one, so a predicate that everybody has costs one look-up and no more. A branch with one filter is that filter
itself.
"""

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from sortedcontainers import SortedList

from roamq.core.access import AccessStep, Bound, Kind, Plan, cell_of, in_grid, plan_access
from roamq.core.events import Value
from roamq.core.filters import Filter

LEAF_MAX = 12

Attributes = Mapping[str, Value]


class Entry:
    """A filter in the index, with the keys that hold it."""

    __slots__ = ("filter", "holders", "plan", "serial")

    def __init__(self, filter_: Filter, serial: int, holder: Hashable) -> None:
        self.filter = filter_
        self.serial = serial
        self.holders: Hashable | dict[Any, None] = holder
        """The key that holds the filter, or several in their order. A dictionary of one takes 250 bytes."""
        self.plan: Plan = plan_access(filter_.predicates) if filter_.predicates else ()


class Node:
    """The filters that agree in the first `depth` steps of their plans."""

    __slots__ = ("absent", "depth", "entries", "slots")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.entries: dict[Entry, None] = {}
        self.slots: dict[str, Slot] | None = None
        self.absent: dict[object, Branch] = {}

    def add(self, entry: Entry) -> None:
        if len(entry.plan) == self.depth:
            self.entries[entry] = None
        elif self.slots is not None:
            self._hang(entry, self.slots)
        else:
            self.entries[entry] = None
            if len(self.entries) > LEAF_MAX:
                self._split()

    def _split(self) -> None:
        self.slots = {}
        held, self.entries = self.entries, {}
        for entry in held:
            self.add(entry)

    def _hang(self, entry: Entry, slots: "dict[str, Slot]") -> None:
        step = entry.plan[self.depth]
        if step.kind is Kind.ABSENT:
            hang(self.absent, step.attribute, entry, self.depth + 1)
            return
        slot = slots.get(step.attribute)
        if slot is None:
            slot = slots[step.attribute] = Slot()
        slot.add(step, entry, self.depth + 1)

    def remove(self, entry: Entry) -> None:
        if entry in self.entries:
            del self.entries[entry]
            return
        assert self.slots is not None
        step = entry.plan[self.depth]
        if step.kind is Kind.ABSENT:
            unhang(self.absent, step.attribute, entry)
            return
        slot = self.slots[step.attribute]
        slot.remove(step, entry)
        if slot.is_empty():
            del self.slots[step.attribute]

    def is_empty(self) -> bool:
        return not (self.entries or self.slots or self.absent)

    def collect(self, attributes: Attributes, found: list[Entry]) -> None:
        """Append the entries here and below whose predicates the attributes satisfy."""
        for entry in self.entries:
            for name, constraint in entry.filter.predicates:
                if not constraint.accepts(attributes.get(name)):
                    break
            else:
                found.append(entry)
        if self.slots:
            for name, value in attributes.items():
                slot = self.slots.get(name)
                if slot is not None:
                    slot.collect(value, attributes, found)
        if self.absent:
            for absent, branch in self.absent.items():
                if absent not in attributes:
                    collect(branch, attributes, found)


Branch = Entry | Node


class Slot:
    """One attribute at one node: a table for each kind of step, and for each size of it."""

    __slots__ = ("cells", "equal", "groups", "prefixes", "present")

    def __init__(self) -> None:
        self.equal: dict[object, Branch] = {}
        self.prefixes: dict[int, dict[object, Branch]] = {}
        self.cells: dict[int, dict[object, Branch]] = {}
        self.present: dict[object, Branch] = {}
        self.groups: dict[tuple[tuple[str, bool], ...], BoundsGroup] = {}

    def add(self, step: AccessStep, entry: Entry, depth: int) -> None:
        if step.kind is Kind.BOUNDS:
            signature = tuple(bound[:2] for bound in _bounds(step))
            group = self.groups.get(signature)
            if group is None:
                group = self.groups[signature] = BoundsGroup(signature)
            group.add(_bounds(step), entry)
            return
        table = self._table(step)
        for key in step.keys:
            hang(table, key, entry, depth)

    def remove(self, step: AccessStep, entry: Entry) -> None:
        if step.kind is Kind.BOUNDS:
            signature = tuple(bound[:2] for bound in _bounds(step))
            self.groups[signature].remove(_bounds(step), entry)
            if not self.groups[signature]:
                del self.groups[signature]
            return
        table = self._table(step)
        for key in step.keys:
            unhang(table, key, entry)
        if not table and step.kind in (Kind.PREFIX, Kind.CELL):
            del self._sizes(step)[step.size]

    def is_empty(self) -> bool:
        return not (self.equal or self.prefixes or self.cells or self.present or self.groups)

    def _table(self, step: AccessStep) -> dict[object, Branch]:
        if step.kind is Kind.EQUAL:
            return self.equal
        if step.kind is Kind.PRESENT:
            return self.present
        return self._sizes(step).setdefault(step.size, {})

    def _sizes(self, step: AccessStep) -> dict[int, dict[object, Branch]]:
        return self.prefixes if step.kind is Kind.PREFIX else self.cells

    def collect(self, value: Value, attributes: Attributes, found: list[Entry]) -> None:
        if self.equal:
            branch = self.equal.get(value)
            if branch is not None:
                collect(branch, attributes, found)
        if self.prefixes and isinstance(value, str):
            for length, by_prefix in self.prefixes.items():
                branch = by_prefix.get(value[:length])
                if branch is not None:
                    collect(branch, attributes, found)
        if self.cells and in_grid(value):
            assert not isinstance(value, str)
            for exponent, by_cell in self.cells.items():
                branch = by_cell.get(cell_of(value, exponent))
                if branch is not None:
                    collect(branch, attributes, found)
        for branch in self.present.values():
            collect(branch, attributes, found)
        for group in self.groups.values():
            group.collect(attributes, found)


class BoundsGroup:
    """Filters with bounds on the same ends of the same attributes, each end in order.

    An event counts for every end how many filters reach its value, in log time, and asks only those of the
    end that fewest reach: a bound that all events pass costs nothing as long as another one is selective. The
    sorted lists are those of `sortedcontainers`, the one import from outside: at 100,000 bounds it inserts
    several times faster than `bisect.insort` into a plain list, whose time grows linearly.
    """

    __slots__ = ("orders", "signature")

    def __init__(self, signature: tuple[tuple[str, bool], ...]) -> None:
        self.signature = signature
        self.orders = [SortedList() for _ in signature]

    def __bool__(self) -> bool:
        return bool(self.orders[0])

    def add(self, bounds: tuple[Bound, ...], entry: Entry) -> None:
        for bound, order in zip(bounds, self.orders, strict=True):
            order.add((bound.at, entry.serial, entry))

    def remove(self, bounds: tuple[Bound, ...], entry: Entry) -> None:
        for bound, order in zip(bounds, self.orders, strict=True):
            order.remove((bound.at, entry.serial, entry))

    def collect(self, attributes: Attributes, found: list[Entry]) -> None:
        fewest = len(self.orders[0]) + 1
        reached: Iterator[tuple[float, int, Entry]] = iter(())
        for (attribute, is_low), order in zip(self.signature, self.orders, strict=True):
            value = attributes.get(attribute)
            if not isinstance(value, (int, float)):
                return
            if is_low:
                stop = order.bisect_right((value, math.inf))
                count, start = stop, 0
            else:
                start = order.bisect_left((value,))
                stop = len(order)
                count = stop - start
            if count < fewest:
                if count == 0:
                    return
                fewest, reached = count, order.islice(start, stop)
        for _, _, entry in reached:
            if _accepts(entry, attributes):
                found.append(entry)


def hang(table: dict[object, Branch], key: object, entry: Entry, depth: int) -> None:
    """Put an entry at a place of a table; `depth` steps of its plan are behind it there."""
    table[key] = hung(table.get(key), entry, depth)


def unhang(table: dict[object, Branch], key: object, entry: Entry) -> None:
    """Take an entry from a place of a table, and the place with it when nothing else is there."""
    if unhung(table[key], entry) is None:
        del table[key]


def hung(branch: Branch | None, entry: Entry, depth: int) -> Branch:
    """The branch with one entry more."""
    if branch is None:
        return entry
    if isinstance(branch, Entry):
        node = Node(depth)
        node.add(branch)
        branch = node
    branch.add(entry)
    return branch


def unhung(branch: Branch, entry: Entry) -> Branch | None:
    """The branch with one entry less; None if nothing is left of it."""
    if isinstance(branch, Node):
        branch.remove(entry)
        if not branch.is_empty():
            return branch
    return None


def collect(branch: Branch, attributes: Attributes, found: list[Entry]) -> None:
    if isinstance(branch, Node):
        branch.collect(attributes, found)
    elif _accepts(branch, attributes):
        found.append(branch)


def _accepts(entry: Entry, attributes: Attributes) -> bool:
    for name, constraint in entry.filter.predicates:  # noqa: SIM110 - a generator would double the time
        if not constraint.accepts(attributes.get(name)):
            return False
    return True


def _bounds(step: AccessStep) -> tuple[Bound, ...]:
    return tuple(bound for bound in step.keys if isinstance(bound, Bound))
