"""A broker's outlook against the matrix-geometric solution, and lines against numpy."""

import math
from dataclasses import replace

import numpy as np
import pytest

from roamq.models import phase_type as pt
from roamq.models.intermittent import IntermittentQueue
from roamq.models.outlook import (
    DelayOutlook,
    Moments,
    Window,
    histogram_quantile,
    histogram_sf,
    line_through,
    load_outlook,
    residual_sf,
)

BOUNDS_S = tuple(10 ** (k / 8 - 4) for k in range(73))


@pytest.mark.parametrize("scv", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("share", [0.9, 0.95, 0.99])
def test_the_delay_is_that_of_the_on_off_centre(scv: float, share: float) -> None:
    """The centre with next to no demand. Below exponential variability the shapes differ, so the tolerance is wider."""
    on_s, off_s = 60.0, 20.0
    exact = IntermittentQueue(
        rate=1.0, service=pt.exponential(1e-4), on=pt.exponential(on_s), off=pt.with_moments(off_s, scv)
    )
    live = [0] * (len(BOUNDS_S) + 1)
    live[0] = 1000
    outlook = DelayOutlook(BOUNDS_S, live, on_s=on_s, off_s=off_s, off_scv=scv)

    wanted = exact.response_distribution().quantile(share)
    assert outlook.quantile(share) == pytest.approx(wanted, rel=0.1 if scv < 1 else 0.01)


def test_the_rest_of_a_period_is_the_integral_of_its_law() -> None:
    """P(rest > t) = the integral of P(period > x) beyond t, over the mean."""
    grid = np.linspace(0, 4000, 400_001)
    for scv in (1.0, 3.0):
        law = pt.with_moments(20.0, scv)
        shares, rates = law.start, -np.diag(law.generator)
        survival = (shares[:, None] * np.exp(-rates[:, None] * grid)).sum(axis=0)
        for t in (1.0, 10.0, 80.0):
            wanted = np.trapezoid(survival[grid >= t], grid[grid >= t]) / 20.0
            assert residual_sf(t, 20.0, scv) == pytest.approx(wanted, rel=1e-3)


def test_moments_are_those_of_the_sample() -> None:
    values = np.random.default_rng(1).gamma(2.0, 5.0, 1000)
    moments = Moments()
    for value in values:
        moments.add(float(value))
    moments.fade(0.5)

    assert moments.number == 500
    assert moments.mean_s == pytest.approx(values.mean())
    assert moments.scv == pytest.approx(values.var() / values.mean() ** 2)


def test_a_histogram_gives_back_its_quantiles() -> None:
    values = np.random.default_rng(2).lognormal(-5, 1, 20_000)
    counts = np.bincount(np.searchsorted(BOUNDS_S, values), minlength=len(BOUNDS_S) + 1).tolist()
    for share in (0.5, 0.95):
        wanted = float(np.quantile(values, share))
        assert histogram_quantile(BOUNDS_S, counts, share) == pytest.approx(wanted, rel=0.03)
        assert histogram_sf(BOUNDS_S, counts, wanted) == pytest.approx(1 - share, abs=0.02)


def test_a_line_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(3)
    xs = np.arange(40.0)
    ys = 3 + 0.5 * xs + rng.normal(0, 2, 40)
    line = line_through(xs.tolist(), ys.tolist())
    (slope, constant), covariance = np.polyfit(xs, ys, 1, cov="unscaled")
    error = math.sqrt(covariance[0, 0] * ((ys - constant - slope * xs) ** 2).sum() / 38)

    assert line is not None
    assert line.slope == pytest.approx(slope)
    assert line.at(0.0) == pytest.approx(constant)
    assert line.slope_error == pytest.approx(error)
    assert line_through([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None


def windows(growth: float, noise: float, seed: int = 4) -> list[Window]:
    """1,000 events/s and more every second, each 0.2 ms of work, above 2% that is always there."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(60):
        rate = 1000 + growth * 60 * k + float(rng.normal(0, noise))
        found.append(Window(60.0 * k, rate, 0.02 + 2e-4 * rate + float(rng.normal(0, 0.002))))
    return found


def test_growth_says_when_the_broker_is_full() -> None:
    growth = 1200 / 3600  # 1,200 events/s more every hour: after an hour 2,180, and full at 4,400
    outlook = load_outlook(windows(growth, noise=20), full=0.9)

    assert outlook is not None
    assert outlook.rate_max == pytest.approx(4400, rel=0.02)
    assert outlook.growth == pytest.approx(growth, rel=0.05)
    assert outlook.full_in_s == pytest.approx((4400 - 1000 - growth * 60 * 59) / growth, rel=0.05)
    last = windows(growth, noise=20)[-1]
    assert outlook.predicted == pytest.approx(last.utilisation, abs=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_a_rate_that_only_varies_is_no_growth(seed: int) -> None:
    outlook = load_outlook(windows(0.0, noise=100, seed=seed), full=0.9)

    assert outlook is not None
    assert math.isinf(outlook.full_in_s)


BUSY_MACHINE = (
    (179068, 0.4246),
    (92959, 0.3129),
    (142629, 0.3718),
    (148886, 0.3723),
    (202864, 0.5285),
    (125574, 0.3468),
    (104311, 0.2893),
    (136292, 0.3887),
    (125563, 0.4623),
    (95084, 0.3489),
    (104282, 0.3609),
    (79700, 0.2491),
    (20562, 0.0883),
    (57199, 0.2348),
    (80262, 0.2826),
    (97863, 0.3476),
    (131100, 0.5186),
    (105252, 0.4316),
)
"""Messages per second and utilisation of a live broker, whose machine others used as well."""


def test_what_others_take_of_the_machine_does_not_make_messages_cheap() -> None:
    """The line through these windows begins at 11% without any message, where the broker works for 0.2%, and ends at
    373,000 messages per second. On the same machine, alone, it bore 340,000 (`python -m benchmarks.saturation`)."""
    seen = [Window(2.0 * k, rate, busy) for k, (rate, busy) in enumerate(BUSY_MACHINE)]
    line = line_through([w.rate for w in seen[:-1]], [w.utilisation for w in seen[:-1]])
    assert line is not None
    assert (0.9 - line.at(0.0)) / line.slope > 370_000

    outlook = load_outlook(seen, full=0.9)

    assert outlook is not None
    assert outlook.rate_max == pytest.approx(340_000, rel=0.05)


def test_work_without_messages_is_told_from_work_by_messages() -> None:
    """A broker that always works for 2%, in windows that its quietest one shows: the line is left as it is."""
    outlook = load_outlook(windows(0.0, noise=200, seed=9), full=0.9)

    assert outlook is not None
    assert outlook.rate_max == pytest.approx(4400, rel=0.1)


def test_a_broker_whose_messages_are_acknowledged_expects_to_fall_behind_sooner() -> None:
    """5 us for a message, so that 180,000/s would fill it; once it falls behind, a message costs a quarter more."""
    plain = [Window(60.0 * n, 10_000.0 * n, 0.05 * n) for n in range(1, 16)]
    outlooks = [
        load_outlook([replace(window, acknowledged=share) for window in plain], full=0.9)
        for share in (0.0, 0.5, 1.0)
    ]

    bearable = [outlook.rate_max for outlook in outlooks if outlook is not None]
    assert bearable == pytest.approx([180_000, 160_000, 144_000])
    full_in_s = [outlook.full_in_s for outlook in outlooks if outlook is not None]
    assert full_in_s == pytest.approx([180.0, 60.0, 0.0], abs=1e-6)


def test_a_broker_that_was_full_knows_what_it_bears() -> None:
    """5 us for a message up to 150,000/s; then it falls behind, and bears no more than 140,000/s."""
    before = [Window(60.0 * n, 10_000.0 * n, 0.05 * n) for n in range(1, 16)]
    fallen = [Window(60.0 * 16, 140_000.0, 0.96), Window(60.0 * 17, 135_000.0, 1.0)]
    again = [Window(60.0 * (17 + n), 10_000.0 * n, 0.05 * n) for n in range(1, 8)]
    told = [load_outlook(windows, full=0.9) for windows in (before, before + fallen, before + fallen + again)]

    bearable = [outlook.rate_max for outlook in told if outlook is not None]
    assert bearable == pytest.approx([180_000, 140_000, 140_000])
