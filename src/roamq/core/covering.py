"""CoverIndex: which of many filters cover a given one, and which it covers.

A trie of topic levels finds the few filters whose topics fit; those are asked themselves (`Filter.covers`). So the cost
of a question depends on its answer and on the depth of topics, not on how many filters there are. Written here because
`covers` is exact for a language of our own.
"""

from collections.abc import Iterator

from roamq.core.filters import Filter
from roamq.core.topics import Levels


class _Level:
    """One level of the trie; "+" and "#" are levels like others."""

    __slots__ = ("below", "filters")

    def __init__(self) -> None:
        self.below: dict[str, _Level] = {}
        self.filters: dict[Filter, int] = {}
        """Filters with these levels, counted."""

    def widest_first(self) -> "Iterator[_Level]":
        """The levels below this one, without "#". "+" comes first: filters below it may cover those below others."""
        if "+" in self.below:
            yield self.below["+"]
        for name, level in self.below.items():
            if name not in ("+", "#"):
                yield level


class CoverIndex:
    """A counted set of filters. A filter that nothing matches is covered by itself alone, as far as this set knows."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = _Level()

    def add(self, filter: Filter) -> None:
        level = self._root
        for name in filter.levels:
            below = level.below.get(name)
            if below is None:
                below = level.below[name] = _Level()
            level = below
        level.filters[filter] = level.filters.get(filter, 0) + 1

    def remove(self, filter: Filter) -> None:
        """Take a filter away that was added. `KeyError` if it is not there."""
        path = [self._root]
        for name in filter.levels:
            path.append(path[-1].below[name])
        filters = path[-1].filters
        filters[filter] -= 1
        if filters[filter]:
            return
        del filters[filter]
        for place in range(len(path) - 1, 0, -1):
            if path[place].filters or path[place].below:
                return
            del path[place - 1].below[filter.levels[place - 1]]

    def covering(self, filter: Filter) -> list[Filter]:
        """The filters that cover this one, itself included if it is there."""
        return [
            other for level in self._above(filter.levels) for other in level.filters if _covers(other, filter)
        ]

    def covered_by(self, filter: Filter) -> list[Filter]:
        """The filters that this one covers, itself included if it is there; topics that cover others come first."""
        levels = filter.levels
        found: list[Filter] = []
        if levels[-1] != "#":
            for level in self._along(levels):
                found += level.filters
        else:
            layer = self._along(levels[:-1])
            while layer:
                for level in layer:
                    if "#" in level.below:
                        found += level.below["#"].filters
                    found += level.filters
                layer = [below for level in layer for below in self._next(level)]
        if filter.satisfiable and not filter.predicates:
            return [other for other in found if other.satisfiable]
        return [other for other in found if _covers(filter, other)]

    def _next(self, level: _Level) -> Iterator[_Level]:
        """The levels that "+" or "#" include below this one."""
        if level is not self._root:
            return level.widest_first()
        # [MQTT-4.7.2-1]
        reserved = {id(below) for name, below in level.below.items() if name.startswith("$")}
        return (below for below in level.widest_first() if id(below) not in reserved)

    def _above(self, levels: Levels) -> Iterator[_Level]:
        """The places of filters whose topics include these."""
        fitting = [self._root]
        is_reserved = levels[0].startswith("$")  # [MQTT-4.7.2-1]
        for name in levels:
            deeper = []
            for level in fitting:
                below = level.below
                if not is_reserved:
                    if "#" in below:
                        yield below["#"]
                    if name != "#" and name != "+" and "+" in below:
                        deeper.append(below["+"])
                if name != "#" and name in below:
                    deeper.append(below[name])
            fitting = deeper
            is_reserved = False
        for level in fitting:
            yield level
            if "#" in level.below:  # which matches its parent level too
                yield level.below["#"]

    def _along(self, levels: Levels) -> list[_Level]:
        """The places whose levels these include, one by one."""
        fitting = [self._root]
        for name in levels:
            if name == "+":
                fitting = [below for level in fitting for below in self._next(level)]
            else:
                fitting = [level.below[name] for level in fitting if name in level.below]
        return fitting


def _covers(general: Filter, special: Filter) -> bool:
    if not special.satisfiable:
        return general == special
    return general.covers(special)
