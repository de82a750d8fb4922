"""The places of members in shared groups: members take places, come, go and leave, and the other brokers hear of it."""

from collections.abc import Collection, Container, Iterable
from dataclasses import replace
from itertools import chain

from roamq.broker.broker import Broker
from roamq.core.context import FORWARDED, Context, Epoch, Held
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.forgetting import take_out
from roamq.net.clients.confirmations import Confirmations
from roamq.net.clients.mqtt.state import SessionState
from roamq.net.clients.mqtt.subscriptions import filters_of, shared_filters_of
from roamq.net.host import LiveHost, PlacesEnded, SharesDue, Unwanted
from roamq.net.links.others import OtherBrokers
from roamq.net.topics.intake import EventIntake
from roamq.net.topics.shared import GroupKey, GroupPlace, SharedGroups


class Memberships:
    """The places in shared groups of clients whose sessions are at this broker."""

    def __init__(
        self,
        host: LiveHost,
        broker: Broker,
        groups: SharedGroups,
        intake: EventIntake,
        others: OtherBrokers,
        confirmations: Confirmations,
    ) -> None:
        self._host = host
        self._broker = broker
        self._groups = groups
        self._intake = intake
        self._others = others
        self._confirmations = confirmations

    def set(
        self,
        filter: Filter,
        client: ClientId,
        epoch: Epoch,
        connected: bool | None,
        *,
        is_here: bool = True,
    ) -> None:
        """A member is connected (True), is away (False), or leaves (None). Its place `is_here`, or at another broker,
        which then sees to the events that come for it."""
        known = self._groups.place(filter, client)
        since = self._host.time if known is None else known.since
        news = GroupPlace(filter=filter, client=client, epoch=epoch, since=since, connected=connected)
        if self._groups.learn(news, is_here=is_here):
            self._others.tell_all(news)
            if connected is None and is_here:
                self._confirmations.linger(filter)

    def set_all(self, client: ClientId, session: SessionState, epoch: Epoch, connected: bool) -> None:
        """Like `set`, for every shared subscription of a session that goes on."""
        for filter in _shared(session):
            self.set(filter, client, epoch, connected)

    def leave(
        self,
        filter: Filter,
        context: Context,
        session: SessionState,
        epoch: Epoch,
        own: Collection[Filter] | None = None,
    ) -> None:
        """A member leaves a group: hand its assigned events that were not sent to other members.

        [MQTT-4.8.2-5]: at QoS 2 that holds for events that were never sent; section 4.8.2 recommends it at QoS 1 for
        events that were sent and not acknowledged, when the session has ended. `own` are the filters of the client
        alone, if they are known.
        """
        self.set(filter, context.client, epoch, None, is_here=filter in context.filters)
        begun = _given(session)
        if own is None:
            own = [other for other in filters_of(session) if other.group is None]
        given, taken = _take_back(context, filter, begun, own)
        self._broker.on_taken_back(context.client, taken)
        for event in given:
            self._hand_on(event, str(filter))

    def leave_all(self, context: Context, session: SessionState, epoch: Epoch) -> None:
        """The session has ended: its places end, and nothing is in flight any more."""
        context.return_in_flight()
        shared = _shared(session)
        own = [other for other in filters_of(session) if other.group is None] if shared else []
        for filter in shared:
            self.leave(filter, context, session, epoch, own)
        # Events that were on their way when the client left a group, and were never sent, still need another member.
        sent = {entry.event_id for entry in session.outbound.values()}
        keys, client = set(map(str, shared)), context.client
        later = (Held(event, "stored") for event in context.waiting())
        # A queue may be long, and most of its events are not for groups.
        shares = [held for held in chain(context.stored, later) if held[0].assigned is not None]
        for event, how in shares:
            if event.id not in sent:
                self._give_up(event, client, keys, is_forwarded=how == FORWARDED)

    def leave_with(
        self, client: ClientId, session: SessionState, epoch: Epoch, events: Iterable[Event]
    ) -> None:
        """Like `leave_all`, for a session whose context is closed already; `events` are those that the context had
        stored."""
        sent = {entry.event_id for entry in session.outbound.values()}
        given, shared = _given(session), _shared(session)
        for filter in shared:
            self.set(filter, client, epoch, None)
        for event in events:
            for filter in shared:
                if (event.assigned or {}).get(str(filter)) == client and event.id not in given:
                    self._hand_on(event, str(filter))
            if event.id not in sent:
                self._give_up(event, client, set(map(str, shared)), is_forwarded=False)

    def heed(self, told: Unwanted | SharesDue | PlacesEnded) -> None:
        """Do what the core's message to the host about members asks for."""
        if isinstance(told, Unwanted):
            # An event came to a client that had left the shared group it was for: another member gets it.
            self._give_up(told.event, told.client, (), is_forwarded=told.is_forwarded)
        elif isinstance(told, SharesDue):
            for key in told.groups:
                if self._groups.note_handed_on(key, told.event):
                    self._intake.hand_to(told.client, told.event, key)
        else:
            self._on_places_ended(told)

    def _on_places_ended(self, told: PlacesEnded) -> None:
        """A client has left groups elsewhere. Events for its places, which were here, go to other members."""
        for filter in told.filters:
            if (ended := self._groups.note_ended_here(filter, told.client)) is not None:
                # Brokers that have not heard of it hear it before anything that lets this broker refuse the events.
                self._others.tell_all(ended)
                self._confirmations.linger(filter)
        for event in told.events:
            for key, member in (event.assigned or {}).items():
                if member == told.client:
                    self._hand_on(event, key)

    def _give_up(
        self, event: Event, client: ClientId, but: Container[GroupKey], *, is_forwarded: bool
    ) -> None:
        """A client does not get an event that is stored for it: hand the event on in the groups that the client had
        left before, except in the groups `but`."""
        for key in list(self._groups.comes_too_late(event, client, is_forwarded)):
            if key not in but:
                self._intake.hand_on(event, key)

    def end_all(self, client: ClientId, epoch: Epoch) -> None:
        """All brokers hear that a session is over up to a connection: end each place that it still has."""
        for place in self._groups.places_of(client):
            if place.epoch <= epoch:
                self._groups.learn(replace(place, epoch=epoch, connected=None))

    def broker_departed(self, broker: BrokerId) -> None:
        """A broker is gone for good: end the places whose members were there."""
        for place in [place for place in self._groups.all_places() if place.epoch.broker == broker]:
            self._groups.learn(replace(place, connected=None))

    def _hand_on(self, event: Event, key: GroupKey) -> None:
        if self._groups.note_handed_on(key, event):
            self._intake.hand_on(event, key)

    def on_place(self, sender: BrokerId, news: GroupPlace) -> None:
        """Another broker says what has become of a place."""
        self._groups.learn(news)


def _shared(session: SessionState) -> list[Filter]:
    return shared_filters_of(session)


def _given(session: SessionState) -> set[EventId]:
    """The events in flight that no other member may get: those begun at QoS 2 [MQTT-4.8.2-5], and those that the client
    was sent for another subscription, whose copy for the group is an event of its own."""
    return {entry.event_id for entry in session.outbound.values() if entry.qos == 2 or not entry.is_shared}


def _take_back(
    context: Context, filter: Filter, kept: Container[EventId], others: Collection[Filter]
) -> tuple[list[Event], list[Event]]:
    """Take back the events that a context stores for a place in a shared group, except those that are `kept` or in
    flight.

    Returns the events that other members of the group are to get, and those of them that the context does not hold any
    more: an event that one of the client's `others` wants as well stays.
    """
    shared = str(filter)
    stays: list[Event] = []

    def is_taken(event: Event) -> bool:
        assigned = event.assigned or {}
        if assigned.get(shared) != context.client or event.id in kept:
            return False
        if not event.is_handed_on and any(other.matches(event) for other in others):
            stays.append(event)
            return False
        return True

    taken = take_out(context, is_taken)
    return [*taken, *stays], taken
