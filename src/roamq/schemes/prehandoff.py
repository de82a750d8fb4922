"""Location-based pre-handoff: virtual consumers at the servers that a client in a border cell may reach next.

Paper: [PRE] section 4, Fig. 3: algorithms A1 and A2 stand here in the order of the figure. A1 runs at ESi, where the
client is, and its last branch at ESj, where the client appears; A2 runs at ESj. An event server is a broker. The tables
MLT and BCT and the choice of servers are in `parts/locations.py`; RT is the router's. Other parts make the scheme
exact: `preforwarding.py` (ESi's side), `virtual_consumers.py` and `replacing.py` (ESj's).
Assumes: reliable FIFO links; clients report the cells they enter; `region` knows the areas.
Departs: ESi fills a virtual consumer before it is ready, and the client shows how far it has read, or ESi says so when
the connection ends, or when ESj asks (docs/decisions/0080, 0260); a client replaces a virtual consumer that has its
subscriptions even if it is not filled yet (0081); ESi cancels servers that no longer lie ahead within the border too
(0082). With `literal`, Fig. 3 runs as it is printed: three messages set a virtual consumer up, but nobody fills it or
tells it what the client has read, so that events are lost and repeated. `literal` adds only two things to the figure:
ESj tells ESi that the client is elsewhere, and a virtual consumer without subscriptions counts as none.
Without a virtual consumer the handoff is the normal one, of the standard algorithm.
"""

from typing import ClassVar

from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.events import BrokerId, ClientId, Seconds
from roamq.core.filters import Filter, digest_of
from roamq.core.local_queue import open_local_queue
from roamq.core.ports import TimerKey
from roamq.core.read_elsewhere import skip_to, start_over
from roamq.geo.cells import Cell, is_cell
from roamq.schemes.base import Scheme, SchemeOptions, Setup
from roamq.schemes.messages.handover import NoContext
from roamq.schemes.messages.prehandoff import (
    AskExpected,
    CancelPreforward,
    EnablePrehandoff,
    Handed,
    LastRead,
    Preforward,
    Preforwarded,
    PrehandoffRequest,
    Prestored,
    PreSubforward,
    Replaced,
    StillExpected,
    WasAway,
)
from roamq.schemes.parts.locations import Choice, Expectation, LocationTable
from roamq.schemes.parts.movement_pattern import MovementPattern
from roamq.schemes.parts.own_steps import OwnSteps
from roamq.schemes.parts.preforwarding import Preforwarding
from roamq.schemes.parts.replacing import Replacements
from roamq.schemes.parts.virtual_consumers import VirtualConsumer, VirtualConsumers, note
from roamq.schemes.parts.whereabouts import Arriving, Claim
from roamq.schemes.prehandoff_beside import PreHandoffBeside
from roamq.schemes.prehandoff_options import PreHandoffOptions, region_from

INSTANT_S = 1e-6
"""Times that differ by less are the same: a timer may fire a rounding error before the time it was set for."""


class PreHandoff(Scheme):
    """One event server's part of location-based pre-handoff."""

    name = "prehandoff"
    options_type = PreHandoffOptions
    means_places: ClassVar[bool] = True
    messages = (
        *(PrehandoffRequest, EnablePrehandoff, Preforward, PreSubforward, CancelPreforward, Preforwarded),
        *(Prestored, Replaced, Handed, AskExpected, StillExpected, WasAway, LastRead),
    )
    stands_beside_others = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.beside = PreHandoffBeside(self)
        options = setup.options
        assert isinstance(options, PreHandoffOptions)
        contexts, mailbox = self.contexts, self.mailbox
        own = OwnSteps(
            hand_over=self.hand_over,
            replay=self.step_6_replay,
            completed=self.completed,
            step_aside=self.step_aside,
            overdue=self.overdue,
            close=self.close,
        )
        self.handover = self.hand_over_by(setup, own, may_be_late=True)
        self.whereabouts = self.handover.whereabouts
        self.virtual = self.add(
            VirtualConsumers(contexts, mailbox, self.handover, lease_s=options.lease_s, close=self.close)
        )
        self.replacements = self.add(Replacements(contexts, mailbox, self.handover, self.virtual))
        self.preforwarding = self.add(Preforwarding(contexts, mailbox, self.handover, close=self.close))
        self.table = LocationTable()
        self.pattern = MovementPattern(self.me)
        self.pattern.warm_start(options.warm_start)
        self.expectation = self.expectation_of(options)
        self.moving_s = options.moving_s
        self.behind_s: dict[ClientId, dict[BrokerId, Seconds]] = {}
        """Client -> server -> the time since which the client has left the border to that server, which still holds a
        virtual consumer (hysteresis)."""
        self.moving: set[ClientId] = set()
        """The clients with flag_mov = 1: those that crossed into another cell no longer than T ago."""
        self.left_s: dict[ClientId, Seconds] = {}
        """Disconnected client -> the time at which it disconnected."""
        mailbox.handle(EnablePrehandoff, self.a1_a2_enabled)
        mailbox.handle(PrehandoffRequest, self.a2_i_prehandoff_request)
        mailbox.handle(Preforward, self.a2_ii_preforward)
        mailbox.handle(PreSubforward, self.a2_iii_pre_subforward)
        mailbox.handle(CancelPreforward, self.a2_iv_cancel_preforward)
        mailbox.handle(Replaced, self.on_replaced)
        mailbox.handle(NoContext, self.on_no_context)
        mailbox.handle(WasAway, self.on_was_away)

    def expectation_of(self, options: PreHandoffOptions) -> Expectation:
        return Expectation(
            self.me,
            region_from(options) or self.setup.region,
            Choice(options.choose),
            cone_deg=options.cone_deg,
            lead_s=options.lead_s,
            haste=options.haste,
            limit_mps=options.limit_mps,
            pattern=self.pattern,
            least_probability=options.least_probability,
        )

    # --- A1, at ESi: the client registers -----------------------------------------------------------------

    def on_location(self, client: ClientId, cell: str) -> None:
        """Register (MHs, ESk, cell_MHs): the client crossed the boundary of a cell, or says again where it is."""
        if not is_cell(cell):
            return  # a client may say anything; a client that is in no cell is expected nowhere
        has_crossed = self.table.saw(client, Cell(cell), self.host.now())
        if has_crossed:
            self.expectation.learn(client, self.table)
        context = self.contexts.get(client)
        if context is not None and context.mode is Mode.SERVING:
            if has_crossed:
                self.moving.add(client)  # flag_mov(MHs) = 1
                self.host.set_timer(("moving", client), self.moving_s)
            self.a1_register(context)

    def a1_register(self, context: Context) -> None:
        """MHs ∈ Local(ESi): pre-handoff at the servers beyond its cell, and at no others."""
        if context in self.whereabouts.incomplete or context.client not in self.moving:
            return  # `completed` calls this again for a context that is still on its way
        if context.late is not None:  # it lacks events: the server that wants it requests it
            return
        now = self.host.now()
        due = self.expectation.due(context.client, self.table)
        self.cancel_passed(
            context, [server for server in self.preforwarding.of(context) if server not in due]
        )
        for server in sorted(server for server, from_s in due.items() if from_s <= now + INSTANT_S):
            if server not in self.preforwarding.of(context):  # MHs ∉ VC(ESie)
                self.a1_a1_request(context, server)
        self.wait_for_next(context.client, [from_s - now for from_s in due.values()])

    def cancel_passed(self, context: Context, passed: list[BrokerId]) -> None:
        """Rule 1: MHs is not in a border cell, or in another one. With hysteresis, the virtual consumers stay for a
        while."""
        now, client = self.host.now(), context.client
        before = self.behind_s.pop(client, {})
        since_s = {server: before.get(server, now) for server in passed}
        kept = {
            server: at_s
            for server, at_s in since_s.items()
            if now - at_s < self.pre_options.hysteresis_s - INSTANT_S
        }
        for server in passed:
            if server not in kept:
                self.preforwarding.cancel(self.preforwarding.of(context)[server])
        if kept:
            self.behind_s[client] = kept
            wait_s = min(kept.values()) + self.pre_options.hysteresis_s - now
            self.host.set_timer(("lingering", client), wait_s)
        elif before:
            self.host.cancel_timer(("lingering", client))

    @property
    def pre_options(self) -> PreHandoffOptions:
        assert isinstance(self.options, PreHandoffOptions)
        return self.options

    def a1_a1_request(self, context: Context, server: BrokerId) -> None:
        """(a.1) Send Pre_handoffRequest (ESi, MHs) to ESe."""
        attempt = self.preforwarding.begin(context, server)
        request = PrehandoffRequest(client=context.client, epoch=context.epoch, attempt=attempt.number)
        self.mailbox.send(server, request)

    def a1_a2_enabled(self, server: BrokerId, message: EnablePrehandoff) -> None:
        """(a.2) On receiving Enable_prehandoff (ESe, MHs): send Preforward (MHs, ESi, SSUBQ_MHs) to ESe."""
        attempt = self.preforwarding.attempts.get(message.attempt)
        if attempt is None:
            return
        context = attempt.context
        attempt.changes = 1
        preforward = Preforward(
            client=context.client,
            epoch=attempt.epoch,
            attempt=attempt.number,
            filters=tuple(context.filters),
            session=context.session,
            speed_mps=self.speed_of(context.client),
        )
        self.mailbox.send(server, preforward)
        if self.pre_options.literal:
            self.preforwarding.take_for_filled(attempt)

    def a1_b_subscribed(self, context: Context, filter: Filter, *, wanted: bool) -> None:
        """(b) On receiving Subscribe (S, MHs): send Pre_Subforward (MHs, ESi, S) to ESe."""
        for attempt in self.preforwarding.of(context).values():
            if attempt.changes:
                self.preforwarding.changed(attempt)
                message = PreSubforward(
                    client=context.client,
                    epoch=attempt.epoch,
                    attempt=attempt.number,
                    filter=filter,
                    wanted=wanted,
                )
                self.mailbox.send(attempt.server, message)
                if self.pre_options.literal:
                    self.preforwarding.take_for_filled(attempt)

    def wait_for_next(self, client: ClientId, waits_s: list[Seconds]) -> None:
        """Register once more when the next server is due, unless the client has been seen elsewhere by then."""
        later = [wait_s for wait_s in waits_s if wait_s > INSTANT_S]
        if later:
            self.host.set_timer(("nearing", client), min(later))
        else:
            self.host.cancel_timer(("nearing", client))

    def ring(self, key: TimerKey) -> bool:
        if key[0] == "moving":  # rule 2: MHs stays in a border cell longer than T
            self.moving.discard(ClientId(key[1]))  # flag_mov(MHs) = 0
            if (context := self.contexts.get(ClientId(key[1]))) is not None:
                self.preforwarding.cancel_all(context)
        elif key[0] in ("nearing", "lingering"):
            if (context := self.contexts.get(ClientId(key[1]))) is not None:
                self.a1_register(context)
        else:
            return False
        return True

    # --- A1, else, at ESj: the client comes to a server where it was not local ----------------------------

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        old_broker = self.whereabouts.last_broker(client, old_broker)
        self.left_s.pop(client, None)
        context = self.contexts.get(client)
        if old_broker is None or old_broker == self.me:
            if context is not None:
                self.preforwarding.cancel_all(context)  # its virtual consumers are of the connection before
                self.table.reappeared(client, self.speed_of(client))
            self.handover.come_back(client)
            self.a1_register(self.contexts[client])
            return
        if context is not None:
            self.preforwarding.cancel_all(context)  # the client was elsewhere; that server will tell
            self.whereabouts.leave_behind(context)
        virtual = self.virtual.get(client)
        self.pattern.forget(client)  # nobody said where the client went from here last time
        self.table.arrived(client, old_broker, virtual.speed_mps if virtual is not None else None)
        if virtual is not None and self.is_usable(virtual, old_broker, ticket):
            self.a1_replace(client, ticket)
        else:
            note(self.contexts, "missed", client, old_broker)
            self.virtual.end(client)
            self.handover.step_1_reconnected(client, old_broker, carried)  # execute normal handoff process

    def is_usable(self, virtual: VirtualConsumer, old_broker: BrokerId, ticket: Ticket | None) -> bool:
        """Is this the surrogate of the connection from which the client comes, with the client's subscriptions?

        ESj believes a client that shows nothing; the server that the client names will know.
        """
        if virtual.context is None or virtual.epoch.broker != old_broker:
            return False
        if ticket is not None and ticket.epoch is not None and ticket.epoch != virtual.epoch:
            return False
        return ticket is None or ticket.digest in (None, digest_of(virtual.context.filters))

    def a1_replace(self, client: ClientId, ticket: Ticket | None) -> None:
        """VC_MHs ∈ VC(ESj): Local(ESj) = Local(ESj) ∪ MHs; VC(ESj) = VC(ESj) - VC_MHs."""
        shows_all = ticket is not None and ticket.epoch is not None and ticket.digest is not None
        position = dict(ticket.position) if shows_all and ticket and ticket.position is not None else None
        virtual = self.virtual.take(client)
        context = self.contexts[client]
        if self.pre_options.literal or (position is None and virtual.was_told(ticket)):
            position = {}  # the client gets all that its virtual consumer holds
        context.epoch = self.contexts.new_epoch(above=virtual.epoch)
        note(
            self.contexts,
            "hit" if virtual.whole else "unready",
            client,
            virtual.epoch.broker,
            virtual.attempt,
        )
        replaced = Replaced(
            client=client,
            epoch=virtual.epoch,
            attempt=virtual.attempt,
            successor=context.epoch,
            whole=virtual.whole,
            asks=position is None,
            digest=digest_of(context.filters),
            changes=virtual.changes,
        )
        if virtual.whole and position is not None:
            skip_to(context, position)
        else:
            self.replacements.begin(virtual, context, position)
        self.contexts.serve(context)
        self.mailbox.send(virtual.epoch.broker, replaced)

    # --- A2, at ESj: the surrogate of a client that may come ----------------------------------------------

    def a2_i_prehandoff_request(self, server: BrokerId, request: PrehandoffRequest) -> None:
        """I. VC(ESj) = VC(ESj) ∪ VC_MHs; send Enable_prehandoff."""
        if not self.virtual.is_newest(request.client, request.epoch):
            return  # the client was faster than the request: it is, or was, here
        self.virtual.end(request.client)
        self.virtual.begin(request)
        enable = EnablePrehandoff(client=request.client, epoch=request.epoch, attempt=request.attempt)
        self.mailbox.send(server, enable)

    def a2_ii_preforward(self, server: BrokerId, message: Preforward) -> None:
        """II. Update the routing table for all subscriptions S ∈ SSUBQ_MHs."""
        virtual = self.virtual.find(message)
        if virtual is None:
            return
        context = self.contexts.new(message.client, message.epoch, Mode.ACTIVE)
        context.session = message.session
        virtual.context = context
        virtual.speed_mps = message.speed_mps
        if not self.pre_options.literal:
            open_local_queue(context)
        for filter in message.filters:
            self.contexts.add_filter(context, filter, mobile=True)
        self.a2_routed(server, virtual)

    def a2_routed(self, server: BrokerId, virtual: VirtualConsumer) -> None:
        """The routes are on their way up. With `literal`, the virtual consumer is whole now; else it waits for older
        events."""
        if self.pre_options.literal:
            self.virtual.complete_as_it_is(server, virtual)
        else:
            self.virtual.routed(server, virtual)

    def a2_iii_pre_subforward(self, server: BrokerId, message: PreSubforward) -> None:
        """III. Store S in SSUBQ_MHs and forward it; ESi sends again, for S too, the events that it had sent without S.

        One rule for both: ESi fills a virtual consumer again for each set of subscriptions, so that it is never in
        doubt for which of them an event was stored.
        """
        virtual = self.virtual.find(message)
        if virtual is None or virtual.context is None:
            return
        if not self.pre_options.literal:
            start_over(virtual.context, {})
            open_local_queue(virtual.context)
        if message.wanted:
            self.contexts.add_filter(virtual.context, message.filter, mobile=True)
        else:
            self.contexts.remove_filter(virtual.context, message.filter, mobile=True)
        self.a2_routed(server, virtual)

    def a2_iv_cancel_preforward(self, server: BrokerId, message: CancelPreforward) -> None:
        """IV. Unsubscribe each S ∈ SSUBQ_MHs; VC(ESj) = VC(ESj) - VC_MHs."""
        if self.virtual.find(message) is not None:
            self.virtual.end(message.client)

    # --- the client subscribes, leaves, is handed over ----------------------------------------------------

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        context = self.contexts[client]
        known = filter in context.filters
        super().on_subscribe(client, filter)
        if not known:
            self.a1_b_subscribed(context, filter, wanted=True)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        context = self.contexts[client]
        known = filter in context.filters
        super().on_unsubscribe(client, filter)
        if known:
            self.a1_b_subscribed(context, filter, wanted=False)

    def on_leave(self, client: ClientId) -> None:
        context = self.contexts.get(client)
        if context is not None and not self.handover.on_leave(context):
            self.close(context)

    def on_timeout(self, context: Context) -> None:
        self.contexts.drop_all(context, "timeout")
        self.close(context)

    def close(self, context: Context, *, mobile: bool = False) -> None:
        """Close a context: its virtual consumers end with it."""
        self.preforwarding.cancel_all(context)
        self.contexts.close(context, mobile=mobile)
        self.preforwarding.closed(context)
        if context.client not in self.contexts:
            self.forget(context.client)

    def forget(self, client: ClientId) -> None:
        """Forget where the client was, and how it moved."""
        self.table.forget(client)
        self.pattern.forget(client)
        self.moving.discard(client)
        self.left_s.pop(client, None)
        self.behind_s.pop(client, None)

    def hand_over(self, context: Context, claim: Claim) -> None:
        self.pattern.left(context.client, claim.epoch.broker)
        self.tell_if_away(context.client, claim.epoch)
        self.preforwarding.cancel_all(context)
        self.handover.step_2_hand_over(context, claim)

    def on_replaced(self, server: BrokerId, message: Replaced) -> None:
        self.pattern.left(message.client, server)
        self.tell_if_away(message.client, message.successor)
        self.preforwarding.on_replaced(server, message)

    def overdue(self, client: ClientId) -> None:
        self.preforwarding.overdue(client)

    def step_6_replay(self, arriving: Arriving) -> None:
        self.replacements.end(arriving)
        self.handover.step_6_replay(arriving)

    def completed(self, context: Context) -> None:
        self.handover.completed(context)
        if self.contexts.is_current(context) and context.mode is Mode.SERVING:
            self.a1_register(context)

    def step_aside(self, arriving: Arriving, newer: Epoch) -> None:
        self.replacements.end(arriving)
        self.handover.step_aside(arriving, newer)

    def on_no_context(self, old_broker: BrokerId, reply: NoContext) -> None:
        context = self.contexts.get(reply.client)
        if context is None or context.epoch != reply.epoch or context in self.whereabouts.incomplete:
            self.handover.on_no_context(old_broker, reply)
        elif reply.newer is not None and reply.newer > context.epoch:
            # The client never heard that it was served here, and went back to where it was.
            self.host.detach(context.client, "taken over")
            self.close(context)
            self.whereabouts.remember(context.client, reply.newer, awaits=reply.awaits)

    # --- a client that was switched off between two servers may be anywhere in its cell --------------------

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        super().on_disconnect(client, reason)
        if (context := self.contexts.get(client)) is not None:
            self.left_s[client] = self.host.now()
            self.preforwarding.connection_ended(context)

    def fell(self, context: Context) -> None:
        super().fell(context)
        self.preforwarding.connection_ended(context)

    def tell_if_away(self, client: ClientId, successor: Epoch) -> None:
        """Tell the client's new server that nobody saw the client move, if that server would be misled."""
        left_s = self.left_s.pop(client, None)
        if left_s is not None and self.expectation.is_misled_by(self.host.now() - left_s):
            self.mailbox.send(successor.broker, WasAway(client=client, successor=successor))

    def on_was_away(self, server: BrokerId, message: WasAway) -> None:
        context = self.contexts.get(message.client)
        is_in_its_first_cell = len(self.table.sightings(message.client)) <= 1
        if context is not None and context.epoch == message.successor and is_in_its_first_cell:
            self.table.reappeared(message.client, None)
            self.a1_register(context)

    def speed_of(self, client: ClientId) -> float | None:
        return self.expectation.speed_mps(client, self.table)

    def resumed(self) -> None:
        for client in sorted(self.moving):  # the crash of the broker ended its timers
            self.host.set_timer(("moving", client), self.moving_s)
        for client in sorted(self.behind_s):
            self.host.set_timer(("lingering", client), self.pre_options.hysteresis_s)

    @classmethod
    def guaranteed(cls, options: SchemeOptions) -> frozenset[str]:
        assert isinstance(options, PreHandoffOptions)
        return frozenset({"leak"}) if options.literal else cls.guarantees
