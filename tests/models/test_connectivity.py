"""ON/OFF observations become periods."""

import numpy as np
import pytest

from roamq.models.connectivity import concatenate, join, periods


def test_a_literal_journey() -> None:
    """[TIME] section 4.1.3: a tuple at every change, and every 30 seconds besides."""
    journey = periods([0, 30, 50, 80, 95, 125, 140], [True, True, False, False, True, True, False])

    assert journey.on.whole_s.tolist() == [45]
    assert journey.off.whole_s.tolist() == [45]
    assert (journey.on.total_s, journey.on.ends) == (95, 2)
    assert (journey.off.total_s, journey.off.ends) == (45, 1)


def test_a_journey_in_one_state_knows_no_mean() -> None:
    journey = periods([0, 30, 60], [True, True, True])

    assert journey.on.total_s == 60
    with pytest.raises(ValueError, match="none was seen to end"):
        journey.on.exponential_mean_s()


def test_counting_cut_periods_removes_the_bias_that_short_journeys_have() -> None:
    """Whole periods fit into a journey of 300 s only if they are shorter: their average is far too low."""
    rng = np.random.default_rng(3)
    journeys = []
    for _ in range(400):
        on = bool(rng.random() < 0.6)
        time, times, states = 0.0, [0.0], [on]
        while (time := time + rng.exponential(150 if on else 100)) < 300:
            on = not on
            times.append(time)
            states.append(on)
        times.append(300.0)
        states.append(on)
        journeys.append(periods(times, states))
    path = join(journeys)

    assert path.on.exponential_mean_s() == pytest.approx(150, rel=3 / np.sqrt(path.on.ends))
    assert path.off.exponential_mean_s() == pytest.approx(100, rel=3 / np.sqrt(path.off.ends))
    assert path.on.whole_s.mean() < 110


def test_concatenated_journeys_are_one_journey() -> None:
    journey = ([100.0, 110.0, 130.0], [True, False, False])

    path = concatenate([journey, ([], []), ([0.0, 7.0, 9.0], [False, True, True])])

    assert path.off.whole_s.tolist() == [27]


@pytest.mark.parametrize(
    ("times", "states", "named"), [([0, 1], [True], "is_on"), ([1, 0], [True, False], "times_s")]
)
def test_bad_input_is_named(times: list[float], states: list[bool], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        periods(times, states)
