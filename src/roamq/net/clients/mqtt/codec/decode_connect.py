"""CONNECT and CONNACK bodies -> packets."""

from roamq.net.clients.mqtt.codec import packets as k
from roamq.net.clients.mqtt.codec import primitives as p
from roamq.net.clients.mqtt.codec import properties as props
from roamq.net.clients.mqtt.codec import reason_codes as codes
from roamq.net.clients.mqtt.codec.decode_parts import check_response_topic, no_more, wrong_code
from roamq.net.clients.mqtt.codec.errors import MqttError
from roamq.net.clients.mqtt.codec.properties import NO_PROPERTIES, read_properties
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode
from roamq.net.clients.mqtt.codec.topics import topic_name


def connect(data: bytes, start: int, stop: int, v5: bool) -> k.Connect:
    name, position = p.read_binary(data, start, stop)
    level, position = p.read_byte(data, position, stop)
    is_supported = name == b"MQTT" and level in (k.Version.V311, k.Version.V5)
    try:
        if not is_supported:
            # [MQTT-3.1.2-1], [MQTT-3.1.2-2]
            raise MqttError(f"protocol {name[:16]!r} level {level}", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)
        return _connect(data, position, stop, k.Version(level))
    except MqttError as error:
        # Another protocol gets no answer. A malformed CONNECT gets one in MQTT 5; 3.1.1 forbids it ([MQTT-3.1.4-1]
        # there), but a level that is not supported is no mistake of form.
        if name == b"MQTT" and level >= k.Version.V5:
            error.version = k.Version.V5
        elif name == b"MQTT" and not is_supported:
            error.version = k.Version.V311
        raise


def _connect(data: bytes, position: int, stop: int, version: k.Version) -> k.Connect:
    v5 = version is k.Version.V5
    bits, position = p.read_byte(data, position, stop)
    if bits & 0x01:
        # [MQTT-3.1.2-3]
        raise MqttError("reserved flag of CONNECT is set")
    keep_alive, position = p.read_u16(data, position, stop)
    properties = NO_PROPERTIES
    if v5:
        properties, position = read_properties(data, position, stop, props.CONNECT)
        if properties.authentication_data is not None and properties.authentication_method is None:
            raise MqttError("authentication data without a method", ReasonCode.PROTOCOL_ERROR)  # 3.1.2.11.10
    # [MQTT-3.1.3-1] client identifier, will, user name, password, in this order.
    client_id, position = p.read_string(data, position, stop)
    will, position = _will(data, bits, position, stop, v5)
    user_name = password = None
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
