"""Pro-active caching: passive copies of a client's context wait at the learned neighbors.

Paper: [PRO] section 4.1; cases are numbered as there, and Fig. 1's states are in `proactive_states.py`. How copies are
sent and activated is in `activation.py`, the neighbors' side in `copies.py`, the neighbor graph (section 4.2) in
`neighbors.py`.
Assumes: reliable FIFO links between brokers (section 3). A client may show the epoch of its last connection.
Departs: the control attribute is an epoch, not a broker id alone (docs/decisions/0040); an active copy serves the
client at once only if it is known to be of its last connection (0041); copies change hands only when they are
known to have arrived (0042); the read position is kept per origin, not per subscription (0002).
Without a copy, the context is requested as the standard algorithm does: "reactive", in the paper's words.

Invariant (docs/pro.md): the context of a connection, and every whole active copy of it, hold exactly the events
above one common position that have passed their brokers.
"""

from dataclasses import dataclass

from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.events import BrokerId, ClientId, Seconds
from roamq.core.filters import Filter
from roamq.core.messages import (
    ContextRequest,
    CopiesLeft,
    Deactivate,
    Delete,
    Forwarded,
    MovedHere,
    NeighborList,
    NoContext,
    Subscriptions,
)
from roamq.core.ports import Host, TimerKey
from roamq.overlay.base import Router
from roamq.schemes.activation import Activation, CopySender
from roamq.schemes.base import SchemeOptions, register
from roamq.schemes.claims import Arriving, Claim
from roamq.schemes.copies import start_over
from roamq.schemes.neighbors import NeighborGraph, Row, rows_of
from roamq.schemes.proactive_states import State, Stimulus, after
from roamq.schemes.standard import Leaving

NEIGHBORS_TIMER: TimerKey = ("neighbors",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProActiveOptions(SchemeOptions):
    """Parameters of pro-active caching."""

    warm_start: tuple[Row, ...] = ()
    """Edges known from the beginning: rows of (from, to, weight, last seen)."""
    neighbor_lifetime_s: Seconds | None = None
    """An edge that nobody crossed for so long is forgotten; None to keep it."""
    neighbor_limit: int | None = None
    """How many neighbors a broker keeps at most: the least recently used leave first."""
    outlier_crossings: int = 0
    """An edge crossed fewer times than this is an outlier until proven otherwise."""
    outlier_s: Seconds | None = None
    """How long an outlier is kept."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "warm_start", rows_of(self.warm_start))


@dataclass(slots=True, kw_only=True)
class TakenOver(Arriving):
    """An active copy that serves its client while it is not whole yet, or not confirmed."""

    taken: Epoch
    whole: bool
    confirmed: bool


@register
class ProActive(CopySender):
    """One broker's part of pro-active caching."""

    name = "proactive"
    options_type = ProActiveOptions

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        parsed = self.options
        assert isinstance(parsed, ProActiveOptions)
        self.graph = NeighborGraph(
            me,
            lifetime_s=parsed.neighbor_lifetime_s,
            limit=parsed.neighbor_limit,
            outlier_crossings=parsed.outlier_crossings,
            outlier_s=parsed.outlier_s,
        )
        self.graph.warm_start(parsed.warm_start, host.now())
        self.taken: dict[tuple[ClientId, Epoch], TakenOver] = {}
        """Copies in service that are not whole, by the epoch they were activated under."""
        self.heirs: dict[Context, Claim] = {}
        """Contexts that another broker has taken over, and which still forward to it."""
        self.keeping: set[tuple[ClientId, Epoch]] = set()
        """Connections elsewhere for which this broker, a neighbor of theirs, keeps a copy when it is done."""
        self.ticket: Ticket | None = None
        self.handle(MovedHere, self.on_moved_here)
        self.handle(CopiesLeft, self.on_copies_left)
        self.handle(NeighborList, self.on_neighbor_list)

    def own_state(self, context: Context) -> State:
        return State.SERVING if context.mode is Mode.SERVING else State.AWAY

    # --- the client comes and goes ------------------------------------------------------------------------

    def on_ticket(self, client: ClientId, ticket: Ticket | None) -> None:
        self.ticket = ticket

    def on_connect(
        self, client: ClientId, old_broker: BrokerId | None, carried: tuple[Filter, ...] = ()
    ) -> None:
        ticket, self.ticket = self.ticket, None
        context = self.contexts.get(client)
        copy = self.copies.get(client)
        if old_broker is None and context is None and copy is not None:
            old_broker = copy.epoch.broker  # the client does not say where it was, but we know
        if old_broker is not None and old_broker != self.me:
            if context is not None:
                self.leave_behind(context)
            self.case_5_moved_here(client, old_broker, ticket.epoch if ticket else None)
        elif context is None:
            self.case_1_first_connect(client)
        else:
            self.case_3_came_back(context)

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        context = self.contexts.get(client)
        if context is not None and context.mode is Mode.SERVING:
            assert after(self.own_state(context), Stimulus.DISCONNECT) is State.AWAY
            self.pause(context)
            self.case_2_disconnected(context)

    def on_restart(self) -> None:
        for client in [c for c, context in self.contexts.items() if context.mode is Mode.SERVING]:
            self.on_disconnect(client, "crashed")

    # --- the eight cases ----------------------------------------------------------------------------------

    def case_1_first_connect(self, client: ClientId) -> None:
        """S connects: a passive copy of Sub(S) goes to each neighbor as S subscribes (`on_subscribe`)."""
        assert after(State.NONE, Stimulus.CONNECT) is State.SERVING
        context = self.open(client, self.new_epoch(), Mode.SERVING)
        self.serve(context, resumed=False)

    def case_2_disconnected(self, context: Context) -> None:
        """S is gone: activate its copies, and forward Msgs(S) to each until it has acknowledged.

        A context that is itself on its way waits: there is nothing to activate with until it is whole.
        """
        if context in self.incomplete:
            return
        neighbors = self.graph.neighbors
        if neighbors:
            activation = self.activations[context] = Activation(context)
            for neighbor in neighbors:
                self.activate(activation, neighbor)

    def case_3_came_back(self, context: Context) -> None:
        """S reconnects here: the neighbors deactivate, and S gets what was buffered."""
        assert after(self.own_state(context), Stimulus.RECONNECT) is State.SERVING
        before, context.epoch = context.epoch, self.new_epoch(above=context.epoch)
        if context not in self.incomplete:
            self.activations.pop(context, None)
            if context.mode is Mode.ACTIVE:
                for holder in sorted(self.holders.get(context, ())):
                    deactivate = Deactivate(client=context.client, epoch=before, heir=context.epoch)
                    self.router.unicast(holder, deactivate)
        self.serve(context, resumed=True)

    def case_4_moved_away(self, context: Context, claim: Claim) -> None:
        """S is at Bk now: of our copies, those at neighbors of Bk stay for it, the others are deleted.

        The lists of neighbors were exchanged when they changed. A copy is left to Bk only if it has surely
        arrived where it is, since its `Delete` will come from Bk and must not overtake it.
        """
        theirs = self.graph.neighbors_of(claim.new_broker)
        left = []
        for holder, arrived in sorted(self.holders.pop(context, {}).items()):
            message: Deactivate | Delete
            if holder == claim.new_broker:
                continue
            if holder in theirs and arrived:
                left.append(holder)
                message = Deactivate(client=context.client, epoch=context.epoch, heir=claim.epoch)
            else:
                message = Delete(client=context.client, epoch=context.epoch)
            self.router.unicast(holder, message)
        if self.me in theirs:
            left.append(self.me)
            self.keeping.add((context.client, claim.epoch))
        self.tell(claim.new_broker, CopiesLeft(client=context.client, epoch=claim.epoch, at=tuple(left)))

    def case_5_moved_here(self, client: ClientId, old_broker: BrokerId, shown: Epoch | None) -> None:
        """S comes from Bk: if Context(S) is here and of S's last connection, serve it; else request it."""
        self.learn(old_broker)
        copy = self.copies.get(client)
        assert after(self.copy_state(client), Stimulus.MOVED_HERE) is State.SERVING
        if copy is not None and self.is_ready(copy, old_broker, shown):
            self.take_over(copy, confirmed=shown is not None)
        else:
            self.drop_copy(client)
            self.step_1_reconnected(client, old_broker)

    def case_6_unsubscribed(self, context: Context) -> None:
        """S leaves for good: delete Context(S) wherever it may be, whoever has control there."""
        self.delete_copies(context, for_good=True)
        self.close(context)

    def case_8_timed_out(self, context: Context) -> None:
        """S stayed away longer than Timeout(S): delete Context(S), unless somebody newer has control."""
        self.delete_copies(context)
        self.give_up(context, "timeout")

    def on_leave(self, client: ClientId) -> None:
        context = self.contexts.get(client)
        if context is None or context in self.incomplete:
            super().on_leave(client)  # what is on its way arrives first
        else:
            assert after(self.own_state(context), Stimulus.UNSUBSCRIBE) is State.NONE
            self.case_6_unsubscribed(context)

    def on_timeout(self, context: Context) -> None:
        if context in self.incomplete:
            self.pause(context)  # it is on its way: the client may not come, but the context will
        else:
            self.case_8_timed_out(context)

    # --- passive copies -----------------------------------------------------------------------------------

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        super().on_subscribe(client, filter)
        self.spread_change(self.contexts[client])

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        super().on_unsubscribe(client, filter)
        self.spread_change(self.contexts[client])

    def spread_change(self, context: Context) -> None:
        """What S subscribes to changed while it is connected: its copies follow."""
        if context not in self.incomplete:
            self.send_copies(context, {*self.graph.neighbors, *self.holders.get(context, ())})

    # --- taking over a copy -------------------------------------------------------------------------------

    def is_ready(self, copy: Context, old_broker: BrokerId, shown: Epoch | None) -> bool:
        """An active copy made at the end of the client's last connection: nothing was read since."""
        if copy.mode is not Mode.ACTIVE or copy.epoch.broker != old_broker:
            return False
        return shown is None or shown == copy.epoch

    def take_over(self, copy: Context, *, confirmed: bool) -> None:
        """Case 5, found: the copy becomes the context; Bk is told, and asked if the client shows no epoch."""
        client, taken = copy.client, copy.epoch
        del self.copies[client]
        self.contexts[client] = copy
        copy.epoch = self.new_epoch(above=taken)
        whole = copy.local_queue is None
        if not (whole and confirmed):
            arriving = TakenOver(copy, copy.epoch, taken=taken, whole=whole, confirmed=confirmed)
            self.arriving[client, copy.epoch] = self.incomplete[copy] = arriving
            self.taken[client, taken] = arriving
            if whole:
                copy.open_local_queue()
        self.serve(copy, resumed=True)
        if confirmed:
            self.replay(copy)
        self.router.unicast(taken.broker, MovedHere(client=client, epoch=copy.epoch, taken=taken))

    def on_forwarded(self, sender: BrokerId, message: Forwarded) -> None:
        arriving = self.taken.get((message.client, message.epoch))
        if arriving is None:
            super().on_forwarded(sender, message)
            return
        self.admit_forwarded(arriving.context, message)
        if arriving.confirmed:
            self.replay(arriving.context)
        if message.last:
            arriving.whole = True
            self.complete(arriving)

    def complete(self, arriving: TakenOver) -> None:
        if arriving.whole and arriving.confirmed:
            self.step_6_replay(arriving)

    def step_6_replay(self, arriving: Arriving) -> None:
        if isinstance(arriving, TakenOver):
            del self.taken[arriving.context.client, arriving.taken]
        if arriving.leaves:
            self.delete_copies(arriving.context, for_good=True)
        super().step_6_replay(arriving)

    def step_aside(self, arriving: Arriving, newer: Epoch) -> None:
        if isinstance(arriving, TakenOver):
            del self.taken[arriving.context.client, arriving.taken]
        self.delete_copies(arriving.context)
        super().step_aside(arriving, newer)

    def completed(self, context: Context) -> None:
        """The context is whole: whoever waits for it may have it; if its client is gone, it is time for case 2."""
        super().completed(context)
        if self.contexts.get(context.client) is context and context.mode is Mode.ACTIVE:
            self.case_2_disconnected(context)

    def on_moved_here(self, new_broker: BrokerId, message: MovedHere) -> None:
        """Case 4: "Bk informs Bj that it is currently serving S"."""
        request = ContextRequest(client=message.client, epoch=message.epoch, new_broker=new_broker)
        context = self.claimed_by(request)
        if context is None or context.epoch != message.taken:
            self.on_context_request(new_broker, request)  # the copy was not of the last connection
            return
        self.learn(new_broker)
        assert after(self.own_state(context), Stimulus.MOVED_AWAY) is State.NONE
        self.case_4_moved_away(context, request)
        self.take_off(context)
        self.remember_where(context.client, request.epoch)
        activation = self.activations.get(context)
        if activation is not None and new_broker in activation.pending:
            activation.pending = {new_broker: activation.pending[new_broker]}
            self.heirs[context] = request
        else:
            self.activations.pop(context, None)
            self.pass_on(context, request)

    def all_forwarded(self, context: Context) -> None:
        claim = self.heirs.pop(context, None)
        if claim is not None:
            self.pass_on(context, claim)

    def pass_on(self, context: Context, claim: Claim) -> None:
        """The context is the new broker's alone; if we are its neighbor, the subscriptions stay as a copy."""
        filters, session = tuple(context.filters), context.session
        self.close(context, mobile=True)
        self.keep_for(context.client, claim.epoch, filters, session)

    def keep_for(
        self, client: ClientId, epoch: Epoch, filters: tuple[Filter, ...], session: object | None
    ) -> None:
        if (client, epoch) in self.keeping:
            self.keeping.remove((client, epoch))
            copy = self.copies.get(client)
            outdated = copy is None or copy.epoch < epoch  # the new broker may have sent one itself
            if outdated and self.has_control(client, epoch):
                self.keep_copy(client, epoch, filters, session)

    def on_copies_left(self, old_broker: BrokerId, message: CopiesLeft) -> None:
        """Case 4, at Bk: some neighbors have their copies already, the others get them now (as in case 1)."""
        context = self.context_of(message.client, message.epoch)
        if context is None:  # the client has moved on, or left: what we were left with is not needed
            for holder in message.at:
                self.tell(holder, Delete(client=message.client, epoch=message.epoch))
            return
        holders = self.holders.setdefault(context, {})
        for holder in message.at:
            holders.setdefault(holder, False)
        arriving = self.incomplete.get(context)
        if arriving is None or not arriving.leaves:
            self.send_copies(context, set(self.graph.neighbors) - set(holders))
        if isinstance(arriving, TakenOver) and not arriving.confirmed:
            arriving.confirmed = True
            self.replay(context)
            self.complete(arriving)

    def context_of(self, client: ClientId, epoch: Epoch) -> Context | None:
        """The context of that connection, if it is still this broker's."""
        for context in self.held_for(client):
            arriving = self.incomplete.get(context)
            if epoch in (context.epoch, arriving.transfer if arriving else None):
                return context
        return None

    # --- the reactive way, for the first to cross an edge ---------------------------------------------------

    def on_context_request(self, sender: BrokerId, request: ContextRequest) -> None:
        self.learn(request.new_broker)
        super().on_context_request(sender, request)

    def hand_over(self, context: Context, claim: Claim) -> None:
        self.activations.pop(context, None)
        super().hand_over(context, claim)
        self.case_4_moved_away(context, claim)

    def step_5_forward(self, leaving: Leaving) -> None:
        context, release = leaving.context, leaving.release
        assert release is not None
        filters, session = tuple(context.filters), context.session
        super().step_5_forward(leaving)
        self.keep_for(context.client, release.epoch, filters, session)

    def on_subscriptions(self, old_broker: BrokerId, reply: Subscriptions) -> None:
        arriving = self.arriving.get((reply.client, reply.epoch))
        if isinstance(arriving, TakenOver):
            self.replace_copy(arriving, reply.filters)
        super().on_subscriptions(old_broker, reply)

    def replace_copy(self, arriving: TakenOver, filters: tuple[Filter, ...]) -> None:
        """The copy was not of the client's last connection, and nothing of it was delivered: begin without it."""
        assert not arriving.confirmed, "what the client showed was not its last connection"
        context = arriving.context
        del self.taken[context.client, arriving.taken]
        self.expect_no_more(arriving)
        start_over(context, {})
        for filter in [f for f in context.filters if f not in filters]:
            self.remove_filter(context, filter, mobile=True)
        anew = self.expect(context, arriving.transfer)
        anew.unsubscribed, anew.leaves = arriving.unsubscribed, arriving.leaves

    def on_no_context(self, old_broker: BrokerId, reply: NoContext) -> None:
        """The last broker gave the context up (case 8): go on with what we have, and spread it."""
        super().on_no_context(old_broker, reply)
        context = self.context_of(reply.client, reply.epoch)
        if context is not None:
            self.send_copies(context, set(self.graph.neighbors) - set(self.holders.get(context, ())))

    # --- the neighbor graph (section 4.2) -------------------------------------------------------------------

    def learn(self, other: BrokerId) -> None:
        """A client moved between here and `other`."""
        before = self.graph.neighbors
        if self.graph.learned(other, self.host.now()):
            self.announce_neighbors(before)
        self.watch_ages()

    def on_timer(self, key: TimerKey) -> None:
        if key == NEIGHBORS_TIMER:
            before = self.graph.neighbors
            if self.graph.expire(self.host.now()):
                self.announce_neighbors(before)
            self.watch_ages()
        else:
            super().on_timer(key)

    def announce_neighbors(self, before: tuple[BrokerId, ...]) -> None:
        """ "Neighbor brokers typically exchange neighbor information whenever an edge is added [...] or deleted"."""
        message = NeighborList(neighbors=self.graph.neighbors)
        for neighbor in sorted({*before, *self.graph.neighbors}):
            self.router.unicast(neighbor, message)

    def on_neighbor_list(self, sender: BrokerId, message: NeighborList) -> None:
        self.graph.lists[sender] = frozenset(message.neighbors)

    def watch_ages(self) -> None:
        expiry = self.graph.next_expiry()
        if expiry is not None:
            self.host.set_timer(NEIGHBORS_TIMER, max(0.0, expiry - self.host.now()))

    # --- what the checkers ask ----------------------------------------------------------------------------

    def held_contexts(self) -> list[Context]:
        return [*super().held_contexts(), *self.heirs]
