"""Requests of clients that were let in: PUBLISH, SUBSCRIBE, UNSUBSCRIBE, and acknowledgements."""

from collections.abc import Sequence
from typing import Final

from roamq.broker.broker import Broker
from roamq.core.context import Context, Epoch
from roamq.core.events import ClientId, EventId
from roamq.core.filters import Filter
from roamq.core.records import Record
from roamq.core.tuples import new_tuple
from roamq.net.clients.access import Access
from roamq.net.clients.confirmations import Confirmations
from roamq.net.clients.connections import Connection, Connections
from roamq.net.clients.mqtt.attributes import event_of
from roamq.net.clients.mqtt.codec import (
    Publish,
    ReasonCode,
    Suback,
    Subscribe,
    Unsubscribe,
    Version,
)
from roamq.net.clients.mqtt.state import SessionState
from roamq.net.clients.mqtt.subscribing import Subscribing
from roamq.net.clients.mqtt.subscriptions import SubscriptionSet
from roamq.net.clients.quota import SessionQuota
from roamq.net.clients.sessions import Sessions
from roamq.net.clients.visitors import Visitors
from roamq.net.host import LiveHost
from roamq.net.steps import Steps
from roamq.net.topics.fullness import Fullness
from roamq.net.topics.intake import EventIntake
from roamq.net.topics.memberships import Memberships
from roamq.net.topics.replays import Replays

DENIED_CHARACTERS_MAX: Final = 300
"""Characters of an unheard-of topic that a record keeps: such a topic may be 64 kB long."""
_GRANTED: Final = (ReasonCode.GRANTED_QOS_0, ReasonCode.GRANTED_QOS_1, ReasonCode.GRANTED_QOS_2)
LOCATION_TOPIC: Final = "$roamq/location"
"""The topic on which a client publishes its cell; no subscriber gets it."""


class Requests:
    """Carries out requests of clients that were let in, if the access rules allow them."""

    def __init__(
        self,
        host: LiveHost,
        broker: Broker,
        connections: Connections,
        access: Access,
        sessions: Sessions,
        intake: EventIntake,
        replays: Replays,
        memberships: Memberships,
        confirmations: Confirmations,
        visitors: Visitors,
        steps: Steps,
        quota: SessionQuota,
        fullness: Fullness,
    ) -> None:
        self.refuses_full = True
        """Whether a PUBLISH that cannot be stored for one of its subscribers is refused."""
        self._quota = quota
        self._fullness = fullness
        self._access = access
        self._host = host
        self._broker = broker
        self._connections = connections
        self._sessions = sessions
        self._intake = intake
        self._replays = replays
        self._memberships = memberships
        self._confirmations = confirmations
        self._visitors = visitors
        self._steps = steps

    def publish(self, connection: Connection, client: ClientId, packet: Publish) -> None:
        mqtt, topic = connection.mqtt, packet.topic
        levels_max = mqtt.limits.topic_levels_max
        if topic[0] == "$" and topic == LOCATION_TOPIC:
            mqtt.published(packet)
            self._broker.on_location(client, packet.payload.decode("utf-8", "replace"))
            return
        if len(topic) >= levels_max and topic.count("/") >= levels_max:
            # Section 3.4.2.1: 0x90
            mqtt.published(packet, ReasonCode.TOPIC_NAME_INVALID, f"a topic has at most {levels_max} levels")
            return
        access = self._access
        if topic[0] == "$" or not (
            access.takes_all or access.may_publish(connection.user, client, topic, connection.claims)
        ):
            # Section 3.4.2.1: 0x87; at QoS 0 the message is dropped without a word
            mqtt.published(packet, ReasonCode.NOT_AUTHORIZED, access.why_not(topic))
            self._record_denial(client, f"publish {topic}")
            return
        host, broker = self._host, self._broker
        time, me = host.time, host.me
        event = event_of(packet, mqtt.terms.version, broker.next_event_id(), client, time)
        if packet.qos:
            contexts = broker.contexts
            bound = None
            if not contexts.buffer.has_room(event.cost_bytes, client):
                bound = "store_bytes_max"
            elif (
                self.refuses_full
                and (contexts.room.nearly_full or self._fullness.elsewhere)
                and (contexts.full_for(event) is not None or self._fullness.refuses(event))
            ):
                bound = "session_bytes_max"
            if bound is not None:
                broker.take_back_event_id()
                self._refuse_full(connection, client, packet, bound)
                return
        origin, sequence = event.id
        columns = (
            "published",
            time,
            me,
            client,
            origin,
            sequence,
            None,
            topic,
            None,
            None,
            event.size_bytes,
            None,
        )
        host.out.records.append(new_tuple(Record, columns))
        if event.retain or self._intake.shared.groups:
            self._intake.enter(event)
        else:
            broker.inject(event)
        if self._steps.enabled:
            self._steps.stored(event)
        if packet.qos:
            mqtt.published(packet)

    def acknowledge(self, connection: Connection, client: ClientId, event_ids: Sequence[EventId]) -> None:
        """Note that the client has received these events."""
        self._host.out.acknowledged += len(event_ids)
        if connection.delivers_early:
            for event_id in event_ids:
                if connection.delivers_early:
                    connection.mqtt.state.note_sent_early(event_id)
                    self.end_early(connection, client, event_id)
                self._broker.on_acknowledge(client, event_id)
        else:
            self._broker.on_acknowledge_all(client, event_ids)
        if self._steps.enabled:
            self._steps.acknowledged(client, event_ids)

    def end_early(self, connection: Connection, client: ClientId, event_id: EventId) -> None:
        """Note that the client has received this event: if nothing else was sent early and older events have come,
        order is back."""
        context = self._broker.contexts.get(client)
        connection.delivers_early = context is not None and (
            context.delivers_early or any(event.id != event_id for event in context.sent_early)
        )

    def _refuse_full(self, connection: Connection, client: ClientId, packet: Publish, bound: str) -> None:
        """Refuse a PUBLISH: the store, the publisher's share of it, or the session of a subscriber is full (`bound`). A
        message that cannot be stored for its subscribers must not be acknowledged.

        Section 3.4.2.1: 0x97, and the publisher may try again. MQTT 3.1.1 has no such word: there the broker closes the
        connection, and the message counts as not acknowledged.
        """
        host, why = self._host, "the store of this broker is full"
        if bound == "session_bytes_max":
            why = "a subscriber has no room for it"
        host.record(Record("refused", host.time, host.me, client, detail=bound))
        if connection.mqtt.terms.version is Version.V311:
            self._sessions.end_connection(connection, ReasonCode.QUOTA_EXCEEDED, why)
        else:
            connection.mqtt.published(packet, ReasonCode.QUOTA_EXCEEDED, why)

    def subscribe(self, connection: Connection, packet: Subscribe) -> None:
        client = connection.client
        assert client is not None
        access, mqtt = self._access, connection.mqtt
        examined = mqtt.examine(packet)
        reasons, granted, denied = [], [], []
        shapes: set[str] = set()
        for wanted in examined.wanted:
            subscription = wanted.subscription
            if not access.is_open and not access.may_subscribe(
                connection.user, client, subscription.topic_filter, connection.claims
            ):
                reasons.append(ReasonCode.NOT_AUTHORIZED)
                denied.append(subscription.topic_filter)
            elif wanted.is_new and not self._has_room_for(client, wanted, shapes):
                reasons.append(ReasonCode.QUOTA_EXCEEDED)
            else:
                reasons.append(_GRANTED[subscription.qos])
                granted.append(wanted)
        suback = mqtt.grant(examined, reasons)
        replayed = []
        for wanted in granted:
            if wanted.replaced is not None:
                self._withdraw_replaced(connection, client, wanted.replaced)
            self._broker.on_subscribe(client, wanted.filter)
            if wanted.replay:
                replayed.append(wanted.filter)
        for topic_filter in denied:
            self._record_denial(client, f"subscribe {topic_filter}")
        self._answer(connection, client, suback, granted)
        if replayed:
            self._replays.begin(client, replayed)

    def _has_room_for(self, client: ClientId, wanted: Subscribing, shapes: set[str]) -> bool:
        """Whether a subscription fits. `shapes`: ways to place wildcards that the packet has begun; a new way is
        added."""
        host, quota, shape, bound = self._host, self._quota, wanted.filter.shape, "wildcard_shapes_max"
        is_begun = not shape or shape in self._broker.contexts.watched.index.shapes
        if host.choked is not None:
            bound = "outbox_messages_bytes_max"
        elif is_begun or quota.has_room_for_shape(shape, shapes):
            if quota.has_room_for(wanted.cost_bytes, host.time):
                if not is_begun:
                    shapes.add(shape)
                return True
            bound = "sessions_bytes_max"
        host.record(Record("refused", host.time, host.me, client, detail=bound))
        return False

    def _answer(
        self, connection: Connection, client: ClientId, suback: Suback, granted: list[Subscribing]
    ) -> None:
        """Send SUBACK when the network knows of the subscriptions, and tell the other brokers of places in shared
        groups."""
        watched = self._broker.contexts[client].filters
        places: list[Filter] = []
        is_elsewhere = False
        for wanted in granted:
            if wanted.filter.group is not None:
                places.append(wanted.filter)
            if wanted.filter not in watched:
                is_elsewhere = True
        if is_elsewhere:
            self._visitors.hold(connection, client, suback, tuple(places))
            return
        for filter in places:
            self._memberships.set(filter, client, connection.epoch, True)
        self._confirmations.hold(connection, suback)

    def _record_denial(self, client: ClientId, what: str) -> None:
        host = self._host
        host.record(Record("denied", host.time, host.me, client, detail=what[:DENIED_CHARACTERS_MAX]))

    def _withdraw_replaced(self, connection: Connection, client: ClientId, replaced: Filter) -> None:
        """The client's topic filter now asks for another filter: end the one that it asked for before."""
        # Another subscription, written differently, may ask for the old filter too.
        if not connection.mqtt.subscriptions.wants(replaced):
            self._withdraw(connection.mqtt.state, self._broker.contexts[client], connection.epoch, replaced)

    def end_forbidden(self, client: ClientId | None = None) -> None:
        """End subscriptions that the rules do not allow any more: of one client, or of all clients."""
        if self._access.is_open:
            return
        contexts = self._broker.contexts
        found = [contexts.get(client)] if client is not None else list(contexts.values())
        for context in found:
            session = context.session if context is not None else None
            if context is not None and isinstance(session, SessionState):
                self._end_forbidden(context, session)

    def _end_forbidden(self, context: Context, session: SessionState) -> None:
        client, host = context.client, self._host
        forbidden = [
            topic_filter
            for topic_filter in session.subscriptions
            if not self._access.may_subscribe(session.owner, client, topic_filter, session.claims)
        ]
        if not forbidden:
            return
        connection = self._connections.by_client.get(client)
        is_open = connection is not None and connection.is_open and connection.mqtt.state is session
        assert connection is not None or not is_open
        subscriptions = connection.mqtt.subscriptions if is_open and connection else SubscriptionSet(session)
        epoch = connection.epoch if connection is not None else context.epoch
        for topic_filter in forbidden:
            filter = subscriptions.remove(topic_filter)
            if filter is not None and not subscriptions.wants(filter):
                self._withdraw(session, context, epoch, filter)
        host.record(
            Record("refused", host.time, host.me, client, detail="subscription", count=len(forbidden))
        )
        host.out.notices.append(
            f"client {client!r} of user {session.owner!r}: no rule allows {len(forbidden)} of its subscriptions now"
        )

    def unsubscribe(self, connection: Connection, packet: Unsubscribe) -> None:
        client = connection.client
        assert client is not None
        for filter in connection.mqtt.unsubscribe(packet):
            if not connection.mqtt.subscriptions.wants(filter):
                self._withdraw(connection.mqtt.state, self._broker.contexts[client], connection.epoch, filter)

    def _withdraw(self, session: SessionState, context: Context, epoch: Epoch, filter: Filter) -> None:
        if filter.group is not None:
            self._memberships.leave(filter, context, session, epoch)
        self._broker.on_unsubscribe(context.client, filter)
