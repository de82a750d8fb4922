"""The events that a broker holds, and which of them it deletes when there is not enough space ([DRIP] section V-A2).

A full broker deletes the event that the fewest subscribers wanted when it arrived, and of several such events the
oldest (docs/drip.md, choice 0095).
"""

import heapq

from roamq.core.events import Event, EventId, Seconds
from roamq.manet.protocol.messages import NodeId


class HeldEvents:
    """At most `capacity` events, each with the known subscribers that want it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._events: dict[EventId, tuple[Event, set[NodeId]]] = {}
        self._wanted: dict[NodeId, dict[EventId, None]] = {}
        self._deletion: list[tuple[int, Seconds, EventId]] = []
        self._met: dict[EventId, None] = {}

    def add(self, event: Event, subscribers: set[NodeId]) -> list[EventId]:
        """Store the event. Returns the events deleted to make room, among which may be this one."""
        self._remember(event.id)
        self._events[event.id] = (event, subscribers)
        for subscriber in subscribers:
            self._wanted.setdefault(subscriber, {})[event.id] = None
        heapq.heappush(self._deletion, (len(subscribers), event.published_at, event.id))
        deleted = []
        while len(self._events) > self.capacity:
            _, _, victim = heapq.heappop(self._deletion)
            if self._remove(victim):
                deleted.append(victim)
        return deleted

    def met(self, event: EventId) -> bool:
        """Has this broker ever held the event? A broker does not take an event again that it has deleted."""
        return event in self._met

    def get(self, event: EventId) -> Event | None:
        stored = self._events.get(event)
        return stored[0] if stored else None

    def add_subscriber(self, subscriber: NodeId, events: list[Event]) -> None:
        """Note that the subscriber wants these of the stored events, and no others."""
        for event in self._wanted.pop(subscriber, {}):
            self._events[event][1].discard(subscriber)
        for wanted in events:
            self._events[wanted.id][1].add(subscriber)
            self._wanted.setdefault(subscriber, {})[wanted.id] = None

    def wanted_by(self, subscriber: NodeId) -> list[Event]:
        """The stored events that this subscriber wants, in the order of their arrival."""
        return [self._events[event][0] for event in self._wanted.get(subscriber, ())]

    def events(self) -> list[Event]:
        return [event for event, _ in self._events.values()]

    def __len__(self) -> int:
        return len(self._events)

    def _remember(self, event: EventId) -> None:
        self._met[event] = None
        if len(self._met) > 20 * self.capacity:
            del self._met[next(iter(self._met))]

    def _remove(self, event: EventId) -> bool:
        stored = self._events.pop(event, None)
        if stored is None:
            return False
        for subscriber in stored[1]:
            self._wanted[subscriber].pop(event, None)
        return True
