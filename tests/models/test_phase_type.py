"""Phase-type and matrix-exponential distributions."""

import math

import numpy as np
import pytest
from scipy import linalg, optimize, stats

from roamq.models import phase_type as pt
from roamq.models.fitting import fit_durations


@pytest.mark.parametrize(
    ("distribution", "mean", "scv"),
    [
        (pt.exponential(5), 5, 1),
        (pt.erlang(4, 8), 8, 1 / 4),
        (pt.hyperexponential([0.2, 0.8], [10, 1]), 2.8, (2 * (0.2 * 100 + 0.8)) / 2.8**2 - 1),
        (pt.with_moments(3, 0.3), 3, 0.3),
        (pt.with_moments(3, 0.7), 3, 0.7),
        (pt.with_moments(3, 1.0), 3, 1.0),
        (pt.with_moments(3, 6.0), 3, 6.0),
    ],
)
def test_moments(distribution: pt.MatrixExponential, mean: float, scv: float) -> None:
    assert distribution.mean() == pytest.approx(mean)
    assert distribution.variance() / distribution.mean() ** 2 == pytest.approx(scv)


def test_survival_of_an_erlang() -> None:
    t = np.array([0.0, 1.0, 5.0])

    assert pt.erlang(2, 4).sf(t) == pytest.approx((1 + t / 2) * np.exp(-t / 2))


def test_quantile_inverts_survival() -> None:
    distribution = pt.hyperexponential([0.2, 0.8], [10, 1])

    assert distribution.sf(distribution.quantile(0.99)) == pytest.approx(0.01)
    assert pt.exponential(2).quantile(0.5) == pytest.approx(2 * math.log(2))
    with pytest.raises(ValueError, match="share"):
        distribution.quantile(1.0)


def test_a_sum_has_the_sum_of_means_and_variances() -> None:
    first, second = pt.erlang(3, 2), pt.hyperexponential([0.5, 0.5], [1, 7])
    both = first.then(second)

    assert both.mean() == pytest.approx(first.mean() + second.mean())
    assert both.variance() == pytest.approx(first.variance() + second.variance())
    assert pt.exponential(2).then(pt.exponential(2)).sf(3) == pytest.approx(pt.erlang(2, 4).sf(3))


@pytest.mark.parametrize("shape", [0.6, 1.0, 2.5])
def test_the_stand_in_of_a_fit_keeps_mean_and_variance(shape: float) -> None:
    sample = 20 * np.random.default_rng(1).weibull(shape, 3000)
    for fit in fit_durations(sample, replicates=0):
        stand_in = pt.from_fit(fit)
        drawn = fit.sample(400_000, np.random.default_rng(2))
        assert stand_in.mean() == pytest.approx(fit.mean)
        if fit.family != "lognormal":  # its sample variance converges too slowly to compare
            assert math.sqrt(stand_in.variance()) == pytest.approx(drawn.std(), rel=0.02)


@pytest.mark.parametrize(
    ("start", "generator", "named"),
    [
        ([1.0], [[-1.0, 0.0]], "shape"),
        ([0.5], [[-1.0]], "start"),
        ([1.0], [[1.0]], "generator"),
        ([1.0, 0.0], [[-1.0, 1.0], [0.0, 0.0]], "never left"),
    ],
)
def test_what_is_no_distribution_is_refused(
    start: list[float], generator: list[list[float]], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        pt.phase_type(start, generator)


def test_many_times_at_once_give_what_each_gives_alone() -> None:
    times = np.linspace(0.0, 30.0, 40)
    mixture = pt.hyperexponential([0.3, 0.7], [1.0, 6.0])
    for law in (mixture, mixture.then(pt.exponential(2.0)), pt.erlang(4, 5.0), pt.with_moments(3.0, 0.4)):
        alone = [float(law.sf(time)) for time in times]
        assert law.sf(times) == pytest.approx(np.array(alone), abs=1e-9)


@pytest.mark.parametrize(
    "law",
    [
        pt.erlang(9, 60).then(pt.exponential(0.01)),
        pt.hyperexponential([0.999, 0.001], [0.01, 1000]).then(pt.exponential(5)),
        pt.with_moments(60, 30),
    ],
)
def test_quantiles_are_the_roots_of_the_survival(law: pt.MatrixExponential) -> None:
    """By halving, against a search for the root of the matrix exponential."""
    shares = [0.001, 0.5, 0.95, 0.9999]

    def lasting(t: float) -> float:
        return float(law.start @ linalg.expm(law.generator * t) @ law.end)

    roots = [
        optimize.brentq(lambda t, left=1 - share: lasting(t) - left, 0, 1e6, xtol=1e-12) for share in shares
    ]
    assert law.quantiles(shares) == pytest.approx(roots, rel=1e-6)
    assert law.sf_steps(7.0, 4) == pytest.approx([lasting(t) for t in (0, 7, 14, 21)])


@pytest.mark.parametrize(
    "law", [pt.exponential(3), pt.with_moments(5, 0.3), pt.with_moments(5, 7), pt.erlang(4, 2)]
)
def test_draws_follow_their_distribution(law: pt.MatrixExponential) -> None:
    drawn = law.draw(np.random.default_rng(1), 4000)

    # P(X <= x) of draws is uniform.
    assert stats.kstest(law.cdf(drawn), "uniform").pvalue > 0.001
