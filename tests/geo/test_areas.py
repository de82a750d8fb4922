"""Location areas and their borders ([PRE] sections 2.1 and 2.3)."""

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Place, adjacent, cell_at, center, disk, distance_m
from roamq.geo.city import site_grid

SITES = site_grid(3, 3, 2600.0)
AREAS = LocationAreas.voronoi(SITES, 9)
B1, B5 = BrokerId("b1"), BrokerId("b5")


def test_each_area_consists_of_50_to_100_cells() -> None:
    """ "Each LA, consisting of many cells (about 50 to 100), is served by a mobile switching center"."""
    assert set(AREAS.sizes()) == set(SITES)
    assert all(50 <= size <= 100 for size in AREAS.sizes().values())


def test_a_cell_belongs_to_the_nearest_broker() -> None:
    for cell, broker in AREAS.broker_of.items():
        nearest = min(SITES, key=lambda b: distance_m(SITES[b], center(cell)))
        excess = distance_m(SITES[broker], center(cell)) - distance_m(SITES[nearest], center(cell))
        assert excess < 5.0  # metres: the plane is not the sphere


def test_a_border_cell_touches_another_area_and_an_interior_cell_does_not() -> None:
    table = AREAS.border_cell_table(B5)
    for cell in AREAS.cells(B5):
        beyond = {AREAS.broker_of[n] for n in adjacent(cell) if n in AREAS.broker_of} - {B5}
        assert set(table.get(cell, ())) == beyond
    assert 0 < len(table) < len(AREAS.cells(B5))


def test_borders_can_be_deeper_than_one_cell() -> None:
    shallow, deep = AREAS.border_cell_table(B5, 1), AREAS.border_cell_table(B5, 2)
    assert set(shallow) < set(deep)
    for cell in set(deep) - set(shallow):
        assert any(AREAS.broker_of.get(other) in deep[cell] for other in disk(cell, 2))


def test_neighbors_are_mutual_and_the_middle_one_has_six() -> None:
    assert len(AREAS.neighbors(B5)) == 6
    for broker in AREAS.brokers:
        for neighbor in AREAS.neighbors(broker):
            assert broker in AREAS.neighbors(neighbor)


def test_areas_can_be_given_cell_by_cell() -> None:
    here = cell_at(Place(48.2, 16.37), 9)
    left, right = adjacent(here)[:3], adjacent(here)[3:]
    areas = LocationAreas.given({B1: [here, *left], B5: right})
    assert areas.sizes() == {B1: 4, B5: 3}
    assert areas.beyond(here) == (B5,)
    with pytest.raises(ConfigError, match="in the area of b1 as well"):
        LocationAreas.given({B1: [here], B5: [here]})
    with pytest.raises(ConfigError, match="'nowhere' is not the name of an H3 cell"):
        LocationAreas.given({B1: ["nowhere"]})


def test_areas_can_be_given_as_geojson() -> None:
    def square(west: float) -> list[list[list[float]]]:
        ring = [[west, 48.0], [west + 0.03, 48.0], [west + 0.03, 48.02], [west, 48.02], [west, 48.0]]
        return [ring]

    def feature(broker: str | None, west: float, kind: str = "Polygon") -> dict[str, object]:
        return {
            "type": "Feature",
            "properties": {"broker": broker} if broker else {},
            "geometry": {"type": kind, "coordinates": square(west)},
        }

    collection = {"type": "FeatureCollection", "features": [feature("b1", 16.0), feature("b2", 16.03)]}
    areas = LocationAreas.from_geojson(collection, 9)
    assert areas.neighbors(B1) == ("b2",)
    assert all(40 <= size <= 60 for size in areas.sizes().values())
    for bad in (feature(None, 16.0), feature("b1", 16.0, "Point")):
        with pytest.raises(ConfigError, match=r"features\[0\]: an area is a Polygon"):
            LocationAreas.from_geojson({"features": [bad]}, 9)
    with pytest.raises(ConfigError, match="no areas"):
        LocationAreas.from_geojson({}, 9)


def test_without_positions_there_is_nothing_to_make_areas_from() -> None:
    with pytest.raises(ConfigError, match="give at least one"):
        LocationAreas.voronoi({}, 9)
    assert LocationAreas.voronoi({B1: Place(48.2, 16.37)}, 9).brokers == (B1,)
