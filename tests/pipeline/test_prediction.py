"""Next-site prediction against a plain twin that builds every list, and the honesty of the split."""

import itertools
import math
import random
from collections import Counter
from datetime import UTC, date

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from roamq.pipeline import online_prediction, prediction
from roamq.pipeline.schemas import MOVES, RANKED_TESTS, TRIGRAMS
from tests.pipeline.frames import at, same

pytestmark = pytest.mark.spark

DAY = 86_400.0

Move = tuple[str, str, str, int]
"""Before, from, to, day."""


def frame(spark: SparkSession, rows: list[Move]) -> DataFrame:
    filled = [
        ("d", "c", "all", before or None, here, there, at(day * DAY), at(day * DAY + number), 1.0, False)
        for number, (before, here, there, day) in enumerate(rows)
    ]
    return spark.createDataFrame(filled, schema=MOVES)


def split(spark: SparkSession, rows: list[Move], share: float = 0.3) -> DataFrame:
    return prediction.split_by_day(frame(spark, rows), "UTC", share)


def ranked(spark: SparkSession, rows: list[Move]) -> DataFrame:
    return prediction.ranked_tests(prediction.trigrams(frame(spark, rows), "UTC", test_share=0.3))


def listed(train: list[Move], before: str, here: str) -> dict[str, list[str]]:
    """The plain twin: every predictor's whole list for one context."""

    def by_count(rows: list[Move]) -> list[str]:
        counts = Counter(there for _, _, there, _ in rows)
        return sorted(counts, key=lambda site: (-counts[site], site))

    order_0 = [site for site in by_count(train) if site != here]
    order_1 = by_count([row for row in train if row[1] == here])
    order_2 = by_count([row for row in train if row[:2] == (before, here)])
    return {
        "order-0": order_0,
        "order-1": order_1,
        "order-2": order_2,
        "order-1-backoff": list(dict.fromkeys([*order_1, *order_0])),
        "order-2-backoff": list(dict.fromkeys([*order_2, *order_1, *order_0])),
    }


@pytest.mark.parametrize("seed", [1, 2])
def test_ranks_are_those_of_the_lists_written_out(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    sites = "ABCDEFG"
    rows: list[Move] = []
    for day in range(10):
        path = rng.choices(sites[: 3 + day // 2], k=14)  # some sites first appear on test days
        path = [site for site, next_site in itertools.pairwise(path) if site != next_site]
        rows += [
            (path[n - 1] if n else "", path[n], path[n + 1], day)
            for n in range(len(path) - 1)
            if path[n] != path[n + 1]
        ]
    train, test = [row for row in rows if row[3] < 7], [row for row in rows if row[3] >= 7]
    expected: Counter[tuple[str, int | None, int]] = Counter()
    for before, here, there, _ in test:
        for name, sequence in listed(train, before, here).items():
            rank = sequence.index(there) + 1 if there in sequence else None
            expected[name, rank, len(sequence)] += 1

    actual = ranked(spark, rows)

    same(
        actual,
        [
            ("d", name, date(2024, 1, 8), len(train), rank, size, n)
            for (name, rank, size), n in expected.items()
        ],
        RANKED_TESTS,
    )


Walk = tuple[str, str, str, str, float, float]
"""Client, before, from, to, left at, time."""


def walks(seed: int) -> list[Walk]:
    """Clients that stay shorter or longer, and go on or turn around by that; some sites appear on test days only."""
    rng = random.Random(seed)
    rows: list[Walk] = []
    for client in "xyz":
        before, here = "", "A"
        for day in range(10):
            now = day * DAY + rng.random()
            for _ in range(8):
                stayed = rng.choice((2.0, 5.0, 70.0))
                there = before if before and stayed > 60 else rng.choice("ABCDEFG"[: 3 + day // 2])
                if there == here:
                    continue
                rows.append((client, before, here, there, now + stayed, now + stayed + 1))
                before, here, now = here, there, now + stayed + 1
    return rows


def by_lists(lists: list[list[str]], target: str) -> tuple[int | None, int]:
    """The plain twin: write all lists out, one behind the other."""
    written = []
    for moves in lists:
        counts = Counter(moves)
        written += sorted(counts, key=lambda site: (-counts[site], site))
    whole = list(dict.fromkeys(written))
    return (whole.index(target) + 1 if target in whole else None), len(whole)


@pytest.mark.parametrize("seed", [1, 2])
def test_predictors_that_learn_on_know_the_moves_before_and_no_others(spark: SparkSession, seed: int) -> None:
    rows = sorted(walks(seed), key=lambda row: (row[5], row[0]))
    arrived: dict[str, float] = {}
    known: list[tuple[str, str, int, str, bool]] = []
    expected: Counter[tuple[str, int | None, int]] = Counter()
    for client, before, here, there, left, time in rows:
        dwell = int(math.log2(max(1.0, round(left - arrived[client], 6)))) if client in arrived else -1
        arrived[client] = time
        is_test = time >= 7 * DAY
        if is_test:

            def lists(
                trained: bool, before: str = before, here: str = here, dwell: int = dwell
            ) -> list[list[str]]:
                seen = [row for row in known if row[1] == here and not (trained and row[4])]
                two = [row for row in seen if row[0] == before]
                return [[row[3] for row in some] for some in ([r for r in two if r[2] == dwell], two, seen)]

            for name, some in (
                ("dwell-backoff", lists(True)),
                ("online-1", lists(False)[2:]),
                ("online-2-backoff", lists(False)[1:]),
                ("online-dwell-backoff", lists(False)),
            ):
                expected[name, *by_lists(some, there)] += 1
        known.append((before, here, dwell, there, is_test))
    moves = spark.createDataFrame(
        [
            ("d", client, "all", before or None, here, there, at(left), at(time), time - left, False)
            for client, before, here, there, left, time in rows
        ],
        schema=MOVES,
    )

    actual = online_prediction.ranked_in_order(moves, "UTC", 0.3)

    trained = sum(not row[4] for row in known)
    same(
        actual,
        [("d", name, date(2024, 1, 8), trained, rank, size, n) for (name, rank, size), n in expected.items()],
        RANKED_TESTS,
    )


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_days_that_are_known_divide_the_moves_as_days_that_are_looked_for(
    spark: SparkSession, share: float
) -> None:
    moves = frame(spark, [("", "A", "B", day) for day in (0, 0, 2, 3, 7)])
    days = moves.select("dataset", F.to_date("time").alias("day")).distinct()

    actual = prediction.split_by_day(moves, "UTC", share, days)

    looked_for = prediction.split_by_day(moves, "UTC", share)
    assert_df_equality(actual, looked_for, ignore_row_order=True, ignore_nullable=True)
    assert {row.is_test for row in actual.collect()} == {True, False}


def test_no_test_day_is_ever_trained_on(spark: SparkSession) -> None:
    """The same move every day: known from the training days, so a hit; a move of test days alone: never a hit."""
    rows: list[Move] = [("", "A", "B", day) for day in range(10)]
    rows += [("", "A", "NEW", day) for day in range(7, 10)]

    curve = prediction.prediction(ranked(spark, rows))

    best = {r.predictor: r.hit_rate for r in curve.where("set_size = 50").collect()}
    assert best == dict.fromkeys(prediction.PREDICTORS, 0.5)


def test_the_last_share_of_the_days_is_for_testing(spark: SparkSession) -> None:
    rows: list[Move] = [("", "A", "B", day) for day in (0, 1, 5, 6)]

    for share, first in ((0.25, 7), (0.5, 6), (0.9, 2), (0.01, 7)):
        tested = split(spark, rows, share).where("is_test").select("first_test_day").distinct().collect()
        assert [row.first_test_day for row in tested] == [date(2024, 1, first)], share


def test_a_single_day_is_split_by_time(spark: SparkSession) -> None:
    rows: list[Move] = [("", "A", "B", 0)] * 10

    counted = {row.is_test: row["count"] for row in split(spark, rows).groupBy("is_test").count().collect()}

    assert counted == {False: 6, True: 4}


def test_the_moment_that_splits_a_day_is_exact_however_moves_are_spread(spark: SparkSession) -> None:
    """A quantile that is approximated over partitions would make a run in two steps differ from one."""
    rows: list[Move] = [("", "A", "B", 0)] * 30_000
    moves = frame(spark, rows)

    for partitions in (1, 7):
        split_moves = prediction.split_by_day(moves.repartition(partitions), "UTC", 0.3)
        assert split_moves.where("is_test").count() == 9_001, partitions


def test_set_sizes_for_a_target_are_the_smallest_and_null_where_out_of_reach(spark: SparkSession) -> None:
    ranks = [
        ("d", "order-1", date(2024, 1, 8), 9, rank, 4, n) for rank, n in ((1, 85), (2, 4), (3, 4), (None, 7))
    ]
    found = prediction.prediction_sets(spark.createDataFrame(ranks, schema=RANKED_TESTS)).collect()

    assert {(r.target, r.set_size) for r in found} == {(0.9, 3), (0.99, None)}
    assert [r.reachable for r in found] == [pytest.approx(0.93)] * 2


def test_counts_of_paths_are_corrected_and_say_where_the_last_move_is_unknown(spark: SparkSession) -> None:
    """The last move of a path is no sum: if it went, and no later one came, only all moves tell."""
    day = date(2024, 1, 3)

    def counted(*rows: tuple[str, int, int, float]) -> DataFrame:
        filled = [("d", None, "a", to, day, trained, tested, at(last)) for to, trained, tested, last in rows]
        return spark.createDataFrame(filled, schema=TRIGRAMS)

    before = counted(
        ("kept", 2, 1, 9), ("lost", 2, 1, 9), ("gone", 1, 0, 5), ("older", 3, 1, 9), ("later", 1, 1, 9)
    )
    went = counted(("lost", 0, 1, 9), ("gone", 1, 0, 5), ("older", 1, 0, 4), ("later", 0, 1, 9))
    came = counted(("new", 1, 0, 3), ("older", 1, 0, 6), ("later", 0, 2, 11))

    found = prediction.corrected_trigrams(before, went, came)

    assert {(row.to, row.trained, row.tested, row.last_seen, row.is_known) for row in told(found)} == {
        ("kept", 2, 1, at(9), True),
        ("lost", 2, 0, at(9), False),
        ("gone", 0, 0, at(5), True),
        ("older", 3, 1, at(9), True),
        ("later", 1, 2, at(11), True),
        ("new", 1, 0, at(3), True),
    }
    assert {(row.first_test_day, row.other_day) for row in told(found)} == {(day, day)}


def told(frame: DataFrame) -> list[Row]:
    """Rows with their moments in UTC, as literal ones are."""
    return [Row(**(row.asDict() | {"last_seen": row.last_seen.astimezone(UTC)})) for row in frame.collect()]
