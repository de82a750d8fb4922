"""Curves from subscribers to throughput."""

import math

import numpy as np
import pytest

from roamq.models.curves import fit_curve, paper_throughput, r_squared


def test_equation_16() -> None:
    """[PRO] section 6.4: "the per-broker throughput is given by y = 218.983 msgs/sec"."""
    assert paper_throughput(29.5358) == pytest.approx(218.983, abs=1e-3)


def test_a_cubic_comes_back_from_its_own_points() -> None:
    x = np.linspace(1, 45, 40)
    curve = fit_curve(x, paper_throughput(x), ["polynomial-3"])[0]

    assert curve.coefficients == pytest.approx((0.0019, -0.2256, 12.362, 1.7111), rel=1e-6)
    assert curve.r2 == pytest.approx(1)
    assert curve.r2_cross_validated == pytest.approx(1)


def test_cross_validation_prefers_the_shape_the_data_have() -> None:
    rng = np.random.default_rng(1)
    x = np.repeat(np.linspace(1, 60, 30), 5)

    straight = fit_curve(x, 3 * x + rng.normal(0, 10, x.size))
    saturating = fit_curve(x, 200 * (x > 20) + rng.normal(0, 2, x.size))

    assert straight[0].kind in {"polynomial-1", "polynomial-2"}
    assert straight[0].r2_cross_validated > straight[-1].r2_cross_validated
    assert saturating[0].kind == "monotone"


def test_a_monotone_curve_never_falls_and_stays_level_beyond_its_data() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 50, 200)
    curve = fit_curve(x, 100 * (1 - np.exp(-x / 10)) + rng.normal(0, 8, x.size), ["monotone"])[0]

    values = curve.predict(np.linspace(-10, 100, 500))
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] == pytest.approx(100, abs=5)
    assert curve.x_range == pytest.approx((x.min(), x.max()))


@pytest.mark.parametrize("kind", ["polynomial-3", "monotone"])
def test_prediction_intervals_cover_new_observations(kind: str) -> None:
    rng = np.random.default_rng(3)

    def observe(x: np.ndarray) -> np.ndarray:
        return np.asarray(paper_throughput(x) + rng.normal(0, 12, x.size))

    covered = []
    for _ in range(20):
        x = rng.uniform(1, 45, 60)
        curve = fit_curve(x, observe(x), [kind])[0]
        new_x = rng.uniform(1, 45, 200)
        low, high = curve.interval(new_x, confidence=0.9)
        new_y = observe(new_x)
        covered.append(np.mean((low <= new_y) & (new_y <= high)))

    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)


def test_validation_on_other_data() -> None:
    x = np.linspace(1, 40, 30)
    curve = fit_curve(x, 2 * x, ["polynomial-1"])[0]

    assert r_squared(np.array([2.0, 4, 6]), curve.predict([1, 2, 3])) == pytest.approx(1)
    assert r_squared(np.array([6.0, 4, 2]), curve.predict([1, 2, 3])) < 0
    assert math.isnan(r_squared(np.array([5.0, 5]), curve.predict([1, 2])))


@pytest.mark.parametrize(
    ("x", "y", "kinds", "named"),
    [
        ([1, 2], [1], None, "y: 1 values for 2"),
        ([1, 2, 3], [1, 2, math.nan], None, "finite"),
        ([1, 2, 3], [1, 2, 3], ["spline"], "spline"),
        ([1, 1, 1], [1, 2, 3], None, "1 distinct"),
    ],
)
def test_bad_input_is_named(x: list[float], y: list[float], kinds: list[str] | None, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        fit_curve(x, y, kinds)
