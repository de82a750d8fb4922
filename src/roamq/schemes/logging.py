"""Logging: standard, but Broker 1 need not send the events that the new broker finds in its own log.

Paper: [DIS] section 3.2.2. "All brokers maintain a log of recently received events."
Assumes: as standard; events have ids that are unique in the whole system, as ours are.
Departs: Broker 1 sends no list of ids when it has stored nothing, and Broker 2 none when it found nothing in its log; a
list of ids counts as one message (docs/decisions/0032).
"""

from collections import deque
from dataclasses import dataclass

from roamq.core.context import Context, Epoch, Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.schemes.base import Scheme, SchemeOptions, Setup
from roamq.schemes.beside import Beside
from roamq.schemes.messages.handover import Release, StoredEvents
from roamq.schemes.messages.logging import LoggedIds, StoredIds
from roamq.schemes.parts.departed import DepartedBrokers
from roamq.schemes.parts.handover import NOTHING
from roamq.schemes.parts.own_steps import Leaving, OwnSteps
from roamq.schemes.parts.part import Part
from roamq.schemes.parts.whereabouts import Arriving, Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingOptions(SchemeOptions):
    """Parameters of logging."""

    log_size: int = 1000
    """The number of events that a broker keeps in its log, the last ones ([DIS] Table 2)."""
    log_transferred: bool = False
    """Whether events that another broker sent for a client are logged too; the paper says "recently received"."""

    def __post_init__(self) -> None:
        if self.log_size < 1:
            raise ConfigError(f"scheme.log_size: {self.log_size} events is no log; give 1 or more")


class Log(Part):
    """ "All brokers maintain a log of recently received events." """

    def __init__(self, log: deque[Event]) -> None:
        self.log = log
        self.pending = self.uses = ["always"]
        """Empty while no client is under this scheme: then nobody will look into the log."""

    def on_event(self, event: Event) -> None:
        self.log.append(event)


class Logging(Scheme):
    """One broker's part of logging."""

    name = "logging"
    lets_brokers_depart = True
    options_type = LoggingOptions
    messages = (StoredIds, LoggedIds)
    stands_beside_others = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.beside = LoggingBeside(self)
        assert isinstance(setup.options, LoggingOptions)
        own = OwnSteps(hand_over=self.hand_over, forward=self.step_5_forward, admit_all=self.admit_all)
        self.log: deque[Event] = deque(maxlen=setup.options.log_size)
        self.logged = self.add(Log(self.log))
        self.handover = self.hand_over_by(setup, own, may_be_late=True)
        self.add(DepartedBrokers(self.handover))
        self.offered: dict[tuple[ClientId, Epoch], dict[EventId, Event | None]] = {}
        """At Broker 2: the ids that Broker 1 has stored, in its order, each with the event if Broker 2's log had it."""
        self.spared: dict[tuple[ClientId, Epoch, BrokerId], frozenset[EventId]] = {}
        """At Broker 1: the ids of the events that Broker 2 does not need."""
        self.mailbox.handle(StoredIds, self.on_stored_ids)
        self.mailbox.handle(LoggedIds, self.on_logged_ids)

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        self.handover.on_connect(client, old_broker, carried)

    # --- between steps 2 and 5 ----------------------------------------------------------------------------

    def hand_over(self, context: Context, claim: Claim) -> None:
        """ "After Step 2, Broker 1 sends a message with the IDs of its stored events to Broker 2."

        A Broker 1 that is released before it has offered its ids offers them, and step 5 waits for the answer.
        """
        if not context.stored:
            self.handover.step_2_hand_over(context, claim)
            return
        leaving = self.handover.part_with(context, claim.epoch, claim.new_broker)
        if isinstance(claim, Release):
            leaving.release = claim
        else:
            self.handover.send_subscriptions(leaving, claim, ids_follow=True)
        ids = tuple(event.id for event in context.events())
        self.mailbox.send(claim.new_broker, StoredIds(client=context.client, epoch=claim.epoch, ids=ids))

    def on_stored_ids(self, old_broker: BrokerId, offer: StoredIds) -> None:
        """ "Broker 2 checks for these events in its log and sends any matched IDs to Broker 1." """
        arriving = self.handover.whereabouts.arriving.get((offer.client, offer.epoch))
        if arriving is None:
            return
        logged = {event.id: event for event in self.log}
        found = {event_id: logged.get(event_id) for event_id in offer.ids}
        self.offered[offer.client, offer.epoch] = found
        known = tuple(event_id for event_id, event in found.items() if event is not None)
        if known or arriving.released:  # a Broker 1 that was released before its offer waits for the reply
            reply = LoggedIds(client=offer.client, epoch=offer.epoch, new_broker=self.me, ids=known)
            self.mailbox.send(old_broker, reply)
        if not arriving.released:
            self.handover.step_3_release(arriving, old_broker)

    def on_logged_ids(self, new_broker: BrokerId, reply: LoggedIds) -> None:
        """ "... instructing it to not send these events during Step 5." """
        self.spared[reply.client, reply.epoch, reply.new_broker] = frozenset(reply.ids)
        leaving = self.handover.leaving.get(reply.client, {}).get((reply.epoch, reply.new_broker))
        if leaving is not None and leaving.release is not None:
            self.handover.on_release(new_broker, leaving.release)

    def step_5_forward(self, leaving: Leaving) -> None:
        release = leaving.release
        assert release is not None
        spared = self.spared.pop((release.client, release.epoch, release.new_broker), NOTHING)
        self.handover.step_5_forward(leaving, without=spared)

    def admit_all(self, arriving: Arriving, message: StoredEvents, how: str) -> None:
        """Admit the events that Broker 1 sent and those of the log, in the order in which Broker 1 stored them."""
        found = self.offered.pop((message.client, message.epoch), {})
        sent = {event.id: event for event in message.events}
        assert isinstance(self.options, LoggingOptions)
        if self.options.log_transferred:
            self.log.extend(message.events)
        admit = self.handover.admit_older
        for event_id, logged in found.items():
            if logged is not None:
                admit(arriving.context, logged, "stored")  # the multicast had brought the event here
            elif event_id in sent:
                admit(arriving.context, sent.pop(event_id), how)
        for event in sent.values():  # Broker 1 stored these after it had made its list
            admit(arriving.context, event, how)


class LoggingBeside(Beside):
    """Logging beside other schemes."""

    scheme: Logging

    def set_options(self, options: SchemeOptions) -> None:
        super().set_options(options)
        assert isinstance(options, LoggingOptions)
        if options.log_size != self.scheme.log.maxlen:
            self.scheme.log = self.scheme.logged.log = deque(self.scheme.log, maxlen=options.log_size)

    def set_wanted(self, is_wanted: bool) -> None:
        """Keep a log only while some class of clients has this scheme."""
        self.scheme.logged.uses[:] = ["always"] if is_wanted else []

    def puts_together(self, client: ClientId, transfer: Epoch) -> bool:
        """Whichever scheme the client is under here, the broker that it comes from may have made an offer."""
        return (client, transfer) in self.scheme.offered
