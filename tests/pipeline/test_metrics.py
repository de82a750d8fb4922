"""Each metric on a handful of literal records: the numbers can be checked by hand."""

import math
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from roamq.core.records import Record
from roamq.models.tariff import Tariff
from roamq.pipeline import metrics
from roamq.pipeline.price import priced
from roamq.pipeline.schemas import METRICS, RECORDS, RUNS, SUMMARY, columns
from roamq.pipeline.traffic import (
    overhead,
    overhead_by_kind,
    overhead_over_time,
    overhead_peak,
    traffic_by_kind,
)

pytestmark = pytest.mark.spark

Row = tuple[str, str, float | None]


def records_of(spark: SparkSession, *rows: Record) -> DataFrame:
    return spark.createDataFrame([("r1", n, *row) for n, row in enumerate(rows)], schema=RECORDS)


def runs_of(spark: SparkSession, warmup_s: float = 10.0, until_s: float = 110.0) -> DataFrame:
    row = ("r1", "toy", "standard", 7, {"n": "1"}, "m:f", warmup_s, until_s, "ok", None, "", 0.1, 9)
    return spark.createDataFrame([row], schema=RUNS)


def expected(spark: SparkSession, *rows: Row) -> DataFrame:
    return spark.createDataFrame(
        [("r1", "toy", "standard", {"n": "1"}, 7, metric, entity, value) for metric, entity, value in rows],
        schema=METRICS,
    )


def assert_metrics(actual: DataFrame, wanted: DataFrame) -> None:
    """Rows and types. Values are rounded; nullability follows from the expressions and is not promised."""
    rounded = F.round("value", 9)
    in_order = ("metric", "entity")
    assert_df_equality(
        actual.withColumn("value", rounded).orderBy(*in_order),
        wanted.withColumn("value", rounded).orderBy(*in_order),
        ignore_nullable=True,
    )


def published(sequence: int, at: float, count: int) -> Record:
    return Record("published", at, "b1", "p0", "b1", sequence, count=count)


def delivered(client: str, sequence: int, at: float, after: float, how: str = "live", **more: Any) -> Record:
    return Record("delivered", at, "b2", client, "b1", sequence, detail=how, duration_s=after, **more)


def test_delivery_counts_what_was_published_in_the_window(spark: SparkSession) -> None:
    records = records_of(
        spark,
        published(1, 9.0, 2),  # before the window, and so is its delivery, which happens inside
        delivered("c1", 1, 12.0, 3.0),
        published(2, 10.0, 2),
        delivered("c1", 2, 11.0, 1.0),
        delivered("c2", 2, 12.0, 2.0, "transferred"),
        delivered("c2", 2, 13.0, 3.0),  # again
        published(3, 110.0, 2),
        delivered("c1", 3, 150.0, 40.0),  # late, but of an event in the window; c2 never gets it
        published(4, 110.5, 2),
    )

    actual = metrics.delivery(records, runs_of(spark))

    wanted = expected(
        spark,
        ("published", "all", 2.0),
        ("received", "all", 4.0),
        ("received_once", "all", 3.0),
        ("throughput", "all", 0.04),
        ("throughput_per_subscriber", "all", 0.02),
        ("loss_pct", "all", 25.0),
        ("duplication_pct", "all", 25.0),
        ("transferred_pct", "all", 25.0),
    )
    assert_metrics(actual, wanted)


def test_a_publication_time_that_is_a_difference_of_floats_is_not_outside(spark: SparkSession) -> None:
    at = 0.1 + 0.2  # one step above 0.3
    records = records_of(spark, published(1, 0.3, 1), delivered("c1", 1, 0.3 + at, at))

    actual = metrics.delivery(records, runs_of(spark, warmup_s=0.3, until_s=1.3))

    assert {row.metric: row.value for row in actual.collect()}["loss_pct"] == 0.0


def test_latency_is_over_deliveries(spark: SparkSession) -> None:
    rows = [delivered("c1", n, 20.0 + n / 100, n / 100) for n in range(1, 101)]

    actual = metrics.latency(records_of(spark, *rows), runs_of(spark))

    wanted = expected(
        spark,
        ("latency_s_mean", "all", 0.505),
        ("latency_s_p50", "all", 0.5),
        ("latency_s_p95", "all", 0.95),
        ("latency_s_p99", "all", 0.99),
    )
    assert_metrics(actual, wanted)


def test_a_client_that_comes_back_to_its_broker_had_no_handoff(spark: SparkSession) -> None:
    records = records_of(
        spark,
        Record("connected", 15.0, "b1", "c1"),
        Record("connected", 20.0, "b2", "c1", peer="b1"),
        Record("handoff", 20.5, "b2", "c1", peer="b1", duration_s=0.5),
        Record("connected", 30.0, "b2", "c1", peer="b2"),
        Record("handoff", 39.0, "b2", "c1", peer="b2", duration_s=9.0),
        Record("handoff", 5.0, "b2", "c1", peer="b1", duration_s=3.0),
    )
    runs = runs_of(spark)

    assert_metrics(
        metrics.moves(records, runs), expected(spark, ("reconnects", "all", 2.0), ("handoffs", "all", 1.0))
    )
    assert_metrics(
        metrics.handoff_latency(records, runs),
        expected(spark, *((f"handoff_s_{what}", "all", 0.5) for what in ("mean", "p50", "p95", "p99"))),
    )


def test_a_context_that_is_handed_on_is_a_transfer_whether_its_client_is_there_or_not(
    spark: SparkSession,
) -> None:
    records = records_of(
        spark,
        Record("transferred", 5.0, "b1", "c1", peer="b2", count=1),  # in the warm-up
        Record("transferred", 20.0, "b1", "c1", peer="b2", count=3),
        Record("transferred", 21.0, "b2", "c1", peer="b3", count=0),
    )

    assert_metrics(metrics.transfers(records, runs_of(spark)), expected(spark, ("transfers", "all", 2.0)))


def test_the_distribution_of_handoffs_has_every_percent(spark: SparkSession) -> None:
    rows = [Record("handoff", 20.0, "b2", "c1", peer="b1", duration_s=float(n)) for n in range(101)]

    actual = metrics.handoff_distribution(records_of(spark, *rows), runs_of(spark)).collect()

    assert [row.probability for row in actual] == [n / 100 for n in range(101)]
    assert [row.value for row in actual] == pytest.approx([float(n) for n in range(101)])


def test_processing_time_is_per_event_and_by_broker(spark: SparkSession) -> None:
    """What an acknowledgement lets out belongs to the events; a broker is busy with whatever it does, of 110 s."""

    def spent(broker: str, detail: str, count: int, seconds: float) -> Record:
        return Record("processing", 60.0, broker, detail=detail, count=count, duration_s=seconds)

    records = records_of(
        spark,
        spent("b1", "event", 10, 1.0),
        spent("b1", "ack", 4, 0.5),
        spent("b2", "event", 30, 1.0),
        spent("b1", "control", 5, 9.5),
    )

    actual = metrics.processing(records, runs_of(spark))

    wanted = expected(
        spark,
        ("processing_s", "b1", 0.15),
        ("processing_s", "b2", 1 / 30),
        ("processing_s", "all", 0.0625),
        ("busy_pct", "b1", 10.0),
        ("busy_pct", "b2", 100 / 110),
    )
    assert_metrics(actual, wanted)


def test_subscribers_of_a_broker_are_counted_by_the_time_they_stay_within_the_window(
    spark: SparkSession,
) -> None:
    records = records_of(
        spark,
        Record("connected", 0.0, "b1", "c1"),  # 10 of its 20 seconds are before the window
        Record("disconnected", 20.0, "b1", "c1"),
        Record("connected", 30.0, "b2", "c1", peer="b1"),
        Record("connected", 60.0, "b1", "c2"),
        Record("connected", 70.0, "b3", "c2", peer="b1"),  # b1 notices only later, and ends no stay at b3
        Record("disconnected", 75.0, "b1", "c2"),
        Record("disconnected", 80.0, "b3", "c2"),
        Record("connected", 120.0, "b1", "c2", peer="b3"),  # after the window
    )

    actual = metrics.broker_subscribers(records, runs_of(spark))

    wanted = expected(
        spark,
        ("broker_subscribers", "b1", 0.2),
        ("broker_subscribers", "b2", 0.8),
        ("broker_subscribers", "b3", 0.1),
    )
    assert_metrics(actual, wanted)


def test_broker_throughput(spark: SparkSession) -> None:
    records = records_of(spark, *(delivered("c1", n, 20.0, 1.0) for n in range(50)))

    assert_metrics(
        metrics.broker_throughput(records, runs_of(spark)), expected(spark, ("broker_throughput", "b2", 0.5))
    )


def test_a_buffer_level_stands_until_the_next_sample(spark: SparkSession) -> None:
    def level(at: float, broker: str, held: int, copies: int, size: int) -> Record:
        return Record("buffer", at, broker, count=held, hops=copies, bytes=size)

    records = records_of(
        spark,
        level(20.0, "b1", 2, 6, 200),
        level(20.0, "b2", 1, 1, 100),
        level(30.0, "b1", 4, 4, 400),
        level(30.0, "b2", 0, 0, 0),
    )

    actual = metrics.buffers(records, runs_of(spark))

    wanted = expected(
        spark,
        ("buffer_message_s", "all", 30.0),
        ("memory_byte_s", "all", 3000.0),
        ("buffer_copies_per_message", "all", 11 / 7),
        ("buffer_peak_bytes", "all", 400.0),
    )
    assert_metrics(actual, wanted)


TRAFFIC = (
    Record("traffic", 10.0, detail="event", count=999, hops=999, bytes=999),  # the warm-up's bin
    Record("traffic", 1800.0, detail="event", count=8, hops=30, bytes=100),
    Record("traffic", 1800.0, detail="delivery", count=10, hops=10, bytes=100),
    Record("traffic", 1800.0, detail="stored_event", count=4, hops=15, bytes=40),
    Record("traffic", 1800.0, detail="mobile_subscribe", count=1, hops=5, bytes=10),
    Record("traffic", 1860.0, detail="event", count=10, hops=40, bytes=100),
    Record(
        "traffic", 1920.0, detail="stored_event", count=99, hops=99, bytes=99
    ),  # nobody publishes any more
)


def test_overhead_is_unicast_over_multicast(spark: SparkSession) -> None:
    actual = overhead(records_of(spark, *TRAFFIC), runs_of(spark, until_s=1860.0))

    wanted = expected(
        spark,
        ("overhead", "all", 20 / 80),
        ("overhead_messages", "all", 5 / 28),
        ("overhead_bytes", "all", 50 / 300),
        ("unicast_hops", "all", 20.0),
        ("multicast_hops", "all", 80.0),
        ("subscription_migration_pct", "all", 25.0),
    )
    assert_metrics(actual, wanted)


def test_overhead_by_kind_over_time_and_at_its_peak(spark: SparkSession) -> None:
    records, runs = records_of(spark, *TRAFFIC), runs_of(spark, until_s=1860.0)

    by_kind = {
        r.entity: r.value
        for r in overhead_by_kind(records, runs).where("metric = 'overhead_of_kind'").collect()
    }
    over_time = {
        r.entity: r.value
        for r in overhead_over_time(records, runs).where("metric = 'overhead_in_bin'").collect()
    }

    assert by_kind == pytest.approx(
        {"event": 70 / 80, "delivery": 10 / 80, "stored_event": 15 / 80, "mobile_subscribe": 5 / 80}
    )
    assert over_time == {"1800.0": 0.5, "1860.0": 0.0}
    assert_metrics(overhead_peak(records, runs), expected(spark, ("overhead_peak", "all", 0.5)))


def test_summary_has_students_interval_over_seeds(spark: SparkSession) -> None:
    rows = [
        (f"r{n}", "toy", "standard", {"n": "1"}, n, "loss_pct", "all", value)
        for n, value in enumerate((1.0, 2.0, 3.0))
    ]
    rows.append(("r9", "toy", "durable", {"n": "1"}, 1, "loss_pct", "all", 5.0))

    actual = metrics.summary(spark.createDataFrame(rows, schema=METRICS))

    half = 4.302652729749464 * 1.0 / math.sqrt(3)  # t with two degrees of freedom at 97.5%
    wanted = spark.createDataFrame(
        [
            ("toy", "standard", {"n": "1"}, "loss_pct", "all", 3, 2.0, 2.0 - half, 2.0 + half),
            ("toy", "durable", {"n": "1"}, "loss_pct", "all", 1, 5.0, None, None),
        ],
        schema=SUMMARY,
    )
    key = ["scheme"]
    assert actual.schema.simpleString() == wanted.schema.simpleString()
    for got, want in zip(actual.orderBy(*key).collect(), wanted.orderBy(*key).collect(), strict=True):
        assert tuple(got)[:6] == tuple(want)[:6]
        assert tuple(got)[6:] == pytest.approx(tuple(want)[6:])


@pytest.mark.parametrize(("runs", "quantile"), [(2, 12.7062), (61, 2.0003), (121, 1.9799)])
def test_students_quantile_in_and_past_the_table(spark: SparkSession, runs: int, quantile: float) -> None:
    values = [float(n % 2) for n in range(runs)]
    rows = [(f"r{n}", "toy", "s", {"n": "1"}, n, "m", "all", value) for n, value in enumerate(values)]

    [row] = metrics.summary(spark.createDataFrame(rows, schema=METRICS)).collect()

    mean = sum(values) / runs
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (runs - 1))
    assert (row.high - row.mean) * math.sqrt(runs) / deviation == pytest.approx(quantile, abs=3e-4)


def test_all_metrics_are_one_frame_of_the_contract(spark: SparkSession) -> None:
    buffer = [Record("buffer", at, "b1", count=1, hops=1, bytes=1) for at in (20.0, 30.0)]
    records = records_of(
        spark,
        *TRAFFIC,
        *buffer,
        published(2, 20.0, 1),
        delivered("c1", 2, 21.0, 1.0),
        Record("connected", 20.2, "b2", "c1", peer="b1"),
        Record("handoff", 20.5, "b2", "c1", peer="b1", duration_s=0.5),
        Record("transferred", 20.5, "b1", "c1", peer="b2", count=1),
        Record("processing", 60.0, "b1", detail="event", count=1, duration_s=1.0),
    )

    actual = metrics.metrics_of(records, runs_of(spark, until_s=1860.0))

    assert actual.columns == columns(METRICS)
    assert {row.metric for row in actual.select("metric").distinct().collect()} == set(metrics.NAMES)


# --- what moving costs a client -----------------------------------------------------------------------------------


def values_of(frame: DataFrame) -> dict[str, float]:
    return {row.metric: round(row.value, 6) for row in frame.collect() if row.entity == "all"}


def test_a_handoff_waits_for_what_was_published_before_it(spark: SparkSession) -> None:
    records = records_of(
        spark,
        Record("connected", 11.0, "b1", "c1"),
        Record("disconnected", 15.0, "b1", "c1", detail="vanished"),
        Record("connected", 20.0, "b2", "c1", peer="b1"),
        delivered("c1", 9, 20.1, 0.05),  # published after the reconnect: nobody waited for it
        delivered("c1", 1, 20.5, 4.0),
        delivered("c1", 2, 23.0, 4.0),
        Record("disconnected", 30.0, "b2", "c1", detail="vanished"),
        Record("connected", 40.0, "b1", "c1", peer="b2"),  # nothing is waiting
        delivered("c1", 3, 49.0, 1.0),
        Record("disconnected", 50.0, "b1", "c1", detail="vanished"),
        Record("connected", 60.0, "b2", "c1", peer="b1"),  # what waits comes only at the next broker
        Record("disconnected", 60.1, "b2", "c1", detail="vanished"),
        Record("connected", 70.0, "b1", "c1", peer="b2"),
        delivered("c1", 4, 71.0, 20.0),
    )

    found = values_of(metrics.handoff_waits(records, runs_of(spark)))

    assert found["waiting_delay_s_mean"] == 0.75, "0.5 s at 20 and 1 s at 70"
    assert found["catch_up_s_mean"] == 2.0, "3 s at 20 and 1 s at 70"
    counts = [found[name] for name in ("handoffs_served", "handoffs_unserved", "handoffs_idle")]
    assert counts == [2.0, 1.0, 1.0]


def test_handoff_latency_is_given_at_the_percentages_of_the_paper(spark: SparkSession) -> None:
    rows = [Record("handoff", 20.0, "b2", "c1", peer="b1", duration_s=float(n)) for n in range(11)]

    found = metrics.handoff_quantiles(records_of(spark, *rows), runs_of(spark))

    assert_metrics(found, expected(spark, ("handoff_s_at", "40", 4.0), ("handoff_s_at", "60", 6.0)))


def test_a_message_that_comes_again_is_not_the_one_a_handoff_waited_for(spark: SparkSession) -> None:
    records = records_of(
        spark,
        Record("connected", 11.0, "b1", "c1"),
        delivered("c1", 1, 14.0, 1.0),
        Record("connected", 20.0, "b2", "c1", peer="b1"),
        delivered("c1", 1, 20.01, 7.0),  # read before the move
        delivered("c1", 2, 26.0, 8.0),
    )

    assert values_of(metrics.handoff_waits(records, runs_of(spark)))["waiting_delay_s_mean"] == 6.0


def test_mobility_delay_is_what_a_client_at_rest_would_not_have_had(spark: SparkSession) -> None:
    records = records_of(
        spark,
        Record("connected", 11.0, "b2", "c1"),
        delivered("c1", 1, 12.1, 0.1),  # the fastest from b1 to b2: what a client at rest has
        delivered("c1", 2, 14.3, 0.3),  # 0.2 s more
        Record("disconnected", 20.0, "b2", "c1", detail="vanished"),
        Record("connected", 30.0, "b2", "c1", peer="b2"),
        delivered("c1", 3, 31.5, 9.5),  # published at 22, while it was away: due at 30
        delivered("c1", 4, 32.5, 12.55),  # published at 19.95, too late to arrive before it left: due at 30
        Record("connected", 40.0, "b2", "c1", peer="b2"),
        delivered("c1", 5, 41.0, 3.0),  # published at 38: due at 38.1
    )

    found = values_of(metrics.mobility_delay(records, runs_of(spark)))

    assert found["mobility_delay_s_mean"] == round((0.0 + 0.2 + 1.5 + 2.5 + 2.9) / 5, 6)
    assert found["mobility_delay_s_p99"] == 2.9


def test_traffic_is_counted_in_bytes_by_kind_and_in_the_busiest_bin(spark: SparkSession) -> None:
    def traffic(at: float, kind: str, size: int) -> Record:
        return Record("traffic", at, detail=kind, count=1, hops=1, bytes=size)

    records = records_of(
        spark,
        traffic(5.0, "event", 1000),  # in the warm-up
        traffic(60.0, "event", 300),
        traffic(60.0, "context", 50),
        traffic(110.0, "event", 100),
        traffic(110.0, "context", 400),
    )

    wanted = expected(
        spark,
        ("bytes_of_kind", "event", 400.0),
        ("peak_bytes_of_kind", "event", 300.0),
        ("bytes_of_kind", "context", 450.0),
        ("peak_bytes_of_kind", "context", 400.0),
        ("traffic_bytes", "all", 850.0),
        ("traffic_peak_bytes", "all", 500.0),
    )
    assert_metrics(traffic_by_kind(records, runs_of(spark)), wanted)


def test_memory_is_bytes_for_as_long_as_they_are_stored(spark: SparkSession) -> None:
    records = records_of(
        spark,
        Record("buffer", 20.0, "b1", count=2, hops=2, bytes=10),
        Record("buffer", 30.0, "b1", count=4, hops=4, bytes=50),
        Record("buffer", 50.0, "b1", count=0, hops=0, bytes=0),
    )

    assert values_of(metrics.buffers(records, runs_of(spark)))["memory_byte_s"] == 10 * 10 + 20 * 50


def test_a_price_weighs_traffic_memory_and_delay_by_the_tariff(spark: SparkSession) -> None:
    measured = expected(
        spark,
        ("received_once", "all", 1e6),
        ("traffic_bytes", "all", 5e9),
        ("memory_byte_s", "all", 7.2e12),  # 2 GB for an hour
        ("mobility_delay_s_mean", "all", 0.0036),  # an hour for a million messages
        ("overhead", "all", 9.0),
    )

    found = priced(measured, Tariff(traffic=0.1, memory=0.01, delay=2.0)).collect()

    assert {(row.metric, row.entity): round(row.value, 9) for row in found} == {
        ("price", "all"): 2.52,
        ("price_of", "traffic"): 0.5,
        ("price_of", "memory"): 0.02,
        ("price_of", "delay"): 2.0,
    }


def test_a_run_without_samples_of_its_memory_has_no_price(spark: SparkSession) -> None:
    measured = expected(spark, ("received_once", "all", 1e6), ("traffic_bytes", "all", 5e9))

    assert [row.metric for row in priced(measured, Tariff()).collect()] == ["price_of"]


def test_parameters_of_runs_do_not_travel_with_every_record(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are joined with the metrics in the end: what is shuffled before has the name of its run alone."""
    records = records_of(spark, published(2, 20.0, 1), delivered("c1", 2, 21.0, 1.0))

    read = runs_of(spark).repartition(1)  # not literal rows, which Spark would compute beforehand
    actual = metrics.metrics_of(records, read, ["received_once", "latency_s_mean"])

    actual.explain()
    grouped = [line for line in capsys.readouterr().out.splitlines() if "Aggregate(keys=" in line]
    assert grouped
    assert not any("mapsort" in line or "scheme#" in line for line in grouped), "\n".join(grouped)
    assert_metrics(actual, expected(spark, ("received_once", "all", 1.0), ("latency_s_mean", "all", 1.0)))
