"""Packet bodies -> packets: one function per packet type, chosen by a table.

Each function takes the bytes, the start and the end of the body, and the version. PUBLISH comes first: a broker reads
it all day. `Decoder` finds where bodies start and end.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from roamq.net.clients.mqtt.codec import packets as k
from roamq.net.clients.mqtt.codec import primitives as p
from roamq.net.clients.mqtt.codec import properties as props
from roamq.net.clients.mqtt.codec import reason_codes as codes
from roamq.net.clients.mqtt.codec.decode_connect import connack, connect
from roamq.net.clients.mqtt.codec.decode_parts import (
    check_response_topic,
    no_more,
    read_packet_id,
    reasons,
    wrong_code,
)
from roamq.net.clients.mqtt.codec.errors import MqttError
from roamq.net.clients.mqtt.codec.properties import NO_PROPERTIES, Properties, read_properties
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode
from roamq.net.clients.mqtt.codec.topics import (
    REMEMBERED_TOPIC_BYTES_MAX,
    check_filter,
    seen_topic_name,
    topic_name,
)

Body = Callable[[bytes, int, int, bool], k.Packet]
A = TypeVar("A", k.Puback, k.Pubrec, k.Pubrel, k.Pubcomp)


def publish(data: bytes, begin: int, start: int, stop: int, v5: bool) -> k.Publish:
    """A PUBLISH whose first byte is at `begin` and whose variable header starts at `start`."""
    first = data[begin]
    qos = first >> 1 & 3
    if stop - start < 2:
        raise MqttError("PUBLISH without a topic name")
    topic_stop = start + 2 + (data[start] << 8 | data[start + 1])
    position = topic_stop + 2 if qos else topic_stop
    if position > stop:
        raise MqttError("topic name goes beyond the end of the packet")
    raw = data[start + 2 : topic_stop]
    topic = seen_topic_name(raw) if len(raw) <= REMEMBERED_TOPIC_BYTES_MAX else topic_name(raw)
    packet_id = 0
    if qos:
        packet_id = data[topic_stop] << 8 | data[topic_stop + 1]
        if not packet_id:
            # [MQTT-2.2.1-3]
            raise MqttError("PUBLISH with packet id 0", ReasonCode.PROTOCOL_ERROR)
        if qos == 3:
            # [MQTT-3.3.1-4]
            raise MqttError("PUBLISH with QoS 3")
    elif first & 0x08:
        # [MQTT-3.3.1-2]
        raise MqttError("PUBLISH with DUP at QoS 0")
    properties = NO_PROPERTIES
    if v5:
        if position < stop and not data[position]:
            position += 1
        else:
            properties, position = read_properties(data, position, stop, props.PUBLISH)
            check_response_topic(properties)
    if not topic and properties.topic_alias is None:
        # [MQTT-4.7.3-1]; section 3.3.2.3.4 allows it only beside an alias.
        raise MqttError("PUBLISH with neither topic name nor alias", ReasonCode.PROTOCOL_ERROR)
    # The packet is neither retained nor a repetition, and no property depends on the receiver: forward it as it came.
    wire = data[begin:stop] if properties is NO_PROPERTIES and not first & 0x09 else b""
    return k.Publish(
        topic, data[position:stop], qos, first & 1 == 1, first & 8 == 8, packet_id, properties, wire
    )


def _ack(packet: type[A], allowed: dict[int, ReasonCode], bit: int) -> Body:
    """The reader of PUBACK, PUBREC, PUBREL or PUBCOMP, whose reason code and properties may be left out if they are the
    defaults."""

    def decode(data: bytes, start: int, stop: int, v5: bool) -> A:
        packet_id, position = read_packet_id(data, start, stop)
        if position == stop:
            return packet(packet_id)
        reason, properties = _reason_and_properties(data, position, stop, v5, allowed, bit)
        return packet(packet_id, reason, properties)

    return decode


def _reason_and_properties(
    data: bytes, position: int, stop: int, v5: bool, allowed: dict[int, ReasonCode], bit: int
) -> tuple[ReasonCode, Properties]:
    """The end of an answer: a reason code, then properties unless the packet ends there."""
    if not v5:
        raise MqttError("packet is longer than 3.1.1 allows")
    reason = allowed.get(data[position])
    if reason is None:
        raise wrong_code(data[position])
    position += 1
    properties = NO_PROPERTIES
    if position < stop:
        properties, position = read_properties(data, position, stop, bit)
    no_more(position, stop)
    return reason, properties


FILTERS_MAX: Final = 256
"""Most topic filters of one SUBSCRIBE or UNSUBSCRIBE; a packet with more is not read further. The standard names no
bound."""


def _subscribe(data: bytes, start: int, stop: int, v5: bool) -> k.Subscribe:
    packet_id, position = read_packet_id(data, start, stop)
    properties = NO_PROPERTIES
    if v5:
        properties, position = read_properties(data, position, stop, props.SUBSCRIBE)
    requests = []
    while position < stop:
        begin = position + 2  # `_topic_filter` and the options, without a call
        if begin > stop:
            raise p.too_short(begin, stop)
        position = begin + (data[position] << 8 | data[position + 1])
        if position > stop:
            raise p.too_short(position, stop)
        topic_filter = p.text(data[begin:position])
        check_filter(topic_filter)
        if position == stop:
            raise p.too_short(position + 1, stop)
        options = data[position]
        position += 1
        if options & (0xC0 if v5 else 0xFC):
            # [MQTT-3.8.3-5]; [MQTT-3.8.3-4] in 3.1.1
            raise MqttError("reserved bits of the subscription options are set")
        qos, handling = options & 3, options >> 4 & 3
        if qos == 3 or handling == 3:
            raise MqttError("QoS 3 or retain handling 3 in SUBSCRIBE", ReasonCode.PROTOCOL_ERROR)  # 3.8.3.1
        no_local, as_published = options & 0x04 != 0, options & 0x08 != 0
        if no_local and topic_filter.startswith("$share/"):
            # [MQTT-3.8.3-4]
            raise MqttError("No Local on a shared subscription", ReasonCode.PROTOCOL_ERROR)
        requests.append(k.SubscriptionRequest(topic_filter, qos, no_local, as_published, handling))
        if len(requests) > FILTERS_MAX:
            raise _too_many_filters()
    if not requests:
        # [MQTT-3.8.3-2]
        raise MqttError("SUBSCRIBE without a topic filter", ReasonCode.PROTOCOL_ERROR)
    return k.Subscribe(packet_id, tuple(requests), properties)


def _unsubscribe(data: bytes, start: int, stop: int, v5: bool) -> k.Unsubscribe:
    packet_id, position = read_packet_id(data, start, stop)
    properties = NO_PROPERTIES
    if v5:
        properties, position = read_properties(data, position, stop, props.UNSUBSCRIBE)
    filters = []
    while position < stop:
        topic_filter, position = _topic_filter(data, position, stop)
        filters.append(topic_filter)
        if len(filters) > FILTERS_MAX:
            raise _too_many_filters()
    if not filters:
        # [MQTT-3.10.3-2]
        raise MqttError("UNSUBSCRIBE without a topic filter", ReasonCode.PROTOCOL_ERROR)
    return k.Unsubscribe(packet_id, tuple(filters), properties)


def _too_many_filters() -> MqttError:
    return MqttError(f"more than {FILTERS_MAX} topic filters in a packet", ReasonCode.QUOTA_EXCEEDED)


def _topic_filter(data: bytes, position: int, stop: int) -> tuple[str, int]:
    # [MQTT-3.8.3-1], [MQTT-3.10.3-1]
    topic_filter, position = p.read_string(data, position, stop)
    check_filter(topic_filter)
    return topic_filter, position


def _suback(data: bytes, start: int, stop: int, v5: bool) -> k.Suback:
    packet_id, position = read_packet_id(data, start, stop)
    properties = NO_PROPERTIES
    if v5:
        properties, position = read_properties(data, position, stop, props.SUBACK)
    answers = reasons(data[position:stop], codes.SUBACK_CODES)
    if not answers or (not v5 and any(answer > 2 and answer != 0x80 for answer in answers)):
        # [MQTT-3.9.3-2]; [MQTT-3.9.3-2] in 3.1.1 as well
        raise MqttError("SUBACK without proper reason codes", ReasonCode.PROTOCOL_ERROR)
    return k.Suback(packet_id, answers, properties)


def _unsuback(data: bytes, start: int, stop: int, v5: bool) -> k.Unsuback:
    packet_id, position = read_packet_id(data, start, stop)
    if not v5:
        no_more(position, stop)
        return k.Unsuback(packet_id)
    properties, position = read_properties(data, position, stop, props.UNSUBACK)
    answers = reasons(data[position:stop], codes.UNSUBACK_CODES)
    if not answers:
        raise MqttError("UNSUBACK without reason codes", ReasonCode.PROTOCOL_ERROR)  # 3.11.3
    return k.Unsuback(packet_id, answers, properties)


def _pingreq(data: bytes, start: int, stop: int, v5: bool) -> k.Pingreq:
    no_more(start, stop)
    return k.PINGREQ


def _pingresp(data: bytes, start: int, stop: int, v5: bool) -> k.Pingresp:
    no_more(start, stop)
    return k.PINGRESP


def _disconnect(data: bytes, start: int, stop: int, v5: bool) -> k.Disconnect:
    if start == stop:
        return k.Disconnect()
    reason, properties = _reason_and_properties(
        data, start, stop, v5, codes.DISCONNECT_CODES, props.DISCONNECT
    )
    return k.Disconnect(reason, properties)


def _auth(data: bytes, start: int, stop: int, v5: bool) -> k.Auth:
    if not v5:
        # [MQTT-2.2.1] of 3.1.1: type 15 is reserved.
        raise MqttError("packet type 15 in MQTT 3.1.1")
    if start == stop:
        return k.Auth()
    reason, properties = _reason_and_properties(data, start, stop, v5, codes.AUTH_CODES, props.AUTH)
    return k.Auth(reason, properties)


BODIES: Final[dict[int, Body]] = {
    0x10: connect,
    0x20: connack,
    0x40: _ack(k.Puback, codes.PUBACK_CODES, props.PUBACK),
    0x50: _ack(k.Pubrec, codes.PUBREC_CODES, props.PUBREC),
    0x62: _ack(k.Pubrel, codes.PUBREL_CODES, props.PUBREL),
    0x70: _ack(k.Pubcomp, codes.PUBCOMP_CODES, props.PUBCOMP),
    0x82: _subscribe,
    0x90: _suback,
    0xA2: _unsubscribe,
    0xB0: _unsuback,
    0xC0: _pingreq,
    0xD0: _pingresp,
    0xE0: _disconnect,
    0xF0: _auth,
}
"""The whole first byte -> the reader of the body. The reserved flags are part of the key, so a byte with wrong flags
finds no reader ([MQTT-2.1.3-1], [MQTT-3.6.1-1], [MQTT-3.8.1-1], [MQTT-3.10.1-1], [MQTT-3.14.1-1], [MQTT-3.15.1-1])."""
