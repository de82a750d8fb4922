"""Fits of durations: recovered parameters, the right winner, and a p-value that is one."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from roamq.models.fitting import FAMILIES, ccdf, fit_durations

pytestmark = pytest.mark.slow

RNG = np.random.default_rng


@pytest.mark.parametrize(
    ("family", "samples", "expected"),
    [
        ("exponential", RNG(1).exponential(146.38, 20_000), {"mean": 146.38}),
        ("weibull", 96 * RNG(2).weibull(0.6, 20_000), {"shape": 0.6, "scale": 96}),
        ("lognormal", RNG(3).lognormal(4, 1.2, 20_000), {"mu": 4, "sigma": 1.2}),
        (
            "hyperexponential",
            np.where(RNG(4).random(20_000) < 0.3, 10, 200) * RNG(5).exponential(1, 20_000),
            {"p": 0.3, "mean_1": 10, "mean_2": 200},
        ),
    ],
)
def test_the_true_family_wins_and_its_parameters_come_back(
    family: str, samples: np.ndarray, expected: dict[str, float]
) -> None:
    best = fit_durations(samples)[0]

    assert best.family == family
    assert best.params == pytest.approx(expected, rel=0.06)
    assert best.ks_pvalue > 0.02
    assert best.mean == pytest.approx(samples.mean(), rel=0.03)
    assert best.n == 20_000


def test_the_wrong_families_are_rejected() -> None:
    fits = {fit.family: fit for fit in fit_durations(RNG(6).lognormal(3, 1, 2_000))}

    assert fits["lognormal"].ks_pvalue > 0.05
    assert fits["exponential"].ks_pvalue == pytest.approx(1 / 200)
    assert fits["weibull"].ks_pvalue == pytest.approx(1 / 200)


@pytest.mark.parametrize("family", ["exponential", "weibull", "lognormal", "hyperexponential"])
def test_p_values_are_uniform_when_the_family_is_the_true_one(family: str) -> None:
    """The plain Kolmogorov-Smirnov p-value, blind to the estimation of the parameters, fails this by far."""
    rng = RNG(7)
    draws: dict[str, Callable[[], np.ndarray]] = {
        "exponential": lambda: rng.exponential(5, 60),
        "weibull": lambda: rng.weibull(2, 60),
        "lognormal": lambda: rng.lognormal(0, 1, 60),
        "hyperexponential": lambda: np.where(rng.random(60) < 0.5, 1, 20) * rng.exponential(1, 60),
    }
    runs = 40 if family == "hyperexponential" else 300
    pvalues = np.array([fit_durations(draws[family](), [family])[0].ks_pvalue for _ in range(runs)])

    assert pvalues.mean() == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / runs))
    assert np.mean(pvalues <= 0.1) == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / runs))


def test_maximum_likelihood_beats_every_parameter_nearby() -> None:
    sample = 3 * RNG(8).weibull(1.7, 300)
    fit = fit_durations(sample, ["weibull"], replicates=0)[0]

    def log_likelihood(shape: float, scale: float) -> float:
        z = sample / scale
        return float(np.sum(np.log(shape / scale) + (shape - 1) * np.log(z) - z**shape))

    shape, scale = fit.params["shape"], fit.params["scale"]
    assert fit.log_likelihood == pytest.approx(log_likelihood(shape, scale))
    for factor in (0.99, 1.01):
        assert log_likelihood(shape * factor, scale) < fit.log_likelihood
        assert log_likelihood(shape, scale * factor) < fit.log_likelihood
    assert math.isnan(fit.ks_pvalue)


def test_two_phases_never_fit_worse_than_one() -> None:
    fits = {fit.family: fit for fit in fit_durations(RNG(9).gamma(4, 10, 500), replicates=0)}

    gain = fits["hyperexponential"].log_likelihood - fits["exponential"].log_likelihood
    assert gain == pytest.approx(0, abs=0.01)


def test_survival_starts_at_one_and_halves_at_the_median() -> None:
    sample = RNG(10).exponential(10, 50_000)
    for fit in fit_durations(sample, replicates=0):
        assert fit.sf([1e-12])[0] == pytest.approx(1)
    best = next(f for f in fit_durations(sample, ["exponential"], replicates=0))
    assert best.sf(np.median(sample)) == pytest.approx(0.5, abs=0.01)


def test_ccdf_of_a_literal_sample() -> None:
    times, share_above = ccdf([1, 2, 2, 4])

    assert times.tolist() == [1, 2, 4]
    assert share_above.tolist() == [0.75, 0.25, 0]


def test_samples_drawn_from_a_fit_have_its_mean() -> None:
    for fit in fit_durations(RNG(11).exponential(20, 500), FAMILIES, replicates=0):
        drawn = fit.sample(100_000, RNG(12))
        assert drawn.mean() == pytest.approx(fit.mean, rel=0.02)


def test_a_sample_without_spread_has_only_an_exponential_fit() -> None:
    assert [fit.family for fit in fit_durations([30, 30, 30], replicates=0)] == ["exponential"]


@pytest.mark.parametrize(
    ("samples", "families", "named"),
    [
        ([5.0], FAMILIES, "at least 2"),
        ([5.0, 0.0], FAMILIES, "positive"),
        ([5.0, math.inf], FAMILIES, "finite"),
        ([1.0, 2.0], ("gamma",), "gamma"),
    ],
)
def test_bad_input_is_named(samples: list[float], families: tuple[str, ...], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        fit_durations(samples, families)
