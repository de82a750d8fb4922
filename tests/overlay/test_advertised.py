"""Brokers that say what is published there are asked for nothing else, and nobody waits for them because of it."""

from hypothesis import given
from hypothesis import strategies as st

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.overlay.interest import ByInterest
from roamq.overlay.messages import Echo, Marker, SubscribeFrom
from roamq.overlay.topology import Topology
from tests.overlay.test_topology import connected_graphs
from tests.support.events import event
from tests.support.overlay_net import OverlayNet
from tests.support.wants import ROUTERS, Change, Wants, changes_of

TOPICS = ("a/1", "a/2", "b", "c/1/x")
DECLARED = st.sampled_from(
    [None, (), ("a/#",), ("a/1",), ("b", "a/2"), ("+/1/#",), ("#",), ("c/+/x", "b"), ("z",)]
)
FILTERS = [
    Filter("a/1"),
    Filter("a/#"),
    Filter("+/1", "x < 6"),
    Filter("b"),
    Filter("b", "x >= 2"),
    Filter("#"),
    Filter("c/1/x", "x < 3"),
    Filter("a/1", None, "team"),
]
CHANGES = changes_of(FILTERS)


@st.composite
def advertising_graphs(draw: st.DrawFn) -> Topology:
    """A connected graph of brokers, some of which say what is published there."""
    topology = draw(connected_graphs())
    for broker in topology.brokers:
        topology.declare(broker, draw(DECLARED))
    return topology


class LocalWants(Wants):
    """Wants of a net in which every broker publishes what it has declared, and nothing else."""

    def allowed(self, broker: BrokerId) -> list[str]:
        declared = self.net.topology.publishes.get(broker, (Filter("#"),))
        return [topic for topic in TOPICS if any(one.covers(Filter(topic)) for one in declared)]

    def topic(self, broker: BrokerId, number: int, x: int) -> str:
        """The next one that is allowed there; one that no filter here matches if none is."""
        allowed = self.allowed(broker)
        return allowed[number % len(allowed)] if allowed else "$nowhere"


def senders(topology: Topology, filter: Filter) -> set[BrokerId]:
    """The brokers where something that matches may be published, found without the code under test."""
    found = set()
    for broker in topology.brokers:
        declared = topology.publishes.get(broker, (Filter("#"),))
        if filter.group is not None or any(filter.overlaps(one) for one in declared):
            found.add(broker)
    return found


@given(advertising_graphs(), CHANGES, st.integers(0, 1000))
def test_an_event_goes_where_it_is_wanted_and_nowhere_else(
    topology: Topology, changes: list[Change], seed: int
) -> None:
    net = OverlayNet(topology, ByInterest, seed)
    wants = LocalWants(net)
    wants.change_all(changes)

    wants.check(wants.settled_events())


@given(advertising_graphs(), CHANGES, st.integers(0, 1000))
def test_nobody_is_asked_for_what_is_not_published_there(
    topology: Topology, changes: list[Change], seed: int
) -> None:
    net = OverlayNet(topology, ByInterest, seed)
    wants = LocalWants(net)
    wants.change_all(changes)
    net.settle()

    names = sorted(topology.core)
    for _, _, message in net.crossings:
        if isinstance(message, SubscribeFrom):
            asked = int.from_bytes(message.origins, "little")
            origins = {broker for place, broker in enumerate(names) if asked >> place & 1}
            assert origins <= senders(topology, message.filter), f"{message.filter} is asked of {origins}"


@given(advertising_graphs(), CHANGES, st.integers(0, 1000))
def test_nothing_is_left_when_nobody_wants_anything(
    topology: Topology, changes: list[Change], seed: int
) -> None:
    net = OverlayNet(topology, ByInterest, seed)
    wants = LocalWants(net)
    wants.change_all(changes)
    wants.end_all()
    net.settle()

    wants.check_nothing_is_left()


@given(
    advertising_graphs(),
    CHANGES,
    st.lists(st.sampled_from(FILTERS[:7]), min_size=1, max_size=3, unique=True),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.integers(0, 10_000),
    ROUTERS,
)
def test_what_the_new_broker_does_not_get_the_old_one_has_when_the_fence_has_passed(
    topology: Topology,
    changes: list[Change],
    filters: list[Filter],
    ends: tuple[int, int],
    seed: int,
    kind: type[ByInterest],
) -> None:
    """The theorem of docs/interest.md where markers go only to partings of origins that may publish what matches."""
    wants = LocalWants(OverlayNet(topology, kind, seed))

    assert wants.lost_in_a_move(filters, ends, changes, names_filters=True) == []


@given(advertising_graphs(), st.sampled_from(FILTERS[:7]), st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_markers_go_only_where_the_paths_of_an_origin_part_that_matters(
    topology: Topology, filter: Filter, ends: tuple[int, int]
) -> None:
    net = OverlayNet(topology, ByInterest)
    wants = Wants(net)
    old, new = wants.broker(ends[0]), wants.broker(ends[1])
    net.routers[new].subscribe(filter)
    net.settle()
    net.crossings.clear()
    net.routers[new].fence(old, (filter,))

    paths = topology.unique_paths
    parting = set()
    for origin in senders(topology, filter):
        to_old = paths.path(old, origin)
        parting.add(next(one for one in paths.path(new, origin) if one in to_old))
    targets = {at for _, _, m in net.crossings if isinstance(m, Marker) for at in m.targets}
    assert targets <= parting - set(paths.path(new, old))


@given(
    advertising_graphs(),
    CHANGES,
    st.lists(st.sampled_from(FILTERS), min_size=1, max_size=4),
    st.integers(0, 6),
    st.integers(0, 1000),
    ROUTERS,
)
def test_what_is_published_after_a_confirmation_reaches_the_subscriber(
    topology: Topology,
    changes: list[Change],
    filters: list[Filter],
    at: int,
    seed: int,
    kind: type[ByInterest],
) -> None:
    """Several subscriptions follow each other: the confirmation of each stands for all before it, though its marker
    goes to other brokers than theirs."""
    net = OverlayNet(topology, kind, seed)
    wants = LocalWants(net)
    broker = wants.broker(at)
    router = net.routers[broker]
    for change in changes:
        wants.change(*change)
        net.step()
    confirmations = []
    for filter in filters:
        router.subscribe(filter)
        confirmations.append(router.confirm())
        wants.step_at_most(2)
    wanted = net.rng.randrange(len(filters))
    wants.wait_for_confirmation(broker, confirmations[wanted])
    events = wants.publish_everywhere()
    net.settle()

    for filter in filters[: wanted + 1]:
        assert [e for e in events if filter.matches(e) and e not in net.arrived[broker]] == []


def test_a_confirmation_stands_for_earlier_ones_that_are_not_answered() -> None:
    """Though nothing was asked of the silent broker since: what it was asked for covers what is subscribed to now."""
    topology = Topology("abc", [("a", "b"), ("a", "c")], {"b": ["from/b"], "c": ["from/c"]})
    net = OverlayNet(topology, ByInterest)
    a, b, c = map(BrokerId, "abc")
    router = net.routers[a]
    router.subscribe(Filter("from/b"))
    first = router.confirm()
    router.subscribe(Filter("from/c"))
    router.confirm()
    for pair in ((a, c), (c, a)):
        while net.links[pair]:
            net._deliver(*pair)
    router.subscribe(Filter("from/b", "x < 3"))
    last = router.confirm()

    assert router.silent(last) == {b}
    assert not router.passed(last)
    net.settle()
    assert router.passed(first) and router.passed(last)


@given(advertising_graphs(), st.sampled_from(FILTERS), st.integers(0, 6))
def test_a_confirmation_asks_only_brokers_where_something_that_matches_may_be_published(
    topology: Topology, filter: Filter, at: int
) -> None:
    net = OverlayNet(topology, ByInterest)
    broker = Wants(net).broker(at)
    net.routers[broker].subscribe(filter)
    net.routers[broker].confirm()
    net.settle()

    asked = {m.at for _, _, m in net.crossings if isinstance(m, Echo)}
    assert asked == senders(topology, filter) - {broker}


@given(
    advertising_graphs(),
    st.lists(st.one_of(st.integers(0, 6), CHANGES), max_size=8),
    st.integers(0, 1000),
    ROUTERS,
)
def test_a_broker_that_lost_its_store_learns_again_what_is_wanted(
    topology: Topology, steps: list[int | list[Change]], seed: int, kind: type[ByInterest]
) -> None:
    net = OverlayNet(topology, kind, seed)
    wants = LocalWants(net)
    for step in steps:
        wants.lose_store(step) if isinstance(step, int) else wants.change_all(step)

    wants.check(wants.settled_events(), exactly=kind is ByInterest)


def test_a_member_of_a_group_is_handed_what_another_broker_does_not_publish() -> None:
    """A copy for the next member of a group is an event of the broker that hands it on, on whatever topic."""
    topology = Topology("abc", [("a", "b"), ("b", "c")], {"b": ["other"], "c": []})
    net = OverlayNet(topology, ByInterest)
    net.routers[BrokerId("a")].subscribe(Filter("a/1", None, "team"))
    net.settle()
    copy = event(1, origin=BrokerId("c"), topic="a/1")
    net.publish(BrokerId("c"), copy)
    net.settle()

    assert net.arrived[BrokerId("a")] == [copy]
