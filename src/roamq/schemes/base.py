"""What all mobility schemes share: a table of contexts, and the one way events enter and leave them.

A scheme decides at which brokers a client's context lives, in which mode, and when it moves. This base does the
mechanics: opening and closing contexts, matching, storing, delivering. It decides nothing about mobility.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from roamq.core.context import ClientQueue, Context, Epoch, EventBuffer, Mode, Position, Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.core.messages import Message
from roamq.core.ports import Host, TimerKey
from roamq.core.records import Record
from roamq.overlay.base import Router

MATCH_CACHE_SIZE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeOptions:
    """Parameters that every scheme has; a scheme with more of them derives its own class."""

    buffer_bytes: int | None = None
    """Bound of the broker's store of events, one copy each; None for no bound."""
    queue_bytes: int | None = None
    """Bound of what is stored for one client, however many share a copy ([PRO] Table 1); None for no bound."""
    timeout_s: Seconds | None = None
    """[PRO] Timeout(S): a context whose client stays away longer is given up; None to wait for ever."""

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "SchemeOptions":
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise ConfigError(
                    f"scheme.{name}: unknown option; this scheme knows {', '.join(sorted(known))}"
                )
        return cls(**values)


class Scheme:
    """Base of all schemes: one instance per broker.

    Subclasses implement the `on_...` handlers and register one handler per message type with `handle`.
    """

    name: ClassVar[str]
    options_type: ClassVar[type[SchemeOptions]] = SchemeOptions
    guarantees: ClassVar[frozenset[str]] = frozenset({"loss", "duplication", "order", "leak"})
    """What holds with sufficient buffers and without lost stores; the simulator's checkers enforce these."""
    carries_subscriptions: ClassVar[bool] = False
    """Whether clients are to bring their subscriptions along ([DIS] section 3.2.4)."""

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        self.me = me
        self.host = host
        self.router = router
        self.options = options or self.options_type()
        self.contexts: dict[ClientId, Context] = {}
        self.buffer = EventBuffer(self.options.buffer_bytes)
        self.index: MatchIndex[Context] = MatchIndex()
        self.buffered_by_last_event = 0
        """How many contexts the last event was stored in: part of what it cost this broker."""
        self.hand_at_once: Callable[[ClientId, Event], bool] | None = None
        """Set by a world where some events need no acknowledgement: hands one to its client and says that this was all,
        or does nothing. Events that are read when they are sent need no place in a store."""
        self._matches: dict[Hashable, tuple[Context, ...]] = {}
        self._matches_version = -1
        self._handlers: dict[type[Message], Callable[[BrokerId, Any], None]] = {}

    def handle(self, message_type: type[Message], handler: Callable[[BrokerId, Any], None]) -> None:
        self._handlers[message_type] = handler

    # --- inputs that a scheme decides on ------------------------------------------------------------------

    def on_connect(
        self, client: ClientId, old_broker: BrokerId | None, carried: tuple[Filter, ...] = ()
    ) -> None:
        """The client is here; it was at `old_broker`. `carried`: subscriptions it keeps on the device."""
        raise NotImplementedError

    def on_ticket(self, client: ClientId, ticket: Ticket | None) -> None:
        """What the client shows as it connects, told just before `on_connect`. Most schemes do not look."""

    def went_to(self, client: ClientId) -> BrokerId | None:
        """Where the context of a client went that was here, if it is here no more and we know."""
        return None

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        """The client is gone from here, with or without a word."""
        raise NotImplementedError

    def on_location(self, client: ClientId, cell: str) -> None:
        """The connected client crossed into `cell`. Most schemes do not care."""

    def on_timer(self, key: TimerKey) -> None:
        """A timer set by this scheme has run out."""
        if key[0] == "timeout" and (context := self.contexts.get(ClientId(key[1]))) is not None:
            self.on_timeout(context)

    def on_timeout(self, context: Context) -> None:
        """[PRO] case 8: the client stayed away longer than Timeout(S)."""
        self.give_up(context, "timeout")

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        self.add_filter(self.contexts[client], filter)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        self.remove_filter(self.contexts[client], filter)

    def on_leave(self, client: ClientId) -> None:
        """The client unsubscribes from everything and is gone for good."""
        if (context := self.contexts.get(client)) is not None:
            self.close(context)

    def on_message(self, sender: BrokerId, message: Message) -> None:
        self._handlers[type(message)](sender, message)

    def on_restart(self) -> None:
        """The broker came back with its store: nobody is connected, contexts go on buffering."""
        for context in self.contexts.values():
            if context.mode is Mode.SERVING:
                self.pause(context)

    # --- events -------------------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """An event reached this broker, for the first time: into every context that wants it."""
        if self.index.version != self._matches_version or len(self._matches) > MATCH_CACHE_SIZE:
            self._matches.clear()
            self._matches_version = self.index.version
        matches = self._matches.get(event.match_key)
        if matches is None:
            matches = self._matches[event.match_key] = tuple(self.index.match(event))
        self.buffered_by_last_event = 0
        if not matches:
            return  # most brokers of a tree only pass it on
        buffered = 0
        hand_at_once = self.hand_at_once
        origin, sequence = event.id
        for context in matches:
            if sequence <= context.reach.get(origin, 0):
                continue
            if context.local_queue is not None:
                stored = context.admit_later(event)
                if context.goes_ahead:
                    self.pump_ahead(context)
            elif context.mode is Mode.SERVING:
                if (
                    hand_at_once is not None
                    and not context.stored
                    and context.window
                    and hand_at_once(context.client, event)
                ):
                    context.reach[origin] = context.position[origin] = sequence
                    continue
                stored = context.admit(event, "live")
                if stored:
                    self.pump(context)
            else:
                stored = context.admit(event, "stored")
                buffered += 1
            if not stored:
                self.drop(context, event, "queue_full")
        self.buffered_by_last_event = buffered

    def on_acknowledge(self, client: ClientId, event_id: EventId) -> None:
        context = self.contexts.get(client)
        if context is not None and context.mode is Mode.SERVING and context.acknowledge(event_id):
            self.host.store(client)
            if context.goes_ahead:
                self.pump_ahead(context)
            elif len(context.stored) > context.in_flight:
                self.pump(context)

    def pump(self, context: Context) -> None:
        """Hand stored events to the connected client, in order, as far as its window allows."""
        if context.ahead:
            return  # what went ahead is acknowledged first: a read position has no gaps
        deliver = self.host.deliver
        stored = context.stored
        while context.in_flight < len(stored) and context.in_flight < context.window:
            event, how = stored[context.in_flight]
            context.in_flight += 1
            deliver(context.client, event, how)
            stored = context.stored

    def go_ahead(self, context: Context) -> None:
        """Older events are a long time coming: the client gets what is here now, and they follow."""
        context.goes_ahead = context.local_queue is not None
        self.pump_ahead(context)

    def pump_ahead(self, context: Context) -> None:
        while (event := context.next_ahead()) is not None:
            self.host.deliver(context.client, event, "live")

    def drop(self, context: Context, event: Event, reason: str) -> None:
        self.host.record(
            Record(
                "dropped",
                self.host.now(),
                self.me,
                context.client,
                event.id.origin,
                event.id.sequence,
                detail=reason,
            )
        )

    # --- contexts: open, serve, pause, close --------------------------------------------------------------

    def new_epoch(self, above: Epoch | None = None) -> Epoch:
        """An epoch for a connection that begins now; later than `above` whatever the clocks say."""
        epoch = Epoch(self.host.now(), self.me)
        return epoch if above is None or epoch > above else Epoch(above.connected_at + 1e-6, self.me)

    def open(self, client: ClientId, epoch: Epoch, mode: Mode, position: Position | None = None) -> Context:
        context = Context(client, epoch=epoch, mode=mode, buffer=self.new_queue(), position=position)
        self.contexts[client] = context
        self.record_mode(context)
        self.host.store(client)
        return context

    def new_queue(self) -> EventBuffer:
        """Where a new context keeps its events: the broker's buffer, through a bound of its own if there is one."""
        limit = self.options.queue_bytes
        return self.buffer if limit is None else ClientQueue(self.buffer, limit)

    def serve(self, context: Context, *, resumed: bool) -> None:
        """The client is connected here: replay what is stored, then go on live."""
        context.return_in_flight()
        self.set_mode(context, Mode.SERVING)
        self.host.cancel_timer(("timeout", context.client))
        self.attach(context, resumed=resumed)
        if context.local_queue is None:
            self.replay(context)

    def attach(self, context: Context, *, resumed: bool) -> None:
        """Tell the client, which is connected here, that its context is ready."""
        self.host.attached(context.client, resumed)

    def replay(self, context: Context) -> None:
        if context.mode is Mode.SERVING:
            for event in context.drop_expired(self.host.now()):
                self.drop(context, event, "expired")
            self.pump(context)

    def pause(self, context: Context) -> None:
        """The client is gone: go on buffering for it."""
        context.return_in_flight()
        context.goes_ahead = False
        self.set_mode(context, Mode.ACTIVE)
        if self.options.timeout_s is not None:
            self.host.set_timer(("timeout", context.client), self.options.timeout_s)

    def set_mode(self, context: Context, mode: Mode) -> None:
        """Change the mode; a passive copy takes no part in matching, so it enters or leaves the index."""
        before, context.mode = context.mode, mode
        if before is mode:
            return
        if before is Mode.PASSIVE:
            self._watch(context, context.filters, mobile=True)
        elif mode is Mode.PASSIVE:
            self._unwatch(context, context.filters, mobile=True)
        self.record_mode(context)
        self.host.store(context.client)

    def add_filter(self, context: Context, filter: Filter, *, mobile: bool = False) -> None:
        if filter not in context.filters:
            context.filters[filter] = None
            if context.mode is not Mode.PASSIVE:
                self._watch(context, (filter,), mobile=mobile)
            self.host.store(context.client)

    def remove_filter(self, context: Context, filter: Filter, *, mobile: bool = False) -> None:
        if filter in context.filters:
            del context.filters[filter]
            if context.mode is not Mode.PASSIVE:
                self._unwatch(context, (filter,), mobile=mobile)
            self.host.store(context.client)

    def close(self, context: Context, *, mobile: bool = False) -> None:
        """Forget the context: its filters leave the index, its events the buffer."""
        if context.mode is not Mode.PASSIVE:
            self._unwatch(context, context.filters, mobile=mobile)
        context.take_all()
        self.forget(context)
        self.host.record(Record("mode", self.host.now(), self.me, context.client, detail="closed"))

    def forget(self, context: Context) -> None:
        """Take the context off the table, if it is the one on it."""
        if self.contexts.get(context.client) is context:
            del self.contexts[context.client]
            self.host.cancel_timer(("timeout", context.client))
        self.host.store(context.client)

    def give_up(self, context: Context, reason: str) -> None:
        """Close a context whose client will not come; what was stored for it is lost, and said to be."""
        for event in context.events():
            self.drop(context, event, reason)
        self.close(context)

    def _watch(self, context: Context, filters: Iterable[Filter], *, mobile: bool) -> None:
        for filter in filters:
            self.router.subscribe(filter, mobile=mobile)
            self.index.add(context, filter)

    def _unwatch(self, context: Context, filters: Iterable[Filter], *, mobile: bool) -> None:
        for filter in filters:
            self.index.remove(context, filter)
            self.router.unsubscribe(filter, mobile=mobile)

    def record_mode(self, context: Context) -> None:
        self.host.record(Record("mode", self.host.now(), self.me, context.client, detail=context.mode.value))

    def epoch_of(self, client: ClientId) -> Epoch | None:
        """The epoch of the context that serves the client here: what its next ticket will show."""
        context = self.contexts.get(client)
        return None if context is None else context.epoch

    # --- what the checkers ask ----------------------------------------------------------------------------

    def held_contexts(self) -> list[Context]:
        """Every context this broker keeps anything for, on the table or on its way out."""
        return list(self.contexts.values())

    def may_keep(self, context: Context) -> bool:
        """Is it by design that this context is here while its client is settled elsewhere?"""
        return context.mode is Mode.PASSIVE


_REGISTRY: dict[str, type[Scheme]] = {}


def register(scheme: type[Scheme]) -> type[Scheme]:
    """Class decorator: make a scheme selectable by its name."""
    _REGISTRY[scheme.name] = scheme
    return scheme


def scheme_names() -> list[str]:
    return sorted(_REGISTRY)


def scheme_by_name(name: str) -> type[Scheme]:
    if name not in _REGISTRY:
        raise ConfigError(f"scheme: unknown scheme {name!r}; choose one of {', '.join(scheme_names())}")
    return _REGISTRY[name]
