"""One encoding of a message for all its receivers.

Receivers of one version get the same bytes except for the first byte (QoS, DUP, RETAIN) and the packet id. An
`EncodedMessage` keeps, per version, the whole packet at QoS 0 and the two pieces around the packet id at QoS 1 and 2.
It takes them from the packet as it came if possible, so that a message is often forwarded without being encoded at all.
Only values that depend on the receiver - topic alias, subscription identifiers, the remaining expiry - cost an encoding
of their own.
"""

from collections.abc import Sized
from functools import lru_cache
from typing import Final

import msgspec

from roamq.net.clients.mqtt.codec import properties as props
from roamq.net.clients.mqtt.codec.packets import Publish, Version
from roamq.net.clients.mqtt.codec.primitives import string, u16, variable
from roamq.net.clients.mqtt.codec.properties import NO_PROPERTIES, Properties, property_fields

_FIRST_BYTES: Final = tuple(bytes((value,)) for value in range(256))
PUBLISH_QOS_0: Final = 0x30
EVENT_BYTES: Final = 600
"""Bytes of memory for an event, its message, and its place in a context, without text."""
ATTRIBUTE_BYTES: Final = 200
LEVEL_BYTES: Final = 300
"""A level of a retained message's topic, which has a place of its own in the table. Topics share their first two
levels, or nearly so: these are part of `EVENT_BYTES`."""
FREE_LEVELS: Final = 2
REMEMBERED_CHARACTERS_MAX: Final = 256
REMEMBERED_HEADS_MAX: Final = 4096
"""Most kept heads, of packets to topics that are not longer: the memory stays small, whoever fills it."""
RETAIN: Final = 0x01
DUP: Final = 0x08
_V5: Final = Version.V5


def first_byte(qos: int, *, retain: bool = False, dup: bool = False) -> int:
    return PUBLISH_QOS_0 | dup << 3 | qos << 1 | retain


def carried_fields(properties: Properties) -> bytes:
    """The encoded properties that go along unaltered, in order: payload format indicator, content type, response topic,
    correlation data and user properties ([MQTT-3.3.2-4], -15, -16, -17, -18, -20)."""
    if properties is NO_PROPERTIES:
        return b""
    return property_fields(
        Properties(
            payload_format_indicator=properties.payload_format_indicator,
            content_type=properties.content_type,
            response_topic=properties.response_topic,
            correlation_data=properties.correlation_data,
            user_properties=properties.user_properties,
        ),
        props.PUBLISH,
    )


def cost_of(
    topic: str, payload: bytes, carried: bytes = b"", attributes: Sized = (), *, retain: bool = False
) -> int:
    """Bytes of memory that an event with this message takes, within a factor of two (`tests/net/test_memory.py`).

    The payload is there twice: by itself, and in the packet as it came or goes out.
    """
    said = len(payload) + len(topic) + len(carried)
    levels = max(0, topic.count("/") + 1 - FREE_LEVELS) if retain else 0
    return EVENT_BYTES + 2 * said + ATTRIBUTE_BYTES * len(attributes) + LEVEL_BYTES * levels


@lru_cache(maxsize=REMEMBERED_HEADS_MAX)
def _plain_head(topic: str, v5: bool, payload_bytes: int) -> bytes:
    """The bytes before the payload at QoS 0, without properties; kept, because publishers repeat themselves."""
    fields = string(topic) + (b"\0" if v5 else b"")
    return _FIRST_BYTES[PUBLISH_QOS_0] + variable(len(fields) + payload_bytes) + fields


class Receiver(msgspec.Struct, frozen=True, gc=False):
    """The properties of one receiver's copy that other copies do not have."""

    topic_alias: int = 0
    omit_topic: bool = False
    """Whether the receiver knows the alias already: then the topic name is left empty."""
    message_expiry_interval: int | None = None
    subscription_identifiers: tuple[int, ...] = ()

    def fields(self) -> bytes:
        return property_fields(
            Properties(
                message_expiry_interval=self.message_expiry_interval,
                topic_alias=self.topic_alias or None,
                subscription_identifiers=self.subscription_identifiers,
            ),
            props.PUBLISH,
        )


class EncodedMessage(msgspec.Struct, gc=False, eq=False):
    """A message to be sent, encoded at most once per version."""

    topic: str
    payload: bytes
    carried: bytes = b""
    """The properties that all receivers get, encoded (`carried_fields`)."""
    whole_5: bytes = b""
    """The packet at QoS 0 for MQTT 5; empty until `qos_0` has made it. `Outbound` reads it directly, because every call
    counts."""
    whole_311: bytes = b""
    pieces_5: tuple[bytes, bytes] | None = None
    """The bytes before and after the packet id at QoS 1 and 2; None until `around_packet_id` has made them."""
    pieces_311: tuple[bytes, bytes] | None = None
    _topic: bytes = b""

    @classmethod
    def of(cls, publish: Publish, version: Version) -> "EncodedMessage":
        """The message of a PUBLISH that came from a client of `version`."""
        topic, payload, wire = publish.topic, publish.payload, publish.wire
        if not wire:
            return cls(topic, payload, carried_fields(publish.properties))
        # A packet that may be forwarded carries no properties.
        v5 = version is _V5
        if not publish.qos:
            return cls(topic, payload, b"", wire) if v5 else cls(topic, payload, b"", b"", wire)
        # Before the payload stand the packet id and, in MQTT 5, a property length of one byte.
        tail = len(wire) - len(payload) - v5
        pieces = (wire[: tail - 2], wire[tail:])
        if v5:
            return cls(topic, payload, b"", b"", b"", pieces)
        return cls(topic, payload, b"", b"", b"", None, pieces)

    def qos_0(self, v5: bool, *, retain: bool = False) -> bytes:
        """The whole packet at QoS 0."""
        whole = self.whole_5 if v5 else self.whole_311
        if not whole:
            whole = self._encode_whole(v5)
        return _FIRST_BYTES[PUBLISH_QOS_0 | RETAIN] + whole[1:] if retain else whole

    def around_packet_id(self, v5: bool, first: int) -> tuple[bytes, bytes]:
        """The pieces before and after the packet id at QoS 1 and 2; `first` is the first byte."""
        pieces = self.pieces_5 if v5 else self.pieces_311
        if pieces is None:
            pieces = self._encode_pieces(v5)
        head, tail = pieces
        if head[0] != first:
            head = _FIRST_BYTES[first] + head[1:]
        return head, tail

    def for_receiver(self, first: int, packet_id: int, receiver: Receiver) -> bytes:
        """The whole packet (MQTT 5) with the properties of one receiver."""
        fields = receiver.fields() + self.carried
        body = (
            b"\0\0" if receiver.omit_topic else self._topic_field(),
            u16(packet_id) if packet_id else b"",
            variable(len(fields)),
            fields,
            self.payload,
        )
        return b"".join((_FIRST_BYTES[first], variable(sum(map(len, body))), *body))

    def _topic_field(self) -> bytes:
        if not self._topic:
            self._topic = string(self.topic)
        return self._topic

    def _properties(self, v5: bool) -> bytes:
        if not v5:
            return b""
        return variable(len(self.carried)) + self.carried if self.carried else b"\0"

    def _encode_whole(self, v5: bool) -> bytes:
        payload = self.payload
        if self.carried or len(self.topic) > REMEMBERED_CHARACTERS_MAX:
            topic, fields = self._topic_field(), self._properties(v5)
            length = variable(len(topic) + len(fields) + len(payload))
            whole = b"".join((_FIRST_BYTES[PUBLISH_QOS_0], length, topic, fields, payload))
        else:
            whole = _plain_head(self.topic, v5, len(payload)) + payload
        if v5:
            self.whole_5 = whole
        else:
            self.whole_311 = whole
        return whole

    def _encode_pieces(self, v5: bool) -> tuple[bytes, bytes]:
        topic, fields = self._topic_field(), self._properties(v5)
        length = variable(len(topic) + 2 + len(fields) + len(self.payload))
        pieces = (_FIRST_BYTES[first_byte(1)] + length + topic, fields + self.payload)
        if v5:
            self.pieces_5 = pieces
        else:
            self.pieces_311 = pieces
        return pieces
