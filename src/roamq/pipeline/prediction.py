"""Next-site prediction, judged on days it has not seen.

A predictor ranks the sites a client may go to next: by how often clients went there at all (order 0), from this site
(order 1), or from this site having come from that one (order 2). With back-off the list goes on where an order
runs out: first what order 2 knows, then what order 1 adds, then everything else by popularity. The rank of the
true target decides everything: a set of k sites hits if the rank is at most k.

Ranks are found without building any list: a backed-off rank is the length of the longer context's list, plus the rank
in the shorter context's list, minus the sites above it that were already listed. (A site listed at order 2 is
also listed at order 1, and so on, because the counts are of the same moves.)
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.schemas import PREDICTION, PREDICTION_SETS, RANKED_TESTS, TRIGRAMS

SET_SIZE_MAX: Final = 50
TARGETS: Final = (0.9, 0.99)
CONTEXTS: Final[tuple[tuple[str, ...], ...]] = ((), ("from",), ("before", "from"))
"""The columns that a predictor of order 0, 1 or 2 takes as its context."""
PREDICTORS: Final = ("order-0", "order-1", "order-2", "order-1-backoff", "order-2-backoff")


def split_by_day(
    moves: DataFrame, time_zone: str, test_share: float, days: DataFrame | None = None
) -> DataFrame:
    """Add `is_test` and `first_test_day`: the last share of the days is for testing, at least one of them.

    A trace of a single day is split at the moment when that share of its moves is still to come. `days`: the days of
    the moves (dataset, day), where they are known, and several of each dataset: they are then not looked for.
    """
    known = days
    if known is None:
        local = F.from_utc_timestamp("time", time_zone)
        known = moves.select("dataset", F.to_date(local).alias("day"))
    in_order = F.array_sort(F.collect_set("day"))
    number = F.size(in_order)
    index = F.least(F.greatest(F.floor(number * (1 - test_share)), F.lit(1)), number - 1)
    by_day = known.groupBy("dataset").agg(
        F.element_at(in_order, (index + 1).cast("int")).alias("first_test_day"),
        (number > 1).alias("several"),
    )
    midnight = F.to_utc_timestamp(F.col("first_test_day").cast("timestamp"), time_zone)
    if days is not None:
        cut = by_day.select("dataset", "first_test_day", midnight.alias("cut"))
    else:
        lone = by_day.where(~F.col("several")).select("dataset")
        moment = _moment(moves.join(F.broadcast(lone), "dataset", "left_semi"), 1 - test_share)
        cut = by_day.join(F.broadcast(moment), "dataset", "left").select(
            "dataset",
            "first_test_day",
            F.when(F.col("several"), midnight).otherwise(F.col("moment")).alias("cut"),
        )
    return moves.join(F.broadcast(cut), "dataset").withColumn("is_test", F.col("time") >= F.col("cut"))


def _moment(moves: DataFrame, share: float) -> DataFrame:
    """The second, for each dataset, by which this share of its moves was made; exact in whatever order they come."""
    counted = moves.groupBy("dataset", F.unix_seconds("time").alias("second")).agg(F.count("*").alias("n"))
    whole = Window.partitionBy("dataset")
    up_to = whole.orderBy("second").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    reached = counted.withColumn("reached", F.sum("n").over(up_to) / F.sum("n").over(whole))
    found = reached.where(F.col("reached") >= share).groupBy("dataset").agg(F.min("second").alias("second"))
    return found.select("dataset", F.timestamp_seconds("second").alias("moment"))


def trigrams(moves: DataFrame, time_zone: str, test_share: float, days: DataFrame | None = None) -> DataFrame:
    """Moves -> gold `trigrams`: how often each path over three sites was taken, on training and on test days.

    The one pass over the moves that all counts by context start from; what follows is as small as the network. `days`
    as in `split_by_day`.
    """
    split = split_by_day(moves, time_zone, test_share, days)
    counted = split.groupBy("dataset", "before", "from", "to", "first_test_day").agg(
        F.count_if(~F.col("is_test")).alias("trained"),
        F.count_if("is_test").alias("tested"),
        F.max("time").alias("last_seen"),
    )
    return conform(counted, TRIGRAMS)


def corrected_trigrams(before: DataFrame, went: DataFrame | None, came: DataFrame) -> DataFrame:
    """`trigrams` after some moves went and others came, with `is_known`, which says whether a path's row is right, and
    with `other_day`, which is `first_test_day` where the days of training are those of before.

    Counts are sums. The last move of a path is none: where it went and no later one came, only all moves tell.
    """
    path = ("dataset", "before", "from", "to")
    parts = [(before, "was", 1), (came, "came", 1), *([(went, "went", -1)] if went is not None else [])]
    frames = [
        part.select(
            *path,
            "first_test_day",
            (F.col("trained") * sign).alias("trained"),
            (F.col("tested") * sign).alias("tested"),
            *(
                F.when(F.lit(name == kind), F.col("last_seen")).alias(f"last_{name}")
                for name in ("was", "came", "went")
            ),
        )
        for part, kind, sign in parts
    ]
    summed = (
        reduce(DataFrame.unionByName, frames)
        .groupBy(*path)
        .agg(
            F.sum("trained").alias("trained"),
            F.sum("tested").alias("tested"),
            F.min("first_test_day").alias("first_test_day"),
            F.max("first_test_day").alias("other_day"),
            *(F.max(f"last_{name}").alias(f"last_{name}") for name in ("was", "came", "went")),
        )
    )
    stays = F.col("last_went").isNull() | (F.col("last_went") < F.col("last_was"))
    is_later = F.coalesce(F.col("last_came") >= F.col("last_was"), F.lit(False))
    is_gone = (F.col("trained") == 0) & (F.col("tested") == 0)
    return summed.withColumns(
        {
            "last_seen": F.greatest("last_was", "last_came"),
            "is_known": stays | is_later | is_gone,
        }
    )


def ranked_tests(counted: DataFrame) -> DataFrame:
    """Trigrams -> gold `ranked_tests`: how many test moves got which rank, in a list of which length.

    A null rank says that the target is not on that predictor's list at all.
    """
    order_0 = _ranked(counted, 0).withColumn("train_moves", F.sum("n_0").over(Window.partitionBy("dataset")))
    order_1 = _ranked(counted, 1, order_0)
    order_2 = _ranked(counted, 2, order_1).where("tested_2 > 0")
    own = order_0.select("dataset", F.col("to").alias("from"), F.col("rank_0").alias("own_rank"))
    ranked = order_2.join(F.broadcast(own), ["dataset", "from"], "left").select(
        "dataset", "first_test_day", "train_moves", "tested_2", F.inline(_rank_and_size())
    )
    return conform(
        ranked.groupBy("dataset", "predictor", "first_test_day", "train_moves", "rank", "size").agg(
            F.sum("tested_2").alias("n")
        ),
        RANKED_TESTS,
    )


def _ranked(counted: DataFrame, order: int, shorter: DataFrame | None = None) -> DataFrame:
    """Targets per context of one order, with all that the shorter contexts say of them.

    Adds `rank_K` in the context's list (the most frequent first, equal counts in the order of names; null where no
    training day has it), the list's `size_K`, and in `better_K` how many on it rank better in the shorter context.
    """
    context = CONTEXTS[order]
    targets = counted.groupBy("dataset", *context, "to", "first_test_day").agg(
        F.sum("trained").alias(f"n_{order}"), F.sum("tested").alias(f"tested_{order}")
    )
    given = Window.partitionBy("dataset", *context)
    is_listed = F.col(f"n_{order}") > 0
    columns = {
        f"rank_{order}": F.when(is_listed, F.row_number().over(given.orderBy(F.desc(f"n_{order}"), "to"))),
        f"size_{order}": F.count_if(is_listed).over(given),
    }
    if shorter is not None:
        targets = targets.join(shorter, ["dataset", *CONTEXTS[order - 1], "to", "first_test_day"])
        columns[f"better_{order}"] = F.count_if(is_listed).over(given.orderBy(f"rank_{order - 1}"))
    return targets.withColumns(columns)


def _rank_and_size() -> Column:
    """One struct (predictor, rank, size) per predictor."""
    # A client does not move to the site where it is, so that site takes no place on the list.
    popular = F.col("rank_0") - F.coalesce((F.col("own_rank") < F.col("rank_0")).cast("int"), F.lit(0))
    size_0 = F.col("size_0") - F.col("own_rank").isNotNull().cast("int")
    size_1, size_2 = F.col("size_1"), F.col("size_2")
    after_1 = size_1 + popular - F.col("better_1")
    after_2 = size_2 + F.col("rank_1") - F.col("better_2")
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
