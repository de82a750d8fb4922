"""The ranking of a study: ties where intervals overlap, harm before cost, and reasons in words."""

from types import SimpleNamespace

from roamq.report.ranking import advice, rank_schemes, ranking_table


def row(scheme: str, metric: str, mean: float, half: float = 0.0) -> SimpleNamespace:
    return SimpleNamespace(
        scheme=scheme, metric=metric, entity="all", mean=mean, low=mean - half, high=mean + half
    )


def test_what_loses_messages_ranks_below_what_costs_more() -> None:
    rows = [
        *(row("cheap", "loss_pct", 2.0, 0.1), row("cheap", "overhead", 0.1)),
        *(row("safe", "loss_pct", 0.0), row("safe", "overhead", 0.9)),
    ]

    ranked = rank_schemes(rows)

    assert [one.scheme for one in ranked] == ["safe", "cheap"]
    said = advice(ranked)
    assert said.startswith("Use safe. It lost nothing and repeated nothing on these traces.")
    assert "overhead" not in said, "what was saved by losing messages is no saving"
    assert "Not without loss or duplicates here: cheap." in said


def test_a_cost_is_compared_with_what_is_as_safe() -> None:
    rows = [
        *(
            row("lossy", "loss_pct", 2.0, 0.1),
            row("lossy", "overhead", 0.0),
            row("lossy", "handoff_s_mean", 9.0),
        ),
        *(row("quick", "loss_pct", 0.0), row("quick", "overhead", 0.9), row("quick", "handoff_s_mean", 0.1)),
        *(
            row("frugal", "loss_pct", 0.0),
            row("frugal", "overhead", 0.3),
            row("frugal", "handoff_s_mean", 0.2),
        ),
    ]

    said = advice(rank_schemes(rows))

    assert said == (
        "Use frugal. It lost nothing and repeated nothing on these traces. Its handoff delay is 0.2 s, 2.0 times "
        "that of quick (0.1), which is the choice if that matters most. Its overhead is 0.3: nothing as safe is "
        "clearly below that, and quick has 0.9. Not without loss or duplicates here: lossy."
    )


def test_overlapping_intervals_share_a_rank() -> None:
    ranked = rank_schemes(
        [
            row("a", "handoff_s_mean", 1.0, 0.2),
            row("b", "handoff_s_mean", 1.3, 0.2),
            row("c", "handoff_s_mean", 2.0, 0.1),
        ]
    )

    assert {one.scheme: one.ranks["handoff_s_mean"] for one in ranked} == {"a": 1, "b": 1, "c": 3}


def test_the_table_shows_mean_interval_and_rank_and_leaves_gaps_where_nothing_was_measured() -> None:
    table = ranking_table(rank_schemes([row("a", "overhead", 0.5, 0.1), row("b", "loss_pct", 0.0)]))

    assert [list(line) for line in table.rows] == [
        ["1. b", "0 (1)", None, None, None, None],
        ["2. a", None, None, None, "0.50 ± 0.10 (1)", None],
    ]
