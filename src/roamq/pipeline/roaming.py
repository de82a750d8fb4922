"""Reconnects compared: at the broker a client left, and at another one."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.metrics import first_and_last


def reconnects(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Records -> one row per scheme: median and 95th percentile of the waiting delay, in seconds.

    `same_...` are clients that came back to the broker they had left, `moved_...` those that came to another. Only
    reconnects with a message waiting count: without one, a client waits for somebody to publish.
    """
    waits = first_and_last(records, runs).withColumn("duration_s", F.col("first_s") - F.col("begin_s"))
    same_s = F.when(~F.col("moved"), F.col("duration_s"))
    moved_s = F.when(F.col("moved"), F.col("duration_s"))
    return waits.groupBy("scheme").agg(
        F.count(same_s).alias("same"),
        F.percentile(same_s, F.lit(0.5)).alias("same_median_s"),
        F.percentile(same_s, F.lit(0.95)).alias("same_p95_s"),
        F.count(moved_s).alias("moved"),
        F.percentile(moved_s, F.lit(0.5)).alias("moved_median_s"),
        F.percentile(moved_s, F.lit(0.95)).alias("moved_p95_s"),
    )
