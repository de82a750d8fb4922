"""Edge brokers come and go while others subscribe, publish and hand over: nothing is lost, repeated or out of order.

Every broker has a topology of its own and hears of a change over its links, so that brokers know different networks for
a while. `python -m tests.overlay.test_growing 1000` tries a thousand networks.
"""

import random
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.events import BrokerId, Event
from roamq.core.filters import Filter
from roamq.core.late import stands_for_unknown
from roamq.core.messages import Message
from roamq.overlay.base import Router
from roamq.overlay.flooding import Flooding
from roamq.overlay.interest import ByInterest
from roamq.overlay.paths import UniquePaths
from roamq.overlay.topology import Topology
from tests.overlay.test_topology import connected_graphs
from tests.support.events import event
from tests.support.recording_host import RecordingHost

T = Filter.parse("t")
TREES = 20
LINKS = [("b0", "b1"), ("b1", "b2"), ("b2", "b0"), ("b2", "b3"), ("b3", "b4"), ("b4", "b0")]


@given(connected_graphs(), st.lists(st.sets(st.integers(0, 6), min_size=1, max_size=3), max_size=4))
def test_no_path_changes_when_a_broker_is_attached_or_departs(
    topology: Topology, edges: list[set[int]]
) -> None:
    core = topology.brokers

    def paths_among(brokers: tuple[BrokerId, ...]) -> list[list[BrokerId]]:
        return [way.path(a, b) for way in (topology, topology.unique_paths) for a in brokers for b in brokers]

    known = core
    for number, places in enumerate(edges):
        before = paths_among(known)
        edge = BrokerId(f"a{number}")
        topology.attach(edge, {core[place % len(core)] for place in places})
        assert paths_among(known) == before
        known = topology.brokers
    for a in known:
        for b in known:
            path = topology.unique_paths.path(a, b)
            assert topology.unique_paths.path(b, a) == path[::-1]
            assert set(path[1:-1]) <= set(core)
            assert all(y in topology.neighbours[x] for x, y in pairwise(path))
            for start in range(len(path)):
                for end in range(start, len(path)):
                    part = path[start : end + 1]
                    assert topology.unique_paths.path(part[0], part[-1]) == part
    for edge in set(known) - set(core):
        left = tuple(broker for broker in topology.brokers if broker != edge)
        before = paths_among(left)
        topology.depart(edge)
        assert paths_among(left) == before


@given(connected_graphs(), st.lists(st.sets(st.integers(0, 6), min_size=1, max_size=3), max_size=3))
def test_no_path_changes_when_a_broker_of_the_core_departs_that_nobody_sends_through(
    topology: Topology, edges: list[set[int]]
) -> None:
    core = topology.brokers
    for number, places in enumerate(edges):
        topology.attach(BrokerId(f"a{number}"), {core[place % len(core)] for place in places})
    for broker in core:
        ways: tuple[Topology | UniquePaths, ...] = (topology, topology.unique_paths)
        left = tuple(other for other in topology.brokers if other != broker)
        before = [way.path(a, b) for way in ways for a in left for b in left]
        from_there = [way.path(a, broker) for way in ways for a in left]
        between = [topology.pair_through(broker, way) for way in ways]
        assert (between == [None, None]) == all(broker not in path[1:-1] for path in before)
        for way, pair in zip(ways, between, strict=True):
            assert pair is None or broker in way.path(*pair[::-1])[1:-1]
        if between == [None, None]:
            topology.depart(broker)
            assert [way.path(a, b) for way in ways for a in left for b in left] == before
            assert [way.path(a, broker) for way in ways for a in left] == from_there, "what it sent goes on"


def test_paths_do_not_depend_on_the_order_in_which_brokers_came() -> None:
    edges = {BrokerId("x"): ("b0", "b2"), BrokerId("a"): ("b1", "b3"), BrokerId("m"): ("b0", "b1", "b4")}
    found = []
    for order in (list(edges), list(reversed(edges))):
        topology = Topology([f"b{n}" for n in range(5)], LINKS)
        for edge in order:
            topology.attach(edge, map(BrokerId, edges[edge]))
        brokers = sorted(topology.brokers)
        found.append([topology.unique_paths.path(a, b) for a in brokers for b in brokers])
    assert found[0] == found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Message):
    """An edge broker joins at these brokers, or a broker is gone from there."""

    edge: BrokerId
    life: int
    at: tuple[BrokerId, ...]
    gone: bool = False
    publishes: tuple[str, ...] | None = None
    """What is published there, or was in an earlier life."""


class LinkHost(RecordingHost):
    def __init__(self, net: "GrowingNet", me: BrokerId) -> None:
        super().__init__(me=me)
        self.net = net

    def send(self, to: BrokerId, message: Message | Event) -> None:
        self.net.links.setdefault((self.me, to), deque()).append(message)


class GrowingNet:
    """Routers with FIFO links between them, each with the topology that it has heard of."""

    def __init__(self, seed: int, overlay: str, *, advertised: bool = False) -> None:
        self.lists = random.Random(f"{seed}/lists") if advertised else None
        """Chooses what brokers declare, if they do."""
        self.publishes: dict[BrokerId, tuple[str, ...] | None] = {}
        """Broker -> what may be published there in its present life."""
        self.random = random.Random(seed)
        self.overlay = overlay
        self.links: dict[tuple[BrokerId, BrokerId], deque[Message | Event]] = {}
        self.routers: dict[BrokerId, Router] = {}
        self.topologies: dict[BrokerId, Topology] = {}
        self.known: dict[BrokerId, dict[BrokerId, Changed]] = {}
        self.arrived: dict[BrokerId, list[Event]] = {}
        self.lives = 0
        self.count = 1000
        self.core = [BrokerId(f"b{n}") for n in range(5)]
        self.first = tuple(self.core)
        self.down: set[BrokerId] = set()
        for broker in self.core:
            self.publishes[broker] = self._chosen()
        for broker in self.core:
            self._begin(broker)

    def _chosen(self) -> tuple[str, ...] | None:
        return self.lists.choice([None, ("t",), ("other",), ("t", "other")]) if self.lists else None

    def _begin(self, broker: BrokerId, at: tuple[BrokerId, ...] = ()) -> None:
        declared = {str(one): topics for one in self.first if (topics := self.publishes[one]) is not None}
        topology = self.topologies[broker] = Topology(self.first, LINKS, declared)
        if at:
            topology.attach(broker, at, self.publishes[broker])
        host = LinkHost(self, broker)
        self.routers[broker] = (
            ByInterest(broker, host, topology)
            if self.overlay == "interest"
            else Flooding(broker, host, topology, first_number=self.lives if at else 0, confirms=True)
        )
        self.known[broker] = {}
        self.arrived.setdefault(broker, [])

    def join(self, edge: BrokerId, at: tuple[BrokerId, ...]) -> None:
        """One of the brokers that it will be linked with admits it; it starts, and links come up as they hear of it."""
        self.lives += 1
        for pair in [pair for pair in self.links if edge in pair]:
            del self.links[pair]
        self.publishes[edge] = self._chosen()
        self._begin(edge, at)
        self.routers[edge].doubt()
        admits = self.random.choice(at)
        publishes = self.publishes[edge]
        if (before := self.known[admits].get(edge)) is not None and publishes is not None:
            publishes = None if before.publishes is None else (*publishes, *before.publishes)
        self.learn(admits, Changed(edge=edge, life=self.lives, at=at, publishes=publishes))

    def depart(self, broker: BrokerId) -> None:
        if broker in self.core:
            self.core.remove(broker)
            near = self.topologies[broker].neighbours[broker]
            change = Changed(edge=broker, life=0, at=(near[0],), gone=True)
        else:
            change = replace(self.known[broker][broker], gone=True)
        near = tuple(one for one in change.at if one in self.routers)
        self.learn(near[0], change)
        del self.routers[broker]

    def may_depart(self, broker: BrokerId) -> bool:
        """Whether it is an edge broker, or nothing goes through it, as it knows the network."""
        if broker in self.core and len(self.core) == 2:
            return False
        return broker not in self.core or self.routers[broker].pair_through(broker) is None

    def learn(self, here: BrokerId, change: Changed) -> None:
        known, topology = self.known[here].get(change.edge), self.topologies[here]
        if known is not None and (known.life, known.gone) >= (change.life, change.gone):
            return
        for neighbour in topology.neighbours[here]:
            self.links.setdefault((here, neighbour), deque()).append(change)
        self.known[here][change.edge] = change
        edge, router = change.edge, self.routers[here]
        if edge == here:
            router.broker_joined(edge, f"{edge}@{change.life}")
            return
        is_core = edge in topology.core
        if not is_core and (known is None or known.life < change.life):
            if edge in topology.brokers:
                self._departed(here, edge)
            topology.attach(edge, change.at, change.publishes)
            if here in change.at:
                self.links[here, edge] = deque(self.known[here].values())
            router.broker_joined(edge, f"{edge}@{change.life}")
            if here in change.at and edge in self.routers:
                router.neighbour_forgot(edge)
                self.routers[edge].neighbour_forgot(here)
        if change.gone:
            self._departed(here, edge)

    def _departed(self, here: BrokerId, edge: BrokerId) -> None:
        self.topologies[here].depart(edge)
        self.routers[here].broker_departed(edge)
        self.links.pop((here, edge), None)

    def step(self) -> bool:
        busy = [
            (source, target)
            for (source, target), queue in self.links.items()
            if queue
            and target in self.routers
            and source in self.topologies[target].neighbours[target]
            and not self.down.intersection((source, target))
        ]  # who has not heard of a broker refuses its link
        if not busy:
            return False
        source, target = self.random.choice(busy)
        message = self.links[source, target].popleft()
        if isinstance(message, Changed):
            self.learn(target, message)
        elif isinstance(message, Event):
            if self.routers[target].receive_event(source, message):
                self.arrived[target].append(message)
        else:
            self.routers[target].receive(source, message)
        return True

    def is_in_reach(self, broker: BrokerId) -> bool:
        """Where events are flooded, nobody confirms: a broker gets all from when its neighbours know of it."""
        mine = self.topologies[broker].neighbours[broker]
        return self.overlay == "interest" or all(broker in self.topologies[a].neighbours[a] for a in mine)

    def settle(self) -> None:
        while self.step():
            pass

    def publish(self, at: BrokerId) -> Event:
        self.count += 1
        publishes = self.publishes[at]
        topic = "t" if publishes is None or "t" in publishes else "other"
        made = event(self.count, origin=at, topic=topic)
        self.arrived[at].append(made)
        self.routers[at].publish(made)
        return made


def ride(seed: int, overlay: str, *, advertised: bool = False) -> int:
    """Subscribers that were confirmed get all that is published anywhere since, in order, whoever comes and goes.

    `advertised`: some brokers say what is published there."""
    net = GrowingNet(seed, overlay, advertised=advertised)
    rng = net.random
    subscribed: dict[BrokerId, list[Event]] = {}
    """Broker that was confirmed -> what it is owed."""
    asking: dict[BrokerId, object] = {}
    edges: set[BrokerId] = set()
    names = [BrokerId(name) for name in ("a1", "c1", "z1")]
    for _ in range(60):
        for _ in range(rng.randrange(8)):
            net.step()
        for broker, fence in list(asking.items()):
            if net.routers[broker].passed(fence):  # type: ignore[arg-type]
                del asking[broker]
                subscribed[broker] = []
        brokers = list(net.routers)
        match rng.randrange(7):
            case 0:
                name = rng.choice(names)
                if name not in edges:
                    edges.add(name)
                    net.arrived.pop(name, None)
                    net.join(name, tuple(sorted(set(rng.choices(net.core, k=rng.choice((1, 1, 2)))))))
            case 1:
                broker = rng.choice(brokers)
                if broker not in subscribed and broker not in asking:
                    net.settle()  # drained: all have confirmed
                    if net.may_depart(broker):
                        edges.discard(broker)
                        net.depart(broker)
            case 2:
                broker = rng.choice(brokers)
                if broker not in subscribed and broker not in asking and net.is_in_reach(broker):
                    net.routers[broker].subscribe(T)
                    asking[broker] = net.routers[broker].confirm()
            case 3 if subscribed:
                broker = rng.choice(sorted(subscribed))
                del subscribed[broker]
                net.routers[broker].unsubscribe(T)
            case _:
                made = net.publish(rng.choice(brokers))
                for owed in subscribed.values() if T.matches(made) else ():
                    owed.append(made)
    net.settle()
    owed_in_all = 0
    for broker, owed in subscribed.items():
        got = net.arrived[broker]
        missing = [made for made in owed if made not in got]
        assert not missing, f"seed {seed}: {broker} misses {missing}"
        owed_in_all += len(owed)
    for broker, got in net.arrived.items():
        for origin in {made.id.origin for made in got}:
            numbers = [made.id.sequence for made in got if made.id.origin == origin]
            assert numbers == sorted(set(numbers)), f"seed {seed}: {broker} saw {numbers} of {origin}"
    for broker in asking:
        assert net.routers[broker].passed(asking[broker]), f"seed {seed}: {broker} waits"  # type: ignore[arg-type]
    for router in net.routers.values():
        if isinstance(router, ByInterest):
            assert not any(router._untold.values()), f"seed {seed}: {router.me} was not told all"
    return owed_in_all


def fences(seed: int) -> int:
    """Where events are flooded: what a broker has not seen when a fence has passed there comes to who made the fence,
    though brokers join while others are down."""
    net = GrowingNet(seed, "flooding")
    rng = net.random
    names = [BrokerId(name) for name in ("a1", "c1", "z1")]
    made: list[Event] = []
    waiting: list[tuple[BrokerId, BrokerId, Mapping[BrokerId, int], set[BrokerId]]] = []
    """Who has got a fence, who made it, the fence, and the origins for which it has not passed."""
    passed: list[tuple[BrokerId, BrokerId, list[Event]]] = []
    """Who made a fence, an origin for which it has passed, and what was seen of it then where it passed."""

    def look() -> None:
        for peer, by, fence, origins in waiting:
            late = net.routers[peer].late(fence)
            is_open = any(map(stands_for_unknown, late))
            known = net.topologies[peer].brokers if is_open else origins
            for origin in sorted((origins - late).intersection(known)):
                origins.discard(origin)
                passed.append((by, origin, [one for one in net.arrived[peer] if one.id.origin == origin]))

    for _ in range(60):
        for _ in range(rng.randrange(6)):
            net.step()
            look()
        match rng.randrange(6):
            case 0 if free := [name for name in names if name not in net.routers]:
                at = tuple(sorted(set(rng.sample(net.core, k=rng.choice((1, 2, 3))))))
                if net.down.isdisjoint(at[:1]):
                    net.join(rng.choice(free), at)
            case 1:
                net.down = set(rng.sample(net.core, k=rng.randrange(3)))
            case 2 | 3:
                by, peer = rng.choice(list(net.routers)), rng.choice(net.core)  # which sees everything
                known = net.topologies[peer].brokers
                if by in known and by != peer:
                    anybody = {*net.first, *names}  # who gets the fence may not have heard of them
                    waiting.append((peer, by, net.routers[by].fence(peer), anybody - {by}))
            case _:
                made.append(net.publish(rng.choice(list(net.routers))))
        look()
    net.down = set()
    net.settle()
    look()
    for by, origin, seen in passed:
        got = {*seen, *net.arrived[by]}
        missing = [one for one in made if one.id.origin == origin and one not in got]
        assert not missing, f"seed {seed}: {by} never gets {missing}, and its fence had passed"
    left = [(peer, by, origins) for peer, by, _, origins in waiting if origins]
    assert not left, f"seed {seed}: fences that never pass: {left}"
    return len(passed)


@pytest.mark.parametrize("seed", range(TREES))
def test_a_fence_of_a_broker_that_joins_waits_for_what_never_comes_there(seed: int) -> None:
    assert fences(seed)


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("seed", range(TREES))
def test_who_was_confirmed_gets_all_while_brokers_come_and_go(seed: int, overlay: str) -> None:
    ride(seed, overlay)


@pytest.mark.parametrize("seed", range(TREES))
def test_who_was_confirmed_gets_all_while_brokers_come_and_go_that_say_what_they_publish(seed: int) -> None:
    ride(seed, "interest", advertised=True)


if __name__ == "__main__":
    rides = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    owed = sum(ride(seed, overlay) for overlay in ("interest", "flooding") for seed in range(rides))
    owed += sum(ride(seed, "interest", advertised=True) for seed in range(rides))
    checked = sum(map(fences, range(rides)))
    print(f"{3 * rides} rides, {owed} owed deliveries, {rides} rides with {checked} fences, no finding")  # noqa: T201
