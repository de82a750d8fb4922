"""Which brokers a broker can talk to now, and what it has told each of them ([DRIP] section V-B1).

Two brokers can talk directly if they are neighbors, and otherwise through a bridge: a node of one region that has a
neighbor in the other region. Bridges report to their local broker periodically; the broker forgets a bridge that has
not reported for a while.
"""

from dataclasses import dataclass

from roamq.core.events import Seconds
from roamq.manet.protocol.messages import BridgeStatus, NeighborHello, NodeId
from roamq.manet.protocol.ports import Parameters


@dataclass(frozen=True, slots=True)
class ContactRoute:
    """The way to a peer as far as this broker knows it: the hops to the bridge, then the bridge's foreign neighbor.

    `bridge` is None for a peer that is a neighbor itself.
    """

    peer: NodeId
    hops: tuple[NodeId, ...]
    delay_s: Seconds
    bridge: NodeId | None


class Contacts:
    """The routes to the other brokers, and how far this broker has told each of them its subscriptions."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._bridges: dict[NodeId, dict[NodeId, tuple[ContactRoute, Seconds]]] = {}
        self._acknowledged: dict[NodeId, int] = {}
        self._talked_at: dict[NodeId, Seconds] = {}
        self._shunned_until: dict[NodeId, Seconds] = {}
        self._oldest: Seconds = float("inf")
        """No bridge reported last before this time: while that is recent, none needs to be forgotten."""

    def bridge_reported(self, status: BridgeStatus, path: tuple[NodeId, ...], now: Seconds) -> None:
        """`path` is the way that the report took from the bridge to this broker; a contact takes it backwards."""
        route = ContactRoute(status.peer, (*path[::-1], status.foreign), status.delay_s, path[0])
        self._bridges.setdefault(status.peer, {})[path[0]] = (route, now)
        self._oldest = min(self._oldest, now)

    def reachable(
        self, neighbors: dict[NodeId, tuple[NeighborHello, Seconds]], now: Seconds
    ) -> list[ContactRoute]:
        """One route to each broker that this broker can talk to now, the nearest broker first."""
        routes = [
            ContactRoute(neighbor, (neighbor,), 0.0, None)
            for neighbor, (hello, _) in neighbors.items()
            if hello.local_broker == neighbor
        ]
        direct = {route.peer for route in routes}
        self._forget_silent(now - self._parameters.bridge_ttl_s)
        for peer, bridges in self._bridges.items():
            if peer not in direct:
                routes.append(max(bridges.values(), key=_heard_at)[0])  # the bridge that reported last
        usable = [route for route in routes if self._shunned_until.get(route.peer, 0.0) <= now]
        return sorted(usable, key=_by_nearness)

    def gossip_due(self, peer: NodeId, revision: int, now: Seconds) -> bool:
        """Whether the peer lacks subscriptions, and the last talk with it was at least `gossip_s` ago."""
        if revision <= self.acknowledged(peer):
            return False
        return now - self._talked_at.get(peer, float("-inf")) >= self._parameters.gossip_s

    def acknowledged(self, peer: NodeId) -> int:
        """The revision of this broker's subscription table up to which the peer has confirmed the changes."""
        return self._acknowledged.get(peer, 0)

    def talked(self, peer: NodeId, revision: int, now: Seconds) -> None:
        """The peer has confirmed the subscriptions up to this revision."""
        self._acknowledged[peer] = max(revision, self.acknowledged(peer))
        self._talked_at[peer] = now

    def route_failed(self, route: ContactRoute, now: Seconds) -> None:
        """Forget the bridge of this route. If the peer has no other bridge, leave the peer alone for a while."""
        bridges = self._bridges.get(route.peer, {})
        if route.bridge is not None:
            bridges.pop(route.bridge, None)
        if not bridges:
            self._bridges.pop(route.peer, None)
        if route.bridge is None or not bridges:
            self._shunned_until[route.peer] = now + self._parameters.contact_timeout_s

    def _forget_silent(self, silent: Seconds) -> None:
        """Forget the bridges that last reported before this time."""
        if self._oldest >= silent:
            return
        for peer in list(self._bridges):
            heard = {bridge: known for bridge, known in self._bridges[peer].items() if known[1] >= silent}
            if heard:
                self._bridges[peer] = heard
            else:
                del self._bridges[peer]
        self._oldest = min(
            (heard_at for bridges in self._bridges.values() for _, heard_at in bridges.values()),
            default=float("inf"),
        )


def _heard_at(known: tuple[ContactRoute, Seconds]) -> Seconds:
    return known[1]


def _by_nearness(route: ContactRoute) -> tuple[Seconds, NodeId]:
    return (route.delay_s, route.bridge if route.bridge is not None else route.peer)
