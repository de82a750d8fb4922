"""How much may be stored in the contexts of one broker, and which of them are nearly full.

Events enter at other brokers too, and these hear only after a while that a context here, or the buffer, is nearly full.
Where that matters, an eighth of each bound is a reserve for events that those brokers send meanwhile.
"""

from collections.abc import Iterable

from roamq.core.buffers import EventBuffer
from roamq.core.context import UNLIMITED_BYTES, Context
from roamq.core.events import ClientId, Event

RESERVE = 8
"""One part in so many of a bound is the reserve, for events that are on their way."""
NEARLY_FULL_BYTES = 4 * 1024 * 1024
"""A context with less room than this, or than an eighth of its bound, is nearly full; no event costs more."""


class Room:
    """The bounds of one broker's contexts and of its buffer."""

    def __init__(self, buffer: EventBuffer, buffer_bytes: int | None, queue_bytes: int | None) -> None:
        self._buffer = buffer
        self.nearly_full: dict[Context, None] = {}
        """Contexts in which hardly anything can be stored; `forget_emptied` takes out those that have room again."""
        self.crowded: list[tuple[Context | None, Event]] = []
        """Contexts that use their reserve, None for the buffer, each with an event that came since the host looked."""
        self.set_bounds(buffer_bytes, queue_bytes)

    def set_bounds(
        self,
        buffer_bytes: int | None,
        queue_bytes: int | None,
        held: Iterable[Context] = (),
        *,
        keeps_reserve: bool = False,
    ) -> None:
        """Bound what is stored in all, and for one client: in contexts to come, and in those that are `held`.

        `keeps_reserve`: keep room for events that enter at other brokers before these hear that a context here, or the
        buffer, is nearly full (`crowded`).
        """
        self._buffer.limit_bytes = buffer_bytes
        self.queue_bytes = UNLIMITED_BYTES if queue_bytes is None else queue_bytes
        self.nearly_full_bytes = self.queue_bytes - max(self.queue_bytes // 8, NEARLY_FULL_BYTES)
        self.reserve_bytes, self._buffer.entry_bytes = UNLIMITED_BYTES, None
        if keeps_reserve:
            self.reserve_bytes = self.queue_bytes - self.queue_bytes // RESERVE
            if buffer_bytes is not None:
                self._buffer.entry_bytes = buffer_bytes - buffer_bytes // RESERVE
        for context in held:
            context.limit_bytes = self.queue_bytes
            if context.bytes > self.nearly_full_bytes:
                self.nearly_full[context] = None

    def has_room_again(self, context: Context | None) -> bool:
        """Whether a context that used its reserve, None for the buffer, has got a good part of its room back since."""
        if context is None:
            entry_bytes = self._buffer.entry_bytes
            return entry_bytes is None or self._buffer.bytes <= entry_bytes - entry_bytes // RESERVE
        return context.bytes <= self.reserve_bytes - self.reserve_bytes // RESERVE

    def full_for(self, event: Event, matching: Iterable[Context]) -> ClientId | None:
        """The client of a context that wants the event and has no room for it; None if there is none."""
        for context in matching:
            limit_bytes = min(context.limit_bytes, self.reserve_bytes)
            if context in self.nearly_full and context.bytes + event.cost_bytes > limit_bytes:
                return context.client
        return None

    def forget_emptied(self) -> None:
        """Take contexts that have room again out of `nearly_full`."""
        for context in [one for one in self.nearly_full if one.bytes <= self.nearly_full_bytes]:
            del self.nearly_full[context]
