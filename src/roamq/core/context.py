"""A client's context: its subscriptions, the events stored for it, and how far it has read.

Invariant (docs/decisions/0002): for each origin, `position` <= every stored event's sequence - 1, stored events
are in order of admission, and `reach` is the last sequence admitted. "Above `reach`" is the whole test for "not
yet seen here", so no list of ids is ever kept or shipped.

Events are held through an `EventBuffer`, which keeps one copy however many contexts hold it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from roamq.core.events import BrokerId, ClientId, Event, EventId, Seconds
from roamq.core.filters import Filter

UNLIMITED = 1 << 30

Position = dict[BrokerId, int]
"""Per origin, the last sequence consumed. Absent means none."""


class Epoch(NamedTuple):
    """Which connection of a client this is: the newest wins everywhere.

    Compared first by time of connection, then by broker, so that two brokers never tie. A broker that learns of
    a later epoch than its clock would give takes one just above it (a hybrid logical clock).
    """

    connected_at: Seconds
    broker: BrokerId


class Ticket(NamedTuple):
    """What a client shows when it connects, besides the broker it was at: where it is at home, and its last context.

    A client knows where it connected first, and is told the epoch of its context when a connection is accepted. A
    world whose clients carry nothing shows none; schemes then ask the old broker instead.
    """

    home: BrokerId
    epoch: Epoch | None = None
    position: Mapping[BrokerId, int] | None = None
    """How far the client has read, per origin, if its connections lose nothing and it kept count."""
    digest: str | None = None
    """The name of what it has subscribed to (`digest_of`)."""


def digest_of(filters: Iterable[Filter]) -> str:
    """A name for a set of subscriptions: equal sets have equal names everywhere."""
    text = "\n".join(sorted(map(str, filters)))
    return blake2b(text.encode(), digest_size=8).hexdigest()


class Mode(Enum):
    """What a broker does with a context it holds ([PRO] section 4, [PRE] section 3)."""

    PASSIVE = "passive"
    """A copy of the subscriptions; it takes no part in matching."""
    ACTIVE = "active"
    """Matching events are stored; the client is not connected here."""
    SERVING = "serving"
    """Matching events go to the client, which is connected here."""


class Held(NamedTuple):
    """A stored event, and how it came: `live` to a connected client, `stored` for an absent one, `transferred`."""

    event: Event
    how: str


_held = tuple.__new__
"""Makes a `Held` without a call of its own."""


class EventBuffer:
    """One stored copy of an event serves every context that holds it; bounded by bytes.

    When the limit is reached a new event is refused (`hold` returns False) and the caller records the drop:
    what was stored first was promised first.
    """

    __slots__ = ("_held", "bytes", "limit_bytes", "peak_bytes")

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self.peak_bytes = 0
        self._held: dict[EventId, int] = {}

    def __len__(self) -> int:
        """Distinct events stored."""
        return len(self._held)

    def oldest_first(self) -> Iterator[EventId]:
        """What is held, in the order it came."""
        return iter(self._held)

    def hold(self, event: Event) -> bool:
        """Keep `event` for one more context; False when a new copy does not fit."""
        held = self._held
        references = held.get(event.id)
        if references is not None:
            held[event.id] = references + 1
            return True
        size = event.size_bytes
        if self.limit_bytes is not None and self.bytes + size > self.limit_bytes:
            return False
        held[event.id] = 1
        self.bytes += size
        if self.bytes > self.peak_bytes:
            self.peak_bytes = self.bytes
        return True

    def release(self, event: Event) -> None:
        """One context fewer needs `event`; the last one frees it."""
        references = self._held[event.id] - 1
        if references:
            self._held[event.id] = references
        else:
            del self._held[event.id]
            self.bytes -= event.size_bytes


class ClientQueue(EventBuffer):
    """One client's part of a broker's buffer, with a bound of its own ([PRO] Table 1: queue size)."""

    __slots__ = ("shared",)

    def __init__(self, shared: EventBuffer, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.shared = shared

    def hold(self, event: Event) -> bool:
        assert self.limit_bytes is not None
        if self.bytes + event.size_bytes > self.limit_bytes or not self.shared.hold(event):
            return False
        self.bytes += event.size_bytes
        return True

    def release(self, event: Event) -> None:
        self.shared.release(event)
        self.bytes -= event.size_bytes


class Context:
    """What one broker knows and keeps for one client. Compared by identity."""

    __slots__ = (
        "_acknowledged",
        "ahead",
        "buffer",
        "client",
        "epoch",
        "filters",
        "goes_ahead",
        "in_flight",
        "local_queue",
        "mode",
        "position",
        "reach",
        "session",
        "stored",
        "window",
    )

    def __init__(
        self,
        client: ClientId,
        *,
        epoch: Epoch,
        mode: Mode,
        buffer: EventBuffer,
        position: Position | None = None,
    ) -> None:
        self.client = client
        self.epoch = epoch
        self.mode = mode
        self.buffer = buffer
        self.filters: dict[Filter, None] = {}  # an ordered set: replays subscribe in the same order
        self.position: Position = dict(position or {})
        self.reach: Position = dict(self.position)
        self.stored: deque[Held] = deque()
        self.in_flight = 0
        """How many of the first stored events have been handed to the client and not acknowledged."""
        self.window = UNLIMITED
        """How many events may be in flight at once (MQTT's Receive Maximum)."""
        self.local_queue: deque[Event] | None = None
        """While older events are still on their way from another broker: what has come here since."""
        self.goes_ahead = False
        """Whether the client gets what is in the local queue without waiting for what is older."""
        self.ahead: deque[Event] = deque()
        """What was taken from the local queue and handed to the client, and is not acknowledged.

        What is acknowledged of it may come again with the older events: the session remembers it.
        """
        self._acknowledged: set[EventId] = set()
        self.session: object | None = None
        """What the world's protocol keeps with the context (MQTT session state); the core never looks inside."""

    def __repr__(self) -> str:
        return f"Context({self.client} {self.mode.value} {self.epoch} stored={len(self.stored)})"

    def is_new(self, event: Event) -> bool:
        return event.id[1] > self.reach.get(event.id[0], 0)

    def admit(self, event: Event, how: str = "live") -> bool:
        """Store `event`, which `is_new`, behind the others; False if there is no room for it."""
        if not self.buffer.hold(event):
            return False
        self.reach[event.id[0]] = event.id[1]
        self.stored.append(_held(Held, (event, how)))
        return True

    def open_local_queue(self) -> None:
        """Older events are on their way from another broker: what comes here meanwhile waits for them."""
        self.local_queue = deque()
        self.goes_ahead = False

    def next_ahead(self) -> Event | None:
        """The next event of the local queue for a client that does not wait for older ones."""
        if not self.goes_ahead or not self.local_queue or len(self.ahead) >= self.window:
            return None
        event = self.local_queue.popleft()
        self.ahead.append(event)
        return event

    def admit_later(self, event: Event) -> bool:
        """Put `event` into the local queue: older ones are on their way. False if there is no room for it."""
        assert self.local_queue is not None
        if not self.buffer.hold(event):
            return False
        self.local_queue.append(event)
        return True

    def close_local_queue(self) -> None:
        """All older events are here: what waited in the local queue follows them, less what they brought."""
        waiting, self.local_queue = self.local_queue, None
        self.goes_ahead = False
        if self.ahead:
            self._leave_out_what_is_ahead()
        brought: set[EventId] | None = None
        for event in waiting or ():
            origin, sequence = event.id
            if self.is_new(event):
                self.reach[origin] = sequence
                self.stored.append(Held(event, "stored"))
                continue
            if brought is None:
                brought = {held.event.id for held in self.stored}
            if event.id in brought or sequence <= self.position.get(origin, 0):
                self.buffer.release(event)
            else:
                self._insert_in_order(Held(event, "stored"))

    def _leave_out_what_is_ahead(self) -> None:
        """What the client is being sent already does not come from the other broker as well."""
        sent = {event.id for event in self.ahead}
        self._keep(held for held in self.stored if held.event.id not in sent)
        for origin, sequence in sent:
            self.reach[origin] = max(sequence, self.reach.get(origin, 0))

    def _insert_in_order(self, held: Held) -> None:
        """A filter that the other broker did not know brought an event here that belongs among those it sent."""
        origin, sequence = held.event.id
        later = (
            place
            for place, other in enumerate(self.stored)
            if other.event.id[0] == origin and other.event.id[1] > sequence
        )
        # What is in flight stays in front: it has been sent.
        self.stored.insert(max(self.in_flight, next(later, len(self.stored))), held)

    def next_to_send(self) -> Held | None:
        """The first stored event that is not in flight; it is counted as in flight from now on."""
        if self.in_flight >= len(self.stored) or self.in_flight >= self.window:
            return None
        self.in_flight += 1
        return self.stored[self.in_flight - 1]

    def acknowledge(self, event_id: EventId) -> bool:
        """The client has consumed `event_id`. The position advances in the order of delivery only.

        An acknowledgement that overtakes an earlier one waits for it, so that a position never claims an event
        that the client may not have; returns whether the id was in flight.
        """
        if self.ahead:
            return self._acknowledge_ahead(event_id)
        if not self.in_flight:
            return False
        stored = self.stored
        if stored[0][0].id != event_id:
            ahead = any(stored[i][0].id == event_id for i in range(1, self.in_flight))
            if ahead:
                self._acknowledged.add(event_id)
            return ahead
        self._consume_first()
        if self._acknowledged:
            while self.in_flight and stored[0][0].id in self._acknowledged:
                self._acknowledged.remove(stored[0][0].id)
                self._consume_first()
        return True

    def _acknowledge_ahead(self, event_id: EventId) -> bool:
        for event in self.ahead:
            if event.id == event_id:
                self.ahead.remove(event)
                self.buffer.release(event)
                return True
        return False

    def _consume_first(self) -> None:
        event = self.stored.popleft()[0]
        self.in_flight -= 1
        origin, sequence = event.id
        position = self.position
        if origin not in position or sequence > position[origin]:
            position[origin] = sequence
        self.buffer.release(event)

    def return_in_flight(self) -> None:
        """The connection is gone: what was not acknowledged waits to be sent again.

        What was acknowledged out of order leaves now: the client has it.
        """
        if self._acknowledged:
            kept: deque[Held] = deque()
            for held in self.stored:
                if held.event.id in self._acknowledged:
                    self.buffer.release(held.event)
                else:
                    kept.append(held)
            self.stored = kept
            self._acknowledged.clear()
        self.in_flight = 0
        if self.local_queue is not None:
            self.local_queue.extendleft(reversed(self.ahead))
        else:
            for event in self.ahead:
                self._insert_in_order(Held(event, "stored"))
        self.ahead.clear()

    def acknowledged_ahead(self) -> tuple[EventId, ...]:
        """What the client has consumed before earlier events, in order of delivery."""
        return tuple(h.event.id for h in self.stored if h.event.id in self._acknowledged)

    def consume_through(self, position: Position, ahead: Iterable[EventId] = ()) -> None:
        """The client consumed, elsewhere, what was handed over from here: up to `position`, and `ahead` of it."""
        gone = set(ahead)
        while self.in_flight and self.stored[0][0].id[1] <= position.get(self.stored[0][0].id[0], 0):
            self._consume_first()
        if gone:
            self._acknowledged |= gone

    def skip_to(self, position: Position) -> None:
        """Another broker says how far the client has read: forget stored events it has consumed."""
        for origin, sequence in position.items():
            if sequence > self.position.get(origin, 0):
                self.position[origin] = sequence
            if sequence > self.reach.get(origin, 0):
                self.reach[origin] = sequence
        if any(held.event.id[1] <= self.position.get(held.event.id[0], 0) for held in self.stored):
            assert not self.in_flight, "a served context does not learn its position from others"
            self._keep(
                held for held in self.stored if held.event.id[1] > self.position.get(held.event.id[0], 0)
            )

    def keep_unread(self, reach: Mapping[BrokerId, int], held: Iterable[EventId]) -> None:
        """The client has consumed, elsewhere, all events up to `reach` but those `held`: forget the others."""
        unread = set(held)

        def is_wanted(event: Event) -> bool:
            return event.id in unread or event.id[1] > reach.get(event.id[0], 0)

        assert not self.in_flight, "a served context does not learn from others what was read"
        self._keep(entry for entry in self.stored if is_wanted(entry.event))
        for event in self.local_queue or ():
            if not is_wanted(event):
                self.buffer.release(event)
        if self.local_queue is not None:
            self.local_queue = deque(event for event in self.local_queue if is_wanted(event))
        for origin, sequence in reach.items():
            self.reach[origin] = max(sequence, self.reach.get(origin, 0))

    def drop_expired(self, now: Seconds) -> list[Event]:
        """Forget stored events whose lifetime is over (not those in flight); returns them."""
        expired = [h.event for i, h in enumerate(self.stored) if i >= self.in_flight and h.event.expired(now)]
        if expired:
            gone = {event.id for event in expired}
            self._keep(held for held in self.stored if held.event.id not in gone)
        return expired

    def give_up_first(self, event_id: EventId) -> Event | None:
        """If `event_id` is the first stored event and not in flight, forget it to make room; returns it."""
        if self.in_flight or not self.stored or self.stored[0].event.id != event_id:
            return None
        event = self.stored.popleft().event
        self.buffer.release(event)
        return event

    def take_all(self) -> list[Event]:
        """Empty the store and return what was in it, in order: the context leaves this broker."""
        events = [held.event for held in self.stored]
        events.extend(self.ahead)
        self.ahead.clear()
        if self.local_queue:
            events.extend(self.local_queue)
            self.local_queue.clear()
        for event in events:
            self.buffer.release(event)
        self.stored.clear()
        self.in_flight = 0
        self._acknowledged.clear()
        return events

    def _keep(self, kept: Iterable[Held]) -> None:
        survivors = deque(kept)
        ids = {held.event.id for held in survivors}
        for held in self.stored:
            if held.event.id not in ids:
                self.buffer.release(held.event)
        self.stored = survivors

    def events(self) -> Iterator[Event]:
        return (held.event for held in self.stored)
