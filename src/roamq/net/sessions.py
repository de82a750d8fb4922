"""Clients come in and go: the newest connection wins, sessions are found wherever they are, and wills are kept.

CONNACK waits until the session is whole, and never longer than the previous broker deserves; what comes later joins
the session that was begun without it (docs/live.md).
"""

from typing import Final
from zlib import crc32

from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.records import Record
from roamq.net.directory import Adopt, Ended, Serving
from roamq.net.mqtt.attributes import event_of_will
from roamq.net.mqtt.codec import Connect, ReasonCode, Will
from roamq.net.mqtt.codec.topics import parse_share
from roamq.net.mqtt.inputs import Closed, ConnectRequested
from roamq.net.mqtt.outbound import PACKET_ID_MAX
from roamq.net.mqtt.session import Phase
from roamq.net.mqtt.state import SessionState
from roamq.net.settings import Settings
from roamq.net.shared import Members
from roamq.net.wiring import Connection, Login, Wiring

TICKET_PROPERTY: Final = "roamq-ticket"
"""The user property of CONNECT and CONNACK with the epoch of a connection; a client may send it empty to get one."""
CELL_PROPERTY: Final = "roamq-cell"
"""The user property of CONNECT with the cell a client is in, for schemes that look at it."""
PATIENCE: Final = 30
"""How many handoff time-outs a transfer that makes progress may take before the client is let in without it, and
messages wait for older ones whose broker does not answer."""


def shown_epoch(connect: Connect) -> Epoch | None:
    """The epoch of its last connection, if the client shows the ticket that our CONNACK gave it."""
    shown = connect.properties.user_property(TICKET_PROPERTY)
    when, _, broker = (shown or "").partition("@")
    try:
        return Epoch(float(when), BrokerId(broker)) if broker else None
    except ValueError:
        return None


class Sessions(Wiring):
    """Who is served here, who is on the way, and what outlives a connection."""

    def __init__(self, settings: Settings, now: float = 0.0) -> None:
        super().__init__(settings, now)
        self.scheme.handle(Serving, self._on_serving)
        self.scheme.handle(Ended, self._on_ended)
        self.scheme.handle(Adopt, self._on_adopt)
        self.scheme.handle(Members, self.shared.learn)
        self.draining = False

    # --- coming in ----------------------------------------------------------------------------------------

    def _connect(self, connection: Connection, said: ConnectRequested) -> None:
        """CONNECT has come: who is it? [MQTT-3.1.4-2]"""
        connect = said.connect
        login = Login(
            connection.number, connect.user_name, connect.password, said.client_id, connection.listener
        )
        self.out.logins.append(login)

    def _enter(self, connection: Connection) -> None:
        """The client may come in: find its session here or elsewhere, and serve it."""
        mqtt = connection.mqtt
        if self.draining:
            # Section 4.13: 0x9C with where to go
            reference = self._elsewhere(mqtt.terms.client_id)[1]
            mqtt.refuse(ReasonCode.USE_ANOTHER_SERVER, "this broker is being taken away", reference)
            self._close(connection)
            return
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
            # What brokers know is newer than what a client remembers whose last CONNACK was lost; but a client that
            # shows a later connection than we have heard of has been beyond a link that is down. Where it was says
            # its ticket: the broker it names may never have answered it.
            named = mqtt.connect.properties.user_property("roamq-previous")
            previous = BrokerId(named) if named in self.topology.brokers else None
            shown = shown_epoch(mqtt.connect)
            if (
                known is not None
                and shown is not None
                and shown > known
                and shown.broker in self.topology.brokers
            ):
                previous = shown.broker
            elif known is not None:
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
        connection.previous = previous
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
        if isinstance(context.session, SessionState):
            context.session.begun_anew = False
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
        has_answered = isinstance(context.session, SessionState) and not context.session.begun_anew
        if has_answered and self.time - connection.entered_at < PATIENCE * self.settings.handoff_timeout_s:
            self.set_timer(("connack", client), self.settings.handoff_timeout_s)
            return
        del self.awaiting[client]
        self.ready.discard(client)
        if isinstance(context.session, SessionState) and context.session.is_void:
            context.session = None
        is_new = context.session is None
        self._let_in(connection, context)
        if is_new:
            # A packet id that means one message to us and another to the client would lose one of them: the ids of
            # sessions that were begun at different places lie apart.
            connection.mqtt.state.last_packet_id = crc32(f"{self.me} {self.time!r}".encode()) % PACKET_ID_MAX
        connection.mqtt.state.begun_anew = not has_answered and context.local_queue is not None
        if context.local_queue is not None:
            self.set_timer(("ahead", client), PATIENCE * self.settings.handoff_timeout_s)

    def _go_ahead(self, client: ClientId) -> None:
        """Order was worth some patience; a broker that stays away is not worth silence."""
        context, connection = self.scheme.contexts.get(client), self.by_client.get(client)
        if context is None or connection is None or connection.client is None or context.local_queue is None:
            return
        connection.goes_ahead = True
        self.ahead[client] = connection
        self.scheme.go_ahead(context)

    def _end_going_ahead(self) -> None:
        """Older events have come, and what went ahead of them is acknowledged: the client is served in order."""
        for client, connection in list(self.ahead.items()):
            context = self.scheme.contexts.get(client)
            is_going = context is not None and (context.goes_ahead or context.ahead)
            if self.by_client.get(client) is not connection or not is_going:
                connection.goes_ahead = False
                del self.ahead[client]

    def take_session(self, context: Context, session: object | None) -> None:
        """It replaces what is here, unless one of the two was begun while the other was on its way: then they join."""
        held = context.session
        if not isinstance(session, SessionState):
            return
        connection = self.by_client.get(context.client)
        if connection is not None and connection.mqtt.phase is Phase.OPEN and connection.mqtt.state is held:
            connection.mqtt.join(session)  # the client was let in on this one
            self._share_all(context.client, connection.mqtt.state, True)
            return
        if not isinstance(held, SessionState) or not (held.begun_anew or session.begun_anew):
            context.session = session
            return
        new, earlier = (held, session) if held.begun_anew else (session, held)
        if new.is_void:
            context.session = earlier
        else:
            new.join(earlier)
            context.session = new

    def join_session(self, context: Context, session: object) -> None:
        """Only what was begun there is news: otherwise it is an old copy of what is here, packet ids and all."""
        held = context.session
        begun = [s for s in (held, session) if isinstance(s, SessionState) and s.begun_anew]
        if begun or not isinstance(held, SessionState):
            self.take_session(context, session)

    def _let_in(self, connection: Connection, context: Context) -> None:
        mqtt = connection.mqtt
        session = context.session if isinstance(context.session, SessionState) else None
        if session is not None and session.expired(self.time):
            session = None
            for filter in list(context.filters):
                self.broker.on_unsubscribe(context.client, filter)
        connection.client = context.client
        epoch = self.scheme.epoch_of(context.client)
        ticket = f"{epoch.connected_at!r}@{epoch.broker}" if epoch is not None else ""
        inputs = mqtt.accept(session, self.time, user_properties=((TICKET_PROPERTY, ticket),))
        context.session = mqtt.state
        context.window = mqtt.terms.window
        self.out.dirty[connection.number] = mqtt
        self.cancel_timer(("session", context.client))
        self._share_all(context.client, mqtt.state, True)
        cell = mqtt.connect.properties.user_property(CELL_PROPERTY)
        if cell:
            self.broker.on_location(context.client, cell)
        if context.local_queue is None and context.mode is Mode.SERVING:
            context.return_in_flight()
            self.scheme.pump(context)
        self._take(connection, inputs)

    # --- leaving ------------------------------------------------------------------------------------------

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
        if was_open:
            self._share_all(client, connection.mqtt.state, None)
        if was_open and (will := connection.mqtt.state.take_will(self.time)) is not None:
            self.publish_will(client, will)

    def _closed(self, connection: Connection, said: Closed) -> None:
        client = connection.client
        if client is None or self.by_client.get(client) is not connection:
            return
        reason = "closed" if said.by_client else "vanished"
        self.record(Record("disconnected", self.time, self.me, client, detail=reason))
        del self.by_client[client]
        connection.client = None
        self._disconnected(client, connection, reason)

    def _disconnected(self, client: ClientId, connection: Connection, reason: str) -> None:
        self.broker.on_disconnect(client, reason)
        context = self.scheme.contexts.get(client)
        if context is not None and context.session is connection.mqtt.state:
            self._share_all(client, connection.mqtt.state, False)
            self._watch_session(context)

    def _end_connection(
        self, connection: Connection, reason: ReasonCode, detail: str, reference: str | None = None
    ) -> None:
        """Close a client's connection from our side; its session goes on."""
        client = connection.client
        self.out.dirty[connection.number] = connection.mqtt
        connection.mqtt.close(reason, self.time, detail, reference)
        self._close(connection)
        if client is not None and self.by_client.get(client) is connection:
            del self.by_client[client]
            connection.client = None
            self.record(Record("disconnected", self.time, self.me, client, detail=detail))
            self._disconnected(client, connection, detail)
        elif client is None:
            self._abandon_wait(connection)

    def _abandon_wait(self, connection: Connection) -> None:
        """Gone before it was let in: the session that is on its way stays here when it arrives."""
        for client, waiting in list(self.awaiting.items()):
            if waiting is connection:
                self.awaiting[client] = None
                if self.by_client.get(client) is connection:
                    del self.by_client[client]
                self.broker.on_disconnect(client, "vanished")

    def _drop(self, connection: Connection) -> None:
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
            if isinstance(context.session, SessionState):
                self._share_all(client, context.session, None)
            self.broker.on_leave(client)
        if context is not None or known is not None:
            epoch = self.scheme.new_epoch(above=known)
            self.directory.forget(client, epoch)
            self._tell_all(Ended(client=client, epoch=epoch))

    def publish_will(self, client: ClientId, will: Will) -> None:
        self.broker.inject(event_of_will(will, self.broker.next_event_id(), client, self.time))

    # --- shared groups ------------------------------------------------------------------------------------

    def _share(self, group: str, filter: Filter, client: ClientId, connected: bool | None) -> None:
        news = self.shared.set_member(group, filter, client, connected)
        if news is not None:
            self._tell_all(news)

    def _share_all(self, client: ClientId, session: SessionState, connected: bool | None) -> None:
        """The client came, went, or took its session away: so do its memberships."""
        for subscription in session.subscriptions.values():
            share = parse_share(subscription.topic_filter)
            if share is not None:
                self._share(share.group, Filter(share.topic_filter, subscription.selector), client, connected)

    # --- draining -----------------------------------------------------------------------------------------

    def start_draining(self) -> None:
        """Everybody is sent to another broker, and sessions of those who are away are handed there."""
        self.draining = True
        for connection in list(self.by_client.values()):
            if connection.client is not None:
                reference = self._elsewhere(connection.client)[1]
                self._end_connection(
                    connection, ReasonCode.USE_ANOTHER_SERVER, "this broker is being taken away", reference
                )
        for client, context in list(self.scheme.contexts.items()):
            if context.mode is not Mode.PASSIVE:
                home = self.directory.home(client) or self.me
                self.broker.router.unicast(self._elsewhere(client)[0], Adopt(client=client, home=home))

    def _elsewhere(self, client: ClientId) -> tuple[BrokerId, str | None]:
        """The broker that gets this client when we go: all of them take their share."""
        others = [broker for broker in self.topology.brokers if broker != self.me]
        chosen = others[crc32(client.encode()) % len(others)]
        return chosen, self.settings.references.get(chosen)

    def _on_adopt(self, sender: BrokerId, message: Adopt) -> None:
        client = message.client
        if client in self.by_client or client in self.awaiting:
            return  # it is here already
        self.broker.on_connect(client, sender, (), Ticket(message.home))
        self.broker.on_disconnect(client, "adopted")
        epoch = Epoch(self.time, self.me)
        self.directory.learn(client, epoch, message.home)
        self._tell_all(Serving(client=client, epoch=epoch, home=message.home))
        self.awaiting[client] = None

    # --- what other brokers say ---------------------------------------------------------------------------

    def _on_serving(self, sender: BrokerId, message: Serving) -> None:
        if not self.directory.learn(message.client, message.epoch, message.home):
            return
        connection = self.by_client.get(message.client)
        if connection is not None and connection.epoch < message.epoch:
            self._end_connection(connection, ReasonCode.SESSION_TAKEN_OVER, "connected elsewhere")

    def _on_ended(self, sender: BrokerId, message: Ended) -> None:
        self.directory.forget(message.client, message.epoch)
        connection = self.by_client.get(message.client)
        # A connection may be newer than the context it was given.
        mine = connection.epoch if connection is not None else self.scheme.epoch_of(message.client)
        if mine is not None and mine < message.epoch:
            if connection is not None:
                self._end_connection(connection, ReasonCode.SESSION_TAKEN_OVER, "connected elsewhere")
            self.broker.on_leave(message.client)
