"""Properties of MQTT 5 packets (section 2.2.2): one value class, one table, one reader and one writer.

The table has the identifier of every property, its field, its data type, and the packets that may hold it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar, cast

import msgspec

from roamq.net.clients.mqtt.codec import primitives as p
from roamq.net.clients.mqtt.codec.errors import MqttError
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode


class Properties(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """All properties of MQTT 5; None or an empty tuple means absent. The names are the standard's.

    This is a struct of msgspec, like the packets: it is several times quicker to make than a frozen dataclass, and it
    is sent and stored without a line of code.
    """

    payload_format_indicator: bool | None = None
    message_expiry_interval: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: bool | None = None
    will_delay_interval: int | None = None
    request_response_information: bool | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: bool | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: bool | None = None
    subscription_identifier_available: bool | None = None
    shared_subscription_available: bool | None = None

    def user_property(self, name: str) -> str | None:
        """The value of the first user property of that name; None if there is none."""
        if not self.user_properties:
            return None
        return next((value for key, value in self.user_properties if key == name), None)


NO_PROPERTIES: Final = Properties()

# Packets as bits: 1 << packet type, and bit 0, which no packet has, for the properties of a will.
WILL: Final = 1 << 0
CONNECT: Final = 1 << 1
CONNACK: Final = 1 << 2
PUBLISH: Final = 1 << 3
PUBACK: Final = 1 << 4
PUBREC: Final = 1 << 5
PUBREL: Final = 1 << 6
PUBCOMP: Final = 1 << 7
SUBSCRIBE: Final = 1 << 8
SUBACK: Final = 1 << 9
UNSUBSCRIBE: Final = 1 << 10
UNSUBACK: Final = 1 << 11
DISCONNECT: Final = 1 << 14
AUTH: Final = 1 << 15

_ANSWERS: Final = CONNACK | PUBACK | PUBREC | PUBREL | PUBCOMP | SUBACK | UNSUBACK | DISCONNECT | AUTH
_ALL: Final = _ANSWERS | WILL | CONNECT | PUBLISH | SUBSCRIBE | UNSUBSCRIBE
_MESSAGE: Final = PUBLISH | WILL
_AUTHENTICATION: Final = CONNECT | CONNACK | AUTH

T = TypeVar("T")


class PropertyKind(NamedTuple):
    """A data type of properties, with its reader and its writer."""

    read: Callable[[bytes, int, int], tuple[object, int]]
    write: Callable[..., bytes]


def _bit(data: bytes, position: int, end: int) -> tuple[bool, int]:
    value, position = p.read_byte(data, position, end)
    if value > 1:
        raise MqttError(f"a property that is 0 or 1 has the value {value}", ReasonCode.PROTOCOL_ERROR)
    return value == 1, position


def _maximum_qos(data: bytes, position: int, end: int) -> tuple[int, int]:
    value, position = _bit(data, position, end)
    return int(value), position


def _not_zero(
    read: Callable[[bytes, int, int], tuple[int, int]],
) -> Callable[[bytes, int, int], tuple[int, int]]:
    def reader(data: bytes, position: int, end: int) -> tuple[int, int]:
        value, position = read(data, position, end)
        if not value:
            # Sections 3.1.2.11.3, 3.1.2.11.4, 3.2.2.3.3, 3.2.2.3.6, 3.3.2.3.8 and 3.8.2.1.2.
            raise MqttError("a property that must not be zero is zero", ReasonCode.PROTOCOL_ERROR)
        return value, position

    return reader


def _pair(data: bytes, position: int, end: int) -> tuple[tuple[str, str], int]:
    name, position = p.read_string(data, position, end)
    value, position = p.read_string(data, position, end)
    return (name, value), position


def _write_pair(pair: tuple[str, str]) -> bytes:
    return p.string(pair[0]) + p.string(pair[1])


def _write_byte(value: int) -> bytes:
    return bytes((value,))


_BIT: Final = PropertyKind(_bit, _write_byte)
_MAXIMUM_QOS: Final = PropertyKind(_maximum_qos, _write_byte)
_U16: Final = PropertyKind(p.read_u16, p.u16)
_U16_NOT_ZERO: Final = PropertyKind(_not_zero(p.read_u16), p.u16)
_U32: Final = PropertyKind(p.read_u32, p.u32)
_U32_NOT_ZERO: Final = PropertyKind(_not_zero(p.read_u32), p.u32)
_VARIABLE_NOT_ZERO: Final = PropertyKind(_not_zero(p.read_variable), p.variable)
_STRING: Final = PropertyKind(p.read_string, p.string)
_BINARY: Final = PropertyKind(p.read_binary, p.binary)
_PAIR: Final = PropertyKind(_pair, _write_pair)


class Property(NamedTuple):
    """A row of table 2-4."""

    identifier: int
    field: str
    kind: PropertyKind
    packets: int
    repeated_in: int = 0
    """Packets in which the property may appear more than once; its field is a tuple."""

    @property
    def is_tuple(self) -> bool:
        return self.repeated_in != 0


TABLE: Final = (
    Property(0x01, "payload_format_indicator", _BIT, _MESSAGE),
    Property(0x02, "message_expiry_interval", _U32, _MESSAGE),
    Property(0x03, "content_type", _STRING, _MESSAGE),
    Property(0x08, "response_topic", _STRING, _MESSAGE),
    Property(0x09, "correlation_data", _BINARY, _MESSAGE),
    Property(0x0B, "subscription_identifiers", _VARIABLE_NOT_ZERO, PUBLISH | SUBSCRIBE, PUBLISH),
    Property(0x11, "session_expiry_interval", _U32, CONNECT | CONNACK | DISCONNECT),
    Property(0x12, "assigned_client_identifier", _STRING, CONNACK),
    Property(0x13, "server_keep_alive", _U16, CONNACK),
    Property(0x15, "authentication_method", _STRING, _AUTHENTICATION),
    Property(0x16, "authentication_data", _BINARY, _AUTHENTICATION),
    Property(0x17, "request_problem_information", _BIT, CONNECT),
    Property(0x18, "will_delay_interval", _U32, WILL),
    Property(0x19, "request_response_information", _BIT, CONNECT),
    Property(0x1A, "response_information", _STRING, CONNACK),
    Property(0x1C, "server_reference", _STRING, CONNACK | DISCONNECT),
    Property(0x1F, "reason_string", _STRING, _ANSWERS),
    Property(0x21, "receive_maximum", _U16_NOT_ZERO, CONNECT | CONNACK),
    Property(0x22, "topic_alias_maximum", _U16, CONNECT | CONNACK),
    Property(0x23, "topic_alias", _U16, PUBLISH),  # the session refuses zero, with 0x94
    Property(0x24, "maximum_qos", _MAXIMUM_QOS, CONNACK),
    Property(0x25, "retain_available", _BIT, CONNACK),
    Property(0x26, "user_properties", _PAIR, _ALL, _ALL),
    Property(0x27, "maximum_packet_size", _U32_NOT_ZERO, CONNECT | CONNACK),
    Property(0x28, "wildcard_subscription_available", _BIT, CONNACK),
    Property(0x29, "subscription_identifier_available", _BIT, CONNACK),
    Property(0x2A, "shared_subscription_available", _BIT, CONNACK),
)

_BY_IDENTIFIER: Final = {row.identifier: row for row in TABLE}
_PLACES: Final = tuple((row, Properties.__struct_fields__.index(row.field)) for row in TABLE)
"""Each property, and the place of its field in `Properties`."""


REPEATED_MAX: Final = 128
"""How often a property that may be repeated comes in one packet at most. The standard names no bound, and an event
carries its user properties to every broker."""


def read_properties(data: bytes, position: int, end: int, packet: int) -> tuple[Properties, int]:
    """The property list at `position`; `packet` is the bit of the packet that holds it."""
    length, position = p.read_variable(data, position, end)
    if not length:
        return NO_PROPERTIES, position
    stop = position + length
    if stop > end:
        raise MqttError("properties go beyond the end of the packet")
    fields: dict[str, object] = {}
    while position < stop:
        # An identifier is a variable byte integer, but all existing ones fit one byte: above 0x7F is unknown.
        row = _BY_IDENTIFIER.get(data[position])
        if row is None or not row.packets & packet:
            raise MqttError(f"property 0x{data[position]:02X} does not belong in this packet")
        value, position = row.kind.read(data, position + 1, stop)
        field = row.field
        if field not in fields:
            fields[field] = [value] if row.is_tuple else value
        elif row.repeated_in & packet:
            values = cast("list[object]", fields[field])
            values.append(value)
            if len(values) > REPEATED_MAX:
                raise MqttError(f"more than {REPEATED_MAX} of {field} in a packet", ReasonCode.QUOTA_EXCEEDED)
        else:
            raise MqttError(f"property {field} appears twice", ReasonCode.PROTOCOL_ERROR)
    for name, value in fields.items():
        if type(value) is list:
            fields[name] = tuple(value)
    return Properties(**fields), position  # type: ignore[arg-type]  # the table pairs field and type


def property_fields(properties: Properties, packet: int) -> bytes:
    """The encoded properties without their length, in the table's order. A property that `packet` may not hold is an
    error."""
    if properties is NO_PROPERTIES:
        return b""
    pieces: list[bytes] = []
    values = msgspec.structs.astuple(properties)
    for row, place in _PLACES:
        value = values[place]
        if value is None or value == ():
            continue
        assert row.packets & packet, f"{row.field} does not belong in this packet"
        identifier = bytes((row.identifier,))
        if row.is_tuple:
            pieces.extend(identifier + row.kind.write(item) for item in value)
        else:
            pieces.append(identifier + row.kind.write(value))
    return b"".join(pieces)


def write_properties(properties: Properties, packet: int) -> bytes:
    fields = property_fields(properties, packet)
    # [MQTT-2.2.2-1] no properties: a length of zero.
    return p.variable(len(fields)) + fields if fields else b"\0"
