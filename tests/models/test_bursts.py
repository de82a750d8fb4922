"""Bursts behind a peer that reconnects, against simulations of the two centres."""

import math

import numpy as np
import pytest

from roamq.models import phase_type as pt
from roamq.models.bursts import Departures, _by_size, _by_variability, behind, law_of, solve_path
from roamq.models.intermittent import IntermittentQueue
from roamq.models.queueing import Centre
from roamq.sim import queueing as sim
from roamq.sim.tandem import Station, responses
from tests.models.replications import estimate, replicate


def on_off(rate: float, demand_s: float, t_on_s: float, t_off_s: float) -> IntermittentQueue:
    return IntermittentQueue(
        rate=rate, service=pt.exponential(demand_s), on=pt.exponential(t_on_s), off=pt.exponential(t_off_s)
    )


def test_departures_keep_the_rate() -> None:
    """What comes in goes out, whether the backlog is counted in lumps or event by event."""
    for source in (on_off(1.0, 0.01, 60, 60), on_off(2.0, 0.0625, 1, 1)):
        made = Departures(source=source)
        phases = np.linalg.lstsq(
            np.vstack([(made.hidden + made.released).T, np.ones(made.hidden.shape[0])]),
            np.append(np.zeros(made.hidden.shape[0]), 1.0),
            rcond=None,
        )[0]
        assert float(phases @ made.released.sum(axis=1)) == pytest.approx(source.rate, rel=0.01)


def test_a_peer_that_is_hardly_ever_away_leaves_mm1() -> None:
    source = on_off(1.0, 0.2, 1000, 0.001)
    centre = IntermittentQueue(rate=1.0, service=pt.exponential(0.4))

    assert behind(source, centre).mean_s == pytest.approx(centre.mean_response_s(), rel=0.01)
    assert behind(source, centre).scv == pytest.approx(1.0, rel=0.02)


def test_two_simulations_of_a_row_of_centres_agree() -> None:
    """The one without an event loop, which the map of errors uses, against roamq.sim.queueing."""
    stations = [Station(0.1, 4, 4), Station(0.2, 3, 1, 1.0), Station(0.1)]
    plain = [responses(stations, rate=1.0, events=30_000, seed=seed).mean() for seed in range(8)]
    centres = [
        sim.exponential_centre(
            s.demand_s, t_on_s=s.t_on_s or math.inf, t_off_s=s.t_off_s, other_rate=s.other_rate
        )
        for s in stations
    ]
    looped = estimate(sim.Run.mean_s, replicate(centres, rate=1.0, runs=6, until_s=12_000.0))
    error = math.hypot(float(np.std(plain, ddof=1)) / math.sqrt(8), looped.error)

    assert error < 0.03 * looped.mean
    assert float(np.mean(plain)) == pytest.approx(looped.mean, abs=4 * error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uplink_s", "period_s", "demand_s", "subscriber_s", "other_rate"),
    [
        (0.001, 60, 0.4, 0, 0),  # 38% short without bursts
        (0.001, 60, 0.7, 0, 0),
        (0.3, 60, 0.7, 0, 0),
        (0.01, 2, 0.8, 0, 0),  # counted event by event
        (0.001, 60, 0.1, 60, 0),
        (0.01, 60, 0.1, 0, 8),
    ],
)
def test_bursts_are_within_six_percent_of_the_simulation(
    uplink_s: float, period_s: float, demand_s: float, subscriber_s: float, other_rate: float
) -> None:
    source = on_off(1.0, uplink_s, period_s, period_s)
    centre = IntermittentQueue(rate=1.0 + other_rate, service=pt.exponential(demand_s))
    if subscriber_s:
        centre = on_off(1.0, demand_s, subscriber_s, subscriber_s)
    stations = [
        Station(uplink_s, period_s, period_s),
        Station(demand_s, subscriber_s, subscriber_s, other_rate),
    ]
    runs = [responses(stations, rate=1.0, events=300_000, seed=seed) for seed in range(6)]
    means = [float(run.mean()) for run in runs]
    mean, error = float(np.mean(means)), float(np.std(means, ddof=1)) / math.sqrt(len(means))
    found = behind(source, centre, other_rate=other_rate)
    answer = source.mean_response_s() + found.mean_s

    assert error < 0.04 * mean
    assert answer == pytest.approx(mean, abs=0.06 * mean + 2 * error)
    law = source.response_distribution().then(pt.with_moments(found.mean_s, found.scv))
    p95 = float(np.mean([np.quantile(run, 0.95) for run in runs]))
    assert law.quantile(0.95) == pytest.approx(p95, rel=0.12)
    without = source.mean_response_s() + centre.mean_response_s()
    assert without < 0.95 * mean, "a case that bursts do not matter for shows nothing"


def row(*demands_s: float, t_off_s: float = 60.0) -> list[Centre]:
    first = Centre(name="publisher", rate=1.0, demand_s=demands_s[0], t_on_s=60, t_off_s=t_off_s)
    return [
        first,
        *(Centre(name=f"b{i}", rate=1.0, demand_s=d) for i, d in enumerate(demands_s[1:], start=1)),
    ]


def test_a_path_says_what_bursts_add() -> None:
    solved = solve_path(row(0.001, 0.4, 0.001))

    assert solved[0].burst_s == 0
    assert solved[1].burst_s == pytest.approx(18, abs=2)
    assert solved[2].burst_s < 0.1


def test_centres_of_equal_speed_do_not_count_a_burst_again() -> None:
    """Together they hold it once; a mean was 88% too large."""
    centres = [
        Centre(name="publisher", rate=1.0, demand_s=0.1, t_on_s=25.0, t_off_s=30.0),
        *(Centre(name=f"b{i}", rate=1.0, demand_s=0.67) for i in range(3)),
    ]
    stations = [Station(0.1, 25.0, 30.0), *[Station(0.67)] * 3]
    means = [float(responses(stations, rate=1.0, events=150_000, seed=seed).mean()) for seed in range(6)]
    mean, error = float(np.mean(means)), float(np.std(means, ddof=1)) / math.sqrt(len(means))
    law = law_of(solve_path(centres))

    assert law is not None
    assert error < 0.02 * mean
    assert law.mean() == pytest.approx(mean, rel=0.1)


def test_without_disconnections_there_are_no_bursts() -> None:
    assert [part.burst_s for part in solve_path(row(0.1, 0.4, 0.2, t_off_s=0.0))] == [0, 0, 0]


def test_a_saturated_path_has_laws_where_it_can() -> None:
    solved = solve_path(row(0.1, 1.4, 0.2))

    assert [part.law is None for part in solved] == [False, True, False]
    assert [part.burst_s for part in solved] == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("scv", "other_scv"), [(0.1, 0.1), (0.2, 1.0), (0.5, 0.5), (3.0, 3.0)])
def test_periods_of_any_variability_are_within_six_percent_of_the_simulation(
    scv: float, other_scv: float
) -> None:
    """Twenty phases at both peers are a chain of 22,000 states, which is not solved: see `_by_variability`."""
    on, off = pt.with_moments(6.0, scv), pt.with_moments(6.0, other_scv)
    source = IntermittentQueue(rate=1.0, service=pt.exponential(0.01), on=on, off=off)
    centre = IntermittentQueue(rate=1.0, service=pt.exponential(0.2), on=on, off=off)
    drawn = (on.draw, off.draw)
    stations = [Station(demand_s, 6.0, 6.0, drawn=drawn) for demand_s in (0.01, 0.2)]
    means = [float(responses(stations, rate=1.0, events=200_000, seed=seed).mean()) for seed in range(6)]
    mean, error = float(np.mean(means)), float(np.std(means, ddof=1)) / math.sqrt(len(means))
    answer = source.mean_response_s() + behind(source, centre).mean_s

    assert error < 0.02 * mean
    assert answer == pytest.approx(mean, abs=0.06 * mean + 2 * error)


def test_many_phases_one_at_a_time_give_what_all_at_once_give() -> None:
    """A chain that is just small enough to be solved whole, both ways."""
    source = IntermittentQueue(
        rate=1.0,
        service=pt.exponential(0.05),
        on=pt.with_moments(4.0, 0.25),
        off=pt.with_moments(4.0, 0.25),
    )
    centre = IntermittentQueue(rate=1.0, service=pt.exponential(0.6))
    whole, parts = _by_size(source, centre, 0.0), _by_variability(source, centre, 0.0)
    without_s = centre.mean_response_s()

    assert whole.mean_s - without_s > 0.5 * without_s, "a case that bursts do not matter for shows nothing"
    assert parts.mean_s == pytest.approx(whole.mean_s, rel=0.04)
    assert parts.scv == pytest.approx(whole.scv, rel=0.1)
