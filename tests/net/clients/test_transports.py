"""A client's socket without a socket: how CONNECT is gathered, who is paused, and when a client is looked at."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from roamq.net import shell as shell_module
from roamq.net.clients import turns
from roamq.net.clients.mqtt.codec import Connect, Decoder, Packet, Pingreq, Publish, Version, encode
from roamq.net.clients.transports import ClientSocket, Doorkeeper
from roamq.net.durable.inputs import LiveBroker
from roamq.net.ops.options import Bounds, Listener
from roamq.net.outputs import Login
from roamq.net.shell import Shell
from tests.support.clock import Clock
from tests.support.live_world import settings

PING = encode(Pingreq(), Version.V5)


class FakeTransport(asyncio.Transport):
    """Keeps what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.calls: list[str] = []

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return "close" in self.calls

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")


class Desk:
    """Knows everybody at once, or after a while."""

    def __init__(self, later: "asyncio.Future[bool] | None" = None) -> None:
        self.later = later

    def check(self, login: Login) -> Any:
        return True if self.later is None else self.later


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn(loop: asyncio.AbstractEventLoop, times: int = 1) -> None:
    for _ in range(times):
        loop.run_until_complete(asyncio.sleep(0))


def door(loop: asyncio.AbstractEventLoop, desk: Desk | None = None) -> Doorkeeper:
    live = LiveBroker(settings("b1", 1, "standard"), 1000.0)
    return Doorkeeper(Shell(live, loop, desk or Desk()), Bounds())


def come(at: Doorkeeper) -> tuple[ClientSocket, FakeTransport]:
    socket, transport = ClientSocket(at, Listener(name="0:mqtt", host="", port=1)), FakeTransport()
    socket.connection_made(transport)
    return socket, transport


def connect(name: str = "c", keep_alive: int = 0) -> bytes:
    return encode(Connect(client_id=name, keep_alive=keep_alive), Version.V5)


def packets(transport: FakeTransport) -> list[Packet]:
    return Decoder(Version.V5).feed(transport.written)


def names(transport: FakeTransport) -> list[str]:
    return [type(packet).__name__ for packet in packets(transport)]


def test_a_client_that_is_let_in_at_once_is_never_paused(loop: asyncio.AbstractEventLoop) -> None:
    socket, transport = come(door(loop))

    socket.data_received(connect())
    turn(loop)
    socket.data_received(PING)
    turn(loop)

    assert names(transport) == ["Connack", "Pingresp"]
    assert transport.calls == []


def test_a_client_whose_login_takes_time_is_not_read_from_meanwhile(loop: asyncio.AbstractEventLoop) -> None:
    verdict: asyncio.Future[bool] = loop.create_future()
    socket, transport = come(door(loop, Desk(verdict)))

    socket.data_received(connect() + PING)
    turn(loop, 3)
    assert transport.written == b"" and transport.calls == ["pause"]
    verdict.set_result(True)
    turn(loop, 6)

    assert names(transport) == ["Connack", "Pingresp"]
    assert transport.calls == ["pause", "resume"]


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_what_stands_behind_connect_is_answered_however_the_bytes_are_cut(
    loop: asyncio.AbstractEventLoop, size: int
) -> None:
    at = door(loop)
    socket, transport = come(at)
    data = connect() + PING * 2

    for start in range(0, len(data), size):
        socket.data_received(data[start : start + size])
        turn(loop, 3)

    assert names(transport) == ["Connack", "Pingresp", "Pingresp"]
    assert at.gathered_bytes == 0


def test_a_slice_that_took_long_shortens_those_of_its_own_client_alone(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = door(loop)
    (slow, _), (other, _) = come(at), come(at)
    for socket, name in ((slow, "slow"), (other, "other")):
        socket.data_received(connect(name))
    turn(loop)
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    received = at.shell.live.received

    def takes_long(now: float, number: int, data: bytes) -> None:
        received(now, number, data)
        clock[0] += 1.0

    monkeypatch.setattr(at.shell.live, "received", takes_long)
    slow.data_received(PING)

    assert slow._slices.size == turns.SLICE_BYTES // 2
    assert other._slices.size == turns.NOTHING_WAITS.size == turns.SLICE_BYTES
    large = encode(Publish("t", b"x" * 3 * turns.SLICE_BYTES), Version.V5)
    slow.data_received(large)
    assert slow._slices.waits and not other._slices.waits and not turns.NOTHING_WAITS.waits


def test_a_client_that_may_be_silent_for_a_second_is_missed_soon(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not looked at only when the time for its CONNECT would have been over."""
    clock = Clock(loop, monkeypatch)
    monkeypatch.setattr(shell_module, "TICK_S", 0.5)
    at = door(loop)
    at.shell.start()
    (brief, its), (calm, others) = come(at), come(at)
    brief.data_received(connect("brief", keep_alive=1))
    calm.data_received(connect("calm", keep_alive=60))
    turn(loop)

    for _ in range(4):
        clock.advance(1.0)
        turn(loop, 3)

    assert at.bounds.connect_timeout_s > 4.0, "or this test tells nothing"
    assert names(its) == ["Connack", "Disconnect"]
    assert names(others) == ["Connack"]
    at.shell.stop()
