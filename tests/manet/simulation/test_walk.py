"""The random-walk model beside the formulas of [DRIP] section V-C."""

import numpy as np
import pytest

from roamq.core.errors import ConfigError
from roamq.manet.simulation.walk import WalkModel, delays
from roamq.models.region_delay import RegionDelay


def mean(model: WalkModel, trials: int = 600, seed: int = 1) -> float:
    return float(delays(model, trials, np.random.default_rng(seed)).mean())


def test_walkers_in_reach_from_the_start_need_no_time() -> None:
    assert delays(WalkModel(n=100, k=1, reach=10.0), 50, np.random.default_rng(1)).max() == 0.0


@pytest.mark.parametrize("reach", [2, 4])
def test_two_walkers_meet_as_the_formula_says_where_the_reach_is_short(reach: int) -> None:
    """1/lambda of [9], with the natural logarithm; for a long reach it is far off, see docs/drip.md."""
    model = WalkModel(n=1600, k=1, reach=float(reach))
    formula = 0.5 * 1600 * (0.34 * np.log(1600) - 2 + reach / (2**reach - 1))

    assert mean(model) == pytest.approx(formula, rel=0.25)


def test_the_exact_mean_holds_and_the_printed_one_does_not() -> None:
    pair = mean(WalkModel(n=1600, k=40), trials=2000)
    simulated = mean(WalkModel(n=1600, k=40, l=5, m=2))
    formula = RegionDelay(grid_cells=1600, brokers=40, copies=2, destinations=5)

    def predicted(kind: str) -> float:
        return formula.mean_s(kind) / formula.meeting_s() * pair  # type: ignore[arg-type]

    assert simulated == pytest.approx(predicted("exact"), rel=0.2)
    assert predicted("paper") > 3 * simulated
    assert predicted("second-order") == 0.0


def test_more_copies_and_fewer_brokers_and_destinations_shorten_the_delay() -> None:
    """[DRIP] section V-C: when copies increase, brokers decrease and destinations decline, the delay decreases."""
    base = mean(WalkModel(n=900, k=40, l=3, m=2))

    assert mean(WalkModel(n=900, k=40, l=3, m=4)) < base
    assert mean(WalkModel(n=900, k=20, l=3, m=2)) < base
    assert mean(WalkModel(n=900, k=40, l=2, m=2)) < base


def test_a_grid_must_be_square() -> None:
    with pytest.raises(ConfigError, match="square"):
        WalkModel(n=1000, k=4)
