"""Records -> silver: publications, deliveries and traffic, and what metrics need to know of the runs.

Metrics themselves are defined once, in `metrics`; here their input is taken from the records that arrived.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.schemas import DELIVERIES, PUBLICATIONS, TRAFFIC


def publications(records: DataFrame) -> DataFrame:
    """Records -> silver `publications`."""
    rows = records.where(F.col("kind") == "published").withColumn("receivers", F.col("count"))
    return conform(rows, PUBLICATIONS)


def deliveries(records: DataFrame) -> DataFrame:
    """Records -> silver `deliveries`."""
    rows = records.where(F.col("kind") == "delivered")
    return conform(rows.withColumns({"latency_s": F.col("duration_s"), "path": F.col("detail")}), DELIVERIES)


def traffic(records: DataFrame) -> DataFrame:
    """Records -> silver `traffic`."""
    rows = records.where(F.col("kind") == "traffic")
    return conform(rows.withColumns({"messages": F.col("count"), "kind": F.col("detail")}), TRAFFIC)


SILVER: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "publications": publications,
    "deliveries": deliveries,
    "traffic": traffic,
}


def runs_of(records: DataFrame) -> DataFrame:
    """One row per run that wrote records, for `metrics`: the window is the whole run, and the other columns are
    unknown.
    """
    times = records.groupBy("dataset", "run_id").agg(
        F.min("time_s").alias("first_s"), F.max("time_s").alias("last_s")
    )
    return times.select(
        "run_id",
        F.col("dataset").alias("scenario"),
        F.lit("recorded").alias("scheme"),
        F.lit(0).cast("bigint").alias("seed"),
        F.create_map().cast("map<string,string>").alias("params"),
        F.col("first_s").alias("warmup_s"),
        F.col("last_s").alias("until_s"),
        F.lit("ok").alias("status"),
    )
