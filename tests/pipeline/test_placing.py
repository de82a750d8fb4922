"""Positions to sites: grid, hexagons, nearest broker."""

import math
from pathlib import Path

import h3
import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.pipeline.placing import site_of

PLACES = [(-122.39394, 37.75157), (-122.4, 37.8), (-122.27, 37.87), (13.4, 52.5), (179.9, -45.0)]


@pytest.mark.spark
def test_grid_hexagons_and_nearest_brokers_agree_with_their_definitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    brokers = {
        "sf": (-122.41, 37.77),
        "oakland": (-122.27, 37.80),
        "berlin": (13.4, 52.4),
        "fiji": (-179.9, -44.0),
    }
    file = tmp_path / "sites.csv"
    lines = (f"{name},{longitude},{latitude}" for name, (longitude, latitude) in brokers.items())
    file.write_text("site,longitude,latitude\n" + "\n".join(lines) + "\n")
    places = spark.createDataFrame(PLACES, schema="x double, y double")
    x, y = F.col("x"), F.col("y")

    rows = places.select(
        "x",
        "y",
        site_of(x, y, "grid:1000").alias("grid"),
        site_of(x, y, "h3:8").alias("cell"),
        site_of(x, y, f"nearest:{file}").alias("broker"),
    ).collect()

    assert [row.cell for row in rows] == [h3.latlng_to_cell(row.y, row.x, 8) for row in rows]
    assert [row.broker for row in rows] == ["sf", "sf", "oakland", "berlin", "fiji"]
    for row in rows:
        line, column = map(int, row.grid.split("_"))
        assert line == math.floor(row.y * 111.32)
        width = 111.32 * np.cos(np.radians((line + 0.5) / 111.32))
        assert column == math.floor(row.x * width)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("given", "expected grid:METRES"),
        ("grid:", "needs a number"),
        ("grid:-5", "needs a number"),
        ("h3:16", "resolutions 0 to 15"),
        ("nearest:/nowhere.csv", "there is no file /nowhere.csv"),
    ],
)
def test_a_wrong_rule_says_what_would_be_right(rule: str, message: str) -> None:
    nothing = None
    with pytest.raises(ConfigError, match=message):
        site_of(nothing, nothing, rule)  # type: ignore[arg-type]


def test_a_wrong_list_of_sites_names_the_line(tmp_path: Path) -> None:
    from roamq.pipeline.placing import read_sites

    file = tmp_path / "sites.csv"
    file.write_text("site,longitude,latitude\na,1,2\nb,east,2\n")

    with pytest.raises(ConfigError, match="line 3: expected columns site,longitude,latitude"):
        read_sites(file)
