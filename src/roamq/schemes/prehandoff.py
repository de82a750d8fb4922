"""Location-based pre-handoff: virtual consumers at the servers that a client in a border cell may reach next.

Paper: [PRE] section 4, Fig. 3: algorithm A1, as it runs at ESi, where the client is; its messages are in
`preforwarding.py`, its last branch, for a client that replaces its virtual consumer, in `replacing.py`, A2 in
`virtual_consumers.py`, the tables MLT and BCT and the choice of servers in `locations.py`; RT is the router's. An event
server is a broker.
Assumes: reliable FIFO links; clients report the cells they enter; `region` knows the areas.
Departs: a virtual consumer is filled before it is ready, and the client shows how far it has read, or ESi is asked
(docs/decisions/0080); one that has its subscriptions is replaced even if it is not filled yet (0081); servers that no
longer lie ahead are cancelled within the border too (0082).
Without a virtual consumer the handoff is the normal one, of the standard algorithm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Seconds
from roamq.core.filters import Filter
from roamq.core.ports import Host, TimerKey
from roamq.core.prehandoff_messages import Replaced, WasAway
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Cell, Place, is_cell
from roamq.geo.region import Region
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions, register
from roamq.schemes.claims import Claim
from roamq.schemes.locations import Choice, Expectation, LocationTable
from roamq.schemes.preforwarding import Preforwarder
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
    limit_mps: float | None = None
    """With 'ahead': the speed limit, metres per second; who was not seen to be faster will not become so."""

    def __post_init__(self) -> None:
        if self.choose not in list(Choice):
            raise ConfigError(f"scheme.choose: {self.choose!r} is none of {', '.join(Choice)}")
        if not self.lease_s > 0:
            raise ConfigError(f"scheme.lease_s: {self.lease_s} is not above 0")
        if self.limit_mps is not None and not self.limit_mps > 0:
            raise ConfigError(f"scheme.limit_mps: {self.limit_mps} is not above 0")
        if not self.haste > 0:
            raise ConfigError(f"scheme.haste: {self.haste} is not above 0; 1 means never faster than seen")


@register
class PreHandoff(Preforwarder):
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
            limit_mps=parsed.limit_mps,
        )
        self.moving: set[ClientId] = set()
        """The clients with flag_mov = 1: those that crossed into another cell no longer than T ago."""
        self.left_s: dict[ClientId, Seconds] = {}
        """When clients that are not connected were last."""
        self._ticket: Ticket | None = None
        self.handle(WasAway, self.on_was_away)

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
        self.left_s.pop(client, None)
        context = self.contexts.get(client)
        if old_broker is None or old_broker == self.me:
            if context is not None:
                self.cancel_all(context)  # its virtual consumers are of the connection before this one
                self.table.reappeared(client, self.speed_of(client))
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

    def close(self, context: Context, *, mobile: bool = False) -> None:
        super().close(context, mobile=mobile)
        if context.client not in self.contexts:
            self.table.forget(context.client)
            self.moving.discard(context.client)
            self.left_s.pop(context.client, None)

    # --- who was switched off between two servers may be anywhere in its cell ------------------------------

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        super().on_disconnect(client, reason)
        if client in self.contexts:
            self.left_s[client] = self.host.now()

    def on_replaced(self, server: BrokerId, message: Replaced) -> None:
        self.tell_if_away(message.client, message.heir)
        super().on_replaced(server, message)

    def hand_over(self, context: Context, claim: Claim) -> None:
        self.tell_if_away(context.client, claim.epoch)
        super().hand_over(context, claim)

    def tell_if_away(self, client: ClientId, heir: Epoch) -> None:
        """Whoever goes by the motion of clients must know that this one's was not seen."""
        left_s = self.left_s.pop(client, None)
        if left_s is not None and self.expectation.is_misled_by(self.host.now() - left_s):
            self.router.unicast(heir.broker, WasAway(client=client, heir=heir))

    def on_was_away(self, server: BrokerId, message: WasAway) -> None:
        context = self.contexts.get(message.client)
        is_in_its_first_cell = len(self.table.sightings(message.client)) <= 1
        if context is not None and context.epoch == message.heir and is_in_its_first_cell:
            self.table.reappeared(message.client, None)
            self.a1_register(context)

    def completed(self, context: Context) -> None:
        super().completed(context)
        if self.contexts.get(context.client) is context and context.mode is Mode.SERVING:
            self.a1_register(context)

    def speed_of(self, client: ClientId) -> float | None:
        return self.expectation.speed_mps(client, self.table)

    def on_restart(self) -> None:
        super().on_restart()
        for client in sorted(self.moving):  # its timers fell with the broker
            self.host.set_timer(("moving", client), self.moving_s)


def region_from(options: PreHandoffOptions) -> Region | None:
    """The region as the options describe it: areas around positions, and a way across every edge."""
    if not options.areas:
        return None
    places = {BrokerId(name): Place(*position) for name, position in options.areas.items()}
    return Region(LocationAreas.voronoi(places, options.resolution), None, options.border_rings)
