"""Clients that mean harm, or behave as if: storms of takeovers, one id at all brokers at once, ends within ends."""

from random import Random

import pytest

from roamq.net.clients.mqtt.codec import (
    Disconnect,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Will,
)
from tests.net.network import SCHEMES, Line, Network

every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
BROKERS = ("b1", "b2", "b3")


def storm(scheme: str, seed: int) -> None:
    """One client id connects at all brokers at once, again and again, with every flag, and leaves in every way."""
    random = Random(seed)
    network = Network(scheme, lambda: random.choice((0.0, 0.01, 0.04, 0.12)))
    bystander, publisher = network.connect("bystander", "b2"), network.connect("publisher", "b3")
    bystander.subscribe("t/#", 1)
    network.run(1)
    lines: list[Line] = []
    sent = 0
    for _ in range(random.randint(3, 12)):
        for _ in range(random.randint(1, 4)):
            delay = random.choice((None, 0, 1, 100))
            properties = Properties(will_delay_interval=delay)
            will = None if delay is None else Will(topic="w", payload=b"w", qos=1, properties=properties)
            clean, expiry = random.random() < 0.5, random.choice((0, 1, 1000))
            line = network.connect(
                "c", random.choice(BROKERS), clean=clean, expiry=expiry, will=will, wait=None
            )
            line.answers = random.random() < 0.7
            lines.append(line)
            if random.random() < 0.5:
                line.subscribe(random.choice(("t/#", "$share/g/t/#", "w")), random.randrange(3))
            if random.random() < 0.3:
                line.send(Publish("t/own", b"own", 2, packet_id=random.randint(1, 3)))
            if random.random() < 0.3:
                line.send(Pubrel(random.randint(1, 3)))
        publisher.publish("t/x", str(sent))
        sent += 1
        network.run(random.choice((0.0, 0.001, 0.03, 0.2, 1.5)))
        match random.randrange(4):
            case 0:
                lines[-1].drop()
            case 1:
                expiry = random.choice((0, 5, 1000))
                reason = random.choice((ReasonCode.NORMAL_DISCONNECTION, ReasonCode.DISCONNECT_WITH_WILL))
                lines[-1].send(Disconnect(reason, Properties(session_expiry_interval=expiry)))
                lines[-1].drop()
            case _:
                network.run(random.choice((0.0, 0.02)))
    network.run(30)
    last = network.connect("c", random.choice(BROKERS), clean=True, expiry=0)
    network.run(5)

    replay = f"storm({scheme!r}, {seed})"
    assert network.failures == [], replay
    assert last.is_open and not last.is_present, replay
    assert all(line.is_closed for line in lines), replay
    assert [p for p in bystander.payloads if p != "own"] == [str(n) for n in range(sent)], replay
    last.subscribe("t/#", 1)
    network.run(1)
    publisher.publish("t/x", "after the storm")
    network.run(1)
    assert last.payloads == ["after the storm"], replay
    last.disconnect()
    network.run(2000)
    for name, machine in network.machines.items():
        assert [context for context in machine.held() if context.client == "c"] == [], f"{replay}: {name}"
        assert machine.directory.get("c") is None, f"{replay}: {name}"  # type: ignore[arg-type]
        assert not machine.groups.groups, f"{replay}: {name}"


@every_scheme
@pytest.mark.parametrize("seed", range(4))
def test_a_storm_of_takeovers_leaves_one_connection_and_nothing_behind(scheme: str, seed: int) -> None:
    storm(scheme, seed)


@every_scheme
@pytest.mark.parametrize("delay", [0.0, 0.04])
def test_a_will_whose_delay_exceeds_the_expiry_comes_with_the_end_of_the_session(
    scheme: str, delay: float
) -> None:
    """[MQTT-3.1.2-8], wherever the session is by then."""
    network = Network(scheme, delay)
    watcher = network.connect("watcher", "b3")
    watcher.subscribe("w")
    will = Will(topic="w", payload=b"gone", qos=1, properties=Properties(will_delay_interval=1000))
    network.connect("c", "b1", expiry=10)
    network.run(1)
    line = network.connect("c", "b2", expiry=10, will=will)
    network.run(1)
    line.send(Disconnect(ReasonCode.DISCONNECT_WITH_WILL, Properties(session_expiry_interval=5)))
    line.drop()
    network.run(4)
    assert watcher.payloads == []
    network.run(3)
    assert watcher.payloads == ["gone"]
    again = network.connect("c", "b1")
    assert not again.is_present


@every_scheme
@pytest.mark.parametrize("delay", [0.0, 0.04])
def test_the_expiry_of_disconnect_is_the_sessions_wherever_it_goes(scheme: str, delay: float) -> None:
    """Section 3.14.2.2.2: it replaces that of CONNECT, and must not make something of zero."""
    network = Network(scheme, delay)
    line = network.connect("c", "b1", expiry=1000)
    network.run(1)
    line.send(Disconnect(properties=Properties(session_expiry_interval=0)))
    line.drop()
    network.run(1)
    line = network.connect("c", "b2", expiry=0)
    assert not line.is_present
    line.send(Disconnect(properties=Properties(session_expiry_interval=1000)))
    network.run(1)
    (said,) = [packet for packet in line.packets if isinstance(packet, Disconnect)]
    assert said.reason is ReasonCode.PROTOCOL_ERROR
    line = network.connect("c", "b3", expiry=5)
    assert not line.is_present
    network.run(1)
    line.send(Disconnect(properties=Properties(session_expiry_interval=1000)))
    line.drop()
    network.run(100)
    assert network.connect("c", "b1").is_present


@every_scheme
@pytest.mark.parametrize("delay", [0.0, 0.04])
def test_packet_ids_are_taken_at_their_word_across_brokers(scheme: str, delay: float) -> None:
    """[MQTT-2.2.1-4], section 4.3.3: PUBREL after a move, an id used again before it is released, and after."""
    network = Network(scheme, delay)
    reader = network.connect("r", "b3")
    reader.subscribe("t", 2)
    network.run(1)
    line = network.connect("c", "b1", answers=False)
    line.send(Publish("t", b"one", 2, packet_id=5))
    network.run(1)
    line = network.connect("c", "b2", answers=False)
    line.send(Publish("t", b"two, but not released", 2, packet_id=5))
    line.send(Publish("t", b"at QoS 1", 1, packet_id=5))
    network.run(1)
    assert [p for p in line.packets if isinstance(p, Pubrec | Puback)] == [Pubrec(5), Puback(5)]
    line = network.connect("c", "b3", answers=False)
    line.send(Pubrel(5), Publish("t", b"two", 2, packet_id=5), Pubrel(5), Pubrel(5))
    network.run(1)
    answers = [p.reason for p in line.packets if isinstance(p, Pubcomp)]
    assert answers == [ReasonCode.SUCCESS, ReasonCode.SUCCESS, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND]
    assert reader.payloads == ["one", "at QoS 1", "two"]


@every_scheme
def test_what_a_member_of_a_group_refuses_is_nobody_elses(scheme: str) -> None:
    """[MQTT-4.8.2-6]"""
    network = Network(scheme, 0.04)
    publisher = network.connect("p", "b1")
    members = [network.connect(f"m{number}", f"b{number + 1}", answers=False) for number in range(3)]
    for member in members:
        member.subscribe("$share/g/t", 2)
    network.run(1)
    for number, qos in enumerate((1, 2, 1)):
        publisher.publish("t", str(number), qos)
    network.run(1)
    for member in members:
        (publish,) = member.publishes
        answer = Puback if publish.qos == 1 else Pubrec
        member.send(answer(publish.packet_id, ReasonCode.QUOTA_EXCEEDED))
    network.run(1)
    for number in range(3):
        again = network.connect(f"m{number}", f"b{(number + 1) % 3 + 1}", clean=number == 1)
        network.run(1)
        assert again.publishes == []
    assert network.failures == []
