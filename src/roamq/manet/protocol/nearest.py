"""The l nearest brokers of a node, the paper's set S_D, and the rule that prunes broadcasts ([DRIP] section IV-B).

A node forwards the beacon of a broker only if the broker is among its own l nearest. No node misses one of its l
nearest brokers for that: if broker B is among the l nearest of node j, it is among the l nearest of every node on
the shortest way from B to j (l brokers nearer to such a node would be nearer to j as well), so none of them
discards the beacon. tests/manet/protocol/test_nearest.py checks this against Dijkstra's distances.
"""

from dataclasses import dataclass

from roamq.core.events import Seconds
from roamq.manet.protocol.messages import Beacon, NodeId, RegionId


@dataclass(slots=True)
class KnownBroker:
    """One broker of S_D: its delay, and the neighbor `via` which its beacon came, the next hop on the way to it."""

    region: RegionId
    sequence: int
    delay_s: Seconds
    via: NodeId
    heard_at: Seconds


class NearestBrokers:
    """At most l brokers. A node that is a broker itself is in its own set, at delay zero."""

    __slots__ = ("_farthest", "_order", "brokers", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.brokers: dict[NodeId, KnownBroker] = {}
        self._order: tuple[NodeId, ...] | None = None
        self._farthest: tuple[Seconds, NodeId] | None = None

    def discards(self, beacon: Beacon, delay_s: Seconds) -> bool:
        """Would this node discard a beacon that took `delay_s` to arrive?

        A newer beacon of a broker in the set is never discarded, nearer or not: it tells where the broker is now.
        """
        known = self.brokers.get(beacon.broker)
        if known is not None:
            if beacon.region != known.region:
                return False
            newer = beacon.sequence - known.sequence
            return newer < 0 or (newer == 0 and delay_s >= known.delay_s)
        if len(self.brokers) < self.capacity:
            return False
        return delay_s >= self._farthest_known()[0]

    def hear(self, beacon: Beacon, via: NodeId, now: Seconds) -> bool:
        """Take a beacon in. True: the node forwards it. False: the node discards it."""
        delay_s = now - beacon.sent_at
        if self.discards(beacon, delay_s):
            return False
        if beacon.broker not in self.brokers and len(self.brokers) >= self.capacity:
            del self.brokers[self._farthest_known()[1]]
        self.keep(beacon.broker, KnownBroker(beacon.region, beacon.sequence, delay_s, via, now))
        return True

    def _farthest_known(self) -> tuple[Seconds, NodeId]:
        if self._farthest is None:
            self._farthest = max((known.delay_s, broker) for broker, known in self.brokers.items())
        return self._farthest

    def keep(self, broker: NodeId, known: KnownBroker) -> None:
        """Put the broker into the set; if the set is full the farthest broker leaves it."""
        self.brokers[broker] = known
        if len(self.brokers) > self.capacity:  # a node that has just become a broker itself
            self._farthest = None
            del self.brokers[self._farthest_known()[1]]
        self._order = self._farthest = None

    def forget_before(self, time: Seconds) -> None:
        """Forget the brokers last heard before `time`: they have gone, or the way to them has."""
        silent = [broker for broker, known in self.brokers.items() if known.heard_at < time]
        for broker in silent:
            self.forget(broker)

    def forget(self, broker: NodeId) -> None:
        if self.brokers.pop(broker, None) is not None:
            self._order = self._farthest = None

    def in_order(self) -> tuple[NodeId, ...]:
        """The brokers, the nearest first; the id breaks ties."""
        if self._order is None:
            brokers = self.brokers
            self._order = tuple(sorted(brokers, key=lambda broker: (brokers[broker].delay_s, broker)))
        return self._order

    def local(self) -> NodeId | None:
        """The nearest broker, which is the one that the node attaches to."""
        order = self.in_order()
        return order[0] if order else None

    def delays(self) -> dict[NodeId, Seconds]:
        return {broker: known.delay_s for broker, known in self.brokers.items()}
