"""What is fuzzed: each target takes any bytes, and raises only if the broker would have failed on them.

A target begins from nothing each time, so that an input that fails fails again. `seeds.py` has inputs to begin with.
"""

import asyncio
import contextlib
import struct
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from roamq.core.errors import ConfigError, RemoteProtocolError
from roamq.core.events import BrokerId, Event, EventId
from roamq.core.filters import Filter
from roamq.net.clients.mqtt.codec import Connect, Decoder, MqttError, Properties, ReasonCode, Version, encode
from roamq.net.clients.mqtt.codec.packets import Publish, Subscribe, SubscriptionRequest, Unsubscribe, Will
from roamq.net.clients.mqtt.inputs import ClientInput, ConnectRequested
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.session import ConnectionPhase, ServerConnection
from roamq.net.clients.mqtt.state import SessionState
from roamq.net.clients.tickets import shown_epoch
from roamq.net.clients.tokens import TokenError, TokenKey, TokenOptions, Tokens
from roamq.net.clients.transports import ClientSocket, ClientWebSocket, Doorkeeper
from roamq.net.clients.turns import Turns
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.durable.journal import MAGIC, Journal, Reader, StorageError, segment_path
from roamq.net.links import wire
from roamq.net.links.protocol import Identity, LinkSession, Up
from roamq.net.machine import Machine
from roamq.net.ops.api import HttpRequest
from roamq.net.ops.configuration import parse_network
from roamq.net.ops.options import Bounds, Listener
from roamq.net.ops.settings import AccessRules, Quotas, Rule, Settings

Target = Callable[[bytes], None]
NOW: Final = 1000.0
V5, V311 = Version.V5, Version.V311
ME: Final = BrokerId("b1")
HONEST, FUZZED = 1, 2


# --- MQTT ----------------------------------------------------------------------------------------------------------


def codec(data: bytes) -> None:
    """Bytes in reads of any size. What was decoded is encoded and decoded again to the same."""
    if not data:
        return
    version = (None, V311, V5)[data[0] % 3]
    decoder = Decoder(version, max_packet_size=1000)
    at, step = 1, data[0] // 3 + 1
    packets: list[Any] = []
    try:
        while at < len(data):
            packets += decoder.feed(data[at : at + step])
            at += step
    except MqttError as error:
        packets += error.decoded
    for packet in packets:
        spoken = packet.version if isinstance(packet, Connect) else decoder.version or V5
        again = Decoder(None if isinstance(packet, Connect) else spoken).feed(encode(packet, spoken))
        assert again == [packet], (packet, again)


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Steps of a scenario: what to do, and bytes for it."""
    at = 0
    while at + 2 <= len(data):
        what, size = data[at], data[at + 1]
        yield what, data[at + 2 : at + 2 + size]
        at += 2 + size


def _settings(*brokers: str) -> Settings:
    rules = AccessRules(rules=(Rule(topics=("secret/%c/#",), may=frozenset()), Rule(topics=("#", "$SYS/#"))))
    quotas = Quotas(session_bytes_max=5000, store_bytes_max=20_000, retained_max=3, sessions_max=4)
    names = tuple(map(BrokerId, brokers))
    links = tuple((a, b) for place, a in enumerate(names) for b in names[place + 1 :])
    return Settings(me=ME, brokers=names, links=links, scheme="standard", quotas=quotas, access=rules)


def _opened(machine: Machine, number: int, now: float) -> None:
    machine.opened(number, now, "0:mqtt", "127.0.0.1:1")


_ALONE: Final = _settings("b1")
_HONEST_CONNECT: Final = encode(Connect(client_id="honest"), V5)
_HONEST_SUBSCRIBE: Final = encode(Subscribe(1, (SubscriptionRequest("#", 1),)), V5)


@cache
def _connect(what: int) -> bytes:
    """A CONNECT that can be read: the bits say which."""
    version = V5 if what & 8 else V311
    properties = Properties(session_expiry_interval=what & 0x70) if version is V5 else Properties()
    connect = Connect(
        version=version,
        client_id="c" if what & 0x80 else "d",
        clean_start=bool(what & 16),
        will=Will(topic="w", payload=b"", qos=1, retain=True) if what & 32 else None,
        properties=properties,
    )
    return encode(connect, version)


_LIMITS: Final = Limits(maximum_packet_size=1000, receive_maximum=3, topic_alias_maximum=2)


def session(data: bytes) -> None:
    """The same at a connection without a broker: what a client says is granted, and its session goes on. An input costs
    a tenth of one of `mqtt`."""
    state: SessionState | None = None
    connection, now, sequence = ServerConnection(_LIMITS, lambda: "made"), NOW, 0
    for what, piece in _pieces(data):
        now += 0.001
        kind = what & 7
        if kind < 5:
            _grant(
                connection,
                connection.receive((_connect(what) if kind == 4 else b"") + piece, now),
                state,
                now,
            )
        elif kind == 5:
            state = connection.state if connection.phase is ConnectionPhase.OPEN else state
            connection.lost(now)
            connection = ServerConnection(_LIMITS, lambda: "made")
        elif kind == 6:
            now += what
            connection.check_keep_alive(now)
        elif connection.phase is ConnectionPhase.OPEN and connection.outbound.quota:
            sequence += 1
            topic = "c/" + piece.hex()[:8]
            event = Event(
                id=EventId(ME, sequence), topic=topic, payload=piece, published_at=now, qos=what >> 3 & 1
            )
            connection.deliver(event, now)
        written = b"".join(connection.take_output())
        if written and connection.phase is ConnectionPhase.OPEN:
            Decoder(connection.terms.version).feed(written)  # what is sent can be read
    connection.lost(now)


def _grant(
    connection: ServerConnection, inputs: list[ClientInput], state: SessionState | None, now: float
) -> None:
    for said in inputs:
        if isinstance(said, ConnectRequested):
            if connection.phase is not ConnectionPhase.PENDING:
                return  # what came behind CONNECT has ended the connection
            begins = said.connect.clean_start or state is None or state.client_id != said.client_id
            _grant(connection, connection.accept(None if begins else state, now), None, now)
        elif isinstance(said, Publish):
            connection.published(said)
        elif isinstance(said, Subscribe):
            examined = connection.examine(said)
            connection.subscribed(examined, [ReasonCode(one.subscription.qos) for one in examined.wanted])
        elif isinstance(said, Unsubscribe):
            connection.unsubscribe(said)


def mqtt(data: bytes) -> None:
    """A client that sends anything, comes again and waits, beside one that is honest and must be served."""
    machine = Machine(_ALONE, NOW)
    now = NOW
    _opened(machine, HONEST, now)
    machine.received(HONEST, _HONEST_CONNECT, now)
    machine.authenticated(HONEST, None, now, allowed=True)
    machine.received(HONEST, _HONEST_SUBSCRIBE, now)
    number = FUZZED
    _opened(machine, number, now)
    for what, piece in _pieces(data):
        now += 0.001
        kind = what & 7
        if kind < 4:
            machine.received(number, piece, now)
        elif kind == 4:  # a CONNECT that can be read, and more behind it
            machine.received(number, _connect(what) + piece, now)
        elif kind == 5:  # gone, and back
            machine.lost(number, now)
            number += 1
            _opened(machine, number, now)
        elif kind == 6:
            now += what
            machine.check_keep_alive(number, now)
        else:
            machine.blocked(number, now, is_blocked=bool(what & 8))
        _settle(machine, now)
    machine.lost(number, now)
    machine.received(HONEST, b"\xc0\x00", now)
    written = b"".join(machine.connections.by_number[HONEST].mqtt.take_output())
    assert written.endswith(b"\xd0\x00"), "the honest client is served"


def _settle(machine: Machine, now: float) -> None:
    """Let logins in, ring what is due, and read what was written."""
    for _ in range(8):
        out = machine.take_outputs()
        for number, connection in out.dirty.items():
            if number != HONEST:
                connection.take_output()
        for login in out.logins:
            machine.authenticated(login.connection, login.username, now, allowed=True)
        for key, at in out.timers.items():
            if at is not None and at <= now:
                machine.timer(key, now)
        if not out.logins and not out.timers:
            return


# --- WebSocket -----------------------------------------------------------------------------------------------------


class _Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: Any) -> None: ...

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Loop:
    """Calls soon when it is told to."""

    def __init__(self) -> None:
        self.ready: list[Callable[[], None]] = []

    def call_soon(self, act: Callable[[], None]) -> None:
        self.ready.append(act)

    def run(self) -> None:
        while self.ready:
            self.ready.pop(0)()


class _Shell:
    """As much of a shell as a socket asks for."""

    stalled = None
    told = 0

    def __init__(self) -> None:
        self.loop = _Loop()
        self.turns = Turns(cast("Any", self.loop))
        self.counts: Counter[str] = Counter()
        self.clients: dict[int, Any] = {}
        self._live: LiveBroker | None = None
        self._opened = ("", "")

    @property
    def live(self) -> LiveBroker:
        """The broker behind the socket, made when a packet comes through: for most inputs none does."""
        if self._live is None:
            self._live = LiveBroker(_ALONE, NOW)
            self._live.machine.opened(1, NOW, *self._opened)
        return self._live

    def now(self) -> float:
        return NOW

    def opened(self, client: Any, listener: str, peer: str) -> int:
        self.clients[1] = client
        self._opened = (listener, peer)
        return 1

    def received(self, number: int, data: bytes) -> None:
        self.live.received(NOW, number, data)

    def connect(self, number: int, data: bytes, end: int) -> None:
        self.live.received(NOW, number, data)

    def mqtt(self, number: int) -> Any:
        return self.live.mqtt(number)

    def lost(self, number: int) -> None:
        if self._live is not None:
            self._live.machine.lost(number, NOW)

    def watch(self, number: int, at: float) -> None: ...

    def hurry(self, number: int, told: int) -> None: ...

    def feed(self, kind: InputKind, *details: Any) -> None: ...


REQUEST: Final = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)


def websocket(data: bytes) -> None:
    """A request, frames, or both, in reads of any size; what is held of a stranger is bounded and given back."""
    if not data:
        return
    shell = _Shell()
    door = Doorkeeper(cast("Any", shell), Bounds(connect_bytes_max=2000))
    listener = Listener(name="0:ws", websocket=True)
    client: ClientSocket = ClientWebSocket(door, listener)
    transport = _Transport()
    client.connection_made(transport)
    reads = [REQUEST] if data[0] & 1 else []
    step = data[0] // 2 + 1
    reads += [data[at : at + step] for at in range(1, len(data), step)]
    for read in reads:
        if transport.closed:
            break
        client.data_received(read)
        shell.loop.run()
        assert door.gathered_bytes <= 2000 + step or transport.closed
    client.connection_lost(None)
    assert door.gathered_bytes == 0


# --- links ---------------------------------------------------------------------------------------------------------


def links(data: bytes) -> None:
    """What a neighbour, or a stranger at the port, may send: a handshake and frames."""
    if not data:
        return
    who = Identity(network="n", me=ME, secret=b"s" * 16 if data[0] & 1 else None)
    session = LinkSession(
        who,
        nonce=b"n" * 32,
        count=lambda name: (5, 5) if name == "b2" else None,
        now=NOW,
        calls=BrokerId("b2") if data[0] & 2 else None,
    )
    try:
        for found in session.receive(data[1:], NOW):
            assert not isinstance(found, Up) or who.secret is None, "a stranger was let in"
    except RemoteProtocolError:
        pass


def frames(data: bytes) -> None:
    """The body of a frame: a message between brokers, or nothing that can be read."""
    with contextlib.suppress(RemoteProtocolError):
        wire.decode(data)


# --- text ----------------------------------------------------------------------------------------------------------


def selectors(data: bytes) -> None:
    """A topic filter and a selector; what can be read prints as what reads the same, and matches without failing."""
    topic, _, selector = data.decode("utf-8", "replace").partition("\n")
    try:
        found = Filter(topic or "#", selector)
    except ConfigError:
        return
    assert Filter(found.topic, found.selector) == found, (topic, selector)
    for attributes in ({}, {"a": 1, "b": "x", "c": True}, {"a": 1.5, "b": "", "c": None}):
        event = Event(
            id=EventId(ME, 1), topic="a/b", payload=b"", published_at=NOW, attributes=cast("Any", attributes)
        )
        found.matches(event)
    assert found.covers(found)


def tickets(data: bytes) -> None:
    """A ticket that a client shows: absurd ones are none."""
    text = data.decode("utf-8", "replace")
    shown = shown_epoch(
        Connect(client_id="c", properties=Properties(user_properties=(("roamq-ticket", text),))), NOW
    )
    assert shown is None or 0 <= shown.connected_at < NOW + 100_000


def configuration(data: bytes) -> None:
    """A file of a network: it is read, or refused with a word that an operator understands."""
    try:
        network = parse_network(data.decode("utf-8", "replace"))
        network.server_options(next(iter(network.brokers)))
    except ConfigError:
        pass


def http(data: bytes) -> None:
    """What a request to the operators' port says."""
    request = HttpRequest.parse(data.decode("latin-1"))
    request.shows("x" * 16)
    assert not request.shows("\0" * 16 + "never")


@cache
def _tokens() -> Tokens:
    key = TokenKey(data=b"s" * 32, is_secret=True, algorithms=frozenset({"HS256"}))
    return Tokens(TokenOptions(keys=(key,)), frozenset({"tenant"}))


def tokens(data: bytes) -> None:
    """A token: nobody gets in without the secret."""
    try:
        _tokens().verify(data, None)
    except TokenError:
        return
    raise AssertionError("a stranger was let in")


# --- files ---------------------------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
    return Path(tempfile.mkdtemp(prefix="roamq-fuzz-", dir=memory if memory.is_dir() else None))


def journal(data: bytes) -> None:
    """A segment with any bytes, or with any bytes in a group that is whole: entries, a cut, or a refusal by name."""
    if not data:
        return
    body = data[1:]
    if data[0] & 1:
        body = struct.pack("<4sII", MAGIC, len(body), zlib.crc32(body)) + body
    if data[0] & 2:
        body = _good_group() + body
    segment_path(_folder(), 1).write_bytes(body)
    live = LiveBroker(_settings("b1"), NOW)
    try:
        for entry in Reader(_folder(), 1):
            live.replay(entry)
    except StorageError:
        pass


@cache
def _good_group() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = Journal(Path(folder), 1)
        made.pending.append((int(InputKind.OPENED), NOW, 1, "0:mqtt", "127.0.0.1:1"))
        made.write()
        made.close()
        return segment_path(Path(folder), 1).read_bytes()


# --- all -----------------------------------------------------------------------------------------------------------

TARGETS: Final[dict[str, Target]] = {
    "codec": codec,
    "session": session,
    "mqtt": mqtt,
    "websocket": websocket,
    "links": links,
    "frames": frames,
    "selectors": selectors,
    "tickets": tickets,
    "tokens": tokens,
    "configuration": configuration,
    "journal": journal,
    "http": http,
}
