"""Home broker: the context never moves; the home broker forwards events to the broker where the client is.

Paper: [DIS] section 3.2.3. "Subscriptions remain on the home broker, which keeps receiving events through the
regular multicast mechanism. The home broker then forwards these events to the client using unicast messages."
Assumes: reliable FIFO links; a client is at home where it connected first, and says so (its ticket).
Departs: the home broker keeps a forwarded event until the visited broker says that the client has consumed it. The
visited broker says so when the client leaves and after every `report_every` events; so no event is lost or repeated
whatever the client does in between (docs/decisions/0034). A visited broker finds the home of a client without a ticket
by way of the broker from which the client came.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from roamq.broker.contexts import Contexts
from roamq.core.context import FORWARDED, UNLIMITED, Context, Epoch, Mode, Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.local_queue import close_local_queue, open_local_queue
from roamq.core.ports import Host
from roamq.core.read_elsewhere import consume_through
from roamq.overlay.base import Router
from roamq.schemes.base import Scheme, SchemeOptions, Setup
from roamq.schemes.messages.home_broker import (
    ChangeSubscription,
    Consumed,
    Forward,
    Leave,
    Recall,
    Visiting,
    Welcome,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeBrokerOptions(SchemeOptions):
    """Parameters of the home broker."""

    report_every: int = 100
    """The number of consumed events after which a visited broker tells the home broker, which then forgets them."""

    def __post_init__(self) -> None:
        if self.report_every < 1:
            raise ConfigError(f"scheme.report_every: {self.report_every} is too few; give 1 or more")


@dataclass(slots=True)
class Resident:
    """At the home broker: a client, and its whereabouts."""

    context: Context
    at: BrokerId | None
    """The broker to which the client's events go now; None while the client is disconnected."""
    epoch: Epoch
    """The epoch of the client's connection there."""
    next: tuple[BrokerId, Epoch] | None = None
    """The broker where the client is since, while the broker that it left has not yet said how far it read."""
    changed: dict[Filter, Epoch] = field(default_factory=dict)
    """Filter -> the connection that changed the subscription last: an older change that comes late is void."""


@dataclass(slots=True)
class Visit:
    """At a visited broker: the context of a client, and its home broker."""

    context: Context
    home: BrokerId
    unreported: int = 0
    taken_back: list[EventId] = field(default_factory=list)
    """Events that were taken out of the context here: the home broker must not forward them again."""

    def brought(self) -> tuple[Event, ...]:
        """Events that only this broker gave the client, such as retained messages, and that the client has not
        consumed."""
        context = self.context
        consumed = set(context.acknowledged_ahead())
        stored = (held.event for held in context.stored if held.how != FORWARDED)
        return tuple(e for e in (*stored, *(context.local_queue or ())) if e.id not in consumed)


class ForwardingOutlet:
    """Forwards the events of a resident to the broker that it visits.

    "Note that there is unicast traffic even when the client is connected."
    """

    def __init__(self, router: Router, visited: BrokerId, epoch: Epoch) -> None:
        self.router = router
        self.visited = visited
        self.epoch = epoch

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        self.router.unicast(self.visited, Forward(client=to, epoch=self.epoch, event=event))


class HomeBroker(Scheme):
    """One broker's part: it is home to some clients, and others visit it."""

    name = "home-broker"
    options_type = HomeBrokerOptions
    counts_acknowledgements: ClassVar[bool] = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        assert isinstance(setup.options, HomeBrokerOptions)
        self.report_every = setup.options.report_every
        self.residents: dict[ClientId, Resident] = {}
        self.visits: dict[ClientId, Visit] = {}
        self.way_home: dict[ClientId, BrokerId] = {}
        """Client that shows no ticket -> the broker that it came from when it was first here."""
        self.mailbox.handle(Visiting, self.on_visiting)
        self.mailbox.handle(Welcome, self.on_welcome)
        self.mailbox.handle(Forward, self.on_forward)
        self.mailbox.handle(Consumed, self.on_consumed)
        self.mailbox.handle(Recall, self.on_recall)
        self.mailbox.handle(ChangeSubscription, self.on_change_subscription)
        self.mailbox.handle(Leave, self.on_gone)

    # --- the client comes and goes ------------------------------------------------------------------------

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        resident = self.residents.get(client)
        if resident is not None:
            self.located(resident, self.me, self.contexts.new_epoch(above=resident.epoch))
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
        context = self.contexts.open(client, self.contexts.new_epoch(), Mode.SERVING)
        self.residents[client] = Resident(context, self.me, context.epoch)
        self.contexts.serve(context)

    def visit(self, client: ClientId, home: BrokerId) -> None:
        """ "A client reconnects to its physically closest broker [but] logically to its home broker." """
        if client in self.visits:
            self.end_visit(client)
        context = self.contexts.open(client, self.contexts.new_epoch(), Mode.SERVING)
        open_local_queue(context)  # until home has answered
        self.visits[client] = Visit(context, home)
        self.contexts.serve(context)
        self.mailbox.send(home, Visiting(client=client, epoch=context.epoch, visited=self.me))

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        if client in self.visits:
            self.end_visit(client)
        elif (resident := self.residents.get(client)) is not None:
            if resident.next is not None and resident.next[0] == self.me:
                self.stay(resident)
            elif resident.at == self.me:
                self.nowhere(resident)

    def end_visit(self, client: ClientId) -> None:
        """Tell the home broker how far the client read; the events that it did not read are there."""
        visit = self.visits.pop(client)
        context = visit.context
        report = Consumed(
            client=client,
            epoch=context.epoch,
            position=dict(context.position),
            ahead=(*context.acknowledged_ahead(), *visit.taken_back),
            left=True,
            session=context.session,
            brought=visit.brought(),
        )
        self.contexts.close(context)
        self.mailbox.send(visit.home, report)

    def on_restart(self) -> None:
        for client in list(self.visits):
            self.end_visit(client)
        for resident in self.residents.values():
            if resident.at == self.me:
                self.nowhere(resident)

    # --- at home ------------------------------------------------------------------------------------------

    def on_visiting(self, sender: BrokerId, message: Visiting) -> None:
        resident = self.at_home(message)
        if resident is None and message.client not in self.way_home:
            # The client was at home here, and left for good on another connection: it is at home here again.
            context = self.contexts.open(message.client, message.epoch, Mode.ACTIVE)
            resident = self.residents[message.client] = Resident(context, None, message.epoch)
        if resident is not None:
            self.located(resident, message.visited, message.epoch)

    def located(self, resident: Resident, broker: BrokerId, epoch: Epoch) -> None:
        """The client is at `broker`: forward its events there, once the broker that it left has said how far it
        read."""
        newest = max(resident.epoch, resident.next[1]) if resident.next else resident.epoch
        if epoch < newest:
            return  # the client has been elsewhere since
        # The context belongs to the newest connection, wherever that is: the end of an older one does not end it.
        resident.context.epoch = max(epoch, resident.context.epoch)
        if resident.at == self.me and broker != self.me:
            self.host.detach(resident.context.client, "taken over")
            self.nowhere(resident)
        if resident.at is None or resident.at == self.me:
            self.settle(resident, broker, epoch)
            return
        if resident.next is None:
            self.mailbox.send(resident.at, Recall(client=resident.context.client, epoch=resident.epoch))
        resident.next = (broker, epoch)
        resident.context.window = 0  # nothing more goes to the broker that the client left

    def stay(self, resident: Resident) -> None:
        """The client has left the broker that was about to serve it: all is as it was before."""
        resident.next = None
        resident.context.window = UNLIMITED

    def settle(self, resident: Resident, broker: BrokerId, epoch: Epoch) -> None:
        resident.at, resident.epoch, resident.next = broker, epoch, None
        if broker == self.me:
            self.contexts.serve(resident.context)
        else:
            self.contexts.serve(resident.context, ForwardingOutlet(self.router, broker, epoch))
            # The welcome goes after the events forwarded just now: the client may acknowledge any of them at once.
            client, session = resident.context.client, resident.context.session
            self.mailbox.send(broker, Welcome(client=client, epoch=epoch, session=session))

    def nowhere(self, resident: Resident) -> None:
        """The client is disconnected: its events are stored at home."""
        resident.at = None
        self.contexts.pause(resident.context)

    def on_consumed(self, sender: BrokerId, message: Consumed) -> None:
        resident = self.at_home(message)
        if resident is None:
            return
        if resident.next is not None and message.epoch == resident.next[1]:
            self.stay(resident)  # the client left before any event was forwarded there
            self.host.take_session(resident.context, message.session)
            bring_home(self.contexts, resident.context, message.brought)
            return
        if resident.at is None or message.epoch != resident.epoch:
            return
        consume_through(resident.context, dict(message.position), message.ahead)
        self.host.take_session(resident.context, message.session)
        if message.left:
            self.nowhere(resident)
            bring_home(self.contexts, resident.context, message.brought)
            if resident.next is not None:
                self.settle(resident, *resident.next)

    def on_change_subscription(self, sender: BrokerId, message: ChangeSubscription) -> None:
        resident = self.at_home(message)
        if resident is None or message.epoch < resident.changed.get(message.filter, message.epoch):
            return
        resident.changed[message.filter] = message.epoch
        if message.wanted:
            self.contexts.add_filter(resident.context, message.filter)
        else:
            self.contexts.remove_filter(resident.context, message.filter)
            if message.filter.group is not None and sender != self.me:
                self.host.places_ended(message.client, (message.filter,))

    def on_gone(self, sender: BrokerId, message: Leave) -> None:
        resident = self.at_home(message)
        if resident is None:
            return
        newest = resident.next[1] if resident.next is not None else resident.epoch
        if newest > message.epoch and message.epoch != resident.epoch:
            return  # the client left a connection that others have replaced since
        if not message.welcomed:
            self.host.end_session(resident.context)
        else:
            end_places(self.host, resident.context, message.reach)
        if resident.next is not None and newest > message.epoch:
            self.start_over(resident)
            self.settle(resident, *resident.next)
        else:
            self.move_out(resident)

    def start_over(self, resident: Resident) -> None:
        """The client has left for good and come again, elsewhere: empty its context, so that it finds nothing of the
        old one."""
        context = resident.context
        self.nowhere(resident)
        for filter in list(context.filters):
            self.contexts.remove_filter(context, filter)
        self.contexts.consume_all(context)
        context.session = None

    def move_out(self, resident: Resident) -> None:
        """The client has left for good: it is no resident any more, and its context is closed."""
        del self.residents[resident.context.client]
        self.contexts.close(resident.context)

    def on_timeout(self, context: Context) -> None:
        if (resident := self.residents.get(context.client)) is not None:
            self.contexts.drop_all(context, "timeout")
            self.move_out(resident)

    def at_home(self, message: Visiting | Consumed | ChangeSubscription | Leave) -> Resident | None:
        """The resident that a message is about. If the client is not at home here, pass the message on towards its
        home."""
        resident = self.residents.get(message.client)
        if resident is None and message.client in self.way_home:
            self.mailbox.send(self.way_home[message.client], message)
        return resident

    # --- at a visited broker ------------------------------------------------------------------------------

    def on_welcome(self, home: BrokerId, message: Welcome) -> None:
        """The home broker knows that the client is here: from now on the client gets the events that it forwards."""
        visit = self.visits.get(message.client)
        if visit is not None and visit.context.epoch == message.epoch:
            visit.home = home
            self.host.take_session(visit.context, message.session)
            close_local_queue(visit.context)
            self.contexts.resume(visit.context)

    def on_forward(self, home: BrokerId, message: Forward) -> None:
        visit = self.visits.get(message.client)
        if visit is None or visit.context.epoch != message.epoch:
            return  # the visit is over: the home broker has the event still
        visit.home = home
        if not visit.context.admit(message.event, FORWARDED):
            self.contexts.drop(visit.context, message.event, "queue_full")
        if visit.context.local_queue is None:
            self.contexts.pump(visit.context)

    def on_acknowledge(self, client: ClientId, event_id: EventId) -> None:
        super().on_acknowledge(client, event_id)
        visit = self.visits.get(client)
        if visit is not None:
            visit.unreported += 1
            if visit.unreported >= self.report_every:
                visit.unreported = 0
                context = visit.context
                report = Consumed(client=client, epoch=context.epoch, position=dict(context.position))
                self.mailbox.send(visit.home, report)

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
            self.mailbox.send(visit.home, message)
        else:
            self.on_change_subscription(self.me, message)

    def on_taken_back(self, client: ClientId, events: Iterable[Event]) -> None:
        visit = self.visits.get(client)
        if visit is not None:
            visit.taken_back.extend(event.id for event in events)

    def on_leave(self, client: ClientId) -> None:
        visit = self.visits.pop(client, None)
        if visit is not None:
            context = visit.context
            welcomed = context.local_queue is None
            reach = dict(context.reach)
            self.contexts.close(context)
            leave = Leave(client=client, epoch=context.epoch, welcomed=welcomed, reach=reach)
            self.mailbox.send(visit.home, leave)
        elif (resident := self.residents.get(client)) is not None:
            self.move_out(resident)

    # --- bookkeeping --------------------------------------------------------------------------------------

    def may_keep(self, context: Context) -> bool:
        """True for residents: their contexts stay at home wherever the client is."""
        return context.client in self.residents


def end_places(host: Host, context: Context, reach: Mapping[BrokerId, int]) -> None:
    """A session ended at a visited broker, which saw to all events up to `reach`: other members of its groups get the
    rest."""
    places = tuple(filter for filter in context.filters if filter.group is not None)
    unseen = tuple(event for event in context.events() if event.id[1] > reach.get(event.id[0], 0))
    if places or unseen:
        host.places_ended(context.client, places, unseen)


def bring_home(contexts: Contexts, context: Context, brought: Iterable[Event]) -> None:
    """Store here the events that only the visited broker gave the client, and that the client did not read."""
    for event in brought:
        if context.is_new(event) and not context.admit(event, "stored"):
            contexts.drop(context, event, "queue_full")
