"""CoverIndex: which of many filters cover a given one, and which it covers.

A trie of topic levels finds the few filters whose topics fit; those are asked for their predicates (`Filter.admits`).
So the cost of a question depends on its answer, not on how many filters there are. Written here because `covers` is
exact for a language of our own.
"""

from operator import attrgetter
from typing import Final

from roamq.core.filters import Filter
from roamq.core.level_trie import LevelTrie
from roamq.core.topics import Levels

_BY_DEPTH: Final = attrgetter("depth")


class CoverIndex:
    """A counted set of filters. A filter that nothing matches is covered by itself alone, as far as this set knows."""

    __slots__ = ("_trie",)

    def __init__(self) -> None:
        self._trie: LevelTrie[dict[Filter, int]] = LevelTrie()

    def add(self, filter: Filter) -> None:
        levels, has_rest = _without_rest(filter.levels)
        node = self._trie.place(levels)
        counts = node.rest if has_rest else node.end
        if counts is None:
            counts = {}
            if has_rest:
                node.rest = counts
            else:
                node.end = counts
        counts[filter] = counts.get(filter, 0) + 1

    def remove(self, filter: Filter) -> None:
        """Take a filter away that was added. `KeyError` if it is not there."""
        levels, has_rest = _without_rest(filter.levels)
        node = self._trie.find(levels)
        counts = None if node is None else node.rest if has_rest else node.end
        if node is None or counts is None:
            raise KeyError(filter)
        counts[filter] -= 1
        if counts[filter]:
            return
        del counts[filter]
        if counts:
            return
        if has_rest:
            node.rest = None
        else:
            node.end = None
        self._trie.prune(levels)

    def covering(self, filter: Filter) -> list[Filter]:
        """The filters that cover this one, itself included if it is there; topics that cover others come first."""
        levels, has_rest = _without_rest(filter.levels)
        depth = len(levels)
        found: list[Filter] = []
        nodes = self._trie.fitting(levels, reserved=filter.levels[0].startswith("$"))
        for node in sorted(nodes, key=_BY_DEPTH):
            if node.depth == depth and node.end is not None and not has_rest:
                found += node.end
            if node.rest is not None:  # which matches its parent level too
                found += node.rest
        return [other for other in found if _covers(other, filter)]

    def covered_by_at_most(self, filter: Filter, nodes: int | None) -> list[Filter] | None:
        """The filters that this one covers, itself included if it is there; topics that cover others come first.

        None if the search would have to look at more than `nodes` of the trie.
        """
        levels, has_rest = _without_rest(filter.levels)
        included = self._trie.included(levels, rest=has_rest, at_most=nodes)
        if included is None:
            return None
        found: list[Filter] = []
        for node in sorted(included, key=_BY_DEPTH):
            if has_rest and node.rest is not None:
                found += node.rest
            if node.end is not None:
                found += node.end
        if filter.satisfiable and not filter.predicates:
            return [other for other in found if other.satisfiable]
        return [other for other in found if _covers(filter, other)]


def _without_rest(levels: Levels) -> tuple[Levels, bool]:
    """The levels before "#", and whether there is one."""
    return (levels[:-1], True) if levels[-1] == "#" else (levels, False)


def _covers(general: Filter, special: Filter) -> bool:
    """Does one filter cover another whose topics it includes?"""
    if not special.satisfiable:
        return general == special
    return general.satisfiable and general.admits(special)
