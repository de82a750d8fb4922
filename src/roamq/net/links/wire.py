"""Messages between brokers as bytes: MessagePack, with one extension type per kind of value.

A message is its class name and its fields, so a new message needs nothing here. Events have a form of their own,
since nearly all traffic is events. Bytes that cannot be read are the peer's fault and raise `RemoteProtocolError`.

Neighbours may be of two releases: a field that has its default is not sent; an unknown field, and values behind the
known ones of an event, are passed over. So a release may add fields that have a default, and the release before
understands its messages for as long as these fields are not used.
"""

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from roamq.core import messages
from roamq.core.context import Epoch
from roamq.core.errors import RemoteProtocolError
from roamq.core.events import NO_ATTRIBUTES, BrokerId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.tuples import new_tuple
from roamq.net.clients.mqtt import state
from roamq.net.clients.mqtt.codec.publishing import EVENT_BYTES, EncodedMessage, cost_of
from roamq.net.clients.mqtt.subscriptions import asked_for

EVENT_VALUES: Final = 13
_EXT_8: Final = 0xC7
"""MessagePack: the first byte of an extension of up to 255 bytes; its length, its type and its bytes follow."""
_EXT_8_HEADER: Final = 3
_EXT_8_MAX: Final = 255
Plain = Any
"""A value for which MessagePack has a form."""
_FILTER, _EVENT, _MESSAGE, _SESSION, _EPOCH, _EVENT_ID = range(1, 7)
_EVENT_HEADERS: Final = tuple(bytes((_EXT_8, length, _EVENT)) for length in range(_EXT_8_MAX + 1))
"""The first bytes of most frames, by the length of their body."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_encode: Final = _ENCODER.encode
_decode_plain: Final = msgspec.msgpack.Decoder().decode
"""The decoder of values without extensions of ours."""
_PLAIN: Final = frozenset((str, int, float, bool, bytes, type(None)))
"""Kinds of values that MessagePack knows: they are sent as they are."""

_TYPES: Final[dict[str, type[Message]]] = {}


def _known_types() -> dict[str, type[Message]]:
    """All classes of messages, including those of `net`; looked up again when a name is not found."""
    found = list(Message.__subclasses__())
    for kind in found:
        _TYPES[kind.__name__] = kind
        found.extend(kind.__subclasses__())
    return _TYPES


def message_type(name: str) -> type[Message] | None:
    """The class of messages with this name."""
    return _TYPES.get(name) or _known_types().get(name)


def encode(message: Message | Event) -> bytes:
    if message.__class__ is Event:
        body = _encode(event_values(message))
        if len(body) <= _EXT_8_MAX:
            return _EVENT_HEADERS[len(body)] + body
        return _encode(Ext(_EVENT, body))
    return _encode(_pack(message))


@cache
def _fields_of(kind: type[Message]) -> tuple[tuple[str, Any], ...]:
    """The fields of a kind of messages, each with its default; a field without one has a mark that no value equals."""
    return tuple((field.name, field.default) for field in fields(kind))


def _pack(value: Any) -> Any:
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is Event:
        return Ext(_EVENT, _encode(event_values(value)))
    if isinstance(value, Message):
        body = {}
        for name, default in _fields_of(kind):
            said = getattr(value, name)
            if said is not default:
                body[name] = said if said.__class__ in _PLAIN else _pack(said)
        return Ext(_MESSAGE, _encode((kind.__name__, body)))
    if kind is Filter:
        return Ext(_FILTER, _encode((value.topic, value.selector, value.group)))
    if kind is Epoch:
        return Ext(_EPOCH, _encode(tuple(value)))
    if kind is EventId:
        return Ext(_EVENT_ID, _encode(tuple(value)))
    if kind is state.SessionState:
        return Ext(_SESSION, state.dump(value))
    if isinstance(value, list | tuple | set | frozenset):
        return [_pack(item) for item in value]
    if isinstance(value, dict):
        return {name: _pack(item) for name, item in value.items()}
    return value


def event_values(event: Event, no_message: bytes | None = b"") -> tuple[Plain, ...]:
    """An event as plain values; `no_message` stands for the MQTT side of an event that has none."""
    mqtt = event.properties
    origin, sequence = event.id
    return (
        origin,
        sequence,
        event.topic,
        event.payload,
        event.published_at,
        event.qos,
        event.retain,
        event.publisher,
        event.expires_at,
        event.attributes or None,
        event.assigned,
        mqtt.carried if mqtt.__class__ is EncodedMessage else no_message,
        event.is_handed_on,
    )


def event_of_values(values: Sequence[Plain], cost_bytes: int | None = None) -> Event:
    """The event with the values of `event_values`; further values are passed over."""
    (
        origin,
        sequence,
        topic,
        payload,
        published_at,
        qos,
        retain,
        publisher,
        expires_at,
        attributes,
        assigned,
        carried,
        is_handed_on,
    ) = values if len(values) == EVENT_VALUES else values[:EVENT_VALUES]
    if cost_bytes is None:
        if attributes or retain or carried:
            cost_bytes = cost_of(topic, payload, carried or b"", attributes or (), retain=retain)
        else:
            cost_bytes = EVENT_BYTES + 2 * (len(payload) + len(topic))  # `cost_of`, without a call
    # By position, as in `event_of`: id, topic, attributes, payload, published_at, expires_at, publisher, qos, retain,
    # properties, assigned, is_handed_on, cost_bytes.
    return Event(
        new_tuple(EventId, (origin, sequence)),
        topic,
        attributes or NO_ATTRIBUTES,
        payload,
        published_at,
        expires_at,
        publisher,
        qos,
        retain,
        None if carried is None else EncodedMessage(topic, payload, carried),
        assigned,
        is_handed_on,
        cost_bytes,
    )


def _read_message(data: memoryview) -> Message:
    name, body = _DECODER.decode(data)
    kind = _TYPES.get(name) or _known_types()[name]
    known = kind.__dataclass_fields__
    for key, value in list(body.items()):
        if value.__class__ is list:
            body[key] = tuple(value)
        if key not in known:
            del body[key]
    return kind(**body)


def _extension(code: int, data: memoryview) -> Any:
    if code == _EVENT:
        return event_of_values(_decode_plain(data))
    if code == _MESSAGE:
        return _read_message(data)
    if code == _FILTER:
        topic, selector, group = _decode_plain(data)
        if selector is None and group is None:
            return asked_for(
                topic, None
            )  # the same object for equal filters, which makes tables of filters quick
        return Filter(topic, selector, group)
    if code == _EPOCH:
        connected_at, broker = _decode_plain(data)
        return Epoch(float(connected_at), BrokerId(broker))
    if code == _EVENT_ID:
        origin, sequence = _decode_plain(data)
        return EventId(BrokerId(origin), sequence)
    if code == _SESSION:
        return state.load(bytes(data))
    raise RemoteProtocolError(f"extension type {code} is unknown")


_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_extension)


def decode(data: bytes) -> Message | Event:
    """The message or event; whatever is wrong with the bytes raises `RemoteProtocolError`."""
    try:
        if data[0] == _EXT_8 and data[2] == _EVENT and len(data) == data[1] + _EXT_8_HEADER:
            return event_of_values(
                _decode_plain(memoryview(data)[_EXT_8_HEADER:])
            )  # most frames are events: the shortest way
        message = _DECODER.decode(data)
    except RemoteProtocolError:
        raise
    except Exception as error:  # fields of any kind, where others were expected
        raise RemoteProtocolError(f"not a message: {error}") from error
    if not isinstance(message, Message | Event):
        raise RemoteProtocolError(f"not a message: {type(message).__name__}")
    return message


assert messages.Routed.__name__ in _known_types()
