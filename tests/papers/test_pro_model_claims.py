"""[PRO] section 6: the model claims, and the judge of a fit on measured rows."""

from dataclasses import dataclass

import numpy as np
import pytest

from roamq.models.curves import paper_throughput
from roamq.pipeline.results import Measured
from roamq.reproduce.pro_models import (
    Observation,
    fit_outcome,
    neighboring_occupancy,
    observations,
    random_occupancy,
)
from roamq.reproduce.registry import Verdict, select


@dataclass
class Quick:
    quick: bool = True


@pytest.mark.parametrize("claim_id", ["PRO-ctmc-rnd", "PRO-ctmc-nbr", "PRO-fit"])
def test_every_model_claim_is_reproduced(claim_id: str) -> None:
    claim = next(claim for claim in select(["PRO"]) if claim.id == claim_id)
    assert claim.check is not None
    assert claim.jobs is None, "computed from models alone"

    outcome = claim.check(Quick())  # type: ignore[arg-type]

    assert outcome.verdict is Verdict.REPRODUCED, outcome
    assert outcome.ours


def rows(connected: np.ndarray, *, noise: float, lift: float = 1.0) -> list[Observation]:
    """Per-broker throughput as Eq. 16 has it, for several populations."""
    rng = np.random.default_rng(1)
    return [
        Observation(
            f"B{broker + 1}",
            population * share,
            lift * float(paper_throughput(population * share)) + rng.normal(0, noise),
        )
        for population in (10, 50, 100, 150, 200, 250, 300)
        for broker, share in enumerate(connected)
    ]


def test_rows_of_a_campaign_become_observations() -> None:
    def row(metric: str, broker: str, clients: int, mean: float) -> Measured:
        return Measured(
            "testbed", "proactive", {"clients": str(clients)}, metric, broker, 5, mean, mean, mean
        )

    rows = [row("broker_throughput", "b3", 200, 250.0), row("loss", "b3", 200, 1.0)]

    (one,) = observations(rows, neighboring_occupancy())
    assert one.subscribers == pytest.approx(43.96, abs=0.01)
    assert one.throughput == 250.0


def test_rows_that_follow_one_curve_are_predicted() -> None:
    rnd, nbr = random_occupancy().connected, neighboring_occupancy().connected

    outcome = fit_outcome(rows(rnd, noise=8), rows(nbr, noise=8))

    assert outcome.verdict is Verdict.REPRODUCED, outcome.ours
    assert {series.name for series in outcome.figures[0].series} >= {"RND runs", "NBR runs", "cubic"}
    assert len(outcome.tables[0].rows) == 42


def test_rows_that_follow_another_curve_are_not() -> None:
    rnd, nbr = random_occupancy().connected, neighboring_occupancy().connected

    outcome = fit_outcome(rows(rnd, noise=8), rows(nbr, noise=8, lift=3.0))

    assert outcome.verdict is Verdict.DIFFERS
