"""Reason codes: the meaning of each answer, and the packets that may carry it (MQTT 5 section 2.4)."""

from enum import IntEnum
from typing import Final

FAILED: Final = 0x80
"""The lowest reason code of a failure."""


class ReasonCode(IntEnum):
    """The byte that says whether a request succeeded, and if not, why."""

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00
    GRANTED_QOS_0 = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def failed(self) -> bool:
        return self >= FAILED


def _codes(*values: int) -> dict[int, ReasonCode]:
    return {value: ReasonCode(value) for value in values}


# The codes that a packet may carry: the "sent by" columns of MQTT 5 tables 3-1, 3-4 to 3-13. Looking a byte up gives
# the enum member too, which is several times quicker than calling the enum.
CONNACK_CODES: Final = _codes(
    0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F
)  # [MQTT-3.2.2-8]
PUBACK_CODES: Final = _codes(0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)  # [MQTT-3.4.2-1]
PUBREC_CODES: Final = PUBACK_CODES  # [MQTT-3.5.2-1]
PUBREL_CODES: Final = _codes(0x00, 0x92)  # [MQTT-3.6.2-1]
PUBCOMP_CODES: Final = PUBREL_CODES  # [MQTT-3.7.2-1]
SUBACK_CODES: Final = _codes(
    0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2
)  # [MQTT-3.9.3-2]
UNSUBACK_CODES: Final = _codes(0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)  # [MQTT-3.11.3-2]
DISCONNECT_CODES: Final = _codes(
    0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)
)  # [MQTT-3.14.2-1]
AUTH_CODES: Final = _codes(0x00, 0x18, 0x19)  # [MQTT-3.15.2-1]

RETURN_CODES_311: Final = {
    ReasonCode.SUCCESS: 0,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: 1,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: 2,
    ReasonCode.SERVER_UNAVAILABLE: 3,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: 4,
    ReasonCode.NOT_AUTHORIZED: 5,
}
"""MQTT 5 reason code -> the return code of a 3.1.1 CONNACK with the same meaning (its table 3.1)."""

CONNACK_CODES_311: Final = {value: code for code, value in RETURN_CODES_311.items()}

_NOT_AUTHORIZED_TOO: Final = frozenset(
    {ReasonCode.BANNED, ReasonCode.BAD_AUTHENTICATION_METHOD, ReasonCode.TOPIC_NAME_INVALID}
)


def return_code_311(code: ReasonCode) -> int:
    """The 3.1.1 return code nearest to `code`. Without an equal one it is "not authorized" for the reasons in
    `_NOT_AUTHORIZED_TOO`, else "unavailable"."""
    if code in _NOT_AUTHORIZED_TOO:
        return RETURN_CODES_311[ReasonCode.NOT_AUTHORIZED]
    return RETURN_CODES_311.get(code, RETURN_CODES_311[ReasonCode.SERVER_UNAVAILABLE])
