"""Reconnects compared: literal rows in, literal rows out."""

import pytest
from pyspark.sql import SparkSession

from roamq.pipeline.roaming import reconnects

COLUMNS = "run_id string, kind string, broker string, peer string, detail string, duration_s double"

pytestmark = pytest.mark.spark


def test_only_reconnects_with_a_message_waiting_count_apart_by_where_they_were(spark: SparkSession) -> None:
    records = spark.createDataFrame(
        [
            ("r", "handoff", "b1", "b1", "stored", 1.0),
            ("r", "handoff", "b2", "b1", "transferred", 2.0),
            ("r", "handoff", "b2", "b1", "stored", 4.0),
            ("r", "handoff", "b2", "b1", "live", 99.0),
            ("r", "delivered", "b2", None, "stored", 99.0),
        ],
        COLUMNS,
    )
    runs = spark.createDataFrame([("r", "standard")], "run_id string, scheme string")

    (row,) = reconnects(records, runs).collect()

    assert (row.scheme, row.same, row.same_median_s, row.moved, row.moved_median_s) == (
        "standard",
        1,
        1.0,
        2,
        3.0,
    )
