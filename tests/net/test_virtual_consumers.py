"""A client that replaces its virtual consumer goes on with its session as it left it, not as it was when that began.

The session came to the virtual consumer's broker with the subscriptions. Since then messages were sent, acknowledged or
begun: what was left of them comes with the word on what the client has read.
"""

import pytest

from roamq.core.events import BrokerId, ClientId
from roamq.geo.cells import Cell
from roamq.net.clients.mqtt.codec import Disconnect, Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel
from roamq.schemes.prehandoff import PreHandoff
from roamq.schemes.prehandoff_options import PreHandoffOptions, areas_of
from tests.net.network import Line, Network

AREAS = {"b1": (52.50, 13.40), "b2": (52.50, 13.44), "b3": (52.53, 13.42)}
every_delay = pytest.mark.parametrize("delay", [0.0, 0.04])


def border() -> Cell:
    """A cell of b1 from which a client may come to b2, and to no other broker."""
    areas = areas_of(PreHandoffOptions(areas=AREAS))
    table = areas.border_cell_table(BrokerId("b1"))
    return next(cell for cell, beyond in sorted(table.items()) if tuple(beyond) == ("b2",))


def nearing(delay: float) -> tuple[Network, Line, Line]:
    """A client at b1 that nears b2, which has its virtual consumer, and a publisher."""
    network = Network("prehandoff", delay, scheme_options={"areas": AREAS})
    publisher = network.connect("p", "b3")
    line = network.connect("c", "b1", answers=False)
    line.subscribe("t", 2)
    network.run(1)
    line.publish("$roamq/location", str(border()), 0)
    network.run(1)
    scheme = network.machines[BrokerId("b2")].broker.scheme
    assert isinstance(scheme, PreHandoff) and scheme.virtual.get(ClientId("c")) is not None
    return network, publisher, line


def told(line: Line) -> list[Packet]:
    return [p for p in line.packets if isinstance(p, Publish | Puback | Pubrec | Pubrel | Pubcomp)]


@every_delay
@pytest.mark.parametrize("goes", ["drops", "is taken over"])
def test_what_was_begun_goes_on_where_the_virtual_consumer_was(delay: float, goes: str) -> None:
    network, publisher, line = nearing(delay)
    for payload, qos in (("a", 2), ("b", 2), ("c", 1), ("d", 2)):
        publisher.publish("t", payload, qos)
        network.run(1)
    a, b, c, d = line.publishes
    line.send(Puback(c.packet_id), Pubrec(b.packet_id))
    line.send(Publish("t2", b"mine", 2, packet_id=9))
    network.run(1)
    if goes == "drops":
        line.drop()
        network.run(0.01)

    again = network.connect("c", "b2", answers=False)
    network.run(1)

    assert again.is_present and line.is_closed
    assert Pubrel(b.packet_id) in told(again)
    resent = [(p.payload, p.packet_id, p.dup) for p in again.publishes]
    assert resent == [(b"a", a.packet_id, True), (b"d", d.packet_id, True)]
    watcher = network.connect("w", "b3")
    watcher.subscribe("t2", 2)
    network.run(1)
    again.send(Publish("t2", b"mine", 2, packet_id=9, dup=True))
    network.run(1)
    assert watcher.payloads == [], "it was received before, and not released"
    again.send(Pubrel(9), Pubcomp(b.packet_id))
    publisher.publish("t", "e", 1)
    network.run(1)
    assert again.payloads == ["a", "d", "e"]
    assert not any(isinstance(packet, Disconnect) for packet in again.packets)
    assert network.failures == []
