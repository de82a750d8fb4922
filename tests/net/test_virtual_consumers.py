"""A client that replaces its virtual consumer goes on with its session as it left it, not as it was when that began.

The session came to the virtual consumer's broker with the subscriptions. Since then messages were sent, acknowledged or
begun: what was left of them comes with the word on what the client has read. That word comes when the client's
connection ends (`LastRead`), or when it is asked for (`Handed`).
"""

import pytest

from roamq.core.events import BrokerId, ClientId
from roamq.geo.cells import Cell
from roamq.net.clients.mqtt.codec import Disconnect, Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel
from roamq.schemes.parts.virtual_consumers import VirtualConsumer
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


def inner() -> Cell:
    """A cell of b1 from which a client comes to no other broker."""
    areas = areas_of(PreHandoffOptions(areas=AREAS))
    return next(cell for cell in sorted(areas.cells(BrokerId("b1"))) if not areas.beyond(cell))


def nearing(delay: float, *, qos: int = 2) -> tuple[Network, Line, Line]:
    """A client at b1 that nears b2, which has its virtual consumer, and a publisher."""
    network = Network("prehandoff", delay, scheme_options={"areas": AREAS})
    publisher = network.connect("p", "b3")
    line = network.connect("c", "b1", answers=False, ticket="")
    line.subscribe("t", qos)
    network.run(1)
    line.publish("$roamq/location", str(border()), 0)
    network.run(1)
    assert virtual_at(network, "b2") is not None
    return network, publisher, line


def virtual_at(network: Network, broker: str) -> VirtualConsumer | None:
    scheme = network.machines[BrokerId(broker)].broker.scheme
    assert isinstance(scheme, PreHandoff)
    return scheme.virtual.get(ClientId("c"))


def told(line: Line) -> list[Packet]:
    return [p for p in line.packets if isinstance(p, Publish | Puback | Pubrec | Pubrel | Pubcomp)]


@every_delay
@pytest.mark.parametrize("shows", ["nothing", "its ticket"])
@pytest.mark.parametrize("goes", ["drops", "drops long before", "is taken over"])
def test_what_was_begun_goes_on_where_the_virtual_consumer_was(delay: float, goes: str, shows: str) -> None:
    network, publisher, line = nearing(delay)
    for payload, qos in (("a", 2), ("b", 2), ("c", 1), ("d", 2)):
        publisher.publish("t", payload, qos)
        network.run(1)
    a, b, c, d = line.publishes
    line.send(Puback(c.packet_id), Pubrec(b.packet_id))
    line.send(Publish("t2", b"mine", 2, packet_id=9))
    network.run(1)
    if goes != "is taken over":
        line.drop()
        network.run(0.01 if goes == "drops" else 1.0)
    came = network.now

    again = network.connect("c", "b2", answers=False, ticket=line.ticket if shows == "its ticket" else None)

    waited = network.now - came
    is_at_once = goes == "drops long before" and shows == "its ticket"
    assert (waited == 0.0) == (is_at_once or not delay), "b2 asks b1 unless it was told"
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
    assert ClientId("c") not in network.machines[BrokerId("b1")].broker.contexts


def read_and_gone(network: Network, publisher: Line, line: Line, payloads: str) -> None:
    """The client reads these at b1, and is gone for longer than a message takes to b2."""
    line.answers = True
    for payload in payloads:
        publisher.publish("t", payload, 1)
    network.run(1)
    line.drop()
    network.run(1)


def test_what_is_published_while_the_client_is_away_follows_what_it_had_read() -> None:
    network, publisher, line = nearing(0.04, qos=1)
    read_and_gone(network, publisher, line, "ab")
    assert (virtual := virtual_at(network, "b2")) is not None and virtual.settled
    publisher.publish("t", "c", 1)
    network.run(1)

    again = network.connect("c", "b2", ticket=line.ticket)
    network.run(1)

    assert line.payloads + again.payloads == ["a", "b", "c"]


def test_a_word_on_an_earlier_connection_is_not_believed() -> None:
    """The client comes back to b1, reads, and is at b2 before the cancellation is."""
    network, publisher, line = nearing(0.04, qos=1)
    read_and_gone(network, publisher, line, "a")
    publisher.publish("t", "b", 1)
    network.run(1)
    back = network.connect("c", "b1", ticket=line.ticket)
    assert back.payloads == ["b"]
    back.drop()
    assert (virtual := virtual_at(network, "b2")) is not None and virtual.settled, (
        "the cancellation is on its way"
    )

    again = network.connect("c", "b2", ticket=back.ticket)
    network.run(1)

    assert again.payloads == [] and again.is_present
    publisher.publish("t", "c", 1)
    network.run(1)
    assert again.payloads == ["c"]
    assert network.failures == []


@every_delay
def test_who_shows_nothing_is_not_served_by_a_word_on_an_earlier_connection(delay: float) -> None:
    network, publisher, line = nearing(delay, qos=1)
    read_and_gone(network, publisher, line, "a")
    publisher.publish("t", "b", 1)
    network.run(1)
    back = network.connect("c", "b1")
    assert back.payloads == ["b"]
    back.drop()

    again = network.connect("c", "b2")
    network.run(1)

    assert again.payloads == [] and again.is_present


@pytest.mark.parametrize("knows", ["b1", "b2"])
def test_a_server_of_the_release_before_is_told_nothing_and_is_asked(knows: str) -> None:
    """The release before does not know the message: it does not say that it takes it, and sends none."""
    network, publisher, line = nearing(0.04, qos=1)
    line.publish("$roamq/location", str(inner()), 0)
    network.run(1)
    for name in ("b1", "b2"):
        network.machines[BrokerId(name)].broker.contexts.tells_last_read = name == knows
    line.publish("$roamq/location", str(border()), 0)
    network.run(1)
    read_and_gone(network, publisher, line, "ab")
    assert (virtual := virtual_at(network, "b2")) is not None and virtual.whole and not virtual.settled

    again = network.connect("c", "b2", ticket=line.ticket)
    network.run(1)

    assert again.is_present and again.payloads == []
    assert ClientId("c") not in network.machines[BrokerId("b1")].broker.contexts


def test_what_is_retained_comes_with_the_word() -> None:
    """A retained message is stored at the broker where the client has subscribed, and at no other."""
    network, publisher, line = nearing(0.04, qos=1)
    publisher.publish("t", "kept", 1, retain=True)
    network.run(1)
    line.answer(line.publishes[-1])
    line.subscribe("t", 1)  # again: it is sent once more
    network.run(1)
    assert line.payloads == ["kept", "kept"]
    line.drop()
    network.run(1)
    assert (virtual := virtual_at(network, "b2")) is not None and virtual.settled

    again = network.connect("c", "b2", ticket=line.ticket)
    network.run(1)

    assert [(p.payload, p.dup, p.retain) for p in again.publishes] == [(b"kept", True, True)]


def test_a_member_of_a_group_is_asked_about() -> None:
    """While it is away, events may be assigned to it at its last broker, and b2 does not see them."""
    network, publisher, line = nearing(0.04, qos=1)
    line.answers = True
    line.subscribe("$share/g/s", 1)
    network.run(1)
    line.drop()
    network.run(1)
    assert (virtual := virtual_at(network, "b2")) is not None and not virtual.settled
    publisher.publish("s", "for the group", 1)
    network.run(1)

    again = network.connect("c", "b2", ticket=line.ticket)
    network.run(1)

    assert again.payloads == ["for the group"]


@pytest.mark.parametrize("left", ["whole at b3", "on its way to b3"])
def test_a_connection_that_the_client_never_heard_of_leaves_nothing_behind(left: str) -> None:
    """The client tries b3, hears nothing, and is at b2 before b3's news: it shows the connection at b1."""
    far = {("b3", "b2"): 0.5, ("b1", "b2"): 0.5 if left == "whole at b3" else 0.01}
    network, publisher, line = nearing(0.04, qos=1)
    read_and_gone(network, publisher, line, "a")
    publisher.publish("t", "b", 1)
    network.run(1)
    network.link_delays = far
    tried = network.connect("c", "b3", ticket=line.ticket, wait=None, answers=False)
    network.run(0.2 if left == "whole at b3" else 0.001)
    tried.drop()
    assert (virtual := virtual_at(network, "b2")) is not None and virtual.settled

    again = network.connect("c", "b2", ticket=line.ticket)
    network.run(5)

    assert again.is_open and again.payloads == ["b"]
    publisher.publish("t", "c", 1)
    network.run(1)
    assert again.payloads == ["b", "c"]
    held = {name: machine.broker.scheme.held() for name, machine in network.machines.items()}
    assert [name for name in held for context in held[name] if context.client == "c"] == ["b2"]
    assert network.failures == []
