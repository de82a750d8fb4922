"""One live broker as a deterministic machine: inputs with their time in, outputs to take away.

The core broker, all MQTT connections, retained messages, wills and the numbering of links live in here, and no
socket, clock or random number does. The shell (`server.py`) brings bytes and the time, and takes `out` after each
batch. Because equal inputs give an equal machine, the journal of inputs is all that durability needs
(docs/decisions/0053).
"""

from collections import deque
from dataclasses import replace
from typing import Final, NamedTuple

from roamq.broker import Broker
from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.net import wire
from roamq.net.access import Access
from roamq.net.directory import Directory, Ended, Serving
from roamq.net.mqtt.attributes import event_of, event_of_will
from roamq.net.mqtt.codec import Connect, Publish, ReasonCode, Subscribe, Unsubscribe, Will
from roamq.net.mqtt.inputs import Acknowledged, Closed, ConnectRequested, Input
from roamq.net.mqtt.outbound import Outcome
from roamq.net.mqtt.session import Phase, ServerConnection
from roamq.net.mqtt.state import SessionState
from roamq.net.mqtt.subscribing import Subscribing
from roamq.net.retained import RetainedMessages
from roamq.net.settings import AccessRules, Settings
from roamq.overlay.base import Router
from roamq.overlay.flooding import Flooding
from roamq.overlay.hierarchy import Hierarchy
from roamq.overlay.topology import Topology
from roamq.schemes import scheme_by_name

LOCATION_TOPIC: Final = "$roamq/location"
"""A client publishes its cell here; nobody else sees it."""

TICKET_PROPERTY: Final = "roamq-ticket"
"""The user property of CONNECT and CONNACK with the epoch of a connection; a client may send it empty to get one."""
PATIENCE: Final = 30
"""How many handoff time-outs a transfer that makes progress may take before the client is let in without it."""


class Login(NamedTuple):
    """Somebody wants in: the shell answers with `authenticated`."""

    connection: int
    username: str | None
    password: bytes | None
    client: ClientId
    listener: str


def shown_epoch(connect: Connect) -> Epoch | None:
    """The epoch of its last connection, if the client shows the ticket that our CONNACK gave it."""
    shown = connect.properties.user_property(TICKET_PROPERTY)
    when, _, broker = (shown or "").partition("@")
    try:
        return Epoch(float(when), BrokerId(broker)) if broker else None
    except ValueError:
        return None


class Outputs:
    """What the inputs since the last look have caused."""

    def __init__(self) -> None:
        self.dirty: dict[int, ServerConnection] = {}
        """Connections that may have something to write."""
        self.closing: list[int] = []
        self.logins: list[Login] = []
        self.frames: dict[BrokerId, list[tuple[int, bytes]]] = {}
        self.timers: dict[TimerKey, float | None] = {}
        """Key -> when, or None to cancel."""
        self.records: list[Record] = []


class _Connection:
    """A connection, and what the machine knows about it."""

    __slots__ = ("client", "entered_at", "epoch", "listener", "mqtt", "number", "peer", "user")

    def __init__(self, number: int, mqtt: ServerConnection, listener: str, peer: str) -> None:
        self.number = number
        self.mqtt = mqtt
        self.listener = listener
        self.peer = peer
        self.client: ClientId | None = None
        """Set when the client was let in."""
        self.user: str | None = None
        self.entered_at = 0.0
        """When the client was found to be allowed in."""
        self.epoch = Epoch(0.0, BrokerId(""))
        """Which of the client's connections in the whole network this is."""


class Machine:
    """One broker of a live network. Implements `Host` for its core."""

    def __init__(self, settings: Settings, now: float = 0.0) -> None:
        self.settings = settings
        self.me = settings.me
        self.time = now
        self.out = Outputs()
        self.topology = Topology(settings.brokers, settings.links)
        router: Router
        if settings.overlay == "hierarchy":
            router = Hierarchy(self.me, self, self.topology)
        else:
            router = Flooding(self.me, self, self.topology)
        scheme_type = scheme_by_name(settings.scheme)
        options = scheme_type.options_type.parse(
            {"buffer_bytes": settings.quotas.store_bytes_max, **settings.scheme_options}
        )
        self.scheme = scheme_type(self.me, self, router, options)
        self.broker = Broker(self.me, self, router, self.scheme)
        self.retained = RetainedMessages(settings.quotas.retained_max, settings.quotas.retained_bytes_max)
        self.broker.observer = self.retained.observe
        self.access = Access(settings.access)
        self.directory = Directory()
        self.scheme.handle(Serving, self._on_serving)
        self.scheme.handle(Ended, self._on_ended)
        self.connections: dict[int, _Connection] = {}
        self.by_client: dict[ClientId, _Connection] = {}
        """The connection that a client is let in on, or waits on."""
        self.awaiting: dict[ClientId, _Connection | None] = {}
        """Clients whose session is on its way here; None if they are gone again."""
        self.ready: set[ClientId] = set()
        """Clients in waiting whose scheme is ready to serve them."""
        self.late: dict[ClientId, _Connection] = {}
        """Clients that were let in before their session came."""
        self.outbox: dict[BrokerId, deque[tuple[int, bytes]]] = {
            peer: deque() for peer in self.topology.neighbours[self.me]
        }
        # A life that remembers no other must not use its numbers again: all of them count on from the time of birth.
        born = int(now * 1_000_000)
        self.broker.sequence = born
        self.sent: dict[BrokerId, int] = dict.fromkeys(self.outbox, born)
        self.received_from: dict[BrokerId, int] = dict.fromkeys(self.outbox, 0)
        self._done: list[tuple[ClientId, EventId]] = []
        """Events that need no acknowledgement: consumed when the input that caused them is over."""
        self._named = 0

    # --- inputs: connections ------------------------------------------------------------------------------

    def opened(self, connection: int, now: float, listener: str, peer: str) -> None:
        self.time = now
        mqtt = ServerConnection(self.settings.limits, self._new_client_id)
        self.connections[connection] = _Connection(connection, mqtt, listener, peer)

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
        self._settle()

    def check_keep_alive(self, connection: int, now: float) -> None:
        self.time = now
        found = self.connections.get(connection)
        if found is not None:
            self.out.dirty[connection] = found.mqtt
            self._take(found, found.mqtt.check_keep_alive(now))
            self._settle()

    # --- inputs: links, timers, rules ---------------------------------------------------------------------

    def link_received(self, peer: BrokerId, sequence: int, frame: bytes, now: float) -> None:
        """A numbered frame from a neighbour; one that came before is not read again."""
        self.time = now
        if sequence <= self.received_from[peer]:
            return
        self.received_from[peer] = sequence
        self.broker.on_message(peer, wire.decode(frame))
        self._settle()

    def link_acked(self, peer: BrokerId, sequence: int, now: float) -> None:
        self.time = now
        outbox = self.outbox[peer]
        while outbox and outbox[0][0] <= sequence:
            outbox.popleft()

    def timer(self, key: TimerKey, now: float) -> None:
        self.time = now
        if key[0] == "connack":
            self._give_up_waiting(ClientId(key[1]))
        elif key[0] == "session":
            self._session_due(ClientId(key[1]))
        else:
            self.broker.on_timer(key)
        self._settle()

    def set_rules(self, rules: AccessRules, now: float) -> None:
        self.time = now
        self.access = Access(rules)

    def recovered(self, now: float) -> None:
        """The process starts again from its journal: every connection there was is lost."""
        for connection in list(self.connections):
            self.lost(connection, now)

    def shutdown(self, now: float) -> None:
        """The process is about to end on purpose: tell everybody; sessions stay."""
        self.time = now
        for connection in list(self.connections.values()):
            self._end_connection(connection, ReasonCode.SERVER_SHUTTING_DOWN, "the server shuts down")
        self._settle()

    # --- the port -----------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.time

    def send(self, to: BrokerId, message: Message | Event) -> None:
        self.sent[to] = sequence = self.sent[to] + 1
        frame = (sequence, wire.encode(message))
        self.outbox[to].append(frame)
        frames = self.out.frames.get(to)
        if frames is None:
            frames = self.out.frames[to] = []
        frames.append(frame)

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        connection = self.by_client.get(to)
        if connection is None or connection.client is None:
            return
        self.out.dirty[connection.number] = connection.mqtt
        outcome = connection.mqtt.deliver(event, self.time)
        if outcome is not Outcome.IN_FLIGHT:
            self._done.append((to, event.id))
            if outcome is Outcome.UNWANTED:
                return
            if outcome is not Outcome.DONE:
                self._record_drop(to, event, outcome.value)
                return
        self.out.records.append(
            Record(
                "delivered",
                self.time,
                self.me,
                to,
                event.id[0],
                event.id[1],
                detail=how,
                duration_s=self.time - event.published_at,
            )
        )

    def attached(self, client: ClientId, resumed: bool) -> None:
        """The scheme is ready to serve; CONNACK follows when the session is whole (`_answer_arrived`)."""
        self.ready.add(client)

    def detach(self, client: ClientId, reason: str) -> None:
        """The core has parted with the context already; only the connection is left to close."""
        connection = self.by_client.pop(client, None)
        if connection is None:
            return
        self.awaiting.pop(client, None)
        connection.client = None
        self.record(Record("disconnected", self.time, self.me, client, detail=reason))
        self.out.dirty[connection.number] = connection.mqtt
        was_open = connection.mqtt.phase is Phase.OPEN
        connection.mqtt.close(ReasonCode.SESSION_TAKEN_OVER, self.time, reason)
        self._close(connection)
        if was_open and (will := connection.mqtt.state.take_will(self.time)) is not None:
            self.publish_will(client, will)

    def set_timer(self, key: TimerKey, after: float) -> None:
        self.out.timers[key] = self.time + after

    def cancel_timer(self, key: TimerKey) -> None:
        self.out.timers[key] = None

    def store(self, client: ClientId) -> None:
        """The journal of inputs keeps everything."""

    def record(self, record: Record) -> None:
        self.out.records.append(record)

    # --- what clients say ---------------------------------------------------------------------------------

    def _take(self, connection: _Connection, inputs: list[Input]) -> None:
        for said in inputs:
            if said.__class__ is Publish:
                self._publish(connection, said)
            elif said.__class__ is Acknowledged:
                assert connection.client is not None
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

    def _connect(self, connection: _Connection, said: ConnectRequested) -> None:
        """CONNECT has come: who is it? [MQTT-3.1.4-2]"""
        connect = said.connect
        login = Login(
            connection.number, connect.user_name, connect.password, said.client_id, connection.listener
        )
        self.out.logins.append(login)

    def _enter(self, connection: _Connection) -> None:
        """The client may come in: find its session here or elsewhere, and serve it."""
        mqtt = connection.mqtt
        connection.entered_at = self.time
        client = mqtt.terms.client_id
        before = self.by_client.get(client)
        if before is not None:
            # [MQTT-3.1.4-3]
            self._end_connection(before, ReasonCode.SESSION_TAKEN_OVER, "connected again")
        known = self.directory.last_epoch(client)
        self.by_client[client] = connection
        if mqtt.connect.clean_start:
            # [MQTT-3.1.2-4] whatever there was, here or elsewhere, is over
            self._end_session(client)
            previous = None
        else:
            # What brokers know is newer than what a client remembers whose last CONNACK was lost.
            named = mqtt.connect.properties.user_property("roamq-previous")
            previous = BrokerId(named) if named in self.topology.brokers else None
            if known is not None:
                previous = known.broker
        # Only the client itself knows which connection was its last: the directory's epoch may be old news.
        known_home = self.directory.home(client)
        home = known_home if known_home is not None and previous is not None else previous or self.me
        ticket = None if previous is None else Ticket(home, shown_epoch(mqtt.connect))
        self.ready.discard(client)
        self.broker.on_connect(client, previous, (), ticket)
        # Which connection is the newest is a matter of its own: a context may be older than who asks for it.
        epoch = Epoch(self.time, self.me)
        connection.epoch = epoch
        self.directory.learn(client, epoch, home)
        self._tell_all(Serving(client=client, epoch=epoch, home=home))
        self.record(Record("connected", self.time, self.me, client, peer=previous))
        self.awaiting[client] = connection
        self.set_timer(("connack", client), self.settings.handoff_timeout_s)
        self._answer_arrived(client)

    def _answer_arrived(self, client: ClientId) -> None:
        """CONNACK when the session is whole: it is here, all of it has come, or there is none.

        Not before: a PUBCOMP for an event that is still on its way would have nothing to acknowledge.
        """
        context = self.scheme.contexts.get(client)
        if context is None or context.local_queue is not None or client not in self.ready:
            return
        self.ready.discard(client)
        connection = self.awaiting.pop(client)
        self.cancel_timer(("connack", client))
        if connection is None:
            self._watch_session(context)
        else:
            self._let_in(connection, context)

    def _give_up_waiting(self, client: ClientId) -> None:
        """The previous broker does not answer: begin anew, and what it has follows when it is back.

        One that has answered is sending; a long queue is worth some patience, but not for ever.
        """
        connection = self.awaiting.get(client)
        context = self.scheme.contexts.get(client)
        if connection is None or context is None:
            return
        waited = self.time - connection.entered_at
        if isinstance(context.session, SessionState) and waited < PATIENCE * self.settings.handoff_timeout_s:
            self.set_timer(("connack", client), self.settings.handoff_timeout_s)
            return
        del self.awaiting[client]
        self.ready.discard(client)
        context.session = None
        self.late[client] = connection
        self._let_in(connection, context)

    def _merge_late(self, client: ClientId) -> None:
        """A session arrived after its client was let in without it: its subscriptions join the new one's.

        The client was told that no session was present, so packet ids of the old one mean nothing to it.
        """
        context = self.scheme.contexts.get(client)
        connection = self.late[client]
        if context is None or self.by_client.get(client) is not connection:
            del self.late[client]
        elif context.session is not connection.mqtt.state:
            if isinstance(context.session, SessionState):
                for topic_filter, subscription in context.session.subscriptions.items():
                    if topic_filter not in connection.mqtt.state.subscriptions:
                        connection.mqtt.subscriptions.add(subscription)
            context.session = connection.mqtt.state
        if context is not None and context.local_queue is None:
            self.late.pop(client, None)

    def _let_in(self, connection: _Connection, context: Context) -> None:
        mqtt = connection.mqtt
        session = context.session if isinstance(context.session, SessionState) else None
        if session is not None and session.expired(self.time):
            session = None
            for filter in list(context.filters):
                self.broker.on_unsubscribe(context.client, filter)
        connection.client = context.client
        inputs = mqtt.accept(session, self.time)
        context.session = mqtt.state
        context.window = mqtt.terms.window
        self.out.dirty[connection.number] = mqtt
        self.cancel_timer(("session", context.client))
        if context.local_queue is None and context.mode is Mode.SERVING:
            context.return_in_flight()
            self.scheme.pump(context)
        self._take(connection, inputs)

    def _publish(self, connection: _Connection, packet: Publish) -> None:
        client = connection.client
        assert client is not None
        if packet.topic == LOCATION_TOPIC:
            connection.mqtt.published(packet)
            self.broker.on_location(client, packet.payload.decode("utf-8", "replace"))
            return
        if not self.access.may_publish(connection.user, client, packet.topic):
            # Section 3.4.2.1: 0x87; at QoS 0 the message is dropped without a word
            connection.mqtt.published(packet, ReasonCode.NOT_AUTHORIZED, "no rule allows this topic")
            return
        event = event_of(
            packet, connection.mqtt.terms.version, self.broker.next_event_id(), client, self.time
        )
        self.out.records.append(
            Record("published", self.time, self.me, client, event.id[0], event.id[1], bytes=event.size_bytes)
        )
        self.broker.inject(event)
        connection.mqtt.published(packet)

    def publish_will(self, client: ClientId, will: Will) -> None:
        self.broker.inject(event_of_will(will, self.broker.next_event_id(), client, self.time))

    def _subscribe(self, connection: _Connection, packet: Subscribe) -> None:
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

    def _granted(self, connection: _Connection, client: ClientId, wanted: Subscribing) -> None:
        if wanted.replaced is not None and not self._still_wanted(connection, wanted.replaced):
            self.broker.on_unsubscribe(client, wanted.replaced)
        self.broker.on_subscribe(client, wanted.filter)
        if wanted.replay:
            # [MQTT-3.3.1-9]
            for event in self.retained.matching(wanted.filter, self.time):
                self._replay(client, connection.mqtt.state, event)

    def _replay(self, client: ClientId, session: SessionState, event: Event) -> None:
        """A retained message goes to a new subscription, through the context like everything else."""
        context = self.scheme.contexts[client]
        again = replace(event, id=session.next_replay_id())
        stored = (
            context.admit_later(again)
            if context.local_queue is not None
            else context.admit(again, "retained")
        )
        if not stored:
            self._record_drop(client, again, "queue_full")
        elif context.local_queue is None:
            self.scheme.pump(context)

    def _unsubscribe(self, connection: _Connection, packet: Unsubscribe) -> None:
        client = connection.client
        assert client is not None
        for filter, _ in connection.mqtt.unsubscribe(packet):
            if not self._still_wanted(connection, filter):
                self.broker.on_unsubscribe(client, filter)

    def _still_wanted(self, connection: _Connection, filter: Filter) -> bool:
        """Another subscription, written differently, may stand for the same filter."""
        return connection.mqtt.subscriptions.wants(filter)

    # --- connections and sessions end ---------------------------------------------------------------------

    def _closed(self, connection: _Connection, said: Closed) -> None:
        client = connection.client
        if client is None or self.by_client.get(client) is not connection:
            return
        reason = "closed" if said.by_client else "vanished"
        self.record(Record("disconnected", self.time, self.me, client, detail=reason))
        del self.by_client[client]
        connection.client = None
        self._disconnected(client, connection, reason)

    def _disconnected(self, client: ClientId, connection: _Connection, reason: str) -> None:
        self.broker.on_disconnect(client, reason)
        context = self.scheme.contexts.get(client)
        if context is not None and context.session is connection.mqtt.state:
            self._watch_session(context)

    def _end_connection(self, connection: _Connection, reason: ReasonCode, detail: str) -> None:
        """Close a client's connection from our side; its session goes on."""
        client = connection.client
        self.out.dirty[connection.number] = connection.mqtt
        connection.mqtt.close(reason, self.time, detail)
        self._close(connection)
        if client is not None and self.by_client.get(client) is connection:
            del self.by_client[client]
            connection.client = None
            self.record(Record("disconnected", self.time, self.me, client, detail=detail))
            self._disconnected(client, connection, detail)
        elif client is None:
            self._abandon_wait(connection)

    def _abandon_wait(self, connection: _Connection) -> None:
        """Gone before it was let in: the session that is on its way stays here when it arrives."""
        for client, waiting in list(self.awaiting.items()):
            if waiting is connection:
                self.awaiting[client] = None
                if self.by_client.get(client) is connection:
                    del self.by_client[client]
                self.broker.on_disconnect(client, "vanished")

    def _close(self, connection: _Connection) -> None:
        self.out.closing.append(connection.number)

    def _drop(self, connection: _Connection) -> None:
        self._abandon_wait(connection)
        self.connections.pop(connection.number, None)
        self.out.dirty.pop(connection.number, None)

    def _watch_session(self, context: Context) -> None:
        """Nobody is connected: wake up for the will and for the end of the session."""
        session = context.session
        if not isinstance(session, SessionState):
            return
        deadline = session.deadline()
        if deadline is None:
            return
        if deadline <= self.time:
            self._session_due(context.client)
        else:
            self.set_timer(("session", context.client), deadline - self.time)

    def _session_due(self, client: ClientId) -> None:
        """The will's delay or the session's expiry has run out, if the client is still ours and still away."""
        context = self.scheme.contexts.get(client)
        if context is None or client in self.by_client or not isinstance(context.session, SessionState):
            return
        session = context.session
        will = session.take_will(self.time)
        if session.expired(self.time):
            will = session.end() or will
        if will is not None:
            self.publish_will(client, will)
        if session.expired(self.time):
            self._end_session(client)
        else:
            self._watch_session(context)

    def _end_session(self, client: ClientId) -> None:
        """Here and wherever else the session may be, it is over."""
        context = self.scheme.contexts.get(client)
        known = self.directory.last_epoch(client)
        if context is not None:
            if isinstance(context.session, SessionState) and (will := context.session.end()) is not None:
                self.publish_will(client, will)
            self.broker.on_leave(client)
        if context is not None or known is not None:
            epoch = self.scheme.new_epoch(above=known)
            self.directory.forget(client, epoch)
            self._tell_all(Ended(client=client, epoch=epoch))

    # --- what other brokers say ---------------------------------------------------------------------------

    def _tell_all(self, message: Message) -> None:
        for broker in self.topology.brokers:
            if broker != self.me:
                self.broker.router.unicast(broker, message)

    def _on_serving(self, sender: BrokerId, message: Serving) -> None:
        if not self.directory.learn(message.client, message.epoch, message.home):
            return
        connection = self.by_client.get(message.client)
        if connection is not None and connection.epoch < message.epoch:
            self._end_connection(connection, ReasonCode.SESSION_TAKEN_OVER, "connected elsewhere")

    def _on_ended(self, sender: BrokerId, message: Ended) -> None:
        self.directory.forget(message.client, message.epoch)
        mine = self.scheme.epoch_of(message.client)
        if mine is not None and mine < message.epoch:
            connection = self.by_client.get(message.client)
            if connection is not None:
                self._end_connection(connection, ReasonCode.SESSION_TAKEN_OVER, "connected elsewhere")
            self.broker.on_leave(message.client)

    # --- after each input ---------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Finish what an input left: events that need no acknowledgement, sessions that have arrived."""
        while self._done:
            done, self._done = self._done, []
            acknowledge = self.broker.on_acknowledge
            for client, event_id in done:
                acknowledge(client, event_id)
        if self.late:
            for client in list(self.late):
                self._merge_late(client)
        if self.awaiting:
            for client in list(self.awaiting):
                if client in self.awaiting:
                    self._answer_arrived(client)
            if self._done:
                self._settle()

    def _record_drop(self, client: ClientId, event: Event, reason: str) -> None:
        self.record(Record("dropped", self.time, self.me, client, event.id[0], event.id[1], detail=reason))

    def _new_client_id(self) -> str:
        """An id for a client that brings none ([MQTT-3.1.3-6]): unique in the network, by name and count."""
        self._named += 1
        return f"{self.me}-{int(self.time * 1000):x}-{self._named}"
