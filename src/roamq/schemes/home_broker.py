"""Home broker: the context never moves; the home broker forwards events to wherever the client is.

Paper: [DIS] section 3.2.3. "Subscriptions remain on the home broker, which keeps receiving events through the
regular multicast mechanism. The home broker then forwards these events to the client using unicast messages."
Assumes: reliable FIFO links; a client is at home where it connected first, and says so (its ticket).
Departs: the home broker keeps what it forwarded until the visited broker says that the client has consumed it, which
it does when the client leaves and after every `report_every` events; so nothing is lost or repeated whatever the
client does in between (docs/decisions/0034). A broker visited by a client without a ticket asks by way of the
broker before.
"""

from dataclasses import dataclass, field

from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, EventId
from roamq.core.filters import Filter
from roamq.core.messages import ChangeSubscription, Consumed, Forward, Leave, Recall, Visiting, Welcome
from roamq.core.ports import Host
from roamq.overlay.base import Router
from roamq.schemes.base import Scheme, SchemeOptions, register


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeBrokerOptions(SchemeOptions):
    """Parameters of the home broker."""

    report_every: int = 100
    """After how many consumed events a visited broker tells the home broker, which then forgets them."""

    def __post_init__(self) -> None:
        if self.report_every < 1:
            raise ConfigError(f"scheme.report_every: {self.report_every} is too few; give 1 or more")


@dataclass(slots=True)
class Resident:
    """At the home broker: a client, and where it is."""

    context: Context
    at: BrokerId | None
    """Where its events go now; None while it is disconnected."""
    epoch: Epoch
    """Of its connection there."""
    next: tuple[BrokerId, Epoch] | None = None
    """Where it is since, while the broker it left has not yet said how far it read."""
    changed: dict[Filter, Epoch] = field(default_factory=dict)
    """From which connection a subscription was changed last: an older change that comes late is void."""


@dataclass(slots=True)
class Visit:
    """At a visited broker."""

    context: Context
    home: BrokerId
    unreported: int = 0


@register
class HomeBroker(Scheme):
    """One broker's part: home to some clients, visited by others."""

    name = "home-broker"
    options_type = HomeBrokerOptions

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        assert isinstance(self.options, HomeBrokerOptions)
        self.report_every = self.options.report_every
        self.ticket: Ticket | None = None
        self.residents: dict[ClientId, Resident] = {}
        self.visits: dict[ClientId, Visit] = {}
        self.way_home: dict[ClientId, BrokerId] = {}
        """For clients that show no ticket: the broker they came from when they were first here."""
        self.handle(Visiting, self.on_visiting)
        self.handle(Welcome, self.on_welcome)
        self.handle(Forward, self.on_forward)
        self.handle(Consumed, self.on_consumed)
        self.handle(Recall, self.on_recall)
        self.handle(ChangeSubscription, self.on_change_subscription)
        self.handle(Leave, self.on_gone)

    # --- the client comes and goes ------------------------------------------------------------------------

    def on_ticket(self, client: ClientId, ticket: Ticket | None) -> None:
        self.ticket = ticket

    def on_connect(
        self, client: ClientId, old_broker: BrokerId | None, carried: tuple[Filter, ...] = ()
    ) -> None:
        ticket, self.ticket = self.ticket, None
        resident = self.residents.get(client)
        if resident is not None:
            self.located(resident, self.me, self.new_epoch(above=resident.epoch))
            return
        home = ticket.home if ticket else self.way_home.get(client, old_broker)
        if home is None or home == self.me:
            self.move_in(client)
        else:
            if ticket is None:
                self.way_home[client] = home
            self.visit(client, home)

    def move_in(self, client: ClientId) -> None:
        """ "Each client is assigned a home broker": the one it connects to first."""
        context = self.open(client, self.new_epoch(), Mode.SERVING)
        self.residents[client] = Resident(context, self.me, context.epoch)
        self.serve(context, resumed=False)

    def visit(self, client: ClientId, home: BrokerId) -> None:
        """ "A client reconnects to its physically closest broker [but] logically to its home broker." """
        if client in self.visits:
            self.end_visit(client)
        context = self.open(client, self.new_epoch(), Mode.SERVING)
        context.open_local_queue()  # until home has answered
        self.visits[client] = Visit(context, home)
        self.serve(context, resumed=True)
        self.router.unicast(home, Visiting(client=client, epoch=context.epoch, visited=self.me))

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        if client in self.visits:
            self.end_visit(client)
        elif (resident := self.residents.get(client)) is not None:
            if resident.next is not None and resident.next[0] == self.me:
                resident.next = None
            elif resident.at == self.me:
                self.nowhere(resident)

    def end_visit(self, client: ClientId) -> None:
        """Tell home how far the client read; what it did not read is there."""
        visit = self.visits.pop(client)
        context = visit.context
        report = Consumed(
            client=client,
            epoch=context.epoch,
            position=dict(context.position),
            ahead=context.acknowledged_ahead(),
            left=True,
            session=context.session,
        )
        self.close(context)
        self.router.unicast(visit.home, report)

    def on_restart(self) -> None:
        for client in list(self.visits):
            self.end_visit(client)
        for resident in self.residents.values():
            if resident.at == self.me:
                self.nowhere(resident)

    # --- at home ------------------------------------------------------------------------------------------

    def on_visiting(self, sender: BrokerId, message: Visiting) -> None:
        resident = self.at_home(message)
        if resident is not None:
            self.located(resident, message.visited, message.epoch)

    def located(self, resident: Resident, broker: BrokerId, epoch: Epoch) -> None:
        """The client is at `broker`: forward there, once the broker it left has said how far it read."""
        newest = max(resident.epoch, resident.next[1]) if resident.next else resident.epoch
        if epoch < newest:
            return  # it has been elsewhere since
        if resident.at == self.me and broker != self.me:
            self.host.detach(resident.context.client, "taken over")
            self.nowhere(resident)
        if resident.at is None or resident.at == self.me:
            self.settle(resident, broker, epoch)
            return
        if resident.next is None:
            self.router.unicast(resident.at, Recall(client=resident.context.client, epoch=resident.epoch))
        resident.next = (broker, epoch)

    def settle(self, resident: Resident, broker: BrokerId, epoch: Epoch) -> None:
        resident.at, resident.epoch, resident.next = broker, epoch, None
        self.serve(resident.context, resumed=True)
        if broker != self.me:  # after what is forwarded now: the client may acknowledge any of it at once
            client, session = resident.context.client, resident.context.session
            self.router.unicast(broker, Welcome(client=client, epoch=epoch, session=session))

    def nowhere(self, resident: Resident) -> None:
        """The client is disconnected: its events are stored at home."""
        resident.at = None
        self.pause(resident.context)

    def attach(self, context: Context, *, resumed: bool) -> None:
        resident = self.residents.get(context.client)
        if resident is None or resident.at == self.me:
            super().attach(context, resumed=resumed)

    def pump(self, context: Context) -> None:
        """ "Note that there is unicast traffic even when the client is connected." """
        resident = self.residents.get(context.client)
        if resident is None or resident.at == self.me:
            super().pump(context)
        elif resident.at is not None and resident.next is None:
            client, at, epoch, unicast = context.client, resident.at, resident.epoch, self.router.unicast
            while (held := context.next_to_send()) is not None:
                unicast(at, Forward(client=client, epoch=epoch, event=held.event))

    def on_consumed(self, sender: BrokerId, message: Consumed) -> None:
        resident = self.at_home(message)
        if resident is None:
            return
        if resident.next is not None and message.epoch == resident.next[1]:
            resident.next = None  # it left before anything was forwarded there
            self.host.take_session(resident.context, message.session)
            return
        if resident.at is None or message.epoch != resident.epoch:
            return
        resident.context.consume_through(dict(message.position), message.ahead)
        self.host.take_session(resident.context, message.session)
        self.host.store(message.client)
        if message.left:
            self.nowhere(resident)
            if resident.next is not None:
                self.settle(resident, *resident.next)

    def on_change_subscription(self, sender: BrokerId, message: ChangeSubscription) -> None:
        resident = self.at_home(message)
        if resident is None or message.epoch < resident.changed.get(message.filter, message.epoch):
            return
        resident.changed[message.filter] = message.epoch
        if message.wanted:
            self.add_filter(resident.context, message.filter)
        else:
            self.remove_filter(resident.context, message.filter)

    def on_gone(self, sender: BrokerId, message: Leave) -> None:
        resident = self.at_home(message)
        if resident is not None:
            self.close(resident.context)

    def at_home(self, message: Visiting | Consumed | ChangeSubscription | Leave) -> Resident | None:
        """The resident a message is about. If it is not at home here, the message goes on to where it may be."""
        resident = self.residents.get(message.client)
        if resident is None and message.client in self.way_home:
            self.router.unicast(self.way_home[message.client], message)
        return resident

    # --- at a visited broker ------------------------------------------------------------------------------

    def on_welcome(self, home: BrokerId, message: Welcome) -> None:
        """Home knows that the client is here: what it forwards goes to the client from now on."""
        visit = self.visits.get(message.client)
        if visit is not None and visit.context.epoch == message.epoch:
            visit.home = home
            self.host.take_session(visit.context, message.session)
            visit.context.close_local_queue()
            self.host.attached(message.client, resumed=True)
            self.replay(visit.context)

    def on_forward(self, home: BrokerId, message: Forward) -> None:
        visit = self.visits.get(message.client)
        if visit is None or visit.context.epoch != message.epoch:
            return  # the visit is over: home has the event still
        visit.home = home
        if not visit.context.admit(message.event, "forwarded"):
            self.drop(visit.context, message.event, "queue_full")
        if visit.context.local_queue is None:
            self.pump(visit.context)

    def on_acknowledge(self, client: ClientId, event_id: EventId) -> None:
        super().on_acknowledge(client, event_id)
        visit = self.visits.get(client)
        if visit is not None:
            visit.unreported += 1
            if visit.unreported >= self.report_every:
                visit.unreported = 0
                context = visit.context
                report = Consumed(client=client, epoch=context.epoch, position=dict(context.position))
                self.router.unicast(visit.home, report)

    def on_recall(self, home: BrokerId, message: Recall) -> None:
        visit = self.visits.get(message.client)
        if visit is not None and visit.context.epoch == message.epoch:
            self.host.detach(message.client, "taken over")
            self.end_visit(message.client)

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        self.change(client, filter, wanted=True)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        self.change(client, filter, wanted=False)

    def change(self, client: ClientId, filter: Filter, *, wanted: bool) -> None:
        visit = self.visits.get(client)
        epoch = visit.context.epoch if visit is not None else self.residents[client].epoch
        message = ChangeSubscription(client=client, epoch=epoch, filter=filter, wanted=wanted)
        if visit is not None:
            self.router.unicast(visit.home, message)
        else:
            self.on_change_subscription(self.me, message)

    def on_leave(self, client: ClientId) -> None:
        visit = self.visits.get(client)
        if visit is None:
            super().on_leave(client)
        else:
            self.close(self.visits.pop(client).context)
            self.router.unicast(visit.home, Leave(client=client))

    # --- bookkeeping --------------------------------------------------------------------------------------

    def forget(self, context: Context) -> None:
        resident = self.residents.get(context.client)
        if resident is not None and resident.context is context:
            del self.residents[context.client]
        super().forget(context)

    def may_keep(self, context: Context) -> bool:
        """Contexts stay at home wherever their client is."""
        return context.client in self.residents
