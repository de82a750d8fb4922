"""Bursts behind a peer that reconnects, against simulations of the two centres."""

import math

import numpy as np
import pytest
from benchmarks.bursts import cell

from roamq.models import phase_type as pt
from roamq.models.bursts import (
    Departures,
    behind,
    doubts,
    law_of,
    nearest_error,
    phases_for_bursts,
    solve_path,
)
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


def test_a_path_says_what_bursts_add_and_where_they_are_in_doubt() -> None:
    solved = solve_path(row(0.001, 0.4, 0.001))

    assert solved[0].burst_s == 0
    assert solved[1].burst_s == pytest.approx(18, abs=2)
    assert solved[2].burst_s < 0.1
    assert doubts(solved) == []
    assert "b1 gets bursts at a utilisation of 0.97, which was not tried" in doubts(
        solve_path(row(0.001, 0.97))
    )
    assert "in a row" in doubts(solve_path(row(0.001, 0.2, 0.3, 0.4)))[0]


def test_what_the_map_does_not_cover_is_told() -> None:
    """Simulated paths that were off by more than a tenth: see docs/models.md."""
    two_in_a_row = [
        Centre(name="p", rate=1.0, demand_s=0.001, t_on_s=25, t_off_s=30),
        Centre(name="b1", rate=1.0, demand_s=0.47),
        Centre(name="b2", rate=1.0, demand_s=0.25),
    ]
    assert any("bursts queue at 2 centres in a row" in doubt for doubt in doubts(solve_path(two_in_a_row)))
    rarely = [
        Centre(name="p", rate=1.0, demand_s=0.024, t_on_s=95, t_off_s=23),
        Centre(name="b", rate=1.0, demand_s=0.4),
    ]
    assert doubts(solve_path(rarely)) == ["p is rarely away: percentiles may be a quarter too small at b"]
    three = [Centre(name=f"c{i}", rate=1.0, demand_s=0.1, t_on_s=20, t_off_s=10) for i in range(3)]
    assert any("3 peers on the way disconnect" in doubt for doubt in doubts(solve_path(three)))


def test_without_disconnections_there_are_no_bursts() -> None:
    assert [part.burst_s for part in solve_path(row(0.1, 0.4, 0.2, t_off_s=0.0))] == [0, 0, 0]


def test_a_saturated_path_has_laws_where_it_can() -> None:
    solved = solve_path(row(0.1, 1.4, 0.2))

    assert [part.law is None for part in solved] == [False, True, False]
    assert [part.burst_s for part in solved] == [0, 0, 0]


def test_the_map_of_errors_says_where_to_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest cell decides, in units of the time between two events."""
    cells = [
        {"uplink_s": 0.001, "utilisation": 0.4, "period_s": 60.0, "mean": 0.01, "p95": -0.02},
        {"uplink_s": 0.001, "utilisation": 0.9, "period_s": 60.0, "mean": -0.04, "p95": -0.17},
    ]
    monkeypatch.setattr("roamq.models.bursts.error_map", lambda: cells)

    assert doubts(solve_path(row(0.001, 0.4))) == []
    assert doubts(solve_path(row(0.001, 0.85))) == [
        "b1 gets bursts at a utilisation of 0.85, where the 95th percentile is off by -17% (docs/models.md)"
    ]


def test_the_map_is_what_a_simulation_gives() -> None:
    """One cell, computed anew with fewer events."""
    wanted = nearest_error(Centre(name="p", rate=1.0, demand_s=0.001, t_on_s=6, t_off_s=6), 0.5)
    assert (wanted["uplink_s"], wanted["utilisation"], wanted["period_s"]) == (0.001, 0.5, 6.0)
    computed = cell(0.001, 0.5, 6.0, events=40_000, runs=4)

    assert computed["half_width"] < 0.06
    assert computed["mean"] == pytest.approx(wanted["mean"], abs=1.5 * computed["half_width"])


@pytest.mark.slow
def test_periods_that_hardly_vary_do_not_make_the_chain_endless() -> None:
    """Twenty phases at both peers are a chain of 22,000 states; with fewer, the mean is still nearly that of runs."""
    peers = {"rate": 1.0, "t_on_s": 6.0, "t_off_s": 6.0}
    centres = [
        Centre(name="up", demand_s=0.01, **peers),
        Centre(name="b", rate=1.0, demand_s=0.3),
        Centre(name="down", demand_s=0.2, **peers),
    ]
    solved = solve_path(centres, on_scv=0.1, off_scv=0.1)
    up, down = solved[0].queue, solved[2].queue
    assert up is not None
    assert down is not None
    assert phases_for_bursts(up, down) == 2
    assert phases_for_bursts(on_off(1, 0.1, 6, 6), on_off(1, 0.1, 6, 6)) is None

    regular = pt.with_moments(6.0, 0.1).draw
    stations = [
        sim.SimulatedCentre(
            service=sim.exponential(centre.demand_s),
            on=regular if centre.is_on_off else None,
            off=regular if centre.is_on_off else None,
        )
        for centre in centres
    ]
    run = estimate(sim.Run.mean_s, replicate(stations, rate=1.0, runs=6, until_s=6000.0))
    law = law_of(solved)
    assert law is not None
    assert run.error < 0.03 * run.mean
    assert law.mean() == pytest.approx(run.mean, rel=0.2)
    assert any("with a variability of 0.5 or more" in doubt for doubt in doubts(solved))
