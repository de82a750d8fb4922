"""Periods that observation cuts off, against recomputation by hand, brute force and simulation."""

import math

import numpy as np
import pytest

from roamq.models.censoring import exponential_mean_s, fit_censored, kaplan_meier
from roamq.models.connectivity import join, periods


def test_the_product_limit_by_hand() -> None:
    """Freireich's remission times (6-MP group), the textbook example: survival at 6, 7, 10, 13, 16, 22, 23 weeks."""
    whole = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    cut = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    curve = kaplan_meier(whole + cut, [True] * 9 + [False] * 12)

    assert curve.times_s.tolist() == [6, 7, 10, 13, 16, 22, 23]
    assert curve.survival == pytest.approx([0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], abs=5e-4)
    assert curve.tail == pytest.approx(0.448, abs=5e-4)


def test_without_cuts_the_moments_are_those_of_the_sample() -> None:
    sample = np.random.default_rng(1).gamma(2.0, 5.0, 400)
    curve = kaplan_meier(sample, np.ones(400, dtype=bool))

    assert curve.mean_s() == pytest.approx(sample.mean())
    assert curve.scv() == pytest.approx(sample.var() / sample.mean() ** 2)
    assert curve.mean_error_s() == pytest.approx(sample.std() / math.sqrt(400), rel=0.01)
    assert curve.quantile_s(0.5) == pytest.approx(np.quantile(sample, 0.5, method="inverted_cdf"))
    assert curve.sf(float(np.median(sample))) == pytest.approx(0.5, abs=0.01)


def through_windows(seed: int, window_s: float, windows: int) -> list[tuple[list[float], list[bool]]]:
    """Journeys through alternating Weibull (ON, mean 88.6) and lognormal (OFF, mean 56.7) periods, long under way."""
    rng = np.random.default_rng(seed)
    journeys = []
    for _ in range(windows):
        on, off = 100 * rng.weibull(2.0, 60), rng.lognormal(math.log(50), 0.5, 60)
        edges = np.concatenate([[0.0], np.cumsum(np.column_stack([on, off]).ravel())])
        begin = 2000.0 + rng.uniform(0, 500)
        inside = edges[(edges > begin) & (edges < begin + window_s)]
        first = int(np.searchsorted(edges, begin, side="right")) - 1
        times = [begin, *inside.tolist(), begin + window_s]
        states = [(first + i) % 2 == 0 for i in range(len(inside) + 1)]
        journeys.append((times, [*states, states[-1]]))
    return journeys


def test_windows_do_not_bias_the_mean_and_the_variability() -> None:
    """Windows of three mean periods: whole periods alone are a tenth too short, the product limit is not."""
    path = join([periods(*journey) for journey in through_windows(3, 270.0, 3000)])
    on, off = path.on.survival(), path.off.survival()

    assert path.on.whole_s.mean() < 0.9 * 88.62
    assert on.mean_s() == pytest.approx(88.62, abs=4 * on.mean_error_s())
    assert off.mean_s() == pytest.approx(50 * math.exp(0.125), abs=4 * off.mean_error_s())
    assert on.mean_error_s() < 0.02 * on.mean_s()
    assert on.scv() == pytest.approx(4 / math.pi - 1, abs=0.03)
    assert off.scv() == pytest.approx(math.expm1(0.25), abs=0.05)


def test_periods_under_way_at_the_begin_would_bias_the_median_whichever_way_they_were_counted() -> None:
    """Heavy tails through windows of 8 hours on average. The product limit of periods whose begin was seen is right;
    counting the others as cut, or as if they had begun with the window, makes periods look longer than they are.
    """
    rng = np.random.default_rng(1)
    lengths, begun, ended = [], [], []
    for _ in range(600):
        on, off = rng.lognormal(6.5, 1.9, 400), rng.lognormal(5.2, 1.7, 400)
        begins = np.cumsum(on + off) - on
        opening = rng.uniform(200_000, 400_000)
        closing = opening + rng.exponential(8 * 3600)
        seen = (begins + on > opening) & (begins < closing)
        lengths += list(np.minimum(begins + on, closing)[seen] - np.maximum(begins, opening)[seen])
        begun += list(begins[seen] >= opening)
        ended += list((begins + on)[seen] <= closing)
    length, begin_seen, end_seen = np.array(lengths), np.array(begun), np.array(ended)
    truth = math.exp(6.5)

    def median(chosen: np.ndarray, whole: np.ndarray) -> float:
        return kaplan_meier(length[chosen], whole[chosen]).quantile_s(0.5)

    everything = np.ones(length.size, dtype=bool)
    assert median(begin_seen, end_seen) == pytest.approx(truth, rel=0.06)
    assert np.median(length[begin_seen & end_seen]) < 0.9 * truth
    assert median(everything, end_seen) > 1.15 * truth
    assert median(everything, end_seen & begin_seen) > 1.2 * truth


def test_greenwoods_error_is_the_spread_over_samples() -> None:
    means, errors = [], []
    for seed in range(200):
        path = join([periods(*journey) for journey in through_windows(seed, 600.0, 20)])
        curve = path.on.survival()
        means.append(curve.mean_s())
        errors.append(curve.mean_error_s())

    assert np.mean(errors) == pytest.approx(np.std(means, ddof=1), rel=0.2)


def test_exponential_mean_counts_time_by_ends() -> None:
    assert exponential_mean_s([10, 20, 5], [True, False, True]) == pytest.approx(17.5)


@pytest.mark.parametrize(
    ("family", "mean"),
    [("weibull", 88.62), ("lognormal", 56.66), ("hyperexponential", 26.0), ("exponential", 30.0)],
)
def test_censored_likelihood_finds_the_family_that_was_cut(family: str, mean: float) -> None:
    rng = np.random.default_rng(5)
    n = 4000
    lengths = {
        "weibull": 100 * rng.weibull(2.0, n),
        "lognormal": rng.lognormal(math.log(50), 0.5, n),
        "hyperexponential": np.where(rng.random(n) < 0.8, 10.0, 90.0) * rng.standard_exponential(n),
        "exponential": 30 * rng.standard_exponential(n),
    }[family]
    ends = rng.uniform(0.2 * mean, 4 * mean, n)
    seen, whole = np.minimum(lengths, ends), lengths <= ends
    best = fit_censored(seen, whole)[0]

    assert not whole.all()
    if family != "exponential":  # every other family contains it
        assert best.family == family
    assert best.mean == pytest.approx(mean, rel=0.06)
    assert best.ks_statistic < 0.03


def test_the_censored_maximum_is_not_beaten_by_a_grid() -> None:
    rng = np.random.default_rng(8)
    lengths, ends = 40 * rng.weibull(1.5, 300), rng.uniform(5, 80, 300)
    seen, whole = np.minimum(lengths, ends), lengths <= ends
    fit = next(fit for fit in fit_censored(seen, whole) if fit.family == "weibull")

    def likelihood(shape: float, scale: float) -> float:
        hazard = np.log(shape / scale) + (shape - 1) * np.log(seen / scale)
        return float((whole * hazard - (seen / scale) ** shape).sum())

    grid = [likelihood(shape, scale) for shape in np.linspace(1, 2, 81) for scale in np.linspace(30, 55, 81)]
    assert fit.log_likelihood >= max(grid)
    assert fit.log_likelihood == pytest.approx(max(grid), abs=0.05)


@pytest.mark.parametrize(
    ("lengths", "whole", "named"),
    [
        ([1, 2], [True], "is_whole"),
        ([0, 2], [True, True], "lengths_s"),
        ([1, 2], [False, False], "no period"),
    ],
)
def test_bad_periods_are_named(lengths: list[float], whole: list[bool], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        kaplan_meier(lengths, whole)
