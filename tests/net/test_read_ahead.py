"""What a client acknowledged out of order does not come again, at whatever broker it goes on.

An event of QoS 1 may be acknowledged before an earlier one of QoS 2 that entered at the same broker: it is read, though
the read position cannot say so. A broker that gets it later than the client did must not take it for new.
"""

import pytest

from roamq.net.clients.mqtt.codec import Puback, Pubcomp, Pubrec
from tests.net.network import SCHEMES, Line, Network

SLOW = {("b3", "b2"): 3.0}
"""What enters at b3 is late at b2, and nowhere else."""

every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
each_overlay = pytest.mark.parametrize("overlay", ["flooding", "interest"])
each_way_to_go = pytest.mark.parametrize("goes", ["drops", "is taken over"])


def go_on(network: Network, line: Line, broker: str, goes: str) -> Line:
    if goes == "drops":
        line.drop()
        network.run(0.2)
    again = network.connect("c", broker, answers=False)
    assert again.is_present
    return again


def network_of(scheme: str, overlay: str) -> tuple[Network, Line, Line]:
    """A network, a publisher at b3 and a subscriber at b1, which has been at b2 before: a copy of it may be there."""
    network = Network(scheme, 0.01, overlay=overlay, link_delays=SLOW)
    publisher = network.connect("p", "b3")
    line = network.connect("c", "b1")
    line.subscribe("t", 2)
    network.run(5)
    for broker in ("b2", "b1", "b2", "b1"):
        line.drop()
        network.run(5)
        line = network.connect("c", broker, answers=False)
        network.run(5)
    return network, publisher, line


def acknowledge(line: Line, payload: str) -> None:
    (packet,) = (p for p in line.publishes if p.payload == payload.encode())
    line.send(Puback(packet.packet_id))


@every_scheme
@each_overlay
@each_way_to_go
def test_what_was_acknowledged_out_of_order_does_not_come_again_where_it_is_late(
    scheme: str, overlay: str, goes: str
) -> None:
    network, publisher, line = network_of(scheme, overlay)
    publisher.publish("t", "first", 2)
    for payload in ("second", "third"):
        publisher.publish("t", payload, 1)
    network.run(0.5)
    assert line.payloads == ["first", "second", "third"]
    acknowledge(line, "third")
    network.run(0.1)

    line = go_on(network, line, "b2", goes)
    network.run(10)
    assert [(p.payload, p.dup) for p in line.publishes] == [(b"first", True), (b"second", True)]
    acknowledge(line, "second")
    network.run(0.1)
    line = go_on(network, line, "b1", goes)
    network.run(0.5)
    line = go_on(network, line, "b2", goes)
    publisher.publish("t", "fourth", 2)
    network.run(10)
    assert [(p.payload, p.dup) for p in line.publishes] == [(b"first", True), (b"fourth", False)]

    for packet in line.publishes:
        line.send(Pubrec(packet.packet_id))
        network.run(0.1)
        line.send(Pubcomp(packet.packet_id))
    network.run(0.1)
    line = go_on(network, line, "b3", goes)
    network.run(10)
    assert line.publishes == []
    held = [c for machine in network.machines.values() for c in machine.broker.contexts.values()]
    assert held and not any(context.ahead for context in held), "the position has passed it"
    assert network.failures == []
