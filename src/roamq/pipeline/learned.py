"""The small rows behind pictures of a dataset: what a report draws, as plain values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from roamq.pipeline.gold import WHOLE_NETWORK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAP_SITES: Final = 400
MAP_EDGES: Final = 600

Rows = list[dict[str, Any]]


def learned_rows(spark: "SparkSession", dataset: str) -> Mapping[str, Rows]:
    """Gold rows of one dataset, at most a few thousand: those that pictures need."""
    of_dataset = F.col("dataset") == dataset

    def rows(table: str, *order: Any, where: Any = None, limit: int = 5000) -> Rows:
        found = spark.read.table(table).where(of_dataset if where is None else of_dataset & where)
        return [row.asDict(recursive=True) for row in found.orderBy(*order).limit(limit).collect()]

    return {
        "sites": rows("sites", F.desc("observations"), "site", limit=MAP_SITES),
        "neighbor_graph": rows("neighbor_graph", F.desc("moves"), "from", "to", limit=MAP_EDGES),
        "ccdf": rows("ccdf", "period", F.desc("share_above")),
        "connectivity": rows("connectivity", "period", "aic", where=F.col("grouping") == "all"),
        "daily_profile": rows("daily_profile", "kind", "minute_of_day", where=F.col("site") == WHOLE_NETWORK),
        "prediction": rows("prediction", "predictor", "set_size"),
        "prediction_sets": rows("prediction_sets", "predictor", "target"),
        "days": rows("days", "day"),
    }
