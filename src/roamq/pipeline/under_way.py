"""State transfers under way at once, and what messages wait for meanwhile. Records of deliveries are needed for both.

A transfer is seen as its client sees it ([DIS] section 3.1): it begins when the client asks to reconnect at another
broker, and ends with the last event that came from a store and had been published before that. A reconnect for which
nothing was stored has no transfer. Under prefetching, the context has moved before: what is seen is the replay.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from roamq.pipeline.metric_rows import RUN, in_window, long_rows

BIN_S = 300.0
"""Transfers and latencies are shown over time in bins of five minutes, as [DIS] Fig. 5 shows costs."""


def transfers_seen(records: DataFrame, runs: DataFrame) -> DataFrame:
    """One row for each transfer that began in the window: the run's columns, `client`, `begin_s`, `end_s`."""
    moved = (F.col("kind") == "connected") & (F.col("peer") != F.col("broker"))
    stored = (F.col("kind") == "delivered") & (F.col("detail") != "live")
    by_client = Window.partitionBy("run_id", "client").orderBy("time_s", "position")
    begin_s = F.last(F.when(moved, F.col("time_s")), ignorenulls=True).over(by_client)
    ends = (
        records.where(moved | stored)
        .withColumn("begin_s", begin_s)
        .where(stored & (F.col("time_s") - F.col("duration_s") < F.col("begin_s")))
        .groupBy("run_id", "client", "begin_s")
        .agg(F.max("time_s").alias("end_s"))
    )
    bounds = runs.select(*RUN, "warmup_s", "until_s")
    return (
        ends.join(F.broadcast(bounds), "run_id")
        .where(F.col("begin_s").between(F.col("warmup_s"), F.col("until_s")))
        .select(*RUN, "client", "begin_s", "end_s")
    )


def transfers_under_way(records: DataFrame, runs: DataFrame) -> DataFrame:
    """How long transfers take (`transfer_s_mean`), the most of them at one time (`transfers_at_once_max`), when that
    was first so (`transfers_at_once_max_at_s`), and their mean number in each bin (`transfers_at_once`; the entity is
    the bin's end)."""
    seen = transfers_seen(records, runs)
    took = seen.groupBy(*RUN).agg(F.avg(F.col("end_s") - F.col("begin_s")).alias("mean_s"))
    step = F.explode(
        F.array(
            F.struct(F.col("begin_s").alias("time_s"), F.lit(1).alias("change")),
            F.struct(F.col("end_s").alias("time_s"), F.lit(-1).alias("change")),
        )
    )
    so_far = (
        Window.partitionBy("run_id").orderBy("time_s", "change").rowsBetween(Window.unboundedPreceding, 0)
    )
    levels = seen.select(*RUN, step.alias("step")).select(*RUN, "step.time_s", "step.change")
    most = (
        levels.withColumn("level", F.sum("change").over(so_far))
        .groupBy(*RUN)
        .agg(F.max(F.struct("level", (-F.col("time_s")).alias("before"))).alias("most"))
    )
    bins = F.sequence(F.floor(F.col("begin_s") / BIN_S), F.floor(F.col("end_s") / BIN_S))
    in_bins = seen.withColumn("bin", F.explode(bins))
    inside_s = F.least("end_s", (F.col("bin") + 1) * BIN_S) - F.greatest("begin_s", F.col("bin") * BIN_S)
    binned = in_bins.groupBy(*RUN, "bin").agg((F.sum(inside_s) / BIN_S).alias("level"))
    parts = (
        long_rows(took, {"transfer_s_mean": F.col("mean_s")}),
        long_rows(
            most,
            {
                "transfers_at_once_max": F.col("most.level"),
                "transfers_at_once_max_at_s": -F.col("most.before"),
            },
        ),
        long_rows(binned, {"transfers_at_once": F.col("level")}, _end_s(F.col("bin"))),
    )
    return reduce(DataFrame.unionByName, parts)


def latency_over_time(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Latency of messages that reached a connected client as they came (`live`), by when they were published: how many
    there are in each bin, and their mean; the entity is the bin's end."""
    live = in_window(records, runs).where((F.col("kind") == "delivered") & (F.col("detail") == "live"))
    bin_of = F.floor((F.col("time_s") - F.col("duration_s")) / BIN_S)
    binned = live.groupBy(*RUN, bin_of.alias("bin")).agg(
        F.count("*").alias("count"),
        F.avg("duration_s").alias("mean_s"),
    )
    values = {
        "live_in_bin": F.col("count"),
        "live_latency_s_in_bin": F.col("mean_s"),
    }
    return long_rows(binned, values, _end_s(F.col("bin")))


def _end_s(bin_number: Column) -> Column:
    """When a bin ends, as entities of metrics over time say it."""
    return ((bin_number + 1) * BIN_S).cast("double")
