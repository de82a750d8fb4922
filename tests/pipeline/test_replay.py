"""From tables to a network and steps for the simulator."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from roamq.core.errors import ConfigError
from roamq.pipeline import replay, silver
from roamq.pipeline.replay import LearnedNetwork, MoveCount, Site, links_of, network_of, ring
from roamq.pipeline.rules import Rules
from tests.pipeline.frames import observations

NETWORK = LearnedNetwork(
    brokers=("A", "B"), broker_of={"A": "A", "B": "B", "near A": "A"}, links=(("A", "B"),), edges=()
)


def test_sites_go_to_the_nearest_broker_and_moves_between_brokers_add_up() -> None:
    sites = [Site("A", 0, 0, 90), Site("B", 10, 0, 80), Site("near A", 1, 0, 5), Site("near B", 9, 0, 5)]
    edges = [
        MoveCount("A", "B", 3, 1.0),
        MoveCount("near A", "near B", 2, 9.0),
        MoveCount("A", "near A", 7, 5.0),
    ]

    network = network_of(sites, edges, brokers=2)

    assert network.broker_of == {"A": "A", "B": "B", "near A": "A", "near B": "B"}
    assert network.edges == (MoveCount("A", "B", 5, 9.0),)
    assert network.links == (("A", "B"),)


def test_without_places_a_site_goes_to_its_main_neighbor_or_is_out_of_reach() -> None:
    sites = [Site(name, None, None, 1) for name in "ABCD"]
    edges = [MoveCount("C", "A", 1, 0.0), MoveCount("C", "B", 2, 0.0), MoveCount("A", "B", 1, 0.0)]

    assert network_of(sites, edges, brokers=2).broker_of == {"A": "A", "B": "B", "C": "B"}


def test_links_are_the_busiest_tree_and_reach_everybody() -> None:
    edges = [
        MoveCount("A", "B", 5, 0.0),
        MoveCount("B", "A", 5, 0.0),
        MoveCount("B", "C", 3, 0.0),
        MoveCount("A", "C", 1, 0.0),
    ]

    assert links_of("ABC", edges) == (("A", "B"), ("B", "C"), ("A", "C"))
    assert links_of("ABCD", edges)[:3] == (("A", "B"), ("B", "C"), ("A", "D"))


def kruskal(brokers: Sequence[str], edges: Sequence[MoveCount]) -> tuple[tuple[str, str], ...]:
    """The same links, found by hand: the busiest pair that joins two parts is the next link of the tree."""
    weight: dict[tuple[str, str], int] = {}
    for edge in edges:
        ends = (min(edge.source, edge.target), max(edge.source, edge.target))
        weight[ends] = weight.get(ends, 0) + edge.moves
    part = {broker: {broker} for broker in brokers}

    def joins(a: str, b: str) -> bool:
        if part[a] is part[b]:
            return False
        part[a] |= part[b]
        for broker in part[a]:
            part[broker] = part[a]
        return True

    pairs = sorted(weight, key=lambda ends: (-weight[ends], ends))
    tree = [ends for ends in pairs if joins(*ends)]
    besides = [ends for ends in pairs if ends not in tree]
    tree += [(brokers[0], broker) for broker in brokers[1:] if joins(brokers[0], broker)]
    return tuple(tree + besides[: len(brokers) // 2])


@given(
    brokers=st.permutations("ABCDEFGH").map(lambda names: names[:6]),
    counts=st.lists(st.tuples(st.sampled_from("ABCDEFGH"), st.sampled_from("ABCDEFGH"), st.integers(1, 4))),
    some=st.integers(1, 6),
)
def test_links_are_those_that_kruskal_s_algorithm_finds(
    brokers: list[str], counts: list[tuple[str, str, int]], some: int
) -> None:
    chosen = brokers[:some]
    edges = [MoveCount(a, b, moves, 0.0) for a, b, moves in counts if a != b and {a, b} <= set(chosen)]

    assert links_of(chosen, edges) == kruskal(chosen, edges)


def test_a_ring_has_no_double_link() -> None:
    assert ring(2).links == (("b1", "b2"),)
    assert ring(3).links == (("b1", "b2"), ("b2", "b3"), ("b3", "b1"))


@pytest.mark.spark
def test_steps_connect_leave_and_merge_stays_at_one_broker(spark: SparkSession, tmp_path: Path) -> None:
    """A, then a site that A serves too, then B, silence, B again: one connection per stay at a broker."""
    rows = observations(
        spark,
        *(("c", 0, "A"), ("c", 30, "near A"), ("c", 60, "B"), ("c", 80, "B")),
        *(("c", 500, "B"), ("c", 520, "B"), ("c", 540, "unreachable"), ("c", 560, "unreachable")),
    )
    sojourns = silver.sojourns(rows, Rules(at_one_instant="all", gap_s=100), dataset="d")
    path = tmp_path / "steps.csv"

    steps = replay.replay_steps(sojourns, NETWORK, clients=5, duration_s=1000, align=True)
    clients = replay.write_steps(steps, path)

    assert clients == 1
    with path.open(newline="") as file:
        assert [tuple(row) for row in csv.reader(file)] == [
            ("client", "time_s", "site", "connected"),
            ("c", "0.000", "A", "true"),
            ("c", "59.500", "A", "false"),
            ("c", "60.000", "B", "true"),
            ("c", "80.000", "B", "false"),
            ("c", "500.000", "B", "true"),
            ("c", "540.000", "B", "false"),
        ]


@pytest.mark.spark
def test_the_window_with_most_stays_is_replayed_and_the_liveliest_clients(
    spark: SparkSession, tmp_path: Path
) -> None:
    quiet = [("d", 10, "A"), ("d", 20, "A")]
    busy = [("c", 1000 + 10 * n, site) for n, site in enumerate("ABABAB")]
    sojourns = silver.sojourns(
        observations(spark, *quiet, *busy), Rules(at_one_instant="all", gap_s=100), dataset="d"
    )

    steps = replay.replay_steps(sojourns, NETWORK, clients=1, duration_s=500, align=False).collect()

    assert {row.client for row in steps} == {"c"}
    appears_s = pytest.approx(1_704_068_200 % 500)
    assert [(row.time_s, row.site, row.connected) for row in steps[:3]] == [
        (0.0, "A", True),  # it subscribed before the window, and is away when it opens
        (1.0, "A", False),
        (appears_s, "A", True),
    ]


@pytest.mark.spark
def test_nothing_to_replay_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    sojourns = silver.sojourns(observations(spark, ("c", 0, "unreachable")), Rules(), dataset="d")

    with pytest.raises(ConfigError, match="no connected client"):
        replay.write_steps(
            replay.replay_steps(sojourns, NETWORK, clients=1, duration_s=10, align=True), tmp_path / "s.csv"
        )
