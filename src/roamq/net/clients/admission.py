"""Clients come in: login, the way of the session to this broker, and CONNACK.

CONNACK waits until the session is here with everything that CONNACK states, and never longer than the previous broker
deserves; what comes later joins the session that began without it (docs/live.md).
"""

from dataclasses import dataclass
from typing import Final
from zlib import crc32

from roamq.broker.broker import Broker
from roamq.core.context import PASSIVE, Context, Epoch, Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.core.records import Record
from roamq.core.tuples import new_tuple
from roamq.net.clients.access import Access
from roamq.net.clients.connections import Connection, Connections
from roamq.net.clients.mqtt.codec import Connect, ReasonCode
from roamq.net.clients.mqtt.inputs import ClientInput, ConnectRequested
from roamq.net.clients.mqtt.outbound import PACKET_ID_MAX
from roamq.net.clients.mqtt.state import RETAINED, SessionState
from roamq.net.clients.mqtt.subscriptions import SubscriptionSet
from roamq.net.clients.quota import NO_ROOM, SessionQuota
from roamq.net.clients.sessions import ANOTHERS, Sessions
from roamq.net.clients.tickets import TICKET_PROPERTY, shown_epoch
from roamq.net.host import LiveHost
from roamq.net.links.others import OtherBrokers
from roamq.net.outputs import Login
from roamq.net.topics.directory import Adopt, Directory, Ended, Known, Serving, WhoServes
from roamq.net.topics.memberships import Memberships

PREVIOUS_PROPERTY: Final = "roamq-previous"
"""The user property of CONNECT with the broker where the client says it was served before."""
CELL_PROPERTY: Final = "roamq-cell"
"""The user property of CONNECT with the cell a client is in, for schemes that look at it."""
PATIENCE: Final = 6
"""How many handoff time-outs a transfer that makes progress may take before the broker lets the client in without it.
New messages wait as long for older ones whose broker does not answer."""
CONNACK_TIMER: Final = "connack"
"""The timer for a previous broker that does not answer."""
EARLY_TIMER: Final = "deliver_early"
"""The timer for older events that do not come."""
SEARCH_TIMER: Final = "search"
"""The timer for brokers that do not say whether they know a client."""
SEARCH_S_MAX: Final = 0.25
"""Most seconds that a search waits for the answers; a shorter handoff time-out goes first."""
TAKEN_AWAY: Final = "this broker is being taken away"
JUST_JOINED: Final = "this broker has just joined the network and is not linked yet; try again"

Admitted = tuple[Connection, list[ClientInput]]
"""A connection whose client was let in, and the inputs that the client has sent meanwhile."""


@dataclass(slots=True)
class SessionSearch:
    """A search for the session of a client that this broker does not know: the brokers that have not answered yet."""

    connection: Connection
    unanswered: set[BrokerId]


class Admission:
    """Lets clients in, one after the other. A client that waits costs the others nothing."""

    def __init__(
        self,
        host: LiveHost,
        broker: Broker,
        connections: Connections,
        directory: Directory,
        memberships: Memberships,
        others: OtherBrokers,
        sessions: Sessions,
        access: Access,
        quota: SessionQuota,
        handoff_timeout_s: float,
    ) -> None:
        self.handoff_timeout_s = handoff_timeout_s
        """Seconds that CONNACK waits for a previous broker that does not answer."""
        self.draining = False
        """Whether this broker is being taken away: it lets nobody in."""
        self.is_stranger = False
        """Whether this broker has just joined and no broker has told it where sessions are: it lets nobody in."""
        self._host = host
        self._broker = broker
        self._connections = connections
        self._directory = directory
        self._memberships = memberships
        self._others = others
        self._sessions = sessions
        self._access = access
        self._quota = quota
        self._searches: dict[ClientId, SessionSearch] = {}

    # --- coming in ------------------------------------------------------------------------------------------

    def request_login(self, connection: Connection, said: ConnectRequested) -> None:
        """CONNECT has come: ask the shell who the client is. [MQTT-3.1.4-2]"""
        connect, number = said.connect, connection.number
        where = (connection.listener, connection.peer)
        login = Login(number, connect.user_name, connect.password, said.client_id, *where)
        self._host.out.logins.append(login)

    def refuse(
        self, connection: Connection, reason: ReasonCode, why: str, reference: str | None = None
    ) -> None:
        connection.mqtt.refuse(reason, why, reference)
        self._host.close(connection)

    def enter(self, connection: Connection) -> None:
        """Find the session of a client that has logged in, here or elsewhere. `answer` follows when it is whole."""
        host, connections = self._host, self._connections
        connect = connection.mqtt.connect
        client = connection.mqtt.terms.client_id
        if self.draining:
            # Section 4.13: 0x9C with where to go
            reference = self._others.successor_for(client)[1]
            self.refuse(connection, ReasonCode.USE_ANOTHER_SERVER, TAKEN_AWAY, reference)
            return
        if self.is_stranger:
            self.refuse(connection, ReasonCode.SERVER_UNAVAILABLE, JUST_JOINED)  # Section 3.2.2.2: 0x88
            return
        if self._refuse_foreign(connection, client):
            return
        previous = self._previous_broker(client, connect)
        bound = self._bound_reached(client, connect, previous)
        if bound is not None:
            self.refuse(connection, ReasonCode.QUOTA_EXCEEDED, NO_ROOM[bound])  # Section 3.2.2.2: 0x97
            host.record(Record("refused", host.time, host.me, client, detail=bound))
            return
        connection.entered_at = host.time
        last = self._broker.contexts.epoch_of(client)
        before = connections.by_client.get(client)
        if before is not None:
            # [MQTT-3.1.4-3]
            self._sessions.end_connection(before, ReasonCode.SESSION_TAKEN_OVER, "connected again")
        connections.assign(client, connection)
        ends = connect.clean_start and self._is_whole(client)
        if ends:
            # [MQTT-3.1.2-4] what the client has at another broker comes here first, and ends here (`answer`)
            self._sessions.end(client)
        if ends or before is not None:
            previous = self._previous_broker(client, connect)  # the session may have ended
        if connect.clean_start and self._directory.last_epoch(client) is None:
            previous = None  # a client's word for where its session is does not suffice to end it
        # Other brokers may tell old news of an earlier life, if the client went on from here before they heard of it.
        has_forgotten = previous == host.me and self._broker.may_have_forgotten
        is_unknown = (previous is None or has_forgotten) and client not in self._broker.contexts
        if is_unknown and not connect.clean_start and self._others.names:
            self._search(client, connection)
        else:
            self._proceed(client, connection, previous, last)

    # --- a client that nobody here has heard of ---------------------------------------------------------------

    def _search(self, client: ClientId, connection: Connection) -> None:
        """Ask the other brokers: the client may have begun its session a moment ago, with the news still on its way."""
        connection.epoch = self._broker.contexts.new_epoch(above=self._directory.last_epoch(client))
        self._searches[client] = SessionSearch(connection, set(self._others.names))
        self._connections.wait(client, connection)
        self._others.tell_all(WhoServes(client=client, asked=connection.epoch))
        self._host.set_timer((SEARCH_TIMER, client), min(self.handoff_timeout_s, SEARCH_S_MAX))

    def on_who_serves(self, sender: BrokerId, message: WhoServes) -> None:
        client = message.client
        epoch, home, owner = self._directory.get(client) or (None, None, None)
        answer = Known(client=client, asked=message.asked, epoch=epoch, home=home, owner=owner)
        self._others.tell(sender, answer)

    def on_known(self, sender: BrokerId, message: Known) -> None:
        search = self._searches.get(message.client)
        if search is None or search.connection.epoch != message.asked:
            return
        is_over = message.epoch is None or self._directory.has_ended(message.client, message.epoch)
        known = self._directory.get(message.client)
        # The directory may know the owner's own connection by now: another user's does not replace it.
        is_anothers = known is not None and not self._access.may_continue(known.owner, message.owner)
        if not is_over and not is_anothers and message.epoch is not None and message.home is not None:
            self._directory.learn(message.client, message.epoch, message.home, message.owner)
        search.unanswered.discard(sender)
        if not search.unanswered:
            self.end_search(message.client)

    def end_search(self, client: ClientId) -> None:
        """All brokers have answered, or have had the time to: continue with what is known."""
        search = self._searches.pop(client, None)
        if search is None:
            return
        self._host.cancel_timer((SEARCH_TIMER, client))
        if self._connections.waiting(client) is not search.connection:
            if self._connections.waiting(client) is None and client not in self._broker.contexts:
                self._connections.end_wait(client)  # the client did not wait for the answers
            return
        connection, known = search.connection, self._directory.last_epoch(client)
        if known is not None and connection.epoch < known <= Epoch(self._host.time, known.broker):
            # The client went on elsewhere, unnoticed here. An epoch ahead of the time is of a fast clock.
            self._sessions.end_connection(connection, ReasonCode.SESSION_TAKEN_OVER, "connected elsewhere")
            self._connections.end_wait(client)
        elif self._refuse_foreign(connection, client):
            self._sessions.give_up_wait(connection)
            self._connections.end_wait(client)
        else:
            previous = self._previous_broker(client, connection.mqtt.connect)
            with self._broker.contexts.coming_since(connection.epoch):  # or it went elsewhere since
                self._proceed(client, connection, previous, None)

    def broker_departed(self, broker: BrokerId) -> None:
        """A broker has left for good: no search waits for its answer any more."""
        for client, search in list(self._searches.items()):
            search.unanswered.discard(broker)
            if not search.unanswered:
                self.end_search(client)

    # --- the session comes here -------------------------------------------------------------------------------

    def _proceed(
        self, client: ClientId, connection: Connection, previous: BrokerId | None, last: Epoch | None
    ) -> None:
        """Have the session brought from the previous broker, or begin one. `last`: epoch of the context here before."""
        host, connections = self._host, self._connections
        connect = connection.mqtt.connect
        # Only the client itself knows which connection was its last: the directory's epoch may be old.
        known_home = self._directory.home(client)
        home = known_home if known_home is not None and previous is not None else previous or host.me
        ticket = None if previous is None else Ticket(home, self._shown_epoch(connect))
        was_here = client in self._broker.contexts
        self._broker.on_connect(client, previous, (), ticket)
        context = self._broker.contexts[client]
        if not was_here and isinstance(context.session, SessionState):
            context.session.take_will(host.time)  # of a copy: the session's broker has sent it
        if last is not None and context.epoch <= last and context.local_queue is None:
            context.epoch = self._broker.contexts.new_epoch(above=last)  # another session in the same instant
        connection.previous = previous
        connection.epoch = self._announce(client, home, previous, connection.user)
        who = (host.me, client, None, None, previous)
        host.record(new_tuple(Record, ("connected", host.time, *who, None, None, None, None, None)))
        connections.wait(client, connection)
        host.set_timer((CONNACK_TIMER, client), self.handoff_timeout_s)

    def _is_whole(self, client: ClientId) -> bool:
        """Is the client's whole context here, and its session not lent to a broker that the client visits?"""
        context = self._broker.contexts.get(client)
        return context is not None and context.local_queue is None and context.outlet is None

    def _refuse_foreign(self, connection: Connection, client: ClientId) -> bool:
        """Refuse a client that asks for another user's session, or for a will on a topic that the rules forbid it.

        Section 3.2.2.2: 0x87. Nobody may even end a session that another user began.
        """
        user, will = connection.user, connection.mqtt.connect.will
        if not self._access.may_continue(self._owner_of(client, user), user):
            self._refuse_as(connection, client, "session_owner", ANOTHERS)
            return True
        if will is not None and not self._access.may_leave_will(user, client, will.topic, connection.claims):
            self._refuse_as(connection, client, "will", f"the will: {self._access.why_not(will.topic)}")
            return True
        return False

    def _refuse_as(self, connection: Connection, client: ClientId, detail: str, why: str) -> None:
        host = self._host
        self.refuse(connection, ReasonCode.NOT_AUTHORIZED, why)
        host.record(Record("refused", host.time, host.me, client, detail=detail))
        host.out.notices.append(f"client {client!r} of user {connection.user!r} at {connection.peer}: {why}")

    def _owner_of(self, client: ClientId, user: str | None) -> str | None:
        """The user who began the client's session, here or elsewhere; `user` if there is none."""
        entry = self._directory.get(client)
        if entry is not None:
            return entry.owner
        context = self._broker.contexts.get(client)
        if context is None or context.mode is PASSIVE or not isinstance(context.session, SessionState):
            return user
        return context.session.owner

    def on_foreign(self, client: ClientId, *, is_taken: bool) -> None:
        """A session has come that another user began: cut the client that connected with its client id."""
        connection = self._connections.by_client.get(client)
        context = self._broker.contexts.get(client)
        if context is None or not isinstance(context.session, SessionState):
            return
        session = context.session
        home = self._directory.home(client) or self._host.me
        if connection is not None and not self._access.may_continue(session.owner, connection.user):
            self._sessions.cut_foreign(connection, client)
            self._directory.forget(client, connection.epoch)
            self._others.tell_all(Ended(client=client, epoch=connection.epoch, owner=connection.user))
        if is_taken:
            self._announce(client, home, self._host.me, session.owner)
        wanted = set(SubscriptionSet(session).filters.values())
        for filter in [filter for filter in context.filters if filter not in wanted]:
            self._broker.on_unsubscribe(client, filter)

    def _bound_reached(self, client: ClientId, connect: Connect, previous: BrokerId | None) -> str | None:
        """The quota that keeps the client out; None if it may come in.

        If too much waits for a broker that is down, a client's word alone does not suffice to claim a session there;
        sessions that this broker knows to be there are claimed.
        """
        host, claimed = self._host, None
        if previous is not None and previous != host.me:
            known = self._directory.last_epoch(client)
            claimed = None if known is not None and previous == known.broker else previous
        is_down = claimed is not None and host.is_crowded(self._broker.router.next_hop(claimed))
        if host.choked is not None or is_down:
            return "outbox_messages_bytes_max"
        if claimed is not None and self._broker.scheme.parts.left_behind() >= self._quota.left_behind_max:
            return "left_behind_max"
        is_moving = not connect.clean_start and previous is not None
        may_begin = is_moving or self._quota.begin_for(client, connect.will, host.time)
        return None if may_begin else "sessions_max"

    def _previous_broker(self, client: ClientId, connect: Connect) -> BrokerId | None:
        """The broker where the client was last.

        Brokers know more than a client that lost its last CONNACK; but a client that shows a later connection has been
        beyond a link that is down. `roamq-previous` may name a broker that never answered.
        """
        known = self._directory.last_epoch(client)
        if known is None:
            return self._others.named(connect.properties.user_property(PREVIOUS_PROPERTY))
        contexts, shown = self._broker.contexts, self._shown_epoch(connect)
        last = known if shown is None else max(known, shown)
        contexts.hear_epoch(last)
        contexts.comes = (client, last)
        return last.broker

    def _shown_epoch(self, connect: Connect) -> Epoch | None:
        shown = shown_epoch(connect, self._host.time)
        return shown if shown is not None and self._others.named(shown.broker) is not None else None

    def _announce(
        self, client: ClientId, home: BrokerId, previous: BrokerId | None, owner: str | None
    ) -> Epoch:
        """Tell all brokers that the client is here, with an epoch above all known ones; its context may have less."""
        known = self._directory.get(client)
        epoch = self._broker.contexts.new_epoch(above=None if known is None else known.epoch)
        was = None if known is None else self._access.former_name(known.owner, owner)
        self._directory.learn(client, epoch, home, owner)
        if self._others.names:
            told = Serving(
                client=client, epoch=epoch, home=home, previous=previous, owner=owner, formerly=was
            )
            self._others.tell_all(told)
        return epoch

    # --- CONNACK --------------------------------------------------------------------------------------------

    def answer(self, client: ClientId) -> Admitted | None:
        """Send CONNACK when the session is here. A session that goes on needs only the events it has begun to send."""
        context = self._broker.contexts.get(client)
        if context is None:
            return None
        is_whole = context.local_queue is None
        if not self._connections.is_awaited(client):
            if is_whole:
                self._host.cancel_timer((EARLY_TIMER, client))
            return None
        if not is_whole and not self._may_go_on(context):
            return None
        connection = self._connections.end_wait(client)
        self._host.cancel_timer((CONNACK_TIMER, client))
        if isinstance(context.session, SessionState):
            context.session.is_provisional = False
        if connection is None:
            if isinstance(context.session, SessionState):
                self._memberships.set_all(client, context.session, context.epoch, False)
            self._sessions.watch(context)
            return None
        if connection.mqtt.connect.clean_start:
            self._sessions.discard(context)
        if not is_whole:
            self._host.set_timer((EARLY_TIMER, client), PATIENCE * self.handoff_timeout_s)
        return self._let_in(connection, context)

    def _may_go_on(self, context: Context) -> bool:
        """Whether a client may continue its session while later events for it are on their way.

        A session that ends is brought here whole, so that nothing of it is left. And the events that an earlier
        connection began to send must be here: a PUBCOMP for an event that is on its way would have nothing to
        acknowledge.
        """
        session, connection = context.session, self._connections.waiting(context.client)
        if not context.delivers_head or connection is None or not isinstance(session, SessionState):
            return False
        if connection.mqtt.connect.clean_start or session.expired(self._host.time):
            return False
        begun = (entry.event_id for entry in session.outbound.values())
        return all(sequence <= context.reach.get(origin, 0) for origin, sequence in begun)

    def give_up(self, client: ClientId) -> Admitted | None:
        """Let the client in without its session: the previous broker does not answer, and sends it when it is back.

        A broker that has answered is sending: a long queue is worth some patience, but not for ever.
        """
        connection = self._connections.waiting(client)
        context = self._broker.contexts.get(client)
        if connection is None or context is None:
            return None
        host, patience_s = self._host, PATIENCE * self.handoff_timeout_s
        has_answered = isinstance(context.session, SessionState) and not context.session.is_provisional
        is_clean = connection.mqtt.connect.clean_start
        if has_answered and not is_clean and host.time - connection.entered_at < patience_s:
            host.set_timer((CONNACK_TIMER, client), self.handoff_timeout_s)
            return None
        self._connections.end_wait(client)
        if is_clean:
            # Whatever is on its way ends when it arrives; the new session has nothing to do with it.
            self._broker.on_leave(client)
            self._broker.on_connect(client, None, (), Ticket(host.me))
            context = self._broker.contexts[client]
            connection.epoch = self._announce(client, host.me, host.me, connection.user)
        elif isinstance(context.session, SessionState) and context.session.is_unused:
            context.session = None
        is_new = context.session is None
        admitted = self._let_in(connection, context)
        state = connection.mqtt.state
        if is_new:
            # A packet id that means one message to us and another to the client would lose one of the two: sessions
            # that began at different brokers count from ids that lie apart.
            state.last_packet_id = crc32(f"{host.me} {host.time!r}".encode()) % PACKET_ID_MAX
        state.is_provisional = not has_answered and context.local_queue is not None
        if context.local_queue is not None:
            host.set_timer((EARLY_TIMER, client), patience_s)
        return admitted

    def _let_in(self, connection: Connection, context: Context) -> Admitted:
        mqtt, host, client = connection.mqtt, self._host, context.client
        contexts = self._broker.contexts
        session = context.session if isinstance(context.session, SessionState) else None
        if session is not None and session.expired(host.time):
            session = None
            self._sessions.discard(context)
        told: tuple[tuple[str, str], ...] = ()
        cell = None
        if mqtt.connect.properties.user_properties:
            epoch = contexts.epoch_of(client)
            ticket = f"{epoch.connected_at!r}@{epoch.broker}" if epoch is not None else ""
            told = ((TICKET_PROPERTY, ticket),)
            cell = mqtt.connect.properties.user_property(CELL_PROPERTY)
        inputs = mqtt.accept(session, host.time, user_properties=told)
        connection.client = client
        context.session = state = mqtt.state
        if session is None:
            state.replays = context.reach.get(RETAINED, 0)
        state.owner, state.claims = connection.user, connection.claims
        state.client_class = host.client_class(client, context)
        host.out.dirty[connection.number] = mqtt
        self._sessions.unwatch(client)
        if state.subscriptions:
            self._memberships.set_all(client, state, connection.epoch, True)
        if cell:
            self._broker.on_location(client, cell)
        contexts.set_window(client, host.window(client))
        return connection, inputs

    # --- events that do not wait for older ones -------------------------------------------------------------

    def deliver_early(self, client: ClientId) -> None:
        """Deliver new events although older ones are missing: order is worth some patience, but not silence."""
        context = self._broker.contexts.get(client)
        connection = self._connections.by_client.get(client)
        if context is None or connection is None or connection.client is None or context.local_queue is None:
            return
        if context.delivers_head and context.stored:
            # The older events that are here come first, as fast as the client reads.
            self._host.set_timer((EARLY_TIMER, client), self.handoff_timeout_s)
            return
        connection.delivers_early = True
        self._broker.contexts.deliver_early(context)

    # --- taking the broker away -----------------------------------------------------------------------------

    def drain(self) -> None:
        """Send all clients to other brokers, and hand the sessions of absent clients over."""
        self.draining = True
        for connection in list(self._connections.by_client.values()):
            if connection.client is not None:
                reference = self._others.successor_for(connection.client)[1]
                self._sessions.end_connection(
                    connection, ReasonCode.USE_ANOTHER_SERVER, TAKEN_AWAY, reference
                )
        for client, context in list(self._broker.contexts.items()):
            if context.mode is not PASSIVE:
                home = self._directory.home(client) or self._host.me
                successor, _ = self._others.successor_for(client)
                owner = self._owner_of(client, None)
                self._others.tell(successor, Adopt(client=client, home=home, owner=owner))

    def on_adopt(self, sender: BrokerId, message: Adopt) -> None:
        """Fetch a session from a broker that is being taken away, as if its client had come here and gone again."""
        client = message.client
        if client in self._connections.by_client or self._sessions.is_awaited(client):
            return  # the session is here already
        self._broker.on_connect(client, sender, (), Ticket(message.home))
        self._broker.on_disconnect(client, "adopted")
        self._announce(client, message.home, sender, message.owner)
        self._connections.wait(client, None)
