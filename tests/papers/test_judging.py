"""How claims are judged: by whole intervals, sentence by sentence, in every setting that the paper allows."""

import math

import pytest

from roamq.models.paired import Estimate, exactly, interval
from roamq.reproduce.judging import Holds, Judgement, Wanted, about
from roamq.reproduce.registry import Verdict


def between(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("measured", "found"),
    [
        (between(0.75, 0.85), Holds.YES),
        (between(0.85, 0.95), Holds.UNDECIDED),
        (between(0.92, 0.95), Holds.NO),
        (between(0.2, 3.0), Holds.UNDECIDED),
        (interval([0.8]), Holds.UNDECIDED),  # one seed tells nothing, however near
        (None, Holds.UNDECIDED),
        (Estimate(math.nan, math.nan, math.nan), Holds.UNDECIDED),
    ],
)
def test_a_sentence_is_judged_by_the_whole_interval(measured: Estimate | None, found: Holds) -> None:
    assert Wanted(at_least=0.7, at_most=0.9).judge(measured) is found


@pytest.mark.parametrize(
    ("wanted", "measured", "found"),
    [
        (
            Wanted(below=1.0),
            between(0.3, 0.99),
            Holds.UNDECIDED,
        ),  # as wide as it can be without touching the bound
        (Wanted(below=1.0), between(0.92, 0.98), Holds.YES),
        (Wanted(above=1.0), between(1.01, 2.8), Holds.UNDECIDED),
        (Wanted(above=1.0), between(3.4, 4.6), Holds.YES),  # far away: its width matters less
        (Wanted(at_most=1.0), between(1.01, 2.8), Holds.UNDECIDED),
        (Wanted(below=0.0), between(-1.9, -0.1), Holds.UNDECIDED),  # a bound of 0 tells no scale
        (Wanted(below=0.0, widest=2.0), between(-1.9, -0.1), Holds.YES),
        (Wanted(at_least=0.5, at_most=1.5), between(0.51, 1.49), Holds.YES),
        (Wanted(at_least=0.5, at_most=1.5, widest=0.5), between(0.51, 1.49), Holds.UNDECIDED),
    ],
)
def test_an_interval_that_decides_has_a_largest_width(
    wanted: Wanted, measured: Estimate, found: Holds
) -> None:
    assert wanted.judge(measured) is found


def test_of_many_sentences_one_does_not_fail_by_chance() -> None:
    """Four seeds, and an interval that just misses its range: one of 24 such is expected to by chance alone."""
    near = interval([1.06, 1.10, 1.12, 1.16])
    alone, one_of_many = Judgement(), Judgement()
    for judgement, number in ((alone, 0), (one_of_many, 23)):
        for _ in range(number):
            judgement.says("another", exactly(1.0), at_least=0.8, at_most=1.02)
        judgement.says("about 1", near, at_least=0.8, at_most=1.02)

    assert alone.verdict is Verdict.DIFFERS
    assert one_of_many.verdict is Verdict.UNDECIDED
    assert "widened for 24 counted sentences" in one_of_many.table().note


def test_what_fails_by_far_fails_among_many() -> None:
    judgement = Judgement()
    for _ in range(23):
        judgement.says("another", exactly(1.0), at_least=0.9, at_most=1.1)
    judgement.says("about 1", interval([2.06, 2.10, 2.12, 2.16]), at_least=0.9, at_most=1.1)

    assert judgement.verdict is Verdict.DIFFERS


def test_a_strict_bound_excludes_itself() -> None:
    assert Wanted(below=1.0).judge(exactly(1.0)) is Holds.NO
    assert Wanted(at_most=1.0).judge(exactly(1.0)) is Holds.YES


def test_a_claim_is_reproduced_if_every_sentence_holds() -> None:
    judgement = Judgement()
    judgement.says("falls", between(-2, -1), below=0.0)
    judgement.says("about 1", between(0.9, 1.1), at_least=0.8, at_most=1.2)

    assert judgement.verdict is Verdict.REPRODUCED
    assert judgement.why() == ""


def test_one_sentence_that_fails_makes_it_differ_and_is_named_with_its_numbers() -> None:
    judgement = Judgement()
    judgement.says("falls", between(-2, -1), below=0.0)
    judgement.says("marginally", between(-2, -1), at_least=-0.1)
    judgement.says("wide", between(-9, 9), above=0.0)

    assert judgement.verdict is Verdict.DIFFERS
    assert judgement.why() == "does not hold: marginally: -1.5 (-2 to -1), wanted at least -0.1"


def test_a_reason_names_a_few_sentences_and_the_table_all() -> None:
    few = Judgement()
    for number in range(9):
        few.says(f"number {number}", between(-9, 9), above=0.0)
    assert few.why().count("; ") == 3
    assert few.why().endswith("number 2: 0 (-9 to 9), wanted above 0; undecided: 6 sentences more")
    assert len(few.table().rows) == 9


def test_an_interval_that_is_too_wide_decides_nothing() -> None:
    judgement = Judgement()
    judgement.says("falls", between(-2, 1), below=0.0)

    assert judgement.verdict is Verdict.UNDECIDED
    assert judgement.why().startswith("undecided: falls: -0.5 (-2 to 1)")


def test_what_was_calibrated_on_is_shown_and_does_not_count() -> None:
    judgement = Judgement()
    judgement.says("the column we fitted", between(5, 6), below=0.0, calibrated=True)
    judgement.says("falls", between(-2, -1), below=0.0)

    assert judgement.verdict is Verdict.REPRODUCED
    assert judgement.why() == "not counted, because parameters were fitted on it: the column we fitted"
    assert judgement.table().rows[0][-1] == "calibrated on"


def test_a_claim_of_nothing_but_what_was_fitted_is_undecided() -> None:
    judgement = Judgement()
    judgement.says("the column we fitted", between(-2, -1), below=0.0, calibrated=True)

    assert judgement.verdict is Verdict.UNDECIDED


def test_a_claim_that_holds_in_some_settings_depends_and_names_what_decides() -> None:
    judgement = Judgement()
    judgement.says("above", {f"transfer ms={ms}": between(10 - ms, 11 - ms) for ms in (2, 8, 14)}, above=0.0)
    judgement.says("the same everywhere", between(1, 2), above=0.0)

    assert judgement.verdict is Verdict.DEPENDS
    assert "transfer ms decides, between 8 and 14" in judgement.why()
    assert judgement.found(judgement.sentences[0]) == "depends"


def test_sentences_must_hold_together_in_one_setting() -> None:
    """ "about 1" with `turn` and "flat" with `stop` alone: no city has both."""
    judgement = Judgement()
    judgement.says("about 1", {"edge=stop": between(2, 3), "edge=turn": between(0.9, 1)}, at_most=1.1)
    judgement.says("flat", {"edge=stop": between(0, 0.1), "edge=turn": between(1, 2)}, at_most=0.2)

    assert judgement.verdict is Verdict.DIFFERS


def test_settings_that_do_not_tell_leave_it_undecided() -> None:
    judgement = Judgement()
    judgement.says("above", {"a=1": between(1, 2), "a=2": between(-1, 2)}, above=0.0)

    assert judgement.verdict is Verdict.UNDECIDED


def test_a_sentence_that_was_measured_in_other_settings_only_is_undecided() -> None:
    judgement = Judgement(["edge=stop", "edge=turn"])
    judgement.says("above", {"edge=stop": between(1, 2)}, above=0.0)

    assert judgement.verdict is Verdict.UNDECIDED


def test_as_many_digits_are_shown_as_tell_a_value_from_its_bounds() -> None:
    judgement = Judgement()
    judgement.says("P", exactly(0.1476793), at_least=0.1476785, at_most=0.1476795)
    judgement.says("about 1", between(0.91, 1.03), about(1.0))

    assert [list(row)[1:3] for row in judgement.table().rows] == [
        ["0.1476785 to 0.1476795", "0.1476793"],
        ["0.9 to 1.1", "0.97 (0.91 to 1.03)"],
    ]
    assert str(between(1000.0, 2344.0)) == "1670 (1000 to 2340)"


def test_the_table_of_sentences_counts_them() -> None:
    judgement = Judgement()
    judgement.says("one", between(1, 2), above=0.0)
    judgement.says("two", between(1, 2), above=0.0)
    judgement.says("three", between(1, 2), below=0.0)
    judgement.says("four", {"a=1": between(1, 2), "a=2": between(-2, -1)}, above=0.0)
    judgement.says("five", between(1, 2), above=0.0, calibrated=True)

    assert judgement.table().note.startswith(
        "Of 5 sentences 2 hold, 1 does not hold, 1 depends on the setting, 1 was calibrated on."
    )


def test_an_outcome_shows_every_sentence() -> None:
    judgement = Judgement()
    judgement.says("not in quick runs", None, at_least=1.0)

    outcome = judgement.outcome("nothing", note="12 handoffs")

    assert outcome.verdict is Verdict.UNDECIDED
    assert outcome.why.endswith("; 12 handoffs")
    assert [list(row) for row in outcome.tables[0].rows] == [
        ["not in quick runs", "at least 1", "not measured in these runs", "undecided"]
    ]


def test_published_values_and_ours_are_drawn_together() -> None:
    judgement = Judgement()
    judgement.says("about 0.8", between(0.76, 0.84), about(0.8))
    judgement.says("falls", between(-2, -1), below=0.0)

    figure, allowed = judgement.outcome("0.8").figures

    published, ours = figure.series
    assert list(allowed.series[0].x) == ["falls"]
    assert (published.published, list(published.x), list(published.y)) == (True, ["about 0.8"], [1.0])
    assert list(published.low or ()) == pytest.approx([0.9])
    assert list(ours.y) == pytest.approx([1.0])
    assert ours.high is not None
    assert list(ours.high) == pytest.approx([1.05])


def test_a_printed_range_is_drawn_over_its_middle() -> None:
    judgement = Judgement()
    judgement.says("37 to 42%", between(35.55, 39.5), Wanted(at_least=37.0, at_most=42.0, named=39.5))

    [figure] = judgement.outcome("").figures

    published, ours = figure.series
    assert [*(published.low or ()), *(published.high or ())] == pytest.approx([37 / 39.5, 42 / 39.5])
    assert [*(ours.low or ()), *(ours.high or ())] == pytest.approx([0.9, 1.0])


def test_what_the_paper_says_without_a_number_is_drawn_as_what_it_allows() -> None:
    judgement = Judgement()
    judgement.says("slightly lower", between(-0.5, -0.25), below=0.0, at_least=-2.0)
    judgement.says("higher", between(3.0, 5.0), above=1.0)
    judgement.says("lower", between(1.5, 2.0), below=1.0)
    judgement.says("not measured", None, below=1.0)

    [figure] = judgement.outcome("").figures

    allowed, ours = figure.series
    assert list(ours.x) == ["slightly lower", "higher", "lower"]
    assert list(allowed.low or ()) == [0.0, 0.0, 0.0], "what a sentence allows begins at its bound"
    assert list(ours.low or ()) == pytest.approx([0.5, 0.5, -1.0])
    assert list(ours.high or ()) == pytest.approx([1.0, 1.0, -0.5])


def test_several_settings_of_a_sentence_are_one_bar() -> None:
    judgement = Judgement()
    judgement.says("about 2", {"a=1": between(1.8, 2.0), "a=2": between(2.0, 2.4)}, about(2.0))

    [figure] = judgement.outcome("").figures

    _, ours = figure.series
    assert list(ours.x) == ["about 2"]
    assert list(ours.y) == pytest.approx([1.025])
    assert list(ours.low or ()) == pytest.approx([0.9])
    assert list(ours.high or ()) == pytest.approx([1.2])


def test_the_settings_for_which_all_holds_are_shown() -> None:
    judgement = Judgement()
    judgement.says("above", {"edge stop": between(-2, -1), "edge turn": between(1, 2)}, above=0.0)

    table = judgement.outcome("").tables[1]

    assert [list(row) for row in table.rows] == [
        ["edge stop", "does not hold", "above"],
        ["edge turn", "holds", ""],
    ]


def test_a_reason_tells_where_a_sentence_fails_from_where_it_is_open() -> None:
    judgement = Judgement()
    measured = {
        "set A": Estimate(2.0, 1.9, 2.1),
        "set B": Estimate(1.8, 1.7, 1.9),
        "set C": Estimate(1.2, 0.9, 1.5),
        "set D": Estimate(0.8, 0.7, 0.9),
    }
    judgement.says("it is low", measured, below=1.0)
    judgement.says("it is above one half", measured | {"set D": Estimate(0.5, 0.4, 0.6)}, above=0.5)

    assert judgement.verdict is Verdict.UNDECIDED
    assert judgement.why() == (
        "does not hold with set A: it is low: 2 (1.9 to 2.1), wanted below 1 (and in 1 other setting, undecided in 1); "
        "undecided with set D: it is above one half: 0.5 (0.4 to 0.6), wanted above 0.5"
    )
