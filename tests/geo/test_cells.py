"""Cells: hexagons with names, and the small plane that distances are measured on."""

import math

import pytest

from roamq.core.errors import ConfigError
from roamq.geo.cells import (
    Place,
    Plane,
    adjacent,
    bearing_deg,
    cell_at,
    center,
    corners,
    disk,
    distance_m,
    is_cell,
    pitch_m,
    resolution_of,
    turn_deg,
)

VIENNA = Place(48.2, 16.37)
HERE = cell_at(VIENNA, 9)


def test_a_cell_is_named_the_same_wherever_in_it_one_stands() -> None:
    assert is_cell(HERE)
    assert not is_cell("stephansplatz")
    assert cell_at(center(HERE), 9) == HERE
    assert resolution_of(HERE) == 9


def test_a_hexagon_has_six_neighbors_one_pitch_away() -> None:
    assert len(corners(HERE)) == 6
    neighbors = adjacent(HERE)
    assert len(neighbors) == 6
    assert HERE not in neighbors
    for neighbor in neighbors:
        assert distance_m(center(HERE), center(neighbor)) == pytest.approx(pitch_m(9), rel=0.2)


def test_a_disk_of_n_rings_has_1_plus_3n_times_n_plus_1_cells() -> None:
    for rings in range(5):
        assert len(disk(HERE, rings)) == 1 + 3 * rings * (rings + 1)


def test_the_plane_agrees_with_the_sphere_over_a_city() -> None:
    plane = Plane(VIENNA)
    for x, y in ((3000.0, 0.0), (0.0, -3000.0), (-2000.0, 2500.0)):
        place = plane.place(x, y)
        assert plane.point(place) == pytest.approx((x, y), abs=1e-6)
        assert distance_m(VIENNA, place) == pytest.approx(math.hypot(x, y), rel=2e-3)


@pytest.mark.parametrize(("east", "north", "bearing"), [(0, 1, 0), (1, 0, 90), (0, -1, 180), (-1, 0, 270)])
def test_bearings_are_clockwise_from_north(east: float, north: float, bearing: float) -> None:
    there = Plane(VIENNA).place(east * 1000, north * 1000)
    assert bearing_deg(VIENNA, there) == pytest.approx(bearing, abs=0.01)


def test_a_turn_is_the_shorter_way_round() -> None:
    assert turn_deg(350, 10) == pytest.approx(20)
    assert turn_deg(10, 350) == pytest.approx(20)
    assert turn_deg(0, 180) == pytest.approx(180)


def test_a_size_that_does_not_exist_is_an_operators_error() -> None:
    with pytest.raises(ConfigError, match="from 0 to 15, not 16"):
        cell_at(VIENNA, 16)
