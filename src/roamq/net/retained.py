"""Retained messages: the last event of each topic that asked to be kept (section 3.3.1.3).

Every broker sees every event of a flooded network, so each keeps the same table. Two events for one topic that
enter at different brokers are ordered by (time, origin, sequence), which all brokers see alike.
"""

from collections.abc import Iterator

from roamq.core.events import Event, Seconds
from roamq.core.filters import Filter


class RetainedMessages:
    """Topic -> event, bounded in number and bytes: what does not fit is not retained."""

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._events: dict[str, Event] = {}
        self._cleared: dict[str, tuple[float, str, int]] = {}
        self._count_max = count_max
        self._bytes_max = bytes_max
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def observe(self, event: Event) -> None:
        """An event passed: keep it, or clear its topic if it is empty ([MQTT-3.3.1-6])."""
        if not event.retain:
            return
        order = (event.published_at, *event.id)
        before = self._events.get(event.topic)
        last = (before.published_at, *before.id) if before else self._cleared.get(event.topic)
        if last is not None and last >= order:
            return
        if before is not None:
            del self._events[event.topic]
            self.bytes -= before.size_bytes
        self._cleared.pop(event.topic, None)
        if not event.payload:
            if len(self._cleared) < self._count_max:
                self._cleared[event.topic] = order
        elif len(self._events) < self._count_max and self.bytes + event.size_bytes <= self._bytes_max:
            self._events[event.topic] = event
            self.bytes += event.size_bytes

    def matching(self, filter: Filter, now: Seconds) -> Iterator[Event]:
        if not filter.has_wildcard:
            exact = self._events.get(filter.topic)
            candidates = [] if exact is None else [exact]
        else:
            candidates = list(self._events.values())
        for event in candidates:
            if event.expired(now):
                del self._events[event.topic]
                self.bytes -= event.size_bytes
            elif filter.matches(event):
                yield event
