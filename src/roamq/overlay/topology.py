"""The broker graph: neighbours, next hops and paths.

Paths are shortest paths; among equally short ones the one through the lexically first neighbour, so that every
broker computes the same. A topology is computed once and shared by all the brokers of a simulation.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId


class Topology:
    """An undirected, connected graph of brokers."""

    def __init__(self, brokers: Iterable[str], links: Iterable[tuple[str, str]]) -> None:
        self.brokers: tuple[BrokerId, ...] = tuple(BrokerId(b) for b in brokers)
        known = set(self.brokers)
        if len(known) != len(self.brokers):
            raise ConfigError("network.brokers names a broker twice; give each its own name")
        neighbours: dict[BrokerId, set[BrokerId]] = {b: set() for b in self.brokers}
        for a, b in links:
            for end in (a, b):
                if end not in known:
                    raise ConfigError(f"network.links names {end!r}, which is not in network.brokers")
            if a == b:
                raise ConfigError(f"network.links joins {a!r} with itself; remove that link")
            neighbours[BrokerId(a)].add(BrokerId(b))
            neighbours[BrokerId(b)].add(BrokerId(a))
        self.neighbours: Mapping[BrokerId, tuple[BrokerId, ...]] = {
            b: tuple(sorted(ns)) for b, ns in neighbours.items()
        }
        self._toward: dict[BrokerId, dict[BrokerId, BrokerId]] = {}
        self._children: dict[BrokerId, dict[BrokerId, tuple[BrokerId, ...]]] = {}
        if self.brokers:
            unreached = known - self.tree(self.brokers[0]).keys()
            if unreached:
                raise ConfigError(
                    f"network.links leaves {sorted(unreached)[0]!r} unconnected; add a link to it"
                )

    @property
    def links(self) -> list[tuple[BrokerId, BrokerId]]:
        return [(a, b) for a in self.brokers for b in self.neighbours[a] if a < b]

    @property
    def is_tree(self) -> bool:
        return len(self.links) == len(self.brokers) - 1

    def tree(self, root: BrokerId) -> Mapping[BrokerId, BrokerId]:
        """The shortest-path tree of `root`: each broker -> its neighbour on the way to `root` (root -> itself)."""
        toward = self._toward.get(root)
        if toward is None:
            toward = {root: root}
            queue = deque([root])
            while queue:
                here = queue.popleft()
                for neighbour in self.neighbours[here]:
                    if neighbour not in toward:
                        toward[neighbour] = here
                        queue.append(neighbour)
            self._toward[root] = toward
        return toward

    def children(self, root: BrokerId, of: BrokerId) -> tuple[BrokerId, ...]:
        """In the tree of `root`: the neighbours that `of` passes an event of that origin to."""
        by_broker = self._children.get(root)
        if by_broker is None:
            lists: dict[BrokerId, list[BrokerId]] = {b: [] for b in self.brokers}
            for broker, parent in self.tree(root).items():
                if broker != root:
                    lists[parent].append(broker)
            by_broker = self._children[root] = {b: tuple(sorted(c)) for b, c in lists.items()}
        return by_broker[of]

    def next_hop(self, here: BrokerId, to: BrokerId) -> BrokerId:
        """The neighbour of `here` on the way to `to`."""
        return self.tree(to)[here]

    def path(self, here: BrokerId, to: BrokerId) -> list[BrokerId]:
        hops = [here]
        while hops[-1] != to:
            hops.append(self.next_hop(hops[-1], to))
        return hops

    def distance(self, here: BrokerId, to: BrokerId) -> int:
        return len(self.path(here, to)) - 1


def hierarchy(height: int, degree: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Brokers and links of a full tree; `height` levels, names by level and place: `b0.0`, `b1.0`, ...

    [DIS] Table 2: height 4, degree 4 gives 85 brokers and 64 leaves.
    """
    brokers, links = ["b0.0"], []
    for level in range(1, height):
        for place in range(degree**level):
            name = f"b{level}.{place:0{len(str(degree**level - 1))}d}"
            parent_level = level - 1
            width = len(str(degree**parent_level - 1))
            parent = f"b{parent_level}.{place // degree:0{width}d}"
            brokers.append(name)
            links.append((parent, name))
    return brokers, links
