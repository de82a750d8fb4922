"""Keeps a broker's stored events: one copy of each, however many contexts hold it, within a bound."""

from collections.abc import Iterator

from roamq.core.events import ClientId, Event, EventId


class EventBuffer:
    """One stored copy of an event serves every context that holds it; bounded by bytes.

    When the limit is reached a new event is refused (`hold` returns False) and the caller records the drop:
    what was stored first was promised first.
    """

    __slots__ = (
        "_charged",
        "_held",
        "_shares",
        "bytes",
        "entry_bytes",
        "limit_bytes",
        "peak_bytes",
        "share_bytes",
    )

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.entry_bytes: int | None = None
        """Bytes that events which enter here may fill; the rest is for events from other brokers. None: all bytes."""
        self.share_bytes: int | None = None
        """Bytes that events of one publisher may fill; set before anything is held. None: all bytes."""
        self._shares: dict[ClientId | None, int] = {}
        """Publisher -> bytes of its events, if `share_bytes` bounds them."""
        self._charged: dict[EventId, tuple[ClientId | None, int]] = {}
        """Event -> the publisher that it was charged to, and its bytes: copies that came another way may differ."""
        self.bytes = 0
        self.peak_bytes = 0
        self._held: dict[EventId, int] = {}

    def __len__(self) -> int:
        """The number of distinct events stored."""
        return len(self._held)

    def oldest_first(self) -> Iterator[EventId]:
        """The ids of the events held, in the order in which they came."""
        return iter(self._held)

    def has_room(self, size_bytes: int, publisher: ClientId | None) -> bool:
        """Whether an event of this size may enter here: it fits into the buffer, and into its publisher's share."""
        limit_bytes = self.limit_bytes if self.entry_bytes is None else self.entry_bytes
        size_all = self.bytes + size_bytes
        if limit_bytes is not None and size_all > limit_bytes:
            return False
        share_bytes = self.share_bytes
        # Where all events together are no more than one share, no publisher has more than that.
        return (
            share_bytes is None
            or size_all <= share_bytes
            or self._shares.get(publisher, 0) + size_bytes <= share_bytes
        )

    def hold(self, event: Event) -> bool:
        """Keep `event` for one more context; False when a new copy does not fit."""
        held, event_id = self._held, event.id
        references = held.get(event_id)
        if references is not None:
            held[event_id] = references + 1
            return True
        size = event.cost_bytes
        size_all = self.bytes + size
        if self.limit_bytes is not None and size_all > self.limit_bytes:
            return False
        held[event_id] = 1
        self.bytes = size_all
        if self.share_bytes is not None:
            shares, publisher = self._shares, event.publisher
            shares[publisher] = shares.get(publisher, 0) + size
            self._charged[event_id] = (publisher, size)
        if size_all > self.peak_bytes:
            self.peak_bytes = size_all
        return True

    def release(self, event: Event) -> None:
        """One context fewer needs `event`; the last one frees it."""
        held, event_id = self._held, event.id
        references = held[event_id] - 1
        if references:
            held[event_id] = references
        else:
            del held[event_id]
            self.bytes -= event.cost_bytes
            if self.share_bytes is not None:
                publisher, size = self._charged.pop(event_id)
                shares = self._shares
                left = shares[publisher] - size
                if left:
                    shares[publisher] = left
                else:
                    del shares[publisher]
