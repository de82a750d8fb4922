"""LevelTrie: topic filters by their levels, in a trie whose edges may be many levels long.

A node stands where filters end or part, so that a filter adds two nodes at most, however deep it is. An edge is
compared with a topic at once, by `itemgetter`, not level by level: thousands of deep filters slow a publish by about a
microsecond each. Written here because existing tries know neither levels nor `+`.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

from roamq.core.topics import Levels

V = TypeVar("V")

_Edge = tuple["itemgetter[Any] | None", object]
"""A getter of those levels of a tuple that are compared, and what they must equal; None: any levels fit."""

_ANY: Final[_Edge] = (None, ())


class LevelNode(Generic[V]):
    """The filters that end here, and those that go on."""

    __slots__ = ("children", "depth", "end", "exact", "path", "pick", "plus", "rest")

    def __init__(self, path: Levels, depth: int) -> None:
        self.depth = depth
        """How many levels lead here from the root."""
        self.path = path
        """The last of these levels, without the one by which the parent knows this node."""
        self.pick, self.exact = _edge(path, depth - len(path))
        """The edge (`_Edge`) that compares `path` with the levels of a whole topic."""
        self.children: dict[str, LevelNode[V]] | None = None
        self.plus: LevelNode[V] | None = None
        """The child whose first level is "+"."""
        self.end: V | None = None
        """The value of the filter of exactly these levels."""
        self.rest: V | None = None
        """The value of the filter that has "#" after these levels."""

    def child(self, name: str) -> "LevelNode[V] | None":
        if name == "+":
            return self.plus
        return None if self.children is None else self.children.get(name)

    def put_child(self, name: str, node: "LevelNode[V]") -> None:
        """Add a child, or put another in its place, which keeps its turn among the children."""
        if name == "+":
            self.plus = node
        elif self.children is None:
            self.children = {name: node}
        else:
            self.children[name] = node

    def drop_child(self, name: str) -> None:
        if name == "+":
            self.plus = None
            return
        assert self.children is not None
        del self.children[name]
        if not self.children:
            self.children = None

    def widest_first(self) -> "Iterator[tuple[str, LevelNode[V]]]":
        """The children: "+" first, as filters below it may cover those below others; then names, in their order."""
        if self.plus is not None:
            yield "+", self.plus
        if self.children is not None:
            yield from self.children.items()

    def set_path(self, path: Levels) -> None:
        self.path = path
        self.pick, self.exact = _edge(path, self.depth - len(path))

    @property
    def is_empty(self) -> bool:
        """Whether no filter ends here."""
        return self.end is None and self.rest is None


class LevelTrie(Generic[V]):
    """Nodes for sequences of levels, among them "+". A last "#" is not a level but the `rest` of a node."""

    __slots__ = ("root",)

    def __init__(self) -> None:
        self.root: LevelNode[V] = LevelNode((), 0)

    def place(self, levels: Levels) -> LevelNode[V]:
        """The node of these levels, made if it is not there. The caller gives it an `end` or a `rest`."""
        node = self.root
        while node.depth < len(levels):
            start = node.depth + 1
            name = levels[start - 1]
            child = node.child(name)
            if child is None:
                child = LevelNode(levels[start:], len(levels))
                node.put_child(name, child)
            elif levels[start : child.depth] != child.path:
                child = self._split(node, name, child, levels[start:])
            node = child
        return node

    def find(self, levels: Levels) -> LevelNode[V] | None:
        node: LevelNode[V] | None = self.root
        while node is not None and node.depth < len(levels):
            start = node.depth + 1
            node = node.child(levels[start - 1])
            if node is not None and levels[start : node.depth] != node.path:
                return None
        return node

    def prune(self, levels: Levels) -> None:
        """Remove the node of these levels if it neither holds a filter nor parts two ways."""
        above: list[tuple[LevelNode[V], str]] = []
        node = self.root
        while node.depth < len(levels):
            name = levels[node.depth]
            above.append((node, name))
            child = node.child(name)
            assert child is not None
            node = child
        if not above or not node.is_empty:
            return
        if node.plus is None and node.children is None:
            parent, name = above.pop()
            parent.drop_child(name)
            node = parent
        if above and node.is_empty:
            self._merge(*above[-1], node)

    def fitting(self, levels: Levels, *, reserved: bool) -> list[LevelNode[V]]:
        """The nodes whose levels each include that of `levels` in its place; "+" before a name, deeper nodes later.

        A node is given if it has a `rest` or is as deep as `levels`. `reserved`: no wildcard includes the first level.
        """
        found = []
        depth_max = len(levels)
        open_ = [self.root]
        while open_:
            node = open_.pop()
            depth = node.depth
            if depth == depth_max:
                if depth or not reserved:
                    found.append(node)
                continue
            wild = depth or not reserved  # [MQTT-4.7.2-1]
            if wild and node.rest is not None:
                found.append(node)
            if node.children is not None:
                child = node.children.get(levels[depth])
                if (
                    child is not None
                    and child.depth <= depth_max
                    and ((pick := child.pick) is None or pick(levels) == child.exact)
                ):
                    open_.append(child)
            child = node.plus
            if (
                child is not None
                and wild
                and child.depth <= depth_max
                and ((pick := child.pick) is None or pick(levels) == child.exact)
            ):
                open_.append(child)
        return found

    def included(
        self, levels: Levels, *, rest: bool, at_most: int | None = None
    ) -> list[LevelNode[V]] | None:
        """The nodes whose levels `levels` include, place by place, in the order of `fitting`. `rest`: and deeper ones.

        None if the search would have to look at more than `at_most` nodes.
        """
        found: list[LevelNode[V]] = []
        depth_max = len(levels)
        edges: dict[tuple[int, int], _Edge] = {}
        open_ = [self.root]
        while open_:
            node = open_.pop()
            depth = node.depth
            if depth >= depth_max:
                found.append(node)
                if not rest:
                    continue
            name = levels[depth] if depth < depth_max else "+"
            if at_most is not None:
                wide = len(node.children) if name == "+" and node.children is not None else 0
                if len(found) + len(open_) + wide > at_most:
                    return None
            children = self._below(node, name)
            deeper = []
            for child in children:
                if child.depth > depth_max and not rest:
                    continue
                if depth + 1 < depth_max:
                    stop = min(child.depth, depth_max)
                    edge = edges.get((depth, stop))
                    if edge is None:
                        edge = edges[depth, stop] = _edge(levels[depth + 1 : stop], 0)
                    pick, exact = edge
                    if pick is not None and pick(child.path) != exact:
                        continue
                deeper.append(child)
            deeper.reverse()
            open_ += deeper
        return found

    def _below(self, node: LevelNode[V], name: str) -> list[LevelNode[V]]:
        """The children whose first level is included in `name`."""
        if name != "+":
            child = node.child(name)
            return [] if child is None else [child]
        if node is self.root:  # [MQTT-4.7.2-1]
            return [child for first, child in node.widest_first() if not first.startswith("$")]
        return [child for _, child in node.widest_first()]

    def _split(self, parent: LevelNode[V], name: str, child: LevelNode[V], levels: Levels) -> LevelNode[V]:
        """Make a node on the way to `child`, where `levels` leave that way."""
        path, same = child.path, 0
        for one, other in zip(path, levels, strict=False):
            if one != other:
                break
            same += 1
        middle: LevelNode[V] = LevelNode(path[:same], parent.depth + 1 + same)
        parent.put_child(name, middle)
        middle.put_child(path[same], child)
        child.set_path(path[same + 1 :])
        return middle

    def _merge(self, parent: LevelNode[V], name: str, node: LevelNode[V]) -> None:
        """If one way leads on from a node where nothing ends, the node becomes a part of that way."""
        # Counted, not listed: a node may have thousands of children, and lose them one by one.
        if len(node.children or ()) + (node.plus is not None) == 1:
            following, child = next(node.widest_first())
            child.set_path((*node.path, following, *child.path))
            parent.put_child(name, child)


def _edge(path: Levels, start: int) -> _Edge:
    """The edge that compares `path` with the levels of a tuple from `start` on."""
    if "+" not in path:
        if not path:
            return _ANY
        if len(path) == 1:
            return itemgetter(start), path[0]
        return itemgetter(slice(start, start + len(path))), path
    places = [place for place, name in enumerate(path) if name != "+"]
    if not places:
        return _ANY
    return itemgetter(*[start + place for place in places]), itemgetter(*places)(path)
