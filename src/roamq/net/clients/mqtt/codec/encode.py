"""Packets -> bytes, for either version. A PUBLISH for many receivers goes through `publishing.py` instead.

For 3.1.1, properties and most reason codes are left out. The session avoids packets that 3.1.1 does not have (AUTH, a
DISCONNECT from the server with a reason).
"""

from collections.abc import Callable
from typing import Any, Final

from roamq.core.errors import LocalProtocolError
from roamq.net.clients.mqtt.codec import packets as k
from roamq.net.clients.mqtt.codec import properties as props
from roamq.net.clients.mqtt.codec.primitives import binary, string, u16, variable
from roamq.net.clients.mqtt.codec.properties import NO_PROPERTIES, Properties, write_properties
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode, return_code_311


def encode(packet: k.Packet, version: k.Version) -> bytes:
    """The encoded packet."""
    if version is k.Version.V311 and type(packet) is k.Auth:
        raise LocalProtocolError("MQTT 3.1.1 has no AUTH packet")
    first, body = _BODIES[type(packet)](packet, version is k.Version.V5)
    return bytes((first,)) + variable(len(body)) + body


def _publish(packet: k.Publish, v5: bool) -> tuple[int, bytes]:
    pieces = [string(packet.topic)]
    if packet.qos:
        pieces.append(u16(packet.packet_id))
    if v5:
        pieces.append(write_properties(packet.properties, props.PUBLISH))
    pieces.append(packet.payload)
    return 0x30 | packet.dup << 3 | packet.qos << 1 | packet.retain, b"".join(pieces)


def _connect(packet: k.Connect, v5: bool) -> tuple[int, bytes]:
    will = packet.will
    flags = packet.clean_start << 1 | (packet.user_name is not None) << 7 | (packet.password is not None) << 6
    if will is not None:
        flags |= 0x04 | will.qos << 3 | will.retain << 5
    pieces = [b"\x00\x04MQTT", bytes((packet.version, flags)), u16(packet.keep_alive)]
    if v5:
        pieces.append(write_properties(packet.properties, props.CONNECT))
    pieces.append(string(packet.client_id))
    if will is not None:
        if v5:
            pieces.append(write_properties(will.properties, props.WILL))
        pieces += (string(will.topic), binary(will.payload))
    if packet.user_name is not None:
        pieces.append(string(packet.user_name))
    if packet.password is not None:
        pieces.append(binary(packet.password))
    return 0x10, b"".join(pieces)


def _connack(packet: k.Connack, v5: bool) -> tuple[int, bytes]:
    if not v5:
        return 0x20, bytes((packet.session_present, return_code_311(packet.reason)))
    head = bytes((packet.session_present, packet.reason))
    return 0x20, head + write_properties(packet.properties, props.CONNACK)


def _ack(first: int, bit: int) -> Callable[[Any, bool], tuple[int, bytes]]:
    def body(packet: k.Puback | k.Pubrec | k.Pubrel | k.Pubcomp, v5: bool) -> tuple[int, bytes]:
        return first, u16(packet.packet_id) + _end(packet.reason, packet.properties, v5, bit)

    return body


def _end(reason: ReasonCode, properties: Properties, v5: bool, bit: int) -> bytes:
    """Reason code and properties, as short as the standard allows (sections 3.4.2.1, 3.14.2.1)."""
    if not v5 or (not reason and properties == NO_PROPERTIES):
        return b""
    if properties == NO_PROPERTIES:
        return bytes((reason,))
    return bytes((reason,)) + write_properties(properties, bit)


def _subscribe(packet: k.Subscribe, v5: bool) -> tuple[int, bytes]:
    pieces = [u16(packet.packet_id)]
    if v5:
        pieces.append(write_properties(packet.properties, props.SUBSCRIBE))
    for request in packet.requests:
        options = request.qos
        if v5:
            options |= request.no_local << 2 | request.retain_as_published << 3 | request.retain_handling << 4
        pieces += (string(request.topic_filter), bytes((options,)))
    return 0x82, b"".join(pieces)


def _suback(packet: k.Suback, v5: bool) -> tuple[int, bytes]:
    head = u16(packet.packet_id)
    if not v5:
        # [MQTT-3.9.3-2] of 3.1.1: one code for every failure.
        return 0x90, head + bytes(min(reason, ReasonCode.UNSPECIFIED_ERROR) for reason in packet.reasons)
    return 0x90, head + write_properties(packet.properties, props.SUBACK) + bytes(packet.reasons)


def _unsubscribe(packet: k.Unsubscribe, v5: bool) -> tuple[int, bytes]:
    pieces = [u16(packet.packet_id)]
    if v5:
        pieces.append(write_properties(packet.properties, props.UNSUBSCRIBE))
    pieces += (string(topic_filter) for topic_filter in packet.topic_filters)
    return 0xA2, b"".join(pieces)


def _unsuback(packet: k.Unsuback, v5: bool) -> tuple[int, bytes]:
    head = u16(packet.packet_id)
    if not v5:
        return 0xB0, head
    return 0xB0, head + write_properties(packet.properties, props.UNSUBACK) + bytes(packet.reasons)


def _disconnect(packet: k.Disconnect, v5: bool) -> tuple[int, bytes]:
    return 0xE0, _end(packet.reason, packet.properties, v5, props.DISCONNECT)


def _auth(packet: k.Auth, v5: bool) -> tuple[int, bytes]:
    # Section 3.15.2.1: both may be left out together, but not the properties alone.
    if not packet.reason and packet.properties == NO_PROPERTIES:
        return 0xF0, b""
    return 0xF0, bytes((packet.reason,)) + write_properties(packet.properties, props.AUTH)


_BODIES: Final[dict[type[Any], Callable[[Any, bool], tuple[int, bytes]]]] = {
    k.Connect: _connect,
    k.Connack: _connack,
    k.Publish: _publish,
    k.Puback: _ack(0x40, props.PUBACK),
    k.Pubrec: _ack(0x50, props.PUBREC),
    k.Pubrel: _ack(0x62, props.PUBREL),
    k.Pubcomp: _ack(0x70, props.PUBCOMP),
    k.Subscribe: _subscribe,
    k.Suback: _suback,
    k.Unsubscribe: _unsubscribe,
    k.Unsuback: _unsuback,
    k.Pingreq: lambda packet, v5: (0xC0, b""),
    k.Pingresp: lambda packet, v5: (0xD0, b""),
    k.Disconnect: _disconnect,
    k.Auth: _auth,
}
