"""The cleaning rules, one by one, on a handful of rows each."""

from datetime import UTC, datetime

import pytest
from benchmarks.pipeline import spilled_bytes
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from roamq.pipeline import silver
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import MOVES, OBSERVATIONS, SOJOURNS, STAYS
from tests.pipeline.frames import at, observations, same
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

KEEP_ALL = Rules(at_one_instant="all", gap_s=100)


def places(frame: DataFrame) -> list[tuple[object, ...]]:
    return [
        (row.client, row.time.second, row.site) for row in frame.orderBy("client", "time", "tie").collect()
    ]


def stay(
    client: str, begin: float, site: str | None, last: float, n: int, *, silent: bool
) -> tuple[object, ...]:
    return (client, "all", at(begin), 0, site, site is not None, at(last), n, silent)


def test_duplicates_and_contradictions_leave_the_last_row_of_an_instant(spark: SparkSession) -> None:
    rows = observations(spark, ("c", 1, "A"), ("c", 1, "A"), ("c", 2, "B"), ("c", 2, "A"), ("d", 2, "B"))

    assert places(silver.last_of_each_instant(rows)) == [("c", 1, "A"), ("c", 2, "A"), ("d", 2, "B")]


def test_rows_out_of_order_are_put_in_order(spark: SparkSession) -> None:
    rows = observations(spark, ("c", 50, "B"), ("c", 0, "A"), ("c", 20, "A"))

    same(
        silver.stays(rows, gap_s=100).withColumn("tie", F.lit(0).cast("bigint")),
        [stay("c", 0, "A", 20, 2, silent=True), stay("c", 50, "B", 50, 1, silent=False)],
        STAYS,
    )


def test_the_site_is_kept_while_it_is_listed_else_the_first_listed_is_taken(spark: SparkSession) -> None:
    rows = observations(
        spark,
        *(("c", 0, "B"), ("c", 0, "A")),  # nowhere before: the first
        *(("c", 10, "A"), ("c", 10, "B")),  # still listed: kept
        *(("c", 20, "C"), ("c", 20, "A")),  # gone: the first
        *(("d", 20, "A"), ("d", 20, "C")),  # another client starts afresh
    )

    assert places(silver.keep_site_while_listed(rows)) == [
        ("c", 0, "B"),
        ("c", 10, "B"),
        ("c", 20, "C"),
        ("d", 20, "A"),
    ]


def test_the_fold_over_instants_does_not_depend_on_where_batches_end(spark: SparkSession) -> None:
    """An instant whose rows lie in two Arrow batches is still one instant."""
    rows = observations(spark, *(("c", second, site) for second in range(40) for site in ("A", "B", "C")))
    whole = silver.keep_site_while_listed(rows).collect()
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        assert silver.keep_site_while_listed(rows).collect() == whole
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before or "10000")
    assert [row.site for row in whole] == ["A"] * 40


def test_a_spike_in_position_goes_and_a_fast_but_possible_one_stays(spark: SparkSession) -> None:
    def row(second: float, x: float) -> tuple[object, ...]:
        return ("c", "all", at(second), 0, "s", True, x, 0.0)

    # A hundredth of a degree is 1.1 km: 60 s there is 18 m/s, a whole degree would be 1,855 m/s.
    rows = spark.createDataFrame(
        [row(0, 0.0), row(60, 0.01), row(120, 1.01), row(180, 0.02), row(240, 0.03)], schema=OBSERVATIONS
    )

    kept = silver.drop_position_spikes(rows, max_speed_mps=50)

    assert [r.x for r in kept.orderBy("time").collect()] == [0.0, 0.01, 0.02, 0.03]


def test_silence_up_to_the_gap_is_a_stay_and_one_second_more_is_not(spark: SparkSession) -> None:
    rows = observations(spark, ("c", 0, "A"), ("c", 100, "A"), ("c", 201, "A"))

    same(
        silver.stays(rows, gap_s=100).withColumn("tie", F.lit(0).cast("bigint")),
        [stay("c", 0, "A", 100, 2, silent=True), stay("c", 201, "A", 201, 1, silent=True)],
        STAYS,
    )


def test_ping_pong_goes_to_the_site_around_it_and_longer_visits_stay(spark: SparkSession) -> None:
    rows = observations(
        spark,
        *(("c", 0, "A"), ("c", 50, "B"), ("c", 55, "A"), ("c", 60, "A")),  # five seconds at B: a bounce
        *(("c", 100, "B"), ("c", 180, "A"), ("c", 190, "C"), ("c", 195, "D")),  # a visit; then no return
    )

    actual = silver.absorb_ping_pong(silver.stays(rows, gap_s=100), ping_pong_s=30)

    seen = [(r.site, r.begin, r.last_seen, r.observations) for r in actual.orderBy("begin").collect()]
    naive = [
        (site, at(b).replace(tzinfo=None), at(e).replace(tzinfo=None), n)
        for site, b, e, n in (
            ("A", 0, 60, 4),
            ("B", 100, 100, 1),
            ("A", 180, 180, 1),
            ("C", 190, 190, 1),
            ("D", 195, 195, 1),
        )
    ]
    assert seen == naive


def test_a_chain_of_bounces_leaves_its_two_ends(spark: SparkSession) -> None:
    rows = observations(spark, *(("c", 5 * n, site) for n, site in enumerate("ABABAB")))

    actual = silver.absorb_ping_pong(silver.stays(rows, gap_s=100), ping_pong_s=30)

    assert [(r.site, r.observations) for r in actual.orderBy("begin").collect()] == [("A", 5), ("B", 1)]


def test_a_return_after_silence_is_no_bounce(spark: SparkSession) -> None:
    rows = observations(spark, ("c", 0, "A"), ("c", 150, "B"), ("c", 155, "A"))

    actual = silver.absorb_ping_pong(silver.stays(rows, gap_s=100), ping_pong_s=30)

    assert [r.site for r in actual.orderBy("begin").collect()] == ["A", "B", "A"]


def test_clients_with_too_little_data_are_left_out_whole(spark: SparkSession) -> None:
    rows = observations(spark, ("c", 0, "A"), ("c", 10, "B"), ("c", 20, "B"), ("d", 0, "A"), ("d", 10, "B"))

    actual = silver.leave_out_rare_clients(silver.stays(rows, gap_s=100), min_observations=3)

    assert {row.client for row in actual.collect()} == {"c"}


def test_sojourns_last_until_the_next_site_or_until_silence(spark: SparkSession) -> None:
    """A, B, silence, B, and explicitly off at the end: every column of the table."""
    rows = observations(
        spark,
        ("c", 0, "A"),
        ("c", 40, "B"),
        ("c", 60, "B"),
        ("c", 300, "B"),
        ("c", 350, None),
        ("c", 380, "A"),
    )

    actual = silver.sojourns(rows, KEEP_ALL, dataset="d")

    on, off = "connected", "disconnected"
    same(
        actual,
        [
            ("d", "c", "all", on, "A", at(0), at(40), at(0), 1, False, None, "B", at(40), None, None),
            ("d", "c", "all", on, "B", at(40), at(60), at(60), 2, True, "A", "B", at(300), at(0), False),
            ("d", "c", "all", off, None, at(60), at(300), at(60), 0, True, "A", "B", at(300), None, None),
            ("d", "c", "all", on, "B", at(300), at(350), at(300), 1, True, "A", "A", at(380), at(300), True),
            ("d", "c", "all", off, None, at(350), at(380), at(350), 1, True, "A", "A", at(380), None, None),
            ("d", "c", "all", on, "A", at(380), at(380), at(380), 1, False, "B", None, None, at(380), False),
        ],
        SOJOURNS,
    )


def test_missing_data_is_unknown_and_leaves_its_neighbours_incomplete(spark: SparkSession) -> None:
    rows = observations(
        spark, ("c", 0, "A"), ("c", 10, "B"), ("c", 500, "B"), ("c", 510, "A"), ("c", 520, "B")
    )

    actual = silver.sojourns(rows, Rules(at_one_instant="all", gap_s=100, silence="unknown"), dataset="d")

    assert [(r.state, r.site, r.complete) for r in actual.orderBy("begin", "end").collect()] == [
        ("connected", "A", False),
        ("connected", "B", False),
        ("unknown", None, False),
        ("connected", "B", False),
        ("connected", "A", True),
        ("connected", "B", False),
    ]


def test_credit_keeps_a_client_a_little_after_its_last_row_but_not_past_the_next(spark: SparkSession) -> None:
    rows = observations(spark, ("c", 0, "A"), ("c", 300, "A"), ("c", 420, "A"))

    actual = silver.sojourns(rows, Rules(at_one_instant="all", gap_s=100, credit_s=150), dataset="d")

    ends = [
        (r.state, (r.end - at(0).replace(tzinfo=None)).total_seconds())
        for r in actual.orderBy("begin").collect()
    ]
    assert ends == [("connected", 150), ("disconnected", 300), ("connected", 420), ("connected", 570)]


def test_moves_know_where_the_client_was_before_and_whether_it_was_away(spark: SparkSession) -> None:
    rows = observations(
        spark, ("c", 0, "A"), ("c", 40, "B"), ("c", 60, "B"), ("c", 300, "B"), ("c", 310, "C")
    )

    actual = silver.moves(silver.sojourns(rows, KEEP_ALL, dataset="d"))

    same(
        actual,
        [
            ("d", "c", "all", None, "A", "B", at(0), at(40), 40.0, False),
            ("d", "c", "all", "A", "B", "C", at(300), at(310), 10.0, False),
        ],
        MOVES,
    )


def test_days_end_at_local_midnight_also_when_clocks_change(spark: SparkSession) -> None:
    """31 March 2024 has 23 hours in Berlin: a sojourn over all of it is cut at 23:00 and at 22:00 UTC."""
    begin, end = datetime(2024, 3, 30, 20, tzinfo=UTC), datetime(2024, 3, 31, 23, tzinfo=UTC)
    rows = spark.createDataFrame([(begin, end)], schema="begin timestamp, end timestamp")

    actual = silver.split_at_midnight(rows, "Europe/Berlin")

    hours = [
        (str(row.day), (row.end - row.begin).total_seconds() / 3600)
        for row in actual.orderBy("day").collect()
    ]
    assert hours == [("2024-03-30", 3.0), ("2024-03-31", 23.0), ("2024-04-01", 1.0)]


def test_a_sojourn_that_ends_at_midnight_does_not_reach_into_the_next_day(spark: SparkSession) -> None:
    begin, end = datetime(2024, 3, 30, 20, tzinfo=UTC), datetime(2024, 3, 31, tzinfo=UTC)
    rows = spark.createDataFrame([(begin, end), (end, end)], schema="begin timestamp, end timestamp")

    days = [str(row.day) for row in silver.split_at_midnight(rows, "UTC").orderBy("day").collect()]

    assert days == ["2024-03-30", "2024-03-31"]


def test_all_rules_share_one_shuffle(spark: SparkSession) -> None:
    """The speed of the pipeline rests on this: one exchange of the observations, however many rules."""
    rows = observations(spark, ("c", 0, "A"))
    rules = Rules(at_one_instant="last", gap_s=100, ping_pong_s=10, min_observations=2)

    plan = silver.moves(silver.sojourns(rows, rules, dataset="d"))._explain_string()  # type: ignore[operator]

    assert plan.count("Exchange hashpartitioning") == 1, plan
    assert plan.count("Sort [") == 1, plan


def test_a_client_that_does_not_fit_into_memory_is_spilled_and_gives_the_same_sojourns(
    spark: SparkSession,
) -> None:
    """Windows may hold two hundred rows of a client's six hundred; the rest goes to disk and comes back."""
    rows = observations(spark, *(("c", second, "ABC"[second // 7 % 3]) for second in range(600)))
    in_memory = silver.sojourns(rows, KEEP_ALL, dataset="d").collect()
    limits = {
        "spark.sql.windowExec.buffer.in.memory.threshold": "100",
        "spark.sql.windowExec.buffer.spill.threshold": "200",
    }
    before = spilled_bytes()
    try:
        for key, value in limits.items():
            spark.conf.set(key, value)
        spilled = silver.sojourns(rows, KEEP_ALL, dataset="d").collect()
    finally:
        for key in limits:
            spark.conf.unset(key)

    assert len(in_memory) == 86
    assert sorted(spilled) == sorted(in_memory)
    # Spark counts what it spilled a moment later.
    wait_until(lambda: spilled_bytes() > before, "spilling")


def test_a_hole_of_the_whole_network_is_nobodys_disconnection(spark: SparkSession) -> None:
    """Nobody was observed from 100 to 1000: `a` was silent for no longer, `b` missed 900 s more."""
    seen = observations(
        spark,
        *(("a", 0, "A"), ("a", 100, "A"), ("a", 1000, "A"), ("a", 1100, "B")),
        *(("b", 50, "A"), ("b", 1900, "A"), ("c", 1500, "A")),
    )
    holes = [(row.begin, row.end) for row in silver.holes_of(seen, 600.0).collect()]
    assert [(end - begin) / 1e6 for begin, end in holes] == [900.0]

    rules = Rules(at_one_instant="all", gap_s=600.0)
    found = silver.sojourns(seen, rules, dataset="d", holes=holes).collect()

    assert {(row.client, row.state, row.complete) for row in found if not row.observations} == {
        ("a", "unknown", False),
        ("b", "disconnected", True),
    }
    stays = sorted((row.begin, row.complete) for row in found if (row.client, row.site) == ("a", "A"))
    assert [complete for _, complete in stays] == [False, False], (
        "what a hole cuts off has an end that nobody saw"
    )
