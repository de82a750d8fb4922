"""Routing by interest: an event reaches the brokers that want it, once, in order, and no others."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.overlay.flooding import Flooding
from roamq.overlay.interest import ByInterest
from roamq.overlay.messages import Marker, RoutingReset, RoutingTold, SubscribeFrom, UnsubscribeFrom
from roamq.overlay.topology import Topology
from roamq.overlay.uncovering import FIRST_GONE, GONE_AT_ONCE
from tests.overlay.test_topology import connected_graphs
from tests.support.events import event
from tests.support.overlay_net import OverlayNet
from tests.support.recording_host import RecordingHost
from tests.support.wants import ROUTERS, Change, Wants, changes_of

FILTERS = [
    Filter.parse("t"),
    Filter.parse("t", "x < 6"),
    Filter.parse("t", "x < 3"),
    Filter.parse("t", "x >= 2"),
    Filter.parse("t", "x >= 2 AND x < 6"),
    Filter.parse("t/#"),
    Filter.parse("u"),
]

CHANGES = changes_of(FILTERS)


@given(connected_graphs())
def test_chosen_paths_are_shortest_alike_both_ways_and_in_parts(topology: Topology) -> None:
    paths = topology.unique_paths
    for a in topology.brokers:
        for b in topology.brokers:
            path = paths.path(a, b)
            assert all(y in topology.neighbours[x] for x, y in pairwise(path))
            assert len(path) == topology.distance(a, b) + 1
            assert path == paths.path(b, a)[::-1]
            for place, broker in enumerate(path):
                assert paths.path(broker, b) == path[place:]


@given(connected_graphs(), CHANGES, st.integers(0, 1000))
def test_an_event_goes_where_it_is_wanted_and_nowhere_else(
    topology: Topology, changes: list[Change], seed: int
) -> None:
    net = OverlayNet(topology, ByInterest, seed)
    wants = Wants(net)
    wants.change_all(changes)

    wants.check(wants.settled_events())


@given(connected_graphs(), CHANGES, st.integers(0, 1000), ROUTERS)
def test_nothing_is_left_when_nobody_wants_anything(
    topology: Topology, changes: list[Change], seed: int, kind: type[ByInterest]
) -> None:
    net = OverlayNet(topology, kind, seed)
    wants = Wants(net)
    wants.change_all(changes)
    wants.end_all()
    net.settle()
    while any(router._put_offs for router in net.routers.values()):  # type: ignore[attr-defined]
        # Nobody wants an event, and it comes all the same: that ends what makes it come.
        arrived = sum(map(len, net.arrived.values()))
        made = wants.publish_everywhere()
        net.settle()
        assert sum(map(len, net.arrived.values())) > arrived + len(made)

    wants.check_nothing_is_left()


@given(connected_graphs(), CHANGES, st.integers(0, 1000), ROUTERS)
def test_brokers_get_no_less_than_under_flooding_while_wants_stay(
    topology: Topology, changes: list[Change], seed: int, kind: type[ByInterest]
) -> None:
    """Subscriptions that have settled hold while others come and go in the middle of traffic."""
    net, flood = OverlayNet(topology, kind, seed), OverlayNet(topology, Flooding, seed)
    wants = Wants(net)
    steady = {b: FILTERS[i % len(FILTERS)] for i, b in enumerate(topology.brokers) if i % 2 == 0}
    for broker, filter in steady.items():
        net.routers[broker].subscribe(filter)
    net.settle()
    rng = random.Random(seed)
    for change in changes:
        wants.change(*change)
        made = wants.publish(wants.broker(rng.randrange(7)), rng.randrange(9))
        flood.publish(made.id.origin, made)
        for _ in range(rng.randrange(6)):
            net.step()
    net.settle()
    flood.settle()

    for broker, filter in steady.items():
        for origin in topology.brokers:
            due = [e.id for e in flood.arrived[broker] if e.id.origin == origin and filter.matches(e)]
            got = [e.id for e in net.arrived[broker] if e.id.origin == origin and filter.matches(e)]
            assert got == due


@given(
    connected_graphs(),
    CHANGES,
    st.sampled_from(FILTERS[:5]),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.integers(0, 10_000),
    ROUTERS,
)
def test_what_the_new_broker_does_not_get_the_old_one_has_when_the_fence_has_passed(
    topology: Topology,
    changes: list[Change],
    filter: Filter,
    ends: tuple[int, int],
    seed: int,
    kind: type[ByInterest],
) -> None:
    """The theorem of docs/interest.md, with traffic and other subscriptions that change all the time."""
    wants = Wants(OverlayNet(topology, kind, seed))

    assert wants.lost_in_a_move([filter], ends, changes, names_filters=False) == []


@given(
    connected_graphs(),
    CHANGES,
    st.sampled_from(FILTERS[:5]),
    st.integers(0, 6),
    st.integers(0, 1000),
    ROUTERS,
)
def test_what_is_published_after_the_confirmation_reaches_the_subscriber(
    topology: Topology,
    changes: list[Change],
    filter: Filter,
    at: int,
    seed: int,
    kind: type[ByInterest],
) -> None:
    net = OverlayNet(topology, kind, seed)
    wants = Wants(net)
    broker = wants.broker(at)
    router = net.routers[broker]
    for change in changes:
        wants.change(*change)
        net.step()
    router.subscribe(filter)
    wants.wait_for_confirmation(broker, router.confirm())
    events = wants.publish_everywhere()
    net.settle()

    assert [e for e in events if filter.matches(e) and e not in net.arrived[broker]] == []


@given(
    connected_graphs(),
    st.lists(st.one_of(st.integers(0, 6), CHANGES), max_size=8),
    st.integers(0, 1000),
    ROUTERS,
)
def test_a_broker_that_lost_its_store_learns_again_what_is_wanted(
    topology: Topology, steps: list[int | list[Change]], seed: int, kind: type[ByInterest]
) -> None:
    net = OverlayNet(topology, kind, seed)
    wants = Wants(net)
    for step in steps:
        wants.lose_store(step) if isinstance(step, int) else wants.change_all(step)

    wants.check(wants.settled_events(), exactly=kind is ByInterest)


@given(connected_graphs(), st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(0, 1000))
def test_subscribers_miss_nothing_though_brokers_stop_in_order_and_begin_anew(
    topology: Topology, emptied: list[int], seed: int
) -> None:
    """An event is passed on by a broker that has not been told yet who wants it, even one that enters there."""
    net = OverlayNet(topology, ByInterest, seed)
    wants = Wants(net)
    subscriber = topology.brokers[0]
    net.routers[subscriber].subscribe(FILTERS[0])
    net.settle()
    events = []
    for number in emptied:
        broker = wants.broker(number)
        if broker == subscriber:
            continue
        events += [wants.publish(wants.broker(net.rng.randrange(7)), 1) for _ in range(3)]
        for _ in range(net.rng.randrange(6)):
            net.step()
        net.let_out(broker)
        net.lose_store(broker)
        events += [wants.publish(broker, 1), wants.publish(wants.broker(net.rng.randrange(7)), 1)]
        for _ in range(net.rng.randrange(6)):
            net.step()
    net.settle()

    assert [made.id for made in events if made not in net.arrived[subscriber]] == []
    assert not any(any(router._untold.values()) for router in net.routers.values())  # type: ignore[attr-defined]
    assert not any(any(router._to_tell.values()) for router in net.routers.values())  # type: ignore[attr-defined]


@given(connected_graphs(), st.lists(st.integers(0, 6), min_size=1, max_size=3), st.integers(0, 1000))
def test_a_fence_passes_though_a_broker_on_the_marker_s_way_lost_its_store(
    topology: Topology, lost: list[int], seed: int
) -> None:
    net = OverlayNet(topology, ByInterest, seed)
    wants = Wants(net)
    new, old = topology.brokers[0], topology.brokers[-1]
    fence = net.routers[new].fence(old)
    for number in lost:
        for _ in range(net.rng.randrange(4)):
            net.step()
        net.routers[old].passed(fence)
        if wants.broker(number) != old:
            net.lose_store(wants.broker(number))
    net.settle()

    assert net.routers[old].passed(fence)


# --- what it costs ------------------------------------------------------------------------------------------


def line(size: int) -> Topology:
    names = [f"b{i}" for i in range(size)]
    return Topology(names, list(pairwise(names)))


def test_a_covered_subscription_stops_where_a_covering_one_went_before() -> None:
    net = OverlayNet(line(6), ByInterest)
    net.routers[BrokerId("b1")].subscribe(FILTERS[0])
    net.settle()
    net.crossings.clear()

    net.routers[BrokerId("b0")].subscribe(FILTERS[1])
    net.settle()

    assert [(a, b) for a, b, _ in net.crossings] == [("b0", "b1")]


def test_a_move_to_a_neighbour_on_a_line_costs_as_many_messages_whatever_its_length() -> None:
    def crossings(size: int) -> int:
        net = OverlayNet(line(size), ByInterest)
        old, new = BrokerId("b3"), BrokerId("b4")
        net.routers[old].subscribe(FILTERS[0])
        net.settle()
        net.crossings.clear()
        net.routers[new].subscribe(FILTERS[0], mobile=True)
        net.routers[new].fence(old)
        net.settle()
        net.routers[old].unsubscribe(FILTERS[0], mobile=True)
        net.settle()
        kinds = {type(message) for _, _, message in net.crossings}
        assert kinds <= {SubscribeFrom, UnsubscribeFrom}
        return len(net.crossings)

    assert crossings(8) == crossings(40) == 2


def test_on_a_tree_a_fence_sends_no_marker() -> None:
    net = OverlayNet(line(5), ByInterest)
    fence = net.routers[BrokerId("b0")].fence(BrokerId("b4"))

    assert not net.crossings
    assert net.routers[BrokerId("b4")].passed(fence)


def test_in_a_full_mesh_every_other_broker_is_asked_once() -> None:
    names = "abcdef"
    net = OverlayNet(Topology(names, [(a, b) for a in names for b in names if a < b]), ByInterest)
    a, b = BrokerId("a"), BrokerId("b")
    fence = net.routers[b].fence(a)

    assert sum(isinstance(message, Marker) for _, _, message in net.crossings) == 4
    assert not net.routers[a].passed(fence)
    net.settle()
    assert net.routers[a].passed(fence)
    assert len(net.crossings) == 8


@given(
    connected_graphs(),
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)),
    st.integers(0, 1000),
)
def test_a_fence_that_is_passed_on_to_a_third_broker_passes_there(
    topology: Topology, numbers: tuple[int, int, int], seed: int
) -> None:
    """As a release without a request is ([DIS] section 3.2.4). Until echoes of its own have come it has not passed."""
    net = OverlayNet(topology, ByInterest, seed)
    new, named, third = (Wants(net).broker(number) for number in numbers)
    if new in (named, third):
        return
    fence = net.routers[new].fence(named)

    assert net.routers[third].passed(fence) is (
        third == named and not topology.unique_paths.partings(new, third)
    )
    net.settle()
    assert net.routers[third].passed(fence)


def test_a_broker_that_was_alone_knows_what_its_filters_cover_when_another_comes() -> None:
    """While it is alone it keeps no index of what covers what; the first neighbour is told what counts."""
    me, other = BrokerId("b0"), BrokerId("e")
    topology, host = Topology([me], []), RecordingHost(me=me)
    router = ByInterest(me, host, topology)
    wide, narrow, gone = Filter.parse("t/#"), Filter.parse("t/a"), Filter.parse("u")
    for filter in (wide, narrow, gone, narrow):
        router.subscribe(filter)
    router.unsubscribe(gone)
    assert not host.effects

    topology.attach(other, [me])
    router.broker_joined(other, "e@1")
    router.neighbour_forgot(other)
    asked = [message.filter for *_, message in host.effects if isinstance(message, SubscribeFrom)]
    assert set(asked) == {wide}
    host.effects.clear()
    router.unsubscribe(wide)
    told = [(type(message), message.filter) for *_, message in host.effects]
    assert told == [(SubscribeFrom, narrow), (UnsubscribeFrom, wide)]

    topology.depart(other)
    router.broker_departed(other)
    for _ in range(2):
        router.unsubscribe(narrow)
    router.subscribe(wide)
    router.unsubscribe(wide)


def told_all_of(router: ByInterest, other: BrokerId, filters: list[Filter]) -> None:
    """The neighbour tells all that it wants."""
    router.receive(other, RoutingReset(asks=False))
    for filter in filters:
        router.receive(other, SubscribeFrom(filter=filter, origins=b"\x01"))
    router.receive(other, RoutingTold(origins=b"\x01"))


def test_what_a_neighbour_wants_no_more_goes_some_at_a_time() -> None:
    """A neighbour that has missed much tells all that it wants now: thousands of filters go, a few with each input."""
    me, other = BrokerId("b0"), BrokerId("b1")
    router = ByInterest(me, RecordingHost(me=me), Topology([me, other], [(me, other)]))
    kept, back = Filter.parse("kept"), Filter.parse("t/9")
    old = [Filter.parse(f"t/{number}") for number in range(FIRST_GONE + 20 * GONE_AT_ONCE)]
    told_all_of(router, other, [kept, *old])
    assert router.filters_kept == len(old) + 1

    told_all_of(router, other, [kept])
    assert router.filters_kept == len(old) + 1 - FIRST_GONE
    again = old[FIRST_GONE + 5 * GONE_AT_ONCE]
    for filter in (again, back):
        router.receive(other, SubscribeFrom(filter=filter, origins=b"\x01"))
    for number in range(1, 30):
        before = router.filters_kept
        router.receive_event(other, event(number, origin="b1"))
        assert before - router.filters_kept <= GONE_AT_ONCE
    assert set(router._asked[other]) == {kept, back, again}
    assert router._doubted[other] == {}

    told_all_of(router, other, old)
    told_all_of(router, other, [kept])
    told_all_of(router, other, [kept, *old])
    for number in range(30, 60):
        router.receive_event(other, event(number, origin="b1"))
    assert set(router._asked[other]) == {kept, *old}, "what it wants again does not go"
