"""One live broker as a deterministic machine: inputs with their time in, outputs to take away.

The core broker, all MQTT connections, retained messages, wills and the numbering of links live in here, and no
socket, clock or random number does. The shell (`server.py`) brings bytes and the time, and takes `out` after each
batch. Because equal inputs give an equal machine, the journal of inputs is all that durability needs
(docs/decisions/0053).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from roamq.core.context import Mode
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.net import wire
from roamq.net.access import Access
from roamq.net.mqtt.attributes import event_of
from roamq.net.mqtt.codec import Publish, ReasonCode, Subscribe, Unsubscribe
from roamq.net.mqtt.inputs import Acknowledged, Closed, ConnectRequested, Input
from roamq.net.mqtt.session import Phase, ServerConnection
from roamq.net.mqtt.state import SessionState
from roamq.net.mqtt.subscribing import Subscribing
from roamq.net.sessions import Sessions
from roamq.net.settings import AccessRules
from roamq.net.wiring import Connection, new_record

LOCATION_TOPIC: Final = "$roamq/location"
"""A client publishes its cell here; nobody else sees it."""


class Machine(Sessions):
    """One broker of a live network."""

    # --- inputs -------------------------------------------------------------------------------------------

    def opened(self, connection: int, now: float, listener: str, peer: str) -> None:
        self.time = now
        mqtt = ServerConnection(self.settings.limits, self._new_client_id)
        self.connections[connection] = Connection(connection, mqtt, listener, peer)

    def received(self, connection: int, data: bytes, now: float) -> None:
        self.time = now
        found = self.connections.get(connection)
        if found is None:
            return
        self.out.dirty[connection] = found.mqtt
        self._take(found, found.mqtt.receive(data, now))
        self._settle()

    def lost(self, connection: int, now: float) -> None:
        """The socket is gone."""
        self.time = now
        found = self.connections.get(connection)
        if found is not None:
            self._take(found, found.mqtt.lost(now))
            self._drop(found)
            self._settle()

    def authenticated(self, connection: int, user: str | None, now: float, *, allowed: bool) -> None:
        """The shell's verdict on a login."""
        self.time = now
        found = self.connections.get(connection)
        if found is None or found.mqtt.phase is not Phase.PENDING:
            return
        self.out.dirty[connection] = found.mqtt
        if allowed:
            found.user = user
            self._enter(found)
        else:
            found.mqtt.refuse(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong")
            self._close(found)
        self._settle()

    def blocked(self, connection: int, now: float, *, is_blocked: bool) -> None:
        """The client does not read as fast as we write: hold its events back in its context."""
        self.time = now
        found = self.connections.get(connection)
        if found is None or found.client is None:
            return
        context = self.scheme.contexts.get(found.client)
        if context is not None and context.mode is Mode.SERVING:
            context.window = 0 if is_blocked else found.mqtt.terms.window
            if not is_blocked and context.local_queue is None:
                self.scheme.pump(context)
            elif not is_blocked:
                self.scheme.pump_ahead(context)
        self._settle()

    def check_keep_alive(self, connection: int, now: float) -> None:
        self.time = now
        found = self.connections.get(connection)
        if found is not None:
            self.out.dirty[connection] = found.mqtt
            self._take(found, found.mqtt.check_keep_alive(now))
            self._settle()

    def link_received(self, peer: BrokerId, sequence: int, frame: bytes, now: float) -> None:
        """A numbered frame from a neighbour; one that came before is not read again."""
        self.time = now
        if sequence <= self.received_from[peer]:
            return
        self.received_from[peer] = sequence
        self.broker.on_message(peer, wire.decode(frame))
        self._settle()

    def link_acked(self, peer: BrokerId, sequence: int, now: float) -> None:
        """The neighbour has everything up to `sequence`, or says so when the link comes up.

        One that has less than it had acknowledged began anew; so did one that has never heard of us."""
        self.time = now
        outbox = self.outbox[peer]
        acknowledged = outbox[0][0] - 1 if outbox else self.sent[peer]
        if sequence < acknowledged:
            self.broker.router.neighbour_forgot(peer)
            self._settle()
            return
        while outbox and outbox[0][0] <= sequence:
            self.outbox_bytes[peer] -= len(outbox.popleft()[1])

    def timer(self, key: TimerKey, now: float) -> None:
        self.time = now
        if key[0] == "connack":
            self._give_up_waiting(ClientId(key[1]))
        elif key[0] == "ahead":
            self._go_ahead(ClientId(key[1]))
        elif key[0] == "session":
            self._session_due(ClientId(key[1]))
        else:
            self.broker.on_timer(key)
        self._settle()

    def set_rules(self, rules: AccessRules, now: float) -> None:
        self.time = now
        self.access = Access(rules)

    def publish_status(self, values: Mapping[str, str], now: float) -> None:
        """The broker's own figures, as retained `$SYS` topics; they concern this broker alone and stay here."""
        self.time = now
        for name, value in values.items():
            self._status_count += 1
            event = Event(
                id=EventId(BrokerId(f"$SYS@{self.me}"), self._status_count),
                topic=f"$SYS/broker/{name}",
                payload=value.encode(),
                published_at=now,
                qos=0,
                retain=True,
            )
            self.retained.observe(event)
            self.scheme.on_event(event)
        self._settle()

    def drain(self, now: float) -> None:
        """This broker is to be taken away: clients are sent elsewhere, and their sessions go there too."""
        self.time = now
        self.start_draining()
        self._settle()

    def recovered(self, now: float) -> None:
        """The process starts again from its journal: every connection there was is lost, and draining is over."""
        self.draining = False
        for connection in list(self.connections):
            self.lost(connection, now)

    def shutdown(self, now: float) -> None:
        """The process is about to end on purpose: tell everybody; sessions stay."""
        self.time = now
        for connection in list(self.connections.values()):
            self._end_connection(connection, ReasonCode.SERVER_SHUTTING_DOWN, "the server shuts down")
        self._settle()

    # --- what clients say ---------------------------------------------------------------------------------

    def _take(self, connection: Connection, inputs: list[Input]) -> None:
        for said in inputs:
            if said.__class__ is Publish:
                self._publish(connection, said)
            elif said.__class__ is Acknowledged:
                assert connection.client is not None
                if connection.goes_ahead:
                    connection.mqtt.state.got_ahead(said.event_id)
                self.broker.on_acknowledge(connection.client, said.event_id)
            elif isinstance(said, ConnectRequested):
                self._connect(connection, said)
            elif isinstance(said, Subscribe):
                self._subscribe(connection, said)
            elif isinstance(said, Unsubscribe):
                self._unsubscribe(connection, said)
            elif isinstance(said, Closed):
                self._closed(connection, said)
        if connection.mqtt.phase is Phase.CLOSED:
            self._close(connection)

    def _publish(self, connection: Connection, packet: Publish) -> None:
        client = connection.client
        assert client is not None
        topic = packet.topic
        if topic[0] == "$" and topic == LOCATION_TOPIC:
            connection.mqtt.published(packet)
            self.broker.on_location(client, packet.payload.decode("utf-8", "replace"))
            return
        if topic[0] == "$" or not self.access.may_publish(connection.user, client, topic):
            # Section 3.4.2.1: 0x87; at QoS 0 the message is dropped without a word
            connection.mqtt.published(packet, ReasonCode.NOT_AUTHORIZED, "no rule allows this topic")
            return
        event = event_of(
            packet, connection.mqtt.terms.version, self.broker.next_event_id(), client, self.time
        )
        if self.shared.groups and (assigned := self.shared.assign(event)):
            event = replace(event, assigned=assigned)
        origin, sequence = event.id
        size = event.size_bytes
        self.out.records.append(
            new_record(
                Record,
                (
                    "published",
                    self.time,
                    self.me,
                    client,
                    origin,
                    sequence,
                    None,
                    None,
                    None,
                    None,
                    size,
                    None,
                ),
            )
        )
        self.broker.inject(event)
        if packet.qos:
            connection.mqtt.published(packet)

    def _subscribe(self, connection: Connection, packet: Subscribe) -> None:
        client = connection.client
        assert client is not None
        examined = connection.mqtt.examine(packet)
        reasons = []
        for wanted in examined.wanted:
            allowed = self.access.may_subscribe(connection.user, client, wanted.subscription.topic_filter)
            reasons.append(ReasonCode(wanted.subscription.qos) if allowed else ReasonCode.NOT_AUTHORIZED)
        connection.mqtt.subscribed(examined, reasons)
        for wanted, reason in zip(examined.wanted, reasons, strict=True):
            if not reason.failed:
                self._granted(connection, client, wanted)

    def _granted(self, connection: Connection, client: ClientId, wanted: Subscribing) -> None:
        if wanted.replaced is not None and not self._still_wanted(connection, wanted.replaced):
            self.broker.on_unsubscribe(client, wanted.replaced)
        if wanted.share is not None:
            self._share(wanted.share, wanted.filter, client, True)
        else:
            self.broker.on_subscribe(client, wanted.filter)
        if wanted.replay:
            # [MQTT-3.3.1-9]
            for event in self.retained.matching(wanted.filter, self.time):
                self._replay(client, connection.mqtt.state, event)

    def _replay(self, client: ClientId, session: SessionState, event: Event) -> None:
        """A retained message goes to a new subscription, through the context like everything else."""
        self._hand(client, replace(event, id=session.next_replay_id()))

    def _unsubscribe(self, connection: Connection, packet: Unsubscribe) -> None:
        client = connection.client
        assert client is not None
        for filter, group in connection.mqtt.unsubscribe(packet):
            if group is not None:
                self._share(group, filter, client, None)
            elif not self._still_wanted(connection, filter):
                self.broker.on_unsubscribe(client, filter)

    def _still_wanted(self, connection: Connection, filter: Filter) -> bool:
        """Another subscription, written differently, may stand for the same filter."""
        return connection.mqtt.subscriptions.wants(filter)

    def _settle(self) -> None:
        """Finish what an input left: events that need no acknowledgement, sessions that have arrived."""
        while self._done:
            done, self._done = self._done, []
            acknowledge = self.broker.on_acknowledge
            for client, event_id in done:
                acknowledge(client, event_id)
        if self.ahead:
            self._end_going_ahead()
        if self.awaiting:
            for client in list(self.awaiting):
                if client in self.awaiting:
                    self._answer_arrived(client)
            if self._done:
                self._settle()
