"""A bounded set of the rides in which everything happens at once (`rides.py`)."""

import pytest

from tests.net.rides import Ride, main
from tests.support.few import few

WENT_WRONG = (100964, 108855, 110062, 112958)
"""Seeds of rides that did not end well once: a context was left behind, or a link did not come up again."""


@pytest.mark.parametrize("seed", [*few(range(12)), *few(WENT_WRONG)])
def test_nothing_is_lost_doubled_reordered_or_left_behind(seed: int) -> None:
    assert Ride(seed).check() > 0


def test_the_same_seed_is_the_same_ride() -> None:
    one, other = Ride(3), Ride(3)
    assert one.mover.payloads() == other.mover.payloads()
    assert (one.fleet.now, one.count) == (other.fleet.now, other.count)


def test_a_ride_that_goes_wrong_says_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Ride, "check", lambda self: 1 / 0)
    monkeypatch.setattr("sys.argv", ["rides", "--rides", "1", "--first", "7"])
    assert main() == 1
    told = capsys.readouterr().out
    assert "ZeroDivisionError" in told and "python -m tests.net.rides --rides 1 --first 7\n" in told
    assert told.endswith("1 rides went wrong\n")
