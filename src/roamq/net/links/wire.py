"""Messages between brokers as bytes: MessagePack, with one extension type per kind of value.

A message is its class name and its fields, so a new message needs nothing here. Events have a form of their own,
since nearly all traffic is events. What cannot be read is the peer's fault and raises `RemoteProtocolError`.

Neighbours may be of two releases: a field that has its default is not sent, a field that is not known is passed over,
and what follows the known values of an event is, too. So a release may add fields that have a default, and the release
before understands it for as long as they are not used.
"""

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
from roamq.net.clients.mqtt import state
from roamq.net.clients.mqtt.codec.publishing import EncodedMessage, cost_of

_EVENT_VALUES: Final = 13
_FILTER, _EVENT, _MESSAGE, _SESSION, _EPOCH, _EVENT_ID = range(1, 7)
_ENCODER: Final = msgspec.msgpack.Encoder()
_encode: Final = _ENCODER.encode

_TYPES: Final[dict[str, type[Message]]] = {}


def _known_types() -> dict[str, type[Message]]:
    """Every message class there is, those of `net` included; looked up again when a name is not found."""
    found = list(Message.__subclasses__())
    for kind in found:
        _TYPES[kind.__name__] = kind
        found.extend(kind.__subclasses__())
    return _TYPES


def message_type(name: str) -> type[Message] | None:
    """The class of messages with this name."""
    return _TYPES.get(name) or _known_types().get(name)


def encode(message: Message | Event) -> bytes:
    return _encode(_pack(message))


@cache
def _fields_of(kind: type[Message]) -> tuple[tuple[str, Any], ...]:
    """The fields of a kind of messages, each with its default, or with what no field can be if it has none."""
    return tuple((field.name, field.default) for field in fields(kind))


def _pack(value: Any) -> Any:
    kind = value.__class__
    if kind is Event:
        return Ext(_EVENT, _event(value))
    if isinstance(value, Message):
        body = {}
        for name, default in _fields_of(kind):
            said = getattr(value, name)
            if said is not default:
                body[name] = _pack(said)
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


def _event(event: Event) -> bytes:
    mqtt = event.properties
    return _encode(
        (
            event.id[0],
            event.id[1],
            event.topic,
            event.payload,
            event.published_at,
            event.qos,
            event.retain,
            event.publisher,
            event.expires_at,
            event.attributes or None,
            event.assigned,
            mqtt.carried if isinstance(mqtt, EncodedMessage) else b"",
            event.is_handed_on,
        )
    )


def _read_event(data: bytes) -> Event:
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
    ) = msgspec.msgpack.decode(data)[:_EVENT_VALUES]
    return Event(
        id=EventId(BrokerId(origin), sequence),
        topic=topic,
        attributes=attributes or NO_ATTRIBUTES,
        payload=payload,
        published_at=published_at,
        expires_at=expires_at,
        publisher=publisher,
        qos=qos,
        retain=retain,
        assigned=assigned,
        is_handed_on=is_handed_on,
        properties=EncodedMessage(topic, payload, carried),
        cost_bytes=cost_of(topic, payload, carried, attributes or ()),
    )


def _extension(code: int, view: memoryview) -> Any:
    data = bytes(view)
    if code == _EVENT:
        return _read_event(data)
    if code == _MESSAGE:
        name, body = _DECODER.decode(data)
        kind = _TYPES.get(name) or _known_types()[name]
        known = kind.__dataclass_fields__
        return kind(
            **{key: tuple(v) if isinstance(v, list) else v for key, v in body.items() if key in known}
        )
    if code == _FILTER:
        topic, selector, group = msgspec.msgpack.decode(data)
        return Filter(topic, selector, group)
    if code == _EPOCH:
        connected_at, broker = msgspec.msgpack.decode(data)
        return Epoch(float(connected_at), BrokerId(broker))
    if code == _EVENT_ID:
        origin, sequence = msgspec.msgpack.decode(data)
        return EventId(BrokerId(origin), sequence)
    if code == _SESSION:
        return state.load(data)
    raise RemoteProtocolError(f"extension type {code} is unknown")


_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_extension)


def decode(data: bytes) -> Message | Event:
    """The message; whatever is wrong with the bytes raises `RemoteProtocolError`."""
    try:
        message = _DECODER.decode(data)
    except RemoteProtocolError:
        raise
    except Exception as error:  # fields of any kind, where others were expected
        raise RemoteProtocolError(f"not a message: {error}") from error
    if not isinstance(message, Message | Event):
        raise RemoteProtocolError(f"not a message: {type(message).__name__}")
    return message


assert messages.Routed.__name__ in _known_types()
