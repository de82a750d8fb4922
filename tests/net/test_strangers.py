"""What a stranger may make a broker hold, and that a connection that ends frees all of it."""

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from roamq.net.clients import transports
from roamq.net.clients.mqtt.codec import Connect, Pingreq, Properties, Publish, Version, Will, encode
from roamq.net.clients.passwords import Users, hash_password
from roamq.net.ops.local import local_network
from tests.net.live import PlainClient, port_of, running, write_network
from tests.support.waiting import WAIT_S, eventually

pytestmark = pytest.mark.live


def single(folder: Path, extra: str = "", **options: Any) -> Any:
    return write_network(folder, local_network(1, scheme="standard", extra=extra, **options))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def web_socket(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, ClientProtocol]:
    """A WebSocket that the broker has accepted, driven by hand."""
    uri = parse_uri(f"ws://127.0.0.1:{port}/mqtt")
    protocol = ClientProtocol(uri, subprotocols=["mqtt"])  # type: ignore[list-item]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    protocol.send_request(protocol.connect())
    writer.write(b"".join(protocol.data_to_send()))
    protocol.receive_data(await reader.readuntil(b"\r\n\r\n"))
    return reader, writer, protocol


async def ended(reader: asyncio.StreamReader) -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            while await reader.read(65536):
                pass
    except ConnectionError:
        pass


BOUNDS = "\n[bounds]\nconnect_timeout_s = 1.0\nconnect_bytes_max = 100000\nlinger_s = 0.5\n"


@pytest.mark.parametrize("kind", ["mqtt", "ws"])
def test_a_connection_that_ends_frees_what_it_held(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the collector off: what is freed is freed because nothing refers to it."""
    made: list[weakref.ref[Any]] = []
    for name in ("ClientSocket", "ClientWebSocket"):
        original = getattr(transports, name).connection_made

        def noted(self: Any, transport: Any, original: Any = original) -> None:
            made.append(weakref.ref(self))
            original(self, transport)

        monkeypatch.setattr(getattr(transports, name), "connection_made", noted)

    async def scenario() -> None:
        network = single(tmp_path, BOUNDS, durability="memory")
        port = port_of(network, "b1", kind)
        async with running(network) as servers:
            for what in ("half", "whole", "nonsense"):
                if kind == "ws":
                    reader, writer, protocol = await web_socket(port)
                else:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                data = encode(Connect(client_id="c", properties=Properties()), Version.V5)
                sent = {
                    "half": data[:-1],
                    "whole": data + b"\xe0\x00",
                    "nonsense": b"\x00\x00\x00",
                }[what]
                if kind == "ws":
                    protocol.send_binary(sent)
                    writer.write(b"".join(protocol.data_to_send()))
                else:
                    writer.write(sent)
                await ended(reader)
                writer.close()
                del reader, writer
            await eventually(lambda: not servers["b1"].shell.clients)
            await eventually(lambda: not any(ref() is not None for ref in made), "all sockets are freed")
            assert servers["b1"].door.gathered_bytes == 0

    gc.collect()
    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()
    assert len(made) >= 3


def test_a_web_socket_frame_before_connect_is_bounded(tmp_path: Path) -> None:
    """The review's attack: 100 MB in one frame, before any login."""

    async def scenario() -> None:
        network = single(tmp_path, BOUNDS, durability="memory")
        port = port_of(network, "b1", "ws")
        async with running(network) as servers:
            before = resident_bytes()
            for _ in range(10):
                reader, writer, protocol = await web_socket(port)
                header = b"\x82\xff" + (100_000_000).to_bytes(8, "big") + b"\0\0\0\0"
                writer.write(header + bytes(1_000_000))
                await ended(reader)
                writer.close()
                # In many frames, each small enough.
                reader, writer, protocol = await web_socket(port)
                protocol.send_binary(b"\x10\xff\xff\x7f" + bytes(60_000), fin=False)
                protocol.send_continuation(bytes(60_000), fin=False)
                writer.write(b"".join(protocol.data_to_send()))
                await ended(reader)
                writer.close()
            await eventually(lambda: not servers["b1"].shell.clients)
            assert servers["b1"].door.gathered_bytes == 0
            assert resident_bytes() - before < 8_000_000

    asyncio.run(scenario())


def test_a_client_that_was_let_in_may_send_larger_frames(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = single(tmp_path, BOUNDS, durability="memory")
        async with running(network):
            listener = PlainClient("listener")
            await listener.connect(port_of(network, "b1"))
            await listener.subscribe("t", 0)
            _, writer, protocol = await web_socket(port_of(network, "b1", "ws"))
            protocol.send_binary(encode(Connect(client_id="c"), Version.V5))
            protocol.send_binary(encode(Publish("t", b"x" * 300_000), Version.V5))
            protocol.send_binary(encode(Pingreq(), Version.V5))
            for data in protocol.data_to_send():
                writer.write(data)
            await eventually(lambda: [len(payload) for _, payload, *_ in listener.received] == [300_000])
            writer.close()

    asyncio.run(scenario())


def test_half_connects_share_one_bound_and_rounds_of_them_do_not_add_up(tmp_path: Path) -> None:
    """The review's attack: rounds of half CONNECTs of 250 kB, each round 195 MB more."""

    async def scenario() -> None:
        extra = "\n[bounds]\nconnect_timeout_s = 1.0\nconnects_bytes_max = 2000000\n"
        network = single(tmp_path, extra, durability="memory")
        port = port_of(network, "b1")
        async with running(network) as servers:
            shell, door = servers["b1"].shell, servers["b1"].door
            sizes = []
            most = 0
            for _ in range(10):
                strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
                for _, writer in strangers:
                    writer.write(b"\x10\xd0\x90\x0f" + bytes(240_000))
                for reader, writer in strangers:
                    await ended(reader)
                    writer.close()
                    most = max(most, door.gathered_bytes)
                await eventually(lambda: not shell.clients)
                sizes.append(resident_bytes())
            assert shell.counts["refused connects_bytes_max"] > 0
            assert most <= 2_000_000 + 300_000
            assert door.gathered_bytes == 0
            assert sizes[-1] - sizes[1] < 5_000_000, sizes

    gc.collect()
    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


def test_whole_connects_that_wait_for_their_logins_share_the_same_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CONNECT holds a password and a will of 64 KiB each; a thousand logins may wait."""
    looks = threading.Event()
    monkeypatch.setattr(Users, "verify", lambda users, user, password: looks.wait(WAIT_S) and False)

    async def scenario() -> None:
        hashed = hash_password(b"right")
        extra = f'\n[bounds]\nconnects_bytes_max = 1000000\n[access.users]\nann = "{hashed}"\n'
        network = single(tmp_path, extra, durability="memory")
        port = port_of(network, "b1")
        will = Will(topic="w", payload=bytes(60_000), qos=1, retain=False)
        async with running(network) as servers:
            shell, door = servers["b1"].shell, servers["b1"].door
            strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for number, (_, writer) in enumerate(strangers):
                guess = Connect(client_id=f"c{number}", user_name="ann", password=bytes(60_000), will=will)
                writer.write(encode(guess, Version.V5))
            await eventually(lambda: shell.counts["refused connects_bytes_max"] >= 10)
            assert 500_000 < door.gathered_bytes <= 1_000_000
            looks.set()
            for reader, writer in strangers:
                await ended(reader)
                writer.close()
            await eventually(lambda: not shell.clients)
            assert door.gathered_bytes == 0

    try:
        asyncio.run(scenario())
    finally:
        looks.set()


def test_a_partial_packet_larger_than_allowed_is_refused_at_its_first_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = single(tmp_path, durability="memory")
        async with running(network):
            client = PlainClient("c")
            connack = await client.connect(port_of(network, "b1"))
            assert connack.properties.maximum_packet_size == 1024 * 1024
            client.send_raw(b"\x30\xff\xff\xff\x7f\x00\x01t")
            await eventually(lambda: client.closed)
            assert client.closed_because is not None
            assert client.closed_because.reason.name == "PACKET_TOO_LARGE"  # type: ignore[union-attr]

    asyncio.run(scenario())
