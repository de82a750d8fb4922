"""The neighbor graph ([PRO] section 4.2, Algorithm 2)."""

from pathlib import Path

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.schemes.parts.neighbors import NeighborGraph, rows_of
from roamq.schemes.proactive import ProActive
from roamq.sim.scenario import Simulation, load_scenario

ME, ONE, TWO, THREE = (BrokerId(name) for name in ("b1", "b2", "b3", "b4"))


def test_an_edge_is_learned_by_the_first_crossing_and_refreshed_by_the_next() -> None:
    graph = NeighborGraph(ME)

    assert graph.learned(ONE, now=1.0)
    assert not graph.learned(ONE, now=2.0)

    assert graph.neighbors == (ONE,)
    assert (graph.edges[ONE].last_seen, graph.edges[ONE].crossings) == (2.0, 2)


def test_a_client_that_comes_back_crosses_no_edge() -> None:
    graph = NeighborGraph(ME)

    assert not graph.learned(ME, now=1.0)
    assert graph.neighbors == ()


def test_the_least_recently_used_edge_leaves_first() -> None:
    """ "We use a timestamp-based Least Recently Used (LRU) method"."""
    graph = NeighborGraph(ME, limit=2)
    graph.learned(ONE, now=1.0)
    graph.learned(TWO, now=2.0)
    graph.learned(ONE, now=3.0)

    assert graph.learned(THREE, now=4.0)

    assert graph.neighbors == (ONE, THREE)


def test_an_edge_that_nobody_crosses_grows_old() -> None:
    graph = NeighborGraph(ME, lifetime_s=10.0)
    graph.learned(ONE, now=0.0)
    graph.learned(TWO, now=5.0)
    assert graph.next_expiry() == 10.0

    assert graph.expire(now=10.0)

    assert graph.neighbors == (TWO,)
    assert graph.next_expiry() == 15.0


def test_an_outlier_leaves_sooner_than_an_edge_in_use() -> None:
    graph = NeighborGraph(ME, lifetime_s=100.0, outlier_crossings=2, outlier_s=10.0)
    graph.learned(ONE, now=0.0)
    graph.learned(TWO, now=0.0)
    graph.learned(TWO, now=1.0)

    graph.expire(now=20.0)

    assert graph.neighbors == (TWO,)


def test_a_table_warms_the_graph_up() -> None:
    """The table is directed and knows other brokers too; the graph is undirected and one broker's."""
    rows = rows_of(
        [["b1", "b2", 5, 100.0], ["b2", "b1", 3, 400.0], ["b3", "b1", 1, 200.0], ["b2", "b4", 9, 1.0]]
    )
    graph = NeighborGraph(ME, limit=1)

    graph.warm_start(rows, now=0.0)

    assert graph.neighbors == (ONE,), "b2 was seen last, and the limit is one"
    assert graph.edges[ONE].crossings == 8
    assert graph.neighbors_of(ONE) == {ME, THREE}


def test_a_row_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"warm_start\[1\].*is not a row"):
        rows_of([["b1", "b2", 1, 0], ["b1", "b2"]])


def test_the_graph_follows_when_the_movement_changes(tmp_path: Path) -> None:
    """Clients walk around the ring of six brokers; then they go between three of them: edges before and after."""
    ring = ["b1", "b2", "b3", "b4", "b5", "b6"]
    rows = ["client,time_s,site,connected"]
    for client in range(6):
        for turn in range(50):
            way = ring if turn < 25 else ["b1", "b3", "b5"]
            time_s = 10.0 * turn + client
            rows.append(f"c{client},{time_s},{way[(turn + client) % len(way)]},true")
            rows.append(f"c{client},{time_s + 9},,false")
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(rows))
    overrides = {
        "clients": "6",
        "duration_s": "500",
        "mobility": f'{{ model = "trace", path = "{trace}" }}',
        "workload.rate": "1",
        "scheme.neighbor_lifetime_s": "60",
    }
    scenario = load_scenario("testbed", scheme="proactive", overrides=overrides)
    simulation = Simulation(scenario, seed=1)
    for client_ in simulation.clients:
        client_.start()

    simulation.engine.run(until=245.0)
    before = edges_of(simulation)
    simulation.engine.run(until=495.0)
    after = edges_of(simulation)

    assert before == {("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5"), ("b5", "b6"), ("b1", "b6")}
    assert after == {("b1", "b3"), ("b3", "b5"), ("b1", "b5")}


def edges_of(simulation: Simulation) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for broker, host in simulation.network.hosts.items():
        scheme = host.broker.scheme
        assert isinstance(scheme, ProActive)
        found |= {(min(broker, other), max(broker, other)) for other in scheme.neighborhood.neighbors}
    return found
