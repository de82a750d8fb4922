"""The standard algorithm: the context waits at the last broker and is pulled by the new one.

Paper: [DIS] section 3.1, its six steps; [PRO] section 1 calls it reactive.
Assumes: reliable FIFO links; the client names the broker it was at before.
Departs: a client that moves on before a transfer ends is followed by a chain of transfers, one per broker it
visited, each in the paper's six steps; epochs keep the links of the chain apart (docs/decisions/0003).
"""

from dataclasses import dataclass, field, replace

from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import (
    ContextRequest,
    Message,
    NoContext,
    Release,
    SessionLeft,
    StoredEvents,
    Subscriptions,
)
from roamq.core.ports import Host
from roamq.core.records import Record
from roamq.overlay.base import Router
from roamq.schemes.base import Scheme, SchemeOptions, register

REMEMBERED_MAX = 100_000
"""How many clients' whereabouts a broker remembers after they left."""

Claim = ContextRequest | Release
"""What a new broker claims a context with: a request, or a release at once if it has the subscriptions."""


@dataclass(slots=True)
class Arriving:
    """A context on its way here: opened at connect, complete with the last stored event."""

    context: Context
    transfer: Epoch
    """What its messages are marked with: the epoch of the connection that asked for the context."""
    released: bool = False
    """Whether Broker 1 was told that it may unsubscribe."""
    unsubscribed: set[Filter] = field(default_factory=set)
    """What the client unsubscribed before we knew that it had subscribed."""
    leaves: bool = False
    """Whether the client has gone for good before its context came."""


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
        self.incomplete: dict[Context, Arriving] = {}
        """The same, by context."""
        self.left_behind: dict[ClientId, list[Context]] = {}
        """Contexts whose client has been elsewhere since: the broker it went to will ask for them."""
        self.waiting: dict[Context, list[Claim]] = {}
        """Claims to contexts that are themselves still arriving."""
        self.leaving: dict[tuple[ClientId, Epoch, BrokerId], Leaving] = {}
        self._before_fence: list[Leaving] = []
        self.gone_to: dict[ClientId, Epoch] = {}
        """Where contexts went that were here: for claims of clients that outran the news."""
        self.handle(ContextRequest, self.on_context_request)
        self.handle(Subscriptions, self.on_subscriptions)
        self.handle(NoContext, self.on_no_context)
        self.handle(Release, self.on_release)
        self.handle(SessionLeft, self.on_session_left)
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

    def leave_behind(self, context: Context) -> None:
        """The client was elsewhere since it left us: that broker's request for this context is on its way."""
        if context.mode is Mode.SERVING:
            self.pause(context)
        self.left_behind.setdefault(context.client, []).append(context)
        self.forget(context)

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

    def claim(self, context: Context | None, claim: Claim) -> None:
        if context is None:
            self.point_onward(claim)
        elif context in self.incomplete:
            # The client was faster than its context: hand on when it is whole.
            self.waiting.setdefault(context, []).append(claim)
        else:
            self.hand_over(context, claim)

    def point_onward(self, claim: Claim) -> None:
        """The client's old broker was not the last one: pass the claim on to where the context went.

        Each step leads to a later connection, and none later than the claim's, so it ends. A later context that is
        whole here has come back from wherever an earlier one went: that trail is cold. One that is still awaited
        may have been asked for before the claimer's connection; then what comes is what the claim is looking for.
        """
        later = [context for context in self.held_for(claim.client) if context.epoch > claim.epoch]
        whole = [context.epoch for context in later if context not in self.incomplete]
        gone = self.gone_to.get(claim.client)
        if gone is not None and not whole and self.leads_on(gone, claim):
            self.tell(gone.broker, replace(claim, after=gone))
            return
        newer = whole if gone is None or gone <= claim.epoch else [*whole, gone]
        if not newer:
            for context in later:
                if self.incomplete[context].transfer < claim.epoch:
                    self.waiting.setdefault(context, []).append(claim)
                    return
            newer = [context.epoch for context in later]
        reply = NoContext(client=claim.client, epoch=claim.epoch, newer=min(newer, default=None))
        self.tell(claim.new_broker, reply)

    def leads_on(self, gone: Epoch, claim: Claim) -> bool:
        """Is a later connection than the claim has asked at, elsewhere, and not later than its own?"""
        return gone.broker != self.me and gone < claim.epoch and (claim.after is None or gone > claim.after)

    def claimed_by(self, claim: Claim) -> Context | None:
        """The newest context here that is older than the claimer's connection."""
        candidates = [c for c in self.held_for(claim.client) if c.epoch < claim.epoch]
        return max(candidates, key=lambda c: c.epoch, default=None)

    def held_for(self, client: ClientId) -> list[Context]:
        """The client's contexts that are this broker's: those it left behind, and its current one."""
        held = list(self.left_behind.get(client, ()))
        if (current := self.contexts.get(client)) is not None:
            held.append(current)
        return held

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

    def completed(self, context: Context) -> None:
        """The context is whole; whoever waits for it may have it."""
        # The earliest connection after this one comes first, and later ones are pointed on to it; a claim older
        # than the context is of a connection that the client gave up to come back here.
        for claim in sorted(self.waiting.pop(context, []), key=lambda claim: claim.epoch):
            is_held = self.contexts.get(context.client) is context or context in self.left_behind.get(
                context.client, ()
            )
            self.claim(context if is_held and context.epoch < claim.epoch else None, claim)

    def on_no_context(self, old_broker: BrokerId, reply: NoContext) -> None:
        """Broker 1 knows nothing of the client (it gave the context up): begin anew with what we have."""
        arriving = self.arriving.get((reply.client, reply.epoch))
        if arriving is None:
            return
        if reply.newer is None:
            self.step_6_replay(arriving)
        elif reply.newer > arriving.context.epoch:
            self.step_aside(arriving, reply.newer)
        else:
            self.ask_again(arriving, reply.newer)

    def ask_again(self, arriving: Arriving, newer: Epoch) -> None:
        """The claim was older than who has the context, but the client has come back here since: claim it anew.

        Claims of connections in between would wait for us while we wait for them: they are pointed on.
        """
        context = arriving.context
        del self.arriving[context.client, arriving.transfer]
        arriving.transfer = context.epoch
        self.arriving[context.client, arriving.transfer] = arriving
        self.remember_where(context.client, newer)
        self.step_2_retrieve(arriving, newer.broker)
        claims = self.waiting.pop(context, [])
        if after := [claim for claim in claims if claim.epoch > context.epoch]:
            self.waiting[context] = after
        for claim in claims:
            if claim.epoch < context.epoch:
                self.point_onward(claim)

    def step_aside(self, arriving: Arriving, newer: Epoch) -> None:
        """The client has connected elsewhere since, and its context is there: nothing is kept here."""
        context = arriving.context
        if context.mode is Mode.SERVING:
            self.host.detach(context.client, "taken over")
        if context.session is not None:
            self.tell(newer.broker, SessionLeft(client=context.client, epoch=newer, session=context.session))
        self.expect_no_more(arriving)
        claims = self.waiting.pop(context, [])
        self.take_off(context)
        self.close(context)
        self.remember_where(context.client, newer)
        for claim in claims:
            self.point_onward(claim)

    def on_session_left(self, sender: BrokerId, message: SessionLeft) -> None:
        held = self.held_for(message.client)
        gone = self.gone_to.get(message.client)
        if held:
            self.host.take_session(max(held, key=lambda context: context.epoch), message.session)
        elif gone is not None and gone > message.epoch and gone.broker != self.me:
            self.router.unicast(gone.broker, replace(message, epoch=gone))

    def went_to(self, client: ClientId) -> BrokerId | None:
        gone = self.gone_to.get(client)
        return None if gone is None or client in self.contexts or gone.broker == self.me else gone.broker

    def remember_where(self, client: ClientId, epoch: Epoch) -> None:
        known = self.gone_to.pop(client, None)
        self.gone_to[client] = epoch if known is None else max(known, epoch)
        if len(self.gone_to) > REMEMBERED_MAX:
            del self.gone_to[next(iter(self.gone_to))]  # the one heard of least recently

    # --- bookkeeping --------------------------------------------------------------------------------------

    def tell(self, broker: BrokerId, message: Message) -> None:
        """To another broker, or to ourselves: a context that is here already takes the same steps without links."""
        if broker == self.me:
            self.on_message(self.me, message)
        else:
            self.router.unicast(broker, message)

    def expect(self, context: Context, transfer: Epoch) -> Arriving:
        """Stored events for `context` are on their way, marked `transfer`."""
        context.open_local_queue()
        arriving = Arriving(context, transfer)
        self.arriving[context.client, transfer] = self.incomplete[context] = arriving
        return arriving

    def expect_no_more(self, arriving: Arriving) -> None:
        del self.arriving[arriving.context.client, arriving.transfer]
        del self.incomplete[arriving.context]

    def held_contexts(self) -> list[Context]:
        left = [context for contexts in self.left_behind.values() for context in contexts]
        leaving = dict.fromkeys(leaving.context for leaving in self.leaving.values())
        return [*super().held_contexts(), *left, *leaving]
