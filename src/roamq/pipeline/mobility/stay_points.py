"""Stay points from positions: where a client remained within a distance for a time.

The rule is that of Li et al. (2008) as trackintel applies it: a run of positions begins at the first one and ends with
the first that lies `distance_m` or farther from it, or that follows a silence; a run that lasts long enough is a stay.
Each run begins where the last one ended, which no window can express: a function reads the positions of one client
after the other in time order and remembers where the run began. Everything else is an aggregation.
"""

import math
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from roamq.pipeline.conform import conform
from roamq.pipeline.schemas import STAY_POINTS
from roamq.pipeline.silver import EARTH_RADIUS_M
from roamq.pipeline.vectorised import arrow_function

Columns = tuple[pa.Array, pa.Array, pa.Array, pa.Array]


def stay_points(
    observations: DataFrame,
    *,
    distance_m: float = 200.0,
    duration_s: float = 1200.0,
    gap_s: float = 3600.0,
    in_degrees: bool = True,
) -> DataFrame:
    """Observations with positions -> `schemas.STAY_POINTS`.

    A stay lasts at least `duration_s` within less than `distance_m` of its first position; a silence of more than
    `gap_s` ends it. Positions are degrees, or metres on a plane. The last stay of a client, which nothing ends, counts
    if it has lasted long enough.

    Example:
        >>> stay_points(trace.observations, distance_m=100, duration_s=600).orderBy("client", "begin").show()
    """
    placed = observations.where(F.col("x").isNotNull() & F.col("y").isNotNull()).select(
        "client", "time", "tie", "x", "y"
    )
    ordered = placed.repartition("client").sortWithinPartitions("client", "time", "tie")
    mark = arrow_function(_marker(distance_m, gap_s, in_degrees), LongType(), stateful=True)
    marked = ordered.withColumn("run", mark("client", F.unix_micros("time"), "x", "y"))
    runs = marked.groupBy("client", "run").agg(
        F.min("time").alias("begin"),
        F.max("time").alias("last_seen"),
        F.avg("x").alias("x"),
        F.avg("y").alias("y"),
        F.count("*").alias("observations"),
    )
    following = F.lead("begin").over(Window.partitionBy("client").orderBy("run"))
    micros = F.unix_micros(following) - F.unix_micros("last_seen")
    end = F.when(micros <= int(gap_s * 1e6), following).otherwise(F.col("last_seen"))
    found = runs.withColumn("end", end)
    return conform(
        found.where(F.unix_micros("end") - F.unix_micros("begin") >= int(duration_s * 1e6)), STAY_POINTS
    )


def _marker(
    distance_m: float, gap_s: float, in_degrees: bool
) -> Callable[[Iterator[Columns]], Iterator[pa.Array]]:
    distance = _on_earth if in_degrees else _on_plane

    def runs_of(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        """Positions sorted by client and time -> the number of the run that each belongs to, per task."""
        client: object = None
        run, before, x, y = 0, 0, 0.0, 0.0
        for columns in batches:
            marks: list[int] = []
            for now_client, micros, now_x, now_y in zip(*(c.to_pylist() for c in columns), strict=True):
                if (
                    now_client != client
                    or micros - before > gap_s * 1e6
                    or distance(x, y, now_x, now_y) >= distance_m
                ):
                    client, x, y = now_client, now_x, now_y
                    run += 1
                before = micros
                marks.append(run)
            yield pa.array(marks, pa.int64())

    return runs_of


def _on_plane(x: float, y: float, other_x: float, other_y: float) -> float:
    return math.hypot(other_x - x, other_y - y)


def _on_earth(x: float, y: float, other_x: float, other_y: float) -> float:
    """Metres between two places in degrees, by the haversine formula."""
    lat, other_lat = math.radians(y), math.radians(other_y)
    across = math.sin(math.radians(other_x - x) / 2) ** 2
    chord = math.sin((other_lat - lat) / 2) ** 2 + math.cos(lat) * math.cos(other_lat) * across
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(chord)))
