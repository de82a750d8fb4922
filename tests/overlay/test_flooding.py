"""Flooding: every event to every broker, once, in the order of its origin, on graphs with cycles."""

from hypothesis import given, settings
from hypothesis import strategies as st

from roamq.core.events import BrokerId
from roamq.overlay.flooding import Flooding
from roamq.overlay.topology import Topology
from tests.overlay.test_topology import connected_graphs
from tests.support.events import event
from tests.support.overlay_net import OverlayNet


@settings(max_examples=60)
@given(connected_graphs(), st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(0, 1000))
def test_every_broker_sees_every_event_once_and_in_sequence(
    topology: Topology, origins: list[int], seed: int
) -> None:
    net = OverlayNet(topology, Flooding, seed)
    counts: dict[BrokerId, int] = {}
    for number in origins:
        origin = topology.brokers[number % len(topology.brokers)]
        counts[origin] = counts.get(origin, 0) + 1
        net.publish(origin, event(counts[origin], origin=origin))
        for _ in range(net.rng.randrange(4)):
            net.step()
    net.settle()

    for broker in topology.brokers:
        for origin, count in counts.items():
            seen = [e.id.sequence for e in net.arrived[broker] if e.id.origin == origin]
            assert seen == list(range(1, count + 1)), f"{broker} saw {seen} of {origin}"
    expected_crossings = len(origins) * (len(topology.brokers) - 1)
    assert len(net.crossings) == expected_crossings, "an event crosses as many links as a tree has"


def test_a_fence_is_passed_when_as_much_was_seen() -> None:
    line = Topology("abc", [("a", "b"), ("b", "c")])
    net = OverlayNet(line, Flooding)
    a, c = net.routers[BrokerId("a")], net.routers[BrokerId("c")]
    net.publish(BrokerId("a"), event(1, origin="a"))

    fence = a.fence(BrokerId("c"))

    assert not c.passed(fence)
    net.settle()
    assert c.passed(fence)
    assert a.passed(c.fence(BrokerId("a")))


def test_an_event_that_comes_again_is_not_passed_on() -> None:
    line = Topology("abc", [("a", "b"), ("b", "c")])
    net = OverlayNet(line, Flooding)
    b = net.routers[BrokerId("b")]

    assert b.receive_event(BrokerId("a"), event(1, origin="a"))
    assert not b.receive_event(BrokerId("a"), event(1, origin="a"))
    assert len(net.crossings) == 1
