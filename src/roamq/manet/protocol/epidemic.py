"""SF, the "simple framework" that the paper compares DRIP with ([DRIP] section VI-A).

It has the same regions as DRIP, but "events are delivered among broker nodes in an epidemic way": every broker gives
every event to every broker that it contacts.
"""

from collections.abc import Iterable, Mapping

from roamq.core.events import EventId, Seconds
from roamq.manet.protocol.messages import NodeId, Role


class Epidemic:
    """Keeps a list, for each peer, of the events that it may lack; the peer's reply to an offer says which it lacks."""

    per_subscriber = None
    predictabilities = None

    def __init__(self) -> None:
        self._held: dict[EventId, None] = {}
        self._lacks: dict[NodeId, dict[EventId, None]] = {}

    def met(self, peer: NodeId, theirs: Mapping[NodeId, float], me: NodeId, now: Seconds) -> None:
        """Does nothing: every peer is as good as any other."""

    def published(self, event: EventId, destinations: Iterable[NodeId]) -> None:
        self._hold(event)

    def accepted(self, event: EventId, role: Role, destinations: Iterable[NodeId]) -> None:
        self._hold(event)

    def has_work(self, peer: NodeId) -> bool:
        return bool(self._of(peer))

    def offers(self, peer: NodeId) -> list[tuple[EventId, Role]]:
        return [(event, Role.EPIDEMIC) for event in self._of(peer)]

    def destinations(self, event: EventId) -> frozenset[NodeId]:
        return frozenset()

    def given(self, event: EventId, peer: NodeId, *, copied: bool) -> None:
        self._of(peer).pop(event, None)

    def unfinished(self, event: EventId) -> bool:
        return event in self._held

    def discard(self, event: EventId) -> None:
        self._held.pop(event, None)
        for lacks in self._lacks.values():
            lacks.pop(event, None)

    def _hold(self, event: EventId) -> None:
        self._held[event] = None
        for lacks in self._lacks.values():
            lacks[event] = None

    def _of(self, peer: NodeId) -> dict[EventId, None]:
        """The events that the peer may lack. A peer that this broker has never met may lack all of them."""
        if peer not in self._lacks:
            self._lacks[peer] = dict(self._held)
        return self._lacks[peer]
