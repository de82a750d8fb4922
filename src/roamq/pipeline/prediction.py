"""Next-site prediction, judged on days it has not seen.

A predictor ranks the sites a client may go to next: by how often clients went there at all (order 0), from this site
(order 1), or from this site having come from that one (order 2). With back-off the list goes on where an order
runs out: first what order 2 knows, then what order 1 adds, then everything else by popularity. The rank of the
true target decides everything: a set of k sites hits if the rank is at most k.

Ranks are found without building any list: a backed-off rank is the length of the longer context's list, plus the rank
in the shorter context's list, minus the sites above it that were already listed. (A site listed at order 2 is
also listed at order 1, and so on, because the counts are of the same moves.)
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from roamq.pipeline.tables import PREDICTION, PREDICTION_SETS, RANKED_TESTS, conform

SET_SIZE_MAX: Final = 50
TARGETS: Final = (0.9, 0.99)
PREDICTORS: Final = ("order-0", "order-1", "order-2", "order-1-backoff", "order-2-backoff")


def split_by_day(moves: DataFrame, time_zone: str, test_share: float) -> DataFrame:
    """Add `is_test` and `first_test_day`: the last share of the days is for testing, at least one of them.

    A trace of a single day is split at the moment when that share of its moves is still to come.
    """
    local = F.from_utc_timestamp("time", time_zone)
    days = F.array_sort(F.collect_set(F.to_date(local)))
    index = F.least(F.greatest(F.floor(F.size(days) * (1 - test_share)), F.lit(1)), F.size(days) - 1)
    first_day = F.element_at(days, (index + 1).cast("int"))
    moment = F.timestamp_micros(F.percentile_approx(F.unix_micros("time"), 1 - test_share))
    several = F.size(days) > 1
    cut = moves.groupBy("dataset").agg(
        F.when(several, F.to_utc_timestamp(first_day.cast("timestamp"), time_zone))
        .otherwise(moment)
        .alias("cut"),
        F.when(several, first_day).otherwise(F.element_at(days, 1)).alias("first_test_day"),
    )
    return moves.join(F.broadcast(cut), "dataset").withColumn("is_test", F.col("time") >= F.col("cut"))


def ranked_tests(split: DataFrame) -> DataFrame:
    """Split moves -> gold `ranked_tests`: how many test moves got which rank, in a list of which length.

    A null rank says that the target is not on that predictor's list at all.
    """
    counted = split.withColumn("before", F.coalesce("before", F.lit(""))).groupBy(
        "dataset", "before", "from", "to", "is_test", "first_test_day"
    )
    trigrams = counted.agg(F.count("*").alias("n"))
    train, test = trigrams.where("not is_test"), trigrams.where("is_test")
    trained = train.groupBy("dataset").agg(F.sum("n").alias("train_moves"))

    order_0 = _ranked(train, (), "rank_0")
    order_1 = _ranked(train, ("from",), "rank_1")
    order_2 = _ranked(train, ("before", "from"), "rank_2")
    network = order_0.groupBy("dataset").agg(F.count("*").alias("size_0"))
    own = order_0.select("dataset", F.col("to").alias("from"), F.col("rank_0").alias("own_rank"))
    listed_1 = (
        order_1.join(order_0, ["dataset", "to"])
        .groupBy("dataset", "from")
        .agg(F.count("*").alias("size_1"), F.collect_list("rank_0").alias("ranks_0"))
    )
    listed_2 = (
        order_2.join(order_1, ["dataset", "from", "to"])
        .groupBy("dataset", "before", "from")
        .agg(F.count("*").alias("size_2"), F.collect_list("rank_1").alias("ranks_1"))
    )
    ranked = (
        test.join(F.broadcast(trained), "dataset", "left")
        .join(F.broadcast(network), "dataset", "left")
        .join(order_0, ["dataset", "to"], "left")
        .join(own, ["dataset", "from"], "left")
        .join(order_1, ["dataset", "from", "to"], "left")
        .join(listed_1, ["dataset", "from"], "left")
        .join(order_2, ["dataset", "before", "from", "to"], "left")
        .join(listed_2, ["dataset", "before", "from"], "left")
        .select("dataset", "first_test_day", "train_moves", "n", F.inline(_rank_and_size()))
    )
    return conform(
        ranked.groupBy("dataset", "predictor", "first_test_day", "train_moves", "rank", "size").agg(
            F.sum("n").alias("n")
        ),
        RANKED_TESTS,
    )


def _ranked(train: DataFrame, context: tuple[str, ...], rank: str) -> DataFrame:
    """Targets per context, the most frequent first; equal counts in the order of names."""
    counted = train.groupBy("dataset", *context, "to").agg(F.sum("n").alias("n"))
    best_first = Window.partitionBy("dataset", *context).orderBy(F.desc("n"), "to")
    return counted.select("dataset", *context, "to", F.row_number().over(best_first).alias(rank))


def _rank_and_size() -> Column:
    """One struct (predictor, rank, size) per predictor."""
    zero = F.lit(0)
    # Nobody moves to where he is: the own site never takes a place on the list.
    own = F.coalesce((F.col("own_rank") < F.col("rank_0")).cast("int"), zero)
    popular = F.col("rank_0") - own
    size_0 = F.coalesce("size_0", zero) - F.col("own_rank").isNotNull().cast("int")
    size_1, size_2 = F.coalesce("size_1", zero), F.coalesce("size_2", zero)
    after_1 = size_1 + popular - _below("ranks_0", "rank_0")
    after_2 = size_2 + F.col("rank_1") - _below("ranks_1", "rank_1")
    ranks = {
        "order-0": (popular, size_0),
        "order-1": (F.col("rank_1"), size_1),
        "order-2": (F.col("rank_2"), size_2),
        "order-1-backoff": (F.coalesce("rank_1", after_1), size_0),
        "order-2-backoff": (F.coalesce("rank_2", after_2, after_1), size_0),
    }
    assert tuple(ranks) == PREDICTORS
    return F.array(
        *(
            F.struct(
                F.lit(name).alias("predictor"),
                rank.cast("bigint").alias("rank"),
                size.cast("bigint").alias("size"),
            )
            for name, (rank, size) in ranks.items()
        )
    )


def _below(ranks: str, rank: str) -> Column:
    """How many of the listed ranks are better than this one."""
    better = F.filter(F.col(ranks), lambda listed: listed < F.col(rank))
    return F.coalesce(F.size(better), F.lit(0))


def prediction(ranked: DataFrame) -> DataFrame:
    """Ranked tests -> gold `prediction`: hit rate for every set size up to `SET_SIZE_MAX`."""
    sized = ranked.withColumn("set_size", F.explode(F.sequence(F.lit(1), F.lit(SET_SIZE_MAX))))
    hits = F.sum(F.when(F.col("rank") <= F.col("set_size"), F.col("n")).otherwise(0))
    held = F.sum(F.col("n") * F.least("size", "set_size"))
    curves = sized.groupBy("dataset", "predictor", "first_test_day", "set_size").agg(
        F.coalesce(F.max("train_moves"), F.lit(0)).alias("train_moves"),
        (hits / F.sum("n")).alias("hit_rate"),
        (held / F.sum("n")).alias("mean_set_size"),
        F.sum("n").alias("test_moves"),
    )
    return conform(curves, PREDICTION)


def prediction_sets(ranked: DataFrame) -> DataFrame:
    """Ranked tests -> gold `prediction_sets`: the smallest set that reaches each target hit rate."""
    by_rank = ranked.groupBy("dataset", "predictor", "rank").agg(F.sum("n").alias("n"))
    group = Window.partitionBy("dataset", "predictor")
    up_to = group.orderBy(F.asc_nulls_last("rank")).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    reached = by_rank.withColumn("reached", F.sum("n").over(up_to) / F.sum("n").over(group))
    reachable = F.max(F.when(F.col("rank").isNotNull(), F.col("reached")))
    targets = reached.withColumn("target", F.explode(F.array(*map(F.lit, TARGETS))))
    enough = F.min(F.when((F.col("reached") >= F.col("target")), F.col("rank")))
    sets = targets.groupBy("dataset", "predictor", "target").agg(
        enough.cast("int").alias("set_size"), F.coalesce(reachable, F.lit(0.0)).alias("reachable")
    )
    return conform(sets, PREDICTION_SETS)
