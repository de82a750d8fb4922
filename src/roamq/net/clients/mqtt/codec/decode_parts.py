"""Common parts of the readers of several packets."""

from roamq.net.clients.mqtt.codec import primitives as p
from roamq.net.clients.mqtt.codec.errors import MqttError
from roamq.net.clients.mqtt.codec.properties import Properties
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode


def check_response_topic(properties: Properties) -> None:
    topic = properties.response_topic
    if topic is not None and ("+" in topic or "#" in topic):
        # [MQTT-3.3.2-14]
        raise MqttError(f"response topic {topic!r} contains a wildcard", ReasonCode.PROTOCOL_ERROR)


def read_packet_id(data: bytes, start: int, stop: int) -> tuple[int, int]:
    position = start + 2
    if position > stop:
        raise p.too_short(position, stop)
    packet_id = data[start] << 8 | data[start + 1]
    if not packet_id:
        # [MQTT-2.2.1-3]; answers repeat the id they answer ([MQTT-2.2.1-5], [MQTT-2.2.1-6]).
        raise MqttError("packet id 0", ReasonCode.PROTOCOL_ERROR)
    return packet_id, position


def reasons(data: bytes, allowed: dict[int, ReasonCode]) -> tuple[ReasonCode, ...]:
    try:
        return tuple([allowed[code] for code in data])
    except KeyError as error:
        raise wrong_code(error.args[0]) from None


def wrong_code(code: int) -> MqttError:
    return MqttError(f"reason code 0x{code:02X} does not belong in this packet")


def no_more(position: int, stop: int) -> None:
    if position != stop:
        raise MqttError(f"{stop - position} bytes too many in the packet")
