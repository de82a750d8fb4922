"""Events to a client: quality of service, flags, properties of its own, the window, packet ids."""

import pytest

from roamq.core.errors import LocalProtocolError
from roamq.core.events import EventId
from roamq.net.clients.mqtt.codec import (
    Connect,
    EncodedMessage,
    Pingreq,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Version,
)
from roamq.net.clients.mqtt.codec.publishing import carried_fields
from roamq.net.clients.mqtt.inputs import Acknowledged, Closed
from roamq.net.clients.mqtt.outbound import DeliveryOutcome
from roamq.net.clients.mqtt.state import RETAINED, InFlight
from tests.net.clients.mqtt.peer import NOW, ORIGIN, Peer, event


def subscribed(
    topic_filter: str = "t",
    qos: int = 2,
    *,
    version: Version = Version.V5,
    connect: Properties | None = None,
    properties: Properties | None = None,
    **options: int,
) -> Peer:
    peer = Peer(version)
    peer.open(Connect(version=version, client_id="c", properties=connect or Properties()))
    peer.subscribe(topic_filter, qos, properties, **options)
    return peer


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_lower_quality_of_service_wins(version: Version, published: int, granted: int) -> None:
    """[MQTT-3.8.4-8]"""
    peer = subscribed(qos=granted, version=version)
    expected = min(published, granted)

    outcome = peer.connection.deliver(event(payload=b"x", qos=published), NOW)

    assert outcome is (DeliveryOutcome.IN_FLIGHT if expected else DeliveryOutcome.DONE)
    assert peer.published() == [Publish("t", b"x", expected, packet_id=1 if expected else 0)]


def test_qos_1_is_done_with_puback() -> None:
    peer = subscribed()
    peer.connection.deliver(event(5, qos=1), NOW)
    assert peer.connection.state.outbound == {1: InFlight(EventId(ORIGIN, 5), 1)}
    assert peer.send(Puback(1)) == [Acknowledged([EventId(ORIGIN, 5)])]
    assert peer.connection.state.outbound == {}
    assert peer.send(Puback(1)) == [], "an acknowledgement too many does no harm"


def test_what_is_acknowledged_in_one_read_is_one_input() -> None:
    peer = subscribed()
    for sequence in (5, 6, 7):
        peer.connection.deliver(event(sequence, qos=1), NOW)
    assert peer.send(Puback(1), Puback(3), Pingreq(), Puback(2)) == [
        Acknowledged([EventId(ORIGIN, 5), EventId(ORIGIN, 7), EventId(ORIGIN, 6)])
    ]


def test_qos_2_is_done_with_pubcomp() -> None:
    """[MQTT-4.3.3-4]"""
    peer = subscribed()
    peer.connection.deliver(event(5, qos=2), NOW)
    peer.received()
    assert peer.send(Pubrec(1)) == []
    assert peer.received() == [Pubrel(1)]
    assert peer.connection.state.outbound == {1: InFlight(EventId(ORIGIN, 5), 2, released=True)}
    assert peer.send(Pubcomp(1)) == [Acknowledged([EventId(ORIGIN, 5)])]
    assert peer.connection.state.outbound == {}


def test_a_refusal_by_the_client_ends_it_too() -> None:
    """[MQTT-4.4.0-2]"""
    peer = subscribed()
    peer.connection.deliver(event(5, qos=2), NOW)
    peer.connection.deliver(event(6, qos=1), NOW)
    peer.received()
    refused = ReasonCode.QUOTA_EXCEEDED
    assert peer.send(Pubrec(1, refused)) == [Acknowledged([EventId(ORIGIN, 5)])]
    assert peer.send(Puback(2, refused)) == [Acknowledged([EventId(ORIGIN, 6)])]
    assert peer.received() == []
    assert peer.connection.state.outbound == {}


def test_pubrec_of_an_unknown_id_is_answered() -> None:
    peer = subscribed()
    assert peer.send(Pubrec(9)) == []
    assert peer.received() == [Pubrel(9, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]


@pytest.mark.parametrize(("qos", "packet"), [(2, Puback(1)), (1, Pubrec(1)), (2, Pubcomp(1))])
def test_the_wrong_acknowledgement_closes_and_loses_nothing(
    qos: int, packet: Puback | Pubrec | Pubcomp
) -> None:
    peer = subscribed()
    peer.connection.deliver(event(5, qos=qos), NOW)
    (closed,) = peer.send(packet)
    assert isinstance(closed, Closed)
    assert closed.reason is ReasonCode.PROTOCOL_ERROR
    assert peer.connection.state.outbound == {1: InFlight(EventId(ORIGIN, 5), qos)}


def test_packet_ids_are_unused_and_count_on() -> None:
    """[MQTT-2.2.1-4], across the turn of the counter."""
    peer = subscribed()
    state = peer.connection.state
    state.last_packet_id = 65534
    state.outbound[1] = InFlight(EventId(ORIGIN, 1), 1)
    for sequence in (2, 3, 4):
        peer.connection.deliver(event(sequence), NOW)
    assert [packet.packet_id for packet in peer.published()] == [65535, 2, 3]


def test_the_window_is_the_clients_receive_maximum() -> None:
    """[MQTT-4.9.0-1], [MQTT-4.9.0-2], [MQTT-3.3.4-9]"""
    peer = subscribed(connect=Properties(receive_maximum=2))
    assert peer.connection.terms.window == 2
    peer.connection.deliver(event(1), NOW)
    peer.connection.deliver(event(2, qos=2), NOW)
    assert peer.connection.outbound.quota == 0
    assert peer.connection.deliver(event(3, qos=0), NOW) is DeliveryOutcome.DONE, "QoS 0 does not count"
    with pytest.raises(LocalProtocolError):
        peer.connection.deliver(event(4), NOW)
    peer.send(Pubrec(2))
    assert peer.connection.outbound.quota == 0, "QoS 2 counts until PUBCOMP"
    peer.send(Pubcomp(2))
    assert peer.connection.outbound.quota == 1
    peer.send(Puback(1))
    assert peer.connection.outbound.quota == 2


@pytest.mark.parametrize(("retain", "as_published", "expected"), [(1, 0, 0), (1, 1, 1), (0, 1, 0)])
def test_retain_as_published(retain: bool, as_published: int, expected: bool) -> None:
    """[MQTT-3.3.1-12], [MQTT-3.3.1-13]"""
    peer = subscribed(retain_as_published=as_published)
    peer.connection.deliver(event(retain=bool(retain)), NOW)
    assert [packet.retain for packet in peer.published()] == [bool(expected)]


@pytest.mark.parametrize("version", Version)
def test_a_replayed_message_is_marked_as_retained(version: Version) -> None:
    """Section 3.3.1.3, whatever Retain As Published says."""
    peer = subscribed(version=version)
    replay = peer.connection.state.next_replay_id()
    assert replay == EventId(RETAINED, 1)
    peer.connection.deliver(event(id=replay, retain=True), NOW)
    assert [packet.retain for packet in peer.published()] == [True]


def test_carried_properties_go_along_unaltered() -> None:
    """[MQTT-3.3.2-4], -15, -16, -17, -18, -20"""
    carried = Properties(
        payload_format_indicator=True,
        content_type="text/plain",
        response_topic="r",
        correlation_data=b"42",
        user_properties=(("b", "2"), ("a", "1"), ("b", "3")),
    )
    for version, expected in ((Version.V5, carried), (Version.V311, Properties())):
        peer = subscribed(version=version)
        peer.connection.deliver(event(properties=EncodedMessage("t", b"", carried_fields(carried))), NOW)
        assert [packet.properties for packet in peer.published()] == [expected]


def test_subscription_identifiers_of_all_matching_subscriptions() -> None:
    """[MQTT-3.3.4-3], [MQTT-3.3.4-4]"""
    peer = subscribed("t/#", properties=Properties(subscription_identifiers=(7,)))
    peer.subscribe("t/+", 1, Properties(subscription_identifiers=(268_435_455,)))
    peer.subscribe("t/a", 0)
    peer.subscribe("u", 0, Properties(subscription_identifiers=(9,)))
    peer.connection.deliver(event(topic="t/a", qos=2), NOW)
    (packet,) = peer.published()
    assert set(packet.properties.subscription_identifiers) == {7, 268_435_455}
    assert packet.qos == 2, "[MQTT-3.3.4-2] the highest of all"


def test_expiry_counts_down_and_the_expired_is_not_sent() -> None:
    """[MQTT-3.3.2-5], [MQTT-3.3.2-6]"""
    peer = subscribed()
    assert peer.connection.deliver(event(1, expires_at=NOW + 60), NOW + 15.5) is DeliveryOutcome.IN_FLIGHT
    assert [p.properties.message_expiry_interval for p in peer.published()] == [45]
    assert peer.connection.deliver(event(2, expires_at=NOW + 60), NOW + 60) is DeliveryOutcome.EXPIRED
    assert peer.published() == []
    assert len(peer.connection.state.outbound) == 1


def test_topic_aliases_are_used_up_to_what_the_client_allows() -> None:
    """[MQTT-3.1.2-26], [MQTT-3.3.2-11]"""
    peer = subscribed("#", 0, connect=Properties(topic_alias_maximum=2))
    for sequence, topic in enumerate(["a", "b", "c", "a", "b", "c"], 1):
        peer.connection.deliver(event(sequence, topic=topic, qos=0), NOW)
    sent = [(packet.topic, packet.properties.topic_alias) for packet in peer.published()]
    assert sent == [("a", 1), ("b", 2), ("c", None), ("", 1), ("", 2), ("c", None)]


def test_no_alias_for_those_who_want_none() -> None:
    """[MQTT-3.1.2-27]"""
    peer = subscribed("#", 0)
    peer.connection.deliver(event(topic="a", qos=0), NOW)
    assert [packet.properties.topic_alias for packet in peer.published()] == [None]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("alias", [0, 5])
def test_what_is_too_large_counts_as_sent(qos: int, alias: int) -> None:
    """[MQTT-3.1.2-24], [MQTT-3.1.2-25]; no packet id, no quota and no alias is spent on it."""
    peer = subscribed("#", connect=Properties(maximum_packet_size=50, topic_alias_maximum=alias))
    assert peer.connection.deliver(event(1, "a", b"x" * 60, qos), NOW) is DeliveryOutcome.TOO_LARGE
    assert peer.received() == []
    assert peer.connection.state.outbound == {}
    assert peer.connection.outbound.quota == peer.connection.terms.window
    peer.connection.deliver(event(2, "a", b"x", qos), NOW)
    (packet,) = peer.published()
    assert packet.topic == "a"
    assert packet.properties.topic_alias == (1 if alias else None)


def test_exactly_the_maximum_size_is_sent() -> None:
    size = 2 + 2 + 1 + 1 + 30
    peer = subscribed("#", connect=Properties(maximum_packet_size=size))
    assert peer.connection.deliver(event(1, "a", b"x" * 30, 0), NOW) is DeliveryOutcome.DONE
    assert peer.connection.deliver(event(2, "a", b"x" * 31, 0), NOW) is DeliveryOutcome.TOO_LARGE


def test_no_local() -> None:
    """[MQTT-3.8.3-3]"""
    peer = subscribed("t", no_local=1)
    own = event(1, publisher="c")
    assert peer.connection.deliver(own, NOW) is DeliveryOutcome.UNWANTED
    assert peer.connection.deliver(event(2), NOW) is DeliveryOutcome.IN_FLIGHT
    peer.subscribe("#", 0)
    assert peer.connection.deliver(own, NOW) is DeliveryOutcome.DONE, "the other subscription takes it"


def test_what_matches_no_more_is_unwanted() -> None:
    peer = subscribed("t")
    assert peer.connection.deliver(event(1, "other"), NOW) is DeliveryOutcome.UNWANTED
    assert peer.received() == []


@pytest.mark.parametrize("qos", [0, 1])
def test_what_outgrows_mqtt_itself_counts_as_too_large(qos: int) -> None:
    """The largest 3.1.1 packet has no room for the property length that MQTT 5 adds."""

    class Huge(bytes):
        def __len__(self) -> int:
            return 268_435_455

    peer = subscribed()
    assert peer.connection.deliver(event(1, "t", Huge(), qos), NOW) is DeliveryOutcome.TOO_LARGE
    assert peer.received() == []
    assert peer.connection.state.outbound == {}


def test_a_pubrec_that_reports_a_failure_is_not_answered_even_if_its_packet_id_is_unknown() -> None:
    """Section 4.3.3"""
    peer = Peer()
    peer.open()
    peer.send(Pubrec(77, ReasonCode.UNSPECIFIED_ERROR))
    assert peer.received() == []
    peer.send(Pubrec(77))
    assert peer.received() == [Pubrel(77, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]
