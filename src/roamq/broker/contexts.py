"""The contexts of one broker: the table, the match index, the buffer, and the one way events enter and leave them.

`Contexts` opens, serves, pauses and closes contexts; it matches, stores and delivers. It decides nothing about
mobility: a scheme tells it what to do with a context, and the parts of a scheme share it.
"""

from collections.abc import Collection, Container, Hashable, ItemsView, Iterable, ValuesView
from functools import partial
from typing import Protocol

from roamq.broker.discards import Discards
from roamq.core.buffers import EventBuffer
from roamq.core.context import UNLIMITED, UNLIMITED_BYTES, Context, Epoch, Mode, Outlet
from roamq.core.events import BrokerId, ClientId, Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.core.late import admit_late
from roamq.core.matching import MatchIndex
from roamq.core.ports import Host
from roamq.core.records import Record
from roamq.overlay.base import Router

MATCH_CACHE_SIZE = 4096
RESERVE = 8
"""One part in so many of a bound is for what is on its way."""
NEARLY_FULL_BYTES = 4 * 1024 * 1024
"""A context with less room than this, or an eighth, may not take the next event: more than one event costs."""


class Meaning(Protocol):
    """What a client's subscriptions mean at this broker, where that depends on the place."""

    def meant(self, context: Context, filters: Iterable[Filter]) -> list[Filter]:
        """These subscriptions of the context as the broker must watch for them."""


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
        self.meaning = meaning
        self.late_after_s = late_after_s
        """How long a context that goes elsewhere waits for events that may come late; None: as long as it takes."""
        self.nearly_full: dict[Context, None] = {}
        """Contexts in which hardly anything can be stored any more; some may have room again: `full_for`
        knows."""
        self.crowded: list[tuple[Context | None, Event]] = []
        """Contexts that are nearly full, None for the buffer, and what has come for them since the host looked."""
        self.is_doubted = False
        """Whether contexts may have been here, and gone, in a life that this broker does not remember."""
        self.buffer = EventBuffer()
        self.set_bounds(buffer_bytes, queue_bytes)
        self.index: MatchIndex[Context] = MatchIndex()
        self.buffered_by_last_event = 0
        """How many contexts the last event was stored in: part of what it cost this broker."""
        self.settles_at_once = settles_at_once and host.settles_at_once
        """Whether the host may deliver an event that needs no acknowledgement instead of having it stored."""
        self.works_in_slices = False
        """Whether others wait while this broker works, so that long queues are forgotten and sent in parts."""
        self.sends_heads = False
        """Whether a hand-over sends what is stored as soon as it is asked for, and lets the client have it while the
        rest is on its way (docs/decisions/0145)."""
        self.discards = Discards(self)
        self.under = ""
        """Which of the broker's schemes is at work, where there are several: new contexts are under it."""
        self.timeouts: dict[str, Seconds | None] = {}
        """Where there are several schemes: after what time each gives up a context whose client stays away."""
        self._heard: Epoch | None = None
        """The latest epoch of other brokers: ours are later, even if the other's clock is ahead."""
        self._table: dict[ClientId, Context] = {}
        self._places: dict[tuple[str, ClientId], list[Context]] = {}
        """A shared group's filter, as text, and a member -> the contexts here that hold the member's place."""
        self._matches: dict[Hashable, tuple[Context, ...]] = {}
        self._matches_version = -1

    def set_bounds(
        self,
        buffer_bytes: int | None,
        queue_bytes: int | None,
        held: Iterable[Context] = (),
        *,
        keeps_reserve: bool = False,
    ) -> None:
        """Bound what is stored in all, and for one client: in contexts to come, and in those that are `held`.

        Events enter at other brokers too. `keeps_reserve`: an eighth of each bound is for what they send before they
        hear that a context here, or the buffer, is nearly full (`crowded`).
        """
        self.buffer.limit_bytes = buffer_bytes
        self.queue_bytes = UNLIMITED_BYTES if queue_bytes is None else queue_bytes
        self._nearly_full_bytes = self.queue_bytes - max(self.queue_bytes // 8, NEARLY_FULL_BYTES)
        self._reserve_bytes, self.buffer.entry_bytes = UNLIMITED_BYTES, None
        if keeps_reserve:
            self._reserve_bytes = self.queue_bytes - self.queue_bytes // RESERVE
            if buffer_bytes is not None:
                self.buffer.entry_bytes = buffer_bytes - buffer_bytes // RESERVE
        for context in held:
            context.limit_bytes = self.queue_bytes
            if context.bytes > self._nearly_full_bytes:
                self.nearly_full[context] = None

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
        """Another broker has given this epoch: what begins here from now on is later (a hybrid logical clock)."""
        if self._heard is None or epoch > self._heard:
            self._heard = epoch

    def new_epoch(self, above: Epoch | None = None) -> Epoch:
        """An epoch for a connection that begins now; later than `above` and all heard of, whatever clocks say."""
        epoch = Epoch(self.host.now(), self.me)
        for other in (above, self._heard):
            if other is not None and epoch <= other:
                epoch = Epoch(other.connected_at + 1e-6, self.me)
        if self._heard is not None and epoch.connected_at > self.host.now():
            self._heard = epoch
        return epoch

    # --- events come in -----------------------------------------------------------------------------------

    def has_room_again(self, context: Context | None) -> bool:
        """Whether a context that was nearly full, None for the buffer, has read a good part of it since."""
        if context is None:
            entry_bytes = self.buffer.entry_bytes
            return entry_bytes is None or self.buffer.bytes <= entry_bytes - entry_bytes // RESERVE
        return context.bytes <= self._reserve_bytes - self._reserve_bytes // RESERVE

    def full_for(self, event: Event) -> ClientId | None:
        """A client that wants this event, and for whom it cannot be stored; None if there is none."""
        nearly_full = self.nearly_full
        for context in [context for context in nearly_full if context.bytes <= self._nearly_full_bytes]:
            del nearly_full[context]
        if nearly_full:
            for context in self._matching(event):
                limit_bytes = min(context.limit_bytes, self._reserve_bytes)
                if context in nearly_full and context.bytes + event.cost_bytes > limit_bytes:
                    return context.client
        return None

    def _matching(self, event: Event) -> tuple[Context, ...]:
        """The contexts whose filters match, but for those of shared groups."""
        if self.index.version != self._matches_version or len(self._matches) > MATCH_CACHE_SIZE:
            self._matches.clear()
            self._matches_version = self.index.version
        key = event.match_key
        matches = self._matches.get(key)
        if matches is None:
            closed = self.discards.closed
            matches = tuple(context for context in self.index.match(event) if context not in closed)
            if key is not None:
                self._matches[key] = matches
        return matches

    def forget_matches(self) -> None:
        """A context has closed that is still in the index."""
        self._matches.clear()

    def on_event(self, event: Event) -> None:
        """An event reached this broker, for the first time: into every context that wants it."""
        matches = self._matches.get(event.match_key) if self.index.version == self._matches_version else None
        if matches is None:
            matches = self._matching(event)
        if event.assigned is not None:
            matches = self._with_members(event, matches)
        self.buffered_by_last_event = 0
        if not matches:
            return  # most brokers of a tree only pass it on
        buffered = 0
        deliver_at_once = self.host.deliver_at_once if self.settles_at_once else None
        origin, sequence = event.id
        deliver = self.host.deliver
        nearly_full_bytes = self._nearly_full_bytes
        serving = Mode.SERVING
        for context in matches:
            if sequence <= context.reach.get(origin, 0) or (context.ahead and not context.is_new(event)):
                continue
            if context.local_queue is not None:
                stored = context.admit_later(event)
                if context.delivers_early:
                    self._send_early(context)
            elif context.late is not None and origin in context.late:
                stored = admit_late(context, event)
            elif context.mode is serving:
                if (
                    deliver_at_once is not None
                    and not context.stored
                    and context.window
                    and context.outlet is None
                    and deliver_at_once(context.client, event)
                ):
                    context.reach[origin] = context.position[origin] = sequence
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
                        deliver(context.client, event, "live")
                    else:
                        self.pump(context)
            elif context.only is not None and origin not in context.only:
                continue
            else:
                # The reserve is for what others have acknowledged.
                stored = (event.qos > 0 or context.bytes <= self._reserve_bytes) and context.admit(
                    event, "stored"
                )
                buffered += 1
            if not stored:
                self.drop(context, event, "queue_full")
                if event.qos and self._reserve_bytes < UNLIMITED_BYTES:
                    self.crowded.append((context, event))
            elif context.bytes > nearly_full_bytes:
                self.nearly_full[context] = None
                if context.bytes > self._reserve_bytes:
                    self.crowded.append((context, event))
        entry_bytes = self.buffer.entry_bytes
        if entry_bytes is not None and self.buffer.bytes > entry_bytes:
            self.crowded.append((None, event))
        self.buffered_by_last_event = buffered

    def _with_members(self, event: Event, matches: tuple[Context, ...]) -> tuple[Context, ...]:
        """The contexts that match, and those of the members that the event was assigned to; each once."""
        assert event.assigned is not None
        found = dict.fromkeys(() if event.is_handed_on else matches)
        for place in event.assigned.items():
            found.update(dict.fromkeys(self._places.get(place, ())))
        return tuple(found)

    def hand(self, client: ClientId, event: Event) -> None:
        """Put an event into the context of one client, as if it had matched."""
        context = self._table.get(client)
        if context is None or not context.is_new(event):
            return
        is_late = context.late is not None and event.id[0] in context.late
        if context.local_queue is not None:
            stored = context.admit_later(event)
        elif is_late:
            stored = admit_late(context, event)
        else:
            stored = context.admit(event, "live" if context.mode is Mode.SERVING else "stored")
        if not stored:
            self.drop(context, event, "queue_full")
        elif context.delivers_early:
            self._send_early(context)
        elif context.mode is Mode.SERVING and context.local_queue is None and not is_late:
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
        if context is not None and context.mode is Mode.SERVING and context.acknowledge(event_id):
            if context.delivers_early:
                self._send_early(context)
            elif len(context.stored) > context.in_flight:
                self.pump(context)

    def set_window(self, client: ClientId, window: int) -> None:
        """So many events may be on their way to the connected client from now on."""
        context = self._table.get(client)
        if context is None or context.mode is not Mode.SERVING:
            return
        context.window = window
        if context.local_queue is None or context.delivers_head:
            self.pump(context)
        else:
            self._send_early(context)

    def deliver_early(self, context: Context) -> None:
        """Older events are a long time coming: the client gets what is here now, and they follow."""
        context.delivers_early = context.local_queue is not None
        context.delivers_head = False
        self._send_early(context)

    def _send_early(self, context: Context) -> None:
        while (event := context.next_early()) is not None:
            self.host.deliver(context.client, event, "live")

    # --- contexts open, serve, pause and close ------------------------------------------------------------

    def new(self, client: ClientId, epoch: Epoch, mode: Mode) -> Context:
        """A context that is not on the table: one that waits for a client, or is kept for another broker."""
        context = Context(client, epoch=epoch, mode=mode, buffer=self.buffer, limit_bytes=self.queue_bytes)
        context.under = self.under
        self.record_mode(context)
        return context

    def open(self, client: ClientId, epoch: Epoch, mode: Mode) -> Context:
        """A new context, on the table."""
        context = self.new(client, epoch, mode)
        self.put(context)
        return context

    def serve(self, context: Context, outlet: Outlet | None = None) -> None:
        """The client is connected, here or where the `outlet` leads: replay what is stored, then go on live."""
        context.return_in_flight()
        self.set_mode(context, Mode.SERVING)
        self.host.cancel_timer(("timeout", context.client))
        context.outlet = outlet
        context.window = self.host.window(context.client) if outlet is None else UNLIMITED
        if context.local_queue is None or context.delivers_head:
            self.resume(context)

    def deliver_head(self, context: Context) -> None:
        """What is stored is the beginning of what is on its way, and the client need not wait for the rest."""
        if context.delivers_early:
            return  # it has been given newer events already: older ones come in one piece
        context.delivers_head = True
        if context.mode is Mode.SERVING:
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
        if context.mode is Mode.SERVING:
            begun = partial(self.host.has_begun, context)
            for event in context.drop_expired(self.host.now(), begun):
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
        if context.mode is not Mode.PASSIVE:
            self.discards.unwatch(context, mobile=mobile)
        self.discards.empty(context)
        context.late = None
        self.take_off(context)
        self.host.record(Record("mode", self.host.now(), self.me, context.client, detail="closed"))

    def consume_all(self, context: Context) -> None:
        """The client is done with everything that has come so far, read or not: it starts again from here."""
        context.skip_all()
        self.discards.empty(context)
        context.late = None

    def drop_all(self, context: Context, reason: str) -> None:
        """The client will not come for what is stored: record each event as dropped, before the context closes."""
        for event in context.events():
            self.drop(context, event, reason)

    def set_mode(self, context: Context, mode: Mode) -> None:
        """Change the mode; a passive copy takes no part in matching, so it enters or leaves the index."""
        before, context.mode = context.mode, mode
        if before is mode:
            return
        if before is Mode.PASSIVE:
            self._watch(context, context.filters, mobile=True)
        elif mode is Mode.PASSIVE:
            self.unwatch(context, context.filters, mobile=True)
        self.record_mode(context)

    def record_mode(self, context: Context) -> None:
        self.host.record(Record("mode", self.host.now(), self.me, context.client, detail=context.mode.value))

    def take_back(
        self, context: Context, filter: Filter, kept: Container[EventId], others: Collection[Filter]
    ) -> tuple[list[Event], list[Event]]:
        """Take back what a context stores for a place in a shared group, but for what is `kept` or in flight.

        Returns what other members of the group are to get, and what of it the context does not hold any more: an
        event that one of the client's `others` wants as well stays.
        """
        shared = str(filter)
        stays: list[Event] = []

        def is_taken(event: Event) -> bool:
            assigned = event.assigned or {}
            if assigned.get(shared) != context.client or event.id in kept:
                return False
            if not event.is_handed_on and any(other.matches(event) for other in others):
                stays.append(event)
                return False
            return True

        taken = context.take_out(is_taken)
        return [*taken, *stays], taken

    # --- subscriptions ------------------------------------------------------------------------------------

    def add_filter(self, context: Context, filter: Filter, *, mobile: bool = False) -> None:
        """The client subscribes; `mobile`: elsewhere, earlier, and the subscription has come along."""
        if filter not in context.filters:
            context.filters[filter] = None
            if context.mode is not Mode.PASSIVE:
                self._watch(context, (filter,), mobile=mobile)

    def remove_filter(self, context: Context, filter: Filter, *, mobile: bool = False) -> None:
        if filter in context.filters:
            del context.filters[filter]
            if context.mode is not Mode.PASSIVE:
                self.unwatch(context, (filter,), mobile=mobile)

    def _watch(self, context: Context, filters: Iterable[Filter], *, mobile: bool) -> None:
        for filter in self._meant(context, filters):
            self.router.subscribe(filter, mobile=mobile)
            if filter.group is None:
                self.index.add(context, filter)
            else:
                self._places.setdefault((str(filter), context.client), []).append(context)

    def unwatch(self, context: Context, filters: Iterable[Filter], *, mobile: bool) -> None:
        for filter in self._meant(context, filters):
            if filter.group is None:
                self.index.remove(context, filter)
            else:
                place = (str(filter), context.client)
                self._places[place].remove(context)
                if not self._places[place]:
                    del self._places[place]
            self.router.unsubscribe(filter, mobile=mobile)

    def _meant(self, context: Context, filters: Iterable[Filter]) -> Iterable[Filter]:
        """The filters as this broker must watch for them; a shared one means the same everywhere."""
        if self.meaning is None:
            return filters
        filters = list(filters)
        own = [filter for filter in filters if filter.group is None]
        return [
            *self.meaning.meant(context, own),
            *(filter for filter in filters if filter.group is not None),
        ]
