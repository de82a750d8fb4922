"""What a live broker is made of, and its port to the core: the base of the machine.

`Wiring` holds the parts and implements `Host`; `sessions.py` lets clients in and out, `machine.py` takes the inputs.
"""

from collections import deque
from typing import Final, NamedTuple

from roamq.broker import Broker
from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.messages import Message
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.net import wire
from roamq.net.access import Access
from roamq.net.directory import Directory
from roamq.net.mqtt.inputs import Input
from roamq.net.mqtt.outbound import Outcome
from roamq.net.mqtt.session import ServerConnection
from roamq.net.retained import RetainedMessages
from roamq.net.settings import Settings
from roamq.net.shared import SharedGroups
from roamq.overlay.base import Router
from roamq.overlay.flooding import Flooding
from roamq.overlay.hierarchy import Hierarchy
from roamq.overlay.topology import Topology
from roamq.schemes import scheme_by_name
from roamq.schemes.base import Scheme

new_record: Final = tuple.__new__
"""Makes a `Record` from all its columns without a call of its own: one for every delivery there is."""


class Login(NamedTuple):
    """Somebody wants in: the shell answers with `authenticated`."""

    connection: int
    username: str | None
    password: bytes | None
    client: ClientId
    listener: str


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


class Connection:
    """A connection, and what the machine knows about it."""

    __slots__ = (
        "client",
        "entered_at",
        "epoch",
        "goes_ahead",
        "listener",
        "mqtt",
        "number",
        "peer",
        "previous",
        "user",
    )

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
        self.previous: BrokerId | None = None
        """Where the client was before, until its first message here has gone out."""
        self.epoch = Epoch(0.0, BrokerId(""))
        """Which of the client's connections in the whole network this is."""
        self.goes_ahead = False
        """Whether the client gets new events while older ones are on their way."""


class Wiring:
    """The parts of one broker, and its port to the core."""

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
        self.shared = SharedGroups(self.me)
        self.broker.observer = self._observe
        if scheme_type.on_acknowledge is Scheme.on_acknowledge:
            # Where acknowledgements are reported elsewhere, events that need none take the long way as well.
            self.scheme.hand_at_once = self._hand_at_once
        self.access = Access(settings.access)
        self.directory = Directory()
        self.connections: dict[int, Connection] = {}
        self.by_client: dict[ClientId, Connection] = {}
        """The connection that a client is let in on, or waits on."""
        self.awaiting: dict[ClientId, Connection | None] = {}
        """Clients whose session is on its way here; None if they are gone again."""
        self.ready: set[ClientId] = set()
        """Clients in waiting whose scheme is ready to serve them."""
        self.ahead: dict[ClientId, Connection] = {}
        """Connections that go ahead."""
        self.outbox: dict[BrokerId, deque[tuple[int, bytes]]] = {
            peer: deque() for peer in self.topology.neighbours[self.me]
        }
        self.outbox_bytes: dict[BrokerId, int] = dict.fromkeys(self.outbox, 0)
        self._encoded: tuple[Message | Event | None, bytes] = (None, b"")
        """What was sent last."""
        # A life that remembers no other must not use its numbers again: all of them count on from the time of birth.
        born = int(now * 1_000_000)
        self.broker.sequence = born
        self.sent: dict[BrokerId, int] = dict.fromkeys(self.outbox, born)
        self.received_from: dict[BrokerId, int] = dict.fromkeys(self.outbox, 0)
        self._done: list[tuple[ClientId, EventId]] = []
        """Events that need no acknowledgement: consumed when the input that caused them is over."""
        self._named = 0
        self._status_count = int(now * 1_000_000)

    def _observe(self, event: Event) -> None:
        """An event reached this broker: it may be one to retain, or one for a shared group's member here."""
        if event.retain:
            self.retained.observe(event)
        if event.assigned is not None:
            for client in self.shared.due(event):
                self._hand(client, event)

    def _hand(self, client: ClientId, event: Event) -> None:
        """Into the context of one client, as if it had matched."""
        context = self.scheme.contexts.get(client)
        if context is None or not context.is_new(event):
            return
        if context.local_queue is not None:
            stored = context.admit_later(event)
        else:
            stored = context.admit(event, "live" if context.mode is Mode.SERVING else "stored")
        if not stored:
            self._record_drop(client, event, "queue_full")
        elif context.goes_ahead:
            self.scheme.pump_ahead(context)
        elif context.mode is Mode.SERVING and context.local_queue is None:
            self.scheme.pump(context)

    # --- the port -----------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.time

    def send(self, to: BrokerId, message: Message | Event) -> None:
        if message is self._encoded[0]:  # one encoding of an event for all neighbours
            data = self._encoded[1]
        else:
            data = wire.encode(message)
            self._encoded = (message, data)
        if self.outbox_bytes[to] + len(data) > self.settings.quotas.outbox_bytes_max and isinstance(
            message, Event
        ):
            origin, number = message.id
            self.record(
                Record("dropped", self.time, self.me, None, origin, number, peer=to, detail="outbox_full")
            )
            return
        self.sent[to] = sequence = self.sent[to] + 1
        frame = (sequence, data)
        self.outbox[to].append(frame)
        self.outbox_bytes[to] += len(data)
        frames = self.out.frames.get(to)
        if frames is None:
            frames = self.out.frames[to] = []
        frames.append(frame)

    def pass_on(self, to: tuple[BrokerId, ...], event: Event) -> None:
        for neighbour in to:
            self.send(neighbour, event)

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        connection = self.by_client.get(to)
        if connection is None or connection.client is None:
            return
        state = connection.mqtt.state
        if state.had and state.has_had(event.id):
            self._done.append((to, event.id))
            return
        self.out.dirty[connection.number] = connection.mqtt
        outcome = connection.mqtt.outbound.deliver(event, self.time)
        if outcome is not Outcome.IN_FLIGHT:
            self._done.append((to, event.id))
            if outcome is Outcome.UNWANTED:
                return
            if connection.goes_ahead:
                state.got_ahead(event.id)
            if outcome is not Outcome.DONE:
                self._record_drop(to, event, outcome.value)
                return
        if connection.previous is not None:
            waited = self.time - connection.entered_at
            self.record(
                Record(
                    "handoff", self.time, self.me, to, peer=connection.previous, detail=how, duration_s=waited
                )
            )
            connection.previous = None
        origin, sequence = event.id
        waited = self.time - event.published_at
        self.out.records.append(
            new_record(
                Record,
                ("delivered", self.time, self.me, to, origin, sequence, None, how, None, None, None, waited),
            )
        )

    def _hand_at_once(self, to: ClientId, event: Event) -> bool:
        """`deliver`, for QoS 0 to a client for whom nothing waits: sent is read."""
        connection = self.by_client.get(to)
        if connection is None or connection.client is None or connection.previous is not None:
            return False
        if not connection.mqtt.outbound.deliver_at_once(event):
            return False
        out = self.out
        out.dirty[connection.number] = connection.mqtt
        time = self.time
        origin, sequence = event.id
        waited = time - event.published_at
        out.records.append(
            new_record(
                Record,
                ("delivered", time, self.me, to, origin, sequence, None, "live", None, None, None, waited),
            )
        )
        return True

    def attached(self, client: ClientId, resumed: bool) -> None:
        """The scheme is ready to serve; CONNACK follows when the session is whole (`_answer_arrived`)."""
        self.ready.add(client)

    def set_timer(self, key: TimerKey, after: float) -> None:
        self.out.timers[key] = self.time + after

    def cancel_timer(self, key: TimerKey) -> None:
        self.out.timers[key] = None

    def store(self, client: ClientId) -> None:
        """The journal of inputs keeps everything."""

    def record(self, record: Record) -> None:
        self.out.records.append(record)

    def _tell_all(self, message: Message) -> None:
        for broker in self.topology.brokers:
            if broker != self.me:
                self.broker.router.unicast(broker, message)

    def _close(self, connection: Connection) -> None:
        self.out.closing.append(connection.number)

    def _record_drop(self, client: ClientId, event: Event, reason: str) -> None:
        self.record(Record("dropped", self.time, self.me, client, event.id[0], event.id[1], detail=reason))

    def _new_client_id(self) -> str:
        """An id for a client that brings none ([MQTT-3.1.3-6]): unique in the network, by name and count."""
        self._named += 1
        return f"{self.me}-{int(self.time * 1000):x}-{self._named}"

    def detach(self, client: ClientId, reason: str) -> None:
        raise NotImplementedError  # `Sessions` does

    def take_session(self, context: Context, session: object | None) -> None:
        raise NotImplementedError  # `Sessions` does

    def join_session(self, context: Context, session: object) -> None:
        raise NotImplementedError  # `Sessions` does

    def _take(self, connection: Connection, inputs: list[Input]) -> None:
        raise NotImplementedError  # `Machine` does
