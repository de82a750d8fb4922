"""A wide filter goes: the filters that it covered are asked for before, some at a time, so that no input takes long."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from roamq.core.covering import CoverIndex
from roamq.core.events import BrokerId
from roamq.core.filters import Filter

FOUND_AT_ONCE: Final = 2_000
"""If a filter covers more than about so many, all filters that are wanted are tried, some at a time."""
TRIED_AT_ONCE: Final = 500
FIRST_GONE: Final = 1_000
"""So many filters that a neighbour wants no more go at once when it has told all; then fewer with each input."""
GONE_AT_ONCE: Final = 10


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


class Gone(NamedTuple):
    """A filter that a neighbour has not asked for again, and wants no more of these origins."""

    neighbour: BrokerId
    filter: Filter
    origins: int


class GoneFilters:
    """What neighbours want no more that have told all that they want: it goes some at a time."""

    def __init__(self) -> None:
        self.waiting: deque[Gone] = deque()

    def put(self, neighbour: BrokerId, doubted: Mapping[Filter, int], origins: int) -> None:
        self.waiting.extend(
            Gone(neighbour, filter, left & origins) for filter, left in doubted.items() if left & origins
        )

    def take(self, count: int) -> list[Gone]:
        return [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]

    def forget(self, neighbour: BrokerId) -> None:
        """The neighbour begins to tell all again."""
        if self.waiting:
            self.waiting = deque(gone for gone in self.waiting if gone.neighbour != neighbour)


def index_of(*wanted: Iterable[Filter]) -> CoverIndex:
    """An index of filters; one that is in several of the tables is in it as often."""
    index = CoverIndex()
    for filters in wanted:
        for filter in filters:
            index.add(filter)
    return index


def without_origins(filters: dict[Filter, int], origins: int) -> list[Filter]:
    """Nothing is wanted of some origins any more; gives the filters of which nothing is left."""
    gone = []
    for filter, wanted in list(filters.items()):
        filters[filter] = wanted & ~origins
        if not filters[filter]:
            del filters[filter]
            gone.append(filter)
    return gone


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
