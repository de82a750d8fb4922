"""Bronze: one streaming table per format, one flow per dataset, and the quarantine over all of them."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.landing import DIGEST_LENGTH, LANDING, Source
from roamq.pipeline.tables import BRONZE, DERIVED, QUARANTINE, conform, struct_of
from roamq.pipeline.traces import FORMATS
from roamq.pipeline.traces.base import TraceFormat, line_numbers
from roamq.pipeline.warehouse import contract_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_of(trace_format: str) -> str:
    return f"{BRONZE}{trace_format}"


def declare_arrivals(spark: "SparkSession", sources: Sequence[Source]) -> list[str]:
    formats = formats_of(sources)
    for name in formats:
        dp.create_streaming_table(
            table_of(name),
            comment=FORMATS[name].about,
            schema=struct_of(contract_of(table_of(name))),
        )
    for source in sources:
        dp.append_flow(target=table_of(source.format), name=f"{table_of(source.format)}_{source.dataset}")(
            _arrivals(spark, source)
        )
    return [table_of(name) for name in formats]


def declare_quarantine(spark: "SparkSession", sources: Sequence[Source]) -> list[str]:
    formats = formats_of(sources)
    dp.materialized_view(name="quarantine", comment=DERIVED["quarantine"].about)(
        lambda: quarantine(spark, formats)
    )
    return ["quarantine"]


def formats_of(sources: Sequence[Source]) -> list[str]:
    return sorted({source.format for source in sources})


def _arrivals(spark: "SparkSession", source: Source) -> Callable[[], DataFrame]:
    def flow() -> DataFrame:
        trace_format = FORMATS[source.format]
        return bronze_rows(
            trace_format.arrivals(spark, source.path, streaming=True), trace_format, source.dataset
        )

    return flow


def bronze_rows(lines: DataFrame, trace_format: TraceFormat, dataset: str) -> DataFrame:
    """Numbered lines -> rows of the format's bronze table."""
    rows = trace_format.parse(lines).withColumn("dataset", F.lit(dataset))
    return conform(rows, contract_of(table_of(trace_format.name)))


def known_name() -> Column:
    """People know their files by the name they gave them, not by the digest they landed under.

    Bronze keeps the path as it is: a name made for every row would cost as much as reading the row, and few ask for it.
    """
    return F.regexp_replace(F.url_decode("file"), rf"^.*/{LANDING}/[^/]+/[0-9a-f]{{{DIGEST_LENGTH}}}-", "")


def quarantine(spark: "SparkSession", formats: Sequence[str]) -> DataFrame:
    """The malformed lines of all formats."""
    parts = [
        line_numbers(
            spark.read.table(table_of(name)).select("dataset", "file", "position", "raw", "reason")
        ).withColumns({"format": F.lit(name), "file": known_name()})
        for name in formats
    ]
    return conform(reduce(DataFrame.unionByName, parts), QUARANTINE)
