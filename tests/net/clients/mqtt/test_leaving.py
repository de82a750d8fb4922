"""Leaving: wills and their delay, session expiry, and who is told what."""

import pytest

from roamq.core.events import ClientId, EventId
from roamq.net.clients.mqtt.attributes import event_of_will
from roamq.net.clients.mqtt.codec import (
    Connack,
    Connect,
    Disconnect,
    Properties,
    Publish,
    ReasonCode,
    Version,
    Will,
)
from roamq.net.clients.mqtt.inputs import Closed
from roamq.net.clients.mqtt.limits import NEVER
from roamq.net.clients.mqtt.session import ConnectionPhase
from roamq.net.clients.mqtt.state import SessionState, dump, load
from tests.net.clients.mqtt.peer import NOW, ORIGIN, Peer

WILL = Will(topic="gone", payload=b"c", qos=1)


def delayed(seconds: int) -> Will:
    return Will(topic="gone", properties=Properties(will_delay_interval=seconds))


def opened(version: Version = Version.V5, will: Will | None = WILL, expiry: int = 0) -> Peer:
    peer = Peer(version)
    properties = Properties(session_expiry_interval=expiry) if version is Version.V5 else Properties()
    peer.open(Connect(version=version, client_id="c", will=will, properties=properties))
    return peer


@pytest.mark.parametrize("version", Version)
def test_a_proper_goodbye_discards_the_will(version: Version) -> None:
    """[MQTT-3.14.4-3], [MQTT-3.1.2-10]"""
    peer = opened(version)
    assert peer.send(Disconnect()) == [Closed(ReasonCode.SUCCESS, "client disconnected", by_client=True)]
    assert peer.connection.state.take_will(NOW) is None
    assert peer.received() == []


@pytest.mark.parametrize("reason", [ReasonCode.DISCONNECT_WITH_WILL, ReasonCode.UNSPECIFIED_ERROR])
def test_any_other_goodbye_does_not(reason: ReasonCode) -> None:
    """Section 3.1.2.5"""
    peer = opened()
    peer.send(Disconnect(reason))
    assert peer.connection.state.take_will(NOW) == WILL


@pytest.mark.parametrize("version", Version)
def test_a_lost_connection_releases_the_will_once(version: Version) -> None:
    """[MQTT-3.1.2-8], [MQTT-3.1.2-10]"""
    peer = opened(version)
    (closed,) = peer.connection.lost(NOW)
    assert isinstance(closed, Closed)
    assert not closed.by_client
    assert peer.connection.state.take_will(NOW) == WILL
    assert peer.connection.state.take_will(NOW) is None
    assert peer.connection.lost(NOW) == [], "closed once"


@pytest.mark.parametrize(
    ("delay", "expiry", "due"), [(30, 100, 30), (30, 10, 10), (30, 0, 0), (30, NEVER, 30)]
)
def test_a_delayed_will_waits_for_its_delay_or_the_end_of_the_session(
    delay: int, expiry: int, due: int
) -> None:
    """[MQTT-3.1.2-8]"""
    peer = opened(will=delayed(delay), expiry=expiry)
    peer.connection.lost(NOW)
    state = load(dump(peer.connection.state))
    if due:
        assert state.take_will(NOW + due - 0.1) is None
    assert state.take_will(NOW + due) == delayed(delay)


def test_who_is_back_in_time_leaves_no_will() -> None:
    """[MQTT-3.1.3-9], at any broker: the will travels with the session."""
    peer = opened(will=delayed(30), expiry=100)
    peer.connection.lost(NOW)
    state = load(dump(peer.connection.state))

    Peer().open(Connect(client_id="c", clean_start=False), state)

    assert state.will is None
    assert state.take_will(NOW + 1000) is None
    assert state.deadline() is None


def test_a_session_that_ends_gives_up_its_will_whatever_the_delay() -> None:
    """Section 3.1.3.2.2: a new connection with Clean Start ends the old session."""
    peer = opened(will=delayed(30), expiry=100)
    peer.connection.close(ReasonCode.SESSION_TAKEN_OVER, NOW)
    assert peer.connection.state.end() == delayed(30)
    assert peer.connection.state.end() is None


def test_sessions_expire() -> None:
    """[MQTT-4.1.0-2]"""
    peer = opened(expiry=60, will=None)
    state = peer.connection.state
    assert not state.expired(NOW + 1e9), "[MQTT-4.1.0-1] not while it is connected"
    peer.connection.lost(NOW)
    assert state.deadline() == NOW + 60
    assert not state.expired(NOW + 59)
    assert state.expired(NOW + 60)


def test_disconnect_may_change_the_expiry() -> None:
    """Section 3.14.2.2.2."""
    peer = opened(expiry=60)
    peer.send(Disconnect(properties=Properties(session_expiry_interval=5)))
    assert peer.connection.state.expires_at == NOW + 5

    forever = opened(expiry=60)
    forever.send(Disconnect(properties=Properties(session_expiry_interval=NEVER)))
    assert forever.connection.state.expires_at is None


def test_disconnect_may_not_revive_a_session_that_was_not_to_outlive_its_connection() -> None:
    """Section 3.14.2.2.2."""
    peer = opened(expiry=0)
    (closed,) = peer.send(Disconnect(properties=Properties(session_expiry_interval=5)))
    assert isinstance(closed, Closed)
    assert closed.reason is ReasonCode.PROTOCOL_ERROR
    assert peer.connection.state.take_will(NOW) == WILL
    assert peer.connection.state.expired(NOW)


def test_closing_from_our_side_says_why_and_where_to_go() -> None:
    """Section 4.11: server redirection."""
    peer = opened()
    (closed,) = peer.connection.close(ReasonCode.USE_ANOTHER_SERVER, NOW, "drained", "b2:1883")
    assert isinstance(closed, Closed)
    assert peer.received() == [
        Disconnect(
            ReasonCode.USE_ANOTHER_SERVER, Properties(reason_string="drained", server_reference="b2:1883")
        )
    ]
    assert peer.connection.phase is ConnectionPhase.CLOSED
    assert peer.send(Publish("t", b"")) == []


def test_3_1_1_is_closed_without_a_word() -> None:
    """3.14 of 3.1.1: only the client sends DISCONNECT."""
    peer = opened(Version.V311)
    peer.connection.close(ReasonCode.SESSION_TAKEN_OVER, NOW)
    assert peer.received() == []
    assert peer.connection.phase is ConnectionPhase.CLOSED


def test_nothing_is_answered_after_goodbye() -> None:
    """[MQTT-3.14.4-1]; but what was asked before it still counts."""
    peer = opened(expiry=60)
    publish = Publish("t", b"", 2, packet_id=1)
    first, closed = peer.send(publish, Disconnect(), Publish("t", b"after"))
    assert first == publish
    assert isinstance(closed, Closed)
    peer.connection.published(publish)
    assert peer.received() == []
    assert peer.connection.state.inbound == {1}


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (ReasonCode.SERVER_SHUTTING_DOWN, ReasonCode.SERVER_UNAVAILABLE),
        (ReasonCode.SESSION_TAKEN_OVER, ReasonCode.UNSPECIFIED_ERROR),
        (ReasonCode.SERVER_BUSY, ReasonCode.SERVER_BUSY),
    ],
)
def test_closing_before_the_client_is_in_is_a_refusal(reason: ReasonCode, said: ReasonCode) -> None:
    """[MQTT-3.14.0-1], and [MQTT-3.2.2-8]: in words that CONNACK has."""
    peer = Peer()
    peer.send(Connect(client_id="c"))
    assert peer.connection.close(reason, NOW) == []
    assert peer.received() == [Connack(False, said)]


def test_a_will_becomes_an_event() -> None:
    properties = Properties(message_expiry_interval=60, user_properties=(("n", "1"), ("m", "x")))
    will = Will(topic="gone", payload=b"c", qos=1, retain=True, properties=properties)
    event = event_of_will(will, EventId(ORIGIN, 9), ClientId("c"), NOW)
    assert (event.topic, event.payload, event.qos, event.retain) == ("gone", b"c", 1, True)
    assert event.expires_at == NOW + 60
    assert event.attributes == {"n": 1, "m": "x"}


def test_a_state_without_will_or_expiry_has_no_deadline() -> None:
    assert SessionState(client_id=ClientId("c")).deadline() is None
