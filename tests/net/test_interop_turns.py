"""Clients that nobody here wrote, behind a round-robin: each of their connections lands at the next of three brokers.

They do what their users do: lose the connection and come back, leave wills, share work, ask and answer.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import gmqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from tests.net.test_interop import PahoClient, node_modules
from tests.net.turns import Turns
from tests.support.waiting import WAIT_S, wait_until

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("interop-turns")]

__all__ = ["node_modules"]  # a fixture


@pytest.fixture(scope="module", params=[0.0, 0.04], ids=["0ms", "40ms"])
def turns(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turns]:
    with Turns(tmp_path_factory.mktemp("interop"), 3, "proactive", request.param) as found:
        yield found


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
def test_paho_comes_back_again_and_again(turns: Turns, version: MQTTProtocolVersion) -> None:
    """It leaves in the middle of exchanges: QoS 1 may repeat, with DUP, and QoS 2 may not. Each is in order; paho gives
    a message of QoS 2 to its user at PUBREL, behind later ones of QoS 1."""
    topic = f"paho/{version}"
    reader, writer = PahoClient(f"r{version}", version), PahoClient(f"w{version}", version)
    assert not reader.connect(turns.port)
    reader.subscribe(topic, 2)
    writer.connect(turns.port)
    sent: dict[int, list[bytes]] = {1: [], 2: []}
    for number in range(6):
        reader.disconnect()
        for qos in (1, 2):
            sent[qos].append(b"%d at %d" % (number, qos))
            writer.publish(topic, sent[qos][-1], qos)
        assert reader.connect(turns.port), "Session Present tells the truth"
        writer.disconnect()
        writer.connect(turns.port)
    writer.publish(topic, b"last", 2)
    got: list[paho.MQTTMessage] = []
    while not got or got[-1].payload != b"last":
        got.append(reader.received.get(timeout=WAIT_S))
    first = {message.payload: message for message in reversed(got)}

    assert [message.payload for message in got if message.qos == 2] == [*sent[2], b"last"]
    assert list(dict.fromkeys(message.payload for message in got if message.qos == 1)) == sent[1]
    assert all(message.dup for message in got if message is not first[message.payload])
    assert reader.received.empty()
    reader.disconnect()
    writer.disconnect()


def test_paho_reconnects_by_itself(turns: Turns) -> None:
    """Its socket is closed under it; `loop_start` connects again, and it lands at another broker."""
    reader, writer = PahoClient("self-r", paho.MQTTv5), PahoClient("self-w", paho.MQTTv5)
    reader.client.reconnect_delay_set(1, 1)
    reader.connect(turns.port)
    reader.subscribe("self", 2)
    writer.connect(turns.port)
    for number in range(2):
        socket: Any = reader.client.socket()
        socket.shutdown(2)
        writer.publish("self", b"%d" % number, 2)
        assert reader.connected.get(timeout=WAIT_S), "Session Present tells the truth"
        assert reader.take(1) == [b"%d" % number]
    reader.disconnect()
    writer.disconnect()


def taken(clients: list[PahoClient]) -> list[bytes]:
    """What these clients have received and nobody has looked at yet."""
    found = []
    for client in clients:
        while not client.received.empty():
            found.append(bytes(client.received.get().payload))
    return found


def test_paho_leaves_retained_messages_and_wills_and_shares_work(turns: Turns) -> None:
    writer = PahoClient("kept-w", paho.MQTTv5)
    writer.connect(turns.port)
    dying = PahoClient("kept-d", paho.MQTTv311)
    dying.client.will_set("kept/will", b"gone", 1, retain=True)
    dying.connect(turns.port)
    reader = PahoClient("kept-r", paho.MQTTv5)
    reader.connect(turns.port)
    reader.subscribe("kept/#", 1)
    socket = dying.client.socket()
    assert socket is not None
    dying.client.loop_stop()
    socket.close()
    assert reader.take(1) == [b"gone"]
    late = PahoClient("kept-l", paho.MQTTv5)
    late.connect(turns.port)
    late.subscribe("kept/#", 1)
    message = late.received.get(timeout=WAIT_S)
    assert (message.payload, message.retain) == (b"gone", True)

    workers = [PahoClient(f"worker-{number}", paho.MQTTv5) for number in range(3)]
    for worker in workers:
        worker.connect(turns.port)
        worker.subscribe("$share/workers/jobs", 1)
    jobs = [b"%d" % number for number in range(12)]
    for number, job in enumerate(jobs):
        if number == 6:
            workers[0].disconnect()
        writer.publish("jobs", job, 1)
    # paho hands a message over before it acknowledges it: its DISCONNECT may overtake the PUBACK, and at QoS 1 that
    # message comes again. Nothing else may.
    had = taken([workers[0]])
    workers[0].connect(turns.port)
    done = list(had)

    def all_done() -> bool:
        done.extend(taken(workers))
        return set(done) == set(jobs)

    wait_until(all_done, "every job")
    assert {job for job in jobs if done.count(job) > 1} <= set(had)
    for client in (writer, reader, late, *workers):
        client.disconnect()


def test_aiomqtt_works_through_reconnections(turns: Turns) -> None:
    def client(name: str) -> aiomqtt.Client:
        version = aiomqtt.ProtocolVersion.V311
        return aiomqtt.Client("127.0.0.1", turns.port, identifier=name, clean_session=False, protocol=version)

    async def scenario() -> list[Any]:
        received: list[Any] = []
        async with client("aio-r") as reader:
            await reader.subscribe("aio/#", qos=2)
        for number in range(5):
            async with client("aio-w") as writer:
                await writer.publish(f"aio/{number}", b"%d" % number, qos=1 + number % 2)
            async with client("aio-r") as reader:
                message = await asyncio.wait_for(anext(reader.messages), WAIT_S)
                received.append(message.payload)
        return received

    assert asyncio.run(scenario()) == [b"%d" % number for number in range(5)]


def test_gmqtt_works_through_reconnections(turns: Turns) -> None:
    async def scenario() -> None:
        received: asyncio.Queue[bytes] = asyncio.Queue()

        def on_message(client: Any, topic: str, payload: bytes, qos: int, properties: Any) -> int:
            received.put_nowait(payload)
            return 0

        async def connect(name: str) -> Any:
            client = gmqtt.Client(name, clean_session=False, session_expiry_interval=600)
            client.on_message = on_message
            await client.connect("127.0.0.1", turns.port, version=5)
            return client

        reader, writer = await connect("gm-r"), await connect("gm-w")
        granted = asyncio.Event()
        reader.on_subscribe = lambda *_: granted.set()
        reader.subscribe("gm/#", qos=1)
        await asyncio.wait_for(granted.wait(), WAIT_S)
        for number in range(4):
            await reader.disconnect(reason_code=4)
            writer.publish("gm/x", b"%d" % number, qos=1)
            reader = await connect("gm-r")
            assert await asyncio.wait_for(received.get(), WAIT_S) == b"%d" % number
        await reader.disconnect()
        await writer.disconnect()

    asyncio.run(scenario())


@pytest.mark.skipif(shutil.which("mosquitto_rr") is None, reason="mosquitto-clients is not installed")
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquittos_clients_publish_and_subscribe(turns: Turns, version: str) -> None:
    def run(command: str, *arguments: str) -> list[str]:
        more = ["-x", "600"] if version == "mqttv5" and "-c" in arguments else []
        done = subprocess.run(
            [command, "-p", str(turns.port), "-V", version, *arguments, *more],
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
            check=False,
        )
        assert done.returncode in (0, 27), done.stderr  # 27: the time given by -W is over
        return done.stdout.split("\n")[:-1]

    topic = f"mosq/{version}"
    session = ("-i", f"mosq-{version}", "-c", "-q", "2", "-t", topic)
    run("mosquitto_sub", *session, "-E")
    for number in range(4):
        run("mosquitto_pub", "-q", str(1 + number % 2), "-t", topic, "-m", f"message {number}")
        assert run("mosquitto_sub", *session, "-C", "1", "-W", str(int(WAIT_S))) == [f"message {number}"]


@pytest.mark.skipif(shutil.which("mosquitto_rr") is None, reason="mosquitto-clients is not installed")
def test_mosquittos_request_is_answered(turns: Turns) -> None:
    service = PahoClient("service", paho.MQTTv5)
    service.connect(turns.port)
    service.subscribe("ask", 1)

    def answer(client: Any, data: Any, message: paho.MQTTMessage) -> None:
        asked: Any = message.properties
        client.publish(asked.ResponseTopic, b"answer to " + message.payload, 1)

    service.client.on_message = answer
    for number in range(3):
        done = subprocess.run(
            [
                "mosquitto_rr",
                "-p",
                str(turns.port),
                "-V",
                "mqttv5",
                "-q",
                "1",
                "-t",
                "ask",
                "-e",
                "reply",
                "-m",
                str(number),
            ],
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
            check=False,
        )
        assert done.stdout == f"answer to {number}\n", done.stderr
    service.disconnect()


@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize("script", ["returning", "roaming"])
def test_mqtt_js_comes_back_by_itself(turns: Turns, node_modules: Path, script: str, version: str) -> None:
    url = f"mqtt://127.0.0.1:{turns.port}"
    arguments = [url, "6"] if script == "returning" else [url, url, url]
    done = subprocess.run(
        ["node", str(Path(__file__).parent / "interop" / f"{script}.js"), version, *arguments],
        capture_output=True,
        text=True,
        timeout=2 * WAIT_S,
        check=False,
        env={**os.environ, "NODE_PATH": str(node_modules)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["present"] == [False, *[True] * (len(found["present"]) - 1)]
    if script == "returning":
        assert sorted(set(found["received"])) == [str(number) for number in range(6)]
    else:
        assert found["received"] == ["0 at qos 1", "1 at qos 1", "2 at qos 2", "3 at qos 2"]
