"""The one shortest path between any two brokers, the same in both directions.

Among equally short paths one is chosen for good: each link weighs one hop and a fraction that no sum of other links'
fractions equals. Hence a part of a chosen path is a chosen path, and the way back is the way there. Routing by interest
rests on both (docs/interest.md): what a broker asks of an origin travels along the links that the origin's events take.

No path leads through an edge broker, and its links weigh less than any fraction of a link of the core. Of two equally
short paths, the links that only one of them has decide, the weightiest of them first: a link that comes or goes changes
nothing between paths that do not have it.
"""

import heapq
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final
from zlib import crc32

from roamq.core.events import BrokerId

NAMED_MAX: Final = 100_000
"""The number of moves between brokers for which the brokers that markers visit are remembered."""

if TYPE_CHECKING:
    from roamq.overlay.topology import Topology


class UniquePaths:
    """The chosen paths of a topology; computed when somebody asks, once for all brokers of a simulation."""

    def __init__(self, topology: "Topology") -> None:
        self.topology = topology
        self._weights: dict[frozenset[BrokerId], int] = {}
        self._toward: dict[BrokerId, dict[BrokerId, BrokerId]] = {}
        self._named: dict[tuple[BrokerId, BrokerId, frozenset[BrokerId] | None], tuple[BrokerId, ...]] = {}
        self._parted: dict[tuple[BrokerId, BrokerId], dict[BrokerId, frozenset[BrokerId]]] = {}
        self.changed()

    def changed(self) -> None:
        """A broker was attached or departed: weigh the links again, and forget the paths."""
        edges = self.topology.attached
        links = {frozenset((a, b)) for a in self.topology.all_brokers for b in self.topology.around(a)}
        # In the order of a checksum, so that not all paths prefer the links of the first brokers.
        ordered = sorted(
            (tuple(sorted(link)) for link in links),
            key=lambda link: (edges.keys().isdisjoint(link), crc32("-".join(link).encode()), link),
        )
        hop = 1 << len(ordered)
        self._weights = {frozenset(link): hop + (1 << place) for place, link in enumerate(ordered)}
        self._toward.clear()
        self._named.clear()
        self._parted.clear()

    def tree(self, root: BrokerId) -> Mapping[BrokerId, BrokerId]:
        """Each broker -> its neighbour on the way to `root` (root -> itself)."""
        toward = self._toward.get(root)
        if toward is None:
            toward = self._grown(root, self.topology.relays(root))
            if len(toward) < len(self.topology.all_brokers):
                # All neighbours of some broker are gone: its last path is kept, though nothing goes there.
                toward = self._grown(root, self.topology.core) | toward
            self._toward[root] = toward
        return toward

    def _grown(self, root: BrokerId, relays: Collection[BrokerId]) -> dict[BrokerId, BrokerId]:
        toward: dict[BrokerId, BrokerId] = {}
        reached = [(0, root, root)]
        while reached:
            weight, broker, parent = heapq.heappop(reached)
            if broker not in toward:
                toward[broker] = parent
                if broker != root and broker not in relays:
                    continue
                for neighbour in self.topology.around(broker):
                    if neighbour not in toward:
                        link = self._weights[frozenset((broker, neighbour))]
                        heapq.heappush(reached, (weight + link, neighbour, broker))
        return toward

    def next_hop(self, here: BrokerId, to: BrokerId) -> BrokerId:
        """The neighbour of `here` on the way to `to`."""
        return self.tree(to)[here]

    def path(self, here: BrokerId, to: BrokerId) -> list[BrokerId]:
        toward = self.tree(to)
        hops = [here]
        while hops[-1] != to:
            hops.append(toward[hops[-1]])
        return hops

    def leaves(self, root: BrokerId) -> tuple[BrokerId, ...]:
        """The brokers through which no path from `root` leads on: a message to all of them passes every broker."""
        toward = self.tree(root)
        passed = {parent for broker, parent in toward.items() if broker != root}
        return tuple(sorted(broker for broker in toward if broker not in passed and broker != root))

    def partings(
        self, new: BrokerId, old: BrokerId, origins: frozenset[BrokerId] | None = None
    ) -> tuple[BrokerId, ...]:
        """The brokers, off the path between `new` and `old`, where the paths from an origin to the two part; `origins`:
        only from these origins, if they are given.

        An origin that departed counts, since its events may be under way; a parting that departed does not, since
        nothing more comes from there. Of several partings that lie on one way from `new` to `old` one is named: a
        marker that goes there passes the others.
        """
        found = self._named.get((new, old, origins))
        if found is None:
            if len(self._named) >= NAMED_MAX:
                self._named.clear()
            found = self._named[new, old, origins] = self._name_partings(new, old, origins)
        return found

    def late(
        self, new: BrokerId, old: BrokerId, visited: Collection[BrokerId], silent: Collection[BrokerId]
    ) -> set[BrokerId]:
        """The origins whose paths to `new` and `old` part where the marker has not been: it was to visit `visited`, and
        those of them that are `silent` have sent no echo. The sender of the marker may know another network: it gets
        all events of an origin that it did not know, and a silent broker that is not known here counts as late itself.
        """
        known = set(self.topology.all_brokers)
        late = {broker for broker in silent if broker not in known}
        for parting, origins in self._partings_of_all(new, old).items():
            passing = [at for at in visited if at in known and self._passes(new, old, at, parting)]
            if passing and all(at in silent for at in passing):
                late |= origins
        return late

    def _passes(self, new: BrokerId, old: BrokerId, at: BrokerId, parting: BrokerId) -> bool:
        """Does a marker to `at`, with its echo, pass a parting?"""
        return at == parting or self._on_one_way(new, old, at, parting)

    def _partings_of_all(self, new: BrokerId, old: BrokerId) -> Mapping[BrokerId, frozenset[BrokerId]]:
        """Every parting off the path between `new` and `old` -> the origins whose paths part there."""
        found = self._parted.get((new, old))
        if found is None:
            direct = set(self.path(new, old))
            parting: dict[BrokerId, set[BrokerId]] = {}
            for origin in self.topology.all_brokers:
                to_old = set(self.path(old, origin))
                x = next(broker for broker in self.path(new, origin) if broker in to_old)
                if x not in direct:
                    parting.setdefault(x, set()).add(origin)
            found = {x: frozenset(origins) for x, origins in parting.items()}
            self._parted[new, old] = found
        return found

    def _name_partings(
        self, new: BrokerId, old: BrokerId, origins: frozenset[BrokerId] | None
    ) -> tuple[BrokerId, ...]:
        named: list[BrokerId] = []
        parting = self._partings_of_all(new, old)
        counts = {x for x, behind in parting.items() if origins is None or behind & origins}
        for broker in sorted(counts - self.topology.departed):
            if not any(self._on_one_way(new, old, broker, other) for other in named):
                named.append(broker)
        return tuple(named)

    def _on_one_way(self, new: BrokerId, old: BrokerId, one: BrokerId, other: BrokerId) -> bool:
        """Does the way from `new` to one of the two and on to `old` lead over the other, on chosen paths throughout?"""
        return any(
            first in self.path(new, second) and second in self.path(first, old)
            for first, second in ((one, other), (other, one))
        )
