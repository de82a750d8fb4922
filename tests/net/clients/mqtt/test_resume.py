"""Reconnecting, here or at another broker: what is sent again, by which packet id, in which order."""

import pytest

from roamq.core.events import EventId
from roamq.net.clients.mqtt.codec import (
    Connect,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Unsubscribe,
    Version,
)
from roamq.net.clients.mqtt.inputs import Acknowledged
from roamq.net.clients.mqtt.outbound import DeliveryOutcome
from roamq.net.clients.mqtt.state import InFlight, SessionState, dump, load
from tests.net.clients.mqtt.peer import NOW, ORIGIN, Peer, event


def left_under_way(version: Version = Version.V5) -> SessionState:
    """A session whose connection broke: 1 and 2 unacknowledged, 3 received but not released, as bytes and
    back."""
    peer = Peer(version)
    peer.open()
    peer.subscribe("t", 2)
    for sequence, qos in ((1, 1), (2, 2), (3, 2)):
        peer.connection.deliver(event(sequence, qos=qos), NOW)
    peer.send(Pubrec(3))
    peer.connection.lost(NOW)
    return load(dump(peer.connection.state))


def resumed(
    state: SessionState, version: Version = Version.V5, **connect: object
) -> tuple[Peer, list[Packet]]:
    peer = Peer(version)
    fields = {"version": version, "client_id": "c", "clean_start": False, **connect}
    connack, rest = peer.open(Connect(**fields), state)  # type: ignore[arg-type]
    assert connack.session_present
    return peer, rest


@pytest.mark.parametrize("version", Version)
def test_the_rules_of_resuming(version: Version) -> None:
    """[MQTT-4.4.0-1], [MQTT-3.3.1-1], [MQTT-4.6.0-1]: PUBREL again, PUBLISH again with DUP and the same
    id."""
    peer, rest = resumed(left_under_way(version), version)
    assert rest == [Pubrel(3)]

    # The context hands over what was not acknowledged, in its order, and then what is new.
    outcomes = [
        peer.connection.deliver(event(n, qos=qos), NOW) for n, qos in ((1, 1), (2, 2), (3, 2), (4, 1))
    ]

    assert outcomes == [DeliveryOutcome.IN_FLIGHT] * 4
    assert peer.received() == [
        Publish("t", b"", 1, dup=True, packet_id=1),
        Publish("t", b"", 2, dup=True, packet_id=2),
        Publish("t", b"", 1, packet_id=4),
    ]
    acknowledged = [*peer.send(Pubcomp(3)), *peer.send(Puback(1))]
    assert acknowledged == [Acknowledged([EventId(ORIGIN, 3)]), Acknowledged([EventId(ORIGIN, 1)])]


def test_a_session_may_change_its_version() -> None:
    peer, rest = resumed(left_under_way(Version.V311), Version.V5)
    peer.connection.deliver(event(1), NOW)
    assert rest == [Pubrel(3)]
    assert peer.published() == [Publish("t", b"", 1, dup=True, packet_id=1)]


def test_packet_ids_under_way_are_not_used_for_new_events() -> None:
    """emqx#16296: a collision after resume lost a message."""
    state = left_under_way()
    state.last_packet_id = 65535
    peer, _ = resumed(state)
    peer.connection.deliver(event(9), NOW)
    assert [packet.packet_id for packet in peer.published()] == [4]


def test_acknowledged_before_it_is_handed_over_again() -> None:
    """The handoff is slow: PUBCOMP is here before the context's copy of event 3."""
    peer, _ = resumed(left_under_way())
    peer.send(Pubcomp(3))
    assert peer.connection.deliver(event(3, qos=2), NOW) is DeliveryOutcome.DONE
    assert peer.published() == []


def test_its_packet_id_may_even_serve_another_event_by_then() -> None:
    state = left_under_way()
    state.last_packet_id = 2
    peer, _ = resumed(state)
    peer.send(Pubcomp(3))
    peer.connection.deliver(event(8), NOW)
    assert [packet.packet_id for packet in peer.published()] == [3]
    assert peer.connection.deliver(event(3, qos=2), NOW) is DeliveryOutcome.DONE
    assert peer.connection.state.outbound[3] == InFlight(EventId(ORIGIN, 8), 1)


def test_what_was_started_is_completed_though_expired_or_unsubscribed() -> None:
    """[MQTT-4.3.3-7], [MQTT-3.10.4-3]"""
    peer, _ = resumed(left_under_way())
    (packet,) = peer.send(Unsubscribe(1, ("t",)))
    assert isinstance(packet, Unsubscribe)
    peer.connection.unsubscribe(packet)
    peer.received()
    assert peer.connection.deliver(event(2, qos=2, expires_at=NOW - 5), NOW) is DeliveryOutcome.IN_FLIGHT
    (again,) = peer.published()
    assert (again.packet_id, again.dup, again.qos) == (2, True, 2)
    assert again.properties.message_expiry_interval == 0
    assert peer.connection.deliver(event(4), NOW) is DeliveryOutcome.UNWANTED


def test_a_client_that_takes_less_than_before() -> None:
    """[MQTT-3.1.2-25] for something started on a connection with a larger maximum."""
    properties = Properties(maximum_packet_size=20)
    peer, _ = resumed(left_under_way(), properties=properties)
    assert peer.connection.deliver(event(1, payload=b"x" * 30), NOW) is DeliveryOutcome.TOO_LARGE
    assert peer.connection.deliver(event(2, payload=b"x" * 30, qos=2), NOW) is DeliveryOutcome.IN_FLIGHT
    assert peer.received() == [Pubrel(2)]


def test_the_quota_starts_anew_and_repeated_pubrels_do_not_raise_it() -> None:
    """Section 4.9."""
    peer, _ = resumed(left_under_way(), properties=Properties(receive_maximum=2))
    assert peer.connection.outbound.quota == 2
    peer.send(Pubcomp(3))
    assert peer.connection.outbound.quota == 2


def test_subscriptions_come_along() -> None:
    peer, _ = resumed(left_under_way())
    assert peer.connection.deliver(event(4, qos=2), NOW) is DeliveryOutcome.IN_FLIGHT
