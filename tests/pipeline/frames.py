"""Literal frames and their comparison, for the tests of transforms."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from roamq.pipeline.schemas import OBSERVATIONS

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """A moment on the first of January 2024, in UTC."""
    return EPOCH + timedelta(seconds=seconds)


def same(actual: DataFrame, rows: Sequence[tuple[Any, ...]], contract: str) -> None:
    """Rows, column order and types are the contract's; a column it declares `not null` is never null.

    The other way round is fine: a literal or a count cannot be null, and a nullable column may hold it.
    """
    expected = actual.sparkSession.createDataFrame(list(rows), schema=contract)
    assert_df_equality(actual, expected, ignore_row_order=True, ignore_nullable=True)
    promised = {field.name for field in expected.schema if not field.nullable}
    kept = {field.name for field in actual.schema if not field.nullable}
    assert promised <= kept, f"may be null: {sorted(promised - kept)}"


def observations(spark: SparkSession, *rows: tuple[str, float, str | None]) -> DataFrame:
    """Rows (client, second, site) in file order; no site means disconnected."""
    filled = [
        (client, "all", at(second), tie, site, site is not None, None, None)
        for tie, (client, second, site) in enumerate(rows)
    ]
    return spark.createDataFrame(filled, schema=OBSERVATIONS)
