"""Brokers on real sockets: bounds, access, operation. Each test runs its own broker inside this process."""

import asyncio
import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import Connect, Disconnect, ReasonCode, Version, encode
from roamq.net.clients.passwords import hash_password
from roamq.net.ops.keys import make_keys
from roamq.net.ops.local import free_ports, local_network
from tests.net.live import PlainClient, port_of, running, write_network
from tests.support.clock import Clock
from tests.support.waiting import WAIT_S, eventually

pytestmark = pytest.mark.live


def single(folder: Path, extra: str = "", **options: Any) -> Any:
    return write_network(folder, local_network(1, scheme="standard", extra=extra, **options))


def test_a_client_publishes_and_another_receives(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = single(tmp_path)
        async with running(network):
            reader, writer = PlainClient("reader"), PlainClient("writer")
            await reader.connect(port_of(network, "b1"))
            await reader.subscribe("news/#", 2)
            await writer.connect(port_of(network, "b1"))
            for qos in range(3):
                writer.publish("news/x", b"%d" % qos, qos)
            await eventually(lambda: len(reader.received) == 3)
            assert [(payload, qos) for _, payload, qos, _ in reader.received] == [
                (b"0", 0),
                (b"1", 1),
                (b"2", 2),
            ]
            await eventually(lambda: not writer.unacknowledged)

    asyncio.run(scenario())


def test_a_stop_says_goodbye_and_a_start_finds_the_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = single(tmp_path)
        client, writer = PlainClient("c"), PlainClient("w")
        async with running(network):
            await client.connect(port_of(network, "b1"))
            await client.subscribe("t", 1)
        assert isinstance(client.closed_because, Disconnect)
        assert client.closed_because.reason is ReasonCode.SERVER_SHUTTING_DOWN
        async with running(network) as servers:
            recovered = servers["b1"].recovered
            assert recovered is not None
            assert recovered.inputs == 0, "a graceful stop leaves a snapshot and no journal"
            await writer.connect(port_of(network, "b1"))
            writer.publish("t", b"missed", 1)
            await client.connect(port_of(network, "b1"))
            assert client.session_present
            await eventually(lambda: [payload for _, payload, *_ in client.received] == [b"missed"])

    asyncio.run(scenario())


def test_strangers_bytes_close_their_connection_and_nobody_elses(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = single(tmp_path, "\n[bounds]\nconnect_timeout_s = 2.0\nconnect_bytes_max = 2000\n")
        port = port_of(network, "b1")
        async with running(network) as servers:
            good = PlainClient("good")
            await good.connect(port)
            for nonsense in (
                b"GET / HTTP/1.1\r\n\r\n",
                b"\x10\xff\xff\xff\x7f" + bytes(3000),
                b"\xf0\x00",
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(nonsense)
                assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
                writer.close()
            # Half a CONNECT, and nothing at all: both are given a bounded time.
            half = encode(Connect(client_id="slow"), Version.V5)[:-1]
            strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            for (_, writer), beginning in zip(strangers, (half, b"", b"\x00"), strict=True):
                writer.write(beginning)
            for reader, writer in strangers:
                assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
                writer.close()
            assert not good.closed
            assert servers["b1"].shell.counts["refused connect_timeout_s"] == 3
            assert servers["b1"].shell.counts["fault"] == 0

    asyncio.run(scenario())


def test_a_consumer_that_does_not_read_harms_only_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = single(tmp_path, "\n[bounds]\nwrite_buffer_bytes = 65536\n", durability="memory")
        port = port_of(network, "b1")
        async with running(network) as servers:
            shell = servers["b1"].shell
            fast, writer = PlainClient("fast"), PlainClient("writer")
            await fast.connect(port)
            await fast.subscribe("t", 0)
            slow = PlainClient("slow")
            await slow.connect(port)
            await slow.subscribe("t", 0)
            assert slow._task is not None
            slow._task.cancel()  # from now on it reads nothing
            await writer.connect(port)
            payload = bytes(10_000)
            for number in range(1500):
                writer.publish("t", payload, 0)
                if number % 50 == 0:
                    await asyncio.sleep(0)
            await eventually(lambda: len(fast.received) == 1500)
            assert shell.counts["slow_consumer"] >= 1
            assert servers["b1"].status().stored_bytes > 5_000_000, (
                "what it does not read waits in its session"
            )
            slow.drop()
            await eventually(lambda: not servers["b1"].serves("slow"))
            assert not fast.closed

    asyncio.run(scenario())


def test_a_flood_is_read_no_faster_than_its_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        clock = Clock(asyncio.get_running_loop(), monkeypatch)
        network = single(tmp_path, "\n[quotas]\npublish_rate_max = 1.0\n")
        port = port_of(network, "b1")
        async with running(network) as servers:
            flood, calm = PlainClient("flood"), PlainClient("calm")
            await flood.connect(port)
            await calm.connect(port)
            # One is allowed at once; the rest is worth 1000 seconds of silence.
            flood.publish_in_one_write("t", (b"%d" % number for number in range(1001)), 1)
            await eventually(lambda: servers["b1"].shell.counts["rate_limited"] == 1)
            waited = 0.0
            while flood.unacknowledged:
                calm.publish("t", b"x", 1)  # others do not wait
                await eventually(lambda: not calm.unacknowledged)
                clock.advance(100.0)
                waited += 100.0
                await asyncio.sleep(0)
            assert waited >= 500.0, "all but the last slice were waited for"

    asyncio.run(scenario())


def test_connections_beyond_the_bound_are_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = single(tmp_path, "\n[bounds]\nconnections_max = 2\n")
        port = port_of(network, "b1")
        async with running(network) as servers:
            clients = [PlainClient(f"c{number}") for number in range(2)]
            for client in clients:
                await client.connect(port)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with pytest.raises(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
                raise ConnectionResetError
            writer.close()
            assert servers["b1"].shell.counts["refused connections_max"] == 1
            clients[0].drop()
            await eventually(lambda: len(servers["b1"].shell.clients) == 1)
            await clients[0].connect(port)

    asyncio.run(scenario())


def test_users_rules_and_their_reload(tmp_path: Path) -> None:
    access = f"""
[access]
anonymous = "never"
users = {{ ann = "{hash_password(b"sesame")}" }}

[[access.rules]]
user = "ann"
topics = ["open/#"]
"""

    async def scenario() -> None:
        network = single(tmp_path, access)
        port = port_of(network, "b1")
        async with running(network) as servers:
            client = PlainClient("c")
            assert (await client.connect(port)).reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
            for password in (b"wrong", None):
                answer = await client.connect(port, user_name="ann", password=password)
                assert answer.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
            for _ in range(2):  # hashed the first time, remembered the second
                assert (
                    await client.connect(port, user_name="ann", password=b"sesame")
                ).reason is ReasonCode.SUCCESS
            assert (await client.subscribe("open/x", 1)).reasons == (ReasonCode.GRANTED_QOS_1,)
            assert (await client.subscribe("closed/x", 1)).reasons == (ReasonCode.NOT_AUTHORIZED,)

            path = Path(network.source.name)
            path.write_text(path.read_text().replace('"open/#"', '"closed/#"'))
            servers["b1"].reload()
            assert (await client.subscribe("closed/x", 1)).reasons == (ReasonCode.GRANTED_QOS_1,)

            path.write_text("[nonsense")
            with pytest.raises(ValueError, match="not valid TOML"):
                servers["b1"].reload()
            assert (await client.subscribe("closed/y", 1)).reasons == (ReasonCode.GRANTED_QOS_1,)

    asyncio.run(scenario())


def test_keep_alive_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        clock = Clock(asyncio.get_running_loop(), monkeypatch)
        network = single(tmp_path)
        async with running(network):
            silent, lively = PlainClient("silent"), PlainClient("lively")
            await silent.connect(port_of(network, "b1"), keep_alive=600)
            await lively.connect(port_of(network, "b1"), keep_alive=600)
            clock.advance(800.0)
            await lively.ping()
            assert not silent.closed, "one and a half times the keep-alive is not over"
            clock.advance(200.0)
            await eventually(lambda: silent.closed)
            assert isinstance(silent.closed_because, Disconnect)
            assert silent.closed_because.reason is ReasonCode.KEEP_ALIVE_TIMEOUT
            await lively.ping()

    asyncio.run(scenario())


def test_metrics_and_health_are_there_to_see(tmp_path: Path) -> None:
    def get(url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:  # noqa: S310 - our own port
            body: bytes = answer.read()
        return body

    async def scenario() -> None:
        network = single(tmp_path)
        port = network.brokers["b1"].metrics_port
        async with running(network):
            client = PlainClient("c")
            await client.connect(port_of(network, "b1"))
            client.publish("t", b"x", 1)
            await eventually(lambda: client.acknowledged)
            metrics = (await asyncio.to_thread(get, f"http://127.0.0.1:{port}/metrics")).decode()
            health = json.loads(await asyncio.to_thread(get, f"http://127.0.0.1:{port}/health"))
            await client.subscribe("$SYS/broker/clients/connected", 0)
            await eventually(lambda: client.received)
            assert client.received[0][0] == "$SYS/broker/clients/connected"
        assert "roamq_connections 1.0" in metrics
        assert 'roamq_records_total{kind="published"} 1.0' in metrics
        assert 'roamq_contexts{mode="serving"} 1.0' in metrics
        assert (health["status"], health["connections"], health["durability"]) == ("ok", 1, "process")

    asyncio.run(scenario())


def test_a_snapshot_takes_the_journals_place_while_clients_are_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = single(tmp_path, records=tmp_path / "records")
        folder = tmp_path / "data" / "b1"
        async with running(network) as servers:
            client = PlainClient("c")
            await client.connect(port_of(network, "b1"))
            await client.subscribe("t", 2)
            for number in range(200):
                client.publish("t", b"%d" % number, 2)
                if number in (50, 120):
                    await servers["b1"].snapshots.take()
            await eventually(lambda: len(client.received) == 200)
            assert sorted(path.name for path in folder.iterdir()) == [
                "00000003.snapshot",
                "lock",
                "segment-00000003.journal",
                "written",
            ]
            client.drop()
        rows = pq.read_table(tmp_path / "records" / "part=records").to_pylist()
        assert sum(row["kind"] == "delivered" for row in rows) == 200
        assert len({row["position"] for row in rows}) == len(rows)

    asyncio.run(scenario())


def test_the_thread_that_writes_records_counts_as_work_of_the_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = single(tmp_path, records=tmp_path / "records")
        async with running(network) as servers:
            server = servers["b1"]
            assert server.recorder is not None
            server.recorder.interpreter_s = 1e6
            assert server.activity.forecast._cpu_s() > 1e6

    asyncio.run(scenario())


def test_a_link_that_is_cut_under_load_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = write_network(tmp_path, local_network(2, scheme="standard"))
        async with running(network) as servers:
            reader, writer = PlainClient("reader"), PlainClient("writer")
            await reader.connect(port_of(network, "b2"))
            await reader.subscribe("t", 2)
            await writer.connect(port_of(network, "b1"))
            expected = [b"%d" % number for number in range(600)]
            for number, payload in enumerate(expected):
                if number % 150 == 0:  # the link is up, or up again
                    await eventually(lambda number=number: len(reader.received) >= number)
                writer.publish("t", payload, number % 3)
                await asyncio.sleep(0)
                if number % 150 == 75:
                    name = "b1" if number % 300 == 75 else "b2"
                    (link,) = servers[name].links.up.values()
                    link.transport.abort()
            # Links keep the order: whatever is repeated comes before what is published last.
            await eventually(lambda: len(reader.received) >= 600)
            expected.append(b"last")
            writer.publish("t", b"last", 1)
            await eventually(lambda: reader.received[-1][1] == b"last")
            assert [payload for _, payload, *_ in reader.received] == expected
            await eventually(lambda: not writer.unacknowledged)
            await eventually(lambda: not servers["b1"].status().outbox_frames[BrokerId("b2")])

    asyncio.run(scenario())


def test_a_drained_broker_sends_its_clients_elsewhere_with_their_sessions(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = write_network(tmp_path, local_network(2, scheme="standard"))
        async with running(network) as servers:
            here, away, writer = PlainClient("here"), PlainClient("away"), PlainClient("writer")
            for client in (here, away):
                await client.connect(port_of(network, "b1"))
                await client.subscribe("t", 1)
            away.drop()
            await writer.connect(port_of(network, "b2"))
            writer.publish("t", b"before", 1)
            await eventually(lambda: len(here.received) == 1)

            assert servers["b1"].drain() == {"sessions": 2}
            await eventually(lambda: here.closed)
            assert isinstance(here.closed_because, Disconnect)
            assert here.closed_because.reason is ReasonCode.USE_ANOTHER_SERVER
            assert here.closed_because.properties.server_reference == f"127.0.0.1:{port_of(network, 'b2')}"
            await eventually(lambda: servers["b1"].health()["sessions"] == 0)
            assert servers["b1"].health()["status"] == "draining"
            assert (await here.connect(port_of(network, "b1"))).reason is ReasonCode.USE_ANOTHER_SERVER
            for client in (here, away):
                await client.connect(port_of(network, "b2"))
                assert client.session_present
            writer.publish("t", b"after", 1)
            await eventually(lambda: [len(client.received) for client in (here, away)] == [2, 2])

    asyncio.run(scenario())


def test_links_and_clients_over_tls(tmp_path: Path) -> None:
    ports = free_ports(4)
    text = f"""
[network]
scheme = "standard"
keys = "keys"

[storage]
durability = "memory"

[brokers.b1]
link_port = {ports[0]}
listeners = [{{ port = {ports[2]} }}]

[brokers.b2]
link_port = {ports[1]}
listeners = [{{ port = {ports[3]} }}]
"""

    async def scenario() -> None:
        network = write_network(tmp_path, text)
        assert len(make_keys(network, tmp_path / "keys")) == 6
        assert make_keys(network, tmp_path / "keys") == []
        assert (tmp_path / "keys" / "b1.key").stat().st_mode & 0o077 == 0
        async with running(network) as servers:
            reader, writer = PlainClient("reader"), PlainClient("writer")
            await reader.connect(ports[3])
            await reader.subscribe("t", 1)
            await writer.connect(ports[2])
            writer.publish("t", b"x", 1)
            await eventually(lambda: reader.received)
            assert servers["b1"].links.up.keys() == {"b2"}

            # A broker that shows keys of another authority, or no keys at all, is no neighbour.
            before = servers["b2"].shell.counts["link_refused"]
            impostor = tmp_path / "impostor"
            make_keys(network, impostor)
            context = ssl.create_default_context(cafile=str(tmp_path / "keys" / "ca.pem"))
            context.load_cert_chain(impostor / "b1.pem", impostor / "b1.key")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                stream, sink = await asyncio.open_connection(
                    "127.0.0.1", ports[1], ssl=context, server_hostname="b2"
                )
                try:
                    assert await stream.read() == b""
                finally:
                    sink.transport.abort()
                raise ConnectionResetError
            plain, out = await asyncio.open_connection("127.0.0.1", ports[1])
            out.write(b"\x00\x00\x00\x00\x01")
            with pytest.raises(ConnectionError):
                assert not (await plain.read()).startswith(b"\x00")
                raise ConnectionResetError
            out.transport.abort()
            assert servers["b2"].shell.counts["link_refused"] == before

    asyncio.run(scenario())
