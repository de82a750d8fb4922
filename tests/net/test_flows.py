"""Every flow of QoS 0, 1 and 2, cut after every packet, goes on at another broker, under every scheme (section 4.4).

A row says how many packets of the flow were exchanged when the connection broke. What the two sides then have to say
to each other is the standard's: [MQTT-4.4.0-1], [MQTT-4.3.2-1] to [MQTT-4.3.3-13].
"""

import pytest

from roamq.net.clients.mqtt.codec import (
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    SubscriptionRequest,
)
from tests.net.network import SCHEMES, Line, Network

CUTS = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]
"""QoS, and how many packets of the flow were exchanged."""

every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
every_cut = pytest.mark.parametrize(("qos", "cut"), CUTS)
every_delay = pytest.mark.parametrize("delay", [0.0, 0.04])
each_way_to_go = pytest.mark.parametrize("goes", ["drops", "is taken over"])


def told(line: Line) -> list[Packet]:
    """What the broker said of the flow, on this connection."""
    return [p for p in line.packets if isinstance(p, Publish | Puback | Pubrec | Pubrel | Pubcomp)]


def go_on(network: Network, line: Line, broker: str, goes: str) -> Line:
    network.run(0.2)
    if goes == "drops":
        line.drop()
        network.run(0.2)
    again = network.connect("c", broker, answers=False)
    network.run(0.5)
    assert again.is_present and line.is_closed
    return again


@every_scheme
@every_cut
@every_delay
@each_way_to_go
def test_a_message_from_the_client(scheme: str, qos: int, cut: int, delay: float, goes: str) -> None:
    network = Network(scheme, delay)
    subscriber = network.connect("s", "b3")
    subscriber.subscribe("t", 2)
    line = network.connect("c", "b1", answers=False)
    network.run(1)
    publish = Publish("t", b"m", qos, packet_id=7 if qos else 0)
    again = Publish("t", b"m", qos, dup=True, packet_id=7)
    if cut >= 1:
        line.send(publish)
    if cut >= 3:
        line.send(Pubrel(7))

    line = go_on(network, line, "b2", goes)
    if qos == 1 and cut < 2:
        line.send(again)
        assert told(line) == [Puback(7)]
    elif qos == 2 and cut < 4:
        if cut < 2:
            line.send(again)
            assert told(line).pop() == Pubrec(7)
        line = go_on(network, line, "b3", goes)
        line.send(Pubrel(7))
        (answer,) = told(line)
        assert isinstance(answer, Pubcomp) and answer.packet_id == 7
    network.run(1)

    lost, repeated = (qos, cut) == (0, 0), (qos, cut) == (1, 1)
    assert subscriber.payloads == [] if lost else subscriber.payloads == ["m"] * (1 + repeated)
    line = go_on(network, line, "b1", goes)
    line.send(Publish("t", b"next", qos, packet_id=7 if qos else 0))
    network.run(1)
    assert subscriber.payloads[-1] == "next", "the packet id is free again"
    assert network.failures == []


@every_scheme
@every_cut
@every_delay
@each_way_to_go
def test_a_message_to_the_client(scheme: str, qos: int, cut: int, delay: float, goes: str) -> None:
    network = Network(scheme, delay)
    publisher = network.connect("p", "b3")
    line = network.connect("c", "b1", answers=False)
    request = SubscriptionRequest("t", qos)
    line.send(Subscribe(1, (request,), Properties(subscription_identifiers=(5,))))
    network.run(1)
    if cut == 0:
        line.drop()
        network.run(1)
    message = Properties(message_expiry_interval=1000, content_type="text")
    publisher.send(Publish("t", b"m", 2, packet_id=9, properties=message))
    network.run(1)
    if cut:
        (first,) = line.publishes
        packet_id = first.packet_id
        assert (first.qos, first.dup, first.properties.subscription_identifiers) == (qos, False, (5,))
    if cut >= 2:
        line.send(Puback(packet_id) if qos == 1 else Pubrec(packet_id))
    if cut >= 4:
        line.send(Pubcomp(packet_id))

    line = go_on(network, line, "b2", goes)
    left = told(line)
    if cut == 0 or (cut == 1 and qos):
        (sent,) = left
        assert isinstance(sent, Publish)
        packet_id = packet_id if cut else sent.packet_id
        assert (sent.qos, sent.dup, sent.packet_id) == (qos, cut == 1, packet_id)
        assert sent.properties.subscription_identifiers == (5,)
        assert sent.properties.content_type == "text"
        assert sent.properties.message_expiry_interval is not None
        if qos == 1:
            line.send(Puback(packet_id))
        elif qos == 2:
            line.send(Pubrec(packet_id))
            line = go_on(network, line, "b3", goes)
            assert told(line) == [Pubrel(packet_id)]
            line.send(Pubcomp(packet_id))
    elif qos == 2 and cut in (2, 3):
        assert left == [Pubrel(packet_id)]
        line.send(Pubcomp(packet_id))
    else:
        assert left == []
    line = go_on(network, line, "b1", goes)
    assert told(line) == [], "the flow is over"
    publisher.publish("t", "next")
    network.run(1)
    assert line.payloads == ["next"]
    assert network.failures == []


@every_scheme
@every_delay
def test_the_window_holds_and_order_is_kept_across_brokers(scheme: str, delay: float) -> None:
    """[MQTT-3.3.4-9], [MQTT-4.6.0-6]: Receive Maximum 2, acknowledged one by one, each at another broker."""
    network = Network(scheme, delay)
    publisher = network.connect("p", "b3")
    line = network.connect("c", "b1", receive_maximum=2)
    line.subscribe("t", 1)
    network.run(1)
    line.drop()
    for number in range(8):
        publisher.publish("t", str(number))
    network.run(1)
    for number in range(8):
        line = network.connect("c", receive_maximum=2, answers=False)
        network.run(1)
        assert line.payloads == [str(n) for n in range(number, min(number + 2, 8))]
        line.send(Puback(line.publishes[0].packet_id))
        network.run(1)
        assert len(line.publishes) <= 3
        network.run(1)
        line.drop()
        network.run(1)
    last = network.connect("c", receive_maximum=2)
    network.run(1)
    assert last.payloads == []
