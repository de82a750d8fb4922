"""Pro-active caching: passive copies of a client's context wait at the learned neighbors.

Paper: [PRO] section 4.1; the eight cases stand here in the paper's order. Fig. 1's states are in `proactive_states.py`,
the messages to and from neighbors in `parts/copies.py`, the neighbor graph (section 4.2) in `parts/neighbors.py`.
Assumes: reliable FIFO links between brokers (section 3). A client may show the epoch of its last connection.
Departs: the control attribute is an epoch, not a broker id alone (docs/decisions/0040); an active copy serves the
client at once only if it is known to be of its last connection (0041); copies change hands only when they are
known to have arrived (0042); the read position is kept per origin, not per subscription (0002).
Without a copy, the context is requested as the standard algorithm does ("reactive", in the paper's words), without
loss or, by the option `fallback`, as the paper's own reactive scheme does it.

Invariant (docs/pro.md): the context of a connection, and every whole active copy of it, hold exactly the events
above one common position that have passed their brokers.
"""

from dataclasses import dataclass, replace

from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.local_queue import open_local_queue
from roamq.core.read_elsewhere import start_over
from roamq.schemes.base import Scheme, SchemeOptions, Setup
from roamq.schemes.messages.copies import (
    Activate,
    Activated,
    CopiesLeft,
    CopyRequest,
    Deactivate,
    Delete,
    Forwarded,
    MovedHere,
    PassiveCopy,
)
from roamq.schemes.messages.handover import ContextRequest, NoContext, Subscriptions
from roamq.schemes.messages.neighbors import NeighborList
from roamq.schemes.parts.copies import HeldCopies, SentCopies
from roamq.schemes.parts.departed import DepartedBrokers, LostCopies
from roamq.schemes.parts.neighbors import NeighborGraph, Neighborhood
from roamq.schemes.parts.own_steps import Leaving, OwnSteps, always
from roamq.schemes.parts.whereabouts import Arriving, Claim
from roamq.schemes.proactive_beside import ProActiveBeside
from roamq.schemes.proactive_options import FALLBACKS, ProActiveOptions
from roamq.schemes.proactive_states import State, Stimulus, after


@dataclass(slots=True, kw_only=True, eq=False)
class TakenOver(Arriving):
    """An active copy that serves its client, but is not whole yet, or not confirmed."""

    taken: Epoch
    whole: bool
    confirmed: bool


class ProActive(Scheme):
    """One broker's part of pro-active caching."""

    name = "proactive"
    options_type = ProActiveOptions
    lets_brokers_depart = True
    messages = (
        *(
            PassiveCopy,
            Activate,
            Activated,
            CopyRequest,
            Forwarded,
            Deactivate,
            Delete,
            MovedHere,
            CopiesLeft,
        ),
        NeighborList,
    )
    stands_beside_others = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.beside = ProActiveBeside(self)
        options = setup.options
        assert isinstance(options, ProActiveOptions)
        own = OwnSteps(
            hand_over=self.hand_over,
            forward=self.step_5_forward,
            replay=self.step_6_replay,
            completed=self.completed,
            step_aside=self.step_aside,
            overdue=self.overdue,
            sends_head=always,
        )
        care = FALLBACKS[options.fallback]
        self.handover = self.hand_over_by(setup, own, care=care, may_be_late=True)
        self.late = self.handover.late
        self.whereabouts = self.handover.whereabouts
        self.copies = self.add(HeldCopies(self.contexts, self.mailbox, self.handover))
        self.sent = self.add(SentCopies(self.contexts, self.mailbox, self.all_forwarded))
        graph = NeighborGraph(
            self.me,
            lifetime_s=options.neighbor_lifetime_s,
            limit=options.neighbor_limit,
            outlier_crossings=options.outlier_crossings,
            outlier_s=options.outlier_s,
        )
        graph.warm_start(options.warm_start, self.host.now())
        self.neighborhood = self.add(Neighborhood(self.contexts, self.mailbox, graph))
        self.taken: dict[tuple[ClientId, Epoch], TakenOver] = {}
        """Copies in service that are not whole or not confirmed, by client and the epoch that activated them."""
        self.successors: dict[Context, Claim] = {}
        """Contexts that another broker has taken over, and from which this one still forwards events -> the claim."""
        self.keeping: set[tuple[ClientId, Epoch]] = set()
        """Connections elsewhere for which this broker, a neighbor of theirs, keeps a copy when it has forwarded all."""
        self.mailbox.handle(MovedHere, self.on_moved_here)
        self.mailbox.handle(CopiesLeft, self.on_copies_left)
        self.add(DepartedBrokers(self.handover, MovedHere))
        self.add(LostCopies(self))
        # These messages, which parts handle, concern a copy in service as well.
        self.mailbox.handle(ContextRequest, self.on_context_request)
        self.mailbox.handle(Subscriptions, self.on_subscriptions)
        self.mailbox.handle(NoContext, self.on_no_context)
        self.mailbox.handle(Forwarded, self.on_forwarded)

    @classmethod
    def guaranteed(cls, options: SchemeOptions) -> frozenset[str]:
        """The paper's own reactive transfer loses and repeats messages, and so does a scheme that falls back on it."""
        assert isinstance(options, ProActiveOptions)
        return cls.guarantees if options.fallback == "standard" else frozenset({"leak"})

    # --- which case it is ---------------------------------------------------------------------------------

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        old_broker = self.whereabouts.last_broker(client, old_broker)
        context = self.contexts.get(client)
        copy = self.copies.get(client)
        if old_broker is None and context is None and copy is not None:
            old_broker = copy.epoch.broker  # the client does not say where it was, but its copy does
        if old_broker is not None and old_broker != self.me:
            if context is not None:
                self.whereabouts.leave_behind(context)
            self.case_5_moved_here(client, old_broker, ticket.epoch if ticket else None)
        elif context is None:
            self.case_1_first_connect(client)
        else:
            self.case_3_came_back(context)

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        context = self.contexts.get(client)
        if context is not None and context.mode is Mode.SERVING:
            assert after(self.own_state(context), Stimulus.DISCONNECT) is State.AWAY
            self.contexts.pause(context)
            self.case_2_disconnected(context)

    def fell(self, context: Context) -> None:
        self.on_disconnect(context.client, "crashed")

    def resumed(self) -> None:
        for context in self.successors:
            self.late.wait(context.client)

    def on_leave(self, client: ClientId) -> None:
        context = self.contexts.get(client)
        if context is None or context in self.whereabouts.incomplete:
            super().on_leave(client)  # a context on its way arrives first
        else:
            assert after(self.own_state(context), Stimulus.UNSUBSCRIBE) is State.NONE
            self.case_6_unsubscribed(context)

    def on_timeout(self, context: Context) -> None:
        if context in self.whereabouts.incomplete:
            self.contexts.pause(context)  # the client may not come, but the context will
        else:
            self.case_8_timed_out(context)

    def own_state(self, context: Context) -> State:
        return State.SERVING if context.mode is Mode.SERVING else State.AWAY

    # --- case 1: the client connects for the first time ------------------------------------------------------

    def case_1_first_connect(self, client: ClientId) -> None:
        """S connects: a passive copy of Sub(S) goes to each neighbor as S subscribes."""
        assert after(State.NONE, Stimulus.CONNECT) is State.SERVING
        context = self.contexts.open(client, self.contexts.new_epoch(), Mode.SERVING)
        self.contexts.serve(context)

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        super().on_subscribe(client, filter)
        self.spread_change(self.contexts[client])

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        super().on_unsubscribe(client, filter)
        self.spread_change(self.contexts[client])

    def spread_change(self, context: Context) -> None:
        """The subscriptions of S changed while it is connected: send its copies the new ones."""
        if context not in self.whereabouts.incomplete:
            holders, neighbors = self.sent.holders.get(context, ()), self.neighborhood.graph.edges
            if holders or neighbors:
                self.sent.send(context, {*neighbors, *holders})

    # --- case 2: the client disconnects ----------------------------------------------------------------------

    def case_2_disconnected(self, context: Context) -> None:
        """S is gone: activate its copies, and forward Msgs(S) to each until it has acknowledged.

        A context that is itself on its way waits: there is nothing to activate with until it is whole. A context that
        lacks late events activates no copies: the broker to which S comes requests it.
        """
        is_whole = context not in self.whereabouts.incomplete and context.late is None
        if is_whole and self.neighborhood.neighbors:
            self.sent.activate(context, self.neighborhood.neighbors)

    # --- case 3: the client comes back -----------------------------------------------------------------------

    def case_3_came_back(self, context: Context) -> None:
        """S reconnects here: the neighbors deactivate, and S gets what was buffered."""
        assert after(self.own_state(context), Stimulus.RECONNECT) is State.SERVING
        before, context.epoch = context.epoch, self.contexts.new_epoch(above=context.epoch)
        if context not in self.whereabouts.incomplete:
            self.sent.stop(context)
            if context.mode is Mode.ACTIVE:
                for holder in sorted(self.sent.holders.get(context, ())):
                    deactivate = Deactivate(client=context.client, epoch=before, successor=context.epoch)
                    self.mailbox.send(holder, deactivate)
        self.contexts.serve(context)

    # --- case 4: the client has moved away -------------------------------------------------------------------

    def on_moved_here(self, new_broker: BrokerId, message: MovedHere) -> None:
        """ "Bk informs Bj that it is currently serving S", from the copy that Bj activated there."""
        request = ContextRequest(
            client=message.client, epoch=message.epoch, new_broker=new_broker, takes_late=message.takes_late
        )
        context = self.whereabouts.claimed_by(request)
        if context is None or context.epoch != message.taken or self.sent.has_given_up(context, new_broker):
            # The copy was not of the last connection, or it lacks events.
            self.on_context_request(new_broker, request)
            return
        self.neighborhood.learn(new_broker)
        assert after(self.own_state(context), Stimulus.MOVED_AWAY) is State.NONE
        self.case_4_moved_away(context, request)
        self.whereabouts.remove(context)
        self.whereabouts.remember(context.client, request.epoch)
        activation = self.sent.activations.get(context)
        if activation is not None and new_broker in activation.pending:
            activation.pending = {new_broker: activation.pending[new_broker]}
            activation.given_up.clear()
            self.successors[context] = request
            fence = activation.pending[new_broker]
            if fence is not None and self.late.may_go(context, fence, request.takes_late):
                self.overdue(context.client)
            else:
                self.late.wait(context.client)
        else:
            self.sent.stop(context)
            self.pass_on(context, request)

    def hand_over(self, context: Context, claim: Claim) -> None:
        """Bk found no copy at its site, and requests the context."""
        self.sent.stop(context)
        self.handover.step_2_hand_over(context, claim)
        self.case_4_moved_away(context, claim)

    def case_4_moved_away(self, context: Context, claim: Claim) -> None:
        """S is at Bk now: leave it the copies at neighbors of Bk, and delete the others.

        The lists of neighbors were exchanged when they changed. Bj leaves a copy to Bk only if the copy has surely
        arrived where it is, since its `Delete` will come from Bk and must not overtake it.
        """
        theirs = self.neighborhood.neighbors_of(claim.new_broker)
        left = []
        for holder, arrived in sorted(self.sent.holders.pop(context, {}).items()):
            message: Deactivate | Delete
            if holder == claim.new_broker:
                continue
            if holder in theirs and arrived:
                left.append(holder)
                message = Deactivate(client=context.client, epoch=context.epoch, successor=claim.epoch)
            else:
                message = Delete(client=context.client, epoch=context.epoch)
            self.mailbox.send(holder, message)
        if self.me in theirs:
            left.append(self.me)
            self.keeping.add((context.client, claim.epoch))
        copies = CopiesLeft(client=context.client, epoch=claim.epoch, at=tuple(left))
        self.mailbox.send(claim.new_broker, copies)

    def all_forwarded(self, context: Context) -> None:
        """Bk has all that its copy lacked: if it serves S already, give it the context."""
        claim = self.successors.pop(context, None)
        if claim is not None:
            self.pass_on(context, claim)

    def overdue(self, client: ClientId) -> None:
        """Bk serves S from its copy, which lacks late events: end the forwarding, and let the late events follow."""
        for context, claim in list(self.successors.items()):
            if context.client != client or not claim.takes_late:
                continue
            fence = self.sent.activations[context].pending[claim.new_broker]
            if fence is None:
                self.late.wait(client)
                continue
            late = self.late.missing(context, fence)
            if not late:
                self.sent.on_passed()
                continue
            filters, session = tuple(context.filters), context.session
            del self.successors[context]
            self.sent.end_in_part(context, claim.new_broker, late)
            self.late.owe(context, claim.epoch, claim.new_broker, fence, late)
            self.keep_for(client, claim.epoch, filters, session)

    def pass_on(self, context: Context, claim: Claim) -> None:
        """Give the context to Bk alone; if this broker is a neighbor of Bk, keep the subscriptions here as a copy."""
        filters, session = tuple(context.filters), context.session
        self.contexts.close(context, mobile=True)
        self.keep_for(context.client, claim.epoch, filters, session)

    def step_5_forward(self, leaving: Leaving) -> None:
        """Step 5 where Bk requested the context: it is Bk's alone when all stored events have gone there."""
        context, release = leaving.context, leaving.release
        assert release is not None
        filters, session = tuple(context.filters), context.session
        self.handover.step_5_forward(leaving)
        self.keep_for(context.client, release.epoch, filters, session)

    def keep_for(
        self, client: ClientId, epoch: Epoch, filters: tuple[Filter, ...], session: object | None
    ) -> None:
        if (client, epoch) in self.keeping:
            self.keeping.remove((client, epoch))
            copy = self.copies.get(client)
            outdated = copy is None or copy.epoch < epoch  # the new broker may have sent a copy itself
            if outdated and self.copies.has_control(client, epoch):
                self.copies.keep(client, epoch, filters, session)
                self.copies[client].under = self.label

    def on_copies_left(self, old_broker: BrokerId, message: CopiesLeft) -> None:
        """At Bk: some neighbors have their copies already; send copies to the others (as in case 1)."""
        context = self.whereabouts.context_of(message.client, message.epoch)
        if context is None:  # the client has moved on, or left: nobody needs the copies
            for holder in message.at:
                self.mailbox.send(holder, Delete(client=message.client, epoch=message.epoch))
            return
        holders = self.sent.holders.setdefault(context, {})
        for holder in message.at:
            holders.setdefault(holder, False)
        arriving = self.whereabouts.incomplete.get(context)
        if context.under != self.label:
            return  # under another scheme here: `withdraw` deletes the copies when the context is whole
        if arriving is None or not arriving.leaves:
            self.sent.send(context, set(self.neighborhood.neighbors) - set(holders))
        if isinstance(arriving, TakenOver) and not arriving.confirmed:
            arriving.confirmed = arriving.answered = True
            self.contexts.replay(context)
            self.complete(arriving)

    # --- case 5: the client has moved here -------------------------------------------------------------------

    def case_5_moved_here(self, client: ClientId, old_broker: BrokerId, shown: Epoch | None) -> None:
        """S comes from Bk: if Context(S) is here and of S's last connection, serve S from it; else request it."""
        self.neighborhood.learn(old_broker)
        copy = self.copies.get(client)
        assert after(self.copies.state(client), Stimulus.MOVED_HERE) is State.SERVING
        if copy is not None and self.is_ready(copy, old_broker, shown):
            self.take_over(client, confirmed=shown is not None)
        else:
            self.copies.drop(client)
            self.handover.step_1_reconnected(client, old_broker)

    def is_ready(self, copy: Context, old_broker: BrokerId, shown: Epoch | None) -> bool:
        """Whether the copy may serve at once: it is active and comes from the end of the client's last connection, so
        the client has read nothing since the copy was activated."""
        if copy.mode is not Mode.ACTIVE or copy.epoch.broker != old_broker:
            return False
        return shown is None or shown == copy.epoch

    def take_over(self, client: ClientId, *, confirmed: bool) -> None:
        """Found: make the copy the context, and tell Bk; wait for Bk's answer if the client shows no epoch."""
        context = self.copies.take(client)
        taken, context.epoch = context.epoch, self.contexts.new_epoch(above=context.epoch)
        whole = context.local_queue is None
        if not (whole and confirmed):
            arriving = TakenOver(context, context.epoch, taken=taken, whole=whole, confirmed=confirmed)
            self.whereabouts.expect(arriving)
            self.taken[client, taken] = arriving
            if not confirmed:
                self.handover.inquiries.watch(arriving, taken.broker)
            if whole:
                open_local_queue(context)
        self.contexts.serve(context)
        if confirmed and not whole:
            self.contexts.replay(context)
        self.mailbox.send(
            taken.broker,
            MovedHere(
                client=client, epoch=context.epoch, taken=taken, takes_late=self.late.after_s is not None
            ),
        )

    def on_forwarded(self, sender: BrokerId, message: Forwarded) -> None:
        """Bk forwards the events that the copy lacks, while the copy serves S already, or waits for S."""
        arriving = self.taken.get((message.client, message.epoch))
        if arriving is None:
            self.copies.on_forwarded(sender, message)
            return
        self.copies.admit_forwarded(arriving.context, message)
        if arriving.confirmed:
            self.contexts.replay(arriving.context)
        if message.last:
            arriving.whole = True
            if message.late:
                self.late.await_rest(arriving.context, arriving.transfer, sender, message.late)
            self.complete(arriving)

    def complete(self, arriving: TakenOver) -> None:
        if arriving.whole and arriving.confirmed:
            self.step_6_replay(arriving)

    def on_context_request(self, sender: BrokerId, request: ContextRequest) -> None:
        """At Bk: the new broker found no copy, and requests the context: S is the first on this edge, or comes too
        fast."""
        self.neighborhood.learn(request.new_broker)
        self.handover.on_context_request(sender, request)

    def on_subscriptions(self, old_broker: BrokerId, reply: Subscriptions) -> None:
        """Bk answers a request; if a copy was in service, it was not of the client's last connection."""
        arriving = self.whereabouts.arriving.get((reply.client, reply.epoch))
        if isinstance(arriving, TakenOver):
            self.replace_copy(arriving, reply.filters)
        self.handover.on_subscriptions(old_broker, reply)

    def replace_copy(self, arriving: TakenOver, filters: tuple[Filter, ...]) -> None:
        """This broker has delivered no event of the copy: go on without its events."""
        assert not arriving.confirmed, "what the client showed was not its last connection"
        context = arriving.context
        del self.taken[context.client, arriving.taken]
        self.whereabouts.expect_no_more(arriving)
        start_over(context, {})
        for filter in [f for f in context.filters if f not in filters]:
            self.contexts.remove_filter(context, filter, mobile=True)
        requested = self.handover.expect(context, arriving.transfer)
        requested.unsubscribed, requested.leaves = arriving.unsubscribed, arriving.leaves

    def on_no_context(self, old_broker: BrokerId, reply: NoContext) -> None:
        """Bk gave the context up (case 8): go on with what is here, and send copies of it. If Bk has forgotten where
        the context is, seek it first, unless the client showed that the copy is of its last connection."""
        arriving = self.whereabouts.arriving.get((reply.client, reply.epoch))
        if isinstance(arriving, TakenOver) and arriving.confirmed:
            reply = replace(reply, forgot=False)
        self.handover.on_no_context(old_broker, reply)
        context = self.whereabouts.context_of(reply.client, reply.epoch)
        if context is not None and not reply.forgot and context.under == self.label:
            holders = self.sent.holders.get(context, ())
            self.sent.send(context, set(self.neighborhood.neighbors) - set(holders))

    def step_6_replay(self, arriving: Arriving) -> None:
        """All events have come, by request or into the copy: do step 6."""
        if isinstance(arriving, TakenOver):
            del self.taken[arriving.context.client, arriving.taken]
        if arriving.leaves:
            self.sent.delete(arriving.context, for_good=True)
        self.handover.step_6_replay(arriving)

    def completed(self, context: Context) -> None:
        """The context is whole: answer brokers that have claimed it; if its client is gone, it is time for case 2."""
        self.handover.completed(context)
        if self.contexts.is_current(context) and context.mode is Mode.ACTIVE:
            self.case_2_disconnected(context)

    def step_aside(self, arriving: Arriving, newer: Epoch) -> None:
        """S has been elsewhere since: keep neither the context nor its copies."""
        if isinstance(arriving, TakenOver):
            del self.taken[arriving.context.client, arriving.taken]
        self.sent.delete(arriving.context)
        self.handover.step_aside(arriving, newer)

    # --- cases 6 to 8: the client leaves, a copy comes, the client stays away --------------------------------

    def case_6_unsubscribed(self, context: Context) -> None:
        """S leaves for good: delete Context(S) wherever it may be, whichever broker has control there."""
        self.sent.delete(context, for_good=True)
        self.contexts.close(context)

    # Case 7, "when broker Bj receives Context(S) from its neighbors": `HeldCopies.on_passive_copy`.

    def case_8_timed_out(self, context: Context) -> None:
        """S stayed away longer than Timeout(S): delete Context(S), unless a newer connection has control."""
        self.sent.delete(context)
        super().on_timeout(context)

    # --- what the checkers ask ----------------------------------------------------------------------------

    def gives_away(self) -> list[Context]:
        return list(self.successors)
