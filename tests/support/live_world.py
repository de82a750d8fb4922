"""Live brokers without sockets: nodes joined by queues, clients that speak real MQTT bytes, all from one seed.

Every entry that a node is given is written down, as the journal would. `python -m tests.support.live_world` replays
such a journal in a process of its own, whose strings hash differently.
"""

import hashlib
import pickle
import random
import sys
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import (
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
    Unsubscribe,
    Version,
    Will,
    encode,
)
from roamq.net.durable.inputs import InputKind, JournalEntry, LiveBroker
from roamq.net.ops.settings import Settings

TOPICS = ("a", "a/b", "a/c", "b/c", "c")
FILTERS = ("#", "a/#", "+/c", "a/b", "c")
START = 1000.0


def settings(me: str, brokers: int, scheme: str, overlay: str = "flooding") -> Settings:
    names = [f"b{number}" for number in range(1, brokers + 1)]
    links = tuple((a, b) for place, a in enumerate(names) for b in names[place + 1 :])
    if overlay == "hierarchy":
        links = tuple(pairwise(names))
    return Settings(
        me=BrokerId(me), brokers=tuple(map(BrokerId, names)), links=links, scheme=scheme, overlay=overlay
    )


class WorldNode:
    """A node, the entries it was given, and what it has let out."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.settings = settings
        self.born = now
        self.node = LiveBroker(settings, now)
        self.journal: list[JournalEntry] = []
        self.sent: list[tuple[str, int, bytes]] = []
        self.failures: list[Exception] = []

    def feed(self, kind: InputKind, now: float, *details: Any) -> None:
        entry = (int(kind), now, *details)
        self.journal.append(entry)
        error = self.node.apply(entry)
        if error is not None:
            self.failures.append(error)


class WorldClient:
    """A client with an address: at most one connection at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.at: str | None = None
        self.number = 0
        self.decoder = Decoder(Version.V5)
        self.packet_id = 0
        self.got: list[bytes] = []

    def next_id(self) -> int:
        self.packet_id = self.packet_id % 1000 + 1
        return self.packet_id


class LiveWorld:
    """A few brokers and clients that do as a seed says."""

    def __init__(
        self,
        seed: int,
        scheme: str = "standard",
        brokers: int = 3,
        clients: int = 4,
        overlay: str = "flooding",
    ) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.nodes = {
            name: WorldNode(settings(name, brokers, scheme, overlay), START)
            for name in (f"b{number}" for number in range(1, brokers + 1))
        }
        self.clients = [WorldClient(f"client-{number}") for number in range(clients)]
        self.connections: dict[tuple[str, int], WorldClient] = {}
        self.links: dict[tuple[str, str], deque[tuple[int, bytes]]] = {
            (a, b): deque() for a in self.nodes for b in self.nodes if a != b
        }
        if overlay == "flooding":  # where neighbours say from where on events come, when their link is up
            for here, there in self.links:
                self.nodes[here].feed(InputKind.LINK_ACKED, START, there, 0)
            self.settle()

    def run(self, steps: int) -> None:
        moves = (
            self.connect,
            self.subscribe,
            self.publish,
            self.publish,
            self.lose,
            self.babble,
            self.carry,
            self.carry,
            self.tick,
        )
        for _ in range(steps):
            self.now += self.random.choice((0.0, 0.001, 0.01, 0.3))
            self.random.choice(moves)()
            self.take_all()

    def settle(self) -> bool:
        """Let everything arrive; False if it does not come to an end."""
        for _ in range(2_000):
            self.take_all()
            if not any(self.links.values()):
                return True
            self.carry()
        self.take_all()
        return False

    # --- moves -------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        client = self.random.choice(self.clients)
        if client.at is not None and self.random.random() < 0.5:
            self._close(client)  # else the old connection stays behind, open and silent
        name = self.random.choice(list(self.nodes))
        target = self.nodes[name]
        client.at, client.number, client.decoder = name, target.node.connections + 1, Decoder(Version.V5)
        self.connections[name, client.number] = client
        target.feed(InputKind.OPENED, self.now, client.number, "0:mqtt", "127.0.0.1:1")
        will = Will(topic="c", payload=b"will", qos=1) if self.random.random() < 0.3 else None
        expiry = self.random.choice((0, 2, 1000, 1000))
        self._send(
            client,
            Connect(
                client_id=client.name,
                clean_start=self.random.random() < 0.1,
                keep_alive=self.random.choice((0, 5)),
                will=will,
                properties=Properties(
                    session_expiry_interval=expiry, receive_maximum=self.random.choice((None, 2))
                ),
            ),
        )

    def subscribe(self) -> None:
        client = self.random.choice(self.clients)
        filter = self.random.choice(FILTERS)
        if self.random.random() < 0.2:
            self._send(client, Unsubscribe(client.next_id(), (filter,)))
        else:
            request = SubscriptionRequest(filter, self.random.randrange(3))
            self._send(client, Subscribe(client.next_id(), (request,)))

    def publish(self) -> None:
        client = self.random.choice(self.clients)
        qos = self.random.randrange(3)
        self._send(
            client,
            Publish(
                self.random.choice(TOPICS),
                self.random.randbytes(4),
                qos,
                retain=self.random.random() < 0.2,
                packet_id=client.next_id() if qos else 0,
            ),
        )

    def lose(self) -> None:
        client = self.random.choice(self.clients)
        if client.at is not None:
            if self.random.random() < 0.3:
                self._send(client, Disconnect())
            self._close(client)

    def babble(self) -> None:
        """Bytes that are no MQTT, or hardly; not too often, for they end the connection."""
        client = self.random.choice(self.clients)
        if client.at is not None and self.random.random() < 0.2:
            data = bytearray(encode(Publish("a/b", b"payload", 1, packet_id=client.next_id()), Version.V5))
            data[self.random.randrange(len(data))] = self.random.randrange(256)
            self.nodes[client.at].feed(InputKind.RECEIVED, self.now, client.number, bytes(data))

    def carry(self) -> None:
        """Some frames of a link arrive, and are acknowledged."""
        busy = [link for link, frames in self.links.items() if frames]
        if not busy:
            return
        sender, receiver = link = self.random.choice(busy)
        frames = self.links[link]
        batch = [frames.popleft() for _ in range(self.random.randint(1, len(frames)))]
        self.nodes[receiver].feed(InputKind.LINK_FRAMES, self.now, sender, batch)
        self.nodes[sender].feed(InputKind.LINK_ACKED, self.now, receiver, batch[-1][0])

    def tick(self) -> None:
        """Time passes: timers ring, keep-alives are looked at, somebody is slow."""
        self.now += self.random.choice((0.1, 1.0, 3.0))
        for name, world_node in self.nodes.items():
            node = world_node.node
            for key in [key for key, at in node.timers.items() if at <= self.now]:
                if key in node.timers:
                    world_node.feed(InputKind.TIMER, self.now, key)
                    self._take(name)
            for number in list(node.machine.connections.by_number):
                if self.random.random() < 0.3:
                    world_node.feed(InputKind.KEEP_ALIVE, self.now, number)
                elif self.random.random() < 0.3:
                    world_node.feed(InputKind.BLOCKED, self.now, number, self.random.random() < 0.5)

    # --- outputs -----------------------------------------------------------------------------------------------

    def take_all(self) -> None:
        busy = True
        while busy:
            answered = [self._take(name) for name in self.nodes]
            busy = any(answered)

    def _take(self, name: str) -> bool:
        """Hand the outputs of a node on; True if somebody answered at once."""
        world_node = self.nodes[name]
        out = world_node.node.take()
        answered = False
        for peer, frames in out.frames.items():
            self.links[name, peer].extend(frames)
            world_node.sent.extend((peer, *frame) for frame in frames)
        for login in out.logins:
            world_node.feed(InputKind.AUTHENTICATED, self.now, login.connection, login.username, True)
            answered = True
        for number, mqtt in out.dirty.items():
            data = b"".join(mqtt.take_output())
            client = self.connections.get((name, number))
            if data and client is not None and (client.at, client.number) == (name, number):
                for packet in client.decoder.feed(data):
                    answered = self._answer(client, packet) or answered
        for number in out.closing:
            client = self.connections.pop((name, number), None)
            if client is not None:
                world_node.feed(InputKind.LOST, self.now, number)
                answered = True
                if (client.at, client.number) == (name, number):
                    client.at = None
        return answered

    def _answer(self, client: WorldClient, packet: Packet) -> bool:
        if isinstance(packet, Connack) or self.random.random() < 0.2:
            return False  # not everything is acknowledged
        if isinstance(packet, Publish):
            client.got.append(packet.payload)
            if not packet.qos:
                return False
            self._send(client, (Puback if packet.qos == 1 else Pubrec)(packet.packet_id))
        elif isinstance(packet, Pubrel):
            self._send(client, Pubcomp(packet.packet_id))
        elif isinstance(packet, Pubrec):
            self._send(client, Pubrel(packet.packet_id))
        else:
            return False
        return True

    def _send(self, client: WorldClient, packet: Packet) -> None:
        if client.at is not None:
            data = encode(packet, Version.V5)
            cut = self.random.randint(0, len(data))
            for piece in (data[:cut], data[cut:]):
                if piece:
                    self.nodes[client.at].feed(InputKind.RECEIVED, self.now, client.number, piece)

    def _close(self, client: WorldClient) -> None:
        assert client.at is not None
        if self.connections.pop((client.at, client.number), None) is not None:
            self.nodes[client.at].feed(InputKind.LOST, self.now, client.number)
        client.at = None


def replayed(
    settings: Settings, born: float, journal: list[JournalEntry]
) -> tuple[LiveBroker, list[tuple[str, int, bytes]]]:
    """A node made from a journal, and the frames it would have sent."""
    node = LiveBroker(settings, born)
    sent: list[tuple[str, int, bytes]] = []
    for entry in journal:
        node.apply(entry)
        out = node.take()
        for mqtt in out.dirty.values():
            mqtt.output.clear()
        for peer, frames in out.frames.items():
            sent.extend((peer, *frame) for frame in frames)
    return node, sent


def state(value: Any, seen: dict[int, tuple[int, Any]] | None = None) -> Any:
    """What an object consists of, as nested tuples that compare by value; sets sorted, all else in its order.

    What was seen is kept: an object made on the way would leave its identity to the next one.
    """
    seen = {} if seen is None else seen
    if value is None or isinstance(value, str | bytes | int | float | bool):
        return value
    if id(value) in seen:
        return ("seen", seen[id(value)][0])
    if isinstance(value, type) or callable(value):
        return ("callable", getattr(value, "__qualname__", repr(type(value))))
    if isinstance(value, tuple):
        return (type(value).__name__, *(state(item, seen) for item in value))
    seen[id(value)] = (len(seen), value)
    if isinstance(value, dict):
        return ("dict", *((state(k, seen), state(v, seen)) for k, v in value.items()))
    if isinstance(value, set | frozenset):
        return ("set", *sorted(repr(state(item, {})) for item in value))
    if isinstance(value, list | deque):
        return ("list", *(state(item, seen) for item in value))
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    # A cached hash is a matter of the process, not of the state.
    names = sorted({*slots, *getattr(value, "__dict__", ()), *getattr(value, "__struct_fields__", ())})
    parts = (
        (name, state(getattr(value, name), seen))
        for name in names
        if name != "_hash" and hasattr(value, name)
    )
    return (type(value).__name__, *parts)


def digest(value: Any) -> str:
    return hashlib.sha256(repr(state(value)).encode()).hexdigest()


def main() -> None:
    """Replay the journals in the files, which `pickle` wrote, and print the digests of node and frames of each."""
    for path in sys.argv[1:]:
        settings, born, journal = pickle.loads(Path(path).read_bytes())  # noqa: S301 - a file of the test
        journal = [tuple(entry) for entry in msgspec.msgpack.decode(msgspec.msgpack.encode(journal))]
        node, sent = replayed(settings, born, journal)
        sys.stdout.write(f"{digest(node)} {digest(sent)}\n")


if __name__ == "__main__":
    main()
