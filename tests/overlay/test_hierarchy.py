"""The hierarchy: up to the root, down where subscribed; covering and advertisements ([DIS] section 2)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.overlay.hierarchy import Hierarchy
from roamq.overlay.messages import Subscribe, Unsubscribe
from roamq.overlay.topology import Topology, hierarchy
from tests.support.events import event
from tests.support.overlay_net import OverlayNet
from tests.support.recording_host import RecordingHost

TREE = Topology(*hierarchy(3, 2))  # b0.0 over b1.0, b1.1 over b2.0 ... b2.3
ROOT, LEFT, RIGHT = BrokerId("b0.0"), BrokerId("b1.0"), BrokerId("b1.1")
LEAVES = [BrokerId(f"b2.{i}") for i in range(4)]

FILTERS = [Filter.parse("t", s) for s in ("x < 2", "x < 4", "x < 8", "x = 1", "x > 5", "x BETWEEN 2 AND 6")]


def net(*, covering: bool = False, advertisements: bool = False, seed: int = 0) -> OverlayNet:
    def make(me: BrokerId, host: RecordingHost, topology: Topology) -> Hierarchy:
        return Hierarchy(me, host, topology, covering=covering, advertisements=advertisements)

    return OverlayNet(TREE, make, seed)


def subscription_messages(of: OverlayNet) -> list[tuple[str, str, str, Filter]]:
    names = {Subscribe: "subscribe", Unsubscribe: "unsubscribe"}
    return [
        (names[type(m)], source, target, m.filter)
        for source, target, m in of.crossings
        if isinstance(m, Subscribe | Unsubscribe)
    ]


def test_events_always_go_up_to_the_root_and_down_only_where_subscribed() -> None:
    """[DIS] section 2: "events are always propagated upward to the root, but downward only towards interested
    subscribers"."""
    tree = net()
    tree.routers[LEAVES[2]].subscribe(Filter.parse("t"))
    tree.settle()

    tree.publish(LEAVES[0], event(1, origin=LEAVES[0]))
    tree.settle()

    reached = {broker for broker, events in tree.arrived.items() if events}
    assert reached == {LEAVES[0], LEFT, ROOT, RIGHT, LEAVES[2]}


def test_without_covering_every_subscription_travels_to_the_root() -> None:
    tree = net()
    for _ in range(2):
        tree.routers[LEAVES[0]].subscribe(FILTERS[0])
    tree.settle()

    assert len(subscription_messages(tree)) == 4  # two subscriptions, two links each


def test_a_covered_subscription_stops_where_a_covering_one_went_before() -> None:
    """[DIS] section 2: a broker sends it to its parent if and only if it has not sent one that covers it."""
    tree = net(covering=True)
    narrow, wide = FILTERS[0], FILTERS[2]
    tree.routers[LEAVES[0]].subscribe(wide)
    tree.settle()
    tree.crossings.clear()

    tree.routers[LEAVES[1]].subscribe(narrow)
    tree.settle()

    assert subscription_messages(tree) == [("subscribe", LEAVES[1], LEFT, narrow)]


def test_covered_subscriptions_surface_before_the_covering_one_leaves() -> None:
    tree = net(covering=True)
    narrow, wide = FILTERS[0], FILTERS[2]
    tree.routers[LEAVES[0]].subscribe(wide)
    tree.settle()
    tree.routers[LEAVES[1]].subscribe(narrow)
    tree.settle()
    tree.crossings.clear()

    tree.routers[LEAVES[0]].unsubscribe(wide)
    tree.settle()

    assert subscription_messages(tree) == [
        ("unsubscribe", LEAVES[0], LEFT, wide),
        ("subscribe", LEFT, ROOT, narrow),
        ("unsubscribe", LEFT, ROOT, wide),
    ]


def test_with_advertisements_an_event_nobody_wants_stays_where_it_is() -> None:
    """[DIS] section 2: "events are never unnecessarily propagated up the tree"."""
    tree = net(advertisements=True)
    tree.routers[LEAVES[0]].advertise(Filter.parse("t"))
    tree.settle()

    tree.publish(LEAVES[0], event(1, origin=LEAVES[0]))
    tree.settle()

    assert not [
        c for c in tree.crossings if not isinstance(c[2], Subscribe) and c[2].__class__.__name__ == "Event"
    ]


def test_an_advertisement_that_comes_after_the_subscription_draws_it_down() -> None:
    tree = net(advertisements=True)
    tree.routers[LEAVES[3]].subscribe(Filter.parse("t", "x < 4"))
    tree.settle()

    tree.routers[LEAVES[0]].advertise(Filter.parse("t", "x < 2"))
    tree.settle()
    tree.publish(LEAVES[0], event(1, origin=LEAVES[0], x=1))
    tree.settle()

    assert [e.id.sequence for e in tree.arrived[LEAVES[3]]] == [1]


def test_a_graph_with_cycles_is_refused() -> None:
    ring = Topology("abc", [("a", "b"), ("b", "c"), ("c", "a")])

    with pytest.raises(ConfigError, match="form a tree; use 'flooding'"):
        Hierarchy(BrokerId("a"), RecordingHost(), ring)


@given(
    st.booleans(),
    st.booleans(),
    st.integers(0, 10_000),
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, 3), st.integers(0, len(FILTERS) - 1)),
            st.sampled_from([LEFT, RIGHT, ROOT, *LEAVES]),
        ),
        max_size=14,
    ),
)
def test_whoever_subscribed_sees_what_matches_whatever_was_switched_on(
    covering: bool, advertisements: bool, seed: int, steps: list[tuple[int, int] | BrokerId]
) -> None:
    """Subscriptions come and go at the leaves, brokers begin anew; when all has settled, events reach exactly the
    interested."""
    tree = net(covering=covering, advertisements=advertisements, seed=seed)
    rng = random.Random(seed)
    wanted: dict[BrokerId, set[Filter]] = {leaf: set() for leaf in LEAVES}
    publishers = rng.sample(LEAVES, 2)
    tree.routers[publishers[0]].advertise(Filter.parse("t"))
    for step in steps:
        if isinstance(step, str):
            tree.lose_store(step)
            wanted[step] = set()
            if step == publishers[0]:
                tree.routers[step].advertise(Filter.parse("t"))
        else:
            leaf, filter = LEAVES[step[0]], FILTERS[step[1]]
            if filter in wanted[leaf]:
                wanted[leaf].remove(filter)
                tree.routers[leaf].unsubscribe(filter)
            else:
                wanted[leaf].add(filter)
                tree.routers[leaf].subscribe(filter)
        for _ in range(rng.randrange(3)):
            tree.step()
    tree.routers[publishers[1]].advertise(Filter.parse("t"))
    tree.settle()
    published = dict.fromkeys(publishers, 0)
    for value in range(9):
        for leaf in publishers:
            published[leaf] += 1
            tree.publish(leaf, event(published[leaf], origin=leaf, x=value))
    tree.settle()

    for leaf in LEAVES:
        got = {(e.id.origin, e.attributes["x"]) for e in tree.arrived[leaf] if e.id.origin != leaf}
        want = {
            (publisher, value)
            for publisher in publishers
            if publisher != leaf
            for value in range(9)
            if any(f.matches(event(1, x=value)) for f in wanted[leaf])
        }
        assert want <= got, "an interested broker missed an event"
        if not covering:
            assert got == want, "an event went where nobody wanted it"
