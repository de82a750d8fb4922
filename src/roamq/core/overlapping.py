"""Topic filters by level, to find those that share a topic with another one without trying them all.

What is found is what `topic_overlaps` says of each; a test holds the two against each other.
"""

from collections.abc import Iterable

from roamq.core.topics import Levels


class OverlapIndex:
    """Sets, one bit for each member, by topic filter. One node of it stands for the levels that led there."""

    __slots__ = ("_below", "_ends", "_next")

    def __init__(self) -> None:
        self._next: dict[str, OverlapIndex] = {}
        """The next level -> the filters that go on with it; one that ends with `#` ends here."""
        self._ends = 0
        """Of filters that end here, without `#` or with it."""
        self._below = 0
        """Of all filters that lead here."""

    def add(self, levels: Levels, members: int) -> None:
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
        nodes = [self]
        for place, level in enumerate(levels):
            following: list[OverlapIndex] = []
            for node in nodes:
                if place and level == "#":
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
            if "#" in node._next:  # which matches its parent as well
                found |= node._next["#"]._ends
        return found

    def _meeting(self, level: str) -> Iterable[tuple[str, "OverlapIndex"]]:
        """The next levels that this one may be together with, and where they lead."""
        if level in ("+", "#"):
            return self._next.items()
        return [(name, self._next[name]) for name in (level, "+", "#") if name in self._next]


def _is_apart(one: str, other: str) -> bool:
    """At the beginning a wildcard does not stand for a level of the server [MQTT-4.7.2-1]."""
    wild = ("+", "#")
    return (one[:1] == "$" and other in wild) or (other[:1] == "$" and one in wild)
