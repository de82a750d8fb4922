"""What crosses links: the overhead ratio of [DIS], its parts, and bytes by kind of traffic."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from roamq.core.records import MIGRATION, MULTICAST, UNICAST
from roamq.pipeline.metric_rows import RUN, in_window, long_rows, sum_if

PEAK_BIN_S = 1800.0
"""[DIS] section 5.2.2 reports the peak as the worst half hour."""


def overhead(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Unicast over multicast ([DIS] section 5.2.1), by link traversals, messages and bytes; and its parts."""
    traffic = _traffic(records, runs)
    multicast, unicast = F.col("detail").isin(*MULTICAST), F.col("detail").isin(*UNICAST)
    migration = F.col("detail").isin(*MIGRATION)
    unicast_hops = sum_if(unicast, "hops")
    overall = traffic.groupBy(*RUN).agg(
        _ratio("hops").alias("overhead"),
        _ratio("count").alias("overhead_messages"),
        _ratio("bytes").alias("overhead_bytes"),
        F.coalesce(unicast_hops, F.lit(0)).alias("unicast_hops"),
        sum_if(multicast, "hops").alias("multicast_hops"),
        (100 * F.coalesce(sum_if(migration, "hops"), F.lit(0)) / unicast_hops).alias("migration_pct"),
    )
    return long_rows(
        overall,
        {
            "overhead": F.col("overhead"),
            "overhead_messages": F.col("overhead_messages"),
            "overhead_bytes": F.col("overhead_bytes"),
            "unicast_hops": F.col("unicast_hops"),
            "multicast_hops": F.col("multicast_hops"),
            "subscription_migration_pct": F.col("migration_pct"),
        },
    )


def overhead_by_kind(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The overhead ratio's terms: link traversals of each kind of traffic over all multicast ones."""
    traffic = _traffic(records, runs)
    by_kind = traffic.groupBy(*RUN, "detail").agg(
        F.sum("hops").alias("hops"), F.sum("count").alias("messages")
    )
    whole_run = Window.partitionBy("run_id")
    multicast = F.sum(F.when(F.col("detail").isin(*MULTICAST), F.col("hops"))).over(whole_run)
    with_total = by_kind.withColumn("multicast", multicast)
    return long_rows(
        with_total,
        {
            "hops_of_kind": F.col("hops"),
            "messages_of_kind": F.col("messages"),
            "overhead_of_kind": F.col("hops") / F.nullif("multicast", F.lit(0)),
        },
        F.col("detail"),
    )


def overhead_over_time(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The overhead ratio in each bin of the records; the entity is the bin's end in seconds."""
    traffic = _traffic(records, runs)
    binned = traffic.groupBy(*RUN, "time_s").agg(
        _ratio("hops").alias("ratio"),
        F.coalesce(sum_if(F.col("detail").isin(*UNICAST), "hops"), F.lit(0)).alias("unicast_hops"),
        F.coalesce(sum_if(F.col("detail") == "stored_delivery", "hops"), F.lit(0)).alias("replayed_hops"),
        F.sum("hops").alias("all_hops"),
    )
    values = {
        "overhead_in_bin": F.col("ratio"),
        "unicast_hops_in_bin": F.col("unicast_hops"),
        "replayed_hops_in_bin": F.col("replayed_hops"),
        "hops_in_bin": F.col("all_hops"),
    }
    return long_rows(binned, values, F.col("time_s"))


def overhead_peak(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The overhead ratio in the half hour in which it is highest ([DIS] Fig. 4)."""
    traffic = _traffic(records, runs)
    half_hour = F.ceil(F.col("time_s") / PEAK_BIN_S).alias("half_hour")
    binned = traffic.groupBy(*RUN, half_hour).agg(_ratio("hops").alias("ratio"))
    peak = binned.groupBy(*RUN).agg(F.max("ratio").alias("peak"))
    return long_rows(peak, {"overhead_peak": F.col("peak")})


def traffic_by_kind(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Bytes over links, in all and in the busiest bin of the records; by kind of traffic, and of all kinds."""
    by_bin = _traffic(records, runs).groupBy(*RUN, "time_s", "detail").agg(F.sum("bytes").alias("bytes"))
    together = by_bin.groupBy(*RUN, "time_s").agg(F.sum("bytes").alias("bytes"))
    total, peak = F.sum("bytes"), F.max("bytes")
    of_kind = by_bin.groupBy(*RUN, "detail").agg(total.alias("total"), peak.alias("peak"))
    of_all = together.groupBy(*RUN).agg(total.alias("total"), peak.alias("peak"))
    names = ("bytes_of_kind", "peak_bytes_of_kind"), ("traffic_bytes", "traffic_peak_bytes")
    kinds, everything = (
        {total_name: F.col("total"), peak_name: F.col("peak")} for total_name, peak_name in names
    )
    return long_rows(of_kind, kinds, F.col("detail")).unionByName(long_rows(of_all, everything))


def _traffic(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Whole bins of the window: a ratio means nothing when nobody publishes any more."""
    return in_window(records, runs).where(F.col("kind") == "traffic")


def _ratio(value: str) -> Column:
    """Unicast over multicast of a group; null where there was no multicast traffic."""
    unicast = F.coalesce(sum_if(F.col("detail").isin(*UNICAST), value), F.lit(0))
    return unicast / F.nullif(sum_if(F.col("detail").isin(*MULTICAST), value), F.lit(0))
