"""The packets of MQTT 5 and 3.1.1 as values.

One class serves both versions: fields that 3.1.1 does not have have a default. Reason codes are those of MQTT 5; the
encoder translates the few that 3.1.1 knows. The classes are structs of msgspec rather than dataclasses, because a
broker makes a million of them a second.
"""

from enum import IntEnum
from typing import ClassVar, Final

import msgspec

from roamq.net.clients.mqtt.codec.properties import NO_PROPERTIES, Properties
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode


class Version(IntEnum):
    """The protocol version byte of CONNECT."""

    V311 = 4
    V5 = 5


V311: Final = Version.V311
V5: Final = Version.V5
"""For tests on every packet or client: Python 3.11 takes ten times as long to look into an enumeration."""


class _Packet(msgspec.Struct, frozen=True, gc=False):
    """The common part of all packets: the high nibble of the first byte."""

    TYPE: ClassVar[int] = 0


class Will(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The message to publish when the client is lost."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(_Packet, frozen=True, gc=False, kw_only=True):
    """Client -> server: let me in."""

    TYPE: ClassVar[int] = 1
    version: Version = Version.V5
    client_id: str = ""
    clean_start: bool = True
    """`clean_start` is called Clean Session in 3.1.1."""
    keep_alive: int = 0
    will: Will | None = None
    user_name: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class Connack(_Packet, frozen=True, gc=False):
    """Server -> client: you are in, or the reason why not."""

    TYPE: ClassVar[int] = 2
    session_present: bool = False
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class Publish(_Packet, frozen=True, gc=False, eq=False):
    """Either way: an application message."""

    TYPE: ClassVar[int] = 3
    topic: str
    """The topic name; empty if the packet had only a topic alias, and then filled in by the session."""
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    """Zero at QoS 0, which has none ([MQTT-2.2.1-2])."""
    properties: Properties = NO_PROPERTIES
    wire: bytes = b""
    """The packet as it came, if receivers of the same version and QoS get it with no change but the packet id."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Publish):
            return NotImplemented
        return self._said() == other._said()

    def __hash__(self) -> int:
        return hash(self._said())

    def _said(self) -> tuple[object, ...]:
        """The content of the packet; its spelling (`wire`) makes no difference."""
        return (self.topic, self.payload, self.qos, self.retain, self.dup, self.packet_id, self.properties)


class _Ack(_Packet, frozen=True, gc=False):
    """The common fields of the four answers of QoS 1 and 2."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class Puback(_Ack, frozen=True, gc=False):
    """Receiver -> sender, QoS 1: I have the message."""

    TYPE: ClassVar[int] = 4


class Pubrec(_Ack, frozen=True, gc=False):
    """Receiver -> sender, QoS 2: I have the message."""

    TYPE: ClassVar[int] = 5


class Pubrel(_Ack, frozen=True, gc=False):
    """Sender -> receiver, QoS 2: I will not send the message again."""

    TYPE: ClassVar[int] = 6


class Pubcomp(_Ack, frozen=True, gc=False):
    """Receiver -> sender, QoS 2: I have forgotten the packet id."""

    TYPE: ClassVar[int] = 7


class SubscriptionRequest(msgspec.Struct, frozen=True, gc=False):
    """One topic filter of a SUBSCRIBE with its options."""

    topic_filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(_Packet, frozen=True, gc=False):
    """Client -> server: send me the messages that match."""

    TYPE: ClassVar[int] = 8
    packet_id: int
    requests: tuple[SubscriptionRequest, ...]
    properties: Properties = NO_PROPERTIES


class Suback(_Packet, frozen=True, gc=False):
    """Server -> client: one answer per topic filter."""

    TYPE: ClassVar[int] = 9
    packet_id: int
    reasons: tuple[ReasonCode, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(_Packet, frozen=True, gc=False):
    """Client -> server: send me no more messages for these filters."""

    TYPE: ClassVar[int] = 10
    packet_id: int
    topic_filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(_Packet, frozen=True, gc=False):
    """Server -> client: one answer per topic filter; none in 3.1.1."""

    TYPE: ClassVar[int] = 11
    packet_id: int
    reasons: tuple[ReasonCode, ...] = ()
    properties: Properties = NO_PROPERTIES


class Pingreq(_Packet, frozen=True, gc=False):
    """Client -> server: I am here."""

    TYPE: ClassVar[int] = 12


class Pingresp(_Packet, frozen=True, gc=False):
    """Server -> client: I am here too."""

    TYPE: ClassVar[int] = 13


class Disconnect(_Packet, frozen=True, gc=False):
    """Either way in MQTT 5, from the client in 3.1.1: goodbye, and the reason."""

    TYPE: ClassVar[int] = 14
    reason: ReasonCode = ReasonCode.NORMAL_DISCONNECTION
    properties: Properties = NO_PROPERTIES


class Auth(_Packet, frozen=True, gc=False):
    """Either way, MQTT 5: a step of enhanced authentication."""

    TYPE: ClassVar[int] = 15
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


PINGREQ: Final = Pingreq()
PINGRESP: Final = Pingresp()

Packet = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
