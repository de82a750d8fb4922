"""The contexts of one broker: the table, the buffer, and the one way events enter and leave contexts.

`Contexts` opens, serves, pauses and closes contexts; it matches, stores and delivers. It decides nothing about
mobility: a scheme tells it what to do with a context, and the parts of a scheme share it. It is composed of
`WatchedFilters` (which contexts an event is for), `Room` (how much they may store) and `Discards` (what contexts leave
behind when they close).
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from functools import partial

from roamq.broker.discards import Discards
from roamq.broker.room import Room
from roamq.broker.watched import Meaning, WatchedFilters
from roamq.core.buffers import EventBuffer
from roamq.core.context import PASSIVE, SERVING, UNLIMITED, UNLIMITED_BYTES, Context, Epoch, Mode, Outlet
from roamq.core.events import BrokerId, ClientId, Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.core.forgetting import drop_expired
from roamq.core.late import admit_late
from roamq.core.local_queue import admit_later, next_early
from roamq.core.ports import Host
from roamq.core.records import Record
from roamq.core.tuples import new_tuple
from roamq.overlay.base import Router


class Contexts:
    """What one broker keeps for its clients. At most one context per client is on the table, its current one."""

    def __init__(
        self,
        me: BrokerId,
        host: Host,
        router: Router,
        *,
        buffer_bytes: int | None = None,
        queue_bytes: int | None = None,
        timeout_s: Seconds | None = None,
        meaning: Meaning | None = None,
        settles_at_once: bool = True,
        late_after_s: Seconds | None = None,
    ) -> None:
        self.me = me
        self.host = host
        self.router = router
        self.timeout_s = timeout_s
        self.late_after_s = late_after_s
        """Seconds that a context on its way elsewhere waits for events that may come late; None: until they come."""
        self.is_doubted = False
        """Whether contexts may have been here, and gone, in a life that this broker does not remember."""
        self.buffer = EventBuffer()
        self.room = Room(self.buffer, buffer_bytes, queue_bytes)
        self.buffered_by_last_event = 0
        """How many contexts the last event was stored in: part of what it cost this broker."""
        self.settles_at_once = settles_at_once and host.settles_at_once
        """Whether the host may deliver an event that needs no acknowledgement instead of having it stored."""
        self.works_in_slices = False
        """Whether clients and brokers wait while this one works, so that it forgets and sends long queues in parts."""
        self.sends_heads = False
        """Whether a hand-over sends the head, what is stored, as soon as it is asked for the context, and lets the
        client have that while the rest is on its way (docs/decisions/0145)."""
        self.tells_last_read = False
        """Whether the broker that served a client tells its virtual consumers what the client had read when its
        connection ended: such clients do not show that themselves (docs/decisions/0260)."""
        self.discards = Discards(self)
        self.watched = WatchedFilters(router, self.discards.closed, meaning)
        self.under = ""
        """The label of the scheme that is at work, if the broker has several: new contexts are under it."""
        self.timeouts: dict[str, Seconds | None] = {}
        """If there are several schemes: label -> seconds after which it gives up a context whose client stays away."""
        self.comes: tuple[ClientId, Epoch] | None = None
        """The client that came last, and its connection before that one, as far as this broker knows."""
        self.came: Epoch | None = None
        """While a client is let in that had to wait: the epoch of its connection, which began before the wait."""
        self._heard: Epoch | None = None
        """The latest epoch heard from other brokers: new ones made here are later, even if another's clock is ahead."""
        self._table: dict[ClientId, Context] = {}

    # --- the table ----------------------------------------------------------------------------------------

    def __getitem__(self, client: ClientId) -> Context:
        return self._table[client]

    def __contains__(self, client: ClientId) -> bool:
        return client in self._table

    def __len__(self) -> int:
        return len(self._table)

    def get(self, client: ClientId) -> Context | None:
        return self._table.get(client)

    def values(self) -> ValuesView[Context]:
        return self._table.values()

    def items(self) -> ItemsView[ClientId, Context]:
        return self._table.items()

    def is_current(self, context: Context) -> bool:
        """Is this the context on the table?"""
        return self._table.get(context.client) is context

    def put(self, context: Context) -> None:
        """A context that was kept for another reason becomes the client's current one."""
        self._table[context.client] = context

    def take_off(self, context: Context) -> None:
        """Take the context off the table, if it is the one on it."""
        if self.is_current(context):
            del self._table[context.client]
            self.host.cancel_timer(("timeout", context.client))

    def epoch_of(self, client: ClientId) -> Epoch | None:
        """The epoch of the client's current context: what its next ticket will show."""
        context = self._table.get(client)
        return None if context is None else context.epoch

    def hear_epoch(self, epoch: Epoch) -> None:
        """Another broker made this epoch: those made here from now on are later (a hybrid logical clock)."""
        if self._heard is None or epoch > self._heard:
            self._heard = epoch

    def new_epoch(self, above: Epoch | None = None) -> Epoch:
        """An epoch for a connection that begins now: later than `above` and all heard of, whatever clocks say."""
        if self.came is not None and (above is None or above < self.came):
            return self.came
        heard = self._heard
        epoch: Epoch = new_tuple(Epoch, (self.host.now(), self.me))
        for other in (above, heard):
            if other is not None and epoch <= other:
                epoch = Epoch(other.connected_at + 1e-6, self.me)
        if heard is not None and epoch.connected_at > self.host.now():
            self._heard = epoch
        return epoch

    @contextmanager
    def coming_since(self, came: Epoch) -> Iterator[None]:
        """Inside the block, the broker works for a client that had to wait since it came with the connection `came`."""
        self.came = came
        try:
            yield
        finally:
            self.came = None

    # --- events come in -----------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Put an event that reached this broker for the first time into every context that wants it."""
        matches = self.watched.index.results.get(event.match_key)
        if matches is None:
            matches = self.watched.matching(event)
        if event.assigned is not None:
            matches = self.watched.with_members(event, matches)
        self.buffered_by_last_event = 0
        if not matches:
            return  # most brokers of a tree only pass it on
        buffered = 0
        deliver_at_once = self.host.deliver_at_once if self.settles_at_once else None
        origin, sequence = event.id
        room = self.room
        nearly_full_bytes = room.nearly_full_bytes
        for context in matches:
            reach = context.reach
            if sequence <= reach.get(origin, 0) or (context.ahead and not context.is_new(event)):
                continue
            if context.local_queue is not None:
                stored = admit_later(context, event)
                if context.delivers_early:
                    self._send_early(context)
            elif context.late is not None and origin in context.late:
                stored = admit_late(context, event)
            elif context.mode is SERVING:
                if (
                    deliver_at_once is not None
                    and not context.stored
                    and context.window
                    and context.outlet is None
                    and deliver_at_once(context.client, event)
                ):
                    reach[origin] = context.position[origin] = sequence
                    continue
                stored = context.admit(event, "live")
                if stored:
                    in_flight = context.in_flight
                    if (
                        in_flight + 1 == len(context.stored)
                        and in_flight < context.window
                        and context.outlet is None
                        and not context.sent_early
                    ):
                        # `pump`, without a call: nothing else waits for this client.
                        context.in_flight = in_flight + 1
                        self.host.deliver(context.client, event, "live")
                    elif in_flight < context.window:
                        self.pump(context)
            elif context.only is not None and origin not in context.only:
                continue
            else:
                # The reserve is for events that other brokers have acknowledged.
                stored = (event.qos > 0 or context.bytes <= room.reserve_bytes) and context.admit(
                    event, "stored"
                )
                buffered += 1
            if not stored:
                self.drop(context, event, "queue_full")
                if event.qos and room.reserve_bytes < UNLIMITED_BYTES:
                    room.crowded.append((context, event))
            elif context.bytes > nearly_full_bytes:
                room.nearly_full[context] = None
                if context.bytes > room.reserve_bytes:
                    room.crowded.append((context, event))
        entry_bytes = self.buffer.entry_bytes
        if entry_bytes is not None and self.buffer.bytes > entry_bytes:
            room.crowded.append((None, event))
        self.buffered_by_last_event = buffered

    def full_for(self, event: Event) -> ClientId | None:
        """A client that wants this event, and whose context has no room for it; None if there is none."""
        self.room.forget_emptied()
        return self.room.full_for(event, self.watched.matching(event)) if self.room.nearly_full else None

    def hand(self, client: ClientId, event: Event) -> None:
        """Put an event into the context of one client, as if it had matched."""
        context = self._table.get(client)
        if context is None or not context.is_new(event):
            return
        is_late = context.late is not None and event.id[0] in context.late
        if context.local_queue is not None:
            stored = admit_later(context, event)
        elif is_late:
            stored = admit_late(context, event)
        else:
            stored = context.admit(event, "live" if context.mode is SERVING else "stored")
        if not stored:
            self.drop(context, event, "queue_full")
        elif context.delivers_early:
            self._send_early(context)
        elif context.mode is SERVING and context.local_queue is None and not is_late:
            self.pump(context)

    def drop(self, context: Context, event: Event, reason: str) -> None:
        """Record that the client will not get this event."""
        origin, sequence = event.id
        self.host.record(
            Record("dropped", self.host.now(), self.me, context.client, origin, sequence, detail=reason)
        )

    # --- events go out ------------------------------------------------------------------------------------

    def pump(self, context: Context) -> None:
        """Hand stored events to the connected client, in order, as far as its window allows."""
        if context.sent_early:
            return  # what was sent early is acknowledged first: a read position has no gaps
        deliver = self.host.deliver if context.outlet is None else context.outlet.deliver
        stored = context.stored
        while context.in_flight < len(stored) and context.in_flight < context.window:
            event, how = stored[context.in_flight]
            context.in_flight += 1
            deliver(context.client, event, how)
            stored = context.stored

    def acknowledge(self, client: ClientId, event_id: EventId) -> None:
        """The client has consumed an event: its place in the window is free for the next one."""
        context = self._table.get(client)
        if context is not None and context.mode is SERVING and context.acknowledge(event_id):
            if context.delivers_early:
                self._send_early(context)
            elif len(context.stored) > context.in_flight:
                self.pump(context)

    def acknowledge_all(self, client: ClientId, event_ids: Sequence[EventId]) -> None:
        """`acknowledge` several events that the client acknowledged at once: the next events follow together."""
        context = self._table.get(client)
        if context is None or context.mode is not SERVING:
            return
        is_room = False
        for event_id in event_ids:
            if context.acknowledge(event_id):
                is_room = True
        if is_room and context.delivers_early:
            self._send_early(context)
        elif is_room and len(context.stored) > context.in_flight:
            self.pump(context)

    def set_window(self, client: ClientId, window: int) -> None:
        """Let up to `window` events be on their way to the connected client from now on."""
        context = self._table.get(client)
        if context is None or context.mode is not SERVING:
            return
        context.window = window
        if context.local_queue is None or context.delivers_head:
            self.pump(context)
        else:
            self._send_early(context)

    def deliver_early(self, context: Context) -> None:
        """Let the client have the events of the local queue now, as older ones take long to come; the older follow."""
        context.delivers_early = context.local_queue is not None
        context.delivers_head = False
        self._send_early(context)

    def _send_early(self, context: Context) -> None:
        while (event := next_early(context)) is not None:
            self.host.deliver(context.client, event, "live")

    # --- contexts open, serve, pause and close ------------------------------------------------------------

    def new(self, client: ClientId, epoch: Epoch, mode: Mode) -> Context:
        """Make a context that is not on the table: one that waits for a client, or is kept for another broker."""
        context = Context(
            client, epoch=epoch, mode=mode, buffer=self.buffer, limit_bytes=self.room.queue_bytes
        )
        context.under = self.under
        self.record_mode(context)
        return context

    def new_like(self, other: Context) -> Context:
        """Make an active context that has the filters and the position of another one, and has stored nothing."""
        context = self.new(other.client, other.epoch, Mode.ACTIVE)
        context.under = other.under
        context.position, context.reach, context.ahead = dict(other.position), dict(other.reach), other.ahead
        for filter in other.filters:
            self.add_filter(context, filter, mobile=True)
        return context

    def open(self, client: ClientId, epoch: Epoch, mode: Mode) -> Context:
        """Make a context, and put it on the table."""
        context = self.new(client, epoch, mode)
        self.put(context)
        return context

    def serve(self, context: Context, outlet: Outlet | None = None) -> None:
        """The client is connected, here or where the `outlet` leads: replay what is stored, then go on live."""
        context.return_in_flight()
        self.set_mode(context, SERVING)
        self.host.cancel_timer(("timeout", context.client))
        context.outlet = outlet
        context.window = self.host.window(context.client) if outlet is None else UNLIMITED
        if context.local_queue is None or context.delivers_head:
            self.resume(context)

    def deliver_head(self, context: Context) -> None:
        """Deliver what is stored: it is the head of what is on its way, and the client need not wait for the rest."""
        if context.delivers_early:
            return  # the client has been given newer events already: older ones come in one piece
        context.delivers_head = True
        if context.mode is SERVING:
            if context.outlet is None:
                self.host.ready(context.client)
            self.pump(context)

    def resume(self, context: Context) -> None:
        """The client need not wait any more: tell the host, and go on with what is stored."""
        if context.outlet is None:
            self.host.ready(context.client)
        self.replay(context)

    def replay(self, context: Context) -> None:
        """Deliver what is stored and still worth delivering, if the client is connected."""
        if context.stored and context.mode is SERVING:
            begun = partial(self.host.has_begun, context)
            for event in drop_expired(context, self.host.now(), begun):
                self.drop(context, event, "expired")
            self.pump(context)

    def pause(self, context: Context) -> None:
        """The client is gone: go on buffering for it."""
        context.return_in_flight()
        context.delivers_early = False
        context.outlet = None
        self.set_mode(context, Mode.ACTIVE)
        timeout_s = self.timeout_s
        if self.timeouts:
            timeout_s = self.timeouts.get(context.under, timeout_s)
        if timeout_s is not None:
            self.host.set_timer(("timeout", context.client), timeout_s)

    def close(self, context: Context, *, mobile: bool = False) -> None:
        """Forget the context: its filters leave the index, its events the buffer."""
        if context.mode is not PASSIVE:
            self.discards.unwatch(context, mobile=mobile)
        self.discards.empty(context)
        context.late = None
        self.take_off(context)
        self.host.record(Record("mode", self.host.now(), self.me, context.client, detail="closed"))

    def consume_all(self, context: Context) -> None:
        """Count all events that have come so far as read, and forget them: the client starts again from here."""
        context.skip_all()
        self.discards.empty(context)
        context.late = None

    def drop_all(self, context: Context, reason: str) -> None:
        """Record each stored event as dropped, before the context closes: the client will not come for them."""
        for event in context.events():
            self.drop(context, event, reason)

    def set_mode(self, context: Context, mode: Mode) -> None:
        """Change the mode; a passive copy takes no part in matching, so it enters or leaves the index."""
        before, context.mode = context.mode, mode
        if before is mode:
            return
        if before is PASSIVE:
            self.watched.watch(context, context.filters, mobile=True)
        elif mode is PASSIVE:
            self.watched.unwatch(context, context.filters, mobile=True)
        self.record_mode(context)

    def record_mode(self, context: Context) -> None:
        who, mode = context.client, context.mode.value
        columns = ("mode", self.host.now(), self.me, who, None, None, None, mode, None, None, None, None)
        self.host.record(new_tuple(Record, columns))

    # --- subscriptions ------------------------------------------------------------------------------------

    def fence(self, peer: BrokerId, context: Context, also: Iterable[Filter] = ()) -> Mapping[BrokerId, int]:
        """The fence for `peer` (`Router.fence`) because of this context, which had subscribed to `also` as well."""
        return self.router.fence(peer, (*context.filters, *also))

    def add_filter(self, context: Context, filter: Filter, *, mobile: bool = False) -> None:
        """Add a subscription of the client; `mobile`: it was made earlier at another broker, and has come along."""
        if filter not in context.filters:
            context.filters[filter] = None
            if context.mode is not PASSIVE:
                self.watched.watch(context, (filter,), mobile=mobile)

    def remove_filter(self, context: Context, filter: Filter, *, mobile: bool = False) -> None:
        if filter in context.filters:
            del context.filters[filter]
            if context.mode is not PASSIVE:
                self.watched.unwatch(context, (filter,), mobile=mobile)
