"""What every node does, sentence by sentence ([DRIP] sections IV-B, V-A, V-B1)."""

from typing import get_args

import pytest

from roamq.core.records import Record
from roamq.manet.protocol import broker as broker_module
from roamq.manet.protocol import node as node_module
from roamq.manet.protocol.messages import (
    Body,
    BridgeStatus,
    EventPublication,
    Interest,
    Message,
    NeighborHello,
    Notification,
    Packet,
    Quit,
    Register,
)
from roamq.manet.protocol.node import MobileNode
from tests.manet.recording import WANTED, beacon, event, host_of, node


def attached(*, subscribed: bool = True) -> MobileNode:
    """A node near broker 1, farther from brokers 2 and 3; neighbors 5, 6 and 7."""
    subject = node(filters=(WANTED,) if subscribed else ())
    for neighbor, local in ((5, 1), (6, 2), (7, 1)):
        subject.neighbors[neighbor] = (NeighborHello(local, {local: 0.001}), 100.0)
    subject.receive(5, beacon(1, delay=1 / 64))
    subject.receive(6, beacon(2, delay=2 / 64))
    subject.receive(7, beacon(3, delay=3 / 64))
    host_of(subject).forget()
    return subject


def test_a_node_registers_at_the_broker_it_hears_first() -> None:
    """[DRIP] section IV-A: non-broker nodes "find the nearest broker nodes to register based on the delay"."""
    subject = node(filters=(WANTED,))
    subject.neighbors[5] = (NeighborHello(1, {}), 100.0)
    message = beacon(1, delay=0.010)

    subject.receive(5, message)

    registration = Register(Interest(0, 1, (WANTED,), (1,), 100.0), frozenset())
    assert host_of(subject).effects == [("broadcast", message), ("unicast", 5, 1, registration)]
    assert subject.local_broker == 1


def test_a_node_knows_its_neighbors_by_their_last_hello() -> None:
    subject = node()

    subject.receive(5, NeighborHello(1, {1: 0.5}))
    subject.receive(5, NeighborHello(2, {}))

    assert subject.neighbors == {5: (NeighborHello(2, {}), 100.0)}


@pytest.mark.parametrize("kind", get_args(Message))
def test_a_node_has_a_handler_for_every_message(kind: type[Message]) -> None:
    assert kind in node_module.HANDLERS


@pytest.mark.parametrize("kind", get_args(Body))
def test_a_broker_has_a_handler_for_every_body(kind: type[Body]) -> None:
    assert kind in broker_module.HANDLERS


def test_changing_the_local_broker_quits_and_registers_with_the_local_copy() -> None:
    """[DRIP] section V-A1: it "sends a Quit message to its previous local broker", then registers "with the copy"."""
    subject = attached()
    message = beacon(2, delay=0.005, sequence=2)

    subject.receive(6, message)

    assert host_of(subject).effects == [
        ("broadcast", message),
        ("unicast", 5, 1, Quit(0, 1)),
        ("unicast", 6, 2, Register(Interest(0, 2, (WANTED,), (2, 1, 3), 100.0), frozenset())),
    ]
    assert host_of(subject).records[-1] == Record("connected", 100.0, broker="n2", client="n0", peer="n1")


def test_a_bridge_reports_to_its_local_broker() -> None:
    """[DRIP] section V-B1, Figure 2: B = Bri(P, Q)."""
    subject = attached()

    subject.report_bridge()

    assert host_of(subject).effects == [("unicast", 5, 1, BridgeStatus(2, 6, 3 / 64))]


def test_a_node_whose_neighbors_are_all_of_its_own_region_is_no_bridge() -> None:
    """Third requirement: "the bridge node should have a neighbor whose local broker is N"."""
    subject = attached()
    subject.neighbors[6] = (NeighborHello(1, {}), 100.0)

    subject.report_bridge()

    assert host_of(subject).effects == []


def test_a_neighbor_of_the_third_nearest_broker_makes_no_bridge() -> None:
    """Second requirement: M and N "are the top two nearest broker nodes of the bridge node"."""
    subject = attached()
    subject.neighbors[6] = (NeighborHello(3, {}), 100.0)

    subject.report_bridge()

    assert host_of(subject).effects == []


def test_a_broker_is_no_bridge() -> None:
    """First requirement: "it is a non-broker node"."""
    subject = attached()
    subject.stand_for_election(seats=10)
    subject.elected()
    host_of(subject).forget()

    subject.report_bridge()

    assert host_of(subject).effects == []


def test_an_event_is_published_to_the_local_broker() -> None:
    """[DRIP] section V-A2: "nodes publish them to their local broker nodes"."""
    subject, detected = attached(), event(1)

    subject.publish(detected)

    assert host_of(subject).effects == [("unicast", 5, 1, EventPublication(detected))]


def test_an_event_waits_for_a_broker_where_there_is_none() -> None:
    subject, detected = node(), event(1)
    subject.publish(detected)
    assert host_of(subject).effects == []

    subject.neighbors[5] = (NeighborHello(1, {}), 100.0)
    subject.receive(5, beacon(1, delay=1 / 64))

    assert host_of(subject).sent()[-1] == (5, 1, EventPublication(detected))


def test_a_lost_next_hop_is_replaced_by_the_neighbor_nearest_to_the_broker() -> None:
    subject, detected = attached(), event(1)
    subject.publish(detected)
    packet = Packet(1, EventPublication(detected), (0,), (), 200.0)

    subject.on_link_failure(5, packet)

    assert host_of(subject).sent()[-1] == (7, 1, EventPublication(detected))
    assert 5 not in subject.neighbors


def test_a_notification_is_repeated_once_and_taken_by_the_subscriber() -> None:
    """[DRIP] section V-A3: "the broker node will flood the event only in its Voronoi region"."""
    subject = attached()
    flood = Notification(1, 1, (event(15), event(50, 2)))

    subject.receive(5, flood)
    subject.receive(5, flood)

    assert host_of(subject).effects == [("broadcast", flood)]
    delivered = [record for record in host_of(subject).records if record.kind == "delivered"]
    assert [(record.origin, record.sequence, record.duration_s) for record in delivered] == [("n9", 1, 10.0)]


def test_a_notification_of_another_region_stops_at_the_border() -> None:
    subject = attached()

    subject.receive(5, Notification(2, 1, (event(15),)))

    assert host_of(subject).effects == []
    assert [record.kind for record in host_of(subject).records] == ["connected"]


def test_an_event_that_comes_in_two_notifications_is_delivered_once() -> None:
    subject = attached()

    subject.receive(5, Notification(1, 1, (event(15),)))
    subject.receive(5, Notification(1, 2, (event(15),)))

    assert [record.kind for record in host_of(subject).records].count("delivered") == 1


def test_a_registration_lists_what_was_received() -> None:
    subject = attached()
    subject.receive(5, Notification(1, 1, (event(15),)))

    subject.on_timer("register")

    _, _, registration = host_of(subject).sent()[-1]
    assert isinstance(registration, Register)
    assert registration.received == {("n9", 1)}


def test_a_source_route_is_followed_and_then_the_reverse_path() -> None:
    subject = attached()
    body = Quit(8, 1)

    subject.receive(9, Packet(3, body, (9,), (0, 5), 200.0))
    subject.receive(9, Packet(3, body, (9,), (0,), 200.0))

    assert host_of(subject).sent() == [(5, 3, body), (7, 3, body)]


def test_a_packet_does_not_go_back_to_where_it_was() -> None:
    subject = attached()

    subject.receive(9, Packet(1, Quit(8, 1), (9, 5), (), 200.0))

    assert host_of(subject).sent() == [(7, 1, Quit(8, 1))]


def test_an_orphan_stands_for_election_and_serves_until_better_are_heard() -> None:
    """Requirement b of section IV-B: every node "should always attach to a broker node at any time"."""
    subject = attached()
    host_of(subject).time = 120.0
    subject.on_timer("hello")
    assert subject.local_broker is None
    assert subject.election is None, "not at once: the brokers may come back"

    host_of(subject).time = 141.0
    subject.on_timer("hello")
    assert subject.election is not None
    subject.on_timer("elected")

    assert subject.broker is not None
    assert subject.local_broker == 0
    assert host_of(subject).records[-1] == Record("role", 141.0, broker="n0", detail="elected")
