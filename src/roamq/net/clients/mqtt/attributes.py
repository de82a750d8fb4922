"""Attributes of a publication, which content filters test, and the event that a publication becomes.

Attributes are the user properties, and the top-level fields of a JSON payload if the content type says that it is one;
a user property wins over a field of the same name. The text of a user property decides whether it is a number or a
truth value.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from typing import Final

import msgspec

from roamq.core.events import NO_ATTRIBUTES, ClientId, Event, EventId, Seconds, Value
from roamq.net.clients.mqtt.codec import NO_PROPERTIES, EncodedMessage, Properties, Publish, Version, Will
from roamq.net.clients.mqtt.codec.publishing import EVENT_BYTES, carried_fields, cost_of

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS: Final[Mapping[str, Value]] = {"true": True, "false": False}
_JSON: Final = msgspec.json.Decoder()
_V5: Final = Version.V5
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1
JSON_BYTES_MAX: Final = 65_536
FIELDS_MAX: Final = 1024
"""Most bytes of a JSON payload, and most fields of its object, that become attributes: a filter must not make a flood
of a single message."""


def attributes_of(properties: Properties, payload: bytes) -> Mapping[str, Value]:
    if properties is NO_PROPERTIES:
        return NO_ATTRIBUTES
    attributes: dict[str, Value] = {}
    if is_json(properties.content_type) and len(payload) <= JSON_BYTES_MAX:
        attributes.update(_json_fields(payload))
    for name, text in properties.user_properties:
        attributes[name] = typed(text)
    return attributes or NO_ATTRIBUTES


def typed(text: str) -> Value:
    """The value of a text: `true` and `false` are truth values, a text that looks like a number is a number."""
    word = _WORDS.get(text)
    if word is not None:
        return word
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        number = float(text)
        if isfinite(number):
            return number
    return text


def is_json(content_type: str | None) -> bool:
    if content_type is None:
        return False
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _json_fields(payload: bytes) -> dict[str, Value]:
    """The fields with a simple value; a payload that is no JSON object has none."""
    try:
        document = _JSON.decode(payload)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return {}
    if not isinstance(document, dict) or len(document) > FIELDS_MAX:
        return {}
    fields: dict[str, Value] = {}
    for name, value in document.items():
        if isinstance(value, int) and not _INTEGER_MIN <= value <= _INTEGER_MAX:
            # Like a long number in `typed`: links carry integers of 64 bits.
            with suppress(OverflowError):
                fields[name] = float(value)
        elif isinstance(value, str | int | float | bool):
            fields[name] = value
    return fields


def event_of(
    publish: Publish, version: Version, event_id: EventId, publisher: ClientId, now: Seconds
) -> Event:
    """The event that a received PUBLISH becomes; its `properties` are the message, already encoded."""
    properties = publish.properties
    if properties is NO_PROPERTIES:
        topic, payload, qos = publish.topic, publish.payload, publish.qos
        wire = publish.wire
        if wire and not qos:
            # Most messages are forwarded as they came.
            v5 = version is _V5
            message = EncodedMessage(topic, payload, b"", wire if v5 else b"", b"" if v5 else wire)
        else:
            message = EncodedMessage.of(publish, version)
        if publish.retain:
            cost_bytes = cost_of(topic, payload, retain=True)
        else:
            cost_bytes = EVENT_BYTES + 2 * (len(payload) + len(topic))  # `cost_of`, without a call
        # By position, which takes half as long: id, topic, attributes, payload, published_at, expires_at, publisher,
        # qos, retain, properties, assigned, is_handed_on, cost_bytes.
        return Event(
            event_id,
            topic,
            NO_ATTRIBUTES,
            payload,
            now,
            None,
            publisher,
            qos,
            publish.retain,
            message,
            None,
            False,
            cost_bytes,
        )
    return _event(publish, EncodedMessage.of(publish, version), event_id, publisher, now)


def event_of_will(will: Will, event_id: EventId, publisher: ClientId, now: Seconds) -> Event:
    """The event that a will becomes when it is published."""
    # [MQTT-3.1.3-10] the order of user properties is kept
    message = EncodedMessage(will.topic, will.payload, carried_fields(will.properties))
    return _event(will, message, event_id, publisher, now)


def _event(
    said: Publish | Will, message: EncodedMessage, event_id: EventId, publisher: ClientId, now: Seconds
) -> Event:
    expiry = said.properties.message_expiry_interval
    attributes = attributes_of(said.properties, said.payload)
    return Event(
        id=event_id,
        topic=said.topic,
        attributes=attributes,
        payload=said.payload,
        published_at=now,
        expires_at=None if expiry is None else now + expiry,
        publisher=publisher,
        qos=said.qos,
        retain=said.retain,
        properties=message,
        cost_bytes=cost_of(said.topic, said.payload, message.carried, attributes, retain=said.retain),
    )
