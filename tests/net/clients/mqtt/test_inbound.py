"""Messages from a client: QoS 0, 1 and 2, aliases, limits."""

from typing import NamedTuple

import pytest

from roamq.core.events import ClientId
from roamq.net.clients.mqtt.codec import (
    PINGRESP,
    Disconnect,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Version,
)
from roamq.net.clients.mqtt.inputs import ClientInput, Closed
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.session import ConnectionPhase
from roamq.net.clients.mqtt.state import SessionState, dump, load
from tests.net.clients.mqtt.peer import Peer


def opened(
    version: Version = Version.V5, limits: Limits | None = None, state: SessionState | None = None
) -> Peer:
    peer = Peer(version, limits)
    peer.open(state=state)
    return peer


def one_closed(inputs: list[ClientInput]) -> ReasonCode:
    (closed,) = inputs
    assert isinstance(closed, Closed)
    return closed.reason


def test_qos_0_is_handed_on_and_not_answered() -> None:
    peer = opened()
    publish = Publish("t", b"1")
    assert peer.send(publish) == [publish]
    peer.connection.published(publish)
    assert peer.received() == []


@pytest.mark.parametrize("version", Version)
def test_qos_1_is_acknowledged_when_it_is_safe(version: Version) -> None:
    """[MQTT-4.3.2-4], [MQTT-3.3.4-1]"""
    peer = opened(version)
    publish = Publish("t", b"1", 1, packet_id=7)
    assert peer.send(publish) == [publish]
    assert peer.received() == []
    peer.connection.published(publish)
    assert peer.received() == [Puback(7)]
    # [MQTT-4.3.2-5] now it is a new message, DUP or not
    again = Publish("t", b"1", 1, dup=True, packet_id=7)
    assert peer.send(again) == [again]


def test_a_refusal_has_its_reason_in_mqtt_5_only() -> None:
    publish = Publish("t", b"1", 1, packet_id=7)
    for version, expected in (
        (Version.V5, Puback(7, ReasonCode.NOT_AUTHORIZED, Properties(reason_string="no"))),
        (Version.V311, Puback(7)),
    ):
        peer = opened(version)
        peer.send(publish)
        peer.connection.published(publish, ReasonCode.NOT_AUTHORIZED, "no")
        assert peer.received() == [expected]


@pytest.mark.parametrize("version", Version)
def test_qos_2_is_published_once(version: Version) -> None:
    """[MQTT-4.3.3-8], -10, -11, -12"""
    peer = opened(version)
    publish = Publish("t", b"1", 2, packet_id=7)
    duplicate = Publish("t", b"1", 2, dup=True, packet_id=7)
    assert peer.send(publish) == [publish]
    assert peer.send(duplicate) == [], "the answer to the first is still to come"
    peer.connection.published(publish)
    assert peer.received() == [Pubrec(7)]
    assert peer.send(duplicate) == []
    assert peer.received() == [Pubrec(7)]
    assert peer.send(Pubrel(7)) == []
    assert peer.received() == [Pubcomp(7)]
    assert peer.send(publish) == [publish], "released: the id stands for a new message"


def test_an_unknown_pubrel_is_answered_all_the_same() -> None:
    """[MQTT-4.3.3-11]: a client that lost our PUBCOMP must be able to finish."""
    peer = opened()
    assert peer.send(Pubrel(9)) == []
    assert peer.received() == [Pubcomp(9, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]


def test_qos_2_that_was_refused_is_new_when_it_comes_again() -> None:
    """[MQTT-4.3.3-9]"""
    peer = opened()
    publish = Publish("t", b"1", 2, packet_id=7)
    peer.send(publish)
    peer.connection.published(publish, ReasonCode.QUOTA_EXCEEDED)
    assert peer.received() == [Pubrec(7, ReasonCode.QUOTA_EXCEEDED)]
    assert peer.send(publish) == [publish]


def test_a_publisher_may_move_between_publish_and_pubrel() -> None:
    """QoS 2 stays exactly once at the next broker: the known ids travel with the session."""
    old = opened()
    publish = Publish("t", b"1", 2, packet_id=7)
    old.send(publish)

    new = opened(state=load(dump(old.connection.state)))
    assert new.send(Publish("t", b"1", 2, dup=True, packet_id=7)) == []
    assert new.received() == [Pubrec(7)]
    new.send(Pubrel(7))
    assert new.received() == [Pubcomp(7)]


def test_the_receive_maximum_counts_what_is_not_finished() -> None:
    """[MQTT-3.3.4-7]: QoS 1 until PUBACK, QoS 2 until PUBCOMP."""
    peer = opened(limits=Limits(receive_maximum=2))
    first, second = Publish("t", b"", 1, packet_id=1), Publish("t", b"", 2, packet_id=2)
    peer.send(first, second)
    peer.connection.published(first)
    peer.connection.published(second)
    third = Publish("t", b"", 1, packet_id=3)
    assert peer.send(third) == [third]
    assert one_closed(peer.send(Publish("t", b"", 1, packet_id=4))) is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_3_1_1_has_no_receive_maximum() -> None:
    peer = opened(Version.V311, Limits(receive_maximum=2))
    packets = [Publish("t", b"", 1, packet_id=id_) for id_ in range(1, 6)]
    assert peer.send(*packets) == packets


def aliased(topic: str, alias: int) -> Publish:
    return Publish(topic, b"1", properties=Properties(topic_alias=alias))


def test_topic_aliases() -> None:
    """Section 3.3.2.3.4: set, use, set anew."""
    peer = opened()
    inputs = peer.send(aliased("a", 1), aliased("", 1), aliased("b", 1), aliased("", 1), aliased("c", 64))
    assert [packet.topic for packet in inputs if isinstance(packet, Publish)] == ["a", "a", "b", "b", "c"]


def test_an_alias_does_not_outlive_its_connection() -> None:
    """[MQTT-3.3.2-7]"""
    old = opened()
    old.send(aliased("a", 1))
    new = opened(state=old.connection.state)
    assert one_closed(new.send(aliased("", 1))) is ReasonCode.PROTOCOL_ERROR


class Broken(NamedTuple):
    packet: Packet
    reason: ReasonCode
    limits: Limits = Limits()


BROKEN = {
    "[MQTT-3.3.2-8] alias 0": Broken(aliased("a", 0), ReasonCode.TOPIC_ALIAS_INVALID),
    "[MQTT-3.3.2-9] alias too high": Broken(aliased("a", 65), ReasonCode.TOPIC_ALIAS_INVALID),
    "[MQTT-3.2.2-18] no aliases": Broken(
        aliased("a", 1), ReasonCode.TOPIC_ALIAS_INVALID, Limits(topic_alias_maximum=0)
    ),
    "[MQTT-3.3.4-6] subscription identifier": Broken(
        Publish("a", b"", properties=Properties(subscription_identifiers=(1,))), ReasonCode.PROTOCOL_ERROR
    ),
    "[MQTT-3.2.2-11] QoS": Broken(
        Publish("a", b"", 2, packet_id=1), ReasonCode.QOS_NOT_SUPPORTED, Limits(maximum_qos=1)
    ),
    "[MQTT-3.2.2-14] retain": Broken(
        Publish("a", b"", retain=True), ReasonCode.RETAIN_NOT_SUPPORTED, Limits(retain_available=False)
    ),
    "3.3.2.3.2 payload format at QoS 0": Broken(
        Publish("a", b"\xff", properties=Properties(payload_format_indicator=True)),
        ReasonCode.PAYLOAD_FORMAT_INVALID,
    ),
    "a server's packet": Broken(PINGRESP, ReasonCode.PROTOCOL_ERROR),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_what_a_client_may_not_send_closes_with_its_reason(case: Broken) -> None:
    peer = opened(limits=case.limits)
    assert one_closed(peer.send(case.packet)) is case.reason
    (disconnect,) = peer.received()
    assert isinstance(disconnect, Disconnect)
    assert disconnect.reason is case.reason
    assert disconnect.properties.reason_string
    assert peer.connection.phase is ConnectionPhase.CLOSED


@pytest.mark.parametrize(("qos", "answer"), [(1, Puback), (2, Pubrec)])
def test_a_wrong_payload_format_is_refused_in_the_acknowledgement(qos: int, answer: type) -> None:
    peer = opened()
    wrong = Publish("a", b"\xff", qos, packet_id=3, properties=Properties(payload_format_indicator=True))
    assert peer.send(wrong) == []
    assert peer.received() == [answer(3, ReasonCode.PAYLOAD_FORMAT_INVALID)]
    assert peer.connection.state.inbound == set()


def test_what_came_before_a_mistake_is_handed_on() -> None:
    peer = opened()
    good = Publish("a", b"1")
    first, closed = peer.send(good, aliased("a", 0), Publish("a", b"after"))
    assert first == good
    assert isinstance(closed, Closed)


def test_state_is_a_value() -> None:
    state = SessionState(client_id=ClientId("c"), inbound={3, 5}, expiry_interval=9)
    assert load(dump(state)) == state
