"""The standard hand-over: the new broker pulls the context from the broker where the client was.

Paper: [DIS] section 3.1, its six steps, in order; [PRO] section 1 calls them reactive. "Broker 1" is where the client
was, "Broker 2" where it is now.
Departs: a client that moves on before a transfer ends is followed by a chain of transfers, one per broker it
visited, each in the paper's six steps; epochs keep the links of the chain apart (docs/decisions/0003). Which broker
gets a context when claims of several connections are under way is settled in the second half (0007).

A scheme may do some steps its own way: it says which in `OwnSteps`, and calls the standard step from its own.
"""

from dataclasses import replace

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Handler, Mailbox
from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.late import NO_ORIGINS
from roamq.core.local_queue import append_local_queue, close_local_queue, open_local_queue
from roamq.core.messages import Message
from roamq.core.ports import TimerKey
from roamq.core.read_elsewhere import skip_to
from roamq.schemes.messages.handover import (
    ContextRequest,
    NoContext,
    PartialSession,
    Release,
    StoredEvents,
    Subscriptions,
)
from roamq.schemes.parts import transfers
from roamq.schemes.parts.inquiries import Inquiries
from roamq.schemes.parts.late import LATE_TIMER, LateParts
from roamq.schemes.parts.own_steps import Care, Leaving, OwnSteps
from roamq.schemes.parts.part import Part
from roamq.schemes.parts.whereabouts import Arriving, Claim, Whereabouts

NOTHING: frozenset[EventId] = frozenset()


class HandOver(Part):
    """One broker's side of the standard hand-over, as Broker 1 and as Broker 2."""

    hands_over = True

    def __init__(
        self,
        contexts: Contexts,
        mailbox: Mailbox,
        own: OwnSteps | None = None,
        *,
        care: Care | None = None,
        on_device: bool = False,
        may_be_late: bool = False,
    ) -> None:
        self.contexts = contexts
        self.mailbox = mailbox
        self.me = contexts.me
        self.host = contexts.host
        self.router = contexts.router
        self.own = own or OwnSteps()
        self.care = care or Care()
        self.on_device = on_device
        """[DIS] section 3.2.4: whether a release may come without a request before it, and is a claim then."""
        self.whereabouts = Whereabouts(contexts)
        ties = (contexts, mailbox, self.whereabouts, self.step_2_retrieve)
        self.inquiries = Inquiries(*ties, is_used=may_be_late)
        self.leaving: dict[ClientId, dict[tuple[Epoch, BrokerId], Leaving]] = {}
        """Client -> its contexts on their way out, by the transfer and the broker to which they go."""
        self.pending = self._before_fence = list[Leaving]()
        after = (self.on_passed, self.close, self.inquiries.on_restart)
        self.late = LateParts(contexts, mailbox, self._before_fence, *after, is_used=may_be_late)
        """Late events. A scheme in which contexts may go without their late events adds this part, too."""
        for message_type, handler in handlers_of(self).items():
            mailbox.handle(message_type, handler)

    # --- the client comes and goes --------------------------------------------------------------------------

    def on_connect(
        self, client: ClientId, old_broker: BrokerId | None, carried: tuple[Filter, ...] = ()
    ) -> None:
        """The client names its last broker: none if the client is new, this broker if the client has come back."""
        old_broker = self.whereabouts.last_broker(client, old_broker)
        if old_broker is None or old_broker == self.me:
            self.come_back(client)
            return
        if (context := self.contexts.get(client)) is not None:
            self.whereabouts.leave_behind(context)
        self.step_1_reconnected(client, old_broker, carried)

    def come_back(self, client: ClientId) -> None:
        """ "If the client reconnects to Broker 1, then the stored events are simply replayed." """
        context = self.contexts.get(client)
        if context is None:
            context = self.contexts.open(client, self.contexts.new_epoch(), Mode.SERVING)
        else:
            # The context may be of a connection that the client never heard of: this connection is newer still.
            context.epoch = self.contexts.new_epoch(above=context.epoch)
        self.contexts.serve(context)

    def on_subscribe(self, context: Context, filter: Filter) -> None:
        if arriving := self.whereabouts.incomplete.get(context):
            arriving.unsubscribed.discard(filter)

    def on_unsubscribe(self, context: Context, filter: Filter) -> None:
        if arriving := self.whereabouts.incomplete.get(context):
            arriving.unsubscribed.add(filter)

    def on_leave(self, context: Context) -> bool:
        """A context on its way here must arrive before it may end: this broker has to release the old broker first."""
        arriving = self.whereabouts.incomplete.get(context)
        if arriving is None:
            return False
        arriving.leaves = True
        self.whereabouts.leave_behind(context)  # the client's next connection gets another context
        return True

    def on_ended(self, client: ClientId, epoch: Epoch) -> None:
        """A context left behind ends here, since nobody will claim it. A context on its way here ends when it comes."""
        account = self.whereabouts
        for context in [c for c in account.left_behind.get(client, ()) if c.epoch <= epoch]:
            if (arriving := account.incomplete.get(context)) is not None:
                arriving.leaves = True
            else:
                self.host.end_session(context)
                account.remove(context)
                self.close(context)

    def on_event(self, event: Event) -> None:
        """An event has passed: it may be the last one for which some fence waited."""
        self.on_passed()

    def on_passed(self) -> None:
        self._forward([x for x in self._before_fence if self.late.lets_go(x, self.care)])

    def on_timer(self, key: TimerKey) -> bool:
        """A wait has run out: the context goes without its late events, or the claimer asks other brokers."""
        if key[0] != LATE_TIMER:
            return self.inquiries.on_timer(key)
        waiting = [x for x in self._before_fence if x.context.client == key[1]]
        self._forward([x for x in waiting if x.release and x.release.takes_late])
        if self.own.overdue is not None:
            self.own.overdue(ClientId(key[1]))
        return True

    def _forward(self, ready: list[Leaving]) -> None:
        for leaving in ready:
            self._before_fence.remove(leaving)
            (self.own.forward or self.step_5_forward)(leaving)

    # --- the six steps ------------------------------------------------------------------------------------

    def step_1_reconnected(
        self, client: ClientId, old_broker: BrokerId, carried: tuple[Filter, ...] = ()
    ) -> None:
        """1. The client notifies Broker 2 that it was previously connected to Broker 1."""
        context = self.contexts.open(client, self.contexts.new_epoch(), Mode.SERVING)
        arriving = self.expect(context, context.epoch)
        self.contexts.serve(context)
        self.step_2_retrieve(arriving, old_broker, carried)

    def expect(self, context: Context, transfer: Epoch) -> Arriving:
        """Await the stored events of `context`, in messages that are marked with `transfer`."""
        open_local_queue(context)
        arriving = Arriving(context, transfer)
        self.whereabouts.expect(arriving)
        return arriving

    def step_2_retrieve(
        self, arriving: Arriving, old_broker: BrokerId, carried: tuple[Filter, ...] = ()
    ) -> None:
        """2. Broker 2 retrieves the subscriptions associated with the client from Broker 1.

        The request is unnecessary if the client carries its subscriptions on its device ([DIS] section 3.2.4).
        """
        arriving.asked = old_broker
        if carried and self.on_device:
            self.step_3_subscribe(arriving, carried)
            self.step_3_release(arriving, old_broker)
            return
        request = ContextRequest(client=arriving.context.client, epoch=arriving.transfer, new_broker=self.me)
        self.mailbox.send(old_broker, request)
        self.inquiries.watch(arriving, old_broker)

    def on_context_request(self, sender: BrokerId, request: ContextRequest) -> None:
        """At Broker 1: find the context the client had here before it connected at the new broker."""
        self.claim(self.whereabouts.claimed_by(request), request)

    def step_2_hand_over(self, context: Context, claim: Claim) -> None:
        """At Broker 1: the context is the claimer's now; reply with the subscriptions, buffer until released."""
        leaving = self.part_with(context, claim.epoch, claim.new_broker)
        if isinstance(claim, Release):
            self.on_release(claim.new_broker, claim)
        else:
            self.send_subscriptions(leaving, claim)

    def part_with(self, context: Context, transfer: Epoch, new_broker: BrokerId) -> Leaving:
        """Take the context off this broker's table: it belongs to `new_broker` now."""
        if context.mode is Mode.SERVING:
            # The client is elsewhere although its connection here has not ended: the newest connection wins.
            self.host.detach(context.client, "taken over")
            self.contexts.pause(context)
        self.whereabouts.remove(context)
        self.whereabouts.remember(context.client, transfer)
        leaving = Leaving(context)
        self.leaving.setdefault(context.client, {})[transfer, new_broker] = leaving
        return leaving

    def send_subscriptions(self, leaving: Leaving, claim: Claim, *, ids_follow: bool = False) -> None:
        context = leaving.context
        leaving.session_sent = True
        subscriptions = Subscriptions(
            client=context.client,
            epoch=claim.epoch,
            filters=tuple(context.filters),
            session=context.session,
            ids_follow=ids_follow,
        )
        self.mailbox.send(claim.new_broker, subscriptions)
        if self.care.followed and self.own.may_send_head(context):
            others = self.leaving.get(context.client, {}).values()  # none, if the new broker is this one
            for part in transfers.take_head(leaving, claim, self.contexts, others):
                self.mailbox.send(claim.new_broker, part)

    def on_subscriptions(self, old_broker: BrokerId, reply: Subscriptions) -> None:
        arriving = self.whereabouts.arriving.get((reply.client, reply.epoch))
        if arriving is not None:
            self.inquiries.answered(arriving, old_broker)
            self.host.take_session(arriving.context, reply.session)
            self.step_3_subscribe(arriving, reply.filters)
            if not reply.ids_follow:
                self.step_3_release(arriving, old_broker)

    def step_3_subscribe(self, arriving: Arriving, filters: tuple[Filter, ...]) -> None:
        """3. Broker 2 subscribes to these subscriptions ...

        4. From here on Broker 2 stores new events for the client in the local queue.
        """
        for filter in filters:
            if filter not in arriving.unsubscribed:
                self.contexts.add_filter(arriving.context, filter, mobile=True)

    def step_3_release(self, arriving: Arriving, old_broker: BrokerId) -> None:
        """... and then requests Broker 1 to unsubscribe."""
        arriving.released = True
        release = Release(
            client=arriving.context.client,
            epoch=arriving.transfer,
            new_broker=self.me,
            fence=self.contexts.fence(old_broker, arriving.context, arriving.unsubscribed),
            takes_late=self.late.after_s is not None,
        )
        self.mailbox.send(old_broker, release)

    def on_release(self, new_broker: BrokerId, release: Release) -> None:
        """At Broker 1: unsubscribe only when everything Broker 2 may have missed has been stored here."""
        leaving = self.leaving.get(release.client, {}).get((release.epoch, release.new_broker))
        if leaving is None:
            if self.on_device:
                self.claim(self.whereabouts.claimed_by(release), release)
            else:  # this broker lost its store since it answered, or took the context back
                newer = self.whereabouts.went_since(release) if self.late.after_s is not None else None
                none = NoContext(client=release.client, epoch=release.epoch, newer=newer)
                self.mailbox.send(release.new_broker, none)
            return
        leaving.release = release
        if leaving not in self._before_fence:
            self._before_fence.append(leaving)
        if self.late.lets_go(leaving, self.care):
            self._forward([leaving])
        else:
            self.late.wait(release.client)

    def step_5_forward(self, leaving: Leaving, *, without: frozenset[EventId] = NOTHING) -> None:
        """5. Broker 1 forwards stored events to Broker 2, and unsubscribes."""
        context, release = leaving.context, leaving.release
        assert release is not None
        others = self.leaving[context.client]
        del others[release.epoch, release.new_broker]
        if not others:
            del self.leaving[context.client]
        events = tuple(event for event in context.events() if event.id not in without)
        may_be_late = self.care.fenced and self.late.after_s is not None
        late = self.late.missing(context, release.fence) if may_be_late else NO_ORIGINS
        message = StoredEvents(
            client=context.client,
            epoch=release.epoch,
            events=events,
            position=dict(context.position),
            ahead=context.ahead_rows,
            session=None if leaving.session_sent else context.session,
            late=tuple(sorted(late)),
        )
        is_shared = any(other.context is context for other in others.values())
        if late:
            owed = self.contexts.new_like(context) if is_shared else context
            self.late.owe(owed, release.epoch, release.new_broker, release.fence, late)
        elif not is_shared:
            self.close(context, mobile=True)
        for part in transfers.stored_as(
            message,
            release.new_broker,
            self.contexts,
            at_once=self.care.at_once,
            is_whole=self.own.takes_whole(context),
            head_sent=leaving.head_sent,
        ):
            self.mailbox.send(release.new_broker, part)

    def on_stored_events(self, old_broker: BrokerId, message: StoredEvents) -> None:
        arriving = self.whereabouts.arriving.get((message.client, message.epoch))
        if arriving is None:
            if not self.care.followed:
                transfers.record_late(self.host, self.me, message)
            elif message.last:
                self.late.on_given_up(message.client, message.epoch, message.late)
            return
        context = arriving.context
        if message.session is not None:
            self.host.take_session(context, message.session)
        skip_to(context, dict(message.position), message.ahead)
        # Events from this broker itself (from a copy that was prefetched here) came by multicast.
        how = "stored" if old_broker == self.me else "transferred"
        (self.own.admit_all or self.admit_all)(arriving, message, how)
        if message.last:
            if message.late:
                self.late.await_rest(context, arriving.transfer, old_broker, message.late)
            self.replay(arriving)
        elif arriving.answered and self.contexts.sends_heads:
            self.contexts.deliver_head(context)

    def admit_all(self, arriving: Arriving, message: StoredEvents, how: str) -> None:
        for event in message.events:
            self.admit_older(arriving.context, event, how)

    def admit_older(self, context: Context, event: Event, how: str) -> None:
        """Admit an older event, from another broker or a log: it goes before the events of the local queue."""
        if self.care.deduplicated and not context.is_new(event):
            return
        if not context.admit(event, how):
            self.contexts.drop(context, event, "queue_full")

    def step_6_replay(self, arriving: Arriving) -> None:
        """6. Broker 2 replays the events from Broker 1, then the new ones of its local queue.

        "Duplicates [...] are removed": the context does that as it closes the queue.
        """
        context = arriving.context
        self.whereabouts.expect_no_more(arriving)
        if not self.care.deduplicated and context.local_queue:
            append_local_queue(context)
        close_local_queue(context)
        if arriving.leaves:
            claims = self.whereabouts.waiting.pop(context, [])
            self.whereabouts.remove(context)
            self.host.end_session(context)
            self.close(context)
            ended_here = Epoch(context.epoch.connected_at, self.me)
            self.whereabouts.remember(context.client, ended_here)
            for claim in claims:
                self.redirect(claim)
            return
        self.contexts.resume(context)
        (self.own.completed or self.completed)(context)

    def completed(self, context: Context) -> None:
        """The context is whole: answer the brokers that have claimed it meanwhile."""
        # The earliest connection after this one gets the context, and later ones are redirected to it; a claim older
        # than the context is of a connection that the client gave up to come back here.
        for claim in sorted(self.whereabouts.waiting.pop(context, []), key=lambda claim: claim.epoch):
            is_due = self.whereabouts.is_held(context) and context.epoch < claim.epoch
            self.claim(context if is_due else None, claim)

    # --- steps that a scheme may do its own way -------------------------------------------------------------

    def claim(self, context: Context | None, claim: Claim) -> None:
        """A broker claims `context`; None: a context that is not here."""
        (self.own.claim or self.standard_claim)(context, claim)

    def replay(self, arriving: Arriving) -> None:
        """All events of this context have come: do step 6."""
        (self.own.replay or self.step_6_replay)(arriving)

    def close(self, context: Context, *, mobile: bool = False) -> None:
        (self.own.close or self.contexts.close)(context, mobile=mobile)

    # --- claims to contexts that have moved -----------------------------------------------------------------

    def standard_claim(self, context: Context | None, claim: Claim) -> None:
        arriving = None if context is None else self.whereabouts.incomplete.get(context)
        if arriving is not None and arriving.released and not self.care.followed:
            self.replay(arriving)  # events that have not come by now come too late
            context = self.whereabouts.claimed_by(claim)  # an earlier claim may have got it
        if context is None:
            self.redirect(claim)
        elif context in self.whereabouts.incomplete:
            # The client was faster than its context: this broker hands the context on when it is whole.
            self.whereabouts.waiting.setdefault(context, []).append(claim)
        else:
            (self.own.hand_over or self.step_2_hand_over)(context, claim)

    def redirect(self, claim: Claim) -> None:
        """The context is not here: pass the claim on to the broker to which it went, or answer that nothing is here."""
        lead = self.whereabouts.lead(claim)
        if lead.gone is not None:
            to = lead.gone.broker
            self.mailbox.send(to, transfers.addressed(replace(claim, after=lead.gone), to, self.contexts))
        elif lead.awaited is not None:
            self.whereabouts.waiting.setdefault(lead.awaited, []).append(claim)
        else:
            is_given = self.whereabouts.has_gone_to(claim)
            reply = NoContext(
                client=claim.client,
                epoch=claim.epoch,
                newer=None if is_given else lead.newer,
                forgot=lead.newer is None and self.contexts.is_doubted and not is_given,
                is_given=is_given,
                awaits=lead.awaits and lead.newer is not None and not is_given,
            )
            self.mailbox.send(claim.new_broker, reply)

    def on_no_context(self, old_broker: BrokerId, reply: NoContext) -> None:
        """Broker 1 has no context of the client (any more): go on with what is here, or seek the context elsewhere."""
        arriving = self.whereabouts.arriving.get((reply.client, reply.epoch))
        if arriving is None or self.inquiries.is_idle(arriving, old_broker, reply):
            return
        if (reply.forgot or self.inquiries.others_may_have(arriving, reply)) and self.care.followed:
            self.inquiries.denied(arriving, old_broker, reply.newer)
            return
        if reply.newer is not None and self.inquiries.is_own(reply.newer):
            self.inquiries.denied(arriving, old_broker)
            return
        newer = reply.newer or self.inquiries.newer(arriving)
        if newer is None and (here := self.whereabouts.whole_since(arriving.context)) is not None:
            (self.own.step_aside or self.step_aside)(arriving, here)
            return
        if newer is None:
            self.replay(arriving)
            return
        self.whereabouts.remember(reply.client, newer, awaits=reply.awaits or reply.newer is None)
        if newer > arriving.context.epoch:
            (self.own.step_aside or self.step_aside)(arriving, newer)
        else:
            self.ask_again(arriving, newer)

    def ask_again(self, arriving: Arriving, newer: Epoch) -> None:
        """A later connection has the context, but the client has come back here since: claim the context from there.

        The brokers of connections between the two would wait for this broker while it waits for them: redirect them.
        """
        account, context = self.whereabouts, arriving.context
        account.mark_anew(arriving, context.epoch)
        arriving.inquiry = None
        arriving.claims.clear()
        self.step_2_retrieve(arriving, newer.broker)
        claims = account.waiting.pop(context, [])
        if after := [claim for claim in claims if claim.epoch > context.epoch]:
            account.waiting[context] = after
        for claim in claims:
            if claim.epoch < context.epoch:
                self.redirect(claim)

    def step_aside(self, arriving: Arriving, newer: Epoch) -> None:
        """The client has connected elsewhere since, and its context is there: keep nothing here."""
        account, context = self.whereabouts, arriving.context
        if context.mode is Mode.SERVING:
            self.host.detach(context.client, "taken over")
        if context.session is not None:
            partial = PartialSession(client=context.client, epoch=newer, session=context.session)
            self.mailbox.send(newer.broker, partial)
        account.expect_no_more(arriving)
        claims = account.waiting.pop(context, [])
        account.remove(context)
        self.close(context)
        for claim in claims:
            self.redirect(claim)

    # --- what others ask ----------------------------------------------------------------------------------

    def left_behind(self) -> int:
        return len(self.whereabouts.left_behind)

    def held(self) -> list[Context]:
        """The contexts that clients left behind, and the contexts that belong to another broker already."""
        leaving = (leaving.context for of_client in self.leaving.values() for leaving in of_client.values())
        return [*self.whereabouts.held(), *dict.fromkeys(leaving)]


def handlers_of(handover: HandOver) -> dict[type[Message], Handler]:
    """Message type -> its handler in the hand-over. A scheme may put its own handlers in their place."""
    return {
        ContextRequest: handover.on_context_request,
        Subscriptions: handover.on_subscriptions,
        Release: handover.on_release,
        StoredEvents: handover.on_stored_events,
        NoContext: handover.on_no_context,
        **handover.inquiries.handlers(),
        **handover.late.handlers(),
    }
