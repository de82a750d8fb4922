"""The bytes of every message: what a radio sends, and hence how long a message occupies the air.

The first byte names the type of the message; the rest is a MessagePack array of its fields, in the order of the
class. MessagePack by msgspec, because the links between brokers use it (`net/wire.py`), it is compact, and its
typed decoders refuse every array that does not have a message's shape. A packet holds its body as bytes, so that
the nodes on its way pass the body on unread.

An event travels without `properties` and `assigned`: they belong to MQTT and to shared subscriptions, which a
mobile ad hoc network does not have. Bytes that are no message raise `RemoteProtocolError` and nothing else.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple, get_args

from msgspec import Meta, Raw
from msgspec.msgpack import Decoder, Encoder

from roamq.core.errors import RemoteProtocolError, RoamqError
from roamq.core.events import NO_ATTRIBUTES, BrokerId, ClientId, Event, EventId, Seconds, Value
from roamq.core.filters import Filter
from roamq.manet.protocol.messages import (
    Alive,
    Beacon,
    Body,
    BridgeStatus,
    BrokerCandidate,
    Candidates,
    EventCopies,
    EventPublication,
    Greeting,
    Interest,
    Introduction,
    IntroductionReply,
    Message,
    NeighborHello,
    NodeId,
    Notification,
    Packet,
    Quit,
    Receipt,
    RegionId,
    Register,
    Reply,
    Role,
)

# ---- the arrays, as types that a decoder checks -----------------------------------------------------------

Count = Annotated[int, Meta(ge=0)]
"""A whole number from zero: a sequence number, a revision, a number of contacts, or a node id."""
Ids = tuple[Count, ...]
Path = Annotated[tuple[Count, ...], Meta(min_length=1)]
"""The way of a packet begins with its sender."""
FilterArray = tuple[str, str | None]
InterestArray = tuple[Count, Count, tuple[FilterArray, ...], Ids, Seconds]
CandidateArray = tuple[float, Count]
RoleIndex = Annotated[int, Meta(ge=0, lt=len(Role))]
GreetingArray = tuple[
    Count,
    Count,
    tuple[InterestArray, ...],
    tuple[tuple[CandidateArray, Seconds], ...],
    tuple[tuple[EventId, RoleIndex], ...],
]
ReplyArray = tuple[Count, Count, tuple[EventId, ...]]
Chance = Annotated[float, Meta(ge=0, le=1)]
EventArray = tuple[
    EventId,
    str,
    dict[str, Value],
    bytes,
    Seconds,
    Seconds | None,
    str | None,
    Annotated[int, Meta(ge=0, le=2)],
    bool,
]

_ROLES: Final = tuple(Role)
_ROLE_INDEX: Final = {role: index for index, role in enumerate(_ROLES)}
_encode: Final = Encoder().encode


# ---- the parts of messages --------------------------------------------------------------------------------


def _event(event: Event) -> tuple[Any, ...]:
    return (
        event.id,
        event.topic,
        event.attributes,
        event.payload,
        event.published_at,
        event.expires_at,
        event.publisher,
        event.qos,
        event.retain,
    )


def _read_event(array: tuple[Any, ...]) -> Event:
    event_id, topic, attributes, payload, published_at, expires_at, publisher, qos, retain = array
    return Event(
        id=EventId(BrokerId(event_id.origin), event_id.sequence),
        topic=topic,
        attributes=attributes or NO_ATTRIBUTES,
        payload=payload,
        published_at=published_at,
        expires_at=expires_at,
        publisher=None if publisher is None else ClientId(publisher),
        qos=qos,
        retain=retain,
    )


@lru_cache(maxsize=1 << 14)
def _filter(condition: Filter) -> tuple[str, str | None]:
    """Caches filters: printing a selector takes longer than encoding a message, and a subscriber repeats its own."""
    return (condition.topic, condition.selector)


def _interest(interest: Interest) -> Raw:
    """Encodes an interest once and keeps the bytes with it: brokers tell each other an interest many times."""
    if interest.encoded is not None:
        return interest.encoded
    filters = [_filter(condition) for condition in interest.filters]
    array = (interest.subscriber, interest.sequence, filters, interest.nearest, interest.registered_at)
    encoded = Raw(_encode(array))
    object.__setattr__(interest, "encoded", encoded)  # the way into a frozen value
    return encoded


def _read_interest(array: tuple[Any, ...]) -> Interest:
    subscriber, sequence, filters, nearest, registered_at = array
    conditions = tuple(Filter.parse(topic, selector) for topic, selector in filters)
    return Interest(subscriber, sequence, conditions, nearest, registered_at)


def _candidate(candidate: BrokerCandidate) -> tuple[float, NodeId]:
    return (candidate.fitness, candidate.node)


def _body(packet: Packet) -> bytes:
    """Encodes a packet's body once and keeps the bytes with the packet: they are the same at every hop."""
    if packet.encoded_body is not None:
        return packet.encoded_body
    encoded = encode(packet.body)
    object.__setattr__(packet, "encoded_body", encoded)  # the way into a frozen value
    return encoded


# ---- the messages -----------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """How one type of message becomes an array, and how an array becomes the message."""

    kind: type[Message] | type[Body]
    pack: Callable[[Any], tuple[Any, ...]]
    decoder: Decoder[Any]
    unpack: Callable[..., Message | Body]


def _form(
    kind: type[Message] | type[Body],
    array: Any,
    pack: Callable[[Any], tuple[Any, ...]],
    unpack: Callable[..., Message | Body] | None = None,
) -> _Form:
    return _Form(kind, pack, Decoder(array), unpack or kind)


def _read_candidates(best: tuple[Any, ...]) -> Candidates:
    return Candidates(tuple(BrokerCandidate(*candidate) for candidate in best))


def _read_notification(broker: NodeId, sequence: int, events: tuple[Any, ...]) -> Notification:
    return Notification(broker, sequence, tuple(map(_read_event, events)))


def _read_packet(
    target: NodeId, body: bytes, path: tuple[NodeId, ...], ahead: tuple[NodeId, ...], expires_at: Seconds
) -> Packet:
    content = _read(body)
    if not isinstance(content, Body):
        raise RemoteProtocolError(f"a packet cannot hold a {type(content).__name__}")
    return Packet(target, content, path, ahead, expires_at, body)


def _read_register(interest: tuple[Any, ...], received: frozenset[EventId]) -> Register:
    return Register(_read_interest(interest), received)


def _read_publication(event: tuple[Any, ...]) -> EventPublication:
    return EventPublication(_read_event(event))


def _pack_greeting(greeting: Greeting) -> tuple[Any, ...]:
    return (
        greeting.contact,
        greeting.revision,
        [interest.encoded or _interest(interest) for interest in greeting.interests],
        [(_candidate(alive.candidate), alive.seen_at) for alive in greeting.brokers],
        [(event, _ROLE_INDEX[role]) for event, role in greeting.offers],
    )


def _read_greeting(
    contact: int, revision: int, interests: tuple[Any, ...], brokers: tuple[Any, ...], offers: tuple[Any, ...]
) -> Greeting:
    return Greeting(
        contact,
        revision,
        tuple(map(_read_interest, interests)),
        tuple(Alive(BrokerCandidate(*candidate), seen_at) for candidate, seen_at in brokers),
        tuple((event, _ROLES[role]) for event, role in offers),
    )


def _pack_reply(reply: Reply) -> tuple[Any, ...]:
    return (reply.contact, reply.revision, reply.wanted)


def _read_introduction(greeting: tuple[Any, ...], predictabilities: dict[NodeId, float]) -> Introduction:
    return Introduction(_read_greeting(*greeting), predictabilities)


def _read_introduction_reply(
    reply: tuple[Any, ...], predictabilities: dict[NodeId, float]
) -> IntroductionReply:
    return IntroductionReply(Reply(*reply), predictabilities)


def _pack_event_copies(handover: EventCopies) -> tuple[Any, ...]:
    copies = [(_event(event), _ROLE_INDEX[role], to_find) for event, role, to_find in handover.copies]
    return (handover.contact, copies)


def _read_event_copies(contact: int, copies: tuple[Any, ...]) -> EventCopies:
    return EventCopies(
        contact, tuple((_read_event(event), _ROLES[role], to_find) for event, role, to_find in copies)
    )


_BY_CODE: Final[dict[int, _Form]] = {
    1: _form(NeighborHello, tuple[Count | None, dict[Count, Seconds]], attrgetter("local_broker", "delays")),
    2: _form(
        Candidates,
        tuple[tuple[CandidateArray, ...]],
        lambda message: ([_candidate(candidate) for candidate in message.best],),
        _read_candidates,
    ),
    3: _form(
        Beacon,
        tuple[Count, RegionId, Count, Seconds],
        attrgetter("broker", "region", "sequence", "sent_at"),
    ),
    4: _form(
        Notification,
        tuple[Count, Count, tuple[EventArray, ...]],
        lambda message: (message.broker, message.sequence, [_event(event) for event in message.events]),
        _read_notification,
    ),
    5: _form(
        Packet,
        tuple[Count, bytes, Path, Ids, Seconds],
        lambda packet: (packet.target, _body(packet), packet.path, packet.ahead, packet.expires_at),
        _read_packet,
    ),
    6: _form(
        Register,
        tuple[InterestArray, frozenset[EventId]],
        lambda body: (_interest(body.interest), body.received),
        _read_register,
    ),
    7: _form(Quit, tuple[Count, Count], attrgetter("subscriber", "sequence")),
    8: _form(EventPublication, tuple[EventArray], lambda body: (_event(body.event),), _read_publication),
    9: _form(BridgeStatus, tuple[Count, Count, Seconds], attrgetter("peer", "foreign", "delay_s")),
    10: _form(
        Greeting,
        GreetingArray,
        _pack_greeting,
        _read_greeting,
    ),
    11: _form(Reply, ReplyArray, _pack_reply),
    12: _form(
        EventCopies,
        tuple[Count, tuple[tuple[EventArray, RoleIndex, frozenset[Count]], ...]],
        _pack_event_copies,
        _read_event_copies,
    ),
    13: _form(Receipt, tuple[Count], lambda body: (body.contact,)),
    14: _form(
        Introduction,
        tuple[GreetingArray, dict[Count, Chance]],
        lambda body: (_pack_greeting(body.greeting), body.predictabilities),
        _read_introduction,
    ),
    15: _form(
        IntroductionReply,
        tuple[ReplyArray, dict[Count, Chance]],
        lambda body: (_pack_reply(body.reply), body.predictabilities),
        _read_introduction_reply,
    ),
}
"""First byte -> the form of the message. A number that was once given to a type is never given to another."""

_PACK: Final = {form.kind: (bytes((code,)), form.pack) for code, form in _BY_CODE.items()}


def encode(message: Message | Body) -> bytes:
    code, pack = _PACK[message.__class__]
    return code + _encode(pack(message))


def size_of(message: Message) -> int:
    """Returns how many bytes `encode` makes of the message."""
    return 1 + len(_encode(_PACK[message.__class__][1](message)))


def decode(data: bytes) -> Message:
    """The message that these bytes are; `RemoteProtocolError` says what is wrong with them."""
    message = _read(data)
    if not isinstance(message, Message):
        raise RemoteProtocolError(f"a {type(message).__name__} travels inside a packet, never on its own")
    return message


def _read(data: bytes) -> Message | Body:
    if not data:
        raise RemoteProtocolError("not a message: there are no bytes")
    form = _BY_CODE.get(data[0])
    if form is None:
        known = f"{min(_BY_CODE)} to {max(_BY_CODE)}"
        raise RemoteProtocolError(f"not a message: the first byte is {data[0]}, known are {known}")
    try:
        return form.unpack(*form.decoder.decode(memoryview(data)[1:]))
    except RemoteProtocolError:
        raise
    except (RoamqError, ValueError, TypeError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise RemoteProtocolError(f"not a {form.kind.__name__}: {error}") from error


assert set(_PACK) == {*get_args(Message), *get_args(Body)}
