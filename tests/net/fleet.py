"""A whole live network in virtual time: real machines, real MQTT bytes, and an adversary for a network.

Every step delivers one thing that is under way, chosen by a seed: a frame on a link, bytes to a broker, bytes to a
client, a timer that is due. Connections break with whatever is on them; links and processes fail and come back.
"""

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from itertools import combinations
from random import Random

from roamq.core.events import BrokerId
from roamq.core.ports import TimerKey
from roamq.net.machine import Machine
from roamq.net.mqtt.codec import (
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)
from roamq.net.settings import Settings

FOREVER = 0xFFFF_FFFF


class FleetClient:
    """An MQTT client as the standard wants it; its memory survives its connections."""

    def __init__(self, fleet: "Fleet", name: str, version: Version = Version.V5) -> None:
        self.fleet = fleet
        self.name = name
        self.version = version
        self.at: BrokerId | None = None
        self.number = 0
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()
        self.received: list[tuple[bytes, int, bool]] = []
        """Payload, QoS and DUP of what came, QoS 2 repetitions left out."""
        self.present: list[bool] = []
        """Session Present of each CONNACK."""
        self.known: set[int] = set()
        self.unfinished: dict[int, tuple[Publish, bool]] = {}
        self.subscriptions: list[SubscriptionRequest] = []
        self.closed_because: Packet | None = None
        self.shows_ticket = False
        self.ticket = ""
        self._packet_id = 0
        self._open = False

    def connect(self, at: str, *, clean: bool = False, previous: str | None = None) -> None:
        self.vanish()
        machine = self.fleet.machines[BrokerId(at)]
        self.fleet.connections += 1
        self.number = self.fleet.connections
        self.at = BrokerId(at)
        self._open = False
        self._decoder = Decoder(self.version)
        machine.opened(self.number, self.fleet.now, "test", "client")
        self.fleet.owners[self.at, self.number] = self
        told = (("roamq-previous", previous),) if previous else ()
        if self.shows_ticket:
            told = (*told, ("roamq-ticket", self.ticket))
        properties = (
            Properties(session_expiry_interval=FOREVER, user_properties=told)
            if self.version is Version.V5
            else Properties()
        )
        self._say(
            Connect(version=self.version, client_id=self.name, clean_start=clean, properties=properties)
        )

    def vanish(self) -> None:
        """The network drops everything that was under way; the broker may not notice for a while."""
        if self.at is not None:
            broker, number = self.at, self.number
            self.fleet.owners.pop((broker, number), None)
            self.fleet.losses.append((self.fleet.now + self.fleet.random.random() * 3, broker, number))
        self.at = None
        self._open = False
        self.up.clear()
        self.down.clear()

    def subscribe(self, topic_filter: str, qos: int) -> None:
        self.subscriptions.append(SubscriptionRequest(topic_filter, qos))
        if self._open:
            self._packet_id += 1
            self._say(Subscribe(self._packet_id, (self.subscriptions[-1],)))

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        self._packet_id = self._packet_id % 65535 + 1
        packet = Publish(topic, payload, qos, retain, packet_id=self._packet_id if qos else 0)
        if qos:
            self.unfinished[packet.packet_id] = (packet, False)
        if self._open:
            self._say(packet)

    def hear(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            self._handle(packet)

    def _handle(self, packet: Packet) -> None:
        match packet:
            case Connack():
                self._opened(packet)
            case Publish(qos=2):
                if packet.packet_id not in self.known:
                    self.known.add(packet.packet_id)
                    self.received.append((packet.payload, 2, packet.dup))
                self._say(Pubrec(packet.packet_id))
            case Publish():
                self.received.append((packet.payload, packet.qos, packet.dup))
                if packet.qos:
                    self._say(Puback(packet.packet_id))
            case Pubrel():
                self.known.discard(packet.packet_id)
                self._say(Pubcomp(packet.packet_id))
            case Pubrec():
                if packet.packet_id in self.unfinished:
                    self.unfinished[packet.packet_id] = (self.unfinished[packet.packet_id][0], True)
                self._say(Pubrel(packet.packet_id))
            case Puback() | Pubcomp():
                self.unfinished.pop(packet.packet_id, None)
            case Disconnect():
                self.closed_because = packet
            case _:
                pass

    def _opened(self, packet: Connack) -> None:
        assert not packet.reason.failed, packet
        self._open = True
        self.ticket = packet.properties.user_property("roamq-ticket") or ""
        self.present.append(packet.session_present)
        if not packet.session_present:
            self.known.clear()
            if self.subscriptions:
                self._packet_id = self._packet_id % 65535 + 1
                self._say(Subscribe(self._packet_id, tuple(self.subscriptions)))
        for packet_id, (publish, released) in self.unfinished.items():
            if released:
                self._say(Pubrel(packet_id))
            else:
                self._say(Publish(publish.topic, publish.payload, publish.qos, dup=True, packet_id=packet_id))

    def _say(self, packet: Packet) -> None:
        self.up.append(encode(packet, self.version))

    def payloads(self) -> list[bytes]:
        return [payload for payload, _, _ in self.received]

    def unexplained_repeats(self) -> list[bytes]:
        """Received again without DUP at QoS 1, or at all at QoS 2."""
        seen: Counter[bytes] = Counter()
        bad = []
        for payload, qos, dup in self.received:
            if seen[payload] and not (qos == 1 and dup):
                bad.append(payload)
            seen[payload] += 1
        return bad


class Fleet:
    """Machines, the links between them, and the clients."""

    def __init__(self, seed: int, scheme: str, brokers: int = 3, **settings: object) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        names = tuple(BrokerId(f"b{n}") for n in range(1, brokers + 1))
        links = tuple(combinations(names, 2))
        self.machines: dict[BrokerId, Machine] = {}
        for name in names:
            made = Settings(me=name, brokers=names, links=links, scheme=scheme, **settings)  # type: ignore[arg-type]
            self.machines[name] = Machine(made, self.now)
        self.links: dict[tuple[BrokerId, BrokerId], deque[tuple[int, bytes]]] = {}
        for a, b in links:
            self.links[a, b] = deque()
            self.links[b, a] = deque()
        self.cut: set[frozenset[BrokerId]] = set()
        self.timers: dict[tuple[BrokerId, TimerKey], float] = {}
        self.owners: dict[tuple[BrokerId, int], FleetClient] = {}
        self.losses: list[tuple[float, BrokerId, int]] = []
        self.clients: list[FleetClient] = []
        self.connections = 0

    def client(self, name: str, version: Version = Version.V5) -> FleetClient:
        client = FleetClient(self, name, version)
        self.clients.append(client)
        return client

    def take_outputs(self) -> None:
        for name, machine in self.machines.items():
            out = machine.out
            while out.logins:
                login = out.logins.pop(0)
                machine.authenticated(login.connection, None, self.now, allowed=True)
            for number, connection in list(out.dirty.items()):
                data = b"".join(connection.take_output())
                owner = self.owners.get((name, number))
                if data and owner is not None and owner.number == number and owner.at == name:
                    owner.down.append(data)
            out.dirty.clear()
            for number in out.closing:
                machine.lost(number, self.now)
                self.owners.pop((name, number), None)
            out.closing.clear()
            for peer, frames in out.frames.items():
                self.links[name, peer].extend(frames)
            out.frames.clear()
            for key, at in out.timers.items():
                if at is None:
                    self.timers.pop((name, key), None)
                else:
                    self.timers[name, key] = at
            out.timers.clear()
            out.records.clear()

    def step(self) -> bool:
        """One thing happens; False if nothing is under way."""
        self.take_outputs()
        self.now += 0.002
        links = [pair for pair, queue in self.links.items() if queue and frozenset(pair) not in self.cut]
        choices: list[Callable[[], None]] = [partial(self._frame, *pair) for pair in links]
        choices += [partial(self._to_broker, client) for client in self.clients if client.up and client.at]
        choices += [partial(self._to_client, client) for client in self.clients if client.down]
        choices += [partial(self._timer, *key) for key, at in self.timers.items() if at <= self.now]
        choices += [partial(self._loss, loss) for loss in self.losses if loss[0] <= self.now]
        if not choices:
            return False
        self.random.choice(choices)()
        self.take_outputs()
        return True

    def _frame(self, source: BrokerId, target: BrokerId) -> None:
        sequence, frame = self.links[source, target].popleft()
        self.machines[target].link_received(source, sequence, frame, self.now)
        self.machines[source].link_acked(target, sequence, self.now)

    def _to_broker(self, client: FleetClient) -> None:
        assert client.at is not None
        self.machines[client.at].received(client.number, client.up.popleft(), self.now)

    def _to_client(self, client: FleetClient) -> None:
        client.hear(client.down.popleft())

    def _timer(self, broker: BrokerId, key: TimerKey) -> None:
        del self.timers[broker, key]
        self.machines[broker].timer(key, self.now)

    def _loss(self, loss: tuple[float, BrokerId, int]) -> None:
        self.losses.remove(loss)
        self.machines[loss[1]].lost(loss[2], self.now)

    def settle(self, steps: int = 20_000) -> None:
        """Let everything that is under way arrive; timers and losses come when their time does."""
        for _ in range(steps):
            if self.step():
                continue
            later = [at for at in self.timers.values() if at < self.now + 30] + [
                at for at, _, _ in self.losses
            ]
            if not later:
                return
            self.now = max(self.now, min(later))
        raise AssertionError("the network does not come to rest")
