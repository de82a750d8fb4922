"""The regional route map, and the city it is made of."""

import random
from itertools import pairwise

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Place, Plane, adjacent, cell_at, center, distance_m
from roamq.geo.city import block_streets, site_grid
from roamq.geo.region import Region
from roamq.geo.routes import RouteMap

SITES = site_grid(3, 3, 2600.0)
AREAS = LocationAreas.voronoi(SITES, 9)
CITY = block_streets(SITES.values(), 9, random.Random(1).random, block_m=400, margin_m=800, closed=0.3)
B5 = BrokerId("b5")


def test_a_street_leads_through_adjacent_cells_in_order() -> None:
    for a, b in CITY.streets:
        passages = CITY.passages(a, b)
        assert passages[0].at_m == 0.0
        assert passages[0].cell == cell_at(CITY.junctions[a], 9)
        assert passages[-1].cell == cell_at(CITY.junctions[b], 9)
        for one, other in pairwise(passages):
            assert one.at_m < other.at_m <= CITY.length_m(a, b)
            assert other.cell in adjacent(one.cell)


def test_the_way_back_passes_the_same_cells() -> None:
    for a, b in CITY.streets[:40]:
        there, back = CITY.passages(a, b), CITY.passages(b, a)
        assert [p.cell for p in there] == [p.cell for p in back][::-1]


def test_the_shortest_way_follows_streets_and_no_detour_is_shorter() -> None:
    def length(way: list[int]) -> float:
        return sum(CITY.length_m(a, b) for a, b in pairwise(way))

    rng = random.Random(2)
    for _ in range(50):
        a, b, via = (rng.randrange(len(CITY.junctions)) for _ in range(3))
        way = CITY.way(a, b)
        assert (way[0], way[-1]) == (a, b)
        assert all(y in CITY.neighbors[x] for x, y in pairwise(way))
        assert length(way) <= length(CITY.way(a, via)) + length(CITY.way(via, b)) + 1e-6


def test_closed_streets_cut_nobody_off() -> None:
    def city(closed: float) -> RouteMap:
        draw = random.Random(1).random
        return block_streets(SITES.values(), 9, draw, block_m=400, margin_m=800, closed=closed)

    every, some, most = city(0.0), city(0.3), city(1.0)
    assert len(most.streets) == len(most.junctions) - 1 < len(some.streets) < len(every.streets)


def test_the_border_cells_of_the_route_map_are_those_with_a_way_out() -> None:
    by_edges, by_streets = AREAS.border_cell_table(B5), CITY.border_cell_table(AREAS, B5)
    assert set(by_streets) < set(by_edges)
    for cell, neighbors in by_streets.items():
        assert set(neighbors) <= set(by_edges[cell])
        assert any(AREAS.broker_of.get(c) in neighbors for c in CITY.next_cells[cell])
    assert Region(AREAS, CITY).border_cells(B5) == by_streets
    assert Region(AREAS).border_cells(B5) == by_edges


def test_a_map_in_two_parts_is_refused() -> None:
    corners = [Place(48.0, 16.0), Place(48.0, 16.01), Place(48.01, 16.0), Place(48.01, 16.01)]
    with pytest.raises(ConfigError, match="unconnected"):
        RouteMap(corners, [(0, 1), (2, 3)], 9)
    with pytest.raises(ConfigError, match="street 0-9"):
        RouteMap(corners, [(0, 9)], 9)


def test_a_client_sees_the_areas_before_it_and_not_those_behind_it() -> None:
    region = Region(AREAS)
    east = cell_at(SITES[BrokerId("b6")], 9)
    border = next(c for c in sorted(region.border_cells(B5)) if region.border_cells(B5)[c] == ("b6",))
    toward = region.ahead(border, 90.0, 500.0, 60.0)
    assert set(toward) == {"b6"}
    assert distance_m(center(border), center(east)) > toward[BrokerId("b6")] > 0
    assert region.ahead(border, 270.0, 500.0, 60.0) == {}
    assert set(region.ahead(border, 270.0, 500.0, 180.0)) >= {"b6"}


def test_a_fast_client_sees_further() -> None:
    region = Region(AREAS)
    middle = cell_at(SITES[B5], 9)
    assert region.ahead(middle, 90.0, 300.0, 180.0) == {}
    assert set(region.ahead(middle, 90.0, 2000.0, 180.0)) == set(AREAS.neighbors(B5))
    assert set(region.ahead(middle, 90.0, 2000.0, 30.0)) < set(AREAS.neighbors(B5))


def test_the_plane_of_the_city_is_where_it_should_be() -> None:
    x, y = Plane(SITES[B5]).point(SITES[BrokerId("b6")])
    assert (x, y) == pytest.approx((2600.0, 0.0), abs=1.0)
