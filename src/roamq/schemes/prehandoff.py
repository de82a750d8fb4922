"""Location-based pre-handoff: virtual consumers at the servers that a client in a border cell may reach next.

Paper: [PRE] section 4, Fig. 3: algorithm A1, as it runs at ESi, where the client is; its last branch, for a client that
replaces its virtual consumer, is in `replacing.py`, A2 in `virtual_consumers.py`, the tables MLT and BCT and the choice
of servers in `locations.py`; RT is the router's. An event server is a broker.
Assumes: reliable FIFO links; clients report the cells they enter; `region` knows the areas.
Departs: a virtual consumer is filled before it is ready, and the client shows how far it has read, or ESi is asked
(docs/decisions/0080); one that has its subscriptions is replaced even if it is not filled yet (0081); servers that no
longer lie ahead are cancelled within the border too (0082).
Without a virtual consumer the handoff is the normal one, of the standard algorithm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roamq.core.context import Context, Epoch, Mode, Ticket, digest_of
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Event, Seconds
from roamq.core.filters import Filter
from roamq.core.messages import ContextRequest
from roamq.core.ports import Host, TimerKey
from roamq.core.prehandoff_messages import (
    AskExpected,
    CancelPreforward,
    EnablePrehandoff,
    Handed,
    Preforward,
    Preforwarded,
    PrehandoffRequest,
    Prestored,
    PreSubforward,
    Replaced,
    StillExpected,
)
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Cell, Place, is_cell
from roamq.geo.region import Region
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions, register
from roamq.schemes.locations import Choice, Expectation, LocationTable
from roamq.schemes.replacing import VirtualConsumerReplacer
from roamq.schemes.standard import Claim
from roamq.schemes.virtual_consumers import LEASE_S

INSTANT_S = 1e-6
"""Times that differ by less are the same: a timer may fire a rounding error before the time it was set for."""


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
    """Servers for pre-handoff: 'border' (the paper), 'all' neighbors, 'ahead' by street, or in a 'cone' ahead."""
    moving_s: Seconds = 120.0
    """T: a client that stays longer in a cell is not moving."""
    lease_s: Seconds = LEASE_S
    """After how long a virtual consumer asks whether its client is still expected; without an answer it ends."""
    cone_deg: float = 90.0
    """With 'cone': how far off its direction a client may turn."""
    lead_s: Seconds = 2.0
    """With 'ahead' and 'cone': how long before the client can be there a pre-handoff begins; its set-up must fit in."""
    haste: float = 2.0
    """With 'ahead' and 'cone': how many times faster a client may become than it was seen to be."""

    def __post_init__(self) -> None:
        if self.choose not in list(Choice):
            raise ConfigError(f"scheme.choose: {self.choose!r} is none of {', '.join(Choice)}")
        if not self.lease_s > 0:
            raise ConfigError(f"scheme.lease_s: {self.lease_s} is not above 0")
        if not self.haste > 0:
            raise ConfigError(f"scheme.haste: {self.haste} is not above 0; 1 means never faster than seen")


@dataclass(slots=True)
class Prehandoff:
    """ESi's awareness of one virtual consumer: an element of VC(ESie)."""

    context: Context
    server: BrokerId
    epoch: Epoch
    """The connection of the client for which it was asked."""
    attempt: int
    changes: int = 0
    """Sets of subscriptions sent; 0 until the server has enabled the pre-handoff."""
    fence: Mapping[BrokerId, int] | None = None
    """What the server had seen when it subscribed to the last of them."""


@register
class PreHandoff(VirtualConsumerReplacer):
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
        self.lease_s = parsed.lease_s
        self.table = LocationTable()
        self.expectation = Expectation(
            me,
            region or region_from(parsed),
            Choice(parsed.choose),
            cone_deg=parsed.cone_deg,
            lead_s=parsed.lead_s,
            haste=parsed.haste,
        )
        self.moving: set[ClientId] = set()
        """The clients with flag_mov = 1: those that crossed into another cell no longer than T ago."""
        self.aware: dict[Context, dict[BrokerId, Prehandoff]] = {}
        """VC(ESie) for each client here."""
        self.attempts: dict[int, Prehandoff] = {}
        """The same, by the number of the attempt."""
        self.heirs: dict[Context, Replaced] = {}
        """Contexts that another server serves already, kept until it has all their events."""
        self.filled: dict[Context, dict[BrokerId, tuple[int, int]]] = {}
        """The last attempt at each server, and its changes, that was sent all it needs: even if cancelled since, the
        client may have come before the cancellation."""
        self._unfilled: dict[int, Prehandoff] = {}
        """Those that wait for this server to see what the other had seen."""
        self._last_attempt = 0
        self._ticket: Ticket | None = None
        self.handle(EnablePrehandoff, self.a1_enabled)
        self.handle(Preforwarded, self.on_preforwarded)
        self.handle(Replaced, self.on_replaced)
        self.handle(AskExpected, self.on_ask_expected)

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
        now = self.host.now()
        due = self.expectation.due(context.client, self.table)
        aware = self.aware.get(context, {})
        for server in [server for server in aware if server not in due]:
            self.cancel(aware[server])  # rule 1: MHs is not in a border cell, or in another one
        for server in sorted(server for server, from_s in due.items() if from_s <= now + INSTANT_S):
            if server not in aware:  # MHs ∉ VC(ESie)
                self.a1_request(context, server)
        self.wait_for_next(context.client, [from_s - now for from_s in due.values()])

    def wait_for_next(self, client: ClientId, waits_s: list[Seconds]) -> None:
        """Register once more when the next server is due, unless the client has been seen elsewhere by then."""
        later = [wait_s for wait_s in waits_s if wait_s > INSTANT_S]
        if later:
            self.host.set_timer(("nearing", client), min(later))
        else:
            self.host.cancel_timer(("nearing", client))

    def a1_request(self, context: Context, server: BrokerId) -> None:
        """(a.1) Send Pre_handoffRequest (ESi, MHs) to ESe."""
        self._last_attempt += 1
        prehandoff = Prehandoff(context, server, context.epoch, self._last_attempt)
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
            epoch=prehandoff.epoch,
            attempt=prehandoff.attempt,
            filters=tuple(context.filters),
            session=context.session,
            speed_mps=self.expectation.speed_mps(context.client, self.table),
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
                    epoch=prehandoff.epoch,
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
        message = CancelPreforward(client=context.client, epoch=prehandoff.epoch, attempt=prehandoff.attempt)
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
        elif key[0] == "nearing":
            if (context := self.contexts.get(ClientId(key[1]))) is not None:
                self.a1_register(context)
        else:
            super().on_timer(key)

    # --- A1, else: the client comes to a server where it was not local ------------------------------------

    def on_ticket(self, client: ClientId, ticket: Ticket | None) -> None:
        self._ticket = ticket

    def on_connect(
        self, client: ClientId, old_broker: BrokerId | None, carried: tuple[Filter, ...] = ()
    ) -> None:
        ticket, self._ticket = self._ticket, None
        context = self.contexts.get(client)
        if old_broker is None or old_broker == self.me:
            if context is not None:
                self.cancel_all(context)  # its virtual consumers are of the connection before this one
            super().on_connect(client, old_broker, carried)
            self.a1_register(self.contexts[client])
            return
        if context is not None:
            self.leave_behind(context)
        virtual = self.virtual.get(client)
        self.table.arrived(client, old_broker, virtual.speed_mps if virtual is not None else None)
        if virtual is not None and self.is_usable(virtual, old_broker, ticket):
            self.a1_replace(virtual, ticket)
        else:
            self.note("missed", client, old_broker)
            self.end(client)
            self.step_1_reconnected(client, old_broker, carried)  # execute normal handoff process

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

    def fill_passed(self, prehandoff: Prehandoff) -> None:
        """What the server had seen before it subscribed has come here: send it what the client has not read."""
        if prehandoff.fence is None or not self.router.passed(prehandoff.fence):
            return
        context = prehandoff.context
        del self._unfilled[prehandoff.attempt]
        self.filled.setdefault(context, {})[prehandoff.server] = (prehandoff.attempt, prehandoff.changes)
        message = Prestored(
            client=context.client,
            epoch=prehandoff.epoch,
            attempt=prehandoff.attempt,
            events=tuple(context.events()),
            position=dict(context.position),
            changes=prehandoff.changes,
        )
        self.router.unicast(prehandoff.server, message)
        heir = self.heirs.pop(context, None)
        if heir is not None:
            self.hand_all(context, heir)

    def on_ask_expected(self, server: BrokerId, message: AskExpected) -> None:
        """A broker that has forgotten an attempt, with its store or since, says so."""
        known = self.attempts.get(message.attempt)
        is_known = known is not None and (known.server, known.context.client, known.epoch) == (
            server,
            message.client,
            message.epoch,
        )
        answer = StillExpected if is_known else CancelPreforward
        self.router.unicast(
            server, answer(client=message.client, epoch=message.epoch, attempt=message.attempt)
        )

    # --- handing the client over, at ESi --------------------------------------------------------------------

    def on_replaced(self, server: BrokerId, message: Replaced) -> None:
        """The client has replaced its virtual consumer at `server`: its context here is not needed any more.

        Unless the client has come back since, or the virtual consumer does not know all its subscriptions, or was
        cancelled before it was whole: then the context is handed over as in a normal handoff.
        """
        claim = ContextRequest(client=message.client, epoch=message.heir, new_broker=server)
        context = self.source_of(server, message)
        if message.asks and context is not self.claimed_by(claim):
            context = None  # the client showed nothing, and comes from a later connection than was believed
        is_served = message.whole and not message.asks  # what the client has subscribed to, it has shown
        if context is None and is_served:
            return  # it was given up in the meantime
        is_current = is_served or context is None or message.digest == digest_of(context.filters)
        if context is None or context.epoch > message.heir or not is_current:
            super().on_context_request(server, claim)
            return
        self.cancel_all(context, but=server)
        if context.mode is Mode.SERVING:
            self.host.detach(context.client, "taken over")
            self.pause(context)
        self.take_off(context)
        self.remember_where(context.client, message.heir)
        if self.has_all(context, server, message):
            self.hand_all(context, message)
        else:
            self.heirs[context] = message

    def source_of(self, server: BrokerId, message: Replaced) -> Context | None:
        """The context that the virtual consumer was filled from, or will be."""
        current = self.contexts.get(message.client)
        held = [*self.left_behind.get(message.client, ()), *([current] if current is not None else [])]
        prehandoff = self.attempts.get(message.attempt)
        if prehandoff is not None and prehandoff.changes == message.changes and prehandoff.context in held:
            return prehandoff.context
        return next((context for context in held if self.has_all(context, server, message)), None)

    def has_all(self, context: Context, server: BrokerId, message: Replaced) -> bool:
        return self.filled.get(context, {}).get(server) == (message.attempt, message.changes)

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

    def leave_behind(self, context: Context) -> None:
        self.cancel_all(context)  # where the client went from here is known, or will be said
        super().leave_behind(context)

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

    def completed(self, context: Context) -> None:
        super().completed(context)
        if self.contexts.get(context.client) is context and context.mode is Mode.SERVING:
            self.a1_register(context)

    # --- subscriptions, restart, checkers -------------------------------------------------------------------

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        context = self.contexts[client]
        known = filter in context.filters
        super().on_subscribe(client, filter)
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
