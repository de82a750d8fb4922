"""The ranking of a study: safety before price, ties called ties, and the answer in one sentence."""

from collections.abc import Mapping, Sequence

from roamq.models.tariff import Tariff, amounts
from roamq.pipeline.schemas import MetricRow
from roamq.report.ranking import (
    advice,
    changes,
    front,
    front_figures,
    front_words,
    pairs_compared,
    rank_schemes,
    ranking_table,
    short_table,
)

TARIFF = Tariff(traffic=1.0, memory=1.0, delay=1.0)


def runs(
    scheme: str,
    *,
    traffic: Sequence[float],
    memory: float = 0.0,
    late_s: float = 0.0,
    lost: float = 0.0,
    twice: float = 0.0,
) -> list[MetricRow]:
    """One run per value of `traffic`, in GB per million messages."""
    rows = []
    for seed, gigabytes in enumerate(traffic, start=1):
        measured: Mapping[str, float] = {
            "received_once": 1e6,
            "traffic_bytes": gigabytes * 1e9,
            "memory_byte_s": memory * 3.6e12,
            "mobility_delay_s_mean": late_s,
            "loss_pct": lost,
            "duplication_pct": twice,
        }
        price = sum(amounts(measured).values())
        rows += [
            MetricRow("r", "study", scheme, {}, seed, name, "all", value)
            for name, value in {**measured, "price": price}.items()
        ]
    return rows


def places(rows: Sequence[MetricRow]) -> list[tuple[int, str]]:
    return [(one.place, one.scheme) for one in rank_schemes(rows)]


def test_what_loses_messages_never_ranks_above_what_does_not() -> None:
    rows = [
        *runs("lossy", traffic=[1, 1, 1], lost=0.01),
        *runs("repeating", traffic=[1, 1, 1], twice=5.0),
        *runs("safe", traffic=[9, 9, 9]),
    ]

    assert places(rows) == [(1, "safe"), (2, "repeating"), (3, "lossy")]
    said = advice(rank_schemes(rows), TARIFF)
    assert said.startswith(
        "Use safe, which lost and repeated no message and costs 9 per million messages at traffic=1"
    )
    assert said.endswith("lossy lost messages. repeating repeated messages.")


def test_schemes_tie_unless_the_seeds_agree_that_one_is_cheaper() -> None:
    rows = [
        *runs("a", traffic=[1.0, 2.0, 3.0]),
        *runs("b", traffic=[1.1, 2.3, 2.9]),  # now dearer, now cheaper
        *runs("c", traffic=[1.5, 2.5, 3.5]),  # dearer in every seed by the same amount
    ]

    assert places(rows) == [(1, "a"), (1, "b"), (2, "c")]
    assert "b cannot be told from it over 3 seeds" in advice(rank_schemes(rows), TARIFF)


def test_many_comparisons_need_a_clearer_difference() -> None:
    pair = [*runs("a", traffic=[1.0, 1.0, 1.0]), *runs("b", traffic=[1.30, 1.35, 1.45])]
    others = [row for n in range(8) for row in runs(f"other{n}", traffic=[5.0, 5.0, 5.0])]

    assert places(pair) == [(1, "a"), (2, "b")]
    assert places([*pair, *others])[:2] == [(1, "a"), (1, "b")]


def test_every_pair_that_is_compared_counts_and_no_other() -> None:
    """Five equally safe schemes are ten pairs; what loses messages is not compared with them by price."""
    safe = [row for name in "abcd" for row in runs(name, traffic=[1.0, 2.0, 3.0])]
    dearer = runs("e", traffic=[1.42, 2.5, 3.58])  # by 0.5, give or take 0.08
    lossy = [row for name in "xyz" for row in runs(name, traffic=[1.0, 2.0, 3.0], lost=1.0)]

    few = [*runs("a", traffic=[1.0, 2.0, 3.0]), *dearer]

    assert pairs_compared(rank_schemes([*safe, *dearer])) == 10
    assert pairs_compared(rank_schemes([*safe, *dearer, *lossy])) == 10 + 3
    assert places([*safe, *dearer])[-1] == (1, "e"), (
        "an interval for each of the other four would tell it apart"
    )
    assert places(few) == [(1, "a"), (2, "e")]
    assert places([*few, *runs("x", traffic=[1.0, 2.0, 3.0], lost=1.0)])[1] == (2, "e")


def test_one_seed_tells_nothing_apart() -> None:
    ranked = rank_schemes([*runs("a", traffic=[1.0]), *runs("b", traffic=[7.0])])

    assert [one.place for one in ranked] == [1, 1]
    assert "b cannot be told from it with one seed" in advice(ranked, TARIFF)


def test_a_difference_that_does_not_matter_is_a_tie() -> None:
    assert places([*runs("a", traffic=[1.0] * 3), *runs("b", traffic=[1.001] * 3)]) == [(1, "a"), (1, "b")]


def test_the_answer_says_at_which_rate_it_would_change() -> None:
    rows = [
        *runs("frugal", traffic=[1.0] * 3, late_s=0.0072),  # two hours for a million messages
        *runs("quick", traffic=[5.0] * 3, late_s=0.0036),
        *runs("lossy", traffic=[0.5] * 3, lost=1.0),
    ]
    ranked = rank_schemes(rows)

    found = {change.rate: str(change) for change in changes(ranked, TARIFF)}
    assert found == {"delay": "to quick above delay=4", "traffic": "to quick below traffic=0.25"}
    assert "the answer would change to quick" in advice(ranked, TARIFF)


def test_where_all_tie_nothing_is_said_of_other_rates() -> None:
    said = advice(rank_schemes([*runs("a", traffic=[1.0]), *runs("b", traffic=[7.0])]), TARIFF)

    assert "any rate" not in said


def test_a_scheme_that_is_better_in_everything_stays_the_answer() -> None:
    ranked = rank_schemes(
        [*runs("a", traffic=[1.0] * 3), *runs("b", traffic=[2.0] * 3, memory=1.0, late_s=1.0)]
    )

    assert "no equally safe scheme would be cheaper at any rate" in advice(ranked, TARIFF)


def test_the_front_has_the_safe_schemes_that_no_other_beats() -> None:
    ranked = rank_schemes(
        [
            *runs("frugal", traffic=[1.0] * 3, memory=2.0, late_s=3.0),
            *runs("quick", traffic=[9.0] * 3, memory=9.0, late_s=1.0),
            *runs("beaten", traffic=[9.5] * 3, memory=9.0, late_s=2.0),
            *runs("lossy", traffic=[0.1] * 3, lost=1.0),
        ]
    )

    assert {one.scheme for one in front(ranked)} == {"frugal", "quick"}
    captions = [figure.caption for figure in front_figures(ranked)]
    assert all("The front of delay, traffic and memory: quick and frugal." in caption for caption in captions)


def test_a_scheme_that_is_best_in_everything_is_the_whole_front() -> None:
    ranked = rank_schemes([*runs("a", traffic=[1.0] * 3), *runs("b", traffic=[2.0] * 3, late_s=1.0)])

    assert front_words(ranked).startswith("a has the least delay, traffic and memory at once")


def test_the_table_of_a_terminal_fits_80_columns() -> None:
    names = ("prefetching+on-device", "standard+on-device", "home-broker", "durable")
    ranked = rank_schemes(
        [row for name in names for row in runs(name, traffic=[1234.567] * 3, memory=123.4, late_s=0.0123456)]
    )
    table = short_table(ranked)

    widths = [
        max(len(str(row[i])) for row in (table.columns, *table.rows)) for i in range(len(table.columns))
    ]
    assert sum(widths) + len(widths) - 1 <= 78, "the frame takes two more"
    assert [row[0] for row in table.rows] == ["1="] * 4


def test_a_metric_that_was_not_measured_leaves_a_gap() -> None:
    rows = [row for row in runs("a", traffic=[1.0] * 2) if row.metric in ("loss_pct", "duplication_pct")]
    ranked = rank_schemes(rows)

    assert [list(line) for line in ranking_table(ranked).rows] == [
        ["1 a", "0", "0", None, None, None, None, None]
    ]
    assert advice(ranked, TARIFF).startswith("No price can be computed for a")
    assert front_figures(ranked) == []
