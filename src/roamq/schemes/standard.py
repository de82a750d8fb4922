"""The standard algorithm: the context waits at the last broker and is pulled by the new one.

Paper: [DIS] section 3.1, its six steps; [PRO] section 1 calls it reactive.
Assumes: reliable FIFO links; the client names the broker it was at before.
Departs: a client that moves on before a transfer ends is followed by a chain of transfers, one per broker it
visited, each in the paper's six steps; epochs keep the links of the chain apart (docs/decisions/0003). Whose a context
is when claims of several connections are under way is settled in `claims.py`.
"""

from dataclasses import dataclass

from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import (
    ContextRequest,
    NoContext,
    Release,
    StoredEvents,
    Subscriptions,
)
from roamq.core.ports import Host
from roamq.core.records import Record
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions, register
from roamq.schemes.claims import Arriving, Claim, Claims


@dataclass(slots=True)
class Leaving:
    """A context that belongs to another broker now; it buffers until that one has subscribed."""

    context: Context
    release: Release | None = None


@register
class Standard(Claims):
    """One broker's part of the standard algorithm."""

    name = "standard"

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        self.leaving: dict[tuple[ClientId, Epoch, BrokerId], Leaving] = {}
        self._before_fence: list[Leaving] = []
        self.handle(ContextRequest, self.on_context_request)
        self.handle(Subscriptions, self.on_subscriptions)
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
            else:
                # A connection in between that the client never heard of is older than this one.
                context.epoch = self.new_epoch(above=context.epoch)
            self.serve(context, resumed=resumed)
            return
        if context is not None:
            self.leave_behind(context)
        self.step_1_reconnected(client, old_broker, carried)

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        # "The broker begins to locally store the events that the client would have received."
        context = self.contexts.get(client)
        if context is not None and context.mode is Mode.SERVING:
            self.pause(context)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        if arriving := self.incomplete.get(self.contexts[client]):
            arriving.unsubscribed.add(filter)
        super().on_unsubscribe(client, filter)

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        if arriving := self.incomplete.get(self.contexts[client]):
            arriving.unsubscribed.discard(filter)
        super().on_subscribe(client, filter)

    def on_leave(self, client: ClientId) -> None:
        context = self.contexts.get(client)
        if context is not None and (arriving := self.incomplete.get(context)):
            arriving.leaves = True  # the old broker must be released before this one may forget
            self.leave_behind(context)  # what the client does next begins anew
        else:
            super().on_leave(client)

    # --- the six steps ------------------------------------------------------------------------------------

    def step_1_reconnected(
        self, client: ClientId, old_broker: BrokerId, carried: tuple[Filter, ...] = ()
    ) -> None:
        """1. The client notifies Broker 2 that it was previously connected to Broker 1."""
        context = self.open(client, self.new_epoch(), Mode.SERVING)
        arriving = self.expect(context, context.epoch)
        self.serve(context, resumed=True)
        self.step_2_retrieve(arriving, old_broker, carried)

    def step_2_retrieve(
        self, arriving: Arriving, old_broker: BrokerId, carried: tuple[Filter, ...] = ()
    ) -> None:
        """2. Broker 2 retrieves the subscriptions associated with the client from Broker 1."""
        request = ContextRequest(client=arriving.context.client, epoch=arriving.transfer, new_broker=self.me)
        self.tell(old_broker, request)

    def on_context_request(self, sender: BrokerId, request: ContextRequest) -> None:
        """At Broker 1: find the context the client had here before it connected at the new broker."""
        self.claim(self.claimed_by(request), request)

    def hand_over(self, context: Context, claim: Claim) -> None:
        """At Broker 1: the context is the claimer's now; reply with the subscriptions, buffer until released."""
        self.part_with(context, claim.epoch, claim.new_broker)
        self.tell(claim.new_broker, self.subscriptions_of(context, claim))

    def subscriptions_of(self, context: Context, claim: Claim) -> Subscriptions:
        return Subscriptions(
            client=context.client,
            epoch=claim.epoch,
            filters=tuple(context.filters),
            session=context.session,
        )

    def part_with(self, context: Context, transfer: Epoch, new_broker: BrokerId) -> Leaving:
        """The context belongs to `new_broker` now."""
        if context.mode is Mode.SERVING:
            # The client shows up elsewhere while we still believed in it: the newest connection wins.
            self.host.detach(context.client, "taken over")
            self.pause(context)
        self.take_off(context)
        self.remember_where(context.client, transfer)
        leaving = self.leaving[context.client, transfer, new_broker] = Leaving(context)
        return leaving

    def on_subscriptions(self, old_broker: BrokerId, reply: Subscriptions) -> None:
        arriving = self.arriving.get((reply.client, reply.epoch))
        if arriving is not None:
            self.host.take_session(arriving.context, reply.session)
            self.step_3_subscribe(arriving, reply.filters)
            self.step_3_release(arriving, old_broker)

    def step_3_subscribe(self, arriving: Arriving, filters: tuple[Filter, ...]) -> None:
        """3. Broker 2 subscribes to these subscriptions ...

        4. From here on `on_event` stores new events for the client in the local queue.
        """
        for filter in filters:
            if filter not in arriving.unsubscribed:
                self.add_filter(arriving.context, filter, mobile=True)

    def step_3_release(self, arriving: Arriving, old_broker: BrokerId) -> None:
        """... and then requests Broker 1 to unsubscribe."""
        arriving.released = True
        release = Release(
            client=arriving.context.client,
            epoch=arriving.transfer,
            new_broker=self.me,
            fence=self.router.fence(),
        )
        self.tell(old_broker, release)

    def on_release(self, new_broker: BrokerId, release: Release) -> None:
        """At Broker 1: unsubscribe only when everything Broker 2 may have missed has been stored here."""
        leaving = self.leaving.get((release.client, release.epoch, release.new_broker))
        if leaving is None:  # this broker lost its store since it answered: nothing will come from here
            self.tell(release.new_broker, NoContext(client=release.client, epoch=release.epoch))
            return
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
        del self.leaving[context.client, release.epoch, release.new_broker]
        message = self.stored_events_of(context, release)
        if not any(other.context is context for other in self.leaving.values()):
            self.close(context, mobile=True)
        self.host.record(
            Record(
                "transferred",
                self.host.now(),
                self.me,
                context.client,
                peer=release.new_broker,
                count=len(message.events),
                bytes=message.size_bytes,
            )
        )
        self.tell(release.new_broker, message)

    def stored_events_of(self, context: Context, release: Release) -> StoredEvents:
        return StoredEvents(
            client=context.client,
            epoch=release.epoch,
            events=tuple(context.events()),
            position=dict(context.position),
            session=self.session_for(context, release),
        )

    def session_for(self, context: Context, release: Release) -> object | None:
        """What must travel with the stored events because it did not travel with the subscriptions."""
        return None

    def on_stored_events(self, old_broker: BrokerId, message: StoredEvents) -> None:
        arriving = self.arriving.get((message.client, message.epoch))
        if arriving is None:
            return
        context = arriving.context
        if message.session is not None:
            self.host.take_session(context, message.session)
        context.skip_to(dict(message.position))
        # What this broker had itself (a copy that was prefetched here) came by multicast.
        self.take_in_all(arriving, message, "stored" if old_broker == self.me else "transferred")
        if message.last:
            self.step_6_replay(arriving)

    def take_in_all(self, arriving: Arriving, message: StoredEvents, how: str) -> None:
        for event in message.events:
            self.take_in(arriving.context, event, how)

    def take_in(self, context: Context, event: Event, how: str) -> None:
        """An older event came, from another broker or a log: it goes before what waits in the local queue."""
        if context.is_new(event) and not context.admit(event, how):
            self.drop(context, event, "queue_full")

    def step_6_replay(self, arriving: Arriving) -> None:
        """6. Broker 2 replays the events from Broker 1, then the new ones of its local queue.

        "Duplicates in the set of events transferred from Broker 1, and those in Broker 2's local queue are
        removed": the context does that as it closes the queue.
        """
        context = arriving.context
        self.expect_no_more(arriving)
        context.close_local_queue()
        if arriving.leaves:
            claims = self.waiting.pop(context, [])
            self.take_off(context)
            self.close(context)
            self.remember_where(context.client, Epoch(context.epoch.connected_at, self.me))  # it ended here
            for claim in claims:
                self.point_onward(claim)
            return
        self.host.store(context.client)
        self.replay(context)
        self.completed(context)

    # --- bookkeeping --------------------------------------------------------------------------------------

    def held_contexts(self) -> list[Context]:
        leaving = dict.fromkeys(leaving.context for leaving in self.leaving.values())
        return [*super().held_contexts(), *leaving]
