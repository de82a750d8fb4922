"""The queueing simulation itself: against formulas it must obey, and against a plain twin."""

import math

import numpy as np
import pytest

from roamq.sim.queueing import Sampler, SimulatedCentre, exponential, recorded, simulate

pytestmark = pytest.mark.slow


def fixed(seconds: float) -> Sampler:
    return lambda _, size: np.full(size, seconds)


def test_equal_seeds_give_equal_runs() -> None:
    def digest(seed: int) -> bytes:
        centre = SimulatedCentre(
            service=exponential(0.1), on=exponential(5.0), off=exponential(3.0), other_rate=1.0
        )
        return simulate([centre, centre], seed=seed, rate=2.0, until_s=500.0).responses_s.tobytes()

    assert digest(7) == digest(7)
    assert digest(7) != digest(8)


def lindley(births: np.ndarray, services: np.ndarray) -> np.ndarray:
    """The textbook recursion of one server: the twin that is too simple to be wrong."""
    ends = np.empty_like(births)
    free = 0.0
    for i, (birth, service) in enumerate(zip(births, services, strict=True)):
        free = max(free, birth) + service
        ends[i] = free
    return ends


def test_one_server_equals_the_lindley_recursion() -> None:
    rng = np.random.default_rng(1)
    services = rng.exponential(0.4, 40_000)

    run = simulate([SimulatedCentre(service=recorded(services))], seed=1, rate=2.0, until_s=10_000.0)

    order = np.argsort(run.births_s)
    births = run.births_s[order]
    assert births.size > 15_000
    assert (births + run.responses_s[order]) == pytest.approx(lindley(births, services[: births.size]))


def test_a_row_of_servers_equals_the_recursion_applied_in_turn() -> None:
    rng = np.random.default_rng(2)
    services = [rng.exponential(mean, 20_000) for mean in (0.4, 0.1, 0.3)]

    centres = [SimulatedCentre(service=recorded(one)) for one in services]
    run = simulate(centres, seed=2, rate=2.0, until_s=5_000.0)

    ends = run.births_s
    for one in services:
        ends = lindley(ends, one[: ends.size])
    assert run.births_s + run.responses_s == pytest.approx(ends)


def test_disconnections_only_ever_delay_and_keep_the_order() -> None:
    """Event by event, against the same services by a server that is always on."""
    rng = np.random.default_rng(3)
    services, on, off = rng.exponential(0.2, 20_000), rng.exponential(4, 4_000), rng.exponential(6, 4_000)
    centre = SimulatedCentre(service=recorded(services), on=recorded(on), off=recorded(off))

    run = simulate([centre], seed=3, rate=1.0, until_s=10_000.0)

    births = run.births_s
    ends = births + run.responses_s
    busy = lindley(births, services[: births.size]) - births
    assert (np.diff(ends) > 0).all()
    assert (run.responses_s >= busy - 1e-9).all()
    assert run.mean_s() > 2 * busy.mean()


def test_disconnections_stop_the_clock_of_the_server() -> None:
    """A server with known periods is the plain recursion on a clock that stands still while OFF."""
    rng = np.random.default_rng(4)
    services = rng.exponential(0.2, 5_000)
    centre = SimulatedCentre(service=recorded(services), on=fixed(4.0), off=fixed(6.0))
    run = simulate([centre], seed=3, rate=1.0, until_s=3_000.0)

    births, ends = run.births_s, run.births_s + run.responses_s
    # The phase of the cycle at time 0 is not ours to choose, but events can end only while connected: the
    # largest gap in where the ends fall within the cycle is the disconnection, and tells where it stood.
    within = np.sort(ends % 10)
    gaps = np.diff(np.append(within, within[0] + 10))
    reconnected = within[(int(gaps.argmax()) + 1) % within.size]

    def on_clock(t: np.ndarray) -> np.ndarray:
        since = t - reconnected
        return np.asarray(np.floor(since / 10) * 4 + np.minimum(since % 10, 4))

    expected = lindley(on_clock(births), services[: births.size])
    assert gaps.max() >= 6 - 1e-9
    assert on_clock(ends) == pytest.approx(expected, abs=0.05)


def test_a_service_interrupted_is_resumed_not_restarted() -> None:
    """10 s of service in periods of 4 s ON and 6 s OFF: done after two or three interruptions, never later."""
    centre = SimulatedCentre(service=fixed(10.0), on=fixed(4.0), off=fixed(6.0))

    run = simulate([centre], seed=1, rate=0.0005, until_s=400_000.0)

    assert run.responses_s.min() >= 22.0 - 1e-9
    assert np.median(run.responses_s) <= 28.0 + 1e-9


def test_connectivity_starts_in_its_steady_state() -> None:
    """At light load an event waits only for the reconnection, T_off^2/(T_on+T_off) on average, at once."""
    centre = SimulatedCentre(service=exponential(1e-6), on=exponential(30.0), off=exponential(60.0))
    waits = [simulate([centre], seed=seed, rate=1.0, until_s=2.0).responses_s for seed in range(1_500)]
    means = np.array([one.mean() for one in waits if one.size])

    assert means.mean() == pytest.approx(40, abs=4 * means.std() / math.sqrt(means.size))


def test_rates_by_bins_and_their_repetition() -> None:
    centre = SimulatedCentre(service=exponential(1e-3))
    run = simulate([centre], seed=5, bin_rates=[10.0, 0.0, 2.0], bin_s=100.0, until_s=60_000.0)

    in_bin = np.bincount((run.births_s // 100).astype(int) % 3, minlength=3)
    assert in_bin[1] == 0
    for count, rate in zip(in_bin, (10.0, 0.0, 2.0), strict=True):
        expected = rate * 20_000
        assert count == pytest.approx(expected, abs=4 * math.sqrt(expected))


def test_a_full_centre_loses_events_and_nothing_vanishes() -> None:
    """Erlang's loss formula for one server: load / (1 + load)."""
    centre = SimulatedCentre(service=exponential(0.5), capacity=1)
    run = simulate([centre], seed=6, rate=4.0, until_s=50_000.0)

    assert run.responses_s.size + run.lost == run.customers
    assert run.delivered_share == pytest.approx(1 / 3, abs=0.01)


def test_events_leave_when_they_expire_even_while_disconnected() -> None:
    centre = SimulatedCentre(service=exponential(0.1), on=exponential(10.0), off=exponential(30.0))
    run = simulate([centre], seed=7, rate=2.0, until_s=20_000.0, ttl=fixed(5.0))

    assert run.expired > 0
    assert run.responses_s.max() <= 5.0
    assert run.responses_s.size + run.expired == run.customers


def test_expired_events_make_room_in_a_full_buffer() -> None:
    centre = SimulatedCentre(service=exponential(0.01), on=fixed(1.0), off=fixed(50.0), capacity=5)
    kept = simulate([centre], seed=8, rate=1.0, until_s=20_000.0, ttl=fixed(2.0))
    never = simulate([centre], seed=8, rate=1.0, until_s=20_000.0)

    assert kept.lost < never.lost / 5
    assert kept.responses_s.size + kept.expired + kept.lost == kept.customers


def test_other_flows_load_a_centre_and_are_not_reported() -> None:
    """M/M/1 at 4 + 3 events/s."""
    centre = SimulatedCentre(service=exponential(0.1), other_rate=3.0)
    run = simulate([centre], seed=9, rate=4.0, until_s=30_000.0)

    assert run.responses_s.size == pytest.approx(120_000, rel=0.02)
    assert run.customers == pytest.approx(210_000, rel=0.02)
    assert abs(run.mean_s() - 0.1 / 0.3) < 2 * run.half_width_s()


def test_the_confidence_interval_covers_the_truth_as_often_as_it_says() -> None:
    centre = SimulatedCentre(service=exponential(0.1))
    covered = 0
    for seed in range(150):
        run = simulate([centre], seed=seed, rate=5.0, until_s=600.0, warmup_s=20.0)
        covered += abs(run.mean_s() - 0.2) <= run.half_width_s(batches=15)

    assert covered / 150 == pytest.approx(0.95, abs=0.07)


def test_warmup_is_left_out_but_loads_the_queue() -> None:
    centre = SimulatedCentre(service=exponential(0.1))
    run = simulate([centre], seed=1, rate=5.0, until_s=100.0, warmup_s=60.0)

    assert run.births_s.min() >= 60.0
    assert run.responses_s.size < run.customers / 2


def test_recorded_durations_start_anew_with_every_run() -> None:
    """A recording once went on where the run before had stopped: same seed, another answer."""
    centre = SimulatedCentre(service=recorded([0.1, 0.9, 0.3]), on=recorded([4.0, 7.0]), off=recorded([3.0]))
    first, second = (simulate([centre], seed=1, rate=0.5, until_s=200.0) for _ in range(2))

    assert first.responses_s.tolist() == second.responses_s.tolist()
    with pytest.raises(ValueError, match="durations_s: is empty"):
        recorded([])
