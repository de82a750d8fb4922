"""CONNECT and CONNACK: what is negotiated, what is refused and with which reason."""

import pytest

from roamq.core.events import ClientId
from roamq.net.clients.mqtt.codec import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Publish,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Version,
    Will,
    encode,
)
from roamq.net.clients.mqtt.inputs import Closed, ConnectRequested
from roamq.net.clients.mqtt.limits import NEVER, Limits
from roamq.net.clients.mqtt.session import ConnectionPhase, ServerConnection
from roamq.net.clients.mqtt.state import SessionState
from tests.net.clients.mqtt.peer import NOW, Peer


def refusal(peer: Peer, connect: Connect) -> ReasonCode:
    """Connect and be turned away by the protocol itself."""
    assert peer.send(connect) == []
    (connack,) = peer.received()
    assert isinstance(connack, Connack)
    assert peer.connection.phase is ConnectionPhase.CLOSED
    return connack.reason


@pytest.mark.parametrize("version", Version)
def test_the_shell_is_asked_and_the_client_let_in(version: Version) -> None:
    peer = Peer(version)
    connect = Connect(version=version, client_id="c")

    assert peer.send(connect) == [ConnectRequested(connect, ClientId("c"))]
    assert peer.received() == []
    assert peer.connection.accept(None, NOW) == []
    (connack,) = peer.received()

    assert isinstance(connack, Connack)
    assert (connack.reason, connack.session_present) == (ReasonCode.SUCCESS, False)
    assert peer.connection.phase is ConnectionPhase.OPEN


def test_the_defaults_announce_only_what_differs_from_the_standards() -> None:
    connack, _ = Peer().open()
    assert connack.properties == Properties(
        receive_maximum=1024, topic_alias_maximum=64, maximum_packet_size=1024 * 1024
    )


def test_what_is_not_offered_is_announced() -> None:
    """Sections 3.2.2.3.3 to 3.2.2.3.13."""
    limits = Limits(
        receive_maximum=0xFFFF,
        maximum_packet_size=2000,
        topic_alias_maximum=0,
        maximum_qos=1,
        retain_available=False,
        wildcard_subscription_available=False,
        subscription_identifier_available=False,
        shared_subscription_available=False,
    )
    connack, _ = Peer(limits=limits).open()
    assert connack.properties == Properties(
        maximum_packet_size=2000,
        maximum_qos=1,
        retain_available=False,
        wildcard_subscription_available=False,
        subscription_identifier_available=False,
        shared_subscription_available=False,
    )


def test_a_client_without_a_name_is_given_one() -> None:
    """[MQTT-3.1.3-6], [MQTT-3.1.3-7], [MQTT-3.2.2-16]"""
    peer = Peer()
    connack, _ = peer.open(Connect(client_id=""))
    assert connack.properties.assigned_client_identifier == "assigned-1"
    assert peer.connection.state.client_id == "assigned-1"


def test_3_1_1_without_a_name_needs_clean_session() -> None:
    """[MQTT-3.1.3-7] and [MQTT-3.1.3-8] of 3.1.1."""
    peer = Peer(Version.V311)
    peer.open(Connect(version=Version.V311, client_id=""))
    assert peer.connection.state.client_id == "assigned-1"

    kept = Connect(version=Version.V311, client_id="", clean_start=False)
    assert refusal(Peer(Version.V311), kept) is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID


@pytest.mark.parametrize(
    ("limit", "asked", "told", "used"),
    [(0, 600, None, 600), (60, 600, 60, 60), (60, 0, 60, 60), (60, 30, None, 30)],
)
def test_keep_alive(limit: int, asked: int, told: int | None, used: int) -> None:
    """[MQTT-3.2.2-21], [MQTT-3.2.2-22]; [MQTT-3.1.2-22]: one and a half times."""
    peer = Peer(limits=Limits(keep_alive_max=limit))
    connack, _ = peer.open(Connect(client_id="c", keep_alive=asked))
    assert connack.properties.server_keep_alive == told
    assert peer.connection.keep_alive_deadline() == NOW + 1.5 * used


def test_no_keep_alive_no_deadline() -> None:
    peer = Peer()
    peer.open()
    assert peer.connection.keep_alive_deadline() is None
    assert peer.connection.check_keep_alive(NOW + 1e9) == []


def test_a_silent_client_is_disconnected_and_any_packet_is_a_sign_of_life() -> None:
    """[MQTT-3.1.2-22]"""
    peer = Peer()
    peer.open(Connect(client_id="c", keep_alive=10))
    peer.now = NOW + 14
    peer.send(Pingreq())
    assert peer.received() == [Pingresp()]
    assert peer.connection.check_keep_alive(NOW + 28.9) == []

    assert peer.connection.check_keep_alive(NOW + 29) == [
        Closed(ReasonCode.KEEP_ALIVE_TIMEOUT, "keep alive timed out", by_client=False)
    ]
    (disconnect,) = peer.received()
    assert isinstance(disconnect, Disconnect)
    assert disconnect.reason is ReasonCode.KEEP_ALIVE_TIMEOUT


@pytest.mark.parametrize(
    ("asked", "told", "used"), [(None, None, 0), (50, None, 50), (NEVER, 100, 100), (101, 100, 100)]
)
def test_session_expiry_is_cut_to_the_limit_and_said(asked: int | None, told: int | None, used: int) -> None:
    """Section 3.2.2.3.2."""
    peer = Peer(limits=Limits(session_expiry_max=100))
    connack, _ = peer.open(Connect(client_id="c", properties=Properties(session_expiry_interval=asked)))
    assert connack.properties.session_expiry_interval == told
    assert peer.connection.state.expiry_interval == used


@pytest.mark.parametrize(("clean", "expected"), [(True, 0), (False, 3600)])
def test_3_1_1_sessions_are_kept_as_configured(clean: bool, expected: int) -> None:
    peer = Peer(Version.V311, Limits(session_expiry_311=3600))
    peer.open(Connect(version=Version.V311, client_id="c", clean_start=clean))
    assert peer.connection.state.expiry_interval == expected


@pytest.mark.parametrize("version", Version)
def test_session_present_tells_the_truth(version: Version) -> None:
    """[MQTT-3.2.2-2], [MQTT-3.2.2-3]"""
    state = SessionState(client_id=ClientId("c"))
    assert Peer(version).open(state=state)[0].session_present
    fresh = Connect(version=version, client_id="c", clean_start=False)
    assert not Peer(version).open(fresh)[0].session_present


def test_response_information_only_for_those_who_ask() -> None:
    """[MQTT-3.1.2-28]"""
    limits = Limits(response_information="replies/")
    assert Peer(limits=limits).open()[0].properties.response_information is None
    asked = Connect(client_id="c", properties=Properties(request_response_information=True))
    assert Peer(limits=limits).open(asked)[0].properties.response_information == "replies/"


@pytest.mark.parametrize(
    ("connect", "limits", "reason"),
    [
        (
            Connect(client_id="c", will=Will(topic="w", qos=2)),
            Limits(maximum_qos=1),
            ReasonCode.QOS_NOT_SUPPORTED,
        ),
        (
            Connect(client_id="c", will=Will(topic="w", retain=True)),
            Limits(retain_available=False),
            ReasonCode.RETAIN_NOT_SUPPORTED,
        ),
        (Connect(client_id="c" * 65), Limits(client_id_bytes_max=64), ReasonCode.CLIENT_IDENTIFIER_NOT_VALID),
        (
            Connect(client_id="c", properties=Properties(authentication_method="SCRAM")),
            Limits(),
            ReasonCode.BAD_AUTHENTICATION_METHOD,
        ),
    ],
    ids=["[MQTT-3.2.2-12]", "[MQTT-3.2.2-13]", "[MQTT-3.1.3-8]", "[MQTT-4.12.0-1]"],
)
def test_refused_by_the_protocol(connect: Connect, limits: Limits, reason: ReasonCode) -> None:
    assert refusal(Peer(limits=limits), connect) is reason


@pytest.mark.parametrize(
    ("reason", "said_in_311"),
    [
        (ReasonCode.NOT_AUTHORIZED, ReasonCode.NOT_AUTHORIZED),
        (ReasonCode.BANNED, ReasonCode.NOT_AUTHORIZED),
        (ReasonCode.SERVER_BUSY, ReasonCode.SERVER_UNAVAILABLE),
        (ReasonCode.USE_ANOTHER_SERVER, ReasonCode.SERVER_UNAVAILABLE),
    ],
)
def test_refused_by_the_shell(reason: ReasonCode, said_in_311: ReasonCode) -> None:
    for version, said in ((Version.V5, reason), (Version.V311, said_in_311)):
        peer = Peer(version)
        peer.send(Connect(version=version, client_id="c"))
        peer.connection.refuse(reason, "because", "other:1883")
        (connack,) = peer.received()
        assert isinstance(connack, Connack)
        assert connack.reason is said
        if version is Version.V5:
            assert connack.properties == Properties(reason_string="because", server_reference="other:1883")
        assert peer.send(Pingreq()) == [], "nothing is processed after a refusal"


def test_an_unknown_version_is_told_in_the_form_it_may_know() -> None:
    """[MQTT-3.1.2-2]"""
    for level, expected in ((3, b"\x20\x02\x00\x01"), (6, b"\x20")):
        connection = ServerConnection(Limits(), str)
        body = b"\0\4MQTT" + bytes((level, 2)) + b"\0\0\0\1c"
        assert connection.receive(bytes((0x10, len(body))) + body, NOW) == []
        assert b"".join(connection.take_output()).startswith(expected)
        assert connection.phase is ConnectionPhase.CLOSED


def test_who_does_not_speak_mqtt_gets_no_answer() -> None:
    connection = ServerConnection(Limits(), str)
    assert connection.receive(b"GET / HTTP/1.1\r\n\r\n", NOW) == []
    assert connection.take_output() == []
    assert connection.phase is ConnectionPhase.CLOSED


def test_what_is_sent_before_connack_is_handled_after_it() -> None:
    """Section 3.1.4: clients need not wait."""
    peer = Peer()
    hasty = Publish("t", b"hasty")
    peer.send(Connect(client_id="c"), hasty)
    assert peer.connection.reading_paused
    assert peer.connection.accept(None, NOW) == [hasty]
    assert not peer.connection.reading_paused


def test_a_second_connect_is_an_error() -> None:
    """[MQTT-3.1.0-2]"""
    peer = Peer()
    peer.open()
    (closed,) = peer.send(Connect(client_id="c"))
    assert isinstance(closed, Closed)
    assert closed.reason is ReasonCode.PROTOCOL_ERROR


def test_auth_without_a_method_is_an_error() -> None:
    """[MQTT-4.12.0-7]"""
    peer = Peer()
    peer.open()
    (closed,) = peer.send(Auth())
    assert isinstance(closed, Closed)
    assert closed.reason is ReasonCode.PROTOCOL_ERROR


def test_auth_before_the_client_is_let_in_is_an_error() -> None:
    """[MQTT-4.12.0-7]"""
    peer = Peer()
    peer.send(Connect(client_id="c"), Auth())
    (connack,) = peer.received()
    assert isinstance(connack, Connack)
    assert connack.reason is ReasonCode.PROTOCOL_ERROR


def test_a_malformed_connect_of_a_known_version_is_told_so() -> None:
    connection = ServerConnection(Limits(), str)
    mutated = bytearray(encode(Connect(client_id="c"), Version.V5))
    mutated[9] |= 1  # the reserved flag, [MQTT-3.1.2-3]
    connection.receive(bytes(mutated), NOW)
    assert b"".join(connection.take_output())[3] == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("size", [1, 2, 4])
def test_who_does_not_take_even_connack_is_closed_without_a_word(size: int) -> None:
    """[MQTT-3.1.2-24], [MQTT-3.2.0-1]"""
    peer = Peer()
    said = peer.send(Connect(client_id="c", properties=Properties(maximum_packet_size=size)))
    assert said == []
    assert peer.connection.take_output() == []
    assert peer.connection.phase is ConnectionPhase.CLOSED


def test_a_refusal_is_no_larger_than_the_client_takes() -> None:
    for size, answers in ((5, 1), (4, 0)):
        peer = Peer()
        peer.send(Connect(client_id="c"))
        peer.connection.connect = Connect(client_id="c", properties=Properties(maximum_packet_size=size))
        peer.connection.refuse(ReasonCode.NOT_AUTHORIZED, "a long explanation")
        assert [len(data) for data in peer.connection.take_output()] == [5] * answers


def test_a_subscribe_whose_answer_the_client_does_not_take_ends_the_connection() -> None:
    peer = Peer()
    peer.open(Connect(client_id="c", properties=Properties(maximum_packet_size=20)))
    asked = tuple(SubscriptionRequest(f"t/{number}", 0) for number in range(16))
    (wanted,) = peer.send(Subscribe(1, asked[:15]))
    assert isinstance(wanted, Subscribe)
    (closed,) = peer.send(Subscribe(2, asked))
    assert isinstance(closed, Closed)
    (said,) = peer.received()
    assert isinstance(said, Disconnect) and said.reason is ReasonCode.PACKET_TOO_LARGE


@pytest.mark.parametrize(
    ("name", "level", "flags", "is_answered"),
    [
        (b"MQTT", 4, 0x03, False),  # the reserved flag, in 3.1.1
        (b"MQTT", 4, 0x42, False),  # a password without a user name
        (b"MQTT", 5, 0x03, True),
        (b"MQTT", 3, 0x02, True),  # a level that is not supported
        (b"MQTT", 6, 0x02, True),
        (b"MQIsdp", 3, 0x02, False),
        (b"mqtt", 5, 0x02, False),
    ],
)
def test_which_invalid_connects_are_answered(name: bytes, level: int, flags: int, is_answered: bool) -> None:
    """[MQTT-3.1.4-1] of 3.1.1: no answer to a CONNECT that is not valid; [MQTT-3.1.2-2]: one to a wrong level."""
    body = len(name).to_bytes(2, "big") + name + bytes([level, flags, 0, 60])
    body += (b"\x00" if level >= 5 else b"") + b"\x00\x01c" + b"\x00\x01p"
    peer = Peer()
    peer.connection.receive(bytes([0x10, len(body)]) + body, NOW)
    assert bool(peer.connection.take_output()) is is_answered
    assert peer.connection.phase is ConnectionPhase.CLOSED
