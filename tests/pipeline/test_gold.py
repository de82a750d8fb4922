"""What is learned: graph, transitions, rates, days, connectivity."""

import math
from datetime import UTC, date, datetime

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from roamq.models.censoring import kaplan_meier
from roamq.pipeline import connectivity, gold, prediction, silver
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import (
    ARRIVAL_RATES,
    CCDF,
    DAILY_PROFILE,
    DAYS,
    DURATION_COUNTS,
    DURATIONS,
    MOVES,
    NEIGHBOR_GRAPH,
    SITES,
    SOJOURNS,
    TRANSITIONS,
)
from tests.pipeline.frames import at, observations, same

pytestmark = pytest.mark.spark

DAY = 86_400.0


def moves(spark: SparkSession, *rows: tuple[str | None, str, str, float]) -> DataFrame:
    """Moves (before, from, to, second) of one client."""
    filled = [
        ("d", "c", "all", before, here, there, at(second - 5), at(second), 5.0, False)
        for before, here, there, second in rows
    ]
    return spark.createDataFrame(filled, schema=MOVES)


def test_the_neighbor_graph_has_probabilities_and_recency(spark: SparkSession) -> None:
    """Three moves to B and one to C; with a half-life of a day, those of the day before count half."""
    rows = moves(
        spark, (None, "A", "B", 0), (None, "A", "B", 0), (None, "A", "C", DAY), (None, "A", "B", DAY)
    )

    same(
        gold.neighbor_graph(rows, half_life_days=1),
        [
            ("d", "A", "B", 3, 0.75, 2 / 3, at(DAY), 5.0),
            ("d", "A", "C", 1, 0.25, 1 / 3, at(DAY), 5.0),
        ],
        NEIGHBOR_GRAPH,
    )


def test_the_graph_is_that_of_its_moves_one_by_one(spark: SparkSession) -> None:
    """Against numpy: moves over half a year with a half-life of two days, most of which count for nothing any more."""
    chance = np.random.default_rng(1)
    rows = [
        ("d", "c", "all", None, f"s{here}", f"s{there}", at(0), at(second), float(gap), False)
        for here, there, second, gap in zip(
            *(chance.integers(0, most, 600).tolist() for most in (3, 4, 180 * 86_400, 7)), strict=True
        )
    ]

    found = gold.neighbor_graph(spark.createDataFrame(rows, schema=MOVES), half_life_days=2).collect()

    assert sum(edge.moves for edge in found) == len(rows)
    for edge in found:
        leaving = [row for row in rows if row[4] == edge["from"]]
        mine = [row for row in leaving if row[5] == edge.to]
        assert edge.moves == len(mine)
        assert edge.last_seen.replace(tzinfo=UTC) == max(row[7] for row in mine)
        assert edge.gap_s_median == sorted(row[8] for row in mine)[(len(mine) - 1) // 2]
        latest = max(row[7] for row in leaving)
        weights = [
            sum(0.5 ** ((latest - row[7]).total_seconds() / 172_800) for row in part)
            for part in (mine, leaving)
        ]
        assert edge.recent_probability == pytest.approx(weights[0] / weights[1], abs=1e-9)


def test_transitions_of_lower_order_are_sums_of_the_higher(spark: SparkSession) -> None:
    rows = moves(spark, (None, "A", "B", 1), ("A", "B", "C", 2), ("X", "B", "C", 3), ("A", "B", "D", 4))

    same(
        gold.transitions(prediction.trigrams(rows, "UTC", test_share=0.3)),
        [
            ("d", 0, None, None, "B", 1, 0.25, at(1)),
            ("d", 0, None, None, "C", 2, 0.5, at(3)),
            ("d", 0, None, None, "D", 1, 0.25, at(4)),
            ("d", 1, None, "A", "B", 1, 1.0, at(1)),
            ("d", 1, None, "B", "C", 2, 2 / 3, at(3)),
            ("d", 1, None, "B", "D", 1, 1 / 3, at(4)),
            ("d", 2, "A", "B", "C", 1, 0.5, at(2)),
            ("d", 2, "A", "B", "D", 1, 0.5, at(4)),
            ("d", 2, "X", "B", "C", 1, 1.0, at(3)),
        ],
        TRANSITIONS,
    )


def test_arrivals_are_counted_where_a_stay_begins(spark: SparkSession) -> None:
    rows = observations(
        spark, ("c", 10, "A"), ("c", 20, "A"), ("d", 590, "A"), ("d", 610, "B"), ("d", 700, "A")
    )
    sojourns = silver.sojourns(rows, Rules(at_one_instant="all"), dataset="d")

    same(
        gold.client_arrivals(sojourns, bin_s=600),
        [
            ("d", "clients", "A", at(0), 2, 2 / 600),
            ("d", "clients", "A", at(600), 1, 1 / 600),
            ("d", "clients", "B", at(600), 1, 1 / 600),
        ],
        ARRIVAL_RATES,
    )


def test_the_daily_profile_counts_an_empty_bin_as_zero(spark: SparkSession) -> None:
    """Site A has arrivals on one of two days: its mean rate is half. Times of day are local: Berlin is an hour on."""
    rates = spark.createDataFrame(
        [
            ("d", "clients", "A", at(0), 6, 0.01),
            ("d", "clients", "B", at(0), 6, 0.01),
            ("d", "clients", "B", at(DAY), 6, 0.01),
        ],
        schema=ARRIVAL_RATES,
    )

    same(
        gold.daily_profile(rates, bin_s=600, time_zone="Europe/Berlin"),
        [
            ("d", "clients", "A", 60, 2, 0.005),
            ("d", "clients", "B", 60, 2, 0.01),
            ("d", "clients", "*", 60, 2, 0.015),
        ],
        DAILY_PROFILE,
    )


def test_days_share_a_sojourn_across_midnight_and_count_the_move_once(spark: SparkSession) -> None:
    evening, morning, noon = DAY - 3600, DAY + 7200, DAY + 7200 + 600
    rows = observations(spark, ("c", evening, "A"), ("c", morning, "B"), ("c", noon, "B"))
    sojourns = silver.sojourns(rows, Rules(at_one_instant="all", gap_s=4 * 3600), dataset="d")

    same(
        gold.days(sojourns, silver.moves(sojourns), "UTC"),
        [
            ("d", date(2024, 1, 1), 1, 0, 1.0, 0.0, 1, 3_600_000_000, 0),
            ("d", date(2024, 1, 2), 1, 1, 2.0 + 600 / 3600, 0.0, 2, 7_800_000_000, 0),
        ],
        DAYS,
    )


def test_sites_lie_where_their_clients_were_seen(spark: SparkSession) -> None:
    from roamq.pipeline.schemas import OBSERVATIONS

    rows = [("c", "all", at(n), n, "A", True, float(n), 1.0) for n in range(3)]
    seen = spark.createDataFrame(rows, schema=OBSERVATIONS)

    same(gold.sites_of_observations(seen, "d"), [("d", "A", 1.0, 1.0, 3, 1)], SITES)


def sojourn(
    state: str, site: str | None, begin: float, end: float, *, complete: bool = True, client: str = ""
) -> tuple[object, ...]:
    return (
        "d",
        client or f"c{begin}",
        "bus",
        state,
        site,
        at(begin),
        at(end),
        at(end),
        1,
        complete,
        *[None] * 5,
    )


def test_durations_are_described_by_group_and_incomplete_ones_last_longer_than_seen(
    spark: SparkSession,
) -> None:
    """Of six stays five last 10 to 14 s and one at least 8,999 s."""
    rows = [sojourn("connected", "A", n * 100, n * 100 + 10 + n) for n in range(5)]
    # Of the last two nobody saw the end; of the very last nobody saw the begin either, and it counts for nothing.
    rows.append(sojourn("connected", "A", 1000, 9999, complete=False, client="late"))
    rows.append(sojourn("disconnected", None, 970, 1000, client="late"))
    rows.append(sojourn("connected", "A", 3000, 99_999, complete=False))
    measured = connectivity.durations(spark.createDataFrame(rows, schema=SOJOURNS))
    found = connectivity.connectivity(measured, fit_samples=100).collect()

    described = {(r.period, r.grouping, r.value): (r.n, r.censored, r.mean_s, r.median_s) for r in found}
    curve = kaplan_meier([10, 11, 12, 13, 14, 8999], [True] * 5 + [False])
    mean = curve.mean_s()
    (p90,) = {r.p90_s for r in found if r.period == "stay"}
    assert p90 == pytest.approx(curve.quantile_s(0.9)), "beyond the curve it is extrapolated"
    assert described == {
        ("stay", "all", "*"): (5, 1, pytest.approx(mean), 12.0),
        ("stay", "class", "bus"): (5, 1, pytest.approx(mean), 12.0),
        ("stay", "site", "A"): (5, 1, pytest.approx(mean), 12.0),
        ("off", "all", "*"): (1, 0, 30.0, 30.0),
        ("off", "class", "bus"): (1, 0, 30.0, 30.0),
    }
    assert {r.family for r in found} == {None}, "five durations are too few for a fit"


def test_durations_are_counted_by_class_wherever_they_were_and_by_site_whatever_the_class(
    spark: SparkSession,
) -> None:
    """Curves of everything, of classes and of sites then each read the counts that they need, and no others."""
    rows = [
        ("d", "c1", "bus", "stay", "A", 10.0, True, 0.1),
        ("d", "c2", "bus", "stay", "B", 10.0, False, 0.2),
        ("d", "c3", "car", "stay", "A", 10.0, True, 0.3),
        ("d", "c3", None, "off", None, 20.0, True, 0.4),
    ]
    measured = spark.createDataFrame(rows, schema=DURATIONS)

    same(
        connectivity.duration_counts(measured),
        [
            ("d", "stay", "bus", None, 10.0, 1, 1),
            ("d", "stay", "car", None, 10.0, 1, 0),
            ("d", "stay", None, "A", 10.0, 2, 0),
            ("d", "stay", None, "B", 10.0, 0, 1),
            ("d", "off", None, None, 20.0, 1, 0),
        ],
        DURATION_COUNTS,
    )
    described = connectivity.described(connectivity.duration_counts(measured)).collect()
    assert {(r.period, r.grouping, r.value): (r.n, r.censored) for r in described} == {
        ("stay", "all", "*"): (2, 1),
        ("stay", "class", "bus"): (1, 1),
        ("stay", "class", "car"): (1, 0),
        ("stay", "site", "A"): (2, 0),
        ("off", "all", "*"): (1, 0),
    }, "a group of which no end was seen is not described"


def test_an_exponential_fleet_is_recognised_as_one(spark: SparkSession) -> None:
    lengths = np.random.default_rng(1).exponential(120.0, 400)
    rows = [sojourn("connected", "A", n * 10_000, n * 10_000 + length) for n, length in enumerate(lengths)]
    measured = connectivity.durations(spark.createDataFrame(rows, schema=SOJOURNS))
    found = connectivity.connectivity(measured, fit_samples=1000).collect()

    everything = {r.family: r for r in found if (r.period, r.grouping) == ("stay", "all")}
    assert set(everything) == {"exponential", "weibull", "lognormal", "hyperexponential"}
    exponential = everything["exponential"]
    assert exponential.params["mean"] == pytest.approx(lengths.mean(), rel=1e-6)
    assert exponential.ks_pvalue > 0.05 > everything["lognormal"].ks_pvalue
    assert [r.family for r in everything.values() if r.best] == [
        min(everything.values(), key=lambda r: r.aic).family
    ]


def test_a_large_group_is_fitted_on_a_sample_that_is_always_the_same(spark: SparkSession) -> None:
    rows = [sojourn("connected", "A", n * 100, n * 100 + 1 + n % 50) for n in range(2000)]
    frame = spark.createDataFrame(rows, schema=SOJOURNS)
    measured = connectivity.durations(frame)
    counted = connectivity.described(connectivity.duration_counts(measured))

    drawn = [
        sorted(
            r.duration_s
            for r in connectivity.chosen_samples(source, counted, at_most=200)
            .where("grouping = 'all'")
            .collect()
        )
        for source in (measured, measured.repartition(7))
    ]

    assert drawn[0] == drawn[1]
    assert 150 < len(drawn[0]) < 250


def stays_of(spark: SparkSession, ended: list[float], cut: list[float]) -> DataFrame:
    """Durations of stays that lasted so long, and of stays of which the begin was seen and so much of the rest."""
    rows = [
        sojourn("connected", "A", number * 2e6, number * 2e6 + lasting)
        for number, lasting in enumerate(ended)
    ]
    for number, lasting in enumerate(cut):
        begin = number * 2e6
        rows.append(sojourn("disconnected", None, begin - 5, begin, client=f"cut{number}"))
        rows.append(sojourn("connected", "A", begin, begin + lasting, complete=False, client=f"cut{number}"))
    return connectivity.durations(spark.createDataFrame(rows, schema=SOJOURNS))


@pytest.mark.parametrize("n", [1, 7, 997])
def test_the_ccdf_of_complete_durations_is_exact(spark: SparkSession, n: int) -> None:
    """Against a list that is sorted and counted off; every duration of the largest sample occurs several times."""
    lasting = sorted(float(1 + number * number % 311) for number in range(n))

    same(
        connectivity.ccdf(connectivity.duration_counts(stays_of(spark, lasting, []))),
        [
            ("d", "stay", share, lasting[math.ceil((1 - share) * n) - 1])
            for share in connectivity.SHARES_ABOVE
        ],
        CCDF,
    )


def test_the_ccdf_and_the_quantiles_know_that_censored_durations_last_longer(spark: SparkSession) -> None:
    """Against Kaplan and Meier's estimate in numpy; half of the durations are cut off."""
    random = np.random.default_rng(1)
    lasting, watched = random.exponential(300, 500).round() + 1, random.exponential(300, 500).round() + 1
    ended, cut = lasting[lasting <= watched], watched[lasting > watched]
    stays = stays_of(spark, ended.tolist(), cut.tolist())
    lengths, is_whole = np.concatenate([ended, cut]), np.arange(500) < ended.size
    curve = kaplan_meier(lengths, is_whole)

    points = [
        ("d", "stay", share, curve.quantile_s(1 - share))
        for share in connectivity.SHARES_ABOVE
        if share >= curve.tail
    ]
    same(connectivity.ccdf(connectivity.duration_counts(stays)).where("period = 'stay'"), points, CCDF)

    rows = (
        connectivity.connectivity(stays, fit_samples=10_000)
        .where("grouping = 'all' and period = 'stay'")
        .collect()
    )
    (exponential,) = (row for row in rows if row.family == "exponential")
    assert [exponential.median_s, exponential.p90_s, exponential.p99_s] == pytest.approx(
        [curve.quantile_s(share) for share in (0.5, 0.9, 0.99)]
    )
    assert exponential.mean_s == pytest.approx(curve.mean_s())
    assert exponential.params["mean"] == pytest.approx(lengths.sum() / ended.size)
    assert exponential.ks_pvalue is None
    assert (exponential.n, exponential.censored, exponential.fitted_on) == (ended.size, cut.size, 500)


def test_a_handoff_lasts_from_last_seen_to_first_seen_and_belongs_to_where_it_leads(
    spark: SparkSession,
) -> None:
    rows = observations(spark, ("c", 0, "A"), ("c", 40, "B"), ("c", 50, "B"), ("c", 58, "C"), ("c", 60, "C"))
    measured = connectivity.durations(silver.sojourns(rows, Rules(at_one_instant="all"), dataset="d"))

    handoffs = measured.where("period = 'handoff'").collect()
    assert sorted((r.site, r.duration_s) for r in handoffs) == [("B", 40.0), ("C", 8.0)]
    assert measured.where("period = 'on'").isEmpty(), "nobody saw the client connect"


def test_counts_become_event_rates(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [("d", "a1", datetime(2024, 1, 1, 0, 3, tzinfo=UTC), 30), ("d", "a1", at(10), 30)],
        schema="dataset string, site string, time timestamp, n bigint",
    )

    same(gold.event_arrivals(events, 600), [("d", "events", "a1", at(0), 60, 0.1)], ARRIVAL_RATES)
