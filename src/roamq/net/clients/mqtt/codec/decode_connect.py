"""CONNECT and CONNACK bodies -> packets."""

from typing import Final

from roamq.net.clients.mqtt.codec import packets as k
from roamq.net.clients.mqtt.codec import primitives as p
from roamq.net.clients.mqtt.codec import properties as props
from roamq.net.clients.mqtt.codec import reason_codes as codes
from roamq.net.clients.mqtt.codec.decode_parts import check_response_topic, no_more, wrong_code
from roamq.net.clients.mqtt.codec.errors import MqttError
from roamq.net.clients.mqtt.codec.properties import NO_PROPERTIES, read_properties
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode
from roamq.net.clients.mqtt.codec.topics import topic_name

_SPOKEN: Final = {b"\x00\x04MQTT\x04": k.Version.V311, b"\x00\x04MQTT\x05": k.Version.V5}
"""The first bytes of CONNECT's body -> the version."""
_BEGIN_BYTES: Final = 7


def connect(data: bytes, start: int, stop: int, v5: bool) -> k.Connect:
    after = start + _BEGIN_BYTES
    version = _SPOKEN.get(data[start:after])
    if version is None or after > stop:
        raise _unspoken(data, start, stop)
    try:
        return _connect(data, after, stop, version)
    except MqttError as error:
        # A malformed CONNECT gets an answer in MQTT 5; 3.1.1 forbids it ([MQTT-3.1.4-1] there).
        if version is k.Version.V5:
            error.version = version
        raise


def _unspoken(data: bytes, start: int, stop: int) -> MqttError:
    """The error for a CONNECT of another protocol, which gets no answer, or of another level of MQTT, which gets one
    ([MQTT-3.1.2-1], [MQTT-3.1.2-2])."""
    name, position = p.read_binary(data, start, stop)
    level, _ = p.read_byte(data, position, stop)
    error = MqttError(f"protocol {name[:16]!r} level {level}", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)
    if name == b"MQTT":
        error.version = k.Version.V5 if level >= k.Version.V5 else k.Version.V311
    return error


def _connect(data: bytes, position: int, stop: int, version: k.Version) -> k.Connect:
    v5 = version is k.V5
    if position + 3 > stop:
        raise p.too_short(position + 3, stop)
    bits, keep_alive = data[position], data[position + 1] << 8 | data[position + 2]
    position += 3
    if bits & 0x01:
        # [MQTT-3.1.2-3]
        raise MqttError("reserved flag of CONNECT is set")
    properties = NO_PROPERTIES
    if v5:
        properties, position = read_properties(data, position, stop, props.CONNECT)
        if properties.authentication_data is not None and properties.authentication_method is None:
            raise MqttError("authentication data without a method", ReasonCode.PROTOCOL_ERROR)  # 3.1.2.11.10
    # [MQTT-3.1.3-1] client identifier, will, user name, password, in this order.
    client_id, position = p.read_string(data, position, stop)
    will = user_name = password = None
    if bits & 0x3C:
        will, position = _will(data, bits, position, stop, v5)
    if bits & 0x80:
        # [MQTT-3.1.2-17]
        user_name, position = p.read_string(data, position, stop)
    if bits & 0x40:
        # [MQTT-3.1.2-19]; in 3.1.1 a password needs a user name ([MQTT-3.1.2-22] there).
        if not v5 and user_name is None:
            raise MqttError("password without a user name")
        password, position = p.read_binary(data, position, stop)
    no_more(position, stop)
    return k.Connect(
        version=version,
        client_id=client_id,
        clean_start=bits & 0x02 != 0,
        keep_alive=keep_alive,
        will=will,
        user_name=user_name,
        password=password,
        properties=properties,
    )


def _will(data: bytes, bits: int, position: int, stop: int, v5: bool) -> tuple[k.Will | None, int]:
    qos = bits >> 3 & 3
    retain = bits & 0x20 != 0
    if not bits & 0x04:
        # [MQTT-3.1.2-11], [MQTT-3.1.2-13]
        if qos or retain:
            raise MqttError("will QoS or will retain without a will")
        return None, position
    if qos == 3:
        # [MQTT-3.1.2-12]
        raise MqttError("will with QoS 3")
    # [MQTT-3.1.2-9]
    properties = NO_PROPERTIES
    if v5:
        properties, position = read_properties(data, position, stop, props.WILL)
        check_response_topic(properties)
    raw, position = p.read_binary(data, position, stop)
    topic = topic_name(raw)
    if not topic:
        # [MQTT-4.7.3-1]
        raise MqttError("will without a topic name", ReasonCode.TOPIC_NAME_INVALID)
    payload, position = p.read_binary(data, position, stop)
    return k.Will(topic=topic, payload=payload, qos=qos, retain=retain, properties=properties), position


def connack(data: bytes, start: int, stop: int, v5: bool) -> k.Connack:
    bits, position = p.read_byte(data, start, stop)
    if bits > 1:
        # [MQTT-3.2.2-1]
        raise MqttError("reserved flags of CONNACK are set")
    code, position = p.read_byte(data, position, stop)
    reason = (codes.CONNACK_CODES if v5 else codes.CONNACK_CODES_311).get(code)
    if reason is None:
        raise wrong_code(code)
    if bits and reason:
        # [MQTT-3.2.2-6]
        raise MqttError("session present in a refusal", ReasonCode.PROTOCOL_ERROR)
    properties = NO_PROPERTIES
    if v5:
        properties, position = read_properties(data, position, stop, props.CONNACK)
    no_more(position, stop)
    return k.Connack(bits == 1, reason, properties)
