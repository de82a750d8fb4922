"""What all metrics share: which records count, and the form of the rows.

The window. Events published from `warmup_s` until `until_s` count, and so do their deliveries, whenever these
happen: the end of a run is for them to arrive. Everything else (handoffs, traffic, buffers) counts by its own
time; a bin of traffic, if it ends after the warm-up and begins before the end.
"""

from collections.abc import Callable, Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.schemas import METRICS, columns

Metric = Callable[[DataFrame, DataFrame], DataFrame]
"""A group of metrics: a function of records and runs that returns rows of `schemas.METRICS`."""
DESCRIPTION = ("scenario", "scheme", "params", "seed")
"""What a run was made with."""
RUN = ("run_id", *DESCRIPTION)
ROUNDING_DIGITS = 6
"""Tolerance for the time of publication, which a delivery gives only as a difference of floats."""


def computed(groups: Iterable[Metric], records: DataFrame, runs: DataFrame) -> DataFrame:
    """What these groups of metrics say of all runs.

    They are given runs by name alone, and what a run was made with joins its metrics in the end: each record is grouped
    by the columns of its run, and would carry the parameters through every shuffle.
    """
    bare = runs.withColumns({name: F.lit(None).cast(runs.schema[name].dataType) for name in DESCRIPTION})
    rows = reduce(DataFrame.unionByName, (group(records, bare) for group in groups)).drop(*DESCRIPTION)
    described = rows.join(F.broadcast(runs.select("run_id", *DESCRIPTION)), "run_id")
    return described.select(*columns(METRICS))


def in_window(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The records that count, with their run's columns and `window_s`, the length of the window."""
    bounds = runs.select(
        *RUN, "warmup_s", "until_s", (F.col("until_s") - F.col("warmup_s")).alias("window_s")
    )
    is_delivery = F.col("kind") == "delivered"
    happened_s = F.when(is_delivery, F.col("time_s") - F.col("duration_s")).otherwise(F.col("time_s"))
    happened_s = F.round(happened_s, ROUNDING_DIGITS)
    after_warmup = happened_s > F.col("warmup_s")
    counts = (
        F.when(F.col("kind") == "processing", after_warmup)  # counted once, when the run is over
        .when(F.col("kind") == "traffic", after_warmup & (happened_s <= F.col("until_s")))
        .otherwise(happened_s.between(F.col("warmup_s"), F.col("until_s")))
    )
    return records.join(F.broadcast(bounds), "run_id").where(counts)


def long_rows(wide: DataFrame, values: dict[str, Column], entity: Column | None = None) -> DataFrame:
    """One row of `schemas.METRICS` per value; a metric without a value in a run has no row."""
    pairs = F.array(
        *(
            F.struct(F.lit(name).alias("metric"), value.cast("double").alias("value"))
            for name, value in values.items()
        )
    )
    entity = F.lit("all") if entity is None else entity.cast("string")
    return (
        wide.select(*RUN, entity.alias("entity"), F.explode(pairs).alias("pair"))
        .select(*RUN, F.col("pair.metric").alias("metric"), "entity", F.col("pair.value").alias("value"))
        .where(F.col("value").isNotNull())
        .select(*columns(METRICS))
    )


def sum_if(condition: Column, value: str) -> Column:
    return F.sum(F.when(condition, F.col(value)))
