"""M/M/1 and the ON/OFF centre against the paper, the exact method and the simulation."""

import math

import numpy as np
import pytest

from roamq.models import phase_type as pt
from roamq.models.intermittent import IntermittentQueue, left_null_vector
from roamq.models.queueing import Centre, SaturationError
from roamq.sim import queueing as sim
from tests.models.replications import estimate, gamma, hyperexponential, replicate


def on_off(rate: float, period_s: float = 20.0, **changes: float) -> Centre:
    """The centre of [TIME] Fig. 7."""
    return Centre(name="c", rate=rate, demand_s=0.125, t_on_s=period_s, t_off_s=period_s, **changes)


@pytest.fixture(scope="module")
def runs_at_2() -> list[sim.Run]:
    """Long runs of the same centre at 2 events/s."""
    centre = sim.SimulatedCentre(
        service=sim.exponential(0.125), on=sim.exponential(20.0), off=sim.exponential(20.0)
    )
    return replicate([centre], rate=2.0, until_s=80_000.0)


def test_mm1() -> None:
    """[TIME] Eq. 1."""
    assert Centre(name="c", rate=4, demand_s=0.125).response_s() == pytest.approx(0.125 / 0.5)


def test_theorem_1() -> None:
    assert on_off(1, 20).off_rate == pytest.approx(1 / 40)


def test_theorem_2_by_hand() -> None:
    """T_off^2/(T_on+T_off) = 10, stretched demand 0.25, load 0.5."""
    assert on_off(2, 20).response_s() == pytest.approx((10 + 0.25) / 0.5)


@pytest.mark.parametrize("rate", [0.05, 1.0, 2.0, 3.5, 3.95])
@pytest.mark.parametrize("period_s", [20.0, 40.0, 60.0])
def test_theorem_2_is_exact_for_exponential_periods(rate: float, period_s: float) -> None:
    """The matrix-geometric solution agrees to every digit, at light load and next to saturation."""
    centre = on_off(rate, period_s)

    assert centre.exact().mean_response_s() == pytest.approx(centre.response_s(), rel=1e-9)
    assert centre.response_distribution().mean() == pytest.approx(centre.response_s(), rel=1e-9)


@pytest.mark.slow
def test_theorem_2_lies_in_the_confidence_interval_of_the_simulation(runs_at_2: list[sim.Run]) -> None:
    simulated = estimate(sim.Run.mean_s, runs_at_2)

    assert simulated.agrees_with(on_off(2).response_s(), precision=0.03)


def test_saturation_is_reported_and_never_a_number() -> None:
    """[TIME] section 4.1.1: "By applying lambda rates greater than 4 events/sec, the system saturates"."""
    centre = on_off(4.0)

    assert centre.is_saturated
    assert centre.rate_max == pytest.approx(4)
    for ask in (centre.response_s, centre.effective_demand_s, centre.response_distribution):
        with pytest.raises(SaturationError, match=r"c is saturated: utilisation 1 at 4 .* less than 4"):
            ask()
    with pytest.raises(ValueError, match="saturated"):
        centre.exact().mean_response_s()


@pytest.mark.parametrize("t_off_s", [0.0, 20.0])
def test_effective_demand_gives_the_flow_alone_the_response_it_has_among_others(t_off_s: float) -> None:
    """[TIME] Eq. 15."""
    centre = Centre(name="c", rate=0.7, other_rate=1.3, demand_s=0.125, t_on_s=20, t_off_s=t_off_s)

    alone = Centre(name="c", rate=0.7, demand_s=centre.effective_demand_s(), t_on_s=20, t_off_s=t_off_s)

    assert alone.response_s() == pytest.approx(centre.response_s())


def test_effective_demand_of_mm1_is_equation_16() -> None:
    centre = Centre(name="c", rate=0.7, other_rate=1.3, demand_s=0.125)

    assert centre.effective_demand_s() == pytest.approx(0.125 / (1 - 1.3 * 0.125))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_percentiles_of_the_response_time_match_the_simulation(
    runs_at_2: list[sim.Run], share: float
) -> None:
    simulated = estimate(lambda run: run.quantile_s(share), runs_at_2)

    assert simulated.agrees_with(on_off(2).response_distribution().quantile(share), precision=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("ttl_s", [5.0, 40.0])
def test_delivery_within_a_time_to_live_matches_the_simulation(
    runs_at_2: list[sim.Run], ttl_s: float
) -> None:
    simulated = estimate(lambda run: float(np.mean(run.responses_s <= ttl_s)), runs_at_2)

    assert simulated.agrees_with(on_off(2).exact().in_time(ttl_s), precision=0.02)


@pytest.mark.slow
def test_periods_and_service_that_are_not_exponential_match_the_simulation() -> None:
    """What Theorem 2 cannot say: the same means give 15.7 s here, and 20.5 s with exponential periods."""
    queue = IntermittentQueue(
        rate=2,
        service=pt.erlang(3, 0.125),
        on=pt.hyperexponential([0.3, 0.7], [5, 185 / 7]),
        off=pt.erlang(4, 20),
    )
    centres = [
        sim.SimulatedCentre(service=gamma(3, 0.125), on=hyperexponential(0.3, 5, 185 / 7), off=gamma(4, 20.0))
    ]

    runs = replicate(centres, rate=2.0, until_s=60_000.0)
    mean = estimate(sim.Run.mean_s, runs)
    tail = estimate(lambda run: run.quantile_s(0.95), runs)

    assert queue.utilisation == pytest.approx(0.5)
    assert mean.agrees_with(queue.mean_response_s(), precision=0.03)
    assert tail.agrees_with(queue.response_distribution().quantile(0.95), precision=0.04)


def test_a_server_that_is_always_on_is_m_ph_1() -> None:
    """Pollaczek-Khinchine: the mean depends on the variance of the service alone."""
    queue = IntermittentQueue(rate=4, service=pt.erlang(4, 0.125))

    waiting = 4 * 0.125**2 * (1 + 1 / 4) / 2 / (1 - 0.5)
    assert queue.mean_response_s() == pytest.approx(waiting + 0.125)


def test_events_present_are_geometric_in_mm1() -> None:
    queue = IntermittentQueue(rate=4, service=pt.exponential(0.125))

    assert queue.mean_present() == pytest.approx(1)
    assert queue.present_above(3) == pytest.approx(0.5**4)


@pytest.mark.parametrize(
    ("field", "value"), [("rate", -1.0), ("demand_s", 0.0), ("t_on_s", -5.0), ("other_rate", math.nan)]
)
def test_bad_input_is_named(field: str, value: float) -> None:
    fields = {"rate": 1.0, "demand_s": 1.0, field: value}
    with pytest.raises(ValueError, match=f"c: {field}"):
        Centre(name="c", **fields)


@pytest.mark.parametrize(
    ("rate", "demand_s", "t_on_s", "t_off_s"),
    [
        (1e4, 1e-5, 864e3, 864e3),  # ten days of connection, events of ten microseconds
        (8 * (1 - 1e-7), 0.0625, 100, 100),  # all but saturated
        (1e-6, 1e-3, 1e6, 1e6),
        (1e5, 1e-6, 1e7, 1e6),
        (3.9, 0.0625, 0.01, 0.03),
    ],
)
def test_rates_far_apart_keep_their_digits(
    rate: float, demand_s: float, t_on_s: float, t_off_s: float
) -> None:
    """The matrix solution against Theorem 2, which is exact for exponential periods."""
    centre = Centre(name="c", rate=rate, demand_s=demand_s, t_on_s=t_on_s, t_off_s=t_off_s)
    queue = centre.exact()

    assert queue.mean_response_s() == pytest.approx(centre.response_s(), rel=1e-4)
    assert queue.response_distribution().mean() == pytest.approx(centre.response_s(), rel=1e-4)


@pytest.mark.parametrize("scv", [0.5, 0.9, 1.3, 4.0])
@pytest.mark.parametrize("demand_s", [1e-6, 1e-3])
def test_short_services_and_variable_periods_keep_their_digits(scv: float, demand_s: float) -> None:
    """Next to no service: an event waits for the residual disconnection, T_off^2 (1 + scv) / 2 / (T_on + T_off)."""
    queue = IntermittentQueue(
        rate=1.0,
        service=pt.exponential(demand_s),
        on=pt.with_moments(60, scv),
        off=pt.with_moments(15, scv),
    )

    assert queue.mean_response_s() == pytest.approx(3 * (1 + scv) / 2, rel=5 * demand_s + 1e-5)
    assert queue.response_distribution().mean() == pytest.approx(queue.mean_response_s(), rel=1e-4)


def test_the_null_vector_of_a_chain_whose_rates_differ_by_twenty_orders() -> None:
    """A birth-death chain has weights that are products of ratios: the closed form."""
    up, down = np.array([1e-10, 3.0, 1e8]), np.array([2.0, 1e-9, 7.0])
    chain = np.diag(up, 1) + np.diag(down, -1)
    chain -= np.diag(chain.sum(axis=1))
    weights = np.cumprod(np.concatenate([[1.0], up / down]))

    assert left_null_vector(chain, normal=np.ones(4)) == pytest.approx(weights / weights.sum(), rel=1e-14)


def test_the_null_vector_leaves_out_what_is_not_come_back_to() -> None:
    chain = np.array([[-1.0, 1.0, 0.0], [0.0, -2.0, 2.0], [0.0, 3.0, -3.0]])

    assert left_null_vector(chain, normal=np.ones(3)) == pytest.approx([0.0, 0.6, 0.4])
