"""Movement and who hears whom."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roamq.core.errors import ConfigError
from roamq.manet.simulation.field import Field
from roamq.manet.simulation.waypoint import RandomWaypoint, Standing, Walk


def test_random_waypoint_keeps_its_promises() -> None:
    """[DRIP] section VI-A1: 1,000 m x 1,000 m, speeds from 10 to 20 m/s, pauses between 2 and 4 seconds."""
    mobility = RandomWaypoint(50, Walk(), np.random.default_rng(3))
    times = np.arange(0.0, 300.0, 0.25)
    path = np.stack([mobility.positions(time) for time in times])
    speed = np.linalg.norm(np.diff(path, axis=0), axis=2) / 0.25

    assert path.min() >= 0.0
    assert path.max() <= 1000.0
    assert speed.max() <= 20.0 + 1e-9
    steady = speed[(speed > 0) & (np.abs(speed - np.roll(speed, 1, axis=0)) < 1e-9)]
    assert steady.min() >= 10.0 - 1e-9
    for node in range(50):
        standing = np.flatnonzero(speed[:, node] < 1e-9)
        pauses = [run for run in np.split(standing, np.flatnonzero(np.diff(standing) > 1) + 1) if run.size]
        inner = [0.25 * run.size for run in pauses if run[0] > 0 and run[-1] < len(speed) - 1]
        assert all(1.5 <= length <= 4.0 for length in inner), inner


def test_the_same_seed_walks_the_same_way() -> None:
    one, other = (RandomWaypoint(10, Walk(), np.random.default_rng(5)) for _ in range(2))

    assert np.array_equal(one.positions(77.7), other.positions(77.7))


def test_nonsense_walks_are_refused() -> None:
    with pytest.raises(ConfigError, match="speed_m_s"):
        Walk(speed_m_s=(0.0, 1.0))
    with pytest.raises(ConfigError, match="pause_s"):
        Walk(pause_s=(3.0, 1.0))


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_the_index_agrees_with_looking_at_all_pairs(seed: int, nodes: int) -> None:
    positions = np.random.default_rng(seed).uniform(0.0, 400.0, size=(nodes, 2))
    field = Field(Standing(positions), range_m=120.0, delay_s_per_m=0.5)

    for node in range(nodes):
        distance = np.linalg.norm(positions - positions[node], axis=1)
        expected = {
            other: distance[other] * 0.5
            for other in range(nodes)
            if other != node and distance[other] <= 120.0
        }
        assert field.neighbors(node) == pytest.approx(expected)


def test_a_vanished_node_is_nobodys_neighbor() -> None:
    positions = np.array([[0.0, 0.0], [50.0, 0.0], [100.0, 0.0]])
    field = Field(Standing(positions), range_m=60.0, delay_s_per_m=1.0)

    field.remove(1)
    assert [field.neighbors(node) for node in range(3)] == [{}, {}, {}]
    field.step(1.0)
    assert [field.neighbors(node) for node in range(3)] == [{}, {}, {}]


def test_a_wall_lets_nothing_through_until_it_is_taken_away() -> None:
    field = Field(Standing(np.array([[0.0, 0.0], [50.0, 0.0]])), range_m=60.0, delay_s_per_m=1.0)

    field.split(25.0)
    field.step(1.0)
    assert field.neighbors(0) == {}
    field.split(None)
    field.step(2.0)
    assert field.neighbors(0) == {1: 50.0}
