"""The tables of the trace pipeline, declared with Spark Declarative Pipelines.

Streaming tables for what arrives, materialized views for what is derived from it; Spark finds the order, keeps the
checkpoints, and runs what can run side by side. The functions behind the tables are pure and live elsewhere: this
package only says which table is made of which.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roamq.pipeline.definitions import bronze, gold, silver
from roamq.pipeline.landing import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def declare_arrivals(spark: "SparkSession", sources: Sequence[Source]) -> list[str]:
    """Declare the tables of what arrives, in the graph that is being defined; returns their names."""
    return bronze.declare_arrivals(spark, sources)


def declare_derived(spark: "SparkSession", sources: Sequence[Source]) -> list[str]:
    """Declare all that follows from it."""
    return [
        *bronze.declare_quarantine(spark, sources),
        *silver.declare(spark, sources),
        *gold.declare(spark, sources),
    ]
