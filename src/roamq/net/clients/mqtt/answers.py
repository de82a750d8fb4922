"""Answers that the client accepts: no larger than its maximum packet size, with explanations only if it wants them."""

from typing import Final

import msgspec

from roamq.net.clients.mqtt.codec import (
    NO_PROPERTIES,
    Connack,
    Disconnect,
    Packet,
    Properties,
    ReasonCode,
    encode,
)
from roamq.net.clients.mqtt.codec.reason_codes import CONNACK_CODES, DISCONNECT_CODES
from roamq.net.clients.mqtt.negotiation import Terms

_MAY_EXPLAIN: Final = (Connack, Disconnect)
EXPLANATION_MAX: Final = 256
"""Most characters of a reason string."""


def encode_answer(packet: Packet, terms: Terms) -> bytes | None:
    """The encoded packet, or None if the packet is too large for the client even without its explanations."""
    properties: Properties = getattr(packet, "properties", NO_PROPERTIES)
    if properties is NO_PROPERTIES and terms.packet_size_max is None:
        return encode(packet, terms.version)
    may_explain = terms.problem_information or isinstance(packet, _MAY_EXPLAIN)  # [MQTT-3.1.2-29]
    if properties is not NO_PROPERTIES and not may_explain:
        packet = _without_explanation(packet, properties)
    data = encode(packet, terms.version)
    most = terms.packet_size_max
    if most is None or len(data) <= most:
        return data
    # [MQTT-3.2.2-19], -20, [MQTT-3.4.2-2], -3, [MQTT-3.5.2-2], [MQTT-3.9.2-1], [MQTT-3.11.2-1],
    # [MQTT-3.14.2-3]
    if properties is not NO_PROPERTIES:
        data = encode(_without_explanation(packet, properties), terms.version)
    return data if len(data) <= most else None  # [MQTT-3.1.2-24]


def _without_explanation(packet: Packet, properties: Properties) -> Packet:
    assert isinstance(packet, msgspec.Struct)
    short = msgspec.structs.replace(properties, reason_string=None, user_properties=())
    return msgspec.structs.replace(packet, properties=NO_PROPERTIES if short == NO_PROPERTIES else short)


def explanation(text: str | None, server_reference: str | None = None) -> Properties:
    """A reason string and a server reference as properties. The text is cut: it may quote the client, and MQTT limits
    strings."""
    if not text and server_reference is None:
        return NO_PROPERTIES
    return Properties(
        reason_string=text[:EXPLANATION_MAX] if text else None, server_reference=server_reference
    )


def connack_reason(reason: ReasonCode) -> ReasonCode:
    """The nearest reason code that a CONNACK may carry ([MQTT-3.2.2-8])."""
    if reason in CONNACK_CODES:
        return reason
    is_leaving = reason is ReasonCode.SERVER_SHUTTING_DOWN
    return ReasonCode.SERVER_UNAVAILABLE if is_leaving else ReasonCode.UNSPECIFIED_ERROR


def disconnect_reason(reason: ReasonCode) -> ReasonCode:
    """The nearest reason code that a DISCONNECT may carry ([MQTT-3.14.2-1])."""
    return reason if reason in DISCONNECT_CODES else ReasonCode.UNSPECIFIED_ERROR
