"""Finite buffers and events that expire, against textbook formulas and the simulation."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from roamq.models import phase_type as pt
from roamq.models.buffers import capacity_for_loss, finite, loss, response_s_drop_oldest
from roamq.models.intermittent import IntermittentQueue
from roamq.models.lifetimes import with_lifetime
from roamq.sim import queueing as sim
from tests.models.replications import estimate, gamma, replicate

Floats = NDArray[np.float64]

MM1 = IntermittentQueue(rate=4, service=pt.exponential(0.125))
ON_OFF = IntermittentQueue(
    rate=2, service=pt.exponential(0.125), on=pt.exponential(20), off=pt.exponential(20)
)


def simulated(capacity: int | None = None) -> list[sim.SimulatedCentre]:
    return [
        sim.SimulatedCentre(
            service=sim.exponential(0.125),
            on=sim.exponential(20.0),
            off=sim.exponential(20.0),
            capacity=capacity,
        )
    ]


@pytest.mark.parametrize("capacity", [1, 2, 10])
def test_loss_of_mm1k(capacity: int) -> None:
    load = 0.5
    expected = (1 - load) * load**capacity / (1 - load ** (capacity + 1))

    assert loss(MM1, capacity) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [1, 10, 60])
def test_loss_of_the_on_off_centre_matches_the_simulation(capacity: int) -> None:
    runs = replicate(simulated(capacity), rate=2.0, until_s=20_000.0)
    share = estimate(lambda run: 1 - run.delivered_share, runs)

    assert share.agrees_with(loss(ON_OFF, capacity), precision=0.07)


def test_loss_equals_the_dense_solution() -> None:
    """The sweep from the top against the whole chain solved at once, with phase-type parts."""
    queue = IntermittentQueue(rate=3, service=pt.erlang(2, 0.125), on=pt.erlang(2, 4), off=pt.exponential(3))

    assert loss(queue, 12) == pytest.approx(stationary(queue, 12)[-1].sum())


def stationary(queue: IntermittentQueue, capacity: int) -> Floats:
    """The probabilities of 0 to `capacity` events, by phase, from the whole chain at once."""
    m = queue.phases
    size = (capacity + 1) * m
    generator = np.zeros((size, size))
    for level in range(capacity + 1):
        here = slice(level * m, (level + 1) * m)
        generator[here, here] = queue.busy if level else queue.idle
        if level < capacity:
            generator[here, here] -= queue.rate * np.eye(m)
            generator[here, (level + 1) * m : (level + 2) * m] = queue.rate * np.eye(m)
        if level:
            generator[here, (level - 1) * m : level * m] = queue.completions
    system = np.vstack([generator.T, np.ones(size)])
    law = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.asarray(law.reshape(capacity + 1, m), dtype=np.float64)


def test_the_capacity_for_a_loss_is_the_smallest_that_meets_it() -> None:
    for target in (0.05, 1e-3, 1e-8):
        capacity = capacity_for_loss(ON_OFF, target)
        assert loss(ON_OFF, capacity) <= target < loss(ON_OFF, capacity - 1)


def test_an_overloaded_queue_loses_at_least_its_excess() -> None:
    overloaded = IntermittentQueue(rate=16, service=pt.exponential(0.125))

    assert loss(overloaded, 200) == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"at least 0\.5 is lost whatever the buffer"):
        capacity_for_loss(overloaded, 0.4)
    assert capacity_for_loss(overloaded, 0.6) < 5


@pytest.mark.parametrize(("target", "capacity"), [(0.0, 1), (1.5, 1), (0.1, 0)])
def test_bad_targets_are_named(target: float, capacity: int) -> None:
    with pytest.raises(ValueError, match=r"target|capacity"):
        capacity_for_loss(ON_OFF, target) if capacity else loss(ON_OFF, capacity)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [2.0, 8.0])
def test_delivery_with_lifetimes_matches_the_simulation_even_under_overload(rate: float) -> None:
    queue = IntermittentQueue(
        rate=rate, service=pt.erlang(2, 0.125), on=pt.exponential(20), off=pt.exponential(20)
    )
    centres = [
        sim.SimulatedCentre(service=gamma(2, 0.125), on=sim.exponential(20.0), off=sim.exponential(20.0))
    ]

    runs = replicate(centres, rate=rate, until_s=10_000.0, ttl=sim.exponential(30.0))
    share = estimate(lambda run: run.delivered_share, runs)

    assert share.agrees_with(with_lifetime(queue, 30).delivered_share, precision=0.03)


def test_long_lifetimes_expire_nothing_and_short_ones_nearly_everything() -> None:
    assert with_lifetime(MM1, 1e3).delivered_share == pytest.approx(1, abs=1e-3)
    assert with_lifetime(MM1, 1e3).mean_present == pytest.approx(MM1.mean_present(), rel=1e-2)
    assert with_lifetime(MM1, 1e-3).expired_share > 0.99


def test_a_lifetime_in_mm1_by_hand() -> None:
    """Births 4 a second, deaths 8 + n/lifetime: solved level by level."""
    expiry = 1 / 0.5
    law = [1.0]
    for n in range(1, 80):
        law.append(law[-1] * 4 / (8 + n * expiry))
    share_delivered = 8 * (1 - law[0] / sum(law)) / 4

    assert with_lifetime(MM1, 0.5).delivered_share == pytest.approx(share_delivered)


@pytest.mark.parametrize("capacity", [10, 1000, 20_000])
def test_loss_under_overload_is_a_share(capacity: int) -> None:
    """M/M/1/K at load 2 loses half, and the ON/OFF centre what it cannot serve: never nan."""
    overloaded = IntermittentQueue(rate=16, service=pt.exponential(0.125))
    exact = (1 - 2.0) / (2.0**-capacity - 2.0) if capacity < 1000 else 0.5
    assert loss(overloaded, capacity) == pytest.approx(exact)
    away = IntermittentQueue(
        rate=8, service=pt.exponential(0.125), on=pt.exponential(20), off=pt.exponential(20)
    )
    assert loss(away, capacity) >= 0.5
    if capacity == 20_000:
        assert loss(away, capacity) == pytest.approx(0.5, abs=1e-6)


def test_drop_oldest_in_a_buffer_of_two() -> None:
    """M/M/1/2 by hand: an event that waits is lost if another comes before the service ends."""
    rate, served = 4.0, 8.0
    chance = served / (rate + served)
    empty, others = 4 / 7, 3 / 7
    seconds = empty / served + others * chance * (1 / (rate + served) + 1 / served)

    assert response_s_drop_oldest(MM1, 2) == pytest.approx(seconds / (empty + others * chance))
    assert response_s_drop_oldest(MM1, 1) == pytest.approx(0.125), "the one in service is never dropped"


@pytest.mark.parametrize("rate", [2.0, 12.0])
def test_drop_oldest_equals_the_chain_of_one_event_solved_at_once(rate: float) -> None:
    """All (ahead, behind, phase) in one linear system, also under overload; the share lost is that of drop-newest."""
    queue = IntermittentQueue(
        rate=rate, service=pt.erlang(2, 0.125), on=pt.erlang(2, 0.6), off=pt.exponential(0.4)
    )
    capacity, m = 6, queue.phases
    places = [(a, b) for a in range(capacity) for b in range(capacity - a)]
    at = {place: slice(i * m, (i + 1) * m) for i, place in enumerate(places)}
    chain, done = np.zeros((len(places) * m,) * 2), np.zeros(len(places) * m)
    for (ahead, behind), here in at.items():
        chain[here, here] += queue.busy - rate * np.eye(m)
        if ahead:
            chain[here, at[ahead - 1, behind]] += queue.completions
        else:
            done[here] = queue.completions.sum(axis=1)
        full = ahead + behind + 1 == capacity
        following = (ahead, behind + 1) if not full else (ahead - 1, behind + 1) if ahead else (ahead, behind)
        if not (full and ahead == 1):  # there, the event itself is dropped
            chain[here, at[following]] += rate * np.eye(m)
    chance = np.linalg.solve(-chain, done)
    seconds = np.linalg.solve(-chain, chance)
    law = stationary(queue, capacity)
    starts = [at[min(n, capacity - 1), 0] for n in range(capacity + 1)]
    delivered = sum(float(law[n] @ chance[start]) for n, start in enumerate(starts))
    total_s = sum(float(law[n] @ seconds[start]) for n, start in enumerate(starts))

    assert delivered == pytest.approx(1 - loss(queue, capacity))
    assert response_s_drop_oldest(queue, capacity) == pytest.approx(total_s / delivered)


@pytest.mark.slow
def test_drop_oldest_of_the_on_off_centre_matches_the_simulation() -> None:
    (centre,) = simulated(20)
    runs = replicate([replace(centre, drops_oldest=True)], rate=2.0, until_s=20_000.0)

    assert estimate(sim.Run.mean_s, runs).agrees_with(response_s_drop_oldest(ON_OFF, 20), precision=0.07)
    share = estimate(lambda run: 1 - run.delivered_share, runs)
    assert share.agrees_with(loss(ON_OFF, 20), precision=0.07)
    assert response_s_drop_oldest(ON_OFF, 20) < 0.5 * finite(ON_OFF, 20).response_s


def test_a_buffer_that_loses_nothing_has_one_response_time() -> None:
    assert response_s_drop_oldest(ON_OFF, 900) == pytest.approx(ON_OFF.mean_response_s(), rel=1e-5)
