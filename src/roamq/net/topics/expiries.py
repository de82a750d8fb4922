"""The expiry times of retained messages: a wheel of seconds, which holds each topic once.

Written here because a heap keeps the times of messages that were replaced, and a client may replace messages for ever.
"""

from collections.abc import Iterable
from math import ceil

from roamq.core.events import Event, Seconds


class Expiries:
    """Second -> the topics whose events expire in it."""

    __slots__ = ("_at", "_topics")

    def __init__(self, events: Iterable[Event]) -> None:
        self._topics: dict[int, dict[str, None]] = {}
        self._at: int | None = None
        """The last second for which all topics were removed."""
        for event in events:
            self.add(event)

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def add(self, event: Event) -> None:
        if event.expires_at is not None:
            second = ceil(event.expires_at)
            self._topics.setdefault(second, {})[event.topic] = None
            if self._at is not None and second <= self._at:
                self._at = second - 1

    def remove(self, event: Event) -> None:
        if event.expires_at is not None:
            second = ceil(event.expires_at)
            topics = self._topics[second]
            del topics[event.topic]
            if not topics:
                del self._topics[second]

    def due(self, now: Seconds, count_max: int) -> list[str]:
        """Topics whose time has come, no more than `count_max`; the caller must remove their events now."""
        if self._at is None or int(now) - self._at > len(self._topics):
            # More seconds have gone by than there are seconds in use.
            self._at = min(self._topics, default=int(now) + 1) - 1
        while self._at < int(now):
            topics = self._topics.get(self._at + 1)
            if topics is not None:
                return [topic for topic, _ in zip(topics, range(count_max), strict=False)]
            self._at += 1
        return []
