"""Which of many filters may cover a filter, and which it may cover: by their topics, whatever else they ask for.

A trie of topic levels, in which a wildcard is a level like others. A broker that knows many filters of which none has
to do with another finds that out in a few steps, instead of comparing all of them.
"""

from collections.abc import Iterable, Iterator

from roamq.core.filters import Filter


class _Level:
    """The filters that share the levels up to here."""

    __slots__ = ("below", "ends")

    def __init__(self) -> None:
        self.below: dict[str, _Level] = {}
        self.ends: dict[Filter, None] = {}


class FilterTrie:
    """A set of filters. Who asks checks what it is given: topics may cover each other, and predicates may not."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self._root = _Level()
        self._count = 0
        for filter in filters:
            self.add(filter)

    def __len__(self) -> int:
        return self._count

    def add(self, filter: Filter) -> None:
        here = self._root
        for level in filter.levels:
            below = here.below.get(level)
            if below is None:
                below = here.below[level] = _Level()
            here = below
        if filter not in here.ends:
            here.ends[filter] = None
            self._count += 1

    def discard(self, filter: Filter) -> None:
        way = [self._root]
        for level in filter.levels:
            below = way[-1].below.get(level)
            if below is None:
                return
            way.append(below)
        if filter not in way[-1].ends:
            return
        del way[-1].ends[filter]
        self._count -= 1
        for above, level in zip(reversed(way[:-1]), reversed(filter.levels), strict=True):
            if above.below[level].below or above.below[level].ends:
                return
            del above.below[level]

    def may_cover(self, filter: Filter) -> Iterator[Filter]:
        """All filters that cover this one, and perhaps others; itself, if it is in the set."""
        if not filter.satisfiable:
            yield from _all_below(self._root)  # whatever there is covers what nothing matches
            return
        reached = [self._root]
        for level in filter.levels:
            deeper: list[_Level] = []
            for here in reached:
                if (rest := here.below.get("#")) is not None:
                    yield from rest.ends
                if level != "#":
                    deeper += [here.below[name] for name in dict.fromkeys((level, "+")) if name in here.below]
            reached = deeper
        for here in reached:
            yield from here.ends
            if (rest := here.below.get("#")) is not None:
                yield from rest.ends  # "a/#" covers "a"

    def may_be_covered(self, filter: Filter) -> Iterator[Filter]:
        """All filters that this one covers, but for those that nothing matches, and perhaps others."""
        reached = [self._root]
        for level in filter.levels:
            if level == "#":
                for here in reached:
                    yield from _all_below(here)
                return
            deeper: list[_Level] = []
            for here in reached:
                if level == "+":
                    deeper += [below for name, below in here.below.items() if name != "#"]
                elif level in here.below:
                    deeper.append(here.below[level])
            reached = deeper
        for here in reached:
            yield from here.ends


def _all_below(level: _Level) -> Iterator[Filter]:
    waiting = [level]
    while waiting:
        here = waiting.pop()
        yield from here.ends
        waiting.extend(here.below.values())
