"""Conditions that say which keys of a table are made anew."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import Column, DataFrame, SparkSession

from roamq.pipeline.definitions import gold
from roamq.pipeline.definitions.table import Names, Scope, Touched, is_named, is_not

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


@pytest.mark.parametrize(
    ("touched", "kept"),
    [
        ({"a": ["s1"]}, [("a", "s2")]),
        ({"a": None}, None),
        ({}, [("a", "s1"), ("a", "s2")]),
    ],
    ids=["one site", "most sites", "no site"],
)
def test_of_a_dataset_that_changed_in_part_rows_of_other_sites_are_kept(
    spark: SparkSession, touched: Names, kept: list[tuple[str, str]] | None
) -> None:
    """Where most sites were touched, nobody looks for rows that could be kept."""
    nothing = cast("Callable[..., DataFrame]", None)
    scope = Scope(spark, [], set(), {"a"}, nothing, nothing, nothing)
    scope.found[gold._touched] = Touched(touched, {})

    is_changed = gold._at_touched("site")(scope)

    assert (is_changed is None) == (kept is None)
    if is_changed is not None:
        assert [row for row in chosen(spark, is_not(is_changed)) if row[0] == "a"] == kept


@pytest.mark.parametrize(
    ("sites", "known", "named"),
    [
        (["s1", "s2"], 4, ["s1", "s2"]),
        (["s1", "s2", "s3"], 4, None),
        (["s1", "s2", "s3"], None, ["s1", "s2", "s3"]),
        (None, 4, None),
    ],
)
def test_most_sites_are_all_sites(
    sites: list[str] | None, known: int | None, named: list[str] | None
) -> None:
    """Half of them are named; of a dataset that had none before, as many as there are."""
    assert gold._few(sites, known) == named
