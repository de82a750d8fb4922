"""Cells: the hexagons into which a mobile network is divided ([PRE] section 2.1).

The grid is H3, which covers the earth in hexagons of sixteen sizes and names each by a short text. A cell means the
same place to a phone, a broker and a table of traces, and its text tells its size too. Small distances are measured on
a plane that touches the earth at the centre of the region.
"""

import math
from typing import NamedTuple, NewType

import h3

from roamq.core.errors import ConfigError

Cell = NewType("Cell", str)
"""An H3 index as text, such as `891f1d48177ffff`."""

EARTH_RADIUS_M = 6_371_007.2
_FINEST = 15


class Place(NamedTuple):
    """A point on the earth, in degrees."""

    latitude: float
    longitude: float


def cell_at(place: Place, resolution: int) -> Cell:
    """Returns the cell of a place; cells of `resolution` 9 are about 350 m across, and each step is a factor 2.6."""
    if not 0 <= resolution <= _FINEST:
        raise ConfigError(f"cells have a resolution from 0 to {_FINEST}, not {resolution}")
    return Cell(h3.latlng_to_cell(place.latitude, place.longitude, resolution))


def is_cell(text: str) -> bool:
    return bool(h3.is_valid_cell(text))


def center(cell: Cell) -> Place:
    return Place(*h3.cell_to_latlng(cell))


def corners(cell: Cell) -> list[Place]:
    return [Place(*corner) for corner in h3.cell_to_boundary(cell)]


def disk(cell: Cell, rings: int) -> list[Cell]:
    """Returns the cells at most `rings` steps away, the cell itself included, in order of their names."""
    return sorted(Cell(other) for other in h3.grid_disk(cell, rings))


def adjacent(cell: Cell) -> list[Cell]:
    """The cells that share an edge with this one."""
    return [other for other in disk(cell, 1) if other != cell]


def pitch_m(resolution: int) -> float:
    """The mean distance between the centers of adjacent cells."""
    return float(h3.average_hexagon_edge_length(resolution, unit="m")) * math.sqrt(3)


def resolution_of(cell: Cell) -> int:
    return int(h3.get_resolution(cell))


def distance_m(a: Place, b: Place) -> float:
    return float(h3.great_circle_distance(a, b, unit="m"))


def bearing_deg(a: Place, b: Place) -> float:
    """The direction from `a` to `b`, clockwise from north, over distances at which the earth looks flat."""
    east, north = Plane(a).point(b)
    return math.degrees(math.atan2(east, north)) % 360.0


def turn_deg(a: float, b: float) -> float:
    """How far two directions differ, from 0 to 180."""
    return abs((a - b + 180.0) % 360.0 - 180.0)


class Plane:
    """A plane that touches the earth at `origin`: x is metres to the east, y metres to the north."""

    def __init__(self, origin: Place) -> None:
        self.origin = origin
        self._north_m = math.radians(1.0) * EARTH_RADIUS_M
        self._east_m = self._north_m * math.cos(math.radians(origin.latitude))

    def point(self, place: Place) -> tuple[float, float]:
        east = (place.longitude - self.origin.longitude) * self._east_m
        return east, (place.latitude - self.origin.latitude) * self._north_m

    def place(self, x: float, y: float) -> Place:
        return Place(
            self.origin.latitude + y / self._north_m,
            self.origin.longitude + x / self._east_m,
        )
