"""Reconnects compared: literal rows in, literal rows out."""

import pytest
from pyspark.sql import SparkSession

from roamq.core.records import Record
from roamq.pipeline.roaming import reconnects
from tests.pipeline.test_metrics import delivered, records_of, runs_of

pytestmark = pytest.mark.spark


def test_only_reconnects_with_a_message_waiting_count_apart_by_where_they_were(spark: SparkSession) -> None:
    records = records_of(
        spark,
        *(Record("connected", 12.0, "b1", client) for client in ("c1", "c2", "c3")),
        Record("connected", 20.0, "b1", "c1", peer="b1"),  # back at its broker
        delivered("c1", 1, 21.0, 5.0),
        Record("connected", 20.0, "b2", "c2", peer="b1"),
        delivered("c2", 1, 22.0, 6.0),
        Record("connected", 40.0, "b3", "c2", peer="b2"),
        delivered("c2", 2, 44.0, 5.0),
        Record("connected", 20.0, "b2", "c3", peer="b1"),  # nothing waits: the event is published later
        delivered("c3", 3, 99.0, 1.0),
    )

    (row,) = reconnects(records, runs_of(spark)).collect()

    assert (row.scheme, row.same, row.same_median_s, row.moved, row.moved_median_s) == (
        "standard",
        1,
        1.0,
        2,
        3.0,
    )
