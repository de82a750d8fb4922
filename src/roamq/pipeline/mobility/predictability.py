"""How predictable clients are: random, uncorrelated and real entropy, and the bound on next-site prediction.

The entropy rate depends on all repetitions in a client's whole sequence, which no expression of Spark can count: a
function over Arrow lists gets one sequence per client (`roamq.models.entropy`). Numbers of visits and the other
entropies are aggregations.
"""

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType

from roamq.models.entropy import predictability, real_entropy
from roamq.pipeline.conform import conform
from roamq.pipeline.schemas import ENTROPIES
from roamq.pipeline.silver import CONNECTED
from roamq.pipeline.vectorised import arrow_function


def visits(sojourns: DataFrame) -> DataFrame:
    """Sojourns -> (client, time, site): the connected stays, of which two in a row at one site are one visit.

    Example:
        >>> entropies(visits(stays)).show()
    """
    by_begin = Window.partitionBy("client").orderBy("begin", "end")
    placed = sojourns.where((F.col("state") == CONNECTED) & F.col("site").isNotNull())
    came = placed.withColumn("before", F.lag("site").over(by_begin))
    is_new = F.col("before").isNull() | (F.col("before") != F.col("site"))
    return came.where(is_new).select("client", F.col("begin").alias("time"), "site")


def sampled(sojourns: DataFrame, every_s: int = 3600) -> DataFrame:
    """Sojourns -> (client, time, site): in each bin of `every_s` the site with the longest stay, as Song et al. sample
    their callers once an hour. Bins in which a client was nowhere are left out.
    """
    placed = sojourns.where((F.col("state") == CONNECTED) & F.col("site").isNotNull())
    first, last = (F.floor(F.unix_seconds(time) / every_s) for time in ("begin", "end"))
    binned = placed.withColumn("bin", F.explode(F.sequence(first, last)))
    bin_begin = F.col("bin") * every_s
    inside = F.least(F.unix_micros("end") / 1e6, bin_begin + every_s) - F.greatest(
        F.unix_micros("begin") / 1e6, bin_begin
    )
    spent = binned.groupBy("client", "bin", "site").agg(F.sum(inside).alias("spent_s"))
    longest = spent.groupBy("client", "bin").agg(
        F.min_by("site", F.struct(F.negative("spent_s"), "site")).alias("site")
    )
    return longest.select("client", F.timestamp_seconds(F.col("bin") * every_s).alias("time"), "site")


def entropies(visited: DataFrame, *, moves_only: bool = False) -> DataFrame:
    """(client, time, site) -> `schemas.ENTROPIES`, one row per client with two visits or more.

    `random_bits` is the logarithm of the number of sites, `uncorrelated_bits` the entropy of their shares of visits,
    `real_bits` that of the sequence, estimated by its repetitions. `predictability` is the bound that follows from
    `real_bits` by Fano's inequality. `moves_only`: a client never goes to the site where it is, as in a sequence of
    moves, so that a step leads to one site less.

    Example:
        >>> entropies(visits(stays), moves_only=True).selectExpr("avg(predictability)").show()
    """
    counted = visited.groupBy("client", "site").agg(F.count("*").alias("n"))
    whole = F.sum("n").over(Window.partitionBy("client"))
    share = counted.withColumn("share", F.col("n") / whole)
    plain = share.groupBy("client").agg(
        F.sum("n").alias("visits"),
        F.count("*").alias("sites"),
        F.log2(F.count("*")).alias("random_bits"),
        F.negative(F.sum(F.col("share") * F.log2("share"))).alias("uncorrelated_bits"),
    )
    sequences = visited.groupBy("client").agg(
        F.transform(F.array_sort(F.collect_list(F.struct("time", "site"))), lambda row: row["site"]).alias(
            "sequence"
        )
    )
    rate = arrow_function(_rates, DoubleType())
    bound = arrow_function(_bounds, DoubleType())
    choices = F.col("sites") - (1 if moves_only else 0)
    joined = plain.where("visits > 1").join(sequences, "client").withColumn("real_bits", rate("sequence"))
    return conform(joined.withColumn("predictability", bound("real_bits", choices)), ENTROPIES)


def _rates(sequences: pa.Array) -> pa.Array:
    return pa.array([real_entropy(sequence) for sequence in sequences.to_pylist()], pa.float64())


def _bounds(bits: pa.Array, places: pa.Array) -> pa.Array:
    pairs = zip(bits.to_pylist(), places.to_pylist(), strict=True)
    return pa.array([predictability(entropy, number) for entropy, number in pairs], pa.float64())
