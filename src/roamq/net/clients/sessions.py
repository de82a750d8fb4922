"""Sessions outlive connections: their state after a client has gone, their wills, and their end."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from roamq.broker.broker import Broker
from roamq.core.context import Context, Mode
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.messages import Message
from roamq.core.records import Record
from roamq.net.clients.access import Access
from roamq.net.clients.connections import Connection, Connections
from roamq.net.clients.mqtt.attributes import event_of_will
from roamq.net.clients.mqtt.codec import ReasonCode, Will
from roamq.net.clients.mqtt.inputs import Closed
from roamq.net.clients.mqtt.state import RETAINED, SessionState
from roamq.net.clients.mqtt.subscriptions import filters_of
from roamq.net.host import LiveHost, Over
from roamq.net.links.others import OtherBrokers
from roamq.net.ops.settings import ANONYMOUS
from roamq.net.topics.directory import Directory, Ended, KnownConnection, Serving
from roamq.net.topics.intake import EventIntake
from roamq.net.topics.memberships import Memberships

SESSION_TIMER: Final = "session"
"""The timer for the will's delay and the session's expiry."""
ANOTHERS: Final = "the session belongs to another user"


@dataclass(frozen=True, slots=True, kw_only=True)
class WillFor(Message):
    """Broker where a session ended -> one where the topic of its will may be published: publish the will as your
    event."""

    will: Event


class Sessions:
    """The sessions at this broker, from the moment their clients go."""

    def __init__(
        self,
        host: LiveHost,
        broker: Broker,
        connections: Connections,
        directory: Directory,
        intake: EventIntake,
        memberships: Memberships,
        others: OtherBrokers,
        access: Access,
    ) -> None:
        self._host = host
        self._broker = broker
        self._connections = connections
        self._directory = directory
        self._intake = intake
        self._memberships = memberships
        self._others = others
        self._expected: dict[ClientId, Context] = {}
        """Contexts that another broker has sent here, because it expects their clients here."""
        self._access = access

    # --- a connection ends ----------------------------------------------------------------------------------

    def on_closed(self, connection: Connection, said: Closed) -> None:
        """The connection is over: the client said goodbye, broke a rule, or vanished."""
        client = connection.client
        if client is not None and self._connections.belongs_to(connection, client):
            self._disconnect(client, connection, "closed" if said.by_client else "vanished")

    def end_connection(
        self, connection: Connection, reason: ReasonCode, detail: str, reference: str | None = None
    ) -> None:
        """Close a client's connection from our side; its session goes on."""
        client = connection.client
        connection.mqtt.close(reason, self._host.time, detail, reference)
        self._host.close(connection)
        if client is None:
            self.give_up_wait(connection)
        elif self._connections.belongs_to(connection, client):
            self._disconnect(client, connection, detail)

    def abandon(self, connection: Connection) -> None:
        """Close a connection of which an input failed, with nobody knowing how far; its session goes on.

        Each step is done even if one before it fails, so that nothing refers to the connection any more.
        """
        client = connection.client or connection.waits_as
        if client is None:
            owners = (name for name, of in self._connections.by_client.items() if of is connection)
            client = next(owners, None)
        try:
            connection.mqtt.close(ReasonCode.UNSPECIFIED_ERROR, self._host.time, "internal error")
        finally:
            connection.mqtt.abandon()
            self._host.close(connection)
            if client is not None and self._connections.belongs_to(connection, client):
                self.give_up_wait(connection)
                if self._connections.belongs_to(connection, client):
                    self._disconnect(client, connection, "internal error")

    def give_up_wait(self, connection: Connection) -> None:
        """A client has gone before it was let in: the session that is on its way stays here when it arrives."""
        client = self._connections.give_up_wait(connection)
        if client is not None:
            self._broker.on_disconnect(client, "vanished")

    def is_awaited(self, client: ClientId) -> bool:
        """Is the client's session on its way here?

        If the client did not wait for its session, another broker may have claimed it since: then the wait is over.
        """
        connections = self._connections
        if connections.waiting(client) is None and client not in self._broker.contexts:
            connections.end_wait(client)
        return connections.is_awaited(client)

    def on_detached(self, client: ClientId, session: SessionState, will: Will | None) -> None:
        """Another broker serves the client: publish the will if it has no delay."""
        if will is not None:
            self._publish(client, session, will)

    def _disconnect(self, client: ClientId, connection: Connection, reason: str) -> None:
        host = self._host
        host.record(Record("disconnected", host.time, host.me, client, detail=reason))
        self._connections.release(client)
        context = self._broker.contexts.get(client)
        session = None if context is None else context.session
        if context is not None and context.outlet is not None and context.epoch > connection.epoch:
            # A newer connection, at another broker, has the session.
            if connection.client is not None and (will := connection.mqtt.state.take_will(host.time)):
                self._publish(client, connection.mqtt.state, will)
            return
        if isinstance(session, SessionState) and session.expired(host.time):
            self.end(
                client
            )  # [MQTT-4.1.0-2]: it does not outlive its connection, so no scheme has to keep it
            return
        # This broker publishes a will without delay, wherever the scheme takes the session now.
        will = session.take_will(host.time) if isinstance(session, SessionState) else None
        self._broker.on_disconnect(client, reason)
        if isinstance(session, SessionState):
            if will is not None:
                self._publish(client, session, will)
            self._memberships.set_all(client, session, connection.epoch, False)
        context = self._broker.contexts.get(client)
        if context is not None:
            self.watch(context)

    # --- will and expiry ------------------------------------------------------------------------------------

    def on_kept(self, context: Context) -> None:
        """Watch a context that has come and waits for its client, at home or where the client is expected."""
        client = context.client
        if client in self._connections.by_client or self.is_awaited(client):
            return
        if self._broker.contexts.get(client) is not context:
            self._expected[client] = context
        self.watch(context)

    def watch(self, context: Context) -> None:
        """Set a timer for the will and for the end of a session whose client is not connected."""
        session = context.session
        deadline = session.deadline() if isinstance(session, SessionState) else None
        if deadline is None:
            return
        if deadline <= self._host.time:
            self.on_due(context.client)
        else:
            self._host.set_timer((SESSION_TIMER, context.client), deadline - self._host.time)

    def unwatch(self, client: ClientId) -> None:
        """Cancel the timer of a client that is here."""
        self._expected.pop(client, None)
        self._host.cancel_timer((SESSION_TIMER, client))

    def on_due(self, client: ClientId) -> None:
        """The will's delay or the session's expiry is over: act if the client is still ours and still away."""
        context = self._watched(client)
        if (
            context is None
            or context.mode is Mode.SERVING  # under `home-broker`, another broker serves it
            or client in self._connections.by_client
            or not isinstance(context.session, SessionState)
        ):
            return
        session, now = context.session, self._host.time
        if session.expired(now):
            self.end(client)
            return
        if (will := session.take_will(now)) is not None:
            self._publish(client, session, will)
        self.watch(context)

    def _watched(self, client: ClientId) -> Context | None:
        """The context of an absent client: its current one, or one that waits where the client is expected."""
        expected = self._expected.pop(client, None)
        current = self._broker.contexts.get(client)
        if current is not None or expected is None or not isinstance(expected.session, SessionState):
            return current  # a context whose session has gone on may be owed events, and expects nobody
        if expected not in self._broker.scheme.held():
            return None
        self._expected[client] = expected
        return expected

    def end(self, client: ClientId) -> None:
        """End the session that this broker keeps for the client, and tell every broker up to which connection it has
        ended.

        The end counts for the connections of this session alone. A newer connection has a session of its own, or has
        claimed this one.
        """
        context = self._watched(client)
        self._expected.pop(client, None)
        known = self._directory.last_epoch(client)
        ended = [] if context is None else [context.epoch]
        if known is not None and known.broker == self._host.me:
            ended.append(known)
        session: object | None = None
        if context is not None:
            session, context.session = context.session, None
            if isinstance(session, SessionState):
                self._memberships.leave_all(context, session, max(ended))
            self._broker.on_leave(client)
            if isinstance(session, SessionState):
                self._send_last_will(client, session)
        if ended:
            epoch = max(ended)
            entry = self._directory.get(client)
            owner = entry.owner if entry is not None else None
            if isinstance(session, SessionState):
                owner = session.owner
            self._directory.forget(client, epoch)
            self._others.tell_all(Ended(client=client, epoch=epoch, owner=owner))
            self._broker.on_ended(client, epoch)
            self._memberships.end_all(client, epoch)

    def discard(self, context: Context) -> None:
        """End the session in a context, which goes on empty: a new session begins in it.

        [MQTT-3.1.2-4]: the client's context was brought here first, from wherever it was, so that nothing of the old
        session is left anywhere.
        """
        client, session = context.client, context.session
        if session is None and _is_blank(context):
            return
        context.session = None
        connection = self._connections.by_client.get(client)
        epoch = context.epoch if connection is None else max(context.epoch, connection.epoch)
        if isinstance(session, SessionState):
            self._memberships.leave_all(context, session, epoch)
        wanted = dict(context.filters)
        if isinstance(session, SessionState):
            # Under `home-broker` the home has the filters of a visitor.
            wanted.update(dict.fromkeys(filters_of(session)))
        for filter in wanted:
            self._broker.on_unsubscribe(client, filter)
        self._broker.contexts.consume_all(context)
        if isinstance(session, SessionState):
            # The new session counts its retained messages on: under `home-broker`, the home knows the old numbers.
            for read in (context.position, context.reach):
                read[RETAINED] = max(read.get(RETAINED, 0), session.replays)
            self._send_last_will(client, session)

    def on_over(self, over: Over) -> None:
        """A session has ended with its arrival here: its client has begun another session since."""
        self._memberships.leave_with(over.client, over.session, over.epoch, over.events)
        self._send_last_will(over.client, over.session)

    def _send_last_will(self, client: ClientId, session: SessionState) -> None:
        """End the session, and publish its will if it still has one."""
        if (will := session.end()) is not None:
            self._publish(client, session, will)

    def _publish(self, client: ClientId, session: SessionState, will: Will) -> None:
        """Publish a will if the rules in force allow it: they may have changed since CONNECT.

        The session may have come here from a broker that takes other topics: then a broker that takes the topic
        publishes it.
        """
        host, topic = self._host, will.topic
        if not self._access.may_send_will(session.owner, client, topic, session.claims):
            self._refuse_will(client, topic)
        elif self._access.takes(topic):
            self._intake.enter(event_of_will(will, self._broker.next_event_id(), client, host.time))
        elif (other := self._others.taking(topic)) is not None:
            self._others.tell(
                other, WillFor(will=event_of_will(will, EventId(host.me, 0), client, host.time))
            )
        else:
            self._refuse_will(client, topic)

    def on_will_for(self, sender: BrokerId, message: WillFor) -> None:
        """Publish the will of a client whose session ended at a broker that does not take the will's topic."""
        will = message.will
        if self._access.takes(will.topic):
            self._intake.enter(replace(will, id=self._broker.next_event_id()))
        else:
            self._refuse_will(will.publisher, will.topic)

    def _refuse_will(self, client: ClientId | None, topic: str) -> None:
        host = self._host
        host.record(Record("refused", host.time, host.me, client, detail="will"))
        host.out.notices.append(
            f"the will of client {client!r} is not published: {self._access.why_not(topic)}"
        )

    # --- what other brokers say -----------------------------------------------------------------------------

    def hear(self, sender: BrokerId, connections: Iterable[Any]) -> None:
        """Hear from another broker which connections it knows: client, epoch, home and owner of each.

        They count as if their own brokers had told of them: a session stays with the user who began it.
        """
        for client, epoch, home, owner in connections:
            self._broker.contexts.hear_epoch(epoch)
            if not self._directory.has_ended(ClientId(client), epoch):
                serving = Serving(
                    client=ClientId(client),
                    epoch=epoch,
                    home=BrokerId(home),
                    previous=epoch.broker,
                    owner=owner,
                )
                self.on_serving(sender, serving)

    def on_serving(self, sender: BrokerId, message: Serving) -> None:
        """Another broker has a newer connection of the client: an older one here gives way."""
        self._broker.contexts.hear_epoch(message.epoch)
        known = self._directory.get(message.client)
        if known is not None and not self._is_owners(known, message):
            is_old = message.epoch <= known.epoch and self._access.may_continue(message.owner, known.owner)
            if not is_old:  # a broker that has not heard of a rename tells the owner's old name
                self._on_foreign(sender, known, message)
            return
        if self._directory.learn(message.client, message.epoch, message.home, message.owner):
            connection = self._connections.by_client.get(message.client)
            if connection is not None and connection.epoch < message.epoch:
                self.end_connection(connection, ReasonCode.SESSION_TAKEN_OVER, "connected elsewhere")
            mine = self._broker.contexts.epoch_of(message.client)
            if message.previous is None:
                if mine is not None and mine < message.epoch:
                    # Another broker had not heard of this session when it began one.
                    self.end(message.client)
                self._broker.on_ended(message.client, message.epoch)

    def _is_owners(self, known: KnownConnection, message: Serving) -> bool:
        """Whether the owner of a session has connected again, by the known name or by a new one."""
        if message.formerly is not None and message.formerly == (known.owner or ANONYMOUS):
            return True
        return self._access.may_continue(known.owner, message.owner)

    def _on_foreign(self, sender: BrokerId, known: KnownConnection, message: Serving) -> None:
        """Two users have connected with one client id, at brokers that had not heard of each other: the first one
        stays."""
        client = message.client
        if known.epoch < message.epoch:
            theirs = KnownConnection(message.epoch, message.home, message.owner)
            self._directory.note_rival(client, theirs)
            first = Serving(
                client=client,
                epoch=known.epoch,
                home=known.home,
                previous=known.epoch.broker,
                owner=known.owner,
            )
            self._others.tell(sender, first)
        elif not self._directory.has_ended(client, message.epoch):
            self._withdraw(client, known)
            self._directory.learn(client, message.epoch, message.home, message.owner)

    def rules_changed(self) -> None:
        """Take new rules into account: a later connection that counted as another user's may be the owner's,
        renamed."""
        self._directory.take_rivals(self._access.may_continue)

    def _withdraw(self, client: ClientId, known: KnownConnection) -> None:
        """End a session that began with the client id of another user's session, and its connection.

        A context that is on its way here is the other user's: it stays when it arrives.
        """
        connection = self._connections.by_client.get(client)
        if connection is not None and self._access.may_continue(known.owner, connection.user):
            self.cut_foreign(connection, client)
        context = self._broker.contexts.get(client)
        session = context.session if context is not None else None
        is_theirs = isinstance(session, SessionState) and session.owner == known.owner
        if context is not None and context.local_queue is None and is_theirs:
            self._broker.on_leave(client)
        self._directory.forget(client, known.epoch)
        self._others.tell_all(Ended(client=client, epoch=known.epoch, owner=known.owner))

    def cut_foreign(self, connection: Connection, client: ClientId) -> None:
        """Send away a client that connected with the client id of another user's session."""
        host = self._host
        host.record(Record("refused", host.time, host.me, client, detail="session_owner"))
        host.out.notices.append(
            f"client {client!r} of user {connection.user!r} at {connection.peer}: {ANOTHERS}"
        )
        self.end_connection(connection, ReasonCode.NOT_AUTHORIZED, ANOTHERS)

    def on_ended(self, sender: BrokerId, message: Ended) -> None:
        """A session has ended, up to a connection: remove the rest of it here, but nothing of a later connection."""
        client = message.client
        self._broker.contexts.hear_epoch(message.epoch)
        known = self._directory.get(client)
        if known is not None and not self._access.may_continue(message.owner, known.owner):
            self._directory.forget_rival(client, message.owner)
            return  # a session of another user, with the same client id
        self._directory.forget(client, message.epoch)
        connection = self._connections.by_client.get(client)
        if connection is not None and connection.epoch <= message.epoch:
            self.end_connection(connection, ReasonCode.SESSION_TAKEN_OVER, "connected elsewhere")
        if client in self._connections.by_client or self._directory.last_epoch(client) is not None:
            return  # a later connection is here, or will ask for the context that is here
        mine = self._broker.contexts.epoch_of(client)
        if mine is not None and mine <= message.epoch:
            self._broker.on_leave(client)
        self._broker.on_ended(client, message.epoch)
        self._memberships.end_all(client, message.epoch)


def _is_blank(context: Context) -> bool:
    """Has the context just been made, so that it holds nothing?"""
    return not (
        context.filters
        or context.reach
        or context.position
        or context.stored
        or context.sent_early
        or context.local_queue is not None
        or context.late is not None
    )
