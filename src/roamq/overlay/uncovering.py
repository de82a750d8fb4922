"""A wide filter goes: the filters that it covered are asked for before, some at a time, so that no input takes long."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from roamq.core.covering import CoverIndex
from roamq.core.events import BrokerId
from roamq.core.filters import Filter

FOUND_AT_ONCE: Final = 2_000
"""If a filter covers more than about so many, all filters that are wanted are tried, some at a time."""
TRIED_AT_ONCE: Final = 500


class PutOff(NamedTuple):
    """A filter that is to be taken back from a neighbour when those that it covered have been asked for."""

    neighbour: BrokerId
    filter: Filter
    origins: int
    hidden: list[Filter]
    """What is left to ask for if the filter covers it, the first at the end."""

    def take(self, count: int) -> list[Filter]:
        """The next filters to ask for, not more than `count`."""
        taken: list[Filter] = []
        for _ in range(min(TRIED_AT_ONCE, len(self.hidden))):
            other = self.hidden.pop()
            if other.satisfiable and self.filter.covers(other):
                taken.append(other)
                if len(taken) == count:
                    break
        return taken


class HiddenFilters:
    """What a filter covered that goes, found once for all neighbours that it is taken back from."""

    def __init__(self) -> None:
        self._found: tuple[Filter, list[Filter]] | None = None

    def by(self, filter: Filter, index: CoverIndex, *wanted: Iterable[Filter]) -> list[Filter]:
        """The filters of `index` that a filter covers, those first that may cover others.

        If they are many, all that are `wanted`, covered or not, wildcards first: that takes a hundredth of the time.
        """
        if self._found is None or self._found[0] != filter:
            found = index.covered_by_at_most(filter, FOUND_AT_ONCE)
            if found is None:
                every = [one for filters in wanted for one in filters]
                found = [one for one in every if one.shape] + [one for one in every if not one.shape]
            self._found = (filter, found)
        return self._found[1]

    def forget(self) -> None:
        """The filter was taken back from all of them."""
        self._found = None
