"""One encoding for all receivers: what is patched together decodes to what was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.net.clients.mqtt.codec import (
    NO_PROPERTIES,
    Decoder,
    EncodedMessage,
    Properties,
    Publish,
    Receiver,
    Version,
    encode,
    first_byte,
)
from roamq.net.clients.mqtt.codec.primitives import variable
from roamq.net.clients.mqtt.codec.properties import PUBLISH, read_properties
from roamq.net.clients.mqtt.codec.publishing import carried_fields
from tests.net.clients.mqtt.strategies import names, packet_ids, publishes, versions


def decode_one(version: Version, data: bytes) -> Publish:
    (packet,) = Decoder(version).feed(data)
    assert isinstance(packet, Publish)
    return packet


def carried(properties: Properties, version: Version) -> Properties:
    if version is Version.V311:
        return NO_PROPERTIES
    return Properties(
        payload_format_indicator=properties.payload_format_indicator,
        content_type=properties.content_type,
        response_topic=properties.response_topic,
        correlation_data=properties.correlation_data,
        user_properties=properties.user_properties,
    )


@given(st.data(), versions, versions, st.integers(0, 2), st.booleans(), st.booleans(), packet_ids)
def test_any_publish_reaches_any_receiver(
    data: st.DataObject, came: Version, goes: Version, qos: int, retain: bool, dup: bool, packet_id: int
) -> None:
    sent = data.draw(publishes(came is Version.V5).filter(lambda packet: packet.topic))
    message = EncodedMessage.of(decode_one(came, encode(sent, came)), came)
    v5 = goes is Version.V5

    for _ in range(2):  # the second time from what is kept
        if qos:
            head, tail = message.around_packet_id(v5, first_byte(qos, retain=retain, dup=dup))
            received = decode_one(goes, head + packet_id.to_bytes(2, "big") + tail)
        else:
            received = decode_one(goes, message.qos_0(v5, retain=retain))

        properties = carried(sent.properties, goes)
        assert received == Publish(
            sent.topic, sent.payload, qos, retain, dup and qos > 0, packet_id if qos else 0, properties
        )


@pytest.mark.parametrize("version", Version)
def test_an_unchanged_packet_is_forwarded_and_not_encoded(version: Version) -> None:
    encoded = encode(Publish("a/b", b"payload"), version)
    received = decode_one(version, encoded)

    message = EncodedMessage.of(received, version)

    assert received.wire == encoded
    assert message.qos_0(version is Version.V5) is received.wire


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", Version)
def test_at_qos_1_and_2_only_the_packet_id_is_patched(version: Version, qos: int) -> None:
    encoded = encode(Publish("a/b", b"payload", qos, packet_id=0x0102), version)
    message = EncodedMessage.of(decode_one(version, encoded), version)

    head, tail = message.around_packet_id(version is Version.V5, first_byte(qos))

    assert head + b"\x01\x02" + tail == encoded
    assert message._topic == b"", "nothing was encoded"


@pytest.mark.parametrize("flags", [{"retain": True}, {"qos": 1, "packet_id": 1, "dup": True}])
def test_a_retained_or_repeated_packet_is_not_forwarded_as_it_came(flags: dict[str, int]) -> None:
    """[MQTT-3.3.1-3], [MQTT-3.3.1-12]: DUP and RETAIN are the sender's business."""
    assert decode_one(Version.V5, encode(Publish("a", b"1", **flags), Version.V5)).wire == b""  # type: ignore[arg-type]


@given(publishes(True), names, st.integers(0, 2), packet_ids, st.booleans())
def test_a_receivers_own_properties_come_beside_the_carried_ones(
    publish: Publish, topic: str, qos: int, packet_id: int, omit: bool
) -> None:
    message = EncodedMessage(topic, publish.payload, carried_fields(publish.properties))
    receiver = Receiver(
        topic_alias=7, omit_topic=omit, message_expiry_interval=60, subscription_identifiers=(1, 268_435_455)
    )

    received = decode_one(
        Version.V5, message.for_receiver(first_byte(qos), packet_id if qos else 0, receiver)
    )

    assert received.topic == ("" if omit else topic)
    assert received.payload == publish.payload
    assert received.packet_id == (packet_id if qos else 0)
    assert received.properties.topic_alias == 7
    assert received.properties.message_expiry_interval == 60
    assert received.properties.subscription_identifiers == (1, 268_435_455)
    assert carried(received.properties, Version.V5) == carried(publish.properties, Version.V5)


@given(publishes(True))
def test_carried_fields_are_read_back(publish: Publish) -> None:
    fields = carried_fields(publish.properties)
    encoded = variable(len(fields)) + fields
    read, _ = read_properties(encoded, 0, len(encoded), PUBLISH)
    assert read == carried(publish.properties, Version.V5)
