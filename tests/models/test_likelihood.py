"""Likelihoods of cut periods: slopes and curvatures are those of the height, and the search ends at the top."""

import numpy as np
import pytest
from scipy import optimize

from roamq.models.censoring import fit_censored
from roamq.models.fitting import FAMILIES, law_of
from roamq.models.likelihood import FREE_MAX, Floats, Likelihood, hyperexponential, lognormal, weibull

POINTS: list[tuple[Likelihood, list[float]]] = [
    (weibull, [0.2, 2.0]),
    (lognormal, [2.0, 0.1]),
    (hyperexponential, [0.4, 1.0, 3.0]),
]


def periods(seed: int, n: int = 60) -> tuple[Floats, Floats]:
    """Lengths, and which of them are whole."""
    rng = np.random.default_rng(seed)
    return rng.lognormal(2.0, 1.0, n), (rng.random(n) < 0.7).astype(np.float64)


@pytest.mark.parametrize(("likelihood", "free"), POINTS)
def test_slope_and_curvature_are_those_of_the_height(likelihood: Likelihood, free: list[float]) -> None:
    lengths, whole = periods(1)
    at, little = np.array(free), 1e-5
    here = likelihood(lengths, whole, at)

    around = [
        (likelihood(lengths, whole, at + little * axis), likelihood(lengths, whole, at - little * axis))
        for axis in np.eye(at.size)
    ]
    assert here.slope == pytest.approx(
        [(up.height - down.height) / 2 / little for up, down in around], rel=1e-5
    )
    for row, (up, down) in zip(here.curvature, around, strict=True):
        assert row == pytest.approx((up.slope - down.slope) / 2 / little, rel=1e-5)


@pytest.mark.parametrize(("likelihood", "free"), POINTS)
@pytest.mark.parametrize("seed", range(5))
def test_a_fit_is_no_less_likely_than_one_searched_without_slopes(
    likelihood: Likelihood, free: list[float], seed: int
) -> None:
    lengths, whole = periods(seed, 200)

    def depth(at: Floats) -> float:
        return -likelihood(lengths, whole, np.clip(at, -FREE_MAX, FREE_MAX)).height

    (fit,) = fit_censored(lengths, whole > 0, [likelihood.__name__])
    slow = optimize.minimize(depth, free, method="Nelder-Mead", tol=1e-9)
    assert fit.log_likelihood >= -slow.fun - 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fit_reports_the_likelihood_of_its_parameters(family: str) -> None:
    lengths, whole = periods(3, 300)
    (fit,) = fit_censored(lengths, whole > 0, [family])

    law, row = law_of(family), np.array([list(fit.params.values())])
    told = law.log_pdf(lengths[whole > 0], row).sum() + np.log(law.sf(lengths[whole == 0], row)).sum()
    assert fit.log_likelihood == pytest.approx(float(told), abs=1e-6)


@pytest.mark.parametrize("lengths", [[1.0, 1.0, 1.0, 1.0, 2.0], [1e-3, 1e6, 1e6], [5.0, 5.0, 7.0]])
def test_few_and_strange_periods_have_finite_fits(lengths: list[float]) -> None:
    for fit in fit_censored(lengths, [True] * (len(lengths) - 1) + [False]):
        assert np.isfinite([fit.log_likelihood, *fit.params.values()]).all(), fit
