"""Properties of the codec: every packet survives the wire, and no bytes cause anything but `MqttError`."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from roamq.net.clients.mqtt.codec import Decoder, MqttError, Packet, Version, encode
from tests.net.clients.mqtt.strategies import packets, versioned_packets, versions


@given(versioned_packets)
def test_every_packet_survives_the_wire(case: tuple[Version, Packet]) -> None:
    version, packet = case
    assert Decoder(version).feed(encode(packet, version)) == [packet]


@settings(max_examples=50)
@given(st.data(), versions)
def test_it_makes_no_difference_how_the_bytes_are_cut(data: st.DataObject, version: Version) -> None:
    sent = data.draw(st.lists(packets(version), min_size=1, max_size=6))
    stream = b"".join(encode(packet, version) for packet in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    decoder = Decoder(version)

    received = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decoder.feed(stream[begin:end])

    assert received == sent


@settings(max_examples=30)
@given(versioned_packets)
def test_nothing_comes_before_the_last_byte(case: tuple[Version, Packet]) -> None:
    version, packet = case
    encoded = encode(packet, version)
    decoder = Decoder(version)

    assert [decoder.feed(encoded[i : i + 1]) for i in range(len(encoded) - 1)] == [[]] * (len(encoded) - 1)
    assert decoder.feed(encoded[-1:]) == [packet]


def feed_anything(version: Version | None, data: bytes) -> None:
    """Whatever is decoded must encode again: nothing half-valid gets through."""
    decoder = Decoder(version)
    try:
        decoded = decoder.feed(data)
    except MqttError as error:
        decoded = error.decoded
    for packet in decoded:
        assert decoder.version is not None
        assert Decoder(decoder.version).feed(encode(packet, decoder.version)) == [packet]


@given(st.none() | versions, st.binary(max_size=64))
@example(Version.V5, b"\x30\xff\xff\xff\xff\x01")
@example(Version.V5, b"\x30\x00")
@example(Version.V5, b"\x40\x02\x00\x00")
def test_any_bytes_at_all_raise_nothing_but_mqtt_error(version: Version | None, data: bytes) -> None:
    feed_anything(version, data)


@given(versioned_packets, st.data())
def test_a_mutated_packet_raises_nothing_but_mqtt_error(
    case: tuple[Version, Packet], data: st.DataObject
) -> None:
    version, packet = case
    mutated = bytearray(encode(packet, version))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        kind = data.draw(st.sampled_from(["set", "insert", "delete"]))
        if kind == "set":
            mutated[at] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            mutated.insert(at, data.draw(st.integers(0, 255)))
        elif len(mutated) > 1:
            del mutated[at]
    feed_anything(version, bytes(mutated))


@given(versioned_packets, st.data())
def test_a_mutated_body_of_the_right_length_raises_nothing_but_mqtt_error(
    case: tuple[Version, Packet], data: st.DataObject
) -> None:
    """The same, but the length stays right, so that the mistake is found inside the packet."""
    version, packet = case
    mutated = bytearray(encode(packet, version))
    for _ in range(data.draw(st.integers(1, 4))):
        if len(mutated) > 2:
            mutated[data.draw(st.integers(2, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    feed_anything(version, bytes(mutated))
