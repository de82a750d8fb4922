"""Rules of the standards about sessions, wills, retained messages and shared groups, in a network (docs/mqtt.md).

Here are those that no other file of tests has; each test names its rule.
"""

import pytest

from roamq.net.clients.mqtt.codec import (
    Connack,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Unsubscribe,
    Version,
    Will,
)
from tests.net.network import SCHEMES, Line, Network

DELAY_S = 0.04
HOUR_S = 3600
SHARE = "$share/group/t"
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)


def subscribed(network: Network, client: str, broker: str, topic_filter: str, qos: int = 1) -> Line:
    line = network.connect(client, broker)
    line.subscribe(topic_filter, qos)
    network.run(1)
    return line


# --- sessions ---------------------------------------------------------------------------------------------------


@every_scheme
def test_the_end_of_a_session_leaves_its_retained_messages(scheme: str) -> None:
    """[MQTT-3.1.2-7] of 3.1.1, section 4.1 of MQTT 5."""
    network = Network(scheme, DELAY_S)
    for version in (Version.V5, Version.V311):
        line = network.connect("c", clean=True, expiry=0, version=version)
        line.publish(f"kept/{int(version)}", "x", retain=True)
        network.run(1)
        line.drop()
        network.run(5)
    for broker in ("b1", "b2", "b3"):
        assert sorted(subscribed(network, f"late-{broker}", broker, "kept/+").payloads) == ["x", "x"]


@every_scheme
def test_a_client_id_is_one_session_and_another_is_another(scheme: str) -> None:
    """[MQTT-3.1.3-2]: compared as it is written, at every broker."""
    network = Network(scheme, DELAY_S)
    for client in ("c", "C", "c "):
        subscribed(network, client, "b1", f"t/{client}").drop()
    network.run(1)
    publisher = network.connect("p", "b3")
    for client in ("c", "C", "c "):
        publisher.publish(f"t/{client}", client)
    network.run(1)
    for client in ("c", "C", "c "):
        line = network.connect(client, "b2")
        network.run(1)
        assert line.is_present and line.payloads == [client]


@every_scheme
@pytest.mark.parametrize("expiry", [0, 1])
def test_a_session_lasts_as_long_as_its_connection(scheme: str, expiry: int) -> None:
    """[MQTT-4.1.0-1]; 3.1.1: [MQTT-4.1.0-2]. Its expiry runs from the end of the connection alone."""
    network = Network(scheme, DELAY_S)
    publisher = network.connect("p", "b3")
    line = network.connect("c", "b1", expiry=expiry or 1000)
    line.subscribe("t")
    network.run(1)
    line = network.connect("c", "b2", expiry=expiry)
    network.run(HOUR_S)
    assert line.is_open and line.is_present
    publisher.publish("t", "x")
    network.run(1)
    assert line.payloads == ["x"]
    line.drop()
    network.run(5)
    assert not network.connect("c", "b3").is_present


@every_scheme
def test_connack_comes_first_and_once(scheme: str) -> None:
    """[MQTT-3.2.0-1], [MQTT-3.2.0-2]: whatever is stored, and wherever it was."""
    network = Network(scheme, DELAY_S)
    line = subscribed(network, "c", "b1", "t")
    publisher = network.connect("p", "b3")
    for broker in ("b2", "b3", "b1", "b1", "b2"):
        line.drop()
        network.run(0.01)
        for number in range(3):
            publisher.publish("t", str(number))
        line = network.connect("c", broker)
        network.run(1)
        kinds = [type(packet) for packet in line.packets]
        assert kinds[0] is Connack and kinds.count(Connack) == 1
        assert line.payloads == ["0", "1", "2"]


# --- what was sent ----------------------------------------------------------------------------------------------


@every_scheme
@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_is_sent_again_but_after_a_reconnect(scheme: str, qos: int) -> None:
    """[MQTT-4.4.0-1]: "MUST NOT resend messages at any other time"."""
    network = Network(scheme, DELAY_S)
    line = subscribed(network, "c", "b1", "t", qos)
    line.answers = False
    publisher = network.connect("p", "b3")
    publisher.publish("t", "x", qos)
    network.run(HOUR_S)
    assert [(p.payload, p.dup) for p in line.publishes] == [(b"x", False)]
    again = network.connect("c", "b2", answers=False)
    network.run(HOUR_S)
    assert [(p.payload, p.dup) for p in again.publishes] == [(b"x", True)]


@every_scheme
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_begun_is_completed_at_another_broker_after_unsubscribe(scheme: str, qos: int) -> None:
    """[MQTT-3.10.4-2], [MQTT-3.10.4-3]."""
    network = Network(scheme, DELAY_S)
    line = subscribed(network, "c", "b1", "t", qos)
    line.answers = False
    publisher = network.connect("p", "b3")
    publisher.publish("t", "begun", qos)
    network.run(1)
    line.send(Unsubscribe(9, ("t",)))
    network.run(1)
    publisher.publish("t", "too late", qos)
    network.run(1)
    (packet,) = line.publishes
    line.drop()
    again = network.connect("c", "b2")
    network.run(1)
    assert [(p.payload, p.dup, p.packet_id) for p in again.publishes] == [(b"begun", True, packet.packet_id)]
    assert network.connect("c", "b3").publishes == []


@every_scheme
def test_dup_of_a_publisher_is_nobody_elses(scheme: str) -> None:
    """[MQTT-3.3.1-3]."""
    network = Network(scheme, DELAY_S)
    reader = subscribed(network, "r", "b1", "t", 2)
    line = network.connect("p", "b2")
    line.send(Publish("t", b"x", 1, dup=True, packet_id=7), Publish("t", b"y", 2, dup=True, packet_id=8))
    network.run(1)
    assert [(p.payload, p.dup) for p in reader.publishes] == [(b"x", False), (b"y", False)]


@every_scheme
def test_a_subscription_that_is_replaced_loses_nothing(scheme: str) -> None:
    """[MQTT-3.8.4-3], [MQTT-3.8.4-4]: while messages come, and the client moves."""
    network = Network(scheme, DELAY_S)
    lines = [subscribed(network, "c", "b1", "t")]
    publisher = network.connect("p", "b3")
    network.run(1)
    for number in range(30):
        publisher.publish("t", str(number), 1)
        lines[-1].subscribe("t", 1 + number % 2)
        network.run(0.02)
        if number % 10 == 9:
            lines[-1].drop()
            lines.append(network.connect("c"))
    network.run(2)
    came = [p.payload.decode() for line in lines for p in line.publishes if not p.dup]
    assert came == [str(number) for number in range(30)]


@every_scheme
def test_a_topic_alias_ends_with_its_connection(scheme: str) -> None:
    """[MQTT-3.3.2-7]: section 3.3.2.3.4 has 0x82 for an alias that stands for nothing."""
    network = Network(scheme, DELAY_S)
    reader = subscribed(network, "r", "b3", "t")
    first = network.connect("c", "b1")
    first.send(Publish("t", b"1", properties=Properties(topic_alias=1)))
    first.send(Publish("", b"2", properties=Properties(topic_alias=1)))
    network.run(1)
    second = network.connect("c", "b2")
    second.send(Publish("", b"3", properties=Properties(topic_alias=1)))
    network.run(1)
    assert reader.payloads == ["1", "2"]
    assert second.is_closed
    reasons = [p.reason for p in second.packets if isinstance(p, Disconnect)]
    assert reasons in ([ReasonCode.PROTOCOL_ERROR], [ReasonCode.TOPIC_ALIAS_INVALID])


@every_scheme
def test_aliases_of_the_server_are_what_each_connection_takes(scheme: str) -> None:
    """[MQTT-3.1.2-26], [MQTT-3.1.2-27]: a line looks up an alias that comes without a topic, among its own."""
    network = Network(scheme, DELAY_S)
    line = network.connect("c", "b1", topic_alias_maximum=1)
    line.subscribe("+", 1)
    publisher = network.connect("p", "b3")
    network.run(1)
    for broker, taken in (("b2", 2), ("b3", 0), ("b1", 1), ("b2", 1)):
        for topic in ("x", "y", "z", "x", "y"):
            publisher.publish(topic, topic)
        network.run(1)
        line.drop()
        publisher.publish("z", "stored z")
        publisher.publish("x", "stored x")
        network.run(1)
        line = network.connect("c", broker, topic_alias_maximum=taken or None)
        for topic in ("x", "x", "z"):
            publisher.publish(topic, topic)
        network.run(1)
        assert [p.topic for p in line.publishes] == ["z", "x", "x", "x", "z"]
        aliases = {p.properties.topic_alias for p in line.publishes} - {None}
        assert aliases == set(range(1, taken + 1)), "as many as it takes, and they are used"
    assert network.failures == []


@every_scheme
def test_a_full_window_delays_nothing_but_publishes(scheme: str) -> None:
    """[MQTT-3.3.4-10], [MQTT-4.9.0-3]."""
    network = Network(scheme, DELAY_S)
    subscribed(network, "c", "b1", "t").drop()
    publisher = network.connect("p", "b3")
    for number in range(5):
        publisher.publish("t", str(number))
    line = network.connect("c", "b2", receive_maximum=1, answers=False)
    network.run(1)
    assert line.payloads == ["0"]
    line.send(Pingreq())
    line.publish("elsewhere", "x", 1)
    line.publish("elsewhere", "x", 2)
    line.subscribe("other")
    network.run(1)
    answers = {Pingresp, Puback, Pubrec}
    assert answers <= {type(packet) for packet in line.packets}
    assert line.payloads == ["0"]


# --- wills ------------------------------------------------------------------------------------------------------


@every_scheme
def test_who_has_no_will_leaves_none(scheme: str) -> None:
    """[MQTT-3.1.2-12] of 3.1.1: nor one that an earlier connection had."""
    network = Network(scheme, DELAY_S)
    watcher = subscribed(network, "w", "b3", "#")
    will = Will(topic="wills", payload=b"gone", qos=1, properties=Properties(will_delay_interval=10))
    for version in (Version.V5, Version.V311):
        network.connect("c", "b1", will=will, version=Version.V5)
        network.run(1)
        network.connect("c", "b2", version=version).drop()
        network.run(HOUR_S)
    assert watcher.payloads == []


@every_scheme
def test_a_will_keeps_its_properties_and_their_order(scheme: str) -> None:
    """[MQTT-3.1.3-10]: wherever it is sent, also when the session has moved since."""
    network = Network(scheme, DELAY_S)
    watcher = subscribed(network, "w", "b3", "wills")
    pairs = (("b", "1"), ("a", "2"), ("b", "0"))
    properties = Properties(
        will_delay_interval=3, content_type="text", correlation_data=b"\x00\x01", user_properties=pairs
    )
    will = Will(topic="wills", payload=b"gone", qos=2, properties=properties)
    network.connect("c", "b1", will=will).drop()
    network.run(1)
    network.connect("c", "b2", will=will).drop()
    network.run(10)
    (packet,) = watcher.publishes
    assert packet.properties.user_properties == pairs
    assert (packet.properties.content_type, packet.properties.correlation_data) == ("text", b"\x00\x01")
    assert packet.properties.will_delay_interval is None


# --- shared subscriptions ---------------------------------------------------------------------------------------


def begun_at_qos_2(network: Network, cut: int) -> tuple[Line, Publish]:
    """A member was sent a message at QoS 2, and is lost after PUBLISH (1) or after PUBREC (2)."""
    member = network.connect("member", "b1", answers=False)
    member.subscribe(SHARE, 2)
    network.run(1)
    network.connect("p", "b3").publish("t", "x", 2)
    network.run(1)
    other = network.connect("other", "b2")
    other.subscribe(SHARE, 2)
    network.run(1)
    (packet,) = member.publishes
    if cut == 2:
        member.send(Pubrec(packet.packet_id))
        network.run(1)
    member.drop()
    network.run(1)
    return other, packet


@every_scheme
@pytest.mark.parametrize("cut", [1, 2])
def test_a_share_begun_at_qos_2_is_completed_where_the_member_comes_back(scheme: str, cut: int) -> None:
    """[MQTT-4.8.2-4]."""
    network = Network(scheme, DELAY_S)
    other, packet = begun_at_qos_2(network, cut)
    again = network.connect("member", "b3", answers=False)
    network.run(1)
    if cut == 1:
        assert [(p.payload, p.dup, p.packet_id) for p in again.publishes] == [(b"x", True, packet.packet_id)]
        again.send(Pubrec(packet.packet_id))
        network.run(1)
    assert [p.packet_id for p in again.packets if isinstance(p, Pubrel)] == [packet.packet_id]
    again.send(Pubcomp(packet.packet_id))
    network.run(1)
    assert other.payloads == []


@every_scheme
@pytest.mark.parametrize("cut", [1, 2])
@pytest.mark.parametrize("ends", ["expires", "clean start"])
def test_a_share_begun_at_qos_2_is_nobody_elses_when_the_session_ends(
    scheme: str, cut: int, ends: str
) -> None:
    """[MQTT-4.8.2-5]."""
    network = Network(scheme, DELAY_S)
    other, _ = begun_at_qos_2(network, cut)
    if ends == "expires":
        network.run(2 * HOUR_S)
    else:
        network.connect("member", "b3", clean=True)
    network.run(5)
    assert other.payloads == []
    assert network.failures == []


@every_scheme
def test_a_shared_subscription_brings_no_retained_messages(scheme: str) -> None:
    """Section 3.3.1.3 speaks of subscriptions that are not shared; nor when it is made again."""
    network = Network(scheme, DELAY_S)
    network.connect("p", "b3").publish("t", "kept", retain=True)
    network.run(1)
    for broker in ("b1", "b2", "b3"):
        line = network.connect("c", broker)
        line.subscribe(SHARE)
        network.run(1)
        assert line.payloads == []


@every_scheme
def test_a_retained_message_is_sent_again_in_a_session_that_followed_another(scheme: str) -> None:
    """[MQTT-4.4.0-1]: the session before it had been sent retained messages as well, and Clean Start ended it."""
    network = Network(scheme, DELAY_S)
    network.connect("p", "b3").publish("t", "kept", 2, retain=True)
    network.run(1)
    subscribed(network, "c", "b1", "t", 2)
    for round_ in range(2):
        line = network.connect("c", "b2", clean=True, answers=False)
        line.subscribe("t", 2)
        network.run(1)
        assert line.payloads == ["kept"]
        line = network.connect("c", "b3", answers=round_ == 1)
        network.run(1)
        assert [(p.payload, p.dup, p.retain) for p in line.publishes] == [(b"kept", True, True)]
