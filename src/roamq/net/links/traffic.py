"""What a broker has put on its links since its process began, by kind of traffic (`core/records.py` lists them).

It is what the simulator counts on its links, for the same metrics: a batch of events counts as so many messages
(`Message.units`). Bytes are those of the frame, as it goes over the link.
"""

from typing import NamedTuple

from roamq.core.events import BrokerId, Event
from roamq.core.messages import Message, Routed, kind_of


class KindTraffic(NamedTuple):
    """The traffic of one kind."""

    begun: int
    """Messages that began their way here."""
    passed_on: int
    """Messages that came from another broker and go further."""
    bytes: int


class LinkTraffic:
    """Counts every frame when it is made; what a link sends again after a break is not counted again."""

    def __init__(self, me: BrokerId) -> None:
        self._me = me
        self._kinds: dict[str, list[int]] = {}

    def count(self, message: Message | Event, size: int) -> None:
        kind = kind_of(message)
        counted = self._kinds.get(kind)
        if counted is None:
            counted = self._kinds[kind] = [0, 0, 0]
        if isinstance(message, Event):  # at every broker a message of its own, as in the simulator
            counted[0] += 1
        else:
            is_passed_on = isinstance(message, Routed) and message.sender != self._me
            counted[is_passed_on] += message.units
        counted[2] += size

    def clear(self) -> None:
        """The process begins: what it did as it replayed its journal was sent by the one before."""
        self._kinds.clear()

    def by_kind(self) -> dict[str, KindTraffic]:
        return {kind: KindTraffic(*counted) for kind, counted in sorted(self._kinds.items())}
