"""Positions to sites: a grid, hexagonal cells, or the regions of given brokers.

The grid is plain arithmetic and stays a column expression. Hexagons (H3) and nearest brokers need code that Spark has
no expression for - an icosahedral projection, and a search tree instead of a comparison with every broker - and run
as Arrow functions on whole batches. "Nearest broker" is the Voronoi region of the brokers' places.
"""

import csv
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from roamq.core.errors import ConfigError
from roamq.pipeline.vectorised import arrow_function

METRES_PER_DEGREE: Final = 111_320.0
H3_RESOLUTIONS: Final = range(16)


Placing = Callable[[Column, Column], Column]
"""From longitude and latitude, or x and y, to the site."""


def site_of(longitude: Column, latitude: Column, sites: str) -> Column:
    """The site of a position under a rule `grid:METRES`, `h3:RESOLUTION`, `nearest:FILE` or `plane:METRES`."""
    return placing_by(sites)(longitude, latitude)


def placing_by(sites: str) -> Placing:
    """What a rule means; raises `ConfigError` where it means nothing, or names a file that cannot be read."""
    kind, _, argument = sites.partition(":")
    if kind == "plane":
        return partial(plane_site, metres=_positive(argument, sites))
    if kind == "grid":
        return partial(grid_site, metres=_positive(argument, sites))
    if kind == "h3":
        resolution = int(_positive(argument, sites, zero_is_fine=True))
        if resolution not in H3_RESOLUTIONS:
            raise ConfigError(f"rule sites: H3 has resolutions 0 to 15, got {sites!r}")
        return partial(_by_function, _hexagons(resolution))
    if kind == "nearest" and argument:
        return partial(_by_function, _nearest(*read_sites(Path(argument))))
    raise ConfigError(
        f"rule sites: expected grid:METRES, h3:RESOLUTION, nearest:FILE or plane:METRES, got {sites!r}"
    )


def _by_function(cells: Callable[[pa.Array, pa.Array], pa.Array], x: Column, y: Column) -> Column:
    return arrow_function(cells, StringType())(x, y)


def grid_site(longitude: Column, latitude: Column, metres: float) -> Column:
    """Squares of `metres`: rows by latitude, columns by longitude at the width a degree has in that row."""
    row = F.floor(latitude * (METRES_PER_DEGREE / metres))
    width = METRES_PER_DEGREE * F.cos(F.radians((row + 0.5) * (metres / METRES_PER_DEGREE)))
    column = F.floor(longitude * width / metres)
    return F.concat_ws("_", row.cast("string"), column.cast("string"))


def plane_site(x: Column, y: Column, metres: float) -> Column:
    """Squares of `metres` on a plane, for positions that are metres and not degrees."""
    return F.concat_ws("_", *(F.floor(axis / metres).cast("string") for axis in (y, x)))


def _hexagons(resolution: int) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def cells(longitude: pa.Array, latitude: pa.Array) -> pa.Array:
        import h3

        places = zip(latitude.to_pylist(), longitude.to_pylist(), strict=True)
        return pa.array([h3.latlng_to_cell(lat, lng, resolution) for lat, lng in places], pa.string())

    return cells


def _nearest(names: list[str], points: NDArray[np.float64]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def regions(longitude: pa.Array, latitude: pa.Array) -> pa.Array:
        from scipy.spatial import cKDTree

        tree = cKDTree(points)
        asked = on_sphere(np.asarray(longitude, dtype=np.float64), np.asarray(latitude, dtype=np.float64))
        _, index = tree.query(asked)
        return pa.array(names, pa.string()).take(pa.array(index))

    return regions


def on_sphere(longitude: NDArray[np.float64], latitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Degrees to points on the unit sphere, where the nearest in a straight line is the nearest on the ground."""
    lon, lat = np.radians(longitude), np.radians(latitude)
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)


def read_sites(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Broker names and places from a file of `site,longitude,latitude` with a header."""
    if not path.is_file():
        raise ConfigError(f"rule sites: there is no file {path}")
    names, longitudes, latitudes = [], [], []
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                longitudes.append(float(row["longitude"]))
                latitudes.append(float(row["latitude"]))
                names.append(row["site"])
            except (KeyError, TypeError, ValueError):
                raise ConfigError(
                    f"{path}, line {number}: expected columns site,longitude,latitude"
                ) from None
    if not names:
        raise ConfigError(f"{path}: lists no site")
    return names, on_sphere(np.array(longitudes), np.array(latitudes))


def _positive(text: str, rule: str, *, zero_is_fine: bool = False) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero_is_fine):
        raise ConfigError(f"rule sites: {rule!r} needs a number after the colon")
    return number
