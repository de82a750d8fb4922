"""Location areas: which broker serves which cells, and where one area borders on another ([PRE] section 2).

Areas are given cell by cell or as polygons, or made from the brokers' positions: a cell belongs to the nearest
broker, which is the Voronoi diagram of the positions drawn in cells.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import h3
import numpy as np
from scipy.spatial import cKDTree

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.geo.cells import Cell, Place, Plane, adjacent, center, disk, is_cell, pitch_m

BorderCellTable = Mapping[Cell, tuple[BrokerId, ...]]
"""BCT: border cell -> the event servers of the areas beyond the cell, which form its NES."""


class LocationAreas:
    """A partition of cells among brokers; a cell outside of the partition belongs to no broker."""

    def __init__(self, broker_of: Mapping[Cell, BrokerId]) -> None:
        self.broker_of = broker_of
        self.brokers: tuple[BrokerId, ...] = tuple(sorted(set(broker_of.values())))
        self._neighbors: dict[BrokerId, tuple[BrokerId, ...]] = {}

    # --- making areas -------------------------------------------------------------------------------------

    @classmethod
    def given(cls, cells: Mapping[BrokerId, Iterable[str]]) -> "LocationAreas":
        """Makes areas from lists of cells."""
        broker_of: dict[Cell, BrokerId] = {}
        for broker, listed in cells.items():
            for cell in listed:
                if not is_cell(cell):
                    raise ConfigError(f"area of {broker}: {cell!r} is not the name of an H3 cell")
                other = broker_of.setdefault(Cell(cell), broker)
                if other != broker:
                    raise ConfigError(
                        f"area of {broker}: cell {cell} is in the area of {other} as well; keep it in one"
                    )
        return cls(broker_of)

    @classmethod
    def from_geojson(cls, collection: Mapping[str, Any], resolution: int) -> "LocationAreas":
        """Makes areas from a GeoJSON FeatureCollection: polygons with a property `broker`."""
        cells: dict[BrokerId, list[str]] = {}
        for number, feature in enumerate(collection.get("features", ())):
            broker = (feature.get("properties") or {}).get("broker")
            kind = (feature.get("geometry") or {}).get("type")
            if not isinstance(broker, str) or kind not in ("Polygon", "MultiPolygon"):
                raise ConfigError(
                    f"features[{number}]: an area is a Polygon or MultiPolygon with a property 'broker'"
                )
            try:
                inside = h3.geo_to_cells(feature["geometry"], resolution)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise ConfigError(f"features[{number}]: its polygon cannot be read: {error}") from error
            if not inside:
                raise ConfigError(
                    f"features[{number}]: no cell of resolution {resolution} lies in it; try a finer one"
                )
            cells.setdefault(BrokerId(broker), []).extend(inside)
        if not cells:
            raise ConfigError("no areas: give a GeoJSON FeatureCollection with at least one feature")
        return cls.given(cells)

    @classmethod
    def voronoi(cls, positions: Mapping[BrokerId, Place], resolution: int) -> "LocationAreas":
        """Gives every cell to the nearest broker, up to a margin beyond the outermost brokers.

        The margin is half of the distance between a broker and the next, so that areas at the edge are about as large
        as those inside.
        """
        if not positions:
            raise ConfigError("areas are made from the positions of brokers: give at least one")
        brokers = sorted(positions)
        plane = Plane(_middle(positions.values()))
        points = [plane.point(positions[broker]) for broker in brokers]
        sites = cKDTree(points)
        margin = _half_spacing(sites, points, resolution)
        (left, right), (bottom, top) = (_bounds(values, margin) for values in zip(*points, strict=True))
        edge = [plane.place(x, y) for x, y in ((left, bottom), (right, bottom), (right, top), (left, top))]
        cells = sorted(Cell(c) for c in h3.h3shape_to_cells(h3.LatLngPoly(edge), resolution))
        _, nearest = sites.query(np.array([plane.point(center(cell)) for cell in cells]))
        return cls({cell: brokers[site] for cell, site in zip(cells, np.atleast_1d(nearest), strict=True)})

    # --- asking about areas -------------------------------------------------------------------------------

    def cells(self, broker: BrokerId) -> list[Cell]:
        return sorted(cell for cell, served_by in self.broker_of.items() if served_by == broker)

    def sizes(self) -> Counter[BrokerId]:
        """Broker -> number of cells of its area."""
        return Counter(self.broker_of.values())

    def beyond(self, cell: Cell, rings: int = 1) -> tuple[BrokerId, ...]:
        """Returns the brokers of other areas that lie within `rings` steps of a cell."""
        here = self.broker_of.get(cell)
        reached = disk(cell, rings) if rings > 1 else adjacent(cell)
        found = {self.broker_of[other] for other in reached if other in self.broker_of}
        return tuple(sorted(found - {here}))

    def neighbors(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Returns the brokers of all areas that touch the area of `broker`: the edges of [PRE] Fig. 2(b)."""
        if broker not in self._neighbors:
            found = {other for cell in self.cells(broker) for other in self.beyond(cell)}
            self._neighbors[broker] = tuple(sorted(found))
        return self._neighbors[broker]

    def border_cell_table(self, broker: BrokerId, rings: int = 1) -> BorderCellTable:
        """Returns the BCT of one event server ([PRE] section 2.3): cells at most `rings` steps from another area."""
        table = {cell: self.beyond(cell, rings) for cell in self.cells(broker)}
        return {cell: neighbors for cell, neighbors in table.items() if neighbors}


def _middle(places: Iterable[Place]) -> Place:
    listed = list(places)
    return Place(
        sum(place.latitude for place in listed) / len(listed),
        sum(place.longitude for place in listed) / len(listed),
    )


def _half_spacing(sites: cKDTree, points: list[tuple[float, float]], resolution: int) -> float:
    if len(points) == 1:
        return 4.0 * pitch_m(resolution)
    distances, _ = sites.query(np.array(points), k=2)
    return float(np.mean(np.asarray(distances)[:, 1]) / 2)


def _bounds(values: Iterable[float], margin: float) -> tuple[float, float]:
    listed = list(values)
    return min(listed) - margin, max(listed) + margin
