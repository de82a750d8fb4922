"""Intervals over seeds: what one seed tells, what pairs cancel, and how many comparisons widen them."""

import math

import pytest

from roamq.models.paired import difference, exactly, interval, ratio


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
