"""Positions that drive mobile brokers: what `roamq simulate drip --positions` reads, made of GPS or SUMO traces.

Longitude and latitude become meters on a plane that touches the earth in the middle of all positions, which is exact
enough for a city. A client that is silent for longer than the rule `gap_s` is absent meanwhile: what comes after the
silence is another node, `cab7/2`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.pipeline.conform import conform
from roamq.pipeline.placing import METRES_PER_DEGREE
from roamq.pipeline.schemas import POSITIONS
from roamq.pipeline.silver import drop_position_spikes, last_of_each_instant

if TYPE_CHECKING:
    from roamq.pipeline.api import LoadedTrace

SUFFIXES: Final = (".csv", ".parquet")


def positions(
    observations: DataFrame,
    *,
    in_degrees: bool,
    gap_s: float,
    begin_s: float = 0.0,
    seconds: float | None = None,
) -> DataFrame:
    """Observations with places -> `schemas.POSITIONS`.

    Those from `begin_s` after the first of all, and for so many `seconds`; all, without these.
    """
    time = F.unix_micros("time") / 1e6
    seen = last_of_each_instant(observations.where("x is not null and y is not null")).withColumn("at", time)
    first = seen.agg(F.min("at").alias("first"))
    since = F.col("at") - F.col("first")
    is_chosen = since >= begin_s if seconds is None else since.between(begin_s, begin_s + seconds)
    chosen = seen.crossJoin(F.broadcast(first)).where(is_chosen)
    placed = _on_a_plane(chosen) if in_degrees else chosen
    return conform(
        _cut_at_silences(placed, gap_s).select("client", (since - begin_s).alias("time"), "x", "y"), POSITIONS
    )


def _on_a_plane(observations: DataFrame) -> DataFrame:
    """Longitude and latitude in `x` and `y` -> meters east and north of the middle of all positions."""
    middle = observations.agg(
        ((F.min("x") + F.max("x")) / 2).alias("east"), ((F.min("y") + F.max("y")) / 2).alias("north")
    )
    width = METRES_PER_DEGREE * F.cos(F.radians("north"))
    return observations.crossJoin(F.broadcast(middle)).withColumns(
        {
            "x": (F.col("x") - F.col("east")) * width,
            "y": (F.col("y") - F.col("north")) * METRES_PER_DEGREE,
        }
    )


def _cut_at_silences(observations: DataFrame, gap_s: float) -> DataFrame:
    """Number the parts of a client's track between silences; the first part keeps the client's name."""
    by_time = Window.partitionBy("client").orderBy("at")
    is_new = (F.col("at") - F.lag("at").over(by_time) > gap_s).cast("int")
    part = F.sum(F.coalesce(is_new, F.lit(0))).over(by_time) + 1
    named = F.when(F.col("part") == 1, F.col("client")).otherwise(F.concat_ws("/", "client", "part"))
    return observations.withColumn("part", part).withColumn("client", named)


def write_positions(trace: "LoadedTrace", out: Path, *, begin_s: float, seconds: float | None) -> int:
    """Write the positions of a trace to the file `out`; returns how many there are."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    if out.suffix not in SUFFIXES:
        raise ConfigError(f"{out}: a file of positions ends with {' or '.join(SUFFIXES)}")
    if not trace.format.has_coordinates:
        raise ConfigError(f"format {trace.format.name!r} has sites, and no positions to move by")
    seen = trace.observations
    if trace.in_degrees and trace.rules.max_speed_mps > 0:
        seen = drop_position_spikes(seen, trace.rules.max_speed_mps)
    found = positions(
        seen, in_degrees=trace.in_degrees, gap_s=trace.rules.gap_s, begin_s=begin_s, seconds=seconds
    )
    table = found.orderBy("client", "time").toArrow()
    if table.num_rows == 0:
        raise ConfigError(f"--begin-s {begin_s:g}: the trace has no positions then")
    pq.write_table(table, out) if out.suffix == ".parquet" else pc.write_csv(table, out)
    rows: int = table.num_rows
    return rows
