"""How many messages and bytes a broker has sent over its links since its process began, by kind of traffic.

`core/records.py` lists the kinds. The simulator counts in the same way, so the same metrics hold for both: a message
counts as often as it has events (`Message.units`). Bytes are those of the frame, as it goes over the link.
"""

from typing import NamedTuple

from roamq.core.events import BrokerId, Event
from roamq.core.messages import Message, Routed, kind_of


class KindTraffic(NamedTuple):
    """The traffic of one kind."""

    begun: int
    """Messages that this broker was the first to send."""
    passed_on: int
    """Messages that this broker had from a neighbour and sent on to another one."""
    bytes: int
    """Bytes of both."""


class LinkTraffic:
    """Counts each frame once, when it is made, and not again when a link sends it once more after a break."""

    def __init__(self, me: BrokerId) -> None:
        self._me = me
        self._kinds: dict[str, list[int]] = {}
        """Kind -> the three counters of `KindTraffic`."""

    def count(self, message: Message | Event, size: int) -> None:
        """Count a frame of `size` bytes that was made of this message."""
        kind = kind_of(message)
        counted = self._kinds.get(kind)
        if counted is None:
            counted = self._kinds[kind] = [0, 0, 0]
        if isinstance(
            message, Event
        ):  # each broker on the way of an event begins a message, as in the simulator
            counted[0] += 1
        else:
            is_passed_on = isinstance(message, Routed) and message.sender != self._me
            counted[is_passed_on] += message.units
        counted[2] += size

    def clear(self) -> None:
        """Begin at 0: the journal was just replayed, and an earlier process sent all these frames."""
        self._kinds.clear()

    def by_kind(self) -> dict[str, KindTraffic]:
        return {kind: KindTraffic(*counted) for kind, counted in sorted(self._kinds.items())}
