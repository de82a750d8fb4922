"""The city of [DIS] section 5.2: who is where, who wants what, and that express unicast changes nothing."""

import itertools
import random
from collections import Counter

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, Event, EventId
from roamq.sim.city import Commute, PervasiveTravel, RandomTravel, downtown
from roamq.sim.city_news import EVENTS, SUBSCRIPTIONS, CityNews
from roamq.sim.mobility import Step
from roamq.sim.scenario import Simulation, load_scenario, topology_of, world_of

pytestmark = pytest.mark.slow

WORLD = world_of(load_scenario("random"), topology_of(load_scenario("random")))
LEAVES = WORLD.leaves


def steps_of(model: object, client: int, count: int) -> list[Step]:
    steps = model.steps(client, WORLD, random.Random(client))  # type: ignore[attr-defined]
    return [step for step, _ in zip(steps, range(count), strict=False)]


def test_the_city_has_64_leaf_brokers_among_85() -> None:
    """[DIS] Table 2: num brokers 85, num leaf brokers 64, height 4, degree 4."""
    assert (len(WORLD.brokers), len(LEAVES)) == (85, 64)


def test_downtown_is_in_the_middle() -> None:
    assert list(downtown(LEAVES, 10)) == list(LEAVES[27:37])
    assert list(downtown(LEAVES, 20)) == list(LEAVES[22:42])
    with pytest.raises(ConfigError, match="65"):
        downtown(LEAVES, 65)


def test_the_forty_subscriptions_match_1_3_9_and_27_events() -> None:
    """ "The first 27 [...] exactly match one [...] 9 match 3 publications each, 3 match 9 [...], one matches all" """
    events = [Event(id=EventId(BrokerId("o"), n), topic=topic) for n, topic in enumerate(EVENTS, 1)]
    matched = [sum(filter.matches(event) for event in events) for filter in SUBSCRIPTIONS]

    assert matched == [1] * 27 + [3] * 9 + [9] * 3 + [27]


def test_commuters_follow_table_3() -> None:
    home, near = 0, set(downtown(LEAVES, 30))
    model = Commute()
    for client in range(400):
        work, out, arrival = steps_of(model, client, 9)
        assert work.broker in downtown(LEAVES, 20)
        assert 16 * 3600 <= out.time_s + model.clock_s <= 18 * 3600
        minutes = (arrival.time_s - out.time_s) / 60
        if arrival.broker in near:
            home += 1
            assert 15 <= minutes <= 45
        else:
            assert 45 <= minutes <= 90
    assert home / 400 == pytest.approx(0.4, abs=0.07)


def test_random_travellers_are_away_10_to_30_minutes_and_stay_in_the_city() -> None:
    """ "each period varying uniformly between 10 and 30 minutes"; speeds of 5, 50 and 100 km/h."""
    cells = Counter[int]()
    for client in range(200):
        steps = steps_of(RandomTravel(), client, 9)
        places = [LEAVES.index(step.broker) for step in steps if step.broker is not None]
        for gone, back in zip(steps[1::2], steps[2::2], strict=True):
            assert gone.broker is None
            assert 600 <= back.time_s - gone.time_s <= 1800
        cells.update(abs(a - b) for a, b in itertools.pairwise(places))
    assert max(cells) <= 63
    assert min(distance for distance in cells if distance) <= 5, "on foot: at most 2.5 km"


@pytest.mark.parametrize("edge", ["stop", "turn", "wrap", "redraw"])
def test_travellers_stay_in_the_city_whatever_they_do_at_its_edge(edge: str) -> None:
    places = Counter[int]()
    for client in range(300):
        steps = steps_of(RandomTravel(edge=edge), client, 11)
        places.update(LEAVES.index(step.broker) for step in steps if step.broker is not None)

    at_the_ends = (places[0] + places[63]) / places.total()
    assert at_the_ends > 0.2 if edge == "stop" else at_the_ends < 0.06, "who stops at the edge stays there"


def test_a_journey_that_would_leave_the_city_is_turned_wrapped_or_drawn_again() -> None:
    fast = {"travel_s": (1800.0, 1800.0), "speeds_kmh": (10.0,)}  # 5 km: ten places

    def ends(edge: str) -> set[int]:
        model = RandomTravel(edge=edge, **fast)  # type: ignore[arg-type]
        ways = (model.journey(3, 64, random.Random(seed))[2] for seed in range(50))
        return {model.within(way[-1], 63) for way in ways}

    assert ends("stop") == {0, 13}
    assert ends("turn") == {7, 13}, "three places to the edge and seven back"
    assert ends("wrap") == {57, 13}
    assert ends("redraw") == {13}


def test_pervasive_travellers_that_turn_around_connect_on_the_way_back_too() -> None:
    model = PervasiveTravel(edge="turn", travel_s=(1800.0, 1800.0), speeds_kmh=(10.0,))
    ways = (model.journey(3, 64, random.Random(seed))[2] for seed in range(50))
    way = next(way for way in ways if way[-1] == -7)

    steps = [*model.travel(LEAVES, way, 0.0, 1800.0, 10 / 3600)]
    places = [LEAVES.index(step.broker) for step in steps if step.broker is not None]
    assert places == [2, 1, 0, 1, 2, 3, 4, 5, 6, 7]


def test_pervasive_travellers_connect_to_every_broker_on_their_way() -> None:
    """ "by connecting in turn to the intermediate brokers between the source and destination brokers" """
    for client in range(20):
        steps = steps_of(PervasiveTravel(), client, 60)
        places = [LEAVES.index(step.broker) for step in steps if step.broker is not None]
        assert all(abs(a - b) == 1 for a, b in itertools.pairwise(places))
        assert [s.time_s for s in steps] == sorted(s.time_s for s in steps)


def test_locality_gives_that_share_one_interest_and_the_others_another() -> None:
    load = CityNews(locality=0.6, subscription_count=27)
    wanted = Counter(load.subscriptions(n, WORLD, random.Random(n))[0] for n in range(2000))

    assert wanted[SUBSCRIPTIONS[0]] / 2000 == pytest.approx(0.6, abs=0.04)
    assert len(wanted) == 27


def test_full_locality_leaves_nobody_with_another_interest() -> None:
    load = CityNews(locality=1.0, subscription_count=27)

    assert {load.subscriptions(n, WORLD, random.Random(n))[0] for n in range(200)} == {SUBSCRIPTIONS[0]}


def test_publishers_of_the_commute_are_downtown_and_publish_once_a_minute() -> None:
    load = CityNews(publisher_brokers=10)
    publishers = load.publishers(WORLD, lambda name: random.Random(name))

    assert len(publishers) == 100
    for publisher in publishers:
        assert publisher.broker in downtown(LEAVES, 10)
        said = [next(publisher.publications) for _ in range(3)]
        assert len({publication.topic for publication in said}) == 1
        assert said[2].time_s - said[0].time_s == pytest.approx(120)


@pytest.mark.parametrize("preset", ["random", "pervasive"])
@pytest.mark.parametrize("scheme", ["standard", "logging", "prefetching", "home-broker", "proactive"])
def test_express_delivers_and_counts_the_same(preset: str, scheme: str) -> None:
    """The same run hop by hop, with everything kept until it is acknowledged: same deliveries, same link traversals."""
    overrides = {"clients": "12", "duration_s": "2400.0", "records.level": "all"}
    scenario = load_scenario(preset, overrides=overrides, scheme=scheme)

    def outcome(express: bool) -> tuple[list[object], Counter[str]]:
        simulation = Simulation(scenario, seed=3)
        assert simulation.network.express
        if not express:
            simulation.network.express = False
            for host in simulation.network.hosts.values():
                host.broker.contexts.settles_at_once = False
        result = simulation.run()
        assert result.violations == []
        delivered = sorted(r[:8] for r in result.records if r.kind == "delivered")
        hops = Counter[str]()
        for record in result.records:
            if record.kind == "traffic":
                hops[record.detail or ""] += record.hops or 0
        return delivered, hops  # type: ignore[return-value]

    assert outcome(express=True) == outcome(express=False)
