"""Intervals over seeds: what one seed tells, what pairs cancel, and how many comparisons widen them."""

import math

import pytest

from roamq.models.paired import Estimate, difference, exactly, interval, ratio


def test_one_seed_has_no_interval() -> None:
    found = interval([3.0])

    assert (found.mean, found.width) == (3.0, math.inf)
    assert found.low <= 0.0 <= found.high
    assert str(found) == "3 (one seed)"


def test_the_interval_is_students() -> None:
    found = interval([1.0, 2.0, 3.0])

    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3))
    assert found.width == pytest.approx(2 * 4.302653 / math.sqrt(3))


def test_more_comparisons_make_wider_intervals() -> None:
    assert interval([1.0, 2.0, 3.0], comparisons=9).width > 2.9 * interval([1.0, 2.0, 3.0]).width


def test_what_a_seed_does_to_both_cancels() -> None:
    a = {1: 10.0, 2: 20.1, 3: 30.0}
    b = {1: 9.0, 2: 19.0, 3: 29.0}

    assert difference(a, b).low > 0.8, "although the values of the seeds lie far apart"
    assert ratio({1: 2.0, 2: 4.0}, {1: 1.0, 2: 2.0}) == exactly(2.0)
    nothing = ratio({1: 2.0}, {1: 0.0})
    assert nothing.low <= 0.0 <= nothing.high


def test_an_interval_is_widened_for_those_that_must_hold_together_with_it() -> None:
    values = [1.0, 2.0, 3.0, 4.5]

    once, nine = interval(values), interval(values, comparisons=9)

    assert once.widened(9) == nine
    assert nine.widened(4) == nine, "it is wide enough already"
    assert exactly(2.0).widened(100) == exactly(2.0)
    assert Estimate(1.0, 0.0, 2.0).widened(10).high == pytest.approx(1 + 2.807034 / 1.959964)
