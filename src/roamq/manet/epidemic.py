"""SF: the same regions, but every broker gives every event to every broker it meets ([DRIP] section VI-A).

The paper's "simple framework" for comparison: "events are delivered among broker nodes in an epidemic way".
"""

from collections.abc import Iterable

from roamq.core.events import EventId
from roamq.manet.messages import NodeId, Role


class Epidemic:
    """Remembers per peer what it still lacks, as far as this broker knows; the contact's offers find out the rest."""

    def __init__(self) -> None:
        self._held: dict[EventId, None] = {}
        self._lacks: dict[NodeId, dict[EventId, None]] = {}

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
        """A peer met for the first time lacks everything."""
        if peer not in self._lacks:
            self._lacks[peer] = dict(self._held)
        return self._lacks[peer]
