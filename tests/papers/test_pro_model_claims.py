"""[PRO] section 6: the Markov chains, and the judge of a curve fitted on runs."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from roamq.models.curves import paper_throughput
from roamq.reproduce import pro_fit, pro_runs
from roamq.reproduce.evidence import ScriptedEvidence
from roamq.reproduce.pro_models import TESTBED, cached_for, neighboring_occupancy, random_occupancy
from roamq.reproduce.pro_prediction import Observation, by_pace, observations, predictions, r2_of
from roamq.reproduce.pro_sets import named_sets
from roamq.reproduce.registry import Verdict, select

CHAINS = {"RND": random_occupancy(), "NBR": neighboring_occupancy()}


@pytest.mark.parametrize("claim_id", ["PRO-ctmc-rnd", "PRO-ctmc-nbr"])
def test_every_chain_is_reproduced(claim_id: str) -> None:
    claim = next(claim for claim in select(["PRO"]) if claim.id == claim_id)
    assert claim.check is not None
    assert claim.jobs is None, "computed from models alone"

    outcome = claim.check(ScriptedEvidence(quick=True))

    assert outcome.verdict is Verdict.REPRODUCED, outcome
    assert outcome.ours


def test_the_center_stores_for_as_many_under_either_mobility() -> None:
    """By hand: B6 and its neighbors hold 0.8242 of 0.8791 connected, and 0.1209 are away."""
    nbr = cached_for(CHAINS["NBR"], TESTBED)
    rnd = cached_for(CHAINS["RND"], dict.fromkeys(TESTBED, tuple(TESTBED)))

    assert nbr["B6"] == pytest.approx(0.1209 * 0.8242 / 0.8791, rel=1e-3)
    assert nbr["B5"] == pytest.approx(0.1209 * 0.2747 / 0.8791, rel=1e-3)
    assert list(rnd.values()) == pytest.approx([0.1139] * 6, abs=1e-4)


def runs_like_the_paper(noise: float, nbr_lift: float = 1.0) -> list[Observation]:
    """Brokers whose throughput follows Eq. 16, each run with subscribers around the expected number."""
    rng = np.random.default_rng(1)
    made = []
    for pattern, sizes in (("RND", pro_runs.FIGURE_POPULATIONS), ("NBR", pro_runs.TABLE_POPULATIONS)):
        lift = nbr_lift if pattern == "NBR" else 1.0
        for population in sizes:
            for broker, expected in CHAINS[pattern].expected(population).items():
                for _ in range(5):
                    here = expected * rng.uniform(0.8, 1.2)
                    throughput = lift * float(paper_throughput(here)) + rng.normal(0, noise)
                    made.append(Observation(pattern, population, broker, here, throughput))
    return made


def metric_rows(observed: Iterable[Observation]) -> list[dict[str, Any]]:
    """As `metrics_of` gives them: one row per number, brokers in small letters."""
    rows = []
    for number, o in enumerate(observed):
        params = {"mobility.pattern": o.pattern, "clients": str(o.population)}
        for metric, value in (
            ("broker_subscribers", o.subscribers),
            ("broker_throughput", o.throughput),
        ):
            rows.append(
                {
                    "run_id": f"r{number}",
                    "params": params,
                    "metric": metric,
                    "entity": o.broker.lower(),
                    "value": value,
                }
            )
    return rows


def test_metrics_of_runs_become_observations() -> None:
    one = Observation("NBR", 200, "B3", 43.9, 250.0)
    silent = {**metric_rows([one])[0], "run_id": "r9", "value": 0.0, "entity": "b5"}

    assert observations([*metric_rows([one]), silent]) == [one, Observation("NBR", 200, "B5", 0.0, 0.0)]


def test_the_claim_fits_the_runs_of_the_campaign() -> None:
    rows = metric_rows(runs_like_the_paper(noise=8))
    evidence = ScriptedEvidence(rows=lambda transform, jobs: rows)

    outcome = pro_fit.throughput_from_subscribers(evidence)

    assert {job.scheme for job in evidence.asked} == {"proactive"}
    assert {job.params["mobility.pattern"] for job in evidence.asked} == {"RND", "NBR"}
    assert outcome.verdict is Verdict.UNDECIDED, "one parameter set of several was run"
    assert f"run with the closest of {len(named_sets())} parameter sets alone" in outcome.why
    assert "6 of 6 under NBR at 200" in outcome.ours
    assert [figure.title[-8:] for figure in outcome.figures[:3]] == ["Fig. 11)", "Fig. 12)", "Fig. 13)"]
    assert len(outcome.tables[2].rows) == 18


def test_with_one_parameter_set_the_runs_decide() -> None:
    assert pro_fit.fit_outcome(runs_like_the_paper(noise=8), 200).verdict is Verdict.REPRODUCED


def test_runs_that_follow_another_curve_under_neighboring_mobility_differ() -> None:
    outcome = pro_fit.fit_outcome(runs_like_the_paper(noise=8, nbr_lift=3.0), 200)

    assert outcome.verdict is Verdict.DIFFERS
    assert "misses 6 brokers under NBR" in outcome.why


def test_runs_that_no_cubic_explains_differ() -> None:
    outcome = pro_fit.fit_outcome(runs_like_the_paper(noise=150), 200)

    assert outcome.verdict is Verdict.DIFFERS
    assert "does not hold: R2 of the cubic" in outcome.why


def test_what_the_paper_prints_is_recomputed() -> None:
    """ "the analytical results show relatively higher results" for random, "relatively lower" for neighboring."""
    assert pro_fit.printed_deviations() == "RND +7.3/+4.6/+12.0%, NBR -7.3/-15.3/-11.6% at 10/100/200"


def test_the_pace_of_a_population_predicts_what_a_curve_over_one_broker_cannot() -> None:
    """Brokers that deliver at one pace, which falls as the whole population grows."""
    pace: Mapping[int, float] = {10: 12.0, 50: 10.0, 100: 8.0, 150: 6.0, 200: 4.0}
    observed = [
        Observation(pattern, population, broker, here, pace[population] * here)
        for pattern, chain in CHAINS.items()
        for population in (pro_runs.FIGURE_POPULATIONS if pattern == "RND" else pro_runs.TABLE_POPULATIONS)
        for broker, here in chain.expected(population).items()
    ]
    rnd, nbr = ([o for o in observed if o.pattern == pattern] for pattern in ("RND", "NBR"))

    assert r2_of(predictions(by_pace(rnd), nbr, CHAINS["NBR"])) == pytest.approx(1.0)
    outcome = pro_fit.fit_outcome(observed, 200)
    assert outcome.verdict is Verdict.DIFFERS, (
        "a cubic over one broker's subscribers does not see the population"
    )


def test_the_error_of_a_mean_pools_the_spread_of_all_brokers() -> None:
    """Two runs each, 4 apart at both brokers: variance 8 with two degrees of freedom."""
    observed = [
        Observation("NBR", 100, b, 10.0, y) for b, y in (("B1", 8), ("B1", 12), ("B2", 48), ("B2", 52))
    ]

    b1, b2 = predictions(lambda *_: (10.0, 9.0, 11.0), observed, CHAINS["NBR"])

    assert b1.error == b2.error == pytest.approx(4.303 * 8**0.5 / 2**0.5, rel=1e-3)
    assert b1.agrees
    assert not b2.agrees
