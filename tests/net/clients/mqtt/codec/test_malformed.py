"""Each rule about what may be on the wire, broken once: the reason code is the one the standard names."""

import pytest

from roamq.net.clients.mqtt.codec import (
    Connect,
    Decoder,
    Disconnect,
    MqttError,
    Packet,
    Pingreq,
    Publish,
    ReasonCode,
    Version,
    encode,
)

MALFORMED = ReasonCode.MALFORMED_PACKET
PROTOCOL = ReasonCode.PROTOCOL_ERROR
UNSUPPORTED = ReasonCode.UNSUPPORTED_PROTOCOL_VERSION


def packet(first: int, body: bytes) -> bytes:
    return bytes((first, len(body))) + body


def connect(
    flags: int, payload: bytes, *, level: int = 5, name: bytes = b"MQTT", properties: bytes = b"\0"
) -> bytes:
    extra = properties if level == 5 else b""
    return packet(
        0x10, b"\0" + bytes((len(name),)) + name + bytes((level, flags)) + b"\0\0" + extra + payload
    )


CASES_5 = {
    "[MQTT-1.5.4-1] UTF-8": (packet(0x30, b"\0\2\xc3\x28\0"), MALFORMED),
    "[MQTT-1.5.4-1] no surrogates": (packet(0x30, b"\0\3\xed\xa0\x80\0"), MALFORMED),
    "[MQTT-1.5.4-2] no U+0000": (packet(0x30, b"\0\2a\0\0"), MALFORMED),
    "[MQTT-1.5.5-1] shortest remaining length": (b"\xc0\x80\x00", MALFORMED),
    "[MQTT-1.5.5-1] shortest property length": (packet(0x30, b"\0\1a\x80\x00"), MALFORMED),
    "1.5.5 four bytes at most": (b"\x30\xff\xff\xff\xff\x7f", MALFORMED),
    "[MQTT-2.1.3-1] type 0": (packet(0x00, b""), MALFORMED),
    "[MQTT-2.1.3-1] flags of PINGREQ": (packet(0xC1, b""), MALFORMED),
    "[MQTT-3.6.1-1] flags of PUBREL": (packet(0x60, b"\0\1"), MALFORMED),
    "[MQTT-3.8.1-1] flags of SUBSCRIBE": (packet(0x80, b"\0\1\0\0\1a\0"), MALFORMED),
    "[MQTT-3.10.1-1] flags of UNSUBSCRIBE": (packet(0xA0, b"\0\1\0\0\1a"), MALFORMED),
    "[MQTT-3.14.1-1] flags of DISCONNECT": (packet(0xE1, b""), MALFORMED),
    "[MQTT-3.15.1-1] flags of AUTH": (packet(0xF1, b""), MALFORMED),
    "[MQTT-2.2.1-3] packet id 0 in PUBLISH": (packet(0x32, b"\0\1a\0\0\0"), PROTOCOL),
    "[MQTT-2.2.1-3] packet id 0 in SUBSCRIBE": (packet(0x82, b"\0\0\0\0\1a\0"), PROTOCOL),
    "packet id 0 in PUBACK": (packet(0x40, b"\0\0"), PROTOCOL),
    "[MQTT-3.3.1-4] QoS 3": (packet(0x36, b"\0\1a\0\1\0"), MALFORMED),
    "[MQTT-3.3.1-2] DUP at QoS 0": (packet(0x38, b"\0\1a\0"), MALFORMED),
    "[MQTT-3.3.2-2] wildcard": (packet(0x30, b"\0\1#\0"), ReasonCode.TOPIC_NAME_INVALID),
    "[MQTT-4.7.3-1] no topic and no alias": (packet(0x30, b"\0\0\0"), PROTOCOL),
    "[MQTT-3.3.2-14] wildcard in response topic": (packet(0x30, b"\0\1a\x04\x08\0\1#"), PROTOCOL),
    "[MQTT-2.2.2-1] property length is not optional": (packet(0x30, b"\0\1a"), MALFORMED),
    "topic beyond the end": (packet(0x30, b"\0\5ab"), MALFORMED),
    "2.2.2.2 property of another packet": (packet(0x30, b"\0\1a\x03\x21\0\1"), MALFORMED),
    "2.2.2.2 unknown property": (packet(0x30, b"\0\1a\x02\x7e\0"), MALFORMED),
    "2.2.2.2 property twice": (packet(0x30, b"\0\1a\x04\x01\0\x01\0"), PROTOCOL),
    "3.3.2.3.2 indicator of 2": (packet(0x30, b"\0\1a\x02\x01\2"), PROTOCOL),
    "3.3.2.3.8 subscription identifier 0": (packet(0x30, b"\0\1a\x02\x0b\0"), PROTOCOL),
    "3.8.2.1.2 two subscription identifiers": (packet(0x82, b"\0\1\4\x0b\1\x0b\2\0\1a\0"), PROTOCOL),
    "properties beyond the end": (packet(0x30, b"\0\1a\x09"), MALFORMED),
    "[MQTT-3.4.2-1] reason code of another packet": (packet(0x40, b"\0\1\x92"), MALFORMED),
    "[MQTT-3.8.3-2] no filter": (packet(0x82, b"\0\1\0"), PROTOCOL),
    "[MQTT-3.8.3-5] reserved bits": (packet(0x82, b"\0\1\0\0\1a\x40"), MALFORMED),
    "3.8.3.1 QoS 3": (packet(0x82, b"\0\1\0\0\1a\x03"), PROTOCOL),
    "3.8.3.1 retain handling 3": (packet(0x82, b"\0\1\0\0\1a\x30"), PROTOCOL),
    "[MQTT-3.8.3-4] No Local, shared": (packet(0x82, b"\0\1\0\0\x0a$share/g/a\4"), PROTOCOL),
    "[MQTT-4.7.1-1] '#' not last": (packet(0x82, b"\0\1\0\0\3#/a\0"), ReasonCode.TOPIC_FILTER_INVALID),
    "[MQTT-4.7.1-2] '+' in a level": (packet(0x82, b"\0\1\0\0\2a+\0"), ReasonCode.TOPIC_FILTER_INVALID),
    "[MQTT-4.7.3-1] empty filter": (packet(0x82, b"\0\1\0\0\0\0"), ReasonCode.TOPIC_FILTER_INVALID),
    "[MQTT-4.8.2-1] no share name": (
        packet(0x82, b"\0\1\0\0\x09$share//a\0"),
        ReasonCode.TOPIC_FILTER_INVALID,
    ),
    "[MQTT-4.8.2-2] no filter": (packet(0x82, b"\0\1\0\0\x08$share/g\0"), ReasonCode.TOPIC_FILTER_INVALID),
    "[MQTT-4.8.2-2] wildcard in the name": (
        packet(0x82, b"\0\1\0\0\x0b$share/g+/a\0"),
        ReasonCode.TOPIC_FILTER_INVALID,
    ),
    "[MQTT-3.10.3-2] nothing to unsubscribe": (packet(0xA2, b"\0\1\0"), PROTOCOL),
    "PINGREQ with a body": (packet(0xC0, b"\0"), MALFORMED),
    "bytes after the properties": (packet(0xE0, b"\0\0\0"), MALFORMED),
}

CASES_CONNECT = {
    "[MQTT-3.1.0-1] PUBLISH first": (packet(0x30, b"\0\1a\0"), PROTOCOL),
    "[MQTT-3.1.0-1] PUBACK first": (packet(0x40, b"\0\1"), PROTOCOL),
    "[MQTT-3.1.0-1] known from an incomplete packet": (b"\x30\x7f", PROTOCOL),
    "[MQTT-3.1.2-1] protocol name": (connect(2, b"\0\1c", name=b"MQIsdp", level=3), UNSUPPORTED),
    "[MQTT-3.1.2-2] protocol version": (connect(2, b"\0\1c", level=6), UNSUPPORTED),
    "[MQTT-3.1.2-3] reserved flag": (connect(3, b"\0\1c"), MALFORMED),
    "[MQTT-3.1.2-11] will QoS, no will": (connect(0x0A, b"\0\1c"), MALFORMED),
    "[MQTT-3.1.2-13] will retain, no will": (connect(0x22, b"\0\1c"), MALFORMED),
    "[MQTT-3.1.2-12] will QoS 3": (connect(0x1E, b"\0\1c\0\0\1t\0\0"), MALFORMED),
    "[MQTT-3.1.2-9] will flag, no will": (connect(0x06, b"\0\1c"), MALFORMED),
    "[MQTT-3.1.2-17] user name flag, no user name": (connect(0x82, b"\0\1c"), MALFORMED),
    "[MQTT-3.1.2-16] user name, no flag": (connect(0x02, b"\0\1c\0\1u"), MALFORMED),
    "[MQTT-3.1.2-22] of 3.1.1: password alone": (connect(0x42, b"\0\1c\0\1p", level=4), MALFORMED),
    "[MQTT-3.1.3-3] no client identifier": (connect(2, b""), MALFORMED),
    "3.1.2.11.10 data without method": (connect(2, b"\0\1c", properties=b"\3\x16\0\0"), PROTOCOL),
    "3.1.2.11.3 receive maximum 0": (connect(2, b"\0\1c", properties=b"\3\x21\0\0"), PROTOCOL),
    "3.1.2.11.4 maximum packet size 0": (connect(2, b"\0\1c", properties=b"\5\x27\0\0\0\0"), PROTOCOL),
    "[MQTT-3.3.2-2] wildcard in will topic": (
        connect(0x06, b"\0\1c\0\0\1+\0\0"),
        ReasonCode.TOPIC_NAME_INVALID,
    ),
}

CASES_311 = {
    "reason code in PUBACK": (packet(0x40, b"\0\1\0"), MALFORMED),
    "reason code in DISCONNECT": (packet(0xE0, b"\0"), MALFORMED),
    "AUTH": (packet(0xF0, b""), MALFORMED),
    "[MQTT-3.8.3-4] options of MQTT 5": (packet(0x82, b"\0\1\0\1a\x04"), MALFORMED),
    "[MQTT-4.7.3-1] empty topic": (packet(0x30, b"\0\0"), PROTOCOL),
}


@pytest.mark.parametrize(("data", "reason"), CASES_5.values(), ids=CASES_5)
def test_mqtt_5(data: bytes, reason: ReasonCode) -> None:
    with pytest.raises(MqttError) as caught:
        Decoder(Version.V5).feed(data)
    assert caught.value.reason is reason


@pytest.mark.parametrize(("data", "reason"), CASES_CONNECT.values(), ids=CASES_CONNECT)
def test_before_the_version_is_known(data: bytes, reason: ReasonCode) -> None:
    with pytest.raises(MqttError) as caught:
        Decoder().feed(data)
    assert caught.value.reason is reason


@pytest.mark.parametrize(("data", "reason"), CASES_311.values(), ids=CASES_311)
def test_mqtt_3_1_1(data: bytes, reason: ReasonCode) -> None:
    with pytest.raises(MqttError) as caught:
        Decoder(Version.V311).feed(data)
    assert caught.value.reason is reason


def test_a_packet_too_large_is_refused_from_its_header() -> None:
    """[MQTT-3.2.2-15]; nobody has to wait, or pay, for the rest."""
    decoder = Decoder(Version.V5, max_packet_size=100)
    assert decoder.feed(encode(Publish("a", b"x" * 94), Version.V5)) == [Publish("a", b"x" * 94)]

    with pytest.raises(MqttError) as caught:
        decoder.feed(b"\x30\x63")
    assert caught.value.reason is ReasonCode.PACKET_TOO_LARGE


def test_what_came_before_the_mistake_counts() -> None:
    good = Publish("a", b"1")
    with pytest.raises(MqttError) as caught:
        Decoder(Version.V5).feed(encode(good, Version.V5) + b"\x00\x00")
    assert caught.value.decoded == [good]


@pytest.mark.parametrize("version", Version)
def test_the_version_is_learned_from_connect(version: Version) -> None:
    decoder = Decoder()
    sent: list[Packet] = [
        Connect(version=version, client_id="c"),
        Publish("a", b"1"),
        Pingreq(),
        Disconnect(),
    ]

    assert decoder.feed(b"".join(encode(packet, version) for packet in sent)) == sent
    assert decoder.version is version


def test_a_large_packet_in_small_reads_is_joined_once() -> None:
    """Gathering must stay linear: the decoder must not copy what it holds at every read."""
    packet = Publish("a", b"x" * 1_000_000)
    encoded = encode(packet, Version.V5)
    decoder = Decoder(Version.V5)

    for at in range(0, len(encoded) - 1, 100):
        assert decoder.feed(encoded[at : min(at + 100, len(encoded) - 1)]) == []
    assert len(decoder._held or ()) > 9_000
    assert decoder.feed(encoded[-1:]) == [packet]
