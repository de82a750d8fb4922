"""Location-based pre-handoff: virtual consumers at the servers that a client in a border cell may reach next.

Paper: [PRE] section 4, Fig. 3: algorithm A1, as it runs at ESi, where the client is. A2 is in `virtual_consumers.py`,
the tables MLT and BCT and the choice of servers in `locations.py`; RT is the router's. Event server = broker.
Assumes: reliable FIFO links; clients report the cells they enter; `region` knows the areas.
Departs: a virtual consumer is filled before it is ready, and the client shows how far it has read, or ESi is asked
(docs/decisions/0080); one that has its subscriptions is replaced even if it is not filled yet (0081); servers that no
longer lie ahead are cancelled within the border too (0082).
Without a virtual consumer the handoff is the normal one, of the standard algorithm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roamq.core.context import Context, Epoch, Mode, Position, Ticket, digest_of
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Event, Seconds
from roamq.core.filters import Filter
from roamq.core.messages import ContextRequest, Subscriptions
from roamq.core.ports import Host, TimerKey
from roamq.core.prehandoff_messages import (
    CancelPreforward,
    EnablePrehandoff,
    Handed,
    Preforward,
    Preforwarded,
    PrehandoffRequest,
    Prestored,
    PreSubforward,
    Replaced,
)
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Cell, Place, is_cell
from roamq.geo.region import Region
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions, register
from roamq.schemes.copies import start_over
from roamq.schemes.locations import Choice, Expectation, LocationTable
from roamq.schemes.standard import Arriving, Claim
from roamq.schemes.virtual_consumers import VirtualConsumer, VirtualConsumerHolder


@dataclass(frozen=True, slots=True, kw_only=True)
class PreHandoffOptions(SchemeOptions):
    """Parameters of pre-handoff."""

    areas: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Positions of the servers (latitude, longitude), where the host does not bring a map of the region."""
    resolution: int = 9
    """Size of the cells of these areas."""
    border_rings: int = 1
    """How many cells deep a border of these areas is."""
    choose: str = "border"
    """Servers for pre-handoff: 'border' (the paper), 'all' neighbors, or those 'ahead' of the client."""
    moving_s: Seconds = 120.0
    """T: a client that stays longer in a cell is not moving."""
    cone_deg: float = 75.0
    """With 'ahead': how far off its direction a client may turn."""
    lead_s: Seconds = 30.0
    """With 'ahead': how soon the client must be able to reach an area."""

    def __post_init__(self) -> None:
        if self.choose not in list(Choice):
            raise ConfigError(f"scheme.choose: {self.choose!r} is none of {', '.join(Choice)}")


@dataclass(slots=True)
class Prehandoff:
    """ESi's awareness of one virtual consumer: an element of VC(ESie)."""

    context: Context
    server: BrokerId
    attempt: int
    changes: int = 0
    """Sets of subscriptions sent; 0 until the server has enabled the pre-handoff."""
    fence: Mapping[BrokerId, int] | None = None
    """What the server had seen when it subscribed to the last of them."""


@dataclass(slots=True, kw_only=True, eq=False)
class Replacing(Arriving):
    """A virtual consumer that its client replaces before it is whole, or before its position is known."""

    virtual: VirtualConsumer
    position: Position | None
    """How far the client has read, if it showed that."""
    inherited: set[Filter]
    """The subscriptions that came with the virtual consumer."""
    handed: Handed | None = None


@register
class PreHandoff(VirtualConsumerHolder):
    """One event server's part of location-based pre-handoff."""

    name = "prehandoff"
    options_type = PreHandoffOptions

    def __init__(
        self,
        me: BrokerId,
        host: Host,
        router: Router,
        options: SchemeOptions | None = None,
        *,
        region: Region | None = None,
    ) -> None:
        super().__init__(me, host, router, options)
        parsed = self.options
        assert isinstance(parsed, PreHandoffOptions)
        self.moving_s = parsed.moving_s
        self.table = LocationTable()
        self.expectation = Expectation(
            me,
            region or region_from(parsed),
            Choice(parsed.choose),
            cone_deg=parsed.cone_deg,
            lead_s=parsed.lead_s,
        )
        self.moving: set[ClientId] = set()
        """The clients with flag_mov = 1: those that crossed into another cell no longer than T ago."""
        self.aware: dict[Context, dict[BrokerId, Prehandoff]] = {}
        """VC(ESie) for each client here."""
        self.attempts: dict[int, Prehandoff] = {}
        """The same, by the number of the attempt."""
        self.replacing: dict[tuple[ClientId, Epoch], Replacing] = {}
        """Virtual consumers in service that are not whole, by the connection they were made for."""
        self.heirs: dict[Context, Replaced] = {}
        """Contexts that another server serves already, kept until it has all their events."""
        self.filled: dict[Context, dict[BrokerId, tuple[int, int]]] = {}
        """The last attempt at each server, and its changes, that was sent all it needs: even if cancelled since, the
        client may have come before the cancellation."""
        self._unfilled: dict[int, Prehandoff] = {}
        """Those that wait for this server to see what the other had seen."""
        self._handed: list[Replacing] = []
        """Those that wait for events which the client's last server has seen already."""
        self._last_attempt = 0
        self._ticket: Ticket | None = None
        self.handle(EnablePrehandoff, self.a1_enabled)
        self.handle(Preforwarded, self.on_preforwarded)
        self.handle(Replaced, self.on_replaced)
        self.handle(Handed, self.on_handed)

    # --- A1: the client registers -------------------------------------------------------------------------

    def on_location(self, client: ClientId, cell: str) -> None:
        """Register (MHs, ESk, cell_MHs): the client crossed the boundary of a cell."""
        if not is_cell(cell):
            return  # a client may say anything; who is nowhere is expected nowhere
        self.table.saw(client, Cell(cell), self.host.now())
        context = self.contexts.get(client)
        if context is not None and context.mode is Mode.SERVING:
            self.moving.add(client)  # flag_mov(MHs) = 1
            self.host.set_timer(("moving", client), self.moving_s)
            self.a1_register(context)

    def a1_register(self, context: Context) -> None:
        """MHs ∈ Local(ESi): pre-handoff at the servers beyond its cell, and at no others."""
        if context in self.incomplete or context.client not in self.moving:
            return  # what is on its way itself comes back here when it is `completed`
        expected = self.expectation.servers(context.client, self.table)
        aware = self.aware.get(context, {})
        for server in [server for server in aware if server not in expected]:
            self.cancel(aware[server])  # rule 1: MHs is not in a border cell, or in another one
        for server in expected:
            if server not in aware:  # MHs ∉ VC(ESie)
                self.a1_request(context, server)

    def a1_request(self, context: Context, server: BrokerId) -> None:
        """(a.1) Send Pre_handoffRequest (ESi, MHs) to ESe."""
        self._last_attempt += 1
        prehandoff = Prehandoff(context, server, self._last_attempt)
        self.aware.setdefault(context, {})[server] = prehandoff
        self.attempts[prehandoff.attempt] = prehandoff
        self.note("requested", context.client, server, prehandoff.attempt)
        request = PrehandoffRequest(client=context.client, epoch=context.epoch, attempt=prehandoff.attempt)
        self.router.unicast(server, request)

    def a1_enabled(self, server: BrokerId, message: EnablePrehandoff) -> None:
        """(a.2) On receiving Enable_prehandoff (ESe, MHs): send Preforward (MHs, ESi, SSUBQ_MHs) to ESe."""
        prehandoff = self.attempts.get(message.attempt)
        if prehandoff is None:
            return
        context = prehandoff.context
        prehandoff.changes = 1
        preforward = Preforward(
            client=context.client,
            epoch=context.epoch,
            attempt=prehandoff.attempt,
            filters=tuple(context.filters),
            session=context.session,
        )
        self.router.unicast(server, preforward)

    def a1_subscribed(self, context: Context, filter: Filter, *, wanted: bool) -> None:
        """(b) On receiving Subscribe (S, MHs): send Pre_Subforward (MHs, ESi, S) to ESe."""
        for prehandoff in self.aware.get(context, {}).values():
            if prehandoff.changes:
                prehandoff.changes += 1
                prehandoff.fence = None
                self._unfilled.pop(prehandoff.attempt, None)
                message = PreSubforward(
                    client=context.client,
                    epoch=context.epoch,
                    attempt=prehandoff.attempt,
                    filter=filter,
                    wanted=wanted,
                )
                self.router.unicast(prehandoff.server, message)

    def cancel(self, prehandoff: Prehandoff) -> None:
        """Send Cancel_Preforward (MHs, ESi) to ESe."""
        context = prehandoff.context
        self.forget_attempt(prehandoff)
        self.note("cancelled", context.client, prehandoff.server, prehandoff.attempt)
        message = CancelPreforward(client=context.client, epoch=context.epoch, attempt=prehandoff.attempt)
        self.router.unicast(prehandoff.server, message)

    def cancel_all(self, context: Context, *, but: BrokerId | None = None) -> None:
        for server, prehandoff in list(self.aware.get(context, {}).items()):
            if server != but:
                self.cancel(prehandoff)

    def forget_attempt(self, prehandoff: Prehandoff) -> None:
        del self.attempts[prehandoff.attempt]
        self._unfilled.pop(prehandoff.attempt, None)
        aware = self.aware[prehandoff.context]
        del aware[prehandoff.server]
        if not aware:
            del self.aware[prehandoff.context]

    def on_timer(self, key: TimerKey) -> None:
        if key[0] == "moving":  # rule 2: MHs stays in a border cell longer than T
            self.moving.discard(ClientId(key[1]))  # flag_mov(MHs) = 0
            if (context := self.contexts.get(ClientId(key[1]))) is not None:
                self.cancel_all(context)
        else:
            super().on_timer(key)

    # --- A1, else: the client comes to a server where it was not local ------------------------------------

    def on_ticket(self, client: ClientId, ticket: Ticket | None) -> None:
        self._ticket = ticket

    def on_connect(
        self, client: ClientId, old_broker: BrokerId | None, carried: tuple[Filter, ...] = ()
    ) -> None:
        ticket, self._ticket = self._ticket, None
        if old_broker is None or old_broker == self.me:
            super().on_connect(client, old_broker, carried)
            return
        if (context := self.contexts.get(client)) is not None:
            self.leave_behind(context)
        virtual = self.virtual.get(client)
        if virtual is not None and self.is_usable(virtual, old_broker, ticket):
            self.a1_replace(virtual, ticket)
        else:
            self.note("missed", client, old_broker)
            self.end(client)
            self.step_1_reconnected(client, old_broker, carried)  # execute normal handoff process

    def is_usable(self, virtual: VirtualConsumer, old_broker: BrokerId, ticket: Ticket | None) -> bool:
        """Is this the surrogate of the connection the client comes from, with the subscriptions it has?

        A client that shows nothing is believed; the server that it names will know.
        """
        if virtual.context is None or virtual.epoch.broker != old_broker:
            return False
        if ticket is not None and ticket.epoch is not None and ticket.epoch != virtual.epoch:
            return False
        return ticket is None or ticket.digest in (None, digest_of(virtual.context.filters))

    def a1_replace(self, virtual: VirtualConsumer, ticket: Ticket | None) -> None:
        """VC_MHs ∈ VC(ESj): Local(ESj) = Local(ESj) ∪ MHs; VC(ESj) = VC(ESj) - VC_MHs."""
        client, context = virtual.client, virtual.context
        assert context is not None
        shows_all = ticket is not None and ticket.epoch is not None and ticket.digest is not None
        position = dict(ticket.position) if shows_all and ticket and ticket.position is not None else None
        del self.virtual[client]
        self.contexts[client] = context
        context.epoch = self.new_epoch(above=virtual.epoch)
        self.note("hit" if virtual.whole else "unready", client, virtual.epoch.broker, virtual.attempt)
        replaced = Replaced(
            client=client,
            epoch=virtual.epoch,
            attempt=virtual.attempt,
            heir=context.epoch,
            whole=virtual.whole,
            asks=position is None,
            digest=digest_of(context.filters),
            changes=virtual.changes,
        )
        if virtual.whole and position is not None:
            context.skip_to(position)
        else:
            arriving = Replacing(
                context, context.epoch, virtual=virtual, position=position, inherited=set(context.filters)
            )
            self.arriving[client, context.epoch] = self.incomplete[context] = arriving
            self.replacing[client, virtual.epoch] = arriving
            if virtual.whole:
                context.open_local_queue()  # nothing is delivered until the position is known
        self.serve(context, resumed=True)
        self.router.unicast(virtual.epoch.broker, replaced)

    # --- filling virtual consumers, at ESi ------------------------------------------------------------------

    def on_preforwarded(self, server: BrokerId, message: Preforwarded) -> None:
        prehandoff = self.attempts.get(message.attempt)
        if prehandoff is not None and prehandoff.changes == message.changes:
            prehandoff.fence = message.fence
            self._unfilled[message.attempt] = prehandoff
            self.fill_passed(prehandoff)

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if self._unfilled:
            for prehandoff in list(self._unfilled.values()):
                self.fill_passed(prehandoff)
        for arriving in list(self._handed):
            self.complete_passed(arriving)

    def fill_passed(self, prehandoff: Prehandoff) -> None:
        """What the server had seen before it subscribed has come here: send it what the client has not read."""
        if prehandoff.fence is None or not self.router.passed(prehandoff.fence):
            return
        context = prehandoff.context
        del self._unfilled[prehandoff.attempt]
        self.filled.setdefault(context, {})[prehandoff.server] = (prehandoff.attempt, prehandoff.changes)
        message = Prestored(
            client=context.client,
            epoch=context.epoch,
            attempt=prehandoff.attempt,
            events=tuple(context.events()),
            position=dict(context.position),
            changes=prehandoff.changes,
        )
        self.router.unicast(prehandoff.server, message)
        heir = self.heirs.pop(context, None)
        if heir is not None:
            self.hand_all(context, heir)

    # --- handing the client over, at ESi --------------------------------------------------------------------

    def on_replaced(self, server: BrokerId, message: Replaced) -> None:
        """The client has replaced its virtual consumer at `server`: its context here is not needed any more.

        Unless the virtual consumer is not of its last connection here, or does not know its subscriptions, or
        was cancelled before it was whole: then the context is handed over as in a normal handoff.
        """
        claim = ContextRequest(client=message.client, epoch=message.heir, new_broker=server)
        if message.whole and not message.asks and self.own(message.client, message.epoch) is None:
            return  # it was given up in the meantime
        context = self.claimed_by(claim)
        if context is None or context.epoch != message.epoch or context in self.incomplete:
            self.claim(context, claim)
            return
        has_all = self.filled.get(context, {}).get(server) == (message.attempt, message.changes)
        prehandoff = self.attempts.get(message.attempt)
        will_have = prehandoff is not None and prehandoff.changes == message.changes
        if not (has_all or will_have) or message.digest != digest_of(context.filters):
            self.hand_over(context, claim)
            return
        self.cancel_all(context, but=server)
        if context.mode is Mode.SERVING:
            self.host.detach(context.client, "taken over")
            self.pause(context)
        self.take_off(context)
        if has_all:
            self.hand_all(context, message)
        else:
            self.heirs[context] = message

    def hand_all(self, context: Context, message: Replaced) -> None:
        """The server has every event; if it asks, say which of them the client has not read."""
        if message.asks:
            handed = Handed(
                client=context.client,
                epoch=message.epoch,
                attempt=message.attempt,
                heir=message.heir,
                fence=self.router.fence(),
                position=dict(context.position),
                reach=dict(context.reach),
                held=tuple(event.id for event in context.events()),
            )
            self.router.unicast(message.heir.broker, handed)
        for prehandoff in list(self.aware.get(context, {}).values()):
            self.forget_attempt(prehandoff)
        self.close(context, mobile=True)

    def own(self, client: ClientId, epoch: Epoch) -> Context | None:
        current = self.contexts.get(client)
        held = [*self.left_behind.get(client, ()), *([current] if current is not None else [])]
        return next((context for context in held if context.epoch == epoch), None)

    def hand_over(self, context: Context, claim: Claim) -> None:
        self.cancel_all(context)
        super().hand_over(context, claim)

    def close(self, context: Context, *, mobile: bool = False) -> None:
        self.cancel_all(context)
        super().close(context, mobile=mobile)
        self.filled.pop(context, None)
        if context.client not in self.contexts:
            self.table.forget(context.client)
            self.moving.discard(context.client)

    # --- replacing a virtual consumer that is not whole, at ESj ---------------------------------------------

    def on_prestored(self, server: BrokerId, message: Prestored) -> None:
        arriving = self.replacing.get((message.client, message.epoch))
        if arriving is None or arriving.virtual.attempt != message.attempt:
            super().on_prestored(server, message)
        elif arriving.virtual.changes == message.changes:
            self.fill(arriving.context, message)
            arriving.virtual.whole = True
            self.note("ready", message.client, server, message.attempt)
            if arriving.position is not None:
                arriving.context.skip_to(arriving.position)
                self.step_6_replay(arriving)

    def on_handed(self, server: BrokerId, message: Handed) -> None:
        """What the client has read is known; what it has not may in part be on its way here, as events."""
        arriving = self.arriving.get((message.client, message.heir))
        if isinstance(arriving, Replacing):
            arriving.handed = message
            self._handed.append(arriving)
            self.complete_passed(arriving)

    def complete_passed(self, arriving: Replacing) -> None:
        message = arriving.handed
        assert message is not None
        if self.router.passed(message.fence):
            arriving.context.skip_to(dict(message.position))
            arriving.context.keep_unread(message.reach, message.held)
            self.step_6_replay(arriving)

    def on_subscriptions(self, old_broker: BrokerId, reply: Subscriptions) -> None:
        arriving = self.arriving.get((reply.client, reply.epoch))
        if isinstance(arriving, Replacing):
            self.begin_anew(arriving, reply.filters)
        super().on_subscriptions(old_broker, reply)

    def begin_anew(self, arriving: Replacing, filters: tuple[Filter, ...]) -> None:
        """The virtual consumer was not what the client needs, and nothing of it was delivered: a normal handoff."""
        context = arriving.context
        self.expect_no_more(arriving)
        start_over(context, {})
        for filter in [f for f in context.filters if f in arriving.inherited and f not in filters]:
            self.remove_filter(context, filter, mobile=True)
        anew = self.expect(context, arriving.transfer)
        anew.unsubscribed, anew.leaves = arriving.unsubscribed, arriving.leaves

    def expect_no_more(self, arriving: Arriving) -> None:
        super().expect_no_more(arriving)
        if isinstance(arriving, Replacing):
            del self.replacing[arriving.context.client, arriving.virtual.epoch]
            if arriving.handed is not None:
                self._handed.remove(arriving)

    def completed(self, context: Context) -> None:
        super().completed(context)
        if self.contexts.get(context.client) is context and context.mode is Mode.SERVING:
            self.a1_register(context)

    # --- subscriptions, restart, checkers -------------------------------------------------------------------

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        context = self.contexts[client]
        known = filter in context.filters
        super().on_subscribe(client, filter)
        if isinstance(arriving := self.incomplete.get(context), Replacing):
            arriving.inherited.discard(filter)
        if not known:
            self.a1_subscribed(context, filter, wanted=True)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        context = self.contexts[client]
        known = filter in context.filters
        super().on_unsubscribe(client, filter)
        if known:
            self.a1_subscribed(context, filter, wanted=False)

    def on_restart(self) -> None:
        super().on_restart()
        for client in self.moving:  # its timers fell with the broker
            self.host.set_timer(("moving", client), self.moving_s)

    def held_contexts(self) -> list[Context]:
        return [*super().held_contexts(), *self.heirs]


def region_from(options: PreHandoffOptions) -> Region | None:
    """The region as the options describe it: areas around positions, and a way across every edge."""
    if not options.areas:
        return None
    places = {BrokerId(name): Place(*position) for name, position in options.areas.items()}
    return Region(LocationAreas.voronoi(places, options.resolution), None, options.border_rings)
