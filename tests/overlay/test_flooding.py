"""Flooding: every event to every broker, once, in the order of its origin, on graphs with cycles."""

from collections.abc import Callable
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from roamq.core.events import BrokerId
from roamq.overlay.flooding import Flooding
from roamq.overlay.topology import Topology
from tests.overlay.test_topology import connected_graphs
from tests.support.events import event
from tests.support.overlay_net import OverlayNet
from tests.support.recording_host import RecordingHost


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


def numbered(first: dict[BrokerId, int]) -> Callable[[BrokerId, RecordingHost, Topology], Flooding]:
    """Routers that count on from the number of their life."""
    return lambda me, host, topology: Flooding(me, host, topology, first_number=first.get(me, 0))


@given(
    connected_graphs(),
    st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=12),
    st.integers(0, 1000),
)
def test_no_fence_waits_for_what_brokers_saw_in_earlier_lives(
    topology: Topology, happens: list[tuple[bool, int]], seed: int
) -> None:
    """Brokers publish, or stop in order and begin anew; any of them, and all of them before the end."""
    lives: dict[BrokerId, int] = {}
    net = OverlayNet(topology, numbered(lives), seed)
    sequence = dict.fromkeys(topology.brokers, 0)
    begins = [(False, number) for number in range(len(topology.brokers))]
    net.rng.shuffle(begins)
    for publishes, number in (*happens, *begins):
        broker = topology.brokers[number % len(topology.brokers)]
        if publishes:
            sequence[broker] += 1
            net.publish(broker, event(sequence[broker], origin=broker))
        else:
            net.let_out(broker)
            lives[broker] = sequence[broker] = sequence[broker] + 1000
            net.lose_store(broker)
        for _ in range(net.rng.randrange(4)):
            net.step()
    net.settle()

    for here, there in permutations(topology.brokers, 2):
        assert net.routers[there].passed(net.routers[here].fence(there)), f"{there} waits for {here}"


def test_of_a_broker_that_departed_nothing_is_waited_for() -> None:
    """It published and left; then the brokers between it and another began anew."""
    a, b, c, edge = map(BrokerId, ("a", "b", "c", "edge"))
    line = Topology((a, b, c), [(a, b), (b, c)])
    lives = {a: 1, b: 1, c: 1, edge: 1}
    net = OverlayNet(line, numbered(lives))
    line.attach(edge, [a])
    for router in net.routers.values():
        router.broker_joined(edge, "edge@1")
    published = event(5, origin=edge)
    assert net.routers[a].receive_event(edge, published)
    net.settle()
    fence = net.routers[c].fence(b)
    assert fence[edge] == 5
    line.depart(edge)
    for broker in (a, b):
        lives[broker] = 100
        net.lose_store(broker)
    for router in net.routers.values():
        router.broker_departed(edge)
    assert not net.routers[b].passed(fence)
    net.settle()
    assert net.routers[b].passed(fence)
