"""The broker graph."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.overlay.topology import Topology, hierarchy


@st.composite
def connected_graphs(draw: st.DrawFn) -> Topology:
    size = draw(st.integers(2, 7))
    names = [f"b{i}" for i in range(size)]
    links = {(names[draw(st.integers(0, i - 1))], names[i]) for i in range(1, size)}
    extra = draw(st.sets(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=6))
    links |= {(a, b) for a, b in extra if a != b}
    return Topology(names, sorted(links))


def test_height_and_degree_4_give_the_paper_s_85_brokers_with_64_leaves() -> None:
    """[DIS] Table 2."""
    topology = Topology(*hierarchy(4, 4))

    assert len(topology.brokers) == 85
    assert sum(len(topology.neighbours[b]) == 1 for b in topology.brokers) == 64
    assert topology.is_tree


@given(connected_graphs())
def test_a_path_is_made_of_links_and_next_hops_agree_with_it(topology: Topology) -> None:
    for a in topology.brokers:
        for b in topology.brokers:
            path = topology.path(a, b)
            assert path[0] == a
            assert path[-1] == b
            assert all(y in topology.neighbours[x] for x, y in pairwise(path))
            assert len(set(path)) == len(path)
            assert topology.distance(a, b) == topology.distance(b, a)


@given(connected_graphs())
def test_the_tree_of_an_origin_reaches_every_other_broker_once(topology: Topology) -> None:
    for root in topology.brokers:
        reached = [child for broker in topology.brokers for child in topology.children(root, broker)]
        assert sorted(reached) == sorted(set(topology.brokers) - {root})


@pytest.mark.parametrize(
    ("brokers", "links", "message"),
    [
        (["a", "b"], [], "leaves 'b' unconnected"),
        (["a", "a"], [("a", "a")], "twice"),
        (["a"], [("a", "a")], "with itself"),
        (["a"], [("a", "x")], "'x', which is not in network.brokers"),
    ],
)
def test_a_wrong_graph_is_refused_with_the_field_and_the_remedy(
    brokers: list[str], links: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Topology(brokers, links)


def test_equally_short_paths_take_the_lexically_first_neighbour() -> None:
    square = Topology("abcd", [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d")])

    assert square.path(BrokerId("a"), BrokerId("d")) == ["a", "b", "d"]
