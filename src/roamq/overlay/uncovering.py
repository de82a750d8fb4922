"""Takes a wide filter back: the filters that it covered are asked for first, some at a time, so no input takes long."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from roamq.core.covering import CoverIndex
from roamq.core.events import BrokerId
from roamq.core.filters import Filter

FOUND_AT_ONCE: Final = 2_000
"""About how many covered filters are found at once; if there are more, all wanted filters are tried, some at a time."""
TRIED_AT_ONCE: Final = 500
FIRST_GONE: Final = 1_000
"""How many filters that a neighbour wants no more are forgotten when it has told all; later inputs forget fewer."""
GONE_AT_ONCE: Final = 10


class PutOff(NamedTuple):
    """A filter that is to be taken back from a neighbour when those that it covered have been asked for."""

    neighbour: BrokerId
    filter: Filter
    origins: int
    hidden: list[Filter]
    """The filters still to be tried, the next at the end: those that `filter` covers are asked for."""

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
    """A filter that a neighbour wants no more of these origins, since it has not asked for the filter again."""

    neighbour: BrokerId
    filter: Filter
    origins: int


class GoneFilters:
    """The filters that neighbours want no more, since they have told all they want; forgotten some at a time."""

    def __init__(self) -> None:
        self.waiting: deque[Gone] = deque()

    def put(self, neighbour: BrokerId, doubted: Mapping[Filter, int], origins: int) -> None:
        self.waiting.extend(
            Gone(neighbour, filter, left & origins) for filter, left in doubted.items() if left & origins
        )

    def take(self, count: int) -> list[Gone]:
        return [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]

    def forget(self, neighbour: BrokerId) -> None:
        """The neighbour begins to tell all its wishes again: forget what waits for it."""
        if self.waiting:
            self.waiting = deque(gone for gone in self.waiting if gone.neighbour != neighbour)


def index_of(*wanted: Iterable[Filter]) -> CoverIndex:
    """An index of the filters of several tables; one that is in several of them is in the index as often."""
    index = CoverIndex()
    for filters in wanted:
        for filter in filters:
            index.add(filter)
    return index


def without_origins(filters: dict[Filter, int], origins: int) -> list[Filter]:
    """Take these origins away from all filters; drops and returns the filters that have no origin left."""
    gone = []
    for filter, wanted in list(filters.items()):
        filters[filter] = wanted & ~origins
        if not filters[filter]:
            del filters[filter]
            gone.append(filter)
    return gone


class HiddenFilters:
    """The filters that a filter to be taken back has covered, found once for all neighbours it is taken back from."""

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
        """The filter was taken back from all neighbours."""
        self._found = None
