"""Bronze: one streaming table per format, one flow per dataset, and the quarantine over all of them."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.landing import LANDING, Source
from roamq.pipeline.tables import PROVENANCE, QUARANTINE, conform, struct_of
from roamq.pipeline.traces import FORMATS
from roamq.pipeline.traces.base import TraceFormat, line_numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_of(trace_format: str) -> str:
    return f"bronze_{trace_format}"


def declare_arrivals(spark: "SparkSession", sources: Sequence[Source]) -> list[str]:
    formats = formats_of(sources)
    for name in formats:
        dp.create_streaming_table(
            table_of(name),
            comment=FORMATS[name].about,
            schema=struct_of(f"{PROVENANCE}, {FORMATS[name].fields}"),
        )
    for source in sources:
        dp.append_flow(target=table_of(source.format), name=f"{table_of(source.format)}_{source.dataset}")(
            _arrivals(spark, source)
        )
    return [table_of(name) for name in formats]


def declare_quarantine(spark: "SparkSession", sources: Sequence[Source]) -> list[str]:
    formats = formats_of(sources)
    dp.materialized_view(name="quarantine", comment="malformed lines: file, line and reason")(
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
    # People know their files by the name they gave them, not by the digest they landed under.
    name = F.regexp_replace(F.url_decode("file"), rf"^.*/{LANDING}/[^/]+/[0-9a-f]{{16}}-", "")
    rows = trace_format.parse(lines).withColumns({"file": name, "dataset": F.lit(dataset)})
    return conform(rows, f"{PROVENANCE}, {trace_format.fields}")


def quarantine(spark: "SparkSession", formats: Sequence[str]) -> DataFrame:
    """The malformed lines of all formats."""
    parts = [
        line_numbers(
            spark.read.table(table_of(name)).select("dataset", "file", "position", "raw", "reason")
        ).withColumn("format", F.lit(name))
        for name in formats
    ]
    return conform(reduce(DataFrame.unionByName, parts), QUARANTINE)
