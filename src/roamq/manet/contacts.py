"""Which brokers a broker can talk to now, and what it has told them ([DRIP] section V-B1).

Two brokers talk through a bridge, or directly if they are neighbors; a pair without either cannot talk. Bridges
report themselves periodically, and a bridge not heard of for a while is one no more.
"""

from dataclasses import dataclass

from roamq.core.events import Seconds
from roamq.manet.messages import BridgeStatus, Hello, NodeId
from roamq.manet.ports import Parameters


@dataclass(frozen=True, slots=True)
class Route:
    """The hops to a peer as far as this broker can say: to the bridge, and over it to its foreign neighbor."""

    peer: NodeId
    hops: tuple[NodeId, ...]
    delay_s: Seconds
    bridge: NodeId | None


class Contacts:
    """Routes to peers and the state of the exchange with each."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._bridges: dict[NodeId, dict[NodeId, tuple[Route, Seconds]]] = {}
        self._acknowledged: dict[NodeId, int] = {}
        self._talked_at: dict[NodeId, Seconds] = {}
        self._shunned_until: dict[NodeId, Seconds] = {}
        self._oldest: Seconds = float("inf")
        """No bridge was last heard of before this: there is nothing to forget until it is too long ago."""

    def bridge_reported(self, status: BridgeStatus, path: tuple[NodeId, ...], now: Seconds) -> None:
        """`path` is the way the report took from the bridge; contacts take it backwards."""
        route = Route(status.peer, (*path[::-1], status.foreign), status.delay_s, path[0])
        self._bridges.setdefault(status.peer, {})[path[0]] = (route, now)
        self._oldest = min(self._oldest, now)

    def reachable(self, neighbors: dict[NodeId, tuple[Hello, Seconds]], now: Seconds) -> list[Route]:
        """One route for each broker that can be talked to, the nearest broker first."""
        routes = [
            Route(neighbor, (neighbor,), 0.0, None)
            for neighbor, (hello, _) in neighbors.items()
            if hello.local_broker == neighbor
        ]
        direct = {route.peer for route in routes}
        self._forget_silent(now - self._parameters.bridge_ttl_s)
        for peer, bridges in self._bridges.items():
            if peer not in direct:
                routes.append(max(bridges.values(), key=_heard_at)[0])  # the freshest holds best
        usable = [route for route in routes if self._shunned_until.get(route.peer, 0.0) <= now]
        return sorted(usable, key=_by_nearness)

    def gossip_due(self, peer: NodeId, revision: int, now: Seconds) -> bool:
        """Is there news of subscriptions for the peer, and has it been left alone for long enough?"""
        if revision <= self.acknowledged(peer):
            return False
        return now - self._talked_at.get(peer, float("-inf")) >= self._parameters.gossip_s

    def acknowledged(self, peer: NodeId) -> int:
        return self._acknowledged.get(peer, 0)

    def talked(self, peer: NodeId, revision: int, now: Seconds) -> None:
        self._acknowledged[peer] = max(revision, self.acknowledged(peer))
        self._talked_at[peer] = now

    def route_failed(self, route: Route, now: Seconds) -> None:
        """That bridge is not one any more. Another one may do at once; without one the peer has to wait."""
        bridges = self._bridges.get(route.peer, {})
        if route.bridge is not None:
            bridges.pop(route.bridge, None)
        if not bridges:
            self._bridges.pop(route.peer, None)
        if route.bridge is None or not bridges:
            self._shunned_until[route.peer] = now + self._parameters.contact_timeout_s

    def _forget_silent(self, silent: Seconds) -> None:
        """Bridges not heard of since then, and peers that have none left."""
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


def _heard_at(known: tuple[Route, Seconds]) -> Seconds:
    return known[1]


def _by_nearness(route: Route) -> tuple[Seconds, NodeId]:
    return (route.delay_s, route.bridge if route.bridge is not None else route.peer)
