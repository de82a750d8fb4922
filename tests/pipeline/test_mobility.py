"""Measures of mobility, against other libraries and against plain Python.

The numbers of scikit-mobility 1.3.1 and trackintel 1.4.2 were computed by them from `tests/pipeline/walks.py`; they are
not installed here, since scikit-mobility needs older versions of what we use.
"""

import hashlib
import hmac
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.pipeline.mobility.predictability import entropies, sampled, visits
from roamq.pipeline.mobility.privacy import anonymity, pseudonymise, reidentification_risk
from roamq.pipeline.mobility.stay_points import stay_points
from roamq.pipeline.mobility.travel import home_and_work, origin_destination, radius_of_gyration
from roamq.pipeline.schemas import ANCHORS, FLOWS, SOJOURNS, columns
from tests.pipeline.frames import EPOCH, at, observations, same
from tests.pipeline.walks import START, positions, visited

pytestmark = pytest.mark.spark

TRACKINTEL_STAYS = {
    "c0": "0-11 16-27 32-56 60-88 101-144 149-184 197-207 211-224 229-249 253-272",
    "c1": "0-34 39-58 81-110 114-124 141-155 160-194 199-219 223-245 250-264",
    "c2": "0-28 33-76 80-123 127-156 160-177 193-234 238-278 284-328 333-377 382-410",
    "c3": "10-36 48-65 69-98 135-146 151-186 190-202 207-218",
}
SKMOB_RADIUS_M = {"c0": 1100.557789, "c1": 990.074973, "c2": 1111.165297, "c3": 892.620976}
SKMOB_UNCORRELATED = [1.584962501, 2.350048076, 2.659708891, 2.785607582, 2.921920641, 2.670985665]
SKMOB_REAL = [0.190232071, 0.936375478, 1.256457478, 1.668188929, 1.985939201, 2.259005841]
SKMOB_RISK = {
    1: [1 / 4, 1 / 2, 1 / 4, 1 / 2, 1 / 4, 1 / 4],
    2: [1 / 4, 1.0, 1 / 2, 1.0, 1 / 2, 1 / 3],
    3: [1 / 4, 1.0, 1 / 2, 1.0, 1 / 2, 1 / 3],
}
"""Of its `LocationAttack`, given every site of a client once in the first ten hours."""


def placed(spark: SparkSession) -> DataFrame:
    rows = [(client, time, tie, x, y) for tie, (client, time, x, y) in enumerate(positions())]
    return spark.createDataFrame(rows, "client string, time timestamp, tie bigint, x double, y double")


def seen_at(spark: SparkSession, visits: int = 150) -> DataFrame:
    return spark.createDataFrame(visited(visits=visits), "client string, time timestamp, site string")


def stays(spark: SparkSession, *rows: tuple[str, float, float, str | None]) -> DataFrame:
    """Sojourns (client, begin and end in hours, site); no site means disconnected."""
    told = [
        {
            "dataset": "d",
            "client": client,
            "state": "disconnected" if site is None else "connected",
            "site": site,
            "begin": at(begin * 3600),
            "end": at(end * 3600),
        }
        for client, begin, end, site in rows
    ]
    empty = dict.fromkeys(columns(SOJOURNS))
    return spark.createDataFrame([tuple((empty | row).values()) for row in told], SOJOURNS)


def test_stay_points_are_those_of_trackintel(spark: SparkSession) -> None:
    found = stay_points(placed(spark), distance_m=200, duration_s=600).orderBy("client", "begin").collect()

    spans: dict[str, list[str]] = {}
    for row in found:
        minutes = [
            int((time.replace(tzinfo=START.tzinfo) - START) / timedelta(minutes=1))
            for time in (row.begin, row.end)
        ]
        spans.setdefault(row.client, []).append("-".join(map(str, minutes)))
    assert {client: " ".join(told) for client, told in spans.items()} == TRACKINTEL_STAYS
    assert (found[0].x, found[0].y) == (pytest.approx(13.009875378), pytest.approx(52.009944528))


def test_a_silence_ends_a_stay_and_a_plane_has_no_degrees(spark: SparkSession) -> None:
    rows = [
        ("c", at(minute * 60), minute, float(minute % 2), 0.0) for minute in (*range(31), *range(200, 215))
    ]
    frame = spark.createDataFrame(rows, "client string, time timestamp, tie bigint, x double, y double")

    found = stay_points(frame, distance_m=5, duration_s=600, gap_s=1800, in_degrees=False).orderBy("begin")

    assert [(row.observations, (row.end - row.begin).seconds // 60) for row in found.collect()] == [
        (31, 30),
        (15, 14),
    ]
    assert stay_points(frame, distance_m=1, duration_s=600, in_degrees=False).isEmpty()


def test_radius_of_gyration_is_that_of_scikit_mobility(spark: SparkSession) -> None:
    found = {row.client: row.radius_m for row in radius_of_gyration(placed(spark)).collect()}

    assert found == pytest.approx(SKMOB_RADIUS_M, rel=1e-6)


def test_entropies_are_those_of_scikit_mobility(spark: SparkSession) -> None:
    found = entropies(seen_at(spark)).orderBy("client").collect()

    assert [row.random_bits for row in found] == pytest.approx([1.584962501, *[3.0] * 5])
    assert [row.uncorrelated_bits for row in found] == pytest.approx(SKMOB_UNCORRELATED)
    # scikit-mobility takes the last repetition for one place longer; otherwise the estimators are the same.
    assert [row.real_bits for row in found] == pytest.approx(SKMOB_REAL, rel=0.02)
    assert [row.visits for row in found] == [150] * 6
    bounds = [row.predictability for row in found]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > 0.97


def test_visits_follow_moves_and_samples_the_longest_stay(spark: SparkSession) -> None:
    frame = stays(
        spark,
        ("c", 0.0, 0.4, "a"),
        ("c", 0.4, 0.5, None),
        ("c", 0.5, 1.25, "a"),
        ("c", 1.25, 1.5, "b"),
        ("c", 1.5, 3.0, "c"),
    )

    assert [row.site for row in visits(frame).orderBy("time").collect()] == ["a", "b", "c"]
    assert [row.site for row in sampled(frame).orderBy("time").collect()][:3] == ["a", "c", "c"]


def test_trips_lead_from_stay_to_stay(spark: SparkSession) -> None:
    frame = stays(
        spark,
        ("c", 0, 1, "home"),
        ("c", 1.0, 1.1, "on the way"),
        ("c", 1.5, 3, "work"),
        ("c", 3.5, 5, "home"),
        ("d", 0, 1, "home"),
        ("d", 1.25, 3, "work"),
    )

    same(
        origin_destination(frame, min_stay_s=1800),
        [("d", "home", "work", 2, 2, 900.0), ("d", "work", "home", 1, 1, 1800.0)],
        FLOWS,
    )
    assert origin_destination(frame, min_stay_s=0).where("destination = 'on the way'").count() == 1


def test_home_is_where_the_nights_are_and_work_where_the_office_hours_are(spark: SparkSession) -> None:
    """The first of January 2024 is a Monday; in Tokyo it is nine hours later than in UTC."""
    tokyo = -9.0
    frame = stays(
        spark,
        ("c", tokyo + 24, tokyo + 31.5, "flat"),
        ("c", tokyo + 33, tokyo + 40, "desk"),
        ("c", tokyo + 40, tokyo + 42, "bar"),
        ("c", tokyo + 46, tokyo + 47, "flat"),
        ("c", tokyo + 24 * 6 + 9, tokyo + 24 * 6 + 17, "park"),  # a Sunday
        ("night owl", tokyo + 33, tokyo + 34, "desk"),
    )

    same(
        home_and_work(frame, "Asia/Tokyo"),
        [("d", "c", "flat", 8.0, "desk", 7.0, 2), ("d", "night owl", None, None, "desk", 1.0, 1)],
        ANCHORS,
    )
    assert EPOCH.weekday() == 0


@pytest.mark.parametrize("known", [1, 2, 3])
def test_risks_are_those_of_scikit_mobility(spark: SparkSession, known: int) -> None:
    visits_of = seen_at(spark, visits=150).where(F.col("time") < at(36_000))
    frame = visits_of.withColumns({"state": F.lit("connected"), "begin": F.col("time")})

    found = reidentification_risk(frame, known=known).orderBy("client").collect()

    assert [row.risk for row in found] == pytest.approx(SKMOB_RISK[known])


def test_time_makes_a_client_stand_out_and_equal_anchors_hide_it(spark: SparkSession) -> None:
    frame = stays(spark, ("a", 0, 1, "x"), ("b", 0.5, 1, "x"), ("c", 5, 6, "x"))

    with_time = reidentification_risk(frame, known=1, bin_s=3600)
    assert {row.client: row.alike for row in with_time.collect()} == {"a": 2, "b": 2, "c": 1}
    assert {row.alike for row in reidentification_risk(frame, known=2).collect()} == {3}
    homes = spark.createDataFrame([("a", "x"), ("b", "x"), ("c", "y")], "client string, home string")
    assert {row.client: row.alike for row in anonymity(homes, "home").collect()} == {"a": 2, "b": 2, "c": 1}
    with pytest.raises(ConfigError, match="known: must lie between 1 and 4"):
        reidentification_risk(frame, known=9)


@pytest.mark.parametrize("key", [b"sixteen bytes ok", bytes(range(100))])
def test_pseudonyms_are_a_keyed_hash_and_times_get_coarser(spark: SparkSession, key: bytes) -> None:
    frame = observations(spark, ("Zoë", 0.0, "s"), ("Zoë", 299.5, "s"), ("b", 300.0, None))

    found = pseudonymise(frame, key, coarsen_s=300).orderBy("tie").collect()

    expected = hmac.new(key, "Zoë".encode(), hashlib.sha256).hexdigest()[:32]
    assert [row.client for row in found[:2]] == [expected] * 2
    assert found[2].client != expected
    assert [row.time.minute for row in found] == [0, 0, 5]
    with pytest.raises(ConfigError, match="key: must have 16 bytes or more, has 3"):
        pseudonymise(frame, b"abc")
