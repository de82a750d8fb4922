"""The shell's turns without sockets: order of journal and output, durability, stalls, deadlines."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from roamq.net import shell as shell_module
from roamq.net.journal import Journal, Reader
from roamq.net.mqtt.codec import Connack, Connect, Decoder, Packet, Pingreq, Publish, Version, encode
from roamq.net.node import Kind, Node
from roamq.net.options import Durability
from roamq.net.shell import Shell
from roamq.net.transports import connect_end
from roamq.net.wiring import Login
from tests.support.live_world import settings


class FakeClient:
    """Keeps what was done to it, with the size of the journal at that time."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.waits_for_login = False
        self.sent: list[bytes] = []
        self.journaled: list[int] = []
        self.calls: list[str] = []
        self.checked = 0

    def send(self, data: bytes) -> None:
        self.sent.append(data)
        if self.folder is not None:
            self.journaled.append(len(list(Reader(self.folder, 1))))

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def pause(self, why: str) -> None:
        self.calls.append(f"pause {why}")

    def resume(self, why: str) -> None:
        self.calls.append(f"resume {why}")

    def check(self, now: float) -> float | None:
        self.checked += 1
        return None


def packets(client: FakeClient) -> list[Packet]:
    return Decoder(Version.V5).feed(b"".join(client.sent))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn(loop: asyncio.AbstractEventLoop, seconds: float = 0.0) -> None:
    loop.run_until_complete(asyncio.sleep(seconds))


def make_shell(
    loop: asyncio.AbstractEventLoop, folder: Path | None = None, durability: Durability = Durability.MEMORY
) -> Shell:
    node = Node(settings("b1", 1, "standard"), 1000.0)
    journal = Journal(folder, 1) if folder is not None else None
    shell = Shell(node, loop, journal=journal, durability=durability)

    def let_in(login: Login) -> None:
        shell.feed(Kind.AUTHENTICATED, login.connection, login.username, True)

    shell.on_login = let_in
    return shell


def join(shell: Shell, client: FakeClient, name: str = "c") -> int:
    number = shell.opened(client, "0:mqtt", "127.0.0.1:1")
    data = encode(Connect(client_id=name, user_name="ann", password=b"sesame"), Version.V5)
    shell.connect(number, data, len(data))
    return number


@pytest.mark.parametrize("durability", [Durability.PROCESS, Durability.DISK])
def test_outputs_leave_after_their_cause_is_in_the_journal(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, durability: Durability
) -> None:
    shell, client = make_shell(loop, tmp_path, durability), FakeClient(tmp_path)

    number = join(shell, client)
    turn(loop, 0.05)
    shell.received(number, encode(Publish("t", b"x", 1, packet_id=5), Version.V5))
    turn(loop, 0.05)

    assert [type(packet).__name__ for packet in packets(client)] == ["Connack", "Puback"]
    # opened, CONNECT, verdict before CONNACK; PUBLISH before PUBACK
    assert client.journaled == [3, 4]
    shell.stop()


def test_with_disk_nothing_leaves_before_the_disk_has_it(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, client = make_shell(loop, tmp_path, Durability.DISK), FakeClient()
    seen: list[int] = []
    real_sync = os.fdatasync

    def sync(file: int) -> None:
        seen.append(len(client.sent))
        real_sync(file)

    monkeypatch.setattr(os, "fdatasync", sync)
    join(shell, client)
    turn(loop, 0.1)

    assert isinstance(packets(client)[0], Connack)
    assert seen[-1] == 0
    shell.stop()


def test_all_inputs_of_a_turn_are_one_write_to_each_connection(loop: asyncio.AbstractEventLoop) -> None:
    shell, client = make_shell(loop), FakeClient()
    number = join(shell, client)
    turn(loop, 0.01)
    client.sent.clear()

    for _ in range(3):
        shell.received(number, encode(Pingreq(), Version.V5))
    turn(loop)

    assert client.sent == [b"\xd0\x00" * 3]


def test_the_journal_never_sees_a_password(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    shell, client = make_shell(loop, tmp_path, Durability.PROCESS), FakeClient()
    seen: list[bytes | None] = []
    let_in = shell.on_login

    def look(login: Login) -> None:
        seen.append(login.password)
        let_in(login)

    shell.on_login = look
    join(shell, client)
    turn(loop, 0.01)

    assert seen == [b"sesame"]
    data = (tmp_path / "segment-00000001.journal").read_bytes()
    assert b"sesame" not in data
    assert b"ann" in data
    replayed = Node(settings("b1", 1, "standard"), 1000.0)
    for entry in Reader(tmp_path, 1):
        replayed.replay(entry)
    assert replayed.machine.by_client.keys() == shell.machine.by_client.keys() == {"c"}


def test_a_full_disk_stops_reading_and_answering_until_there_is_room(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "RETRY_S", 0.02)
    shell, client = make_shell(loop, tmp_path, Durability.PROCESS), FakeClient()
    number = join(shell, client)
    turn(loop, 0.01)
    client.sent.clear()
    client.calls.clear()

    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        shell.received(number, encode(Publish("t", b"x", 1, packet_id=5), Version.V5))
        turn(loop, 0.1)
        assert client.sent == []
        assert client.calls == ["pause stalled"]
        assert shell.stalled is not None and "No space left" in shell.stalled

    turn(loop, 0.1)
    assert [type(packet).__name__ for packet in Decoder(Version.V5).feed(b"".join(client.sent))] == ["Puback"]
    assert client.calls == ["pause stalled", "resume stalled"]
    assert shell.stalled is None


def test_an_input_that_fails_costs_its_own_connection_alone(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, good, bad = make_shell(loop), FakeClient(), FakeClient()
    numbers = join(shell, good, "good"), join(shell, bad, "bad")
    turn(loop, 0.01)
    received = shell.machine.received

    def broken(connection: int, data: bytes, now: float) -> None:
        if connection == numbers[1]:
            raise AssertionError("a bug")
        received(connection, data, now)

    monkeypatch.setattr(shell.machine, "received", broken)
    good.sent.clear()
    for number in numbers:
        shell.received(number, encode(Pingreq(), Version.V5))
    turn(loop)

    assert bad.calls == ["abort"]
    assert good.sent == [b"\xd0\x00"]
    assert shell.counts["fault"] == 1


def test_time_never_goes_back(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = make_shell(loop)
    clock = iter([2000.0, 1500.0, 2001.0])
    monkeypatch.setattr(time, "time", lambda: next(clock))
    shell._last_now = 0.0

    assert [shell.now() for _ in range(3)] == [2000.0, 2000.0, 2001.0]


def test_deadlines_are_looked_at_on_a_coarse_wheel(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "TICK_S", 0.01)
    shell, client = make_shell(loop), FakeClient()
    number = shell.opened(client, "0:mqtt", "127.0.0.1:1")
    shell.watch(number, shell.now() + 0.2)
    shell.start()

    turn(loop, 0.1)
    assert client.checked == 0
    turn(loop, 1.4)
    assert client.checked == 1
    shell.stop()


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", None),
        (b"\x10", None),
        (b"\x10\x7f", 129),
        (b"\x10\x80", None),
        (b"\x10\x80\x01", 131),
        (b"\x10\xff\xff\xff\xff", 0),
        (b"GET / HTTP", 0),
    ],
)
def test_where_connect_ends_is_known_from_its_first_bytes(data: bytes, end: int | None) -> None:
    assert connect_end(data) == end
