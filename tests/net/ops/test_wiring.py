"""Who is linked with whom, and which links others carry, by what the configuration says."""

import itertools

import pytest

from roamq.config import to_toml
from roamq.core.errors import ConfigError
from roamq.net.ops.configuration import NetworkConfig, parse_network
from roamq.net.ops.local import local_network
from roamq.net.ops.wiring import DIRECT_BROKERS_MAX, Pair, linked_when_joining

RING = (("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b1"))
LINE = RING[:3]


def network(links: tuple[Pair, ...], more: str = "", after: str = "") -> NetworkConfig:
    count = len({name for link in links for name in link})
    head = f"[network]\nlinks = {to_toml([list(link) for link in links])}\n{more}\n"
    return parse_network(local_network(count).replace("[network]\n", head, 1) + after)


def test_in_a_ring_each_is_linked_with_each_and_others_carry_what_has_no_connection() -> None:
    ring = network(RING)

    assert ring.paths == "direct"
    assert {frozenset(link) for link in ring.links} == {
        frozenset(pair) for pair in itertools.combinations(("b1", "b2", "b3", "b4"), 2)
    }
    options = ring.server_options("b1")
    assert sorted(options.links.peers) == ["b2", "b4"]
    assert options.links.carried == ("b3",)
    assert options.settings.links == ring.links


@pytest.mark.parametrize(
    ("links", "more"),
    [
        (LINE, ""),
        (RING, 'paths = "links"'),
        (RING, "detours = false"),
        (tuple((f"b{n}", f"b{n % 18 + 1}") for n in range(1, 19)), ""),
    ],
    ids=["nothing to go around", "as the file says", "no detours", "too far apart"],
)
def test_otherwise_paths_lead_along_the_links(links: tuple[Pair, ...], more: str) -> None:
    along = network(links, more)

    assert along.paths == "links"
    assert along.links == links
    assert along.server_options("b1").links.carried == ()


@pytest.mark.parametrize(
    ("links", "more", "message"),
    [
        (
            tuple((f"b{n}", f"b{n + 1}") for n in range(1, 7)),
            'paths = "direct"',
            r"network\.paths: 5 brokers lie between 'b1' and 'b7', and at most 4 carry a link; say `paths",
        ),
        (
            tuple(("b1", f"b{n}") for n in range(2, 20)),
            'paths = "direct"',
            r"network\.paths: 153 links would have to be carried",
        ),
        (RING, 'paths = "direct"\ndetours = false', r"network\.detours: .* link of 'b1' with 'b3'"),
    ],
)
def test_direct_paths_that_cannot_be_are_refused_by_name(
    links: tuple[Pair, ...], more: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        network(links, more)


def test_a_broker_that_joins_with_two_connections_is_linked_with_all() -> None:
    core = ("b1", "b2", "b3")
    mesh = tuple(itertools.combinations(core, 2))

    assert linked_when_joining("direct", core, mesh, ("b1", "b3")) == core
    assert linked_when_joining("direct", core, mesh, ("b2",)) == ("b2",), "nothing leads around b2"
    assert linked_when_joining("links", core, mesh, ("b1", "b3")) == ("b1", "b3")
    many = tuple(f"b{n}" for n in range(DIRECT_BROKERS_MAX + 1))
    pairs = tuple(itertools.combinations(many, 2))
    assert linked_when_joining("direct", many, pairs, ("b1", "b3")) == ("b1", "b3")

    table = '\n[brokers.e]\nat = ["b1", "b2", "b3", "b4"]\ncalls = ["b1", "b3"]\n'
    options = network(RING, after=table).server_options("e")
    assert sorted(options.links.peers) == ["b1", "b3"]
    assert options.links.carried == ("b2", "b4")
    assert options.settings.at == ("b1", "b2", "b3", "b4")


def test_a_broker_is_not_linked_with_one_that_is_too_far_away_to_be_carried_to() -> None:
    """In a ring of ten nobody is further than four from one of two neighbours; in a row of ten many are."""
    core = tuple(f"b{n}" for n in range(1, 11))
    ring = (*itertools.pairwise(core), ("b1", "b10"))

    assert linked_when_joining("direct", core, ring, ("b1", "b6")) == core
    assert linked_when_joining("direct", core, ring, ("b1", "b2")) == core
    assert linked_when_joining("direct", core, ring[:-1], ("b1", "b2")) == ("b1", "b2")
    without = tuple(name for name in core if name not in ("b4", "b8"))  # these have left
    assert linked_when_joining("direct", without, ring, ("b1", "b6")) == ("b1", "b6")


def test_a_broker_that_joined_calls_brokers_that_it_is_linked_with() -> None:
    with pytest.raises(ConfigError, match=r"brokers\.e\.calls: 'b2' is not among `at`"):
        network(RING, after='\n[brokers.e]\nat = ["b1"]\ncalls = ["b2"]\n')
