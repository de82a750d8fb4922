"""Transfers under way at once, on a handful of literal records."""

import pytest
from pyspark.sql import SparkSession

from roamq.core.records import Record
from roamq.pipeline.under_way import latency_over_time, transfers_under_way
from tests.pipeline.test_metrics import assert_metrics, delivered, expected, records_of, runs_of

pytestmark = pytest.mark.spark


def moved(client: str, at: float, came_from: str | None = "b1") -> Record:
    return Record("connected", at, "b2", client, peer=came_from)


def test_a_transfer_lasts_from_the_reconnect_to_the_last_event_that_was_stored(spark: SparkSession) -> None:
    records = records_of(
        spark,
        moved("c1", 100.0),
        delivered("c1", 1, 150.0, 100.0, "transferred"),
        moved("c2", 200.0),
        delivered("c1", 2, 250.0, 160.0, "stored"),  # a log had it
        delivered("c1", 3, 255.0, 100.0, "stored"),  # published after the reconnect: no part of the transfer
        delivered("c2", 1, 350.0, 300.0, "transferred"),
        delivered("c2", 4, 400.0, 390.0),  # live, however late it is
        moved("c3", 300.0, came_from="b2"),  # came back
        delivered("c3", 1, 301.0, 250.0, "stored"),
        moved("c4", 5.0),  # before the window
        delivered("c4", 1, 290.0, 289.0, "transferred"),
        moved("c5", 220.0),  # nothing was stored
    )

    wanted = expected(
        spark,
        ("transfer_s_mean", "all", 150.0),
        ("transfers_at_once", "300.0", 250.0 / 300),  # c1 from 100 to 250, c2 from 200 on
        ("transfers_at_once", "600.0", 50.0 / 300),
        ("transfers_at_once_max", "all", 2.0),
        ("transfers_at_once_max_at_s", "all", 200.0),
    )
    assert_metrics(transfers_under_way(records, runs_of(spark, until_s=500.0)), wanted)


def test_a_transfer_that_begins_as_another_ends_is_not_at_once_with_it(spark: SparkSession) -> None:
    records = records_of(
        spark,
        moved("c1", 100.0),
        delivered("c1", 1, 150.0, 100.0, "transferred"),
        moved("c2", 150.0),
        delivered("c2", 1, 160.0, 100.0, "transferred"),
    )

    found = {
        row.metric: row.value for row in transfers_under_way(records, runs_of(spark, until_s=500.0)).collect()
    }

    assert found["transfers_at_once_max"] == 1.0
    assert found["transfers_at_once_max_at_s"] == 100.0


def test_latency_over_time_is_that_of_live_messages_by_when_they_were_published(spark: SparkSession) -> None:
    records = records_of(
        spark,
        delivered("c1", 1, 301.0, 2.0),  # published at 299
        delivered("c2", 1, 303.0, 4.0),
        delivered("c1", 2, 302.0, 1.0),
        delivered("c1", 3, 300.0, 100.0, "transferred"),
    )

    wanted = expected(
        spark,
        ("live_in_bin", "300.0", 2.0),
        ("live_in_bin", "600.0", 1.0),
        ("live_latency_s_in_bin", "300.0", 3.0),
        ("live_latency_s_in_bin", "600.0", 1.0),
    )
    assert_metrics(latency_over_time(records, runs_of(spark, until_s=500.0)), wanted)
