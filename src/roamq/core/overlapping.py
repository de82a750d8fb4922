"""OverlapIndex: which of many topic filters match a topic that another filter matches as well.

It is a tree with one node for each beginning of a filter, so that a question follows the levels of the filter that is
asked about, and not all filters. It answers as `topic_overlaps` does for each of them; a test compares the two.
"""

from collections.abc import Iterable

from roamq.core.topics import Levels


class OverlapIndex:
    """Topic filter -> a set of members, one bit each. An object is one node, which stands for the levels that lead
    to it."""

    __slots__ = ("_below", "_ends", "_next")

    def __init__(self) -> None:
        self._next: dict[str, OverlapIndex] = {}
        """The next level, which may be `+` or `#` -> the node of the filters that go on with it."""
        self._ends = 0
        """The members of the filter that ends at this node."""
        self._below = 0
        """The members of all filters that end at this node or further on."""

    def add(self, levels: Levels, members: int) -> None:
        """Give these members to the filter with these levels, beside those that it has."""
        node = self
        for level in levels:
            node._below |= members
            found = node._next.get(level)
            if found is None:
                found = node._next[level] = OverlapIndex()
            node = found
        node._below |= members
        node._ends |= members

    def overlapping(self, levels: Levels) -> int:
        """The members of all filters that match a topic which a filter with these levels matches as well."""
        found = 0
        nodes = [self]  # those whose levels overlap the levels looked at so far
        for place, level in enumerate(levels):
            following: list[OverlapIndex] = []
            for node in nodes:
                if place and level == "#":  # matches whatever follows, and nothing
                    found |= node._below
                    continue
                for name, child in node._meeting(level):
                    if not place and _is_apart(level, name):
                        continue
                    if name == "#" or level == "#":
                        found |= child._below
                    else:
                        following.append(child)
            nodes = following
        for node in nodes:
            found |= node._ends
            if "#" in node._next:  # `a/#` matches the topic `a` as well
                found |= node._next["#"]._ends
        return found

    def _meeting(self, level: str) -> Iterable[tuple[str, "OverlapIndex"]]:
        """The next levels of this node that overlap a level of another filter, each with its node."""
        if level in ("+", "#"):
            return self._next.items()
        return [(name, self._next[name]) for name in (level, "+", "#") if name in self._next]


def _is_apart(one: str, other: str) -> bool:
    """Whether one of two first levels begins with `$` and the other is a wildcard, which does not match it
    [MQTT-4.7.2-1]."""
    wild = ("+", "#")
    return (one[:1] == "$" and other in wild) or (other[:1] == "$" and one in wild)
