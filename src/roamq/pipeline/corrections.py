"""Sums that are kept and corrected: what came is added, what went is taken off.

A run then costs what came and went, and a sum per key, instead of all rows that were ever summed. Only whole numbers
are kept so: their sums are the same in any order.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def corrected(
    before: DataFrame, went: DataFrame | None, came: DataFrame, *, by: Sequence[str], sums: Sequence[str]
) -> DataFrame:
    """The sums of each key after those of `went` were taken off and those of `came` added; some may then be 0.

    Spark fails the query where less than nothing is left: something was taken off that was never added.
    """
    parts = [before.select(*by, *sums), came.select(*by, *sums)]
    if went is not None:
        parts.append(went.select(*by, *((-F.col(name)).alias(name) for name in sums)))
    left = reduce(DataFrame.unionByName, parts).groupBy(*by).agg(*(F.sum(name).alias(name) for name in sums))
    is_sound = reduce(Column.__and__, (F.col(name) >= 0 for name in sums))
    return left.where(
        F.assert_true(is_sound, F.lit(f"{', '.join(sums)}: less than nothing is left")).isNull()
    )
