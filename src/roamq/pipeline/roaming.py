"""Reconnects compared: at the broker a client left, and at another one."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def reconnects(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Records -> one row per scheme: median and 95th percentile of the wait for the first message, in seconds.

    `same_...` are clients that came back to the broker they had left, `moved_...` those that came to another. Only
    reconnects with a message waiting count: without one, a client waits for somebody to publish.
    """
    moved = F.col("broker") != F.col("peer")
    had_waiting = F.col("detail") != "live"
    handoffs = records.where((F.col("kind") == "handoff") & had_waiting).join(
        runs.select("run_id", "scheme"), "run_id"
    )
    same_s = F.when(~moved, F.col("duration_s"))
    moved_s = F.when(moved, F.col("duration_s"))
    return handoffs.groupBy("scheme").agg(
        F.count(same_s).alias("same"),
        F.percentile(same_s, F.lit(0.5)).alias("same_median_s"),
        F.percentile(same_s, F.lit(0.95)).alias("same_p95_s"),
        F.count(moved_s).alias("moved"),
        F.percentile(moved_s, F.lit(0.5)).alias("moved_median_s"),
        F.percentile(moved_s, F.lit(0.95)).alias("moved_p95_s"),
    )
