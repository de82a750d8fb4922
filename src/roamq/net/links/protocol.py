"""The link between two brokers, as a protocol without I/O: handshake, numbered frames, acknowledgements, resumption.

Either side says HELLO with its name and the last frame it has received from the other; both prove that they know the
network's secret, the caller first, or TLS has proved who they are. Then frames flow, each with its number, many in one
write; an acknowledgement says up to which number all is safe. After a break the sender goes on with the first frame
that the receiver's HELLO does not cover: nothing is lost and nothing is taken twice.

    message     length (4 bytes), kind (1 byte), body
    HELLO       MessagePack [oldest, network, name, to, nonce, received, sent, newest, description, call, through,
                asks]: the versions the sender speaks, checksums of what it was told about the network, the number of a
                caller's call, and the brokers of a detour
    PROOF       HMAC-SHA-256(secret, side, both names, both nonces)
    FRAMES      MessagePack [[number, frame], ...]
    ACK         MessagePack number
    PING        empty: the sender lives
    LINKED      MessagePack [[broker, number, [broker, ...], [broker, ...]], ...]: whom each is linked with directly,
                and which brokers that call and cannot be called are linked with it (`linkmap`)
    CALL_BACK   MessagePack token: somebody asks for a link with the receiver, which cannot be called: it may call

A caller may ask a neighbour to carry its link with somebody else (`detours`). Its HELLO says so (`asks`); when both
have proved themselves, two messages follow, and then the bytes of the link that is carried:

    ASK         MessagePack [broker, ...]: the brokers to carry the link on through, and the one that it is with
    CARRIED     MessagePack text: empty, or why not

A broker that cannot be called, and is asked to call back, calls in the same way, and says in the place of ASK

    MEET        MessagePack token: as it was told

What follows are the bytes of the link, in which it is the one that was called.
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
speak the newest that both do. From version 4 on, HELLO says which versions the sender speaks, and a receiver passes
over what it does not know of a message."""
DETOURS_SINCE: Final = 5
"""The first version that knows LINKED, and links that others carry."""
EDGES_SINCE: Final = 6
"""The first version that knows links between brokers that joined later, and CALL_BACK."""
CARRIERS_MAX: Final = 4
"""Through so many brokers a link may run."""
NONCE_BYTES: Final = 32
HANDSHAKE_BYTES_MAX: Final = 1024
"""A stranger may send no more than this."""
MESSAGE_BYTES_MAX: Final = 512 * 1024 * 1024
PING_EVERY_S: Final = 5.0
SILENCE_S_MAX: Final = 15.0
"""A peer that says nothing for so long counts as gone."""
BATCH_BYTES: Final = 64 * 1024
"""Frames are gathered into messages of about this size."""

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
    """The broker that the sender called; empty if the sender was called and does not know yet who called it."""
    nonce: bytes
    received: int
    sent: int
    newest: int = 0
    """0: the sender speaks one version only, the oldest."""
    description: dict[str, str] = {}
    """A checksum of each thing about the network that brokers must agree on."""
    call: int = 0
    """A caller's later call has a higher number. It hangs up before it calls again, so that its HELLO counts all that
    was said before; 0: it does not say."""
    through: tuple[str, ...] = ()
    """The brokers that carry this link, as seen from the caller."""
    asks: bool = False
    """Whether the caller wants a link with somebody else carried, and not one with the broker it calls."""


class LinkedWith(msgspec.Struct, array_like=True, frozen=True):
    """A broker, and those to which it can carry links: it is linked with them directly."""

    broker: BrokerId
    number: int
    """Of two that are about one broker the higher one holds."""
    linked: tuple[BrokerId, ...]
    edges: tuple[BrokerId, ...] = ()
    """Those that joined later and have called it: to these it can carry links, and they carry none."""


@dataclass(frozen=True, slots=True)
class Up:
    """The peer is who it says it is; it has everything up to `received`."""

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
    """Who is linked with whom, as the peer has heard."""

    entries: list[LinkedWith]


@dataclass(frozen=True, slots=True)
class Asked:
    """The peer wants a link carried along these brokers, to the last of them."""

    path: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """What follows are bytes of the link that is carried, unless there is a reason why it is not."""

    refusal: str


@dataclass(frozen=True, slots=True)
class CallBack:
    """The peer carries a link with us for somebody, if we call and name the token."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Meets:
    """The peer has called back: what follows are bytes of the link that the token stands for."""

    token: bytes


LinkInput = Up | Frames | Acked | Linked | Asked | Carried | CallBack | Meets


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who we are to other brokers."""

    network: str
    me: BrokerId
    secret: bytes | None
    """Shared by the network; None where TLS vouches for both sides."""
    description: Mapping[str, str] = field(default_factory=dict)
    """What the brokers of a network must agree on -> a checksum of what this one was told."""


class LinkSession:
    """One connection of a link, from either side. Bytes in, meanings out; `output` is to be written."""

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
        """`count`: a neighbour -> the last frame safely received from it and the last one sent to it; None for who
        is no neighbour. `calls`: whom we called, or None if we were called. `vouched_for`: the name in the peer's
        certificate. `call`: the number of our call. `through`: who carries the link that we call for. `asks`: we call
        to have another link carried. `oldest`: the oldest version that knows all that this network makes use of."""
        assert len(nonce) == NONCE_BYTES
        self.identity = identity
        self._count = count
        self.phase = LinkPhase.GREETING
        self._oldest = OLDEST if oldest is None else oldest
        self.version = self._oldest
        """What both sides speak, once the peer has said HELLO."""
        self.peer: BrokerId | None = calls
        self.call = call
        """The number of the caller's call."""
        self.through = through
        """Who carries this link; nobody if it is direct."""
        self.asks = asks
        """Whether the caller wants a link with somebody else carried."""
        self.output: list[bytes] = []
        self.heard_at = now
        self.told_received = 0
        """Up to where our HELLO says that we have the peer's frames."""
        self._called = calls is not None
        self._nonce = nonce
        self._vouched_for = vouched_for
        self._hello: LinkHello | None = None
        self._buffer = bytearray()
        if calls is not None:
            self._say_hello(calls)

    # --- what we say -------------------------------------------------------------------------------------------

    def send(self, frames: Iterable[Frame]) -> None:
        """Frames in order; the same frames may have been sent on an earlier connection."""
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
        """Have a link carried along `path`; the peer answers with `Carried`."""
        assert self.phase is LinkPhase.UP and self.asks and self._called
        self._say(LinkMessageKind.ASK, _encode(list(path)))

    def call_back(self, token: bytes) -> None:
        """Have the peer, which cannot be called, call for a link that is carried to it."""
        assert self.phase is LinkPhase.UP and self.version >= EDGES_SINCE
        self._say(LinkMessageKind.CALL_BACK, _encode(token))

    def meet(self, token: bytes) -> None:
        """We have called back; the bytes after this are those of the link."""
        assert self.phase is LinkPhase.UP and self.asks and self._called
        self._say(LinkMessageKind.MEET, _encode(token))

    def answer(self, refusal: str = "") -> None:
        """The answer to `Asked`; without a refusal the bytes after it are those of the link."""
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
        received, sent = self._count(peer) or (0, 0)  # it may have departed since it was called
        self.told_received = received
        to = peer if self._called else ""
        mine = self.identity
        described = dict(mine.description)
        # Who does not know detours refuses to talk of them.
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
        """Raises `RemoteProtocolError`, whatever is wrong: then close the connection."""
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
            # Whoever calls proves itself first: a stranger gets nothing that was made with the secret.
            self._say(LinkMessageKind.PROOF, self._proof(of_caller=False))
        return self._up()

    def _up(self) -> Up:
        assert self.peer is not None and self._hello is not None
        self.phase = LinkPhase.UP
        return Up(self.peer, self._hello.received)

    def _check(self, hello: LinkHello) -> int:
        """Raise what is wrong with a HELLO; gives the version that both sides speak."""
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
        # Who asks has another connection, on which frames flow meanwhile.
        if hello.sent < received and not (hello.asks or self.asks):
            raise RemoteProtocolError(
                f"{hello.name!r} counts its frames from {hello.sent}, but has sent up to {received}: its data were "
                "replaced by an old copy, or its clock was set back"
            )
        return version

    def _proof(self, *, of_caller: bool) -> bytes:
        """Names and nonces of both in a fixed order, and the side, so that no proof can be turned round."""
        assert self._hello is not None and self.identity.secret is not None
        ours = (self.identity.me, self._nonce)
        theirs = (self._hello.name, self._hello.nonce)
        caller, called = (ours, theirs) if self._called else (theirs, ours)
        said = (self.identity.network, of_caller, caller, called)
        text = _encode((*said, "asks") if self.asks else said)
        return hmac.new(self.identity.secret, text, hashlib.sha256).digest()


def _path(body: bytes) -> tuple[BrokerId, ...]:
    """The brokers of an ASK: those that carry the link on, and the one that it is with."""
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
