"""The shell's turns without sockets: order of journal and output, durability, stalls, deadlines."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from roamq.net import shell as shell_module
from roamq.net.clients import turns
from roamq.net.clients.mqtt.codec import Connack, Connect, Decoder, Packet, Pingreq, Publish, Version, encode
from roamq.net.clients.transports import connect_end
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.durable.journal import Journal, Reader
from roamq.net.ops.options import Durability
from roamq.net.outputs import Login
from roamq.net.shell import GATHER_S, HURRY_S, Shell
from roamq.net.surroundings import LoginDesk
from tests.support.clock import Clock
from tests.support.live_world import settings
from tests.support.waiting import eventually


class FakeClient:
    """Keeps what was done to it, with the size of the journal at that time."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.waits_for_login = False
        self.certified_user: str | None = None
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


def turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(asyncio.sleep(0))


def turn_until(loop: asyncio.AbstractEventLoop, condition: Callable[[], object]) -> None:
    loop.run_until_complete(eventually(condition))


class OpenDesk:
    """Lets everybody in, and remembers the passwords that it was shown."""

    def __init__(self) -> None:
        self.seen: list[bytes | None] = []

    def check(self, login: Login) -> bool:
        self.seen.append(login.password)
        return True


def make_shell(
    loop: asyncio.AbstractEventLoop,
    folder: Path | None = None,
    durability: Durability = Durability.MEMORY,
    logins: LoginDesk | None = None,
) -> Shell:
    node = LiveBroker(settings("b1", 1, "standard"), 1000.0)
    journal = Journal(folder, 1) if folder is not None else None
    return Shell(node, loop, logins or OpenDesk(), journal=journal, durability=durability)


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
    turn_until(loop, lambda: len(client.sent) == 1)
    shell.received(number, encode(Publish("t", b"x", 1, packet_id=5), Version.V5))
    turn_until(loop, lambda: len(client.sent) == 2)

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
    turn_until(loop, lambda: client.sent)

    assert isinstance(packets(client)[0], Connack)
    assert seen[-1] == 0
    shell.stop()


def test_all_inputs_of_a_turn_are_one_write_to_each_connection(loop: asyncio.AbstractEventLoop) -> None:
    shell, client = make_shell(loop), FakeClient()
    number = join(shell, client)
    turn_until(loop, lambda: client.sent)
    client.sent.clear()

    for _ in range(3):
        shell.received(number, encode(Pingreq(), Version.V5))
    turn(loop)

    assert client.sent == [b"\xd0\x00" * 3]


class EndlessTalker:
    """A connection that always has more to read."""

    def take_turn(self) -> bool:
        return True

    def abort(self) -> None: ...


def test_outputs_gather_while_there_is_more_to_read_but_for_clients_that_send_little(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    shell, client = make_shell(loop), FakeClient()
    number = join(shell, client)
    turn_until(loop, lambda: client.sent)
    client.sent.clear()
    monkeypatch.setattr(turns, "ROUND_S", 0.0)
    shell.turns.add(EndlessTalker())

    shell.received(number, encode(Pingreq(), Version.V5))
    for _ in range(5):
        turn(loop)
    assert not client.sent, "what was read may cause more for the same clients"
    now[0] += GATHER_S
    turn(loop)
    assert client.sent == [b"\xd0\x00"], "but not for long"

    told = shell.told
    shell.received(number, encode(Pingreq(), Version.V5))
    shell.hurry(number, told)
    now[0] += HURRY_S
    turn(loop)
    assert len(client.sent) == 2, "a client that sends little does not wait for the others"


def test_who_was_read_before_those_who_send_much_does_not_wait_for_them(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both in one turn of the loop: when the first was read, nobody had more to read."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(turns, "ROUND_S", 0.0)
    shell, client = make_shell(loop), FakeClient()
    number = join(shell, client)
    turn_until(loop, lambda: client.sent)
    client.sent.clear()

    shell.received(number, encode(Pingreq(), Version.V5))
    shell.turns.add(EndlessTalker())
    now[0] += HURRY_S
    turn(loop)

    assert client.sent == [b"\xd0\x00"]


def test_a_login_that_is_known_at_once_is_answered_in_the_same_turn(
    loop: asyncio.AbstractEventLoop, tmp_path: Path
) -> None:
    """One group of the journal has CONNECT and the verdict: with a disk, CONNACK waits for it once."""
    shell, client = make_shell(loop, tmp_path, Durability.PROCESS), FakeClient(tmp_path)

    join(shell, client)
    turn(loop)

    assert [type(packet).__name__ for packet in packets(client)] == ["Connack"]
    assert client.journaled == [3]
    assert [InputKind(entry[0]) for entry in Reader(tmp_path, 1)] == [
        InputKind.OPENED,
        InputKind.RECEIVED,
        InputKind.AUTHENTICATED,
    ]
    shell.stop()


def test_the_journal_never_sees_a_password(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    desk, client = OpenDesk(), FakeClient()
    shell = make_shell(loop, tmp_path, Durability.PROCESS, desk)
    join(shell, client)
    turn_until(loop, lambda: client.sent)

    assert desk.seen == [b"sesame"]
    data = (tmp_path / "segment-00000001.journal").read_bytes()
    assert b"sesame" not in data
    assert b"ann" in data
    replayed = LiveBroker(settings("b1", 1, "standard"), 1000.0)
    for entry in Reader(tmp_path, 1):
        replayed.replay(entry)
    assert replayed.machine.serves("c")
    assert shell.live.machine.serves("c")


CONNECT = encode(Connect(client_id="c", user_name="ann", password=b"sesame"), Version.V5)
TOO_SHORT = CONNECT[:1] + bytes([CONNECT[1] - 6]) + CONNECT[2:-6]
"""A CONNECT that ends before its password by its own account."""
METHOD = b"\x11\x15\x00\x05PLAIN\x16\x00\x06sesame"
"""Properties: an authentication method and its data."""
AUTH = b"\xf0\x13\x18" + METHOD


def cut_at(*places: int) -> list[bytes]:
    ends = [0, *places, 2 * len(CONNECT)]
    return [(CONNECT + CONNECT)[begin:end] for begin, end in pairwise(ends)]


@pytest.mark.parametrize(
    "reads",
    [
        cut_at(),
        cut_at(len(CONNECT)),
        cut_at(len(CONNECT) + 1),
        cut_at(len(CONNECT) + 2),
        [CONNECT, b"\xc0\x00" + CONNECT],
        [CONNECT, b"\xc0", b"\x00" + CONNECT[:20], CONNECT[20:]],
        [CONNECT, b"\x30\x07\x00\x01t", b"\x00pay" + CONNECT],
        [CONNECT[:9] + b"\xff" + CONNECT[10:]],
        [CONNECT[:5] + b"\x00" + CONNECT[6:]],
        [b"\x10\xff\xff\xff\xff" + CONNECT],
        [b"\x00" + CONNECT],
        [CONNECT[:9] + b"\xff" + CONNECT[10:], CONNECT],
        [TOO_SHORT, b"sesame"],
        [b"\x10\x1f\x00\x04MQTT\x05\x02\x00\x00" + METHOD + b"\x00\x01c"],
        [CONNECT, AUTH],
        [CONNECT, b"\xc0\x00" + AUTH[:5], AUTH[5:]],
    ],
    ids=lambda reads: f"{len(reads)} reads",
)
def test_no_password_of_a_malformed_or_second_connect_is_journaled(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, reads: list[bytes]
) -> None:
    shell, client = make_shell(loop, tmp_path, Durability.PROCESS), FakeClient()
    number = shell.opened(client, "0:mqtt", "127.0.0.1:1")
    end = connect_end(reads[0]) or 0
    shell.connect(number, reads[0], end)
    turn(loop)
    for data in reads[1:]:
        shell.received(number, data)
        turn(loop)
    turn_until(loop, lambda: "close" in client.calls)

    assert b"sesame" not in (tmp_path / "segment-00000001.journal").read_bytes()
    replayed = LiveBroker(settings("b1", 1, "standard"), 1000.0)
    for entry in Reader(tmp_path, 1):
        replayed.replay(entry)
    mine, theirs = shell.live.mqtt(number), replayed.mqtt(number)
    assert mine is not None and theirs is not None
    assert mine.phase is theirs.phase
    assert replayed.machine.serves("c") == shell.live.machine.serves("c")


def test_no_password_that_comes_after_a_refusal_is_journaled(
    loop: asyncio.AbstractEventLoop, tmp_path: Path
) -> None:
    """It came before the client could know of the refusal, and was written as it was."""

    class ClosedDesk:
        def check(self, login: Login) -> bool:
            return False

    shell, client = make_shell(loop, tmp_path, Durability.PROCESS, ClosedDesk()), FakeClient()
    shell.received(join(shell, client), CONNECT)
    turn_until(loop, lambda: "close" in client.calls)

    assert b"sesame" not in (tmp_path / "segment-00000001.journal").read_bytes()


def test_a_full_disk_stops_reading_and_answering_until_there_is_room(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "RETRY_S", 0.02)
    shell, client = make_shell(loop, tmp_path, Durability.PROCESS), FakeClient()
    number = join(shell, client)
    turn_until(loop, lambda: client.sent)
    client.sent.clear()
    client.calls.clear()

    tried = 0

    def full(file: int, data: bytes) -> int:
        nonlocal tried
        tried += 1
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        shell.received(number, encode(Publish("t", b"x", 1, packet_id=5), Version.V5))
        turn_until(loop, lambda: tried > 3)
        assert client.sent == []
        assert client.calls == ["pause stalled"]
        assert shell.stalled is not None and "No space left" in shell.stalled

    turn_until(loop, lambda: client.sent)
    assert [type(packet).__name__ for packet in Decoder(Version.V5).feed(b"".join(client.sent))] == ["Puback"]
    assert client.calls == ["pause stalled", "resume stalled"]
    assert shell.stalled is None


def test_an_input_that_fails_costs_its_own_connection_alone(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, good, bad = make_shell(loop), FakeClient(), FakeClient()
    numbers = join(shell, good, "good"), join(shell, bad, "bad")
    turn_until(loop, lambda: good.sent and bad.sent)
    received = shell.live.received

    def broken(now: float, connection: int, data: bytes) -> None:
        if connection == numbers[1]:
            raise AssertionError("a bug")
        received(now, connection, data)

    monkeypatch.setattr(shell.live, "received", broken)
    good.sent.clear()
    for number in numbers:
        shell.received(number, encode(Pingreq(), Version.V5))
    turn(loop)

    assert bad.calls == ["abort"]
    assert good.sent == [b"\xd0\x00"]
    assert shell.counts["fault"] == 1


@pytest.mark.parametrize("jumps", [(3600.0, -3600.0), (-3600.0, 3600.0), (3600.0, 0.0), (-3600.0, 0.0)])
def test_a_wall_clock_that_jumps_freezes_nothing(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, jumps: tuple[float, float]
) -> None:
    """A time server sets the clock by an hour, and back: clients come in, and deadlines are kept."""
    clock = Clock(loop, monkeypatch)
    monkeypatch.setattr(shell_module, "TICK_S", 0.5)
    shell, watched = make_shell(loop), FakeClient()
    shell.start()
    number = shell.opened(watched, "0:mqtt", "127.0.0.1:1")
    began = shell.now()
    shell.watch(number, began + 20.0)
    times = []
    for second in range(60):
        if second in (5, 30):
            clock.set_wall(jumps[second == 30])
        clock.advance(1.0)
        turn(loop)
        times.append(shell.now())

    assert times == sorted(times)
    assert all(0.9 <= later - earlier <= 1.1 for earlier, later in pairwise(times))
    assert watched.checked == 1
    client = FakeClient()
    join(shell, client)
    turn_until(loop, lambda: client.sent)
    assert isinstance(packets(client)[0], Connack)
    shell.stop()


def test_a_broker_whose_past_lies_in_the_future_serves(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped while the clock was an hour ahead, and started after the clock was set back."""
    clock = Clock(loop, monkeypatch)
    ahead = time.time() + 3600.0
    live = LiveBroker(settings("b1", 1, "standard"), ahead)
    live.machine.host.set_timer(("session", "nobody"), 10.0)
    live.note_timers()
    shell = Shell(live, loop, OpenDesk())
    shell.start()
    for _ in range(12):
        clock.advance(1.0)
        turn(loop)

    assert shell.now() > ahead + 10.0
    assert live.timers == {}, "the timer has come"
    shell.stop()


def test_deadlines_are_looked_at_on_a_coarse_wheel(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(loop, monkeypatch)
    monkeypatch.setattr(shell_module, "TICK_S", 0.5)
    shell, client = make_shell(loop), FakeClient()
    number = shell.opened(client, "0:mqtt", "127.0.0.1:1")
    shell.watch(number, shell.now() + 100.2)
    shell.start()
    checked = []
    for _ in range(103):
        clock.advance(1.0)
        turn(loop)
        checked.append(client.checked)

    assert checked == [0] * 100 + [1] * 3
    shell.stop()


class Patient(FakeClient):
    """A client whose keep alive is long."""

    def check(self, now: float) -> float | None:
        self.checked += 1
        return now + 90_000


def test_who_left_with_a_long_keep_alive_is_not_on_the_wheel_for_long(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(loop, monkeypatch)
    shell = make_shell(loop)
    shell.start()
    for _ in range(20):
        client = Patient()
        number = shell.opened(client, "0:mqtt", "127.0.0.1:1")
        shell.watch(number, shell.now() + 1)
        for _ in range(3):
            clock.advance(1.0)
            turn(loop)
        assert client.checked
        shell.lost(number)
    assert shell._wheel
    for _ in range(62):
        clock.advance(1.0)
        turn(loop)

    assert not shell._wheel
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
