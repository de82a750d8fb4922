"""Fixed lifetimes and finite buffers along a path: against closed forms, a chain written out whole, and simulation."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from roamq.models import phase_type as pt
from roamq.models.buffers import finite, response_s_drop_oldest
from roamq.models.buffers_behind import finite_behind
from roamq.models.fixed_lifetimes import Flow, delivered_in_time, with_fixed_lifetimes
from roamq.models.intermittent import IntermittentQueue
from roamq.sim import queueing as sim
from tests.models.replications import estimate, replicate


def on_off(rate: float, demand_s: float, on_s: float, off_s: float) -> IntermittentQueue:
    return IntermittentQueue(
        rate=rate, service=pt.exponential(demand_s), on=pt.exponential(on_s), off=pt.exponential(off_s)
    )


# Fixed lifetimes


@pytest.mark.parametrize("rate", [4.0, 7.99, 8.0001, 20.0])
@pytest.mark.parametrize("lifetime_s", [0.01, 0.3, 50.0])
def test_one_server_that_is_always_on(rate: float, lifetime_s: float) -> None:
    """The age of the head has the density rate p exp((rate - served) x), with p the probability of an empty server."""
    served = 8.0
    under_way = math.expm1((rate - served) * lifetime_s) / (rate - served)
    empty = 1 / (1 + rate * under_way)

    survivors = with_fixed_lifetimes(
        IntermittentQueue(rate=rate, service=pt.exponential(1 / served)), np.array([lifetime_s])
    )

    assert survivors.share[0] == pytest.approx(served * empty * under_way, rel=1e-9)
    assert survivors.weights.sum() == pytest.approx(survivors.share[0], rel=1e-9)


def test_a_backlog_that_is_handed_over_at_once() -> None:
    """Without any time to serve, an event is lost if the rest of the disconnection is longer than its lifetime."""
    lifetimes = np.array([5.0, 20.0, 300.0])
    survivors = with_fixed_lifetimes(on_off(1.0, 1e-6, 60.0, 40.0), lifetimes)

    assert survivors.share == pytest.approx(1 - 0.4 * np.exp(-lifetimes / 40.0), abs=1e-4)


def test_ages_are_those_of_the_response_time_where_nothing_expires() -> None:
    queue = on_off(1.0, 0.1, 60.0, 20.0)
    survivors = with_fixed_lifetimes(queue, np.array([2000.0]))

    assert survivors.share[0] == pytest.approx(1.0, abs=1e-6)
    assert float((survivors.ages_s * survivors.weights).sum()) == pytest.approx(
        queue.mean_response_s(), rel=1e-4
    )
    within = survivors.weights[survivors.ages_s <= 31.25].sum()  # a border between two cells
    assert within == pytest.approx(float(queue.response_distribution().cdf(31.25)), abs=1e-6)


def test_dropping_helps_those_behind() -> None:
    queue = on_off(1.0, 0.3, 60.0, 60.0)
    for lifetime_s in (1.0, 30.0, 200.0):
        share = with_fixed_lifetimes(queue, np.array([lifetime_s])).share[0]
        assert share > queue.in_time(lifetime_s)


def test_bad_lifetimes_are_named() -> None:
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="lifetimes_s"):
            with_fixed_lifetimes(on_off(1.0, 0.1, 10.0, 10.0), np.array([wrong]))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [2.0, 8.0])
def test_one_centre_matches_the_simulation_even_under_overload(rate: float) -> None:
    centres = [sim.exponential_centre(0.125, t_on_s=20.0, t_off_s=20.0)]
    runs = replicate(centres, rate=rate, until_s=10_000.0, ttl=lambda _, size: np.full(size, 15.0))
    share = estimate(lambda run: run.delivered_share, runs)

    modelled = with_fixed_lifetimes(on_off(rate, 0.125, 20.0, 20.0), np.array([15.0])).share[0]

    assert share.agrees_with(modelled, precision=0.03)


@pytest.mark.slow
def test_two_peers_that_are_away_are_within_a_tenth_of_the_simulation() -> None:
    path = [
        Flow(on_off(1.0, 0.1, 20.0, 20.0)),
        Flow(IntermittentQueue(rate=2.0, service=pt.exponential(0.1)), other_rate=1.0),
        Flow(on_off(1.0, 0.2, 30.0, 15.0)),
    ]
    centres = [
        sim.exponential_centre(0.1, t_on_s=20.0, t_off_s=20.0),
        sim.exponential_centre(0.1, other_rate=1.0),
        sim.exponential_centre(0.2, t_on_s=30.0, t_off_s=15.0),
    ]
    runs = replicate(centres, rate=1.0, until_s=40_000.0, ttl=lambda _, size: np.full(size, 12.0))
    share = estimate(lambda run: run.delivered_share, runs)
    assert share.error < 0.01 * share.mean

    assert delivered_in_time(path, 12.0) == pytest.approx(share.mean, rel=0.1)
    assert delivered_in_time(path[:1], 12.0) > delivered_in_time(path[:2], 12.0)


# Finite buffers


def whole_chain(first: IntermittentQueue, room: int, second: IntermittentQueue, behind: int) -> np.ndarray:
    """Both centres in one chain of (connected, number, connected, number): its stationary law, as a table."""
    assert first.on is not None and first.off is not None and second.on is not None and second.off is not None
    states = list(itertools.product((1, 0), range(room + 1), (1, 0), range(behind + 1)))
    place = {state: number for number, state in enumerate(states)}
    rates = np.zeros((len(states), len(states)))
    for on_1, n_1, on_2, n_2 in states:
        here = place[on_1, n_1, on_2, n_2]
        rates[here, place[1 - on_1, n_1, on_2, n_2]] += 1 / (first.on if on_1 else first.off).mean()
        rates[here, place[on_1, n_1, 1 - on_2, n_2]] += 1 / (second.on if on_2 else second.off).mean()
        if n_1 < room:
            rates[here, place[on_1, n_1 + 1, on_2, n_2]] += first.rate
        if on_1 and n_1:
            rates[here, place[on_1, n_1 - 1, on_2, min(n_2 + 1, behind)]] += 1 / first.service.mean()
        if on_2 and n_2:
            rates[here, place[on_1, n_1, on_2, n_2 - 1]] += 1 / second.service.mean()
    rates -= np.diag(rates.sum(axis=1))
    law = np.linalg.lstsq(
        np.vstack([rates.T, np.ones(len(states))]), np.append(np.zeros(len(states)), 1.0), rcond=None
    )[0]
    return np.asarray(law).reshape(2, room + 1, 2, behind + 1)


@pytest.mark.parametrize(("room", "behind"), [(1, 1), (4, 3), (3, 6)])
def test_two_finite_buffers_equal_the_whole_chain(room: int, behind: int) -> None:
    first, second = on_off(1.0, 0.3, 6.0, 4.0), on_off(1.0, 0.4, 5.0, 3.0)
    law = whole_chain(first, room, second, behind)

    found = finite_behind(first, room, second, behind)

    leaving = law[0, 1:].sum(axis=(0, 1))  # by the number at the second centre, to a scale
    assert found.loss == pytest.approx(leaving[-1] / leaving.sum(), rel=1e-9)
    assert found.mean_present == pytest.approx(law.sum(axis=(0, 1, 2)) @ np.arange(behind + 1), rel=1e-9)
    assert found.delivered_rate == pytest.approx(law[:, :, 0, 1:].sum() / second.service.mean(), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("room", "behind"), [(30, 8), (100, 60)])
def test_bursts_into_a_finite_buffer_match_the_simulation(room: int, behind: int) -> None:
    """The larger backlog is counted in lumps. As a Poisson process the same events would lose much less."""
    first, second = on_off(1.0, 0.02, 60.0, 60.0), on_off(1.0, 0.3, 30.0, 15.0)
    centres = [
        replace(sim.exponential_centre(0.02, t_on_s=60.0, t_off_s=60.0), capacity=room),
        replace(sim.exponential_centre(0.3, t_on_s=30.0, t_off_s=15.0), capacity=behind),
    ]
    runs = replicate(centres, rate=1.0, until_s=60_000.0)
    before = finite(first, room)

    found = finite_behind(first, room, second, behind)

    delivered = estimate(lambda run: run.delivered_share, runs)
    assert (1 - before.loss) * (1 - found.loss) == pytest.approx(delivered.mean, rel=0.03)
    as_poisson = finite(replace(second, rate=before.delivered_rate), behind)
    assert (1 - before.loss) * (1 - as_poisson.loss) > 1.05 * delivered.mean
    assert found.response_s_drop_oldest is not None
    assert found.response_s_drop_oldest < found.response_s
    if behind == 60:
        # Smaller buffers drop whom the first centre kept waiting, so the delivered have waited less there than all.
        newest_s = estimate(lambda run: run.mean_s(), runs).mean
        assert before.response_s + found.response_s == pytest.approx(newest_s, rel=0.1)


def test_a_source_that_is_hardly_ever_away_releases_a_poisson_process() -> None:
    first, second = on_off(1.0, 1e-3, 1e4, 1e-3), on_off(1.0, 0.3, 30.0, 15.0)

    found = finite_behind(first, 10, second, 12)

    assert found.loss == pytest.approx(finite(second, 12).loss, rel=1e-3)
    assert found.response_s == pytest.approx(finite(second, 12).response_s, rel=1e-3)
    assert found.response_s_drop_oldest == pytest.approx(response_s_drop_oldest(second, 12), rel=1e-3)


def test_a_source_that_holds_little_is_exact_whatever_the_lumps() -> None:
    """A backlog of hardly more than a few events: room for a thousand changes nothing."""
    first, second = on_off(0.2, 0.05, 30.0, 5.0), on_off(0.2, 0.5, 20.0, 5.0)

    assert finite_behind(first, 1000, second, 4).loss == pytest.approx(
        finite_behind(first, 18, second, 4).loss, rel=0.02
    )
