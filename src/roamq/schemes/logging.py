"""Logging: standard, but what the new broker finds in its own log of events need not be sent.

Paper: [DIS] section 3.2.2. "All brokers maintain a log of recently received events."
Assumes: as standard; events have ids that are unique in the whole system, as ours are.
Departs: Broker 1 sends no list of ids when it has stored nothing, and Broker 2 none when it found nothing in its
log; a list of ids counts as one message (docs/decisions/0032).
"""

from collections import deque
from dataclasses import dataclass

from roamq.core.context import Context, Epoch
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.messages import LoggedIds, Release, StoredEvents, StoredIds, Subscriptions
from roamq.core.ports import Host
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions, register
from roamq.schemes.claims import Arriving, Claim
from roamq.schemes.standard import Standard


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingOptions(SchemeOptions):
    """Parameters of logging."""

    log_size: int = 1000
    """How many of the last events a broker keeps in its log ([DIS] Table 2)."""

    def __post_init__(self) -> None:
        if self.log_size < 1:
            raise ConfigError(f"scheme.log_size: {self.log_size} events is no log; give 1 or more")


@register
class Logging(Standard):
    """One broker's part of logging."""

    name = "logging"
    options_type = LoggingOptions

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        assert isinstance(self.options, LoggingOptions)
        self.log: deque[Event] = deque(maxlen=self.options.log_size)
        self.offered: dict[tuple[ClientId, Epoch], dict[EventId, Event | None]] = {}
        """At Broker 2: what Broker 1 has stored, in its order, and those of it that our log had."""
        self.spared: dict[tuple[ClientId, Epoch, BrokerId], frozenset[EventId]] = {}
        """At Broker 1: what Broker 2 does not need."""
        self.handle(StoredIds, self.on_stored_ids)
        self.handle(LoggedIds, self.on_logged_ids)

    def on_event(self, event: Event) -> None:
        self.log.append(event)
        super().on_event(event)

    # --- between steps 2 and 5 ----------------------------------------------------------------------------

    def hand_over(self, context: Context, claim: Claim) -> None:
        """ "After Step 2, Broker 1 sends a message with the IDs of its stored events to Broker 2." """
        super().hand_over(context, claim)
        if context.stored:
            self.offer(context, claim)

    def offer(self, context: Context, claim: Claim) -> None:
        ids = tuple(event.id for event in context.events())
        offer = StoredIds(client=context.client, epoch=claim.epoch, ids=ids)
        self.tell(claim.new_broker, offer)

    def subscriptions_of(self, context: Context, claim: Claim) -> Subscriptions:
        return Subscriptions(
            client=context.client,
            epoch=claim.epoch,
            filters=tuple(context.filters),
            session=context.session,
            ids_follow=bool(context.stored),
        )

    def on_subscriptions(self, old_broker: BrokerId, reply: Subscriptions) -> None:
        if not reply.ids_follow:
            super().on_subscriptions(old_broker, reply)
        elif (arriving := self.arriving.get((reply.client, reply.epoch))) is not None:
            self.host.take_session(arriving.context, reply.session)
            self.step_3_subscribe(arriving, reply.filters)

    def on_stored_ids(self, old_broker: BrokerId, offer: StoredIds) -> None:
        """ "Broker 2 checks for these events in its log and sends any matched IDs to Broker 1." """
        arriving = self.arriving.get((offer.client, offer.epoch))
        if arriving is None:
            return
        logged = {event.id: event for event in self.log}
        found = {event_id: logged.get(event_id) for event_id in offer.ids}
        self.offered[offer.client, offer.epoch] = found
        known = tuple(event_id for event_id, event in found.items() if event is not None)
        if known or arriving.released:  # a Broker 1 that was released before it made its offer waits for this
            reply = LoggedIds(client=offer.client, epoch=offer.epoch, new_broker=self.me, ids=known)
            self.tell(old_broker, reply)
        if not arriving.released:
            self.step_3_release(arriving, old_broker)

    def on_logged_ids(self, new_broker: BrokerId, reply: LoggedIds) -> None:
        """ "... instructing it to not send these events during Step 5." """
        key = (reply.client, reply.epoch, reply.new_broker)
        self.spared[key] = frozenset(reply.ids)
        leaving = self.leaving.get(key)
        if leaving is not None and leaving.release is not None:
            self.on_release(new_broker, leaving.release)

    def stored_events_of(self, context: Context, release: Release) -> StoredEvents:
        spared = self.spared.pop((release.client, release.epoch, release.new_broker), frozenset())
        return StoredEvents(
            client=context.client,
            epoch=release.epoch,
            events=tuple(event for event in context.events() if event.id not in spared),
            position=dict(context.position),
            session=self.session_for(context, release),
        )

    def take_in_all(self, arriving: Arriving, message: StoredEvents, how: str) -> None:
        """What was sent and what the log had are put together in the order in which Broker 1 stored them."""
        found = self.offered.pop((message.client, message.epoch), {})
        sent = {event.id: event for event in message.events}
        for event_id, logged in found.items():
            if logged is not None:
                self.take_in(arriving.context, logged, "stored")  # the multicast had brought it here
            elif event_id in sent:
                self.take_in(arriving.context, sent.pop(event_id), how)
        for event in sent.values():  # stored by Broker 1 after it had made its list
            self.take_in(arriving.context, event, how)
