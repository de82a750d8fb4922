"""Quantiles without `scipy.stats`, against it; and commands of `roamq plan` do not import it."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from roamq.models.quantiles import binomial_quantile, student_quantile


@pytest.mark.parametrize("trials", [1, 7, 1000, 20_000])
@pytest.mark.parametrize("share", [0.5, 0.95, 0.999])
def test_binomial_quantiles_are_those_of_scipy_stats(trials: int, share: float) -> None:
    chances = np.array([0.0, 1e-9, 1 / 3, 0.05, 0.5, 0.77, 1 - 1e-9, 1.0])

    assert np.array_equal(binomial_quantile(share, trials, chances), stats.binom.ppf(share, trials, chances))


def test_a_quantile_at_a_step_is_the_step() -> None:
    """P(at most 3 of 10) is asked for exactly: 3 suffice."""
    share = float(stats.binom.cdf(3, 10, 0.3))

    assert binomial_quantile(share, 10, 0.3) == 3


@pytest.mark.parametrize("freedom", [1, 5, 200])
def test_student_quantiles_are_those_of_scipy_stats(freedom: int) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(float(stats.t.ppf(0.975, freedom)))


@pytest.mark.parametrize(
    "question",
    [
        "response-time --publisher-off-s 60 --subscriber-off-s 60 --demand-s 0.02 --ttl-s 30 --buffer-events 20",
        "capacity --preset city",
        "response-time --preset metro-1 --sweep rate=0.01:0.02:2",
    ],
)
def test_answers_do_not_import_what_takes_a_second(question: str) -> None:
    program = (
        "import sys; from click.testing import CliRunner; from roamq.cli.main import cli; "
        f"found = CliRunner().invoke(cli, ['plan', *{question.split()!r}]); "
        "assert found.exit_code == 0, found.output; "
        "print([name for name in ('scipy.stats', 'scipy.optimize', 'matplotlib', 'pyspark') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stdout.strip() == "[]", done.stdout + done.stderr
