"""The Number Interval model ([DRIP] section VI-A2)."""

import numpy as np
import pytest

from roamq.core.errors import ConfigError
from roamq.manet.simulation.workload import NumberInterval, abilities, detections, subscriptions

WORKLOAD = NumberInterval()


def test_half_of_the_nodes_want_an_interval_of_about_five() -> None:
    wanted = subscriptions(4000, WORKLOAD, np.random.default_rng(1))
    matched = [
        sum(any(condition.matches(event) for condition in filters) for filters in wanted)
        for _, _, event in detections([1.0], WORKLOAD, 0.0, 250.0, np.random.default_rng(2))
    ]

    assert 0.47 <= sum(bool(filters) for filters in wanted) / 4000 <= 0.53
    # An interval of length 5 holds 5 of 100 integers on average, a little less where the ends cut it.
    assert 0.04 <= np.mean(matched) / 2000 <= 0.055


def test_events_are_poisson_and_integers_in_range() -> None:
    found = list(detections([1.0, 1.0], WORKLOAD, 100.0, 5100.0, np.random.default_rng(1)))
    gaps = np.diff([time for time, _, _ in found])

    assert len(found) == pytest.approx(4000, rel=0.06)
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.06), "exponential gaps"
    values = {event.attributes["value"] for _, _, event in found}
    assert values == set(range(1, 101))
    assert min(time for time, _, _ in found) >= 100.0


def test_able_nodes_detect_in_proportion() -> None:
    found = list(detections([1.0, 3.0], WORKLOAD, 0.0, 5000.0, np.random.default_rng(4)))
    by_second = [event.id.sequence for _, node, event in found if node == 1]

    assert len(by_second) / len(found) == pytest.approx(0.75, abs=0.03)
    assert by_second == list(range(1, len(by_second) + 1)), "a node numbers its own events"


def test_abilities_follow_the_power_law() -> None:
    drawn = np.array(abilities(20000, WORKLOAD, np.random.default_rng(1)))

    for x in (2.0, 5.0, 20.0):
        assert np.mean(drawn > x) == pytest.approx(x**-1.0, rel=0.1)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ConfigError, match="ability_exponent"):
        NumberInterval(ability_exponent=1.0)
