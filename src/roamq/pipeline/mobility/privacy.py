"""Privacy: pseudonyms for clients, coarser times, and the risk that a client is known again.

Pseudonyms are a keyed hash (HMAC-SHA-256): the same client has the same pseudonym wherever the key is the same, and
without the key nobody can try names. The whole of it is column expressions.
"""

import hashlib
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.pipeline.conform import conform
from roamq.pipeline.schemas import OBSERVATIONS, RISKS
from roamq.pipeline.silver import CONNECTED

KEY_BYTES_MIN = 16
KNOWN_MAX = 4
PSEUDONYM_LETTERS = 32
_BLOCK_BYTES = 64


def pseudonymise(observations: DataFrame, key: bytes, *, coarsen_s: int = 0) -> DataFrame:
    """Observations with pseudonyms for clients; with `coarsen_s`, times are cut to multiples of so many seconds.

    The key is part of the query: whoever can read Spark's plans or its history can read it.

    Example:
        >>> pseudonymise(trace.observations, key=Path("key").read_bytes(), coarsen_s=300)
    """
    if len(key) < KEY_BYTES_MIN:
        raise ConfigError(
            f"key: must have {KEY_BYTES_MIN} bytes or more, has {len(key)}; `openssl rand 32` makes one"
        )
    columns = {"client": F.substring(_hmac(F.col("client"), key), 1, PSEUDONYM_LETTERS)}
    if coarsen_s:
        columns["time"] = F.timestamp_seconds(F.floor(F.unix_seconds("time") / coarsen_s) * coarsen_s)
    return conform(observations.withColumns(columns), OBSERVATIONS)


def _hmac(text: Column, key: bytes) -> Column:
    """HMAC-SHA-256 of a text in UTF-8, in hexadecimal (RFC 2104)."""
    short = key if len(key) <= _BLOCK_BYTES else hashlib.sha256(key).digest()
    padded = short.ljust(_BLOCK_BYTES, b"\0")
    inner, outer = (F.lit(bytearray(byte ^ pad for byte in padded)) for pad in (0x36, 0x5C))
    digest = F.unhex(F.sha2(F.concat(inner, F.encode(text, "UTF-8")), 256))
    return F.sha2(F.concat(outer, digest), 256)


def reidentification_risk(sojourns: DataFrame, *, known: int = 2, bin_s: int = 0) -> DataFrame:
    """Sojourns -> `schemas.RISKS`: how few clients fit the worst that an observer can know of a client.

    The observer knows `known` of the client's sites, or with `bin_s` sites with the bin of time at which the client
    came there. Of all choices of so many, the one that the fewest clients share counts; a client with fewer sites is
    known by all of them. `alike` is 1 where the client alone fits.

    All choices are made: a client with n of them has about n to the power of `known` rows.

    Example:
        >>> reidentification_risk(stays, known=2, bin_s=3600).groupBy("alike").count().show()
    """
    if not 1 <= known <= KNOWN_MAX:
        raise ConfigError(f"known: must lie between 1 and {KNOWN_MAX}, got {known}")
    points = _points(sojourns, bin_s)
    several = points.groupBy("client").agg(F.least(F.count("*"), F.lit(known)).alias("least"))
    choices = reduce(
        lambda so_far, _: _one_more(so_far, points),
        range(known - 1),
        points.select("client", F.array("point").alias("set")),
    )
    # A client that has fewer points than the observer may know keeps its longest choice.
    of_size = choices.join(several, "client").where(F.size("set") == F.col("least"))
    wanted = of_size.select("client", "set", "least")
    holders = choices.groupBy("set").agg(F.count_distinct("client").alias("alike"))
    worst = wanted.join(holders, "set").groupBy("client").agg(F.min(F.struct("alike", "set")).alias("worst"))
    return conform(
        worst.select(
            "client",
            F.concat_ws(", ", "worst.set").alias("known"),
            F.col("worst.alike").alias("alike"),
            (1 / F.col("worst.alike")).alias("risk"),
        ),
        RISKS,
    )


def _points(sojourns: DataFrame, bin_s: int) -> DataFrame:
    placed = sojourns.where((F.col("state") == CONNECTED) & F.col("site").isNotNull())
    if not bin_s:
        return placed.select("client", F.col("site").alias("point")).distinct()
    when = F.timestamp_seconds(F.floor(F.unix_seconds("begin") / bin_s) * bin_s).cast("string")
    return placed.select("client", F.concat_ws(" at ", "site", when).alias("point")).distinct()


def _one_more(choices: DataFrame, points: DataFrame) -> DataFrame:
    """Choices and, for each, the choices with one point more; points in a choice are in order."""
    longer = choices.join(points, "client").where(F.col("point") > F.element_at("set", -1))
    return choices.unionByName(
        longer.select("client", F.concat("set", F.array("point")).alias("set"))
    ).distinct()


def anonymity(frame: DataFrame, *columns: str) -> DataFrame:
    """One row per client -> the same with `alike`, how many clients have the same values in `columns`: the k of
    k-anonymity.

    Example:
        >>> anonymity(home_and_work(stays), "home", "work").where("alike < 5").count()
    """
    from pyspark.sql import Window

    return frame.withColumn("alike", F.count("*").over(Window.partitionBy(*columns)))
