"""Metrics of mobile brokers, from literal records."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from roamq.core.records import Record
from roamq.pipeline.regions import region_metrics
from roamq.pipeline.schemas import METRICS, RECORDS, RUNS, columns

pytestmark = pytest.mark.spark


def metrics_of(spark: SparkSession, records: list[Record]) -> dict[tuple[str, str], Any]:
    rows: list[Any] = [("run-1", position, *record) for position, record in enumerate(records)]
    frame = spark.createDataFrame(rows, schema=RECORDS)
    described: dict[str, Any] = {
        "run_id": "run-1",
        "scenario": "s",
        "scheme": "drip",
        "seed": 1,
        "params": {"k": "4"},
    }
    runs = spark.createDataFrame([tuple(described.get(name) for name in columns(RUNS))], schema=RUNS)
    result = region_metrics(frame, runs)
    assert result.columns == columns(METRICS)
    return {(row.metric, row.entity): row.value for row in result.toLocalIterator()}


def published(sequence: int, count: int) -> Record:
    return Record("published", 0.0, client="n9", origin="n9", sequence=sequence, count=count)


def copied(time: float, broker: str, sequence: int = 1, role: str = "carrier") -> Record:
    return Record("copied", time, broker=broker, origin="n9", sequence=sequence, detail=role)


def delivered(time: float, client: str, sequence: int = 1, broker: str = "n0") -> Record:
    return Record(
        "delivered", time, broker=broker, client=client, origin="n9", sequence=sequence, duration_s=time
    )


def test_coverage_counts_the_copies_at_the_time_of_each_delivery(spark: SparkSession) -> None:
    """[DRIP] section VI-A: brokers "that have the copy of a specified event when its subscriber gets it"."""
    found = metrics_of(
        spark,
        [
            published(1, 2),
            copied(1.0, "n0"),
            delivered(1.0, "n5"),  # the same instant: its broker has it
            copied(2.0, "n1"),
            copied(2.5, "n2", sequence=2),  # another event
            copied(3.0, "n2"),
            delivered(4.0, "n6"),
            copied(5.0, "n3"),  # too late to count
        ],
    )

    assert found["broker_coverage", "all"] == pytest.approx((1 / 4 + 3 / 4) / 2)
    assert found["broker_coverage_in_the_end", "all"] == pytest.approx(4 / 4), (
        "the other event is not delivered"
    )


def test_delay_ratio_and_transmissions(spark: SparkSession) -> None:
    found = metrics_of(
        spark,
        [
            published(1, 3),
            published(2, 1),
            copied(0.5, "n0", role="source"),
            copied(4.0, "n1"),
            delivered(1.0, "n5"),
            delivered(5.0, "n6", broker="n1"),
            Record("traffic", 10.0, detail="hello", count=30, hops=30, bytes=9),
            Record("traffic", 20.0, detail="hello", count=10, hops=10, bytes=9),
            Record("traffic", 20.0, detail="event", count=4, hops=4, bytes=9),
        ],
    )

    assert found == pytest.approx(
        {
            ("broker_coverage", "all"): (1 / 4 + 2 / 4) / 2,
            ("broker_coverage_in_the_end", "all"): 2 / 4,
            ("delivery_delay_s", "all"): 3.0,
            ("delivery_delay_s_p50", "all"): 3.0,
            ("delivery_delay_s_p90", "all"): 4.6,
            ("delivered_by_source", "all"): 0.5,
            ("delivery_ratio", "all"): 0.5,
            ("restricted_delay_s", "all"): (1.0 + 5.0 + 60.0 + 60.0) / 4,
            ("wanted_by", "all"): 2.0,
            ("publication_delay_s", "all"): 0.5,
            ("spreading_s", "all"): 4.0,
            ("transmissions_per_delivery", "all"): 22.0,
            ("transmissions_per_delivery", "hello"): 20.0,
            ("transmissions_per_delivery", "event"): 2.0,
            ("transmissions_per_s", "all"): 2.2,
            ("transmissions_per_s", "hello"): 2.0,
            ("transmissions_per_s", "event"): 0.2,
            ("bytes_per_s", "all"): 1.35,
            ("bytes_per_s", "hello"): 0.9,
            ("bytes_per_s", "event"): 0.45,
        }
    )


def test_a_run_without_deliveries_has_no_cost_of_one(spark: SparkSession) -> None:
    found = metrics_of(
        spark, [published(1, 2), Record("traffic", 10.0, detail="hello", count=30, hops=30, bytes=9)]
    )

    assert found["delivery_ratio", "all"] == 0.0
    assert found["transmissions_per_delivery", "all"] is None
    assert found["transmissions_per_s", "all"] == 3.0


def test_events_are_told_apart_by_who_detected_them(spark: SparkSession) -> None:
    def region(client: str, sequence: int, population: int) -> Record:
        return Record(
            "region", 0.0, broker="n0", client=client, origin="n9", sequence=sequence, count=population
        )

    found = metrics_of(
        spark,
        [
            *(published(sequence, 1) for sequence in (1, 2, 3)),
            region("n0", 1, 10),
            region("n0", 2, 30),
            region("n9", 3, 20),
            delivered(8.0, "n5", sequence=1),
            delivered(4.0, "n5", sequence=2),
            delivered(3.0, "n5", sequence=3),
        ],
    )

    assert found["detected_delay_s", "broker"] == pytest.approx(6.0)
    assert found["detected_population", "broker"] == pytest.approx(20.0)
    assert found["detected_delay_by_population_s", "broker"] == pytest.approx((8 * 10 + 4 * 30) / 40)
    assert found["detected_delay_s", "node"] == pytest.approx(3.0)
    assert found["wanted_by", "all"] == pytest.approx(1.0)


def test_what_comes_after_a_minute_or_never_counts_as_a_minute(spark: SparkSession) -> None:
    found = metrics_of(spark, [published(1, 4), delivered(10.0, "n5"), delivered(90.0, "n6")])

    assert found["delivery_ratio", "all"] == 0.5
    assert found["delivery_delay_s", "all"] == 50.0
    assert found["restricted_delay_s", "all"] == (10.0 + 60.0 + 60.0 + 60.0) / 4


def test_without_a_delivery_every_event_counts_as_a_minute(spark: SparkSession) -> None:
    assert metrics_of(spark, [published(1, 4)])["restricted_delay_s", "all"] == 60.0


def test_destinations_are_timed_from_when_the_source_has_the_event(spark: SparkSession) -> None:
    """[DRIP] section V-C: T_mcmd is the time until all destinations have the event."""
    found = metrics_of(
        spark,
        [
            copied(1.0, "n0", role="source"),
            copied(2.0, "n1"),  # a carrier is no destination
            copied(3.0, "n2", role="destination"),
            copied(7.0, "n3", role="destination"),
            copied(0.0, "n0", sequence=2, role="source"),
            copied(1.0, "n3", sequence=2, role="destination"),
        ],
    )

    assert found["destination_found_s", "all"] == (2.0 + 6.0 + 1.0) / 3
    assert found["destinations_found_s", "all"] == (6.0 + 1.0) / 2
    assert found["destinations_harmonic", "all"] == (1.5 + 1.0) / 2
    assert found["destinations_printed", "all"] == (2.5 + 1.0) / 2


def test_equation_1_is_held_against_when_the_last_destination_was_found(spark: SparkSession) -> None:
    """One destination each, found after 1, 2, 3 and 10 s, 4 on average: Eq. 1 gives 22, 39, 53 and 92% by then."""
    records = [
        one
        for sequence, found_s in enumerate((1.0, 2.0, 3.0, 10.0), start=1)
        for one in (
            copied(0.0, "n0", sequence=sequence, role="source"),
            copied(found_s, "n3", sequence=sequence, role="destination"),
        )
    ]

    found = metrics_of(spark, records)

    assert [found["destinations_found_share", percent] for percent in ("25", "50", "75")] == [0.25, 0.5, 0.75]
