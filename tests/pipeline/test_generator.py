"""Synthetic cities: the same for any number of cores, of the size that was asked for, and city-like."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.pipeline.generator import City, city_traces

pytestmark = pytest.mark.spark


def test_a_city_does_not_depend_on_how_it_is_cut(spark: SparkSession) -> None:
    city = City(clients=7, days=2, sites=16, seed=3)

    one, other = (city_traces(spark, city, partitions) for partitions in (1, 5))

    assert one.exceptAll(other).count() == other.exceptAll(one).count() == 0
    assert one.exceptAll(city_traces(spark, City(clients=7, days=2, sites=16, seed=4), 1)).count() > 0


def test_a_city_has_about_the_rows_asked_for_and_people_commute(spark: SparkSession) -> None:
    city = City.with_rows(20_000, days=2, sites=25)
    traces = city_traces(spark, city, 2)

    row = traces.select(
        F.count("*").alias("rows"),
        F.count_distinct("client").alias("clients"),
        F.count_distinct("site").alias("sites"),
    ).first()
    assert row is not None
    assert row.rows == pytest.approx(20_000, rel=0.02)
    assert (row.clients, row.sites) == (city.clients, 25)
    wandered = traces.groupBy("client").agg(F.count_distinct("site").alias("n")).agg(F.avg("n")).first()
    assert wandered is not None and wandered[0] > 3


def test_an_empty_city_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one client"):
        City(clients=0, days=1)
