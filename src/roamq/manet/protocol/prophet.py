"""PRoPHET between DRIP's brokers: an event goes to brokers that are likelier to meet its destinations.

Source: RFC 6693. As in SF, all that differs from DRIP is how events spread between brokers. A destination is the broker
of an interested subscriber, as the source knows it. A broker gives an event to a peer that is a destination, or whose
delivery predictability for a destination is greater than its own, and keeps its copy (the RFC's strategy GRTR).
Predictabilities are exchanged at contacts; what a peer is better at is decided then, and holds until the next exchange.
"""

from collections.abc import Iterable, Mapping

from roamq.core.events import EventId, Seconds
from roamq.manet.protocol.messages import NodeId, Role
from roamq.manet.protocol.predictability import Predictabilities, ProphetConstants


class Prophet:
    """Keeps for each event the destinations that lack it, and for each peer the destinations that it is better for."""

    def __init__(self, constants: ProphetConstants) -> None:
        self.predictabilities = Predictabilities(constants)
        self.per_subscriber = 1
        self._to_find: dict[EventId, set[NodeId]] = {}
        self._given: dict[EventId, set[NodeId]] = {}
        self._better: dict[NodeId, frozenset[NodeId]] = {}

    def met(self, peer: NodeId, theirs: Mapping[NodeId, float], me: NodeId, now: Seconds) -> None:
        """The broker `me` has met `peer`, which told its predictabilities."""
        own = self.predictabilities
        own.met(peer, theirs, me, now)
        self._better[peer] = frozenset(
            broker for broker, value in theirs.items() if broker != me and value > own.of(broker)
        )

    def published(self, event: EventId, destinations: Iterable[NodeId]) -> None:
        self._hold(event, destinations)

    def accepted(self, event: EventId, role: Role, destinations: Iterable[NodeId]) -> None:
        if role is Role.CARRIER:
            self._hold(event, destinations)

    def has_work(self, peer: NodeId) -> bool:
        return any(self._role(event, peer) is not None for event in self._to_find)

    def offers(self, peer: NodeId) -> list[tuple[EventId, Role]]:
        roles = ((event, self._role(event, peer)) for event in self._to_find)
        return [(event, role) for event, role in roles if role is not None]

    def destinations(self, event: EventId) -> frozenset[NodeId]:
        return frozenset(self._to_find.get(event, ()))

    def given(self, event: EventId, peer: NodeId, *, copied: bool) -> None:
        if event not in self._to_find:
            return
        self._given[event].add(peer)
        self._to_find[event].discard(peer)
        if not self._to_find[event]:
            self.discard(event)

    def unfinished(self, event: EventId) -> bool:
        return event in self._to_find

    def discard(self, event: EventId) -> None:
        self._to_find.pop(event, None)
        self._given.pop(event, None)

    def _hold(self, event: EventId, destinations: Iterable[NodeId]) -> None:
        to_find = set(destinations)
        if to_find:
            self._to_find[event] = to_find
            self._given[event] = set()

    def _role(self, event: EventId, peer: NodeId) -> Role | None:
        """Returns the peer's role for the event: a carrier, if it is better for a destination that lacks the event."""
        if peer in self._given[event]:
            return None
        to_find = self._to_find[event]
        if not to_find.isdisjoint(self._better.get(peer, ())):
            return Role.CARRIER
        return Role.DESTINATION if peer in to_find else None
