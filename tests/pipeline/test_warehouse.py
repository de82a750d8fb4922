"""A warehouse as a folder: what is a table, who may write, and when new tables replace the old."""

import contextlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roamq.core.errors import ConfigError
from roamq.pipeline.warehouse import (
    CHECKPOINTS,
    FORGETTING,
    NEXT,
    database_of,
    forget_arrivals,
    next_tables,
    only_writer,
    open_tables,
    table_names,
)


def test_tables_are_the_folders_whose_names_are_known(tmp_path: Path) -> None:
    for name in ("sojourns", "bronze_wifi", "landing", CHECKPOINTS, "metastore", NEXT):
        (tmp_path / name).mkdir()

    assert table_names(tmp_path) == ["bronze_wifi", "sojourns"]
    assert table_names(tmp_path / "nowhere") == []


def test_one_run_at_a_time_writes_a_warehouse(tmp_path: Path) -> None:
    with (
        only_writer(tmp_path),
        pytest.raises(ConfigError, match="another run is writing"),
        only_writer(tmp_path),
    ):
        pass
    with only_writer(tmp_path):
        pass


def test_what_was_read_is_forgotten_whole_even_if_forgetting_was_interrupted(tmp_path: Path) -> None:
    for name in (CHECKPOINTS, "bronze_wifi", "sojourns"):
        (tmp_path / name).mkdir()
    forget_arrivals(tmp_path, now=False)
    assert (tmp_path / CHECKPOINTS).exists()
    (tmp_path / FORGETTING).touch()

    forget_arrivals(tmp_path, now=False)

    assert {path.name for path in tmp_path.iterdir()} == {"sojourns"}


@pytest.mark.spark
def test_new_tables_replace_the_old_when_all_are_ready_and_not_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    def make(site: str, *, fail: bool = False) -> None:
        with contextlib.suppress(RuntimeError), next_tables(spark, tmp_path, arrived=[]) as database:
            made = f"select 'd' dataset, '{site}' site, 0D x, 0D y, 1L observations, 1L clients"
            spark.sql(f"create table `{database}`.sites using parquet as {made}")
            assert not fail or sites() == ["old"], "a reader sees the old table while the new one is made"
            if fail:
                raise RuntimeError

    def sites() -> list[str]:
        open_tables(spark, tmp_path)
        return [row.site for row in spark.read.table(f"{database_of(tmp_path)}.sites").collect()]

    before = spark.catalog.currentDatabase()
    try:
        make("old")
        make("unfinished", fail=True)
        assert sites() == ["old"]
        make("new")
        assert sites() == ["new"]
        assert {path.name for path in tmp_path.iterdir()} == {"sites"}
    finally:
        spark.catalog.setCurrentDatabase(before)
        spark.sql(f"drop database `{database_of(tmp_path)}` cascade")
