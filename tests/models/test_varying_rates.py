"""Rates by bins: the queue carries over."""

import math

import numpy as np
import pytest

from roamq.models import phase_type as pt
from roamq.models.intermittent import IntermittentQueue
from roamq.models.varying_rates import (
    _Solver,
    mean_response_s,
    mean_steady_response_s,
    through_bins,
)
from roamq.sim import queueing as sim

QUEUE = IntermittentQueue(
    rate=1, service=pt.exponential(0.125), on=pt.exponential(20), off=pt.exponential(20)
)
RATES = [1.0, 3.0, 6.0, 5.0, 1.0, 0.5]
"""Two of the bins are saturated (4 events/s is the limit)."""


def test_a_long_constant_bin_reaches_the_steady_state() -> None:
    bins = through_bins(QUEUE, [2.0, 2.0], 6_000.0)

    assert bins[1].response_s == pytest.approx(QUEUE_STEADY_2, rel=5e-3)
    assert bins[1].steady_response_s == pytest.approx(QUEUE_STEADY_2)


QUEUE_STEADY_2 = (10 + 0.25) / 0.5
"""Theorem 2 at 2 events/s."""


@pytest.mark.slow
def test_a_saturated_bin_weighs_on_the_following_ones() -> None:
    bins = through_bins(QUEUE, RATES, 600.0)

    assert [one.is_saturated for one in bins] == [False, False, True, True, False, False]
    assert bins[2].steady_response_s is None
    after = bins[4]
    assert after.steady_response_s is not None
    assert after.response_s > 10 * after.steady_response_s
    assert mean_steady_response_s(bins) is None


@pytest.mark.slow
def test_every_bin_matches_the_simulation() -> None:
    bins = through_bins(QUEUE, RATES, 600.0)
    sums, counts = np.zeros((150, 6)), np.zeros((150, 6))
    centres = [
        sim.SimulatedCentre(
            service=sim.exponential(0.125), on=sim.exponential(20.0), off=sim.exponential(20.0)
        )
    ]
    for seed in range(150):
        run = sim.simulate(centres, seed=seed, bin_rates=RATES, bin_s=600.0, until_s=3600.0)
        index = (run.births_s // 600).astype(int)
        sums[seed] = np.bincount(index, run.responses_s, 6)
        counts[seed] = np.bincount(index, minlength=6)
    mean = sums.sum(axis=0) / counts.sum(axis=0)
    error = (sums - mean * counts).std(axis=0, ddof=1) / counts.mean(axis=0) / math.sqrt(150)

    modelled = np.array([one.response_s for one in bins])
    assert (error < 0.15 * mean).all()
    assert (np.abs(mean - modelled) < 4 * error).all(), (mean, modelled, error)


@pytest.mark.parametrize("levels", [3, 40])
def test_an_implicit_step_solves_the_equation_of_the_chain(levels: int) -> None:
    """Periods and services with several phases; the chain is written out here as one matrix."""
    queue = IntermittentQueue(
        rate=1, service=pt.erlang(2, 0.125), on=pt.with_moments(20, 0.3), off=pt.with_moments(20, 3.0)
    )
    m, rate, step_s = queue.phases, 2.0, 0.7
    chain = np.zeros((levels, m, levels, m))
    for level in range(levels):
        chain[level, :, level] = queue.busy if level else queue.idle
        if level:
            chain[level, :, level - 1] = queue.completions
        if level < levels - 1:
            chain[level, :, level] -= rate * np.eye(m)
            chain[level, :, level + 1] = rate * np.eye(m)
    generator = chain.reshape(levels * m, levels * m)
    before = np.random.default_rng(1).random((levels, m))
    step = _Solver(queue, rate, levels).step(before, step_s)

    gamma = 2 - math.sqrt(2)
    implicit = np.eye(levels * m) - gamma * step_s / 2 * generator
    explicit = np.eye(levels * m) + gamma * step_s / 2 * generator
    assert generator.sum(axis=1) == pytest.approx(np.zeros(levels * m), abs=1e-12)
    assert step.middle.ravel() @ implicit == pytest.approx(before.ravel() @ explicit)
    weight = 1 / (gamma * (2 - gamma))
    assert step.after.ravel() @ implicit == pytest.approx(
        (weight * step.middle - (weight - 1) * before).ravel()
    )


@pytest.mark.slow
def test_the_time_step_does_not_matter() -> None:
    coarse = through_bins(QUEUE, RATES[:3], 600.0)
    fine = through_bins(QUEUE, RATES[:3], 600.0, error_max=1e-7)

    assert mean_response_s(coarse) == pytest.approx(mean_response_s(fine), rel=1e-3)


def test_probability_and_events_are_conserved() -> None:
    """What came, less what a never idle server did, is there: a bin so overloaded that the queue never empties."""
    always_on = IntermittentQueue(rate=1, service=pt.erlang(2, 0.125))
    bins = through_bins(always_on, [80.0], 100.0)

    assert bins[0].present_at_end == pytest.approx((80 - 8) * 100, rel=1e-3)


@pytest.mark.slow
def test_days_before_leave_their_backlog() -> None:
    first = through_bins(QUEUE, [1.0, 3.9], 600.0)
    later = through_bins(QUEUE, [1.0, 3.9], 600.0, days=3)

    assert later[0].response_s > 1.5 * first[0].response_s


def test_a_bin_without_events() -> None:
    bins = through_bins(QUEUE, [0.0, 1.0], 600.0)

    assert bins[0].present_at_end == pytest.approx(0)
    assert mean_response_s(bins) == pytest.approx(bins[1].response_s)


@pytest.mark.parametrize(("rates", "bin_s"), [([], 1.0), ([-1.0], 1.0), ([0.0], 1.0), ([1.0], 0.0)])
def test_bad_input_is_named(rates: list[float], bin_s: float) -> None:
    with pytest.raises(ValueError, match=r"rates|bin_s"):
        through_bins(QUEUE, rates, bin_s)
