"""Finite buffers and events that expire, against textbook formulas and the simulation."""

import numpy as np
import pytest

from roamq.models import phase_type as pt
from roamq.models.buffers import capacity_for_loss, loss
from roamq.models.intermittent import IntermittentQueue
from roamq.models.lifetimes import with_lifetime
from roamq.sim import queueing as sim
from tests.models.replications import estimate, gamma, replicate

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
    capacity, m = 12, queue.phases
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

    assert loss(queue, capacity) == pytest.approx(law[-m:].sum())


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
