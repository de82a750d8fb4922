"""Metrics of pre-handoff on a handful of literal records: the numbers can be checked by hand."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from roamq.core.records import Record
from roamq.pipeline.prehandoff import arrivals, just_in_time, normal_handoff_delay, prehandoff_metrics
from roamq.pipeline.schemas import RECORDS, RUNS

pytestmark = pytest.mark.spark


def noted(at: float, broker: str, client: str, peer: str, detail: str, count: int | None = None) -> Record:
    return Record("prehandoff", at, broker, client, peer=peer, detail=detail, count=count)


def handoff(at: float, client: str, waited: float) -> Record:
    return Record("handoff", at, "b2", client, peer="b1", detail="live", duration_s=waited)


PREHANDOFF = [
    noted(20.0, "b1", "c1", "b2", "requested", 1),
    noted(22.0, "b2", "c1", "b1", "ready", 1),  # set-up takes 2 s
    noted(26.0, "b2", "c1", "b1", "hit", 1),  # travelled for 6 s: three set-up times
    handoff(26.1, "c1", 0.11),
    noted(
        28.0, "b2", "c1", "b1", "missed"
    ),  # back and forth: the attempt of before has been of use, and is no more
    noted(30.0, "b1", "c2", "b2", "requested", 2),
    noted(31.0, "b2", "c2", "b1", "missed"),  # travelled for 1 s: half a set-up time
    handoff(32.6, "c2", 1.61),
    noted(40.0, "b1", "c3", "b2", "requested", 3),
    noted(41.0, "b1", "c3", "b2", "cancelled", 3),
    noted(42.0, "b2", "c3", "b1", "missed"),  # nobody expected it then: it has no travel time
    noted(50.0, "b1", "c4", "b2", "requested", 4),
    noted(52.0, "b2", "c4", "b1", "ready", 4),
    noted(57.0, "b1", "c4", "b2", "cancelled", 4),
    noted(58.0, "b2", "c4", "b1", "wasted", 12),
    Record("traffic", 60.0, detail="control", count=10, hops=25, bytes=400),
    Record("traffic", 60.0, detail="context", count=4, hops=5, bytes=400),
    Record("traffic", 60.0, detail="event", count=90, hops=900, bytes=400),
]
STANDARD = [handoff(30.0, "c1", 1.6), handoff(40.0, "c2", 1.8)]


def tables(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    rows = [("r1", n, *row) for n, row in enumerate(PREHANDOFF)]
    rows += [("r2", n, *row) for n, row in enumerate(STANDARD)]
    runs = [
        (run_id, "city", scheme, 7, {"d": "1"}, "m:f", 10.0, 110.0, "ok", None, "", 0.1, 9)
        for run_id, scheme in (("r1", "prehandoff"), ("r2", "standard"))
    ]
    return spark.createDataFrame(rows, schema=RECORDS), spark.createDataFrame(runs, schema=RUNS)


def test_timeliness_by_travel_time_over_set_up_time(spark: SparkSession) -> None:
    bins = {row["bin"]: row for row in just_in_time(*tables(spark)).collect()}
    assert set(bins) == {0.4, 3.0}
    early, timely = bins[0.4], bins[3.0]
    assert (early["handoffs"], early["just_in_time"]) == (1, 0.0)
    assert early["ratio"] == pytest.approx(0.5)
    assert early["delay"] == pytest.approx(1.61 / 2)
    assert (timely["handoffs"], timely["just_in_time"]) == (1, 1.0)
    assert timely["delay"] == pytest.approx(0.11 / 2)


def test_the_normal_handoff_is_measured_in_the_set_up_times_of_the_same_setting(spark: SparkSession) -> None:
    [row] = normal_handoff_delay(*tables(spark)).collect()
    assert row["handoffs"] == 2
    assert row["delay"] == pytest.approx(0.85)


def test_costs_are_per_handoff(spark: SparkSession) -> None:
    rows = {row["metric"]: row["value"] for row in prehandoff_metrics(*tables(spark)).collect()}
    assert rows == pytest.approx(
        {
            "handoffs": 4.0,
            "hit_pct": 100 / 4,
            "virtual_consumers_per_handoff": 4 / 4,
            "virtual_consumer_s_per_handoff": (4.0 + 6.0) / 4,
            "control_hops_per_handoff": 7.5,
            "wasted_events_per_handoff": 3.0,
            "ping_pong_pct": 0.0,
            "again_pct": 0.0,
        }
    )


def test_to_and_fro_is_told_by_the_minute(spark: SparkSession) -> None:
    def connected(at: float, client: str, broker: str, peer: str) -> Record:
        return Record("connected", at, broker, client, peer=peer)

    records = [
        connected(20.0, "c1", "b2", "b1"),
        connected(70.0, "c1", "b1", "b2"),  # back after 50 s
        connected(75.0, "c1", "b3", "b1"),  # on, and not back
        connected(20.0, "c2", "b2", "b1"),
        connected(90.0, "c2", "b1", "b2"),  # back after 70 s: too long
        noted(20.0, "b2", "c1", "b1", "hit", 1),
        noted(70.0, "b1", "c1", "b2", "missed"),
        noted(75.0, "b3", "c1", "b1", "missed"),
        noted(20.0, "b2", "c2", "b1", "missed"),
        noted(90.0, "b1", "c2", "b2", "missed"),
        noted(21.0, "b2", "c1", "b1", "requested", 1),
        noted(22.0, "b2", "c1", "b1", "cancelled", 1),
        noted(23.0, "b2", "c1", "b3", "requested", 2),  # of another server
        noted(60.0, "b2", "c1", "b1", "requested", 3),  # again
        noted(61.0, "b2", "c1", "b1", "requested", 4),  # not cancelled before
    ]
    rows = [("r1", n, *row) for n, row in enumerate(records)]
    _, runs = tables(spark)

    found = prehandoff_metrics(spark.createDataFrame(rows, schema=RECORDS), runs.where("run_id = 'r1'"))

    values = {row["metric"]: row["value"] for row in found.collect()}
    assert values["ping_pong_pct"] == pytest.approx(100 / 5)
    assert values["again_pct"] == pytest.approx(100 / 4)


def test_the_set_up_time_is_that_of_the_attempt(spark: SparkSession) -> None:
    """Where set-ups differ, a client that had to wait for a slow one is not taken for one that came in time."""
    records = [
        noted(20.0, "b1", "c1", "b2", "requested", 1),
        noted(21.0, "b2", "c1", "b1", "ready", 1),
        noted(30.0, "b2", "c1", "b1", "hit", 1),
        noted(40.0, "b1", "c2", "b2", "requested", 2),
        noted(48.0, "b2", "c2", "b1", "unready", 2),  # after 8 s
        noted(49.0, "b2", "c2", "b1", "ready", 2),  # of 9; the mean of the pair is 5
    ]
    rows = [("r1", n, *row) for n, row in enumerate(records)]
    _, runs = tables(spark)

    found = just_in_time(spark.createDataFrame(rows, schema=RECORDS), runs.where("run_id = 'r1'"))

    assert {row["bin"]: row["just_in_time"] for row in found.collect()} == {10.0: 1.0, 0.8: 0.0}


def test_a_set_up_that_was_cut_off_takes_longer_than_its_client_travelled(spark: SparkSession) -> None:
    """One set-up of the pair takes 2 s, one 6 s: a client that comes after 3 s to nothing has had one of the longer."""

    def attempt(at: float, client: str, number: int, setup_s: float) -> list[Record]:
        return [
            noted(at, "b1", client, "b2", "requested", number),
            noted(at + setup_s, "b2", client, "b1", "ready", number),
            noted(at + 9.0, "b2", client, "b1", "hit", number),
        ]

    def early(at: float, client: str, number: int, travel_s: float) -> list[Record]:
        return [
            noted(at, "b1", client, "b2", "requested", number),
            noted(at + travel_s, "b2", client, "b1", "unready", number),
        ]

    records = [
        *attempt(20.0, "c1", 1, 2.0),
        *attempt(40.0, "c2", 2, 6.0),
        *early(60.0, "c3", 3, 3.0),
        *early(80.0, "c4", 4, 7.0),  # longer than any that was completed
    ]
    run = ("r1", "city", "prehandoff", 7, {"d": "1"}, "m:f", 10.0, 110.0, "ok", None, "", 0.1, 9)
    rows = [("r1", n, *row) for n, row in enumerate(records)]
    came = {
        row["client"]: row
        for row in arrivals(
            spark.createDataFrame(rows, schema=RECORDS), spark.createDataFrame([run], schema=RUNS)
        ).collect()
    }

    assert (came["c3"]["setup_s"], came["c3"]["is_early"]) == (pytest.approx(6.0), True)
    assert (came["c4"]["setup_s"], came["c4"]["is_early"]) == (None, True)
    assert (came["c1"]["setup_s"], came["c1"]["is_early"]) == (pytest.approx(2.0), False)
    found = just_in_time(
        spark.createDataFrame(rows, schema=RECORDS), spark.createDataFrame([run], schema=RUNS)
    )
    assert {row["bin"]: row["handoffs"] for row in found.collect()} == {0.4: 1, 0.8: 1, 1.5: 1, 3.0: 1}
