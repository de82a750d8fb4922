"""Clients that nobody here wrote: paho-mqtt, aiomqtt, gmqtt, mosquitto's, mqtt.js, over TCP, TLS and WebSocket.

Three brokers run in a thread of their own; the clients roam between them as their libraries see fit.
"""

import asyncio
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import gmqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from roamq.net.ops.configuration import NetworkConfig
from roamq.net.ops.keys import make_keys
from roamq.net.ops.local import free_ports, local_network
from tests.net.live import port_of, running, write_network
from tests.support.waiting import WAIT_S

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("interop")]


class ThreadedNetwork:
    """Three brokers in a thread."""

    def __init__(self, folder: Path) -> None:
        text = local_network(3, scheme="standard", durability="memory")
        tls, wss = free_ports(2, but=write_network(folder, text).ports)
        ports = (
            f'  {{ kind = "mqtts", port = {tls}, certificate = "keys/b1.pem", key = "keys/b1.key" }},\n'
            f'  {{ kind = "wss", port = {wss}, certificate = "keys/b1.pem", key = "keys/b1.key" }},\n]'
        )
        plain = write_network(folder, text)
        make_keys(plain, folder / "keys")
        self.authority = folder / "keys" / "ca.pem"
        self.network: NetworkConfig = write_network(
            folder, text.replace("]\n\n[brokers.b2]", f"{ports}\n\n[brokers.b2]", 1)
        )
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        assert self._ready.wait(WAIT_S)

    def port(self, broker: str, kind: str = "mqtt") -> int:
        return port_of(self.network, broker, kind)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        async with running(self.network):
            self._ready.set()
            await asyncio.to_thread(self._stop.wait)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedNetwork]:
    network = ThreadedNetwork(tmp_path_factory.mktemp("interop"))
    yield network
    network.close()


# --- paho-mqtt -----------------------------------------------------------------------------------------------------


class PahoClient:
    """paho with a queue of what it received."""

    def __init__(self, name: str, version: MQTTProtocolVersion, transport: Any = "tcp") -> None:
        self.version = version
        clean = None if version == paho.MQTTv5 else False
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            name,
            clean_session=clean,
            protocol=version,
            transport=transport,
        )
        self.received: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.connected: queue.Queue[bool] = queue.Queue()
        self.subscribed = threading.Event()
        self.client.on_message = lambda client, data, message: self.received.put(message)
        self.client.on_connect = lambda client, data, flags, reason, properties: self.connected.put(
            flags.session_present
        )
        self.client.on_subscribe = lambda *_: self.subscribed.set()

    def connect(self, port: int) -> bool:
        """Session Present."""
        more: dict[str, Any] = {}
        if self.version == paho.MQTTv5:
            properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = 600
            more = {"clean_start": False, "properties": properties}
        self.client.connect("127.0.0.1", port, keepalive=30, **more)
        self.client.loop_start()
        return self.connected.get(timeout=WAIT_S)

    def subscribe(self, filter: str, qos: int) -> None:
        self.client.subscribe(filter, qos)
        assert self.subscribed.wait(WAIT_S)

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        self.client.publish(topic, payload, qos, retain).wait_for_publish(WAIT_S)

    def take(self, count: int) -> list[bytes]:
        return [bytes(self.received.get(timeout=WAIT_S).payload) for _ in range(count)]

    def disconnect(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
        self.client._reset_sockets()  # paho forgets the sockets of its thread when it connects again


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
def test_paho_roams_and_finds_its_messages(brokers: ThreadedNetwork, version: MQTTProtocolVersion) -> None:
    reader, writer = PahoClient(f"paho-r{version}", version), PahoClient(f"paho-w{version}", version)
    topic = f"paho/{version}"
    assert not reader.connect(brokers.port("b1"))
    reader.subscribe(topic, 2)
    writer.connect(brokers.port("b2"))
    for qos in range(3):
        writer.publish(topic, b"live %d" % qos, qos)
    assert reader.take(3) == [b"live 0", b"live 1", b"live 2"]

    reader.disconnect()
    for number in range(20):
        writer.publish(topic, b"missed %d" % number, 2)
    assert reader.connect(brokers.port("b3")), "Session Present tells the truth"
    assert reader.take(20) == [b"missed %d" % number for number in range(20)]

    reader.disconnect()
    assert reader.connect(brokers.port("b1"))
    writer.publish(topic, b"last", 2)
    assert reader.take(1) == [b"last"]
    assert reader.received.empty()
    reader.disconnect()
    writer.disconnect()


def test_paho_over_websocket_tls_and_both(brokers: ThreadedNetwork) -> None:
    writer = PahoClient("paho-plain", paho.MQTTv5)
    writer.connect(brokers.port("b1"))
    for kind in ("ws", "mqtts", "wss"):
        reader = PahoClient(f"paho-{kind}", paho.MQTTv5, "websockets" if kind.startswith("ws") else "tcp")
        if kind.endswith("s") and kind != "ws":
            reader.client.tls_set(ca_certs=str(brokers.authority))
        if kind in ("ws", "wss"):
            reader.client.ws_set_options(path="/mqtt")
        reader.connect(brokers.port("b1", kind))
        reader.subscribe(f"via/{kind}", 1)
        large = bytes(range(256)) * 1000
        writer.publish(f"via/{kind}", large, 1)
        reader.publish(f"via/{kind}", b"own", 2)
        assert sorted(reader.take(2), key=len) == [b"own", large]
        reader.disconnect()
    writer.disconnect()


def test_paho_gets_retained_messages_and_wills(brokers: ThreadedNetwork) -> None:
    writer = PahoClient("paho-will-w", paho.MQTTv5)
    writer.connect(brokers.port("b1"))
    writer.publish("kept/x", b"kept", 1, retain=True)
    dying = PahoClient("paho-dying", paho.MQTTv311)
    dying.client.will_set("kept/will", b"gone", 1)
    dying.connect(brokers.port("b2"))
    reader = PahoClient("paho-will-r", paho.MQTTv5)
    reader.connect(brokers.port("b3"))
    reader.subscribe("kept/#", 1)
    message = reader.received.get(timeout=WAIT_S)
    assert (message.payload, message.retain) == (b"kept", True)

    socket = dying.client.socket()
    assert socket is not None
    dying.client.loop_stop()
    socket.close()
    dying.client._reset_sockets(sockpair_only=True)  # paho leaves them to the garbage collector

    assert reader.take(1) == [b"gone"]
    reader.disconnect()
    writer.disconnect()


# --- aiomqtt, gmqtt ------------------------------------------------------------------------------------------------


def test_aiomqtt_subscribes_publishes_and_roams(brokers: ThreadedNetwork) -> None:
    def client(name: str, broker: str) -> aiomqtt.Client:
        return aiomqtt.Client(
            "127.0.0.1",
            brokers.port(broker),
            identifier=name,
            clean_session=False,
            protocol=aiomqtt.ProtocolVersion.V311,
        )

    async def scenario() -> None:
        async with client("aio-r", "b1") as reader, client("aio-w", "b2") as writer:
            await reader.subscribe("aio/#", qos=2)
            await writer.publish("aio/1", b"live", qos=2)
            message = await asyncio.wait_for(anext(reader.messages), WAIT_S)
            assert (message.topic.value, message.payload) == ("aio/1", b"live")
        async with client("aio-w", "b3") as writer:
            await writer.publish("aio/2", b"missed", qos=1)
        async with client("aio-r", "b2") as reader:
            message = await asyncio.wait_for(anext(reader.messages), WAIT_S)
            assert (message.topic.value, message.payload) == ("aio/2", b"missed")

    asyncio.run(scenario())


def test_gmqtt_subscribes_publishes_and_roams(brokers: ThreadedNetwork) -> None:
    async def scenario() -> None:
        received: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()

        def on_message(client: Any, topic: str, payload: bytes, qos: int, properties: Any) -> int:
            received.put_nowait((topic, payload))
            return 0

        def client(name: str) -> Any:
            return gmqtt.Client(name, clean_session=False, session_expiry_interval=600)

        reader, witness, writer = client("gm-r"), client("gm-witness"), client("gm-w")
        reader.on_message = witness.on_message = on_message
        granted = asyncio.Event()
        reader.on_subscribe = lambda *_: granted.set()
        await reader.connect("127.0.0.1", brokers.port("b1"), version=5)
        reader.subscribe("gm/#", qos=1)
        await asyncio.wait_for(granted.wait(), WAIT_S)
        await writer.connect("127.0.0.1", brokers.port("b2"), version=5)
        writer.publish("gm/1", b"live", qos=1, content_type="text/plain")
        assert await asyncio.wait_for(received.get(), WAIT_S) == ("gm/1", b"live")
        await reader.disconnect(reason_code=4)
        # A second subscriber at the broker which the reader left tells when the message has come there.
        granted = asyncio.Event()
        witness.on_subscribe = lambda *_: granted.set()
        await witness.connect("127.0.0.1", brokers.port("b1"), version=5)
        witness.subscribe("gm/2", qos=1)
        await asyncio.wait_for(granted.wait(), WAIT_S)
        writer.publish("gm/2", b"missed", qos=2)
        assert await asyncio.wait_for(received.get(), WAIT_S) == ("gm/2", b"missed")
        await witness.disconnect()
        again = client("gm-r")
        again.on_message = on_message
        await again.connect("127.0.0.1", brokers.port("b3"), version=5)
        assert await asyncio.wait_for(received.get(), WAIT_S) == ("gm/2", b"missed")
        await again.disconnect()
        await writer.disconnect()

    asyncio.run(scenario())


# --- mosquitto_pub, mosquitto_sub ----------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="mosquitto-clients is not installed")
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquittos_clients_roam(brokers: ThreadedNetwork, version: str) -> None:
    def run(command: str, broker: str, *arguments: str) -> str:
        more = ["-x", "600"] if version == "mqttv5" and "-c" in arguments else []
        done = subprocess.run(
            [command, "-p", str(brokers.port(broker)), "-V", version, *arguments, *more],
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
            check=False,
        )
        assert done.returncode in (0, 27), done.stderr  # 27: the time given by -W is over
        return done.stdout

    session = ("-i", f"mosq-{version}", "-c", "-q", "2", "-t", f"mosq/{version}/#")
    run("mosquitto_sub", "b1", *session, "-E")
    for number in range(3):
        run(
            "mosquitto_pub",
            "b2",
            "-q",
            str(number),
            "-t",
            f"mosq/{version}/{number}",
            "-m",
            f"message {number}",
        )
    # Kept for an absent client are messages of QoS 0 as well: it subscribed with QoS 2 to a stored session.
    heard = run("mosquitto_sub", "b3", *session, "-v", "-C", "3", "-W", str(int(WAIT_S))).split("\n")
    assert [line for line in heard if line and not line.endswith("message 0")] == [
        f"mosq/{version}/1 message 1",
        f"mosq/{version}/2 message 2",
    ]


# --- mqtt.js -------------------------------------------------------------------------------------------------------

MQTT_JS = "mqtt@5.16.0"


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where mqtt.js is, fetched by name where Node.js and npm are."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js and npm are not installed, so there is no mqtt.js")
    folder = tmp_path_factory.mktemp("mqtt-js")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), MQTT_JS]
    try:
        subprocess.run(command, capture_output=True, timeout=90, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"npm does not get {MQTT_JS}: {error}")
    return folder / "node_modules"


@pytest.mark.parametrize("version", ["4", "5"])
def test_mqtt_js_roams(brokers: ThreadedNetwork, node_modules: Path, version: str) -> None:
    urls = [
        f"mqtt://127.0.0.1:{brokers.port('b1')}",
        f"mqtt://127.0.0.1:{brokers.port('b2')}",
        f"ws://127.0.0.1:{brokers.port('b3', 'ws')}/mqtt",
    ]
    script = Path(__file__).parent / "interop" / "roaming.js"

    done = subprocess.run(
        ["node", str(script), version, *urls],
        capture_output=True,
        text=True,
        timeout=2 * WAIT_S,
        check=False,
        env={**os.environ, "NODE_PATH": str(node_modules)},
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "present": [False, True],
        "received": ["0 at qos 1", "1 at qos 1", "2 at qos 2", "3 at qos 2"],
    }
