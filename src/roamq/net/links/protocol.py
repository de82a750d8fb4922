"""The link between two brokers, as a protocol without I/O: handshake, numbered frames, acknowledgements, resumption.

Either side says HELLO with its name and the last frame it has received from the other. Both prove that they know the
network's secret, the caller first, or TLS has proved their names. Then frames flow, each with its number, many in one
write; an acknowledgement says up to which number all frames are safe. After a break the sender goes on with the first
frame that the receiver's HELLO does not cover: no frame is lost, and none is taken twice.

    message     length (4 bytes), kind (1 byte), body
    HELLO       MessagePack [oldest, network, name, to, nonce, received, sent, newest, description, call, through,
                asks]: the versions the sender speaks, checksums of what it was told about the network, the number of a
                caller's call, and the brokers of a detour
    PROOF       HMAC-SHA-256(secret, side, both names, both nonces)
    FRAMES      MessagePack [[number, frame], ...]
    ACK         MessagePack number
    PING        empty: the sender lives
    LINKED      MessagePack [[broker, number, [broker, ...], [broker, ...]], ...]: a broker, those it is linked with
                directly, and those linked with it that call and cannot be called (`linkmap`)
    CALL_BACK   MessagePack token: a broker asks for a link with the receiver, which cannot be called but may call

A caller may ask a neighbour to carry its link with another broker (`detours`). The caller's HELLO says so (`asks`).
When both have proved themselves, two messages follow, and then the bytes of the carried link:

    ASK         MessagePack [broker, ...]: the further carriers of the link, and the broker at its other end
    CARRIED     MessagePack text: empty, or the reason why the link is not carried

A broker that cannot be called, and is asked to call back, calls in the same way. In the place of ASK it says

    MEET        MessagePack token: the token of CALL_BACK

The bytes of the link follow; the broker that called back is the called end of the link.
"""

import hashlib
import hmac
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Final

import msgspec

from roamq.core.errors import RemoteProtocolError
from roamq.core.events import BrokerId

OLDEST: Final = 3
NEWEST: Final = 6
"""The versions of this protocol, and of the messages in its frames (`wire`), that this program speaks. Two brokers
speak the newest version that both know. From version 4 on, HELLO says which versions the sender speaks, and a receiver
passes over unknown parts of a message."""
DETOURS_SINCE: Final = 5
"""The first version that knows LINKED, and links that others carry."""
EDGES_SINCE: Final = 6
"""The first version that knows links between brokers that joined later, and CALL_BACK."""
CARRIERS_MAX: Final = 4
"""Most brokers through which a link may run."""
NONCE_BYTES: Final = 32
HANDSHAKE_BYTES_MAX: Final = 1024
"""Bytes that a stranger may send at most."""
MESSAGE_BYTES_MAX: Final = 512 * 1024 * 1024
PING_EVERY_S: Final = 5.0
SILENCE_S_MAX: Final = 15.0
"""Seconds of silence after which a peer counts as gone."""
BATCH_BYTES: Final = 64 * 1024
"""Bytes of a message into which frames are gathered, about."""

Frame = tuple[int, bytes]
_HEADER: Final = struct.Struct(">IB")
_encode: Final = msgspec.msgpack.Encoder().encode


class LinkMessageKind(IntEnum):
    HELLO = 1
    PROOF = 2
    FRAMES = 3
    ACK = 4
    PING = 5
    LINKED = 6
    ASK = 7
    CARRIED = 8
    CALL_BACK = 9
    MEET = 10


class LinkPhase(Enum):
    """How far a link has come."""

    GREETING = "greeting"
    PROVING = "proving"
    UP = "up"


class LinkHello(msgspec.Struct, array_like=True, frozen=True):
    oldest: int
    network: str
    name: str
    to: str
    """The broker that the sender called; empty if the sender was called and does not know yet which broker called
    it."""
    nonce: bytes
    received: int
    sent: int
    newest: int = 0
    """0: the sender speaks one version only, the oldest."""
    description: dict[str, str] = {}
    """Subject on which the brokers of a network must agree -> the checksum of what the sender was told about it."""
    call: int = 0
    """The number of the caller's call: later calls have higher numbers. A caller hangs up before it calls again, so
    that its HELLO counts everything that was said before; 0 if it does not say."""
    through: tuple[str, ...] = ()
    """The brokers that carry this link, as seen from the caller."""
    asks: bool = False
    """Whether the caller wants to have a link with another broker carried, and not a link with the broker it calls."""


class LinkedWith(msgspec.Struct, array_like=True, frozen=True):
    """A broker, and the brokers to which it can carry links because it is linked with them directly."""

    broker: BrokerId
    number: int
    """Of two statements about one broker the one with the higher number holds."""
    linked: tuple[BrokerId, ...]
    edges: tuple[BrokerId, ...] = ()
    """Brokers that joined later and have called this broker: it can carry links to them, and they carry none."""


@dataclass(frozen=True, slots=True)
class Up:
    """The peer has proved its name; it has every frame up to `received`."""

    peer: BrokerId
    received: int


@dataclass(frozen=True, slots=True)
class Frames:
    frames: list[Frame]


@dataclass(frozen=True, slots=True)
class Acked:
    sequence: int


@dataclass(frozen=True, slots=True)
class Linked:
    """The direct links of brokers, as the peer has heard of them."""

    entries: list[LinkedWith]


@dataclass(frozen=True, slots=True)
class Asked:
    """The peer asks to have a link carried along these brokers, to the last of them."""

    path: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """The bytes that follow are those of the carried link, unless `refusal` says why it is not carried."""

    refusal: str


@dataclass(frozen=True, slots=True)
class CallBack:
    """The peer carries a link to this broker, if this broker calls and names the token."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Meets:
    """The peer has called back: the bytes that follow are those of the link that the token stands for."""

    token: bytes


LinkInput = Up | Frames | Acked | Linked | Asked | Carried | CallBack | Meets


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of this broker, as it shows it to others."""

    network: str
    me: BrokerId
    secret: bytes | None
    """The secret that the network shares; None if TLS vouches for both sides."""
    description: Mapping[str, str] = field(default_factory=dict)
    """Subject on which the brokers of a network must agree -> the checksum of what this broker was told about it."""


class LinkSession:
    """One connection of a link, from either side. Bytes come in, inputs go out; the caller writes `output`."""

    def __init__(
        self,
        identity: Identity,
        *,
        nonce: bytes,
        count: Callable[[str], tuple[int, int] | None],
        now: float,
        calls: BrokerId | None = None,
        vouched_for: str | None = None,
        call: int = 0,
        through: tuple[BrokerId, ...] = (),
        asks: bool = False,
        oldest: int | None = None,
    ) -> None:
        """`count`: neighbour -> the last frame safely received from it and the last one sent to it; None for a broker
        that is no neighbour. `calls`: the broker that we called, or None if we were called. `vouched_for`: the name in
        the peer's certificate. `call`: the number of our call. `through`: the carriers of the link for which we call.
        `asks`: we call to have another link carried. `oldest`: the oldest version that knows everything that this
        network uses."""
        assert len(nonce) == NONCE_BYTES
        self.identity = identity
        self._count = count
        self.phase = LinkPhase.GREETING
        self._oldest = OLDEST if oldest is None else oldest
        self.version = self._oldest
        """The version that both sides speak, once the peer has said HELLO."""
        self.peer: BrokerId | None = calls
        self.call = call
        """The number of the caller's call."""
        self.through = through
        """The brokers that carry this link; empty if it is direct."""
        self.asks = asks
        """Whether the caller wants to have a link with another broker carried."""
        self.output: list[bytes] = []
        self.heard_at = now
        self.told_received = 0
        """The number up to which, by our HELLO, we have the peer's frames."""
        self._called = calls is not None
        self._nonce = nonce
        self._vouched_for = vouched_for
        self._hello: LinkHello | None = None
        self._buffer = bytearray()
        if calls is not None:
            self._say_hello(calls)

    # --- what we say -------------------------------------------------------------------------------------------

    def send(self, frames: Iterable[Frame]) -> None:
        """Send frames in order; an earlier connection may have sent the same frames."""
        assert self.phase is LinkPhase.UP
        batch: list[Frame] = []
        size = 0
        for frame in frames:
            batch.append(frame)
            size += len(frame[1])
            if size >= BATCH_BYTES:
                self._say(LinkMessageKind.FRAMES, _encode(batch))
                batch, size = [], 0
        if batch:
            self._say(LinkMessageKind.FRAMES, _encode(batch))

    def acknowledge(self, sequence: int) -> None:
        self._say(LinkMessageKind.ACK, _encode(sequence))

    def ping(self) -> None:
        self._say(LinkMessageKind.PING, b"")

    def tell_linked(self, entries: Iterable[LinkedWith]) -> None:
        if self.version >= DETOURS_SINCE:
            self._say(LinkMessageKind.LINKED, _encode(list(entries)))

    def ask(self, path: Iterable[BrokerId]) -> None:
        """Ask the peer to have a link carried along `path`; it answers with `Carried`."""
        assert self.phase is LinkPhase.UP and self.asks and self._called
        self._say(LinkMessageKind.ASK, _encode(list(path)))

    def call_back(self, token: bytes) -> None:
        """Ask the peer, which cannot be called, to call for a link that is carried to it."""
        assert self.phase is LinkPhase.UP and self.version >= EDGES_SINCE
        self._say(LinkMessageKind.CALL_BACK, _encode(token))

    def meet(self, token: bytes) -> None:
        """Say that we have called back; the bytes after this are those of the link."""
        assert self.phase is LinkPhase.UP and self.asks and self._called
        self._say(LinkMessageKind.MEET, _encode(token))

    def answer(self, refusal: str = "") -> None:
        """Answer `Asked`; without a refusal, the bytes after the answer are those of the link."""
        assert self.phase is LinkPhase.UP and self.asks and not self._called
        self._say(LinkMessageKind.CARRIED, _encode(refusal))

    def is_silent(self, now: float) -> bool:
        return now - self.heard_at > SILENCE_S_MAX

    def take_output(self) -> bytes:
        data = b"".join(self.output)
        self.output.clear()
        return data

    def _say(self, kind: LinkMessageKind, body: bytes) -> None:
        self.output.append(_HEADER.pack(len(body), kind))
        self.output.append(body)

    def _say_hello(self, peer: BrokerId) -> None:
        received, sent = self._count(peer) or (0, 0)  # the peer may have departed since it was called
        self.told_received = received
        to = peer if self._called else ""
        mine = self.identity
        described = dict(mine.description)
        # A broker that does not know detours refuses this HELLO.
        oldest = max(DETOURS_SINCE, self._oldest) if self.asks else self._oldest
        hello = LinkHello(
            oldest,
            mine.network,
            mine.me,
            to,
            self._nonce,
            received,
            sent,
            NEWEST,
            described,
            self.call if self._called else 0,
            self.through if self._called else (),
            self.asks and self._called,
        )
        self._say(LinkMessageKind.HELLO, _encode(hello))

    # --- what we hear ------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[LinkInput]:
        """Read bytes and return their meaning. Whatever is wrong raises `RemoteProtocolError`: then close the
        connection."""
        self.heard_at = now
        buffer = self._buffer
        buffer += data
        inputs: list[LinkInput] = []
        at = 0
        while len(buffer) - at >= _HEADER.size:
            length, kind = _HEADER.unpack_from(buffer, at)
            size_max = MESSAGE_BYTES_MAX if self.phase is LinkPhase.UP else HANDSHAKE_BYTES_MAX
            if length > size_max:
                raise RemoteProtocolError(f"a message of {length} bytes, allowed {size_max}")
            start = at + _HEADER.size
            if len(buffer) - start < length:
                break
            at = start + length
            found = self._hear(kind, bytes(buffer[start:at]))
            if found is not None:
                inputs.append(found)
        del buffer[:at]
        return inputs

    def _hear(self, kind: int, body: bytes) -> LinkInput | None:
        if self.phase is LinkPhase.UP and self.asks:
            if kind == LinkMessageKind.ASK and not self._called:
                return Asked(_path(body))
            if kind == LinkMessageKind.MEET and not self._called:
                return Meets(_read(body, bytes))
            if kind == LinkMessageKind.CARRIED and self._called:
                return Carried(_read(body, str))
        elif self.phase is LinkPhase.UP:
            if kind == LinkMessageKind.FRAMES:
                return Frames(_read(body, list[tuple[int, bytes]]))
            if kind == LinkMessageKind.ACK:
                return Acked(_read(body, int))
            if kind == LinkMessageKind.PING:
                return None
            if kind == LinkMessageKind.LINKED:
                return Linked(_read(body, list[LinkedWith]))
            if kind == LinkMessageKind.CALL_BACK:
                return CallBack(_read(body, bytes))
        elif kind == LinkMessageKind.HELLO and self.phase is LinkPhase.GREETING:
            return self._on_hello(_read(body, LinkHello))
        elif kind == LinkMessageKind.PROOF and self.phase is LinkPhase.PROVING:
            return self._on_proof(body)
        raise RemoteProtocolError(f"message of kind {kind} while {self.phase.value}")

    def _on_hello(self, hello: LinkHello) -> LinkInput | None:
        self.version = self._check(hello)
        peer = BrokerId(hello.name)
        self._hello = hello
        self.peer = peer
        if not self._called:
            self.call = hello.call
            self.through = tuple(BrokerId(name) for name in hello.through)
            self.asks = hello.asks
            self._say_hello(peer)
        if self.identity.secret is None:
            return self._up()
        if self._called:
            self._say(LinkMessageKind.PROOF, self._proof(of_caller=True))
        self.phase = LinkPhase.PROVING
        return None

    def _on_proof(self, proof: bytes) -> LinkInput:
        if not hmac.compare_digest(proof, self._proof(of_caller=not self._called)):
            raise RemoteProtocolError(f"{self.peer} does not know the network's secret")
        if not self._called:
            # The caller proves itself first: a stranger gets nothing that was made with the secret.
            self._say(LinkMessageKind.PROOF, self._proof(of_caller=False))
        return self._up()

    def _up(self) -> Up:
        assert self.peer is not None and self._hello is not None
        self.phase = LinkPhase.UP
        return Up(self.peer, self._hello.received)

    def _check(self, hello: LinkHello) -> int:
        """Raise what is wrong with a HELLO. Return the version that both sides speak."""
        mine = self.identity
        newest = hello.newest or hello.oldest
        version = min(newest, NEWEST)
        if version < max(hello.oldest, self._oldest):
            raise RemoteProtocolError(
                f"{hello.name!r} speaks versions {hello.oldest} to {newest} of links, this broker {self._oldest} to "
                f"{NEWEST}: upgrade the older of the two"
            )
        if hello.network != mine.network:
            raise RemoteProtocolError(f"a broker of the network {hello.network!r}, not of {mine.network!r}")
        theirs = hello.description
        differing = sorted(n for n in mine.description.keys() & theirs if mine.description[n] != theirs[n])
        if differing:
            if self._count(hello.name) is not None:
                self.peer = BrokerId(hello.name)  # so that operators are told which neighbour it is
            raise RemoteProtocolError(
                f"{hello.name!r} disagrees with {mine.me!r} about {', '.join(differing)}; "
                "give all brokers the same configuration"
            )
        expected = self.peer if self._called else None
        if expected is not None and hello.name != expected:
            raise RemoteProtocolError(f"{hello.name!r} answered where {expected!r} was called")
        counted = self._count(hello.name)
        if counted is None:
            raise RemoteProtocolError(f"{hello.name!r} is no neighbour")
        if not self._called and hello.to != mine.me:
            raise RemoteProtocolError(f"{hello.name!r} called for {hello.to!r}")
        if self._vouched_for is not None and self._vouched_for != hello.name:
            raise RemoteProtocolError(f"{hello.name!r} has the certificate of {self._vouched_for!r}")
        if len(hello.nonce) != NONCE_BYTES or hmac.compare_digest(hello.nonce, self._nonce):
            raise RemoteProtocolError("a nonce of the wrong size, or our own")
        received, _ = counted
        # A broker that asks has another connection, on which frames flow meanwhile.
        if hello.sent < received and not (hello.asks or self.asks):
            raise RemoteProtocolError(
                f"{hello.name!r} counts its frames from {hello.sent}, but has sent up to {received}: its data were "
                "replaced by an old copy, or its clock was set back"
            )
        return version

    def _proof(self, *, of_caller: bool) -> bytes:
        """A proof of names and nonces in a fixed order, and of the side, so that nobody can send our own proof back."""
        assert self._hello is not None and self.identity.secret is not None
        ours = (self.identity.me, self._nonce)
        theirs = (self._hello.name, self._hello.nonce)
        caller, called = (ours, theirs) if self._called else (theirs, ours)
        said = (self.identity.network, of_caller, caller, called)
        text = _encode((*said, "asks") if self.asks else said)
        return hmac.new(self.identity.secret, text, hashlib.sha256).digest()


def _path(body: bytes) -> tuple[BrokerId, ...]:
    """The brokers of an ASK: the further carriers of the link, and the broker at its end."""
    path = tuple(BrokerId(name) for name in _read(body, list[str]))
    if not path or len(path) > CARRIERS_MAX or len(set(path)) < len(path):
        raise RemoteProtocolError(f"a detour over {len(path)} brokers, some of them twice or too many")
    return path


def _read(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (
        msgspec.MsgspecError,
        ValueError,
        RecursionError,
    ) as error:  # text that is not UTF-8 is a ValueError
        raise RemoteProtocolError(f"not a message of a link: {error}") from error
