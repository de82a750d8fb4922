"""Conditions that say which keys of a table are made anew."""

from pathlib import Path

import pytest
from pyspark.sql import Column, SparkSession

from roamq.pipeline.definitions.table import is_named, is_not

pytestmark = pytest.mark.spark

ROWS = [("a", "s1"), ("a", "s2"), ("a", None), ("b", "s1"), ("b", "s3"), ("c", "s1")]


def chosen(spark: SparkSession, condition: Column) -> list[tuple[str, str | None]]:
    rows = spark.createDataFrame(ROWS, "dataset string, site string").where(condition).collect()
    return [(row.dataset, row.site) for row in rows]


def test_keys_are_named_by_dataset_and_every_row_is_named_or_not(spark: SparkSession) -> None:
    """A row without a site has none of the sites; of too many, all are named."""
    named = is_named("site", {"a": ["s1"], "b": None})

    assert chosen(spark, named) == [("a", "s1"), ("b", "s1"), ("b", "s3")]
    assert chosen(spark, is_not(named)) == [("a", "s2"), ("a", None), ("c", "s1")]
    assert chosen(spark, is_named("site", {})) == []
    assert chosen(spark, is_named("site", {"a": []})) == []


def test_names_reach_parquet(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parquet skips what holds none of the names: otherwise few new clients cost a look at all rows."""
    spark.createDataFrame(ROWS, "dataset string, site string").write.parquet(str(tmp_path / "rows"))

    spark.read.parquet(str(tmp_path / "rows")).where(is_named("site", {"a": ["s1", "s2"]})).explain()

    [pushed] = [part for part in capsys.readouterr().out.splitlines() if "PushedFilters" in part]
    assert "In(site, [s1,s2])" in pushed
