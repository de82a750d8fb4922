"""Real brokers on loopback for tests: in this process, or as processes that can be killed; and a plain client."""

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from roamq.net.clients.mqtt.codec import (
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)
from roamq.net.machine import Machine
from roamq.net.ops.configuration import NetworkConfig, load_network
from roamq.net.ops.local import local_network
from roamq.net.server import Server
from tests.support.waiting import WAIT_S, eventually, wait_until

FOREVER = 0xFFFF_FFFF
SOURCE = Path(__file__).parent.parent.parent / "src"


def python_path() -> str:
    """Where brokers find RoamQ, and whatever this process finds besides."""
    return os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])


def write_network(folder: Path, text: str) -> NetworkConfig:
    path = folder / "network.toml"
    path.write_text(text)
    return load_network(path)


def port_of(network: NetworkConfig, broker: str, kind: str = "mqtt") -> int:
    return next(entry.port for entry in network.brokers[broker].listeners if entry.kind == kind)


def machine_of(server: Server) -> Machine:
    """What decides in a broker that runs in this process; tests look into it here and nowhere else."""
    return server.shell.live.machine


@contextlib.asynccontextmanager
async def running(network: NetworkConfig, *names: str) -> AsyncIterator[dict[str, Server]]:
    """Brokers of a network in this process, their links up."""
    path = Path(network.source.name)
    servers: dict[str, Server] = {}
    try:
        for name in names or network.brokers:
            options = network.server_options(name)
            server = Server(options, reload=lambda name=name: load_network(path).server_options(name))  # type: ignore[misc]
            await server.start()
            servers[name] = server
        for server in servers.values():
            wanted = server.options.links.peers.keys() & servers.keys()
            await eventually(lambda server=server, wanted=wanted: server.links.up.keys() >= wanted)
        yield servers
    finally:
        for server in servers.values():
            await server.stop()


class BrokerProcesses:
    """Brokers as processes."""

    def __init__(self, folder: Path, brokers: int, **options: Any) -> None:
        self.network = write_network(folder, local_network(brokers, **options))
        self.path = folder / "network.toml"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        for name in names or self.network.brokers:
            arguments = [sys.executable, "-m", "roamq.cli.main", "serve", str(self.path), "--broker", name]
            self.processes[name] = subprocess.Popen(
                [*arguments, "--log-level", "WARNING"], env={**os.environ, "PYTHONPATH": python_path()}
            )
        for name in names or self.network.brokers:
            self.wait_until_up(name)

    def wait_until_up(self, name: str) -> None:
        def is_up() -> bool:
            assert self.processes[name].poll() is None, f"{name} ended"
            try:
                self.health(name)
            except OSError:
                return False
            return True

        wait_until(is_up, f"the start of {name}")

    def health(self, name: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.network.brokers[name].metrics_port}/health"
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def port(self, name: str) -> int:
        return port_of(self.network, name)

    def __enter__(self) -> "BrokerProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(WAIT_S)
            process.kill()
            process.wait()


class PlainClient:
    """An MQTT 5 client that keeps its session's side as the standard wants it, over any number of connections."""

    def __init__(self, name: str, *, clean: bool = False, expiry: int = FOREVER) -> None:
        self.name = name
        self.clean = clean
        self.expiry = expiry
        self.user_properties: tuple[tuple[str, str], ...] = ()
        """What every CONNECT says."""
        self.received: list[tuple[str, bytes, int, bool]] = []
        """Topic, payload, QoS, DUP; repetitions of QoS 2 left out."""
        self.session_present: bool | None = None
        self.closed_because: Packet | None = None
        self.unacknowledged: dict[int, tuple[Publish, bool]] = {}
        """Packet id -> what was sent, and whether PUBREC has come."""
        self.acknowledged: list[bytes] = []
        """Payloads that the broker has taken responsibility for."""
        self.pings_answered = 0
        self.connack: Connack | None = None
        self.is_open = False
        self._known: set[int] = set()
        self._packet_id = 0
        self._granted: dict[int, Suback] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def connect(
        self, port: int, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, **more: Any
    ) -> Connack:
        self.drop()
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
        self._writer = writer
        properties = Properties(session_expiry_interval=self.expiry, user_properties=self.user_properties)
        more.setdefault("properties", properties)
        self._send(Connect(client_id=self.name, clean_start=self.clean, **more))
        self.connack, self.closed_because = None, None
        self._task = asyncio.get_running_loop().create_task(self._read(reader, writer))
        await eventually(lambda: self.connack is not None or self.closed)
        assert self.connack is not None, "closed without CONNACK"
        self.is_open = not self.connack.reason.failed
        self.session_present = self.connack.session_present
        if self.is_open:
            self._resume()
        return self.connack

    @property
    def closed(self) -> bool:
        return self._task is None or self._task.done()

    async def subscribe(self, filter: str, qos: int) -> Suback:
        packet_id = self._next_id()
        self._send(Subscribe(packet_id, (SubscriptionRequest(filter, qos),)))
        await eventually(lambda: packet_id in self._granted)
        return self._granted.pop(packet_id)

    def publish(self, topic: str, payload: bytes, qos: int) -> None:
        if not qos:
            self._send(Publish(topic, payload))
            return
        self._send(self._numbered(topic, payload, qos))

    def publish_in_one_write(self, topic: str, payloads: Iterable[bytes], qos: int) -> None:
        """Publish messages that the broker reads in one piece, as long as they fit a segment."""
        packets = [self._numbered(topic, payload, qos) for payload in payloads]
        self.send_raw(b"".join(encode(packet, Version.V5) for packet in packets))

    async def ping(self) -> None:
        answered = self.pings_answered
        self._send(Pingreq())
        await eventually(lambda: self.pings_answered > answered, "the answer to a ping")

    async def disconnect(self) -> None:
        self._send(Disconnect())
        await eventually(lambda: self.closed)
        self.drop()

    def drop(self) -> None:
        """Vanish without a word."""
        self.is_open = False
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None

    def send_raw(self, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(data)

    def _numbered(self, topic: str, payload: bytes, qos: int) -> Publish:
        packet = Publish(topic, payload, qos, packet_id=self._next_id())
        self.unacknowledged[packet.packet_id] = (packet, False)
        return packet

    def _next_id(self) -> int:
        while True:
            self._packet_id = self._packet_id % 65535 + 1
            if self._packet_id not in self.unacknowledged:
                return self._packet_id

    def _resume(self) -> None:
        """[MQTT-4.4.0-1]; a broker that has forgotten us gets everything as new."""
        if not self.session_present:
            self._known.clear()
        for packet_id, (packet, released) in self.unacknowledged.items():
            if released and self.session_present:
                self._send(Pubrel(packet_id))
            else:
                dup = bool(self.session_present)
                self._send(Publish(packet.topic, packet.payload, packet.qos, dup=dup, packet_id=packet_id))

    def _send(self, packet: Packet) -> None:
        if self._writer is not None:
            self._writer.write(encode(packet, Version.V5))

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read until the broker closes the connection, then close our end of it."""
        decoder = Decoder(Version.V5)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                for packet in decoder.feed(data):
                    self._take(packet)
        writer.close()

    def _take(self, packet: Packet) -> None:
        match packet:
            case Connack():
                self.connack = packet
            case Suback():
                self._granted[packet.packet_id] = packet
            case Publish(qos=2):
                if packet.packet_id not in self._known:
                    self._known.add(packet.packet_id)
                    self.received.append((packet.topic, packet.payload, 2, packet.dup))
                self._send(Pubrec(packet.packet_id))
            case Publish():
                self.received.append((packet.topic, packet.payload, packet.qos, packet.dup))
                if packet.qos:
                    self._send(Puback(packet.packet_id))
            case Pubrel():
                self._known.discard(packet.packet_id)
                self._send(Pubcomp(packet.packet_id))
            case Puback():
                if not packet.reason.failed:
                    self.acknowledged.append(self.unacknowledged[packet.packet_id][0].payload)
                del self.unacknowledged[packet.packet_id]
            case Pubrec():
                if packet.reason.failed:
                    self.unacknowledged.pop(packet.packet_id, None)  # [MQTT-4.3.3-4]
                    return
                sent = self.unacknowledged.get(packet.packet_id)
                if sent is not None:
                    self.unacknowledged[packet.packet_id] = (sent[0], True)
                    self.acknowledged.append(sent[0].payload)
                self._send(Pubrel(packet.packet_id))
            case Pubcomp():
                self.unacknowledged.pop(packet.packet_id, None)
            case Pingresp():
                self.pings_answered += 1
            case Disconnect():
                self.closed_because = packet
