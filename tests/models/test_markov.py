"""The papers' Markov models of movement, and ours for any graph."""

import tracemalloc

import numpy as np
import pytest

from roamq.models.markov import Occupancy, neighboring_mobility, random_generator, random_mobility, stationary

TIMES = {"t_connect_s": 60.0, "t_disconnect_s": 12.0, "t_handoff_s": 3.0}

TESTBED = {
    "B1": ["B2", "B6"],
    "B2": ["B1", "B3", "B6"],
    "B3": ["B2", "B4", "B5", "B6"],
    "B4": ["B3", "B6"],
    "B5": ["B3"],
    "B6": ["B1", "B2", "B3", "B4"],
}
"""[PRO] Fig. 3, read off the printed generator."""


def test_random_mobility_of_the_testbed() -> None:
    """[PRO] section 6.4: "P = 0.147679 ... pi1 = 0.025316 and pi2 = 0.088608"."""
    occupancy = random_mobility(6, **TIMES)

    assert occupancy.connected == pytest.approx([0.147679] * 6, abs=5e-7)
    assert occupancy.handoff == pytest.approx(0.025316, abs=5e-7)
    assert occupancy.disconnected == pytest.approx(0.088608, abs=5e-7)
    assert occupancy.expected(200)["B1"] == pytest.approx(29.5358, abs=1e-4)


@pytest.mark.parametrize("brokers", [1, 2, 6, 40])
def test_the_closed_form_solves_the_generator(brokers: int) -> None:
    """[PRO] Eq. 4 against Eq. 6-8."""
    occupancy = random_mobility(brokers, t_connect_s=37, t_disconnect_s=5, t_handoff_s=2)
    law = stationary(random_generator(brokers, t_connect_s=37, t_disconnect_s=5, t_handoff_s=2))

    assert law[0] == pytest.approx(occupancy.handoff)
    assert law[1] == pytest.approx(occupancy.disconnected)
    assert law[2:] == pytest.approx(occupancy.connected)


def test_neighboring_mobility_of_the_testbed() -> None:
    """[PRO] Table 5."""
    occupancy = neighboring_mobility(TESTBED, **TIMES)

    assert occupancy.connected == pytest.approx([0.1099, 0.1648, 0.2198, 0.1099, 0.0549, 0.2198], abs=1e-4)
    assert occupancy.disconnected + occupancy.handoff == pytest.approx(0.1209, abs=1e-4)
    assert occupancy.expected(200)["B3"] == pytest.approx(43.96, abs=0.01)


def simulated_shares(rng: np.random.Generator, moves: int) -> tuple[np.ndarray, float]:
    """A walk of the subscriber of [PRO] section 5.1.2 on the testbed: time shares connected per broker."""
    names = list(TESTBED)
    spent = np.zeros(6)
    away = 0.0
    at = 0
    for _ in range(moves):
        spent[at] += rng.exponential(60)
        if rng.random() < 0.5:
            away += rng.exponential(12)
            if rng.random() < 0.5:
                continue
        away += rng.exponential(3)
        at = names.index(TESTBED[names[at]][rng.integers(len(TESTBED[names[at]]))])
    total = spent.sum() + away
    return spent / total, away / total


def test_a_walking_subscriber_spends_its_time_as_the_chain_says() -> None:
    walks = [simulated_shares(np.random.default_rng(seed), 4_000) for seed in range(8)]
    shares = np.array([walk[0] for walk in walks])
    error = shares.std(axis=0, ddof=1) / np.sqrt(len(walks))

    occupancy = neighboring_mobility(TESTBED, **TIMES)

    assert (error < 0.05 * occupancy.connected).all()
    assert (np.abs(shares.mean(axis=0) - occupancy.connected) < 4 * error).all()


def test_weights_and_times_per_broker() -> None:
    """Two brokers in turn: the time at each is in proportion to how long a visit lasts."""
    occupancy = neighboring_mobility(
        {"a": {"b": 7.0}, "b": {"a": 0.1}},
        t_connect_s={"a": 10, "b": 30},
        t_disconnect_s=1,
        t_handoff_s=1,
        p_disconnect=0.0,
    )

    assert occupancy.connected == pytest.approx([10 / 42, 30 / 42])
    assert occupancy.handoff == pytest.approx(2 / 42)


def test_the_number_of_subscribers_is_binomial() -> None:
    occupancy = Occupancy(("a",), np.array([0.25]), 0.5, 0.25)

    assert occupancy.expected(400) == {"a": 100}
    assert occupancy.deviation(400)["a"] == pytest.approx(np.sqrt(400 * 0.25 * 0.75))
    assert occupancy.quantile(400, 0.5) == {"a": 100}
    assert occupancy.quantile(400, 0.99)["a"] == pytest.approx(100 + 2.33 * np.sqrt(75), abs=1)


def test_thousands_of_brokers_need_no_dense_matrix() -> None:
    side = 60
    grid = {
        f"{x},{y}": [
            f"{u},{v}"
            for u, v in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1))
            if 0 <= u < side and 0 <= v < side
        ]
        for x in range(side)
        for y in range(side)
    }
    tracemalloc.start()
    try:
        occupancy = neighboring_mobility(grid, **TIMES)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak_bytes < 8 * len(grid) ** 2 / 5
    # On an undirected graph visits are in proportion to the number of neighbors.
    degree = np.array([len(others) for others in grid.values()])
    assert occupancy.connected == pytest.approx(degree / degree.sum() * occupancy.connected.sum())


@pytest.mark.parametrize(
    ("neighbors", "named"),
    [
        ({}, "no broker"),
        ({"a": []}, "a needs at least one neighbor"),
        ({"a": ["b"]}, "a names b"),
        ({"a": ["b"], "b": ["b"]}, "no way leads from a to b and back"),
        ({"a": {"b": -1.0, "a": 2.0}, "b": ["a"]}, "negative"),
    ],
)
def test_bad_graphs_are_named(neighbors: dict[str, list[str]], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        neighboring_mobility(neighbors, **TIMES)


@pytest.mark.parametrize("field", ["t_connect_s", "t_disconnect_s", "t_handoff_s", "p_return"])
def test_bad_fields_are_named(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        neighboring_mobility(TESTBED, **{**TIMES, field: -1.0})


def test_a_missing_time_is_named() -> None:
    with pytest.raises(ValueError, match="no time is given for B2"):
        neighboring_mobility(TESTBED, t_connect_s={"B1": 1.0}, t_disconnect_s=1, t_handoff_s=1)
