"""Silver: sojourns and moves of all datasets, each cleaned by its own rules."""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline import records, silver
from roamq.pipeline.definitions.bronze import known_name, table_of
from roamq.pipeline.landing import Source
from roamq.pipeline.rules import Rules
from roamq.pipeline.tables import DERIVED
from roamq.pipeline.traces import FORMATS
from roamq.pipeline.traces.base import is_good

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def declare(spark: "SparkSession", sources: Sequence[Source]) -> list[str]:
    observed = [source for source in sources if FORMATS[source.format].observe is not None]
    if not observed:
        return []

    def sojourns() -> DataFrame:
        return union(
            silver.sojourns(observations(spark, source), rules_of(source), dataset=source.dataset)
            for source in observed
        )

    def moves() -> DataFrame:
        return silver.moves(spark.read.table("sojourns"))

    tables = ["sojourns", "moves"]
    recorded = [source for source in sources if source.format == "records"]
    if recorded:
        for name, transform in records.SILVER.items():
            declare_view(name, _recorded(spark, recorded, transform))
        tables += records.SILVER
    declare_view("sojourns", sojourns)
    declare_view("moves", moves)
    return tables


def _recorded(
    spark: "SparkSession", recorded: Sequence[Source], transform: Callable[[DataFrame], DataFrame]
) -> Callable[[], DataFrame]:
    return lambda: transform(union(good_rows(spark, source) for source in recorded))


def declare_view(name: str, query: Callable[[], DataFrame]) -> None:
    """A materialized view in Parquet. Files hold rows of one dataset each: what asks for one reads that alone."""
    dp.materialized_view(name=name, comment=DERIVED[name].about)(query)


def rules_of(source: Source) -> Rules:
    return source.rules(FORMATS[source.format].rules)


def good_rows(spark: "SparkSession", source: Source) -> DataFrame:
    """The rows of one dataset that were understood."""
    return spark.read.table(table_of(source.format)).where((F.col("dataset") == source.dataset) & is_good())


def observations(spark: "SparkSession", source: Source) -> DataFrame:
    trace_format, rows = FORMATS[source.format], good_rows(spark, source)
    assert trace_format.observe is not None, f"{source.format} knows no clients"
    if trace_format.client_in_name:
        # Made once for each file: made for each row, the name would cost more than all the rest of it.
        names = rows.select("file").distinct().withColumn("name", known_name())
        rows = rows.join(F.broadcast(names), "file").withColumn("file", F.col("name"))
    return trace_format.observe(rows, rules_of(source))


def union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
