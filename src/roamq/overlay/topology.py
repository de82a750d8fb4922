"""The broker graph: neighbours, next hops and paths.

Paths are shortest paths; among equally short ones the one through the lexically first neighbour, so that every
broker computes the same. A topology is computed once and shared by all the brokers of a simulation.

The brokers that a topology is made with are its *core*. An *edge* broker is attached later, to brokers of the core and
to edge brokers that are there already, and carries nothing between others: every path leads over the core alone, or
from one edge broker straight to another. So no path between two brokers changes when a third one is attached or
departs, and paths do not depend on the order in which brokers came. A broker of the core may depart if no path between
others leads through it (`pair_through`): then the same holds. A broker that departed is remembered: events that entered
there may still be under way, and follow the paths that they followed before.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.overlay.paths import UniquePaths


class Topology:
    """An undirected, connected graph of brokers."""

    def __init__(
        self,
        brokers: Iterable[str],
        links: Iterable[tuple[str, str]],
        publishes: Mapping[str, Iterable[str]] = MappingProxyType({}),
    ) -> None:
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
        self.neighbours: dict[BrokerId, tuple[BrokerId, ...]] = {
            b: tuple(sorted(ns)) for b, ns in neighbours.items()
        }
        self.core: frozenset[BrokerId] = frozenset(self.brokers)
        """The brokers that others may send through."""
        self.attached: dict[BrokerId, tuple[BrokerId, ...]] = {}
        """Edge broker -> the brokers of the core that it is linked with; those that departed included."""
        self.departed: set[BrokerId] = set()
        """Brokers that are gone for good."""
        self.publishes: dict[BrokerId, tuple[Filter, ...]] = {}
        """Broker, also one that departed -> the topic filters that it declares: nothing else is published there. At a
        broker that declares none anything may be published."""
        for broker, topics in publishes.items():
            self.declare(BrokerId(broker), topics)
        self._toward: dict[BrokerId, dict[BrokerId, BrokerId]] = {}
        self._children: dict[BrokerId, dict[BrokerId, tuple[BrokerId, ...]]] = {}
        self._around: dict[BrokerId, tuple[BrokerId, ...]] = dict(self.neighbours)
        """Broker -> neighbours, those that departed included: their paths are still known."""
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

    @cached_property
    def unique_paths(self) -> UniquePaths:
        """One shortest path between any two brokers, the same in both directions."""
        return UniquePaths(self)

    # --- brokers come and go --------------------------------------------------------------------------------

    @property
    def all_brokers(self) -> tuple[BrokerId, ...]:
        """The brokers of the network, and those that departed."""
        return (*self.brokers, *sorted(self.departed))

    def around(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """The neighbours of a broker, those that departed included."""
        return self._around[broker]

    def declare(self, broker: BrokerId, topics: Iterable[str] | None) -> None:
        """Declare that only topics which these filters match are published at the broker; None: any topic may be."""
        if topics is None:
            self.publishes.pop(broker, None)
        else:
            self.publishes[broker] = tuple(Filter(topic) for topic in topics)

    def attach(
        self,
        edge: BrokerId,
        at: Iterable[BrokerId],
        publishes: Iterable[str] | None = None,
        beside: Iterable[BrokerId] = (),
    ) -> None:
        """Add an edge broker, linked with the brokers `at` of the core. One of its name that departed is forgotten.

        `publishes`: the topics that may be published there, as `declare` takes them. `beside`: the edge brokers, of
        this network or departed, that the new one is linked with.
        """
        at = tuple(sorted(set(at)))
        assert edge not in self.brokers, f"{edge} is in the network already"
        assert at and self.core.issuperset(at), f"{edge} is attached at {at}, and the core is {self.core}"
        if edge in self.departed:
            self._unlink(edge)
            self.departed.discard(edge)
        self.brokers = (*self.brokers, edge)
        self.attached[edge] = at
        linked = tuple(sorted({*at, *beside}))
        assert self._around.keys() >= set(linked), f"{edge} is linked with {linked}, and one is not known"
        self._around[edge] = linked
        self.declare(edge, publishes)
        for other in linked:
            self._around[other] = tuple(sorted((*self._around[other], edge)))
        self._changed()

    def depart(self, gone: BrokerId) -> None:
        """Remove a broker for good. No path between others leads through it."""
        assert gone in self.brokers, f"{gone} is no broker of the network"
        self.brokers = tuple(broker for broker in self.brokers if broker != gone)
        self.departed.add(gone)
        self._changed()

    def pair_through(
        self, broker: BrokerId, paths: "Topology | UniquePaths"
    ) -> tuple[BrokerId, BrokerId] | None:
        """Two other brokers of the network; the path from the second to the first leads through this one. None if there
        are no such two."""
        for root in self.brokers:
            toward = paths.tree(root)
            for other in self.brokers if root != broker else ():
                if other not in (root, broker) and toward[other] == broker:
                    return root, other
        return None

    def relays(self, root: BrokerId) -> frozenset[BrokerId]:
        """The brokers that paths to `root` may lead through: the core, less departed ones if `root` is still there."""
        return self.core if root in self.departed else self.core - self.departed

    def _unlink(self, edge: BrokerId) -> None:
        for other in self._around.pop(edge):
            self._around[other] = tuple(n for n in self._around[other] if n != edge)

    def _changed(self) -> None:
        present = set(self.brokers)
        self.neighbours = {b: tuple(n for n in self._around[b] if n in present) for b in self.brokers}
        self._toward.clear()
        self._children.clear()
        self.unique_paths.changed()

    # --- paths ------------------------------------------------------------------------------------------------

    def tree(self, root: BrokerId) -> Mapping[BrokerId, BrokerId]:
        """The shortest-path tree of `root`: each broker -> its neighbour on the way to `root` (root -> itself)."""
        toward = self._toward.get(root)
        if toward is None:
            toward = self._grown(root, self.relays(root))
            if len(toward) < len(self._around):
                # All neighbours of some broker are gone: its last path is kept, though nothing goes there.
                toward = self._grown(root, self.core) | toward
            self._toward[root] = toward
        return toward

    def _grown(self, root: BrokerId, relays: Collection[BrokerId]) -> dict[BrokerId, BrokerId]:
        toward = {root: root}
        queue = deque([root])
        while queue:
            here = queue.popleft()
            if here != root and here not in relays:
                continue
            for neighbour in self._around[here]:
                if neighbour not in toward:
                    toward[neighbour] = here
                    queue.append(neighbour)
        return toward

    def children(self, root: BrokerId, of: BrokerId) -> tuple[BrokerId, ...]:
        """The neighbours to which the broker `of` passes events of the origin `root`."""
        by_broker = self._children.get(root)
        if by_broker is None:
            lists: dict[BrokerId, list[BrokerId]] = {b: [] for b in self.all_brokers}
            for broker, parent in self.tree(root).items():
                if broker != root and broker not in self.departed:
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
