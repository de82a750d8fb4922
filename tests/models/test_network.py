"""Algorithm 1, and a whole network at once."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from roamq.core.events import BrokerId
from roamq.models.network import OVERLAYS, PublishingPeer, PubSubNetwork, SubscribingPeer, compose_path
from roamq.models.queueing import SaturationError
from roamq.overlay.topology import Topology
from roamq.sim import queueing as sim
from tests.models.replications import estimate, replicate


def publisher(name: str = "p", broker: str = "B1", **topics: float) -> PublishingPeer:
    return PublishingPeer(
        name=name, broker=broker, rates=topics or {"t": 1.0}, demand_s=0.0625, t_on_s=109, t_off_s=121.5
    )


def subscriber(name: str = "s", broker: str = "B3", *topics: str) -> SubscribingPeer:
    return SubscribingPeer(
        name=name,
        broker=broker,
        topics=topics or ("t",),
        demand_s=0.0625,
        processing_s=0.0625,
        t_on_s=146.3,
        t_off_s=96,
    )


LINE = {"B1": ["B2"], "B2": ["B1", "B3"], "B3": ["B2", "B4"], "B4": ["B3"]}


def test_algorithm_1_names_the_centres_of_figure_6() -> None:
    path = compose_path(
        publisher(), ["B1", "B2", "B3"], subscriber(), rate=1, demand_in_s=0.0625, demand_out_s=0.0625
    )

    assert [centre.name for centre in path.centres] == [
        "publisher p",
        "B1 in",
        "B1 out to B2",
        "B2 in",
        "B2 out to B3",
        "B3 in",
        "B3 to s",
        "subscriber s",
    ]
    assert [centre.is_on_off for centre in path.centres] == [True, *[False] * 5, True, False]
    assert path.response_s() == pytest.approx(116.893, abs=1e-3)
    assert path.response_distribution().mean() == pytest.approx(path.response_s())


def test_saturation_names_the_centre() -> None:
    path = compose_path(
        publisher(),
        ["B1"],
        subscriber(),
        rate=1,
        demand_in_s=0.0625,
        demand_out_s=0.0625,
        other_rates={"B1 in": 20.0},
    )

    assert [centre.name for centre in path.saturated] == ["B1 in"]
    with pytest.raises(SaturationError, match="B1 in is saturated"):
        path.response_s()
    with pytest.raises(SaturationError, match="B1 in is saturated"):
        path.response_distribution()


def test_rates_of_a_network_by_hand() -> None:
    """Topic t goes from B1 to B3 and B4; u stops at B1; an event crosses a link once, however many want it."""
    network = PubSubNetwork(
        links=LINE,
        publishers=[publisher("p", "B1", t=1.0, u=0.5), publisher("q", "B4", t=0.25)],
        subscribers=[subscriber("s", "B3"), subscriber("r", "B4"), subscriber("x", "B4", "t", "v")],
        demand_in_s=0.01,
        demand_out_s=0.01,
    )

    assert network.rates == pytest.approx(
        {
            "publisher p": 1.5,
            "publisher q": 0.25,
            "B1 in": 1.5,
            "B1 out to B2": 1.0,
            "B2 in": 1.0,
            "B2 out to B3": 1.0,
            "B3 in": 1.25,
            "B3 out to B4": 1.0,
            "B4 in": 1.25,
            "B4 out to B3": 0.25,
            "B3 to s": 1.25,
            "B4 to r": 1.25,
            "B4 to x": 1.25,
            "subscriber s": 1.25,
            "subscriber r": 1.25,
            "subscriber x": 1.25,
        }
    )


def test_every_pair_that_shares_a_topic_has_a_response_or_a_culprit() -> None:
    network = PubSubNetwork(
        links=LINE,
        publishers=[publisher("p", "B1", t=1.0), publisher("q", "B4", t=0.25, w=9.0)],
        subscribers=[subscriber("s", "B3"), subscriber("r", "B4", "w"), subscriber("y", "B1", "nothing")],
        demand_in_s=0.01,
        demand_out_s=0.01,
    )
    pairs = {(pair.publisher, pair.subscriber): pair for pair in network.pairs()}

    assert set(pairs) == {("p", "s"), ("q", "s"), ("q", "r")}
    assert pairs["p", "s"].response_s == pytest.approx(
        network.path(network.publishers[0], network.subscribers[0]).response_s()
    )
    assert pairs["q", "s"].response_s is None
    assert pairs["q", "s"].saturated_by == ("publisher q",)
    assert set(pairs["q", "r"].saturated_by) == {"publisher q"}


@pytest.mark.slow
def test_a_path_under_cross_traffic_matches_the_simulation() -> None:
    """M/M/1 centres in a row are independent (Burke), so the closed form is exact here."""
    rates = {"B1 in": 3.0, "B1 out to B2": 5.0, "B2 in": 2.0}
    always_on = PublishingPeer(name="p", broker="B1", rates={"t": 2.0}, demand_s=0.0625)
    at_home = SubscribingPeer(name="s", broker="B2", topics=["t"], demand_s=0.05, processing_s=0.1)
    path = compose_path(
        always_on, ["B1", "B2"], at_home, rate=2, demand_in_s=0.1, demand_out_s=0.1, other_rates=rates
    )
    centres = [
        sim.SimulatedCentre(service=sim.exponential(centre.demand_s), other_rate=centre.other_rate)
        for centre in path.centres
    ]
    runs = replicate(centres, rate=2.0, until_s=5_000.0, runs=10)

    assert estimate(sim.Run.mean_s, runs).agrees_with(path.response_s(), precision=0.02)
    tail = estimate(lambda run: run.quantile_s(0.95), runs)
    assert tail.agrees_with(path.response_distribution().quantile(0.95), precision=0.02)


def test_bad_networks_are_named() -> None:
    with pytest.raises(ValueError, match="p: broker B9 is not in links"):
        PubSubNetwork(
            links=LINE, publishers=[publisher("p", "B9")], subscribers=[], demand_in_s=1, demand_out_s=1
        )
    with pytest.raises(ValueError, match="B1 names B7"):
        PubSubNetwork(links={"B1": ["B7"]}, publishers=[], subscribers=[], demand_in_s=1, demand_out_s=1)
    apart = PubSubNetwork(
        links={"B1": [], "B3": []},
        publishers=[publisher()],
        subscribers=[subscriber()],
        demand_in_s=1,
        demand_out_s=1,
    )
    with pytest.raises(ValueError, match="no way leads from B1 to B3"):
        apart.pairs()


def random_graph(seed: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Connected, with cycles, and with names in no order of the links."""
    rng = random.Random(seed)
    brokers = [f"b{i}" for i in range(rng.randint(3, 9))]
    rng.shuffle(brokers)
    links = [(broker, rng.choice(brokers[:i])) for i, broker in enumerate(brokers) if i]
    for _ in range(rng.randint(1, 6)):
        one, other = rng.sample(brokers, 2)
        if (one, other) not in links and (other, one) not in links:
            links.append((one, other))
    rng.shuffle(links)
    return brokers, links


def both_ways(brokers: list[str], links: list[tuple[str, str]]) -> dict[str, list[str]]:
    neighbors: dict[str, list[str]] = {broker: [] for broker in brokers}
    for one, other in links:
        neighbors[one].append(other)
        neighbors[other].append(one)
    return neighbors


@pytest.mark.parametrize("overlay", ["flooding", "advertisements"])
@pytest.mark.parametrize("seed", range(25))
def test_load_and_path_are_those_of_the_overlay(seed: int, overlay: str) -> None:
    """Events are walked one by one along the brokers' own trees, and counted at every link that they cross."""
    brokers, links = random_graph(seed)
    topology = Topology(brokers, links)
    rng = random.Random(seed)
    sources = {f"p{i}": rng.choice(brokers) for i in range(3)}
    homes = {f"s{i}": rng.choice(brokers) for i in range(3)}
    network = PubSubNetwork(
        links=both_ways(brokers, links),
        publishers=[publisher(name, broker, t=1.0) for name, broker in sources.items()],
        subscribers=[subscriber(name, broker) for name, broker in homes.items()],
        demand_in_s=0.01,
        demand_out_s=0.01,
        overlay=overlay,
    )
    crossed: Counter[str] = Counter()
    for source in sources.values():
        crossed[f"{source} in"] += 1
        waiting = [source]
        while waiting:
            here = waiting.pop()
            for child in topology.children(BrokerId(source), BrokerId(here)):
                beyond = {child}
                for _ in brokers:
                    beyond |= {c for b in beyond for c in topology.children(BrokerId(source), BrokerId(b))}
                if overlay == "flooding" or beyond & set(homes.values()):
                    crossed[f"{here} out to {child}"] += 1
                    crossed[f"{child} in"] += 1
                    waiting.append(child)

    at_brokers = {name: rate for name, rate in network.rates.items() if " in" in name or " out to " in name}
    assert at_brokers == pytest.approx(dict(crossed))
    for source in brokers:
        for home in brokers:
            expected = [home]
            while expected[-1] != source:
                expected.append(topology.tree(BrokerId(source))[BrokerId(expected[-1])])
            assert network.route(source, home) == expected[::-1]
    for centre in (
        centre
        for p in network.publishers
        for s in network.subscribers
        for centre in network.path(p, s).centres
    ):
        assert centre.rate + centre.other_rate == pytest.approx(network.rates[centre.name])


def test_a_saturated_broker_on_a_cycle_is_named() -> None:
    """Square a-b-c-d: load and path once took different ways round, and a broker at 1.2 went unseen."""
    links = [("a", "b"), ("c", "d"), ("b", "c"), ("d", "a")]
    network = PubSubNetwork(
        links=both_ways(["a", "b", "c", "d"], links),
        publishers=[PublishingPeer(name="p", broker="a", rates={"t": 12.0}, demand_s=0.01)],
        subscribers=[SubscribingPeer(name="s", broker="c", topics=["t"], demand_s=0.01, processing_s=0.01)],
        demand_in_s=0.1,
        demand_out_s=0.01,
    )

    assert network.route("a", "c") == ["a", "b", "c"]
    assert network.pairs()[0].response_s is None
    assert network.pairs()[0].saturated_by == ("a in", "b in", "c in")


def test_a_hierarchy_sends_every_event_to_the_root() -> None:
    """By hand: r is the root of r-x, r-y, x-z; nobody but a client at z wants t, which is published at z and y."""
    links = both_ways(["r", "x", "y", "z"], [("r", "x"), ("r", "y"), ("x", "z")])
    network = PubSubNetwork(
        links=links,
        publishers=[publisher("p", "z", t=1.0), publisher("q", "y", t=0.5)],
        subscribers=[subscriber("s", "z")],
        demand_in_s=0.01,
        demand_out_s=0.01,
        overlay="hierarchy",
    )

    assert {name: rate for name, rate in network.rates.items() if " in" in name} == pytest.approx(
        {"z in": 1.5, "x in": 1.5, "r in": 1.5, "y in": 0.5}
    )
    assert network.rates["z out to x"] == 1.0


def test_names_are_unique_and_overlays_known() -> None:
    def network(**changes: object) -> PubSubNetwork:
        fields = {"links": LINE, "publishers": [], "subscribers": [], "demand_in_s": 1, "demand_out_s": 1}
        return PubSubNetwork(**{**fields, **changes})  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="publishers: p is named twice"):
        network(publishers=[publisher("p"), publisher("p", "B2")])
    with pytest.raises(ValueError, match="subscribers: s is named twice"):
        network(subscribers=[subscriber("s"), subscriber("s", "B2")])
    with pytest.raises(ValueError, match=f"known are {', '.join(OVERLAYS)}"):
        network(overlay="gossip")
    with pytest.raises(ValueError, match="a hierarchy needs links that form a tree"):
        network(overlay="hierarchy", links={"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]})
    with pytest.raises(ValueError, match="a hierarchy needs links that form a tree"):
        # As many links as a tree of four has, but a cycle, and one broker that no link leads to.
        network(overlay="hierarchy", links={"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"], "d": []})


def test_a_broker_may_be_slower_than_the_others() -> None:
    """M/M/1 at 0.5 events/s each, by hand: one broker takes half a second per event."""
    network = PubSubNetwork(
        links={"a": ["b"], "b": ["a", "c"], "c": ["b"]},
        publishers=[PublishingPeer(name="p", broker="a", rates={"t": 0.5}, demand_s=0.1)],
        subscribers=[
            SubscribingPeer(name="s", broker="c", topics=["t"], demand_s=0.1, processing_s=0.1),
        ],
        demand_in_s=0.01,
        demand_out_s=0.02,
        demands_s={"b": (0.5, 0.25)},
    )
    (pair,) = network.pairs()

    demands = [0.1, 0.01, 0.02, 0.5, 0.25, 0.01, 0.1, 0.1]
    assert pair.response_s == pytest.approx(sum(d / (1 - 0.5 * d) for d in demands))
    with pytest.raises(ValueError, match="brokers: z is not in links"):
        replace(network, demands_s={"z": (1.0, 1.0)})
