"""One live broker as a deterministic machine: inputs with their time in, outputs to take away.

The machine puts the parts together, gives each input to the part whose job it is, and finishes what the input has left
to do. There is no socket, clock or random number in here: the shell (`shell.py`) brings bytes and the time, and takes
the outputs after each batch. Because equal inputs give an equal machine, the journal of inputs is all that durability
needs (docs/decisions/0053).

    broker       the core: routing, contexts, mobility scheme
    host         what the core asks of the world; effects gather in `out`
    connections  who is connected, and who waits
    permits      who may be here, and until when
    admission    CONNECT -> login -> the session is found -> CONNACK
    requests     PUBLISH, SUBSCRIBE, UNSUBSCRIBE
    sessions     what outlives a connection: takeover, wills, expiry
    news         what the core told the host, given to the others
    retained, replays, groups, memberships, intake    what topics mean beyond subscriptions
    confirmations, visitors  SUBACK waits until the network knows
    tables, lives  what all brokers know, for one that begins anew
    membership   which brokers the network has
    directory    which broker serves which client
    outboxes, roll_calls  numbered frames of the links; what a broker has missed that was cut off
"""

from collections.abc import Collection, Mapping

from roamq.build import build_broker
from roamq.core.context import Context
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.messages import Routed
from roamq.core.ports import TimerKey
from roamq.net.bounds import make_outboxes, scheme_options, set_quotas, set_schemes
from roamq.net.clients.access import Access
from roamq.net.clients.admission import CONNACK_TIMER, Admission, Admitted
from roamq.net.clients.confirmations import Confirmations
from roamq.net.clients.connections import Connection, Connections
from roamq.net.clients.mqtt.codec import Publish, ReasonCode, Subscribe, Unsubscribe
from roamq.net.clients.mqtt.inputs import Acknowledged, ClientInput, Closed, ConnectRequested
from roamq.net.clients.mqtt.session import CLOSED, PENDING, ServerConnection
from roamq.net.clients.permits import Permits
from roamq.net.clients.quota import SessionQuota
from roamq.net.clients.requests import Requests
from roamq.net.clients.sessions import Sessions
from roamq.net.clients.visitors import Visitors
from roamq.net.host import LiveHost
from roamq.net.links import wire
from roamq.net.links.lives import MICROSECONDS, Lives
from roamq.net.links.members import Member, NetworkTold
from roamq.net.links.membership import Membership
from roamq.net.links.others import OtherBrokers
from roamq.net.news import NewsDesk
from roamq.net.ops.settings import AccessRules, Settings
from roamq.net.ops.status import BrokerStatus, status_of
from roamq.net.outputs import Outputs, UserIdentity
from roamq.net.steps import Steps
from roamq.net.switchboard import handlers_of, timers_of
from roamq.net.topics.directory import Directory
from roamq.net.topics.figures import Figures
from roamq.net.topics.fullness import Fullness
from roamq.net.topics.intake import EventIntake
from roamq.net.topics.memberships import Memberships
from roamq.net.topics.replays import Replays
from roamq.net.topics.retained import RetainedMessages, retained_bounds
from roamq.net.topics.roll_calls import RollCalls
from roamq.net.topics.shared import SharedGroups
from roamq.net.topics.tables import Tables
from roamq.overlay.topology import Topology


class Machine:
    """One broker of a live network."""

    def __init__(self, settings: Settings, now: float = 0.0, in_force: Settings | None = None) -> None:
        self.settings, self.made_of = in_force or settings, settings
        self.me = settings.me
        # A life that remembers no earlier one must not use its numbers again: all of them count from its birth.
        born = int(now * MICROSECONDS)
        quotas = settings.quotas
        publishes = settings.publishes
        core = {name: topics for name, topics in publishes.items() if name in settings.brokers}
        topology = Topology(settings.brokers, settings.links, core)
        if settings.at:
            topology.attach(self.me, settings.at, publishes.get(self.me))
        self.connections = Connections()
        self.outboxes = make_outboxes(topology.neighbours[self.me], born, quotas)
        self.access = Access(settings.access, publishes.get(self.me))
        self.host = LiveHost(self.me, self.connections, self.outboxes, self.access, now)
        self.broker = build_broker(
            self.me,
            self.host,
            topology,
            scheme=settings.scheme,
            options=scheme_options(self.settings if self.settings.scheme == settings.scheme else settings),
            overlay=settings.overlay,
            confirms=True,
            first_number=born,
            late_after_s=settings.late_after_s,
        )
        self.host.contexts = self.broker.contexts
        self.host.classes = self.settings.classes
        self.directory = Directory()
        self.retained = RetainedMessages(*retained_bounds(quotas))
        self.replays = Replays(self.host, self.broker, self.retained)
        self.groups = SharedGroups()
        self.others = OtherBrokers(self.broker, topology, settings.references, settings.mates)
        self.intake = EventIntake(self.broker, self.retained, self.groups)
        self.confirmations = Confirmations(self.host, self.broker, settings.subscribe_timeout_s)
        shared = (self.groups, self.intake, self.others, self.confirmations)
        self.memberships = Memberships(self.host, self.broker, *shared)
        self.tables = Tables(self.broker, self.directory, self.groups, self.retained, self.others, now)
        self.figures = Figures(self.host, self.broker, self.intake, born)
        host, broker, connections = self.host, self.broker, self.connections
        self.sessions = Sessions(
            host, broker, connections, self.directory, self.intake, self.memberships, self.others, self.access
        )
        self.permits = Permits(self.host, self.connections, self.sessions)
        self.roll_calls = RollCalls(broker, self.directory, self.groups, self.sessions)
        self.visitors = Visitors(self.host, self.confirmations, self.memberships, self.directory, self.others)
        self.quota = SessionQuota(broker.contexts, quotas.sessions_max, quotas.sessions_bytes_max)
        known = (self.directory, self.memberships, self.others, self.sessions, self.access, self.quota)
        self.admission = Admission(host, broker, connections, *known, settings.handoff_timeout_s)
        ties = (self.outboxes, self.others, self.directory, self.memberships, self.confirmations)
        self.membership = Membership(host, broker, topology, *ties, self.admission, self.tables, self.access)
        self.lives = Lives(host, broker, self.outboxes, self.tables, self.retained, self.membership)
        self.news = NewsDesk(connections, self.admission, self.sessions, self.memberships)
        self.steps = Steps(host, broker.contexts, settings.records_steps)
        parts = (self.access, self.sessions, self.intake, self.replays, self.memberships)
        self.fullness = Fullness(host, broker.contexts, self.groups, self.others)
        more = (self.confirmations, self.visitors, self.steps, self.quota, self.fullness)
        self.requests = Requests(host, broker, connections, *parts, *more)
        self._handlers, self._timers = handlers_of(self), timers_of(self)
        self.admission.is_stranger = bool(settings.at)
        self._failure: Exception | None = None  # the reason why the current input failed
        self._named = 0
        self._name_client = self.new_client_id  # one for all connections: a bound method takes 64 bytes
        broker.contexts.works_in_slices = broker.contexts.sends_heads = True
        broker.contexts.tells_last_read = True
        set_quotas(self, self.settings)
        if settings.classes and in_force is None:
            set_schemes(self, settings)

    # --- what others may look at --------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """The time of the last input."""
        return self.host.time

    @property
    def out(self) -> Outputs:
        """The effects of the inputs since the last `take_outputs`."""
        return self.host.out

    def take_outputs(self) -> Outputs:
        out, self.host.out = self.host.out, Outputs()
        return out

    def mqtt(self, connection: int) -> ServerConnection | None:
        """The state of MQTT on a connection."""
        found = self.connections.by_number.get(connection)
        return None if found is None else found.mqtt

    def has_logged_in(self, connection: int) -> bool:
        """Did the login succeed? Then the client has its session, or waits for it."""
        found = self.connections.by_number.get(connection)
        return found is not None and found.entered_at > 0

    def serves(self, client: str) -> bool:
        """Is the client connected here, or waiting to be let in?"""
        return client in self.connections.by_client

    def held(self) -> list[Context]:
        """Every context for which this broker keeps anything, including those on their way to another broker."""
        return self.broker.scheme.held()

    def status(self) -> BrokerStatus:
        return status_of(self)

    # --- inputs of clients ----------------------------------------------------------------------------------

    def opened(self, connection: int, now: float, listener: str, peer: str) -> None:
        self.host.time = now
        mqtt = ServerConnection(self.settings.limits, self._name_client)
        self.connections.add(Connection(connection, mqtt, listener, peer))

    def received(self, connection: int, data: bytes, now: float) -> None:
        host = self.host
        host.time = now
        found = self.connections.by_number.get(connection)
        if found is None:
            return
        host.out.dirty[connection] = found.mqtt
        try:
            self._take(found, found.mqtt.receive(data, now))
        except Exception as error:
            self._contain(found, error)
        self._end_input()

    def lost(self, connection: int, now: float) -> None:
        """The socket of the connection is closed."""
        self.host.time = now
        found = self.connections.by_number.get(connection)
        if found is not None:
            try:
                self._take(found, found.mqtt.lost(now))
                self.sessions.give_up_wait(found)
            except Exception as error:
                self._contain(found, error)
            self.connections.remove(found)
            self.permits.forget(found)
            self.host.out.dirty.pop(connection, None)
            self._end_input()

    def authenticated(
        self,
        connection: int,
        user: str | None,
        now: float,
        *,
        allowed: bool,
        told: UserIdentity | None = None,
    ) -> None:
        """The shell gives its verdict on a login; `told` is the identity that a token or certificate gave."""
        self.host.time = now
        found = self.connections.by_number.get(connection)
        if found is None or found.mqtt.phase is not PENDING:
            return
        self.host.out.dirty[connection] = found.mqtt
        try:
            if allowed:
                self.permits.grant(found, user, told)
                self.admission.enter(found)
            else:
                reason = "user name or password is wrong"
                self.admission.refuse(found, ReasonCode.BAD_USER_NAME_OR_PASSWORD, reason)
        except Exception as error:
            self._contain(found, error)
        self._end_input()

    def blocked(self, connection: int, now: float, *, is_blocked: bool) -> None:
        """Note whether the client reads more slowly than the broker writes: then its events stay in its context."""
        self.host.time = now
        found = self.connections.by_number.get(connection)
        if found is None:
            return
        found.is_blocked = is_blocked
        if found.client is not None:
            try:
                self.broker.contexts.set_window(found.client, self.host.window(found.client))
            except Exception as error:
                self._contain(found, error)
            self._end_input()

    def check_keep_alive(self, connection: int, now: float) -> None:
        self.host.time = now
        found = self.connections.by_number.get(connection)
        if found is not None:
            self.host.out.dirty[connection] = found.mqtt
            try:
                self._take(found, found.mqtt.check_keep_alive(now))
            except Exception as error:
                self._contain(found, error)
            self._end_input()

    # --- inputs of links ------------------------------------------------------------------------------------

    def link_received(self, peer: BrokerId, sequence: int, frame: bytes, now: float) -> None:
        """A numbered frame came from a neighbour; a frame that came before is not read again.

        A broker that has left reads no frames: its answer would come behind its last word, and nobody would read it."""
        self.host.time = now
        if self.membership.has_left or not self.outboxes.is_news(peer, sequence):
            return
        try:
            message = wire.decode(frame)
            if message.__class__ is NetworkTold:
                self.membership.on_told(peer, message)
                self._end_input()
                return
            left = self.broker.on_message(peer, message)
            if self.steps.enabled and message.__class__ is Event:
                self.steps.routed(peer, message)
            if left is not None:
                if left.__class__ is Event:
                    if left.retain or self.groups.groups or left.assigned is not None:
                        self.intake.arrived(left)
                else:
                    assert isinstance(left, Routed)
                    self._hear(left)
            elif self.confirmations.is_waiting:
                self.confirmations.look()
        except Exception as error:
            self._contain(None, error)
        self._end_input()

    def link_acked(self, peer: BrokerId, sequence: int, now: float) -> None:
        """The neighbour says that it has every frame up to `sequence`: now and then, and when the link comes up."""
        self.host.time = now
        if peer in self.outboxes.frames and self.lives.acked(peer, sequence):
            self._end_input()

    def _hear(self, routed: Routed) -> None:
        """Handle a message that live brokers send each other, or send back one that cannot arrive."""
        if routed.to != self.me:
            self.membership.send_back(routed)
            return
        handle = self._handlers.get(routed.message.__class__)
        assert handle is not None, f"{routed.message} from {routed.sender} is for nobody"
        handle(routed.sender, routed.message)

    # --- inputs of time and of operators --------------------------------------------------------------------

    def timer(self, key: TimerKey, now: float) -> None:
        self.host.time = now
        ring = self._timers.get(key[0])
        concerned = self.connections.by_client.get(ClientId(key[1])) if len(key) == 2 else None
        try:
            if ring is not None:
                ring(key[1] if len(key) == 2 else None)
            elif key[0] == CONNACK_TIMER:
                self._admit(self.admission.give_up(ClientId(key[1])))
            else:
                self.broker.on_timer(key)
        except Exception as error:
            self._contain(concerned, error)
        self._end_input()

    def set_settings(self, settings: Settings, now: float) -> None:
        """Put the settings of a start or a reload in force; those that shape the network do not change."""
        self.host.time = now
        self.settings = settings
        set_schemes(self, settings)
        set_quotas(self, settings)
        self.others.references = settings.references
        self.steps.enabled = settings.records_steps
        self.admission.handoff_timeout_s = settings.handoff_timeout_s
        self.confirmations.timeout_s = settings.subscribe_timeout_s
        self.broker.contexts.late_after_s = settings.late_after_s
        self.set_rules(settings.access, now)

    def set_rules(
        self,
        rules: AccessRules,
        now: float,
        gone: Collection[str] = (),
        closed_to_anonymous: Collection[str] = (),
        withdrawn: Collection[str] = (),
    ) -> None:
        """Put other access rules in force: end the connections and subscriptions that they forbid."""
        self.host.time = now
        self.access.set_rules(rules)
        self.sessions.rules_changed()
        self.permits.withdraw(gone, closed_to_anonymous, withdrawn)
        self.requests.end_forbidden()
        self._finish()

    def publish_status(self, values: Mapping[str, str], now: float) -> None:
        """Publish the broker's own figures as retained `$SYS` topics; they concern its own clients alone."""
        self.host.time = now
        self.figures.publish(values)
        self._end_input()

    def drain(self, now: float) -> None:
        """Begin to take this broker away: send its clients elsewhere, and their sessions too."""
        self.host.time = now
        self.admission.drain()
        self._end_input()

    def change_network(self, member: Member, now: float) -> None:
        """An operator lets a broker join, or declares a broker dead."""
        self.host.time = now
        self.membership.learn(member)
        set_quotas(self, self.settings)  # a broker with others keeps a reserve for them
        self._end_input()

    def leave(self, now: float) -> None:
        """This broker has been drained and leaves the network."""
        self.host.time = now
        self.membership.leave()
        self._end_input()

    def kick(self, client: ClientId, now: float) -> None:
        """An operator ends the client's connection; its session stays."""
        self.host.time = now
        if (connection := self.connections.by_client.get(client)) is not None:
            self.sessions.end_connection(connection, ReasonCode.ADMINISTRATIVE_ACTION, "an operator ended it")
        self._end_input()

    def recovered(self, now: float) -> None:
        """The process starts again from its journal: all earlier connections are lost, and draining is over."""
        self.host.time = now
        self.host.traffic.clear()
        self.admission.draining, self.membership.unheard = False, None
        self.lives.begin_again(now)
        self.figures.number = max(self.figures.number, int(now * MICROSECONDS))
        for connection in self.connections:
            self.lost(connection.number, now)

    def shutdown(self, now: float) -> None:
        """The process is about to end on purpose: tell all clients; their sessions stay."""
        self.host.time = now
        for connection in self.connections:
            reason = ReasonCode.SERVER_SHUTTING_DOWN
            self.sessions.end_connection(connection, reason, "the server shuts down")
        self._end_input()

    # --- the parts at work ----------------------------------------------------------------------------------

    def _take(self, connection: Connection, inputs: list[ClientInput]) -> None:
        """Hand the client's inputs to the parts whose job they are. Inputs behind a packet that ended the connection
        are left out."""
        publish = self.requests.publish
        for said in inputs:
            client = connection.client
            if said.__class__ is Publish:
                if client is not None:
                    publish(connection, client, said)
            elif said.__class__ is Acknowledged:
                if client is not None:
                    self.requests.acknowledge(connection, client, said.event_ids)
            elif said.__class__ is Subscribe:
                if client is not None:
                    self.requests.subscribe(connection, said)
            elif isinstance(said, ConnectRequested):
                self.admission.request_login(connection, said)
            elif isinstance(said, Closed):
                self.sessions.on_closed(connection, said)
            elif isinstance(said, Unsubscribe) and client is not None:
                self.requests.unsubscribe(connection, said)
        if connection.mqtt.phase is CLOSED:
            self.host.close(connection)

    def _finish(self) -> None:
        """Do what the input has left to do, until nothing is left.

        Events that need no acknowledgement count as read; clients whose sessions are whole are let in. The cost grows
        with the effects of the input, not with the number of clients that wait.
        """
        host = self.host
        acknowledge, room = self.broker.on_acknowledge, self.broker.contexts.room
        while True:
            while host.done:
                done, host.done = host.done, []
                for client, event_id, connection in done:
                    try:
                        if connection.delivers_early:
                            self.requests.end_early(connection, client, event_id)
                        acknowledge(client, event_id)
                    except Exception as error:
                        self._contain(connection, error)
            if room.crowded:
                crowded, room.crowded = room.crowded, []
                self.fullness.look(crowded)
            if not host.news:
                return
            news, host.news = host.news, []
            for told in news:
                try:
                    self._admit(self.news.heed(told))
                except Exception as error:
                    self._contain(self.connections.by_client.get(told.client), error)

    # --- inputs that fail -----------------------------------------------------------------------------------

    def _contain(self, connection: Connection | None, error: Exception) -> None:
        """Close the connection that a failed input concerns, and detach its session.

        The effects that the input had before it failed stand, so that nobody else is harmed; the next input finds no
        half-done work. A replay of the journal fails at the same place, and leaves the same state behind.
        """
        self._failure = self._failure or error
        if connection is not None:
            try:
                self.sessions.abandon(connection)
            except Exception as worse:
                self._failure.add_note(f"and closing the connection failed: {worse!r}")

    def _end_input(self) -> None:
        """Do what the input has left to do, and tell the shell if something failed."""
        host = self.host
        if host.done or host.news or self.broker.contexts.room.crowded:
            self._finish()
        if self._failure is not None:
            self._fail()

    def _fail(self) -> None:
        failure, self._failure = self._failure, None
        assert failure is not None
        raise failure

    def _admit(self, admitted: Admitted | None) -> None:
        if admitted is not None:
            self.requests.end_forbidden(admitted[0].client)
            self._take(*admitted)

    def new_client_id(self) -> str:
        """Make an id for a client that brings none ([MQTT-3.1.3-6]). Name and count make it unique in the network."""
        self._named += 1
        return f"{self.me}-{int(self.host.time * 1000):x}-{self._named}"
