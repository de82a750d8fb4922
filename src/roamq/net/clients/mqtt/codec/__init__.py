"""MQTT 5 and 3.1.1, bytes <-> packets, without I/O.

This codec is our own because no maintained library on PyPI reads both versions without a socket, and because it is the
hot path of the live brokers. Rules are cited by the numbers of MQTT 5 unless a comment says 3.1.1.
"""

from roamq.net.clients.mqtt.codec.decoder import PACKET_SIZE_MAX, Decoder
from roamq.net.clients.mqtt.codec.encode import encode
from roamq.net.clients.mqtt.codec.errors import MqttError
from roamq.net.clients.mqtt.codec.packets import (
    PINGREQ,
    PINGRESP,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    Version,
    Will,
)
from roamq.net.clients.mqtt.codec.properties import NO_PROPERTIES, Properties
from roamq.net.clients.mqtt.codec.publishing import EncodedMessage, Receiver, first_byte
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode

__all__ = [
    "NO_PROPERTIES",
    "PACKET_SIZE_MAX",
    "PINGREQ",
    "PINGRESP",
    "Auth",
    "Connack",
    "Connect",
    "Decoder",
    "Disconnect",
    "EncodedMessage",
    "MqttError",
    "Packet",
    "Pingreq",
    "Pingresp",
    "Properties",
    "Puback",
    "Pubcomp",
    "Publish",
    "Pubrec",
    "Pubrel",
    "ReasonCode",
    "Receiver",
    "Suback",
    "Subscribe",
    "SubscriptionRequest",
    "Unsuback",
    "Unsubscribe",
    "Version",
    "Will",
    "encode",
    "first_byte",
]
