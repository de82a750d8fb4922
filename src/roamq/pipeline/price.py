"""What a scheme costs by a tariff: one price of traffic, memory and delay."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.models.tariff import BYTES_PER_GB, MESSAGES, SECONDS_PER_HOUR, Tariff
from roamq.pipeline.metric_rows import RUN, long_rows

PRICED: tuple[str, ...] = ("received_once", "traffic_bytes", "memory_byte_s", "mobility_delay_s_mean")
"""The metrics that a price is made of."""


def priced(metrics: DataFrame, tariff: Tariff) -> DataFrame:
    """The `price` of every run that has the metrics `PRICED`: of a million messages that clients received, by the
    tariff. `price_of` has its parts, by `entity`."""
    value = {name: F.max(F.when(F.col("metric") == name, F.col("value"))) for name in PRICED}
    runs = (
        metrics.where(F.col("metric").isin(*PRICED) & (F.col("entity") == "all"))
        .groupBy(*RUN)
        .agg(*(column.alias(name) for name, column in value.items()))
    )
    per_message = F.lit(MESSAGES) / F.nullif("received_once", F.lit(0.0))
    parts = {
        "traffic": tariff.traffic * F.col("traffic_bytes") / BYTES_PER_GB * per_message,
        "memory": tariff.memory * F.col("memory_byte_s") / BYTES_PER_GB / SECONDS_PER_HOUR * per_message,
        "delay": tariff.delay * F.col("mobility_delay_s_mean") / SECONDS_PER_HOUR * MESSAGES,
    }
    total = long_rows(runs, {"price": reduce(Column.__add__, parts.values())})
    of_parts = [long_rows(runs, {"price_of": part}, F.lit(name)) for name, part in parts.items()]
    return reduce(DataFrame.unionByName, of_parts, total)
