"""Parts of the calibration; tests/cli/test_plan_check.py holds all of it against runs."""

import pytest

from roamq.models.calibration import _number_exceeded


def test_the_number_that_is_exceeded_for_a_share_of_the_time() -> None:
    """Geometric: more than n events for 0.5^(n + 1) of the time."""

    def above(number: int) -> float:
        return 0.5 ** (number + 1)

    assert _number_exceeded(above, 0.125) == 2
    assert _number_exceeded(above, 0.25) == 1
    assert _number_exceeded(above, (0.125 + 0.25) / 2) == pytest.approx(1.5)
    assert _number_exceeded(above, 0.5) == 0
    assert _number_exceeded(above, 0.9) == 0


def test_a_hair_between_two_whole_numbers_is_a_hair() -> None:
    """More than 3 events for a little more, or a little less, than 1% of the time: 3 or 4 as whole numbers."""
    answers = [
        _number_exceeded({0: 0.2, 1: 0.08, 2: 0.03, 3: share, 4: 0.004}.__getitem__, 0.01)
        for share in (0.0101, 0.0099)
    ]

    assert answers[0] == pytest.approx(answers[1], rel=0.02)
