"""A client that loses its connection at any moment, and its session travels as bytes: nothing is lost or
doubled.

The network drops a random tail of what is under way in both directions at each break; the session is dumped
and loaded as it would be between brokers. Both directions are checked: what the client receives and what it
publishes.
"""

from collections import Counter, deque
from random import Random

import pytest

from roamq.core.events import Event
from roamq.net.clients.mqtt.codec import (
    Connack,
    Connect,
    Decoder,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)
from roamq.net.clients.mqtt.inputs import Acknowledged, ClientInput
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.outbound import DeliveryOutcome
from roamq.net.clients.mqtt.session import ServerConnection
from roamq.net.clients.mqtt.state import SessionState, dump, load
from tests.net.clients.mqtt.peer import NOW, event

WINDOW = 4
EVENTS = 60


class Stored:
    """What the broker's context does for a session: stored events, handed over within the window, in
    order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.in_flight = 0
        self.done: set[int] = set()

    def acknowledge(self, sequence: int) -> None:
        if sequence not in [stored.id.sequence for stored in self.events[: self.in_flight]]:
            return
        self.done.add(sequence)
        while self.in_flight and self.events[0].id.sequence in self.done:
            self.events.pop(0)
            self.in_flight -= 1

    def connection_lost(self) -> None:
        self.events = [stored for stored in self.events if stored.id.sequence not in self.done]
        self.in_flight = 0


class Client:
    """An MQTT client as the standard wants it, with a memory that survives its connections."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.received: list[tuple[int, int, bool]] = []  # sequence, QoS, DUP
        self.known: set[int] = set()  # QoS 2 ids received and not released
        self.unfinished: dict[int, tuple[int, int, bool]] = {}  # packet id -> number, QoS, released
        self.published: dict[int, int] = {}  # number -> QoS
        self.last_id = 0

    def publish(self) -> list[Packet]:
        if len(self.unfinished) >= WINDOW:
            return []
        self.last_id += 1
        number, qos = len(self.published), self.random.choice((1, 2))
        self.published[number] = qos
        self.unfinished[self.last_id] = (number, qos, False)
        return [Publish("up", str(number).encode(), qos, packet_id=self.last_id)]

    def resume(self) -> list[Packet]:
        return [
            Pubrel(id_) if released else Publish("up", str(number).encode(), qos, dup=True, packet_id=id_)
            for id_, (number, qos, released) in self.unfinished.items()
        ]

    def handle(self, packet: Packet) -> list[Packet]:
        match packet:
            case Publish(qos=1):
                self.received.append((int(packet.payload), 1, packet.dup))
                return [Puback(packet.packet_id)]
            case Publish(qos=2):
                if packet.packet_id not in self.known:
                    self.known.add(packet.packet_id)
                    self.received.append((int(packet.payload), 2, packet.dup))
                return [Pubrec(packet.packet_id)]
            case Publish():
                self.received.append((int(packet.payload), 0, packet.dup))
            case Pubrel():
                self.known.discard(packet.packet_id)
                return [Pubcomp(packet.packet_id)]
            case Pubrec():
                number, qos, _ = self.unfinished[packet.packet_id]
                self.unfinished[packet.packet_id] = (number, qos, True)
                return [Pubrel(packet.packet_id)]
            case Puback() | Pubcomp():
                self.unfinished.pop(packet.packet_id, None)
        return []


class World:
    """One client, one connection at a time, and the wires between."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.version = self.random.choice(list(Version))
        self.client = Client(self.random)
        self.stored = Stored()
        self.state: SessionState | None = None
        self.arrived: list[int] = []  # numbers published by the client, as the broker saw them
        self.up: deque[Packet] = deque()
        self.down: deque[Packet] = deque()
        self.sequence = 0
        self.at_qos_0: set[int] = set()  # events that may be lost with a connection
        self.connect()

    def connect(self) -> None:
        self.up.clear()
        self.down.clear()
        self.stored.connection_lost()
        if self.state is not None:
            self.state = load(dump(self.state))
        self.connection = ServerConnection(
            Limits(outbound_receive_maximum=WINDOW, receive_maximum=WINDOW), str
        )
        self.decoder = Decoder(self.version)
        connect = Connect(
            version=self.version,
            client_id="c",
            clean_start=self.state is None and self.version is Version.V5,
            properties=Properties(session_expiry_interval=99) if self.version is Version.V5 else Properties(),
        )
        self.connection.receive(encode(connect, self.version), NOW)
        resumed = self.state is not None
        self.handle(self.connection.accept(self.state, NOW))
        self.state = self.connection.state
        if not resumed:
            self.say(Subscribe(1, (SubscriptionRequest("down", 2),)))
            self.move_up(1)
        self.up.extend(self.client.resume())
        self.pump()

    def say(self, *packets: Packet) -> None:
        self.up.extend(packets)

    def handle(self, inputs: list[ClientInput]) -> None:
        for one in inputs:
            match one:
                case Publish():
                    self.arrived.append(int(one.payload))
                    self.connection.published(one)
                case Subscribe():
                    self.connection.subscribed(self.connection.examine(one), [ReasonCode.GRANTED_QOS_2])
                case Acknowledged():
                    for event_id in one.event_ids:
                        self.stored.acknowledge(event_id.sequence)
        self.pump()

    def pump(self) -> None:
        """What the context does: hand over what the window allows; then the wire takes the packets."""
        stored = self.stored
        while stored.in_flight < min(WINDOW, len(stored.events)):
            next_event = stored.events[stored.in_flight]
            stored.in_flight += 1
            if self.connection.deliver(next_event, NOW) is not DeliveryOutcome.IN_FLIGHT:
                stored.acknowledge(next_event.id.sequence)
        self.down.extend(self.decoder.feed(b"".join(self.connection.take_output())))

    def publish_event(self) -> None:
        self.sequence += 1
        qos = self.random.choice((0, 1, 2))
        if not qos:
            self.at_qos_0.add(self.sequence)
        self.stored.events.append(event(self.sequence, "down", str(self.sequence).encode(), qos))
        self.pump()

    def move_up(self, count: int) -> None:
        for _ in range(min(count, len(self.up))):
            self.handle(self.connection.receive(encode(self.up.popleft(), self.version), NOW))

    def move_down(self, count: int) -> None:
        for _ in range(min(count, len(self.down))):
            packet = self.down.popleft()
            if not isinstance(packet, Connack):
                self.say(*self.client.handle(packet))

    def step(self) -> None:
        random = self.random
        match random.choices(("event", "publish", "up", "down", "break"), (4, 3, 6, 6, 1))[0]:
            case "event" if self.sequence < EVENTS:
                self.publish_event()
            case "publish":
                self.say(*self.client.publish())
            case "up":
                self.move_up(random.randint(1, 4))
            case "down":
                self.move_down(random.randint(1, 4))
            case "break":
                self.connection.lost(NOW)
                self.connect()

    def settle(self) -> None:
        while self.sequence < EVENTS:
            self.publish_event()
        while self.up or self.down:
            self.move_up(10)
            self.move_down(10)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_or_doubled_whenever_the_connection_breaks(seed: int) -> None:
    world = World(seed)
    for _ in range(300):
        world.step()
    world.settle()

    replay = f"seed {seed}"
    client = world.client
    assert world.stored.events == [], replay
    assert world.state is not None
    assert world.state.outbound == {}, replay
    assert client.unfinished == {}, replay
    assert world.state.inbound == set(), replay

    qos_of = {sequence: qos for sequence, qos, _ in client.received}
    counts = Counter(sequence for sequence, _, _ in client.received)
    doubled = [sequence for sequence, number in counts.items() if number > 1]
    assert all(qos_of[sequence] == 1 for sequence in doubled), f"only QoS 1 may come twice; {replay}"
    first_seen: set[int] = set()
    order = []
    for sequence, _, dup in client.received:
        if sequence in first_seen:
            assert dup, f"a repetition is marked as such; {replay}"
        else:
            first_seen.add(sequence)
            order.append(sequence)
    assert order == sorted(order), f"order; {replay}"
    lost = set(range(1, EVENTS + 1)) - first_seen
    assert lost <= world.at_qos_0, f"QoS 1 and 2 lose nothing; {replay}"

    arrived = Counter(world.arrived)
    for number, qos in client.published.items():
        assert arrived[number] == 1 if qos == 2 else arrived[number] >= 1, f"published {number}; {replay}"
