"""The neighbor graph: which brokers clients come from and go to, learned by watching them move.

Paper: [PRO] section 4.2, Algorithm 2. Each broker keeps its own edges of the undirected graph, learned when a
client names the broker it comes from (first method) and when another broker asks for a context (second method).
Least recently used edges leave first: by age, by number, and sooner if they were crossed too rarely to be more
than an outlier.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Mailbox
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Seconds
from roamq.core.ports import TimerKey
from roamq.schemes.messages.neighbors import NeighborList
from roamq.schemes.parts.part import Departure, Part

NEIGHBORS_TIMER: TimerKey = ("neighbors",)

Row = tuple[str, str, float, float]
"""A row of the pipeline's neighbor graph: from, to, moves, last seen."""


@dataclass(slots=True)
class Edge:
    """What a broker knows of the way between itself and a neighbor, in either direction."""

    last_seen: Seconds
    crossings: float


class NeighborGraph:
    """One broker's edges, and the edges that its neighbors say they have."""

    def __init__(
        self,
        me: BrokerId,
        *,
        lifetime_s: Seconds | None = None,
        limit: int | None = None,
        outlier_crossings: int = 0,
        outlier_s: Seconds | None = None,
    ) -> None:
        self.me = me
        self.lifetime_s = lifetime_s
        self.limit = limit
        self.outlier_crossings = outlier_crossings
        self.outlier_s = outlier_s
        self.edges: dict[BrokerId, Edge] = {}
        """The neighborhood table, least recently used first."""
        self.lists: dict[BrokerId, frozenset[BrokerId]] = {}
        """Broker -> its neighbors, as it said itself (case 4 decides by these lists)."""

    @property
    def neighbors(self) -> tuple[BrokerId, ...]:
        return tuple(sorted(self.edges))

    def neighbors_of(self, other: BrokerId) -> frozenset[BrokerId]:
        """The neighbors of `other`, as it said last; none if it never did."""
        return self.lists.get(other, frozenset())

    def learned(self, other: BrokerId, now: Seconds) -> bool:
        """Algorithm 2: a client moved between here and `other`. Returns whether the set of neighbors changed."""
        if other == self.me:
            return False
        before = set(self.edges)
        edge = self.edges.pop(other, None) or Edge(now, 0)
        edge.last_seen = now
        edge.crossings += 1
        self.edges[other] = edge  # at the end: most recently used
        self._forget_old(now)
        return before != set(self.edges)

    def expire(self, now: Seconds) -> bool:
        """Remove edges that no client crossed for too long. Returns whether there were any."""
        before = len(self.edges)
        self._forget_old(now)
        return before != len(self.edges)

    def _forget_old(self, now: Seconds) -> None:
        for other in [
            b for b, edge in self.edges.items() if (end := self._ends(edge)) is not None and end <= now
        ]:
            del self.edges[other]
        while self.limit is not None and len(self.edges) > self.limit:
            del self.edges[next(iter(self.edges))]

    def _ends(self, edge: Edge) -> Seconds | None:
        """The time at which an edge leaves that is not crossed again; an outlier leaves sooner. None: never."""
        lifetimes = [self.lifetime_s]
        if edge.crossings < self.outlier_crossings:
            lifetimes.append(self.outlier_s)
        known = [lifetime for lifetime in lifetimes if lifetime is not None]
        return edge.last_seen + min(known) if known else None

    def next_expiry(self) -> Seconds | None:
        """The time at which `expire` should be called next; None if no edge ever grows old."""
        return min(
            (end for edge in self.edges.values() if (end := self._ends(edge)) is not None), default=None
        )

    def warm_start(self, rows: Iterable[Row], now: Seconds) -> None:
        """Begin with the edges of a table, as if this broker had learned them now, in the order they were last seen.

        The table's times are those of a trace, and this broker's clock is another: only the order of the times is used.
        """
        mine: dict[BrokerId, tuple[float, float]] = {}
        for source, target, weight, last_seen in rows:
            if self.me in (source, target) and source != target:
                other = BrokerId(target if source == self.me else source)
                crossings, latest = mine.get(other, (0.0, last_seen))
                mine[other] = (crossings + weight, max(latest, last_seen))
        for other, (crossings, _) in sorted(mine.items(), key=lambda item: (item[1][1], item[0])):
            self.edges[other] = Edge(now, crossings)
        self._forget_old(now)
        whole = all_lists(rows)
        self.lists = {other: whole[other] for other in self.edges if other in whole}


class Neighborhood(Part):
    """Keeps a broker's neighbor graph: learns edges, lets them expire, and exchanges lists with the neighbors."""

    def __init__(self, contexts: Contexts, mailbox: Mailbox, graph: NeighborGraph) -> None:
        self.host = contexts.host
        self.mailbox = mailbox
        self.graph = graph
        self.timer: TimerKey = (NEIGHBORS_TIMER[0] + mailbox.suffix,)
        mailbox.handle(NeighborList, self.on_neighbor_list)

    @property
    def neighbors(self) -> tuple[BrokerId, ...]:
        return self.graph.neighbors

    def neighbors_of(self, other: BrokerId) -> frozenset[BrokerId]:
        return self.graph.neighbors_of(other)

    def expected_at(self, client: ClientId) -> tuple[BrokerId, ...]:
        return self.neighbors

    def learn(self, other: BrokerId) -> None:
        """A client moved between here and `other`."""
        before = self.graph.neighbors
        if self.graph.learned(other, self.host.now()):
            self._announce(before)
        self._watch_ages()

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        before = self.graph.neighbors
        self.graph.lists.pop(broker, None)
        if self.graph.edges.pop(broker, None) is not None:
            self._announce(tuple(other for other in before if other != broker))

    def on_timer(self, key: TimerKey) -> bool:
        if key != self.timer:
            return False
        self.grow_old()
        return True

    def grow_old(self) -> None:
        """Let go of edges that are too old, or too many."""
        before = self.graph.neighbors
        if self.graph.expire(self.host.now()):
            self._announce(before)
        self._watch_ages()

    def _announce(self, before: tuple[BrokerId, ...]) -> None:
        """ "Neighbor brokers typically exchange neighbor information whenever an edge is added [...] or deleted"."""
        message = NeighborList(neighbors=self.graph.neighbors)
        for neighbor in sorted({*before, *self.graph.neighbors}):
            self.mailbox.send(neighbor, message)

    def on_neighbor_list(self, sender: BrokerId, message: NeighborList) -> None:
        self.graph.lists[sender] = frozenset(message.neighbors)

    def _watch_ages(self) -> None:
        expiry = self.graph.next_expiry()
        if expiry is not None:
            self.host.set_timer(self.timer, max(0.0, expiry - self.host.now()))


def all_lists(rows: Iterable[Row]) -> Mapping[BrokerId, frozenset[BrokerId]]:
    """Every broker's neighbors in an undirected table."""
    lists: dict[BrokerId, set[BrokerId]] = {}
    for source, target, _, _ in rows:
        if source != target:
            lists.setdefault(BrokerId(source), set()).add(BrokerId(target))
            lists.setdefault(BrokerId(target), set()).add(BrokerId(source))
    return {broker: frozenset(others) for broker, others in lists.items()}


def rows_of(values: Any) -> tuple[Row, ...]:
    """Check the option `warm_start`: rows of (from, to, weight, last seen)."""
    rows = []
    for number, value in enumerate(values):
        try:
            source, target, weight, last_seen = value
            rows.append((str(source), str(target), float(weight), float(last_seen)))
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"scheme.warm_start[{number}]: {value!r} is not a row of (from, to, weight, last_seen)"
            ) from error
    return tuple(rows)
