"""MQTT 5 beside `mqtt5`, a codec that others wrote: what one writes the other reads, and means the same."""

from typing import Any

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.net.clients.mqtt.codec import Decoder, Packet, Properties, Version, encode
from roamq.net.clients.mqtt.codec import packets as k
from tests.net.clients.mqtt.strategies import packets, publishes

RENAMED = {
    "client_identifier": "client_id",
    "user_name": "username",
    "requests": "topic_filters",
    "reason": "reason_code",
    "reasons": "reason_codes",
    "dup": "duplicate",
    "assigned_client_identifier": "assigned_client_id",
    "reason_string": "reason_str",
    "response_information": "response_info",
    "request_problem_information": "request_problem_info",
    "request_response_information": "request_response_info",
    "receive_maximum": "receive_max",
    "topic_alias_maximum": "topic_alias_max",
    "maximum_packet_size": "max_packet_size",
    "maximum_qos": "max_qos",
    "subscription_identifier_available": "subscription_id_available",
}


def theirs(packet: object, name: str) -> Any:
    value = getattr(packet, RENAMED.get(name, name))
    return tuple(value) if isinstance(value, list) else value


def assert_same_properties(ours: Properties, packet: object) -> None:
    """Every property that is there is there with them, with the same value."""
    for name in Properties.__struct_fields__:
        value = getattr(ours, name)
        if value is None or value == ():
            continue
        if name == "subscription_identifiers":
            single = isinstance(packet, mqtt5.SubscribePacket)
            assert value == ((packet.subscription_id,) if single else tuple(packet.subscription_ids))  # type: ignore[attr-defined]
        else:
            assert value == theirs(packet, name), name


def assert_same(ours: Packet, packet: Any) -> None:
    for name in ours.__struct_fields__:
        value = getattr(ours, name)
        if name == "properties":
            assert_same_properties(value, packet)
        elif name == "requests":
            wanted = [
                (f.pattern, f.max_qos, f.no_local, f.retain_as_published, f.retain_handling)
                for f in packet.topic_filters
            ]
            assert [
                (r.topic_filter, r.qos, r.no_local, r.retain_as_published, r.retain_handling) for r in value
            ] == wanted
        elif name == "topic_filters":
            assert list(value) == packet.patterns
        elif name == "will" and value is not None:
            for part in ("topic", "qos", "retain"):
                assert getattr(value, part) == getattr(packet.will, part)
            assert value.payload == (packet.will.payload or b"")
            assert_same_properties(value.properties, packet.will)
        elif name == "packet_id":
            assert value == (theirs(packet, name) or 0)
        elif name not in ("wire", "version"):
            assert value == theirs(packet, name), name


def read(data: bytes) -> Any:
    packet, size = mqtt5.read(memoryview(data))
    assert size == len(data)
    return packet


def they_know(packet: Packet) -> bool:
    """All but an AUTH of no bytes, which section 3.15.2.1 allows and they refuse."""
    return packet != k.Auth()


@given(packets(Version.V5).filter(they_know))
def test_what_we_write_they_read(packet: Packet) -> None:
    assert_same(packet, read(encode(packet, Version.V5)))


@given(packets(Version.V5).filter(they_know))
def test_what_they_write_we_read(packet: Packet) -> None:
    """They leave out defaults that we were told to write, so ours is compared with theirs, not with
    itself."""
    other = read(encode(packet, Version.V5))
    (again,) = Decoder(Version.V5).feed(bytes(other.write()))
    assert_same(again, other)


@given(publishes(True), st.integers(0, 255), st.data())
def test_what_they_refuse_in_a_publish_we_refuse(publish: k.Publish, byte: int, data: st.DataObject) -> None:
    """One byte of the body is changed; a PUBLISH we accept must be one they accept."""
    mutated = bytearray(encode(publish, Version.V5))
    mutated[data.draw(st.integers(2, len(mutated) - 1))] = byte
    try:
        decoded = Decoder(Version.V5).feed(bytes(mutated))
    except Exception:
        return
    for packet in decoded[:1]:
        assert_same(packet, mqtt5.read(memoryview(mutated))[0])


def test_the_oracle_is_alive() -> None:
    """A comparison that can fail: other values are told apart."""
    packet = read(encode(k.Publish("a", b"1"), Version.V5))
    with pytest.raises(AssertionError):
        assert_same(k.Publish("b", b"1"), packet)
