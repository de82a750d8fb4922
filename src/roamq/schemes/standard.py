"""The standard algorithm: the context waits at the last broker and is pulled by the new one.

Paper: [DIS] section 3.1, its six steps; [PRO] section 1 calls it reactive.
Assumes: reliable FIFO links; the client names the broker it was at before.
Departs: a client that moves on before a transfer ends is followed by a chain of transfers, one per broker it
visited, each in the paper's six steps; epochs keep the links of the chain apart (docs/decisions/0003).
"""

from dataclasses import dataclass

from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import ContextRequest, NoContext, Release, StoredEvents, Subscriptions
from roamq.core.ports import Host
from roamq.core.records import Record
from roamq.overlay.base import Router
from roamq.schemes.base import Scheme, SchemeOptions, register


@dataclass(slots=True)
class Arriving:
    """A context on its way here: opened at connect, complete with the last stored event."""

    context: Context
    old_broker: BrokerId
    unsubscribed: set[Filter]
    """What the client unsubscribed before we knew that it had subscribed."""


@dataclass(slots=True)
class Leaving:
    """A context that belongs to another broker now; it buffers until that one has subscribed."""

    context: Context
    release: Release | None = None


@register
class Standard(Scheme):
    """One broker's part of the standard algorithm."""

    name = "standard"

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        self.arriving: dict[tuple[ClientId, Epoch], Arriving] = {}
        self.left_behind: dict[ClientId, list[Context]] = {}
        """Contexts whose client has been elsewhere since: the broker it went to will ask for them."""
        self.waiting: dict[Context, ContextRequest] = {}
        """Requests for contexts that are themselves still arriving."""
        self.leaving: dict[tuple[ClientId, Epoch], Leaving] = {}
        self._before_fence: list[Leaving] = []
        self.handle(ContextRequest, self.on_context_request)
        self.handle(Subscriptions, self.on_subscriptions)
        self.handle(NoContext, self.on_no_context)
        self.handle(Release, self.on_release)
        self.handle(StoredEvents, self.on_stored_events)

    # --- the client comes and goes ------------------------------------------------------------------------

    def on_connect(
        self, client: ClientId, old_broker: BrokerId | None, carried: tuple[Filter, ...] = ()
    ) -> None:
        context = self.contexts.get(client)
        if old_broker is None or old_broker == self.me:
            # "If the client reconnects to Broker 1, then the stored events are simply replayed."
            resumed = context is not None
            if context is None:
                context = self.open(client, self.new_epoch(), Mode.SERVING)
            self.serve(context, resumed=resumed)
            return
        if context is not None:
            self.leave_behind(context)
        self.step_1_reconnected(client, old_broker)

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        # "The broker begins to locally store the events that the client would have received."
        context = self.contexts.get(client)
        if context is not None and context.mode is Mode.SERVING:
            self.pause(context)

    def leave_behind(self, context: Context) -> None:
        """The client was elsewhere since it left us: that broker's request for this context is on its way."""
        if context.mode is Mode.SERVING:
            self.pause(context)
        self.left_behind.setdefault(context.client, []).append(context)
        self.forget(context)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        if arriving := self.arriving_of(self.contexts[client]):
            arriving.unsubscribed.add(filter)
        super().on_unsubscribe(client, filter)

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        if arriving := self.arriving_of(self.contexts[client]):
            arriving.unsubscribed.discard(filter)
        super().on_subscribe(client, filter)

    # --- the six steps ------------------------------------------------------------------------------------

    def step_1_reconnected(self, client: ClientId, old_broker: BrokerId) -> None:
        """1. The client notifies Broker 2 that it was previously connected to Broker 1."""
        context = self.open(client, self.new_epoch(), Mode.SERVING)
        context.open_local_queue()
        self.arriving[client, context.epoch] = Arriving(context, old_broker, set())
        self.serve(context, resumed=True)
        self.step_2_retrieve(context, old_broker)

    def step_2_retrieve(self, context: Context, old_broker: BrokerId) -> None:
        """2. Broker 2 retrieves the subscriptions associated with the client from Broker 1."""
        request = ContextRequest(client=context.client, epoch=context.epoch, new_broker=self.me)
        self.router.unicast(old_broker, request)

    def on_context_request(self, sender: BrokerId, request: ContextRequest) -> None:
        """At Broker 1: find the context the client had here before it connected at the new broker."""
        context = self.claimed_by(request)
        if context is None:
            self.router.unicast(request.new_broker, NoContext(client=request.client, epoch=request.epoch))
        elif self.arriving_of(context):
            self.waiting[context] = (
                request  # the client was faster than its context: hand on when it is whole
            )
        else:
            self.hand_over(context, request)

    def claimed_by(self, request: ContextRequest) -> Context | None:
        """The newest context here that is older than the requester's connection."""
        candidates = [c for c in self.left_behind.get(request.client, ()) if c.epoch < request.epoch]
        current = self.contexts.get(request.client)
        if current is not None and current.epoch < request.epoch:
            candidates.append(current)
        return max(candidates, key=lambda c: c.epoch, default=None)

    def hand_over(self, context: Context, request: ContextRequest) -> None:
        """At Broker 1: the context is the requester's now; reply with the subscriptions, buffer until released."""
        if context.mode is Mode.SERVING:
            # The client shows up elsewhere while we still believed in it: the newest connection wins.
            self.host.detach(context.client, "taken over")
            self.pause(context)
        self.take_off(context)
        self.leaving[context.client, request.epoch] = Leaving(context)
        reply = Subscriptions(
            client=context.client,
            epoch=request.epoch,
            filters=tuple(context.filters),
            session=context.session,
        )
        self.router.unicast(request.new_broker, reply)

    def take_off(self, context: Context) -> None:
        """The context is neither the client's current one here nor left behind any more."""
        left = self.left_behind.get(context.client, [])
        if context in left:
            left.remove(context)
            if not left:
                del self.left_behind[context.client]
        self.forget(context)

    def on_subscriptions(self, old_broker: BrokerId, reply: Subscriptions) -> None:
        arriving = self.arriving.get((reply.client, reply.epoch))
        if arriving is not None:
            arriving.context.session = reply.session
            self.step_3_subscribe_then_release(arriving, old_broker, reply.filters)

    def step_3_subscribe_then_release(
        self, arriving: Arriving, old_broker: BrokerId, filters: tuple[Filter, ...]
    ) -> None:
        """3. Broker 2 subscribes to these subscriptions, then requests Broker 1 to unsubscribe.

        4. From here on `on_event` stores new events for the client in the local queue.
        """
        context = arriving.context
        for filter in filters:
            if filter not in arriving.unsubscribed:
                self.add_filter(context, filter, mobile=True)
        release = Release(
            client=context.client, epoch=context.epoch, new_broker=self.me, fence=self.router.fence()
        )
        self.router.unicast(old_broker, release)

    def on_release(self, new_broker: BrokerId, release: Release) -> None:
        """At Broker 1: unsubscribe only when everything Broker 2 may have missed has been stored here."""
        leaving = self.leaving[release.client, release.epoch]
        leaving.release = release
        if self.router.passed(release.fence):
            self.step_5_forward(leaving)
        else:
            self._before_fence.append(leaving)

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if self._before_fence:  # perhaps somebody's fence is passed now
            ready = [x for x in self._before_fence if x.release and self.router.passed(x.release.fence)]
            for leaving in ready:
                self._before_fence.remove(leaving)
                self.step_5_forward(leaving)

    def step_5_forward(self, leaving: Leaving) -> None:
        """5. Broker 1 forwards stored events to Broker 2, and unsubscribes."""
        context, release = leaving.context, leaving.release
        assert release is not None
        del self.leaving[context.client, release.epoch]
        events = tuple(context.events())
        self.close(context, mobile=True)
        message = StoredEvents(
            client=context.client, epoch=release.epoch, events=events, position=dict(context.position)
        )
        self.host.record(
            Record(
                "transferred",
                self.host.now(),
                self.me,
                context.client,
                peer=release.new_broker,
                count=len(events),
                bytes=message.size_bytes,
            )
        )
        self.router.unicast(release.new_broker, message)

    def on_stored_events(self, old_broker: BrokerId, message: StoredEvents) -> None:
        arriving = self.arriving.get((message.client, message.epoch))
        if arriving is not None:
            context = arriving.context
            context.skip_to(dict(message.position))
            for event in message.events:
                if context.is_new(event) and not context.admit(event, "transferred"):
                    self.drop(context, event, "queue_full")
            if message.last:
                self.step_6_replay(arriving)

    def step_6_replay(self, arriving: Arriving) -> None:
        """6. Broker 2 replays the events from Broker 1, then the new ones of its local queue.

        "Duplicates in the set of events transferred from Broker 1, and those in Broker 2's local queue are
        removed": an event at or below the reach of the context is one.
        """
        context = arriving.context
        del self.arriving[context.client, context.epoch]
        context.close_local_queue()
        self.host.store(context.client)
        self.replay(context)
        request = self.waiting.pop(context, None)
        if request is not None:
            self.hand_over(context, request)

    def on_no_context(self, old_broker: BrokerId, reply: NoContext) -> None:
        """Broker 1 knows nothing of the client (it gave the context up): begin anew with what we have."""
        arriving = self.arriving.get((reply.client, reply.epoch))
        if arriving is not None:
            self.step_6_replay(arriving)

    def arriving_of(self, context: Context) -> Arriving | None:
        return self.arriving.get((context.client, context.epoch))

    def held_contexts(self) -> list[Context]:
        left = [context for contexts in self.left_behind.values() for context in contexts]
        return [*super().held_contexts(), *left, *(leaving.context for leaving in self.leaving.values())]
