"""A client's context: its subscriptions, the events stored for it, and how far it has read.

Invariant (docs/decisions/0002, 0155): for each origin the client has read what it wanted up to `position`, and in the
ranges of `ahead`, which lie above it; every stored event is above `position` and in none of these ranges. Stored events
are in order of admission, and `reach` is the last sequence admitted. An event is new exactly if it is above `reach` and
in no range of `ahead`. A broker that sends a position to another one sends what is `ahead` of it as well.

Events are held through an `EventBuffer`, which keeps one copy however many contexts hold it.

`Context` stores events, hands them out and counts which are read. Other files do the rest: events that wait for older
ones (`local_queue.py`, `late.py`), news of what the client has read elsewhere (`read_elsewhere.py`), events that leave
unread (`forgetting.py`).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import chain, islice
from typing import Final, NamedTuple, Protocol

from roamq.core.buffers import EventBuffer
from roamq.core.events import BrokerId, ClientId, Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.core.reading import (
    NOTHING_AHEAD,
    AheadRows,
    Position,
    ReadAhead,
    above,
    advance,
    is_ahead,
    joined,
    rows_of,
    settle,
)
from roamq.core.tuples import new_tuple

UNLIMITED = 1 << 30
UNLIMITED_BYTES = 1 << 62
FORWARDED: Final = "forwarded"
"""The `how` of events that come to a broker which the client visits while its context is elsewhere."""


class Epoch(NamedTuple):
    """Which connection of a client this is: the newest wins everywhere.

    Compared first by time of connection, then by broker, so that two brokers never tie. A broker that learns of
    a later epoch than its clock would give takes one just above it (a hybrid logical clock).
    """

    connected_at: Seconds
    broker: BrokerId


class Ticket(NamedTuple):
    """What a client shows when it connects, besides its last broker: its home broker, and the epoch of its context.

    A client knows where it connected first, and a broker that accepts a connection tells it the epoch of its context.
    Clients that carry nothing show no ticket; schemes then ask the old broker instead.
    """

    home: BrokerId
    epoch: Epoch | None = None
    position: Mapping[BrokerId, int] | None = None
    """The client's position, if its connections lose nothing and it kept count."""
    digest: str | None = None
    """The digest of the client's subscriptions (`filters.digest_of`)."""


class Outlet(Protocol):
    """Where a context's events go while another broker is connected to its client."""

    def deliver(self, to: ClientId, event: Event, how: str) -> None: ...


class Mode(Enum):
    """What a broker does with a context it holds ([PRO] section 4, [PRE] section 3)."""

    PASSIVE = "passive"
    """A copy of the subscriptions; it takes no part in matching."""
    ACTIVE = "active"
    """Matching events are stored; the client is not connected here."""
    SERVING = "serving"
    """Matching events go to the client, which is connected here."""


PASSIVE: Final = Mode.PASSIVE
SERVING: Final = Mode.SERVING
"""Modes that are compared for every event: Python 3.11 takes ten times as long to look into an enumeration."""


class Held(NamedTuple):
    """A stored event, and how it came: `live` to a connected client, `stored` for an absent one, `transferred`."""

    event: Event
    how: str


_NONE: Final[frozenset[EventId]] = frozenset()
_NOTHING_STORED: Final[deque[Held]] = deque()
"""The queue of all contexts that have never stored anything: an empty queue takes 760 bytes. Nobody adds to it."""


class Context:
    """What one broker knows and keeps for one client. Compared by identity."""

    __slots__ = (
        "_acknowledged",
        "_sent",
        "ahead",
        "buffer",
        "bytes",
        "client",
        "delivers_early",
        "delivers_head",
        "epoch",
        "filters",
        "in_flight",
        "late",
        "limit_bytes",
        "local_queue",
        "mode",
        "only",
        "outlet",
        "position",
        "reach",
        "sent_early",
        "session",
        "stored",
        "under",
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
        limit_bytes: int = UNLIMITED_BYTES,
    ) -> None:
        self.client = client
        self.epoch = epoch
        self.mode = mode
        self.buffer = buffer
        self.bytes = 0
        """Size of the events stored for this client, however many contexts share a copy ([PRO] Table 1: queue size)."""
        self.limit_bytes = limit_bytes
        """The bound of `bytes`."""
        self.filters: dict[Filter, None] = {}  # an ordered set: replays subscribe in the same order
        self.position: Position = dict(position) if position else {}
        self.ahead: ReadAhead = NOTHING_AHEAD
        """What the client has read above the position, on earlier connections."""
        self.reach: Position = self.position.copy()
        self.stored: deque[Held] = _NOTHING_STORED
        self.under = ""
        """The label of the scheme that the context is under, if its broker has several; empty for the first of them."""
        self.in_flight = 0
        """How many of the first stored events have been handed to the client and not acknowledged."""
        self.outlet: Outlet | None = None
        """Where events go while the context is SERVING; None: to the client, which is connected here."""
        self.window = UNLIMITED
        """How many events may be in flight at once (MQTT's Receive Maximum)."""
        self.local_queue: deque[Event] | None = None
        """The events that came here while older ones are still on their way from another broker; None if none are."""
        self.late: dict[BrokerId, deque[Event]] | None = None
        """Origin of which older events come later than the rest -> its events that came since (`core/late.py`)."""
        self.only: frozenset[BrokerId] | None = None
        """The only origins whose events are stored, since the context has gone but for late events; None: all."""
        self.delivers_early = False
        """Whether the client gets the events of the local queue without waiting for older ones."""
        self.delivers_head = False
        """Whether the client gets stored events while the local queue is open: these are the beginning of the older
        events, in order, and the rest of them is on its way."""
        self.sent_early: list[Event] = []
        """Events taken from the local queue and handed to the client, which has not acknowledged them.

        Those that it acknowledges may come again with the older events: the session remembers them.
        """
        self._acknowledged: set[EventId] | frozenset[EventId] = _NONE
        """Ids of events that the client consumed before earlier ones; `_NONE` if there are none, as in most cases."""
        self._sent: set[EventId] | frozenset[EventId] = _NONE
        """The ids of the first events in flight, made when acknowledgements come out of order; `_NONE` before."""
        self.session: object | None = None
        """What the clients' protocol keeps with the context (MQTT session state); the core never looks inside."""

    def __repr__(self) -> str:
        return f"Context({self.client} {self.mode.value} {self.epoch} stored={len(self.stored)})"

    def is_new(self, event: Event) -> bool:
        origin, sequence = event.id
        return sequence > self.reach.get(origin, 0) and not (self.ahead and is_ahead(self.ahead, event.id))

    def has_read(self, event_id: EventId) -> bool:
        """Whether the client has consumed this event, as far as position and `ahead` say."""
        origin, sequence = event_id
        return sequence <= self.position.get(origin, 0) or (
            bool(self.ahead) and is_ahead(self.ahead, event_id)
        )

    @property
    def ahead_rows(self) -> AheadRows:
        """`ahead`, as a message to another broker has it."""
        return rows_of(self.ahead)

    def _read_ahead(self, read: list[EventId]) -> None:
        """Add events to `ahead` which the client has read before stored ones, and advance the position if it can."""
        rows = (*self.ahead_rows, *((origin, sequence, sequence) for origin, sequence in read))
        if self.local_queue is not None:  # unread events before these may be on their way here
            self.ahead = joined(rows)
            return
        late = self.late or ()
        self.ahead = settle(
            self.position,
            tuple(row for row in rows if row[0] not in late),
            (held.event.id for held in self.stored),
        )
        if late:
            self.ahead = {**self.ahead, **joined(row for row in rows if row[0] in late)} or NOTHING_AHEAD

    def make_room(self, event: Event) -> bool:
        """Have the buffer hold `event` and charge it to this context; False if there is no room for it."""
        size = self.bytes + event.cost_bytes
        if size > self.limit_bytes or not self.buffer.hold(event):
            return False
        self.bytes = size
        return True

    def admit(self, event: Event, how: str = "live") -> bool:
        """Store `event`, which `is_new`, behind the others; False if there is no room for it."""
        size = (
            self.bytes + event.cost_bytes
        )  # `make_room`, without a call: one for every event that is stored
        if size > self.limit_bytes or not self.buffer.hold(event):
            return False
        self.bytes = size
        origin, sequence = event.id
        self.reach[origin] = sequence
        stored = self.stored
        if stored is _NOTHING_STORED:
            stored = self.stored = deque()
        stored.append(new_tuple(Held, (event, how)))
        return True

    def queue(self) -> deque[Held]:
        """`stored`, as a queue of this context's own, to which events may be added."""
        if self.stored is _NOTHING_STORED:
            self.stored = deque()
        return self.stored

    def insert_in_order(self, held: Held) -> None:
        """Store an event that is held already before the later ones of its origin."""
        origin, sequence = held.event.id
        later = (
            place
            for place, other in enumerate(self.stored)
            if other.event.id[0] == origin and other.event.id[1] > sequence
        )
        # Events in flight stay in front: they have been sent.
        self.queue().insert(max(self.in_flight, next(later, len(self.stored))), held)

    def waiting(self) -> Iterator[Event]:
        """The events that have come here and wait for older ones."""
        return chain(self.local_queue or (), *(self.late or {}).values())

    def acknowledge(self, event_id: EventId) -> bool:
        """The client has consumed `event_id`. The position advances in the order of delivery only.

        An acknowledgement that overtakes an earlier one waits for it, so that a position never claims an event
        that the client may not have; returns whether the id was in flight.
        """
        if self.sent_early:
            return self._acknowledge_early(event_id)
        if not self.in_flight:
            return False
        stored = self.stored
        event = stored[0][0]
        if event.id != event_id:
            ahead = self._is_in_flight(event_id)
            if ahead:
                self._acknowledged_ahead().add(event_id)
            return ahead
        # `consume_first`, without a call: one for every event that is acknowledged.
        del stored[0]
        self.in_flight -= 1
        if self._sent:
            self._sent -= {event_id}
        origin, sequence = event_id
        position = self.position
        if origin not in position or sequence > position[origin]:
            position[origin] = sequence
            if self.ahead:
                self.ahead = above(self.ahead, position)
        self.bytes -= event.cost_bytes
        self.buffer.release(event)
        if self._acknowledged:
            ahead_of_first = self._acknowledged_ahead()
            while self.in_flight and stored[0][0].id in ahead_of_first:
                ahead_of_first.remove(stored[0][0].id)
                self.consume_first()
            if not ahead_of_first:
                self._acknowledged = _NONE
        return True

    def _is_in_flight(self, event_id: EventId) -> bool:
        """Whether an event is in flight. The ids are kept: a client may acknowledge the last of a thousand first."""
        if len(self._sent) != self.in_flight:
            sent = set(self._sent) if not isinstance(self._sent, set) else self._sent
            sent.update(held[0].id for held in islice(self.stored, len(sent), self.in_flight))
            if len(sent) != self.in_flight:  # an event is in flight twice
                sent = {held[0].id for held in islice(self.stored, self.in_flight)}
            self._sent = sent
        return event_id in self._sent

    def _acknowledged_ahead(self) -> set[EventId]:
        """`_acknowledged`, as a set of this context's own, which may be changed."""
        if not isinstance(self._acknowledged, set):
            self._acknowledged = set(self._acknowledged)
        return self._acknowledged

    def _acknowledge_early(self, event_id: EventId) -> bool:
        for event in self.sent_early:
            if event.id == event_id:
                self.sent_early.remove(event)
                self.release(event)
                return True
        return False

    def consume_first(self) -> None:
        """The client has consumed the first stored event, which is in flight."""
        event = self.stored.popleft()[0]
        self.in_flight -= 1
        if self._sent:
            self._sent -= {event.id}
        advance(self.position, event.id)
        if self.ahead:
            self.ahead = above(self.ahead, self.position)
        self.bytes -= event.cost_bytes
        self.buffer.release(event)

    def return_in_flight(self) -> None:
        """The connection is gone: events that the client has not acknowledged wait to be sent again.

        Events that it acknowledged out of order leave now: the client has them, and at a broker to which they come late
        they must not count as new.
        """
        if self._acknowledged:
            kept: deque[Held] = deque()
            read: list[EventId] = []
            for held in self.stored:
                if held.event.id not in self._acknowledged:
                    kept.append(held)
                    continue
                read.append(held.event.id)
                self.release(held.event)
            self.stored = kept
            self._acknowledged = _NONE
            self._read_ahead(read)
        elif self.ahead:
            self._read_ahead([])
        self.in_flight = 0
        self._sent = _NONE
        if self.local_queue is not None:
            self.local_queue.extendleft(reversed(self.sent_early))
        else:
            for event in self.sent_early:
                self.insert_in_order(Held(event, "stored"))
        self.sent_early.clear()

    def acknowledge_ahead(self, event_ids: Iterable[EventId]) -> None:
        """The client has consumed these events before earlier ones."""
        self._acknowledged_ahead().update(event_ids)

    def acknowledged_ahead(self) -> tuple[EventId, ...]:
        """The ids of events that the client has consumed before earlier ones, in order of delivery."""
        return tuple(h.event.id for h in self.stored if h.event.id in self._acknowledged)

    def skip_all(self) -> None:
        """Move the position as if the client had read all events that are stored, wait or came before."""
        reach = self.reach
        kept = (held.event for held in self.stored)
        for event in chain(kept, self.sent_early, self.waiting()):
            advance(reach, event.id)
        for read in reach.items():
            advance(self.position, read)

    def split_off(self) -> "Context":
        """Move the stored events into another context and return it: its events are there to be released alone."""
        rest = Context(self.client, epoch=self.epoch, mode=Mode.PASSIVE, buffer=self.buffer)
        rest.stored, self.stored = self.stored, _NOTHING_STORED
        stays = sum(event.cost_bytes for event in chain(self.sent_early, self.waiting()))
        rest.bytes, self.bytes = self.bytes - stays, stays
        self.in_flight, self._sent, self._acknowledged = 0, _NONE, _NONE
        return rest

    def release_some(self, count: int) -> int:
        """Forget the first `count` stored events; returns how many there were."""
        released = min(count, len(self.stored))
        for _ in range(released):
            self.release(self.stored.popleft()[0])
        return released

    def take_all(self) -> list[Event]:
        """Empty the store and return what was in it, in order: the context leaves this broker."""
        events = [held.event for held in self.stored]
        events.extend(self.sent_early)
        events.extend(self.waiting())
        self.sent_early.clear()
        for queue in (self.local_queue, *(self.late or {}).values()):
            if queue:
                queue.clear()
        for event in events:
            self.release(event)
        self.stored.clear()
        self.in_flight = 0
        self._acknowledged = self._sent = _NONE
        return events

    def release(self, event: Event) -> None:
        """This context holds the event no longer."""
        self.bytes -= event.cost_bytes
        self.buffer.release(event)

    def keep(self, kept: Iterable[Held]) -> None:
        """Keep only these of the stored events, in this order, and release the others."""
        survivors = deque(kept)
        self._sent = _NONE
        ids = {held.event.id for held in survivors}
        for held in self.stored:
            if held.event.id not in ids:
                self.release(held.event)
        self.stored = survivors

    def events(self) -> Iterator[Event]:
        return (held.event for held in self.stored)
