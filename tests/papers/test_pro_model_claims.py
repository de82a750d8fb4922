"""[PRO] section 6: the Markov chains, and the judge of a curve fitted on runs."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from roamq.models.curves import paper_throughput
from roamq.pipeline.jobs import Job
from roamq.reproduce import pro_fit, pro_runs
from roamq.reproduce.evidence import ScriptedEvidence
from roamq.reproduce.pro_models import TESTBED, cached_for, neighboring_occupancy, random_occupancy
from roamq.reproduce.pro_prediction import Observation, by_pace, observations, predictions, r2_of
from roamq.reproduce.pro_sets import named_sets
from roamq.reproduce.registry import Outcome, Verdict, select
from tests.papers.test_pro_claims import as_printed

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


def on_testbed(lift: float = 1.0, here: float = 1.0, scatter: float = 0.0) -> ScriptedEvidence:
    """Runs whose brokers have `here` times the expected subscribers and follow Eq. 16, and `lift` times that under
    NBR; with a `scatter`, every other one has more, the others less. Everything else is as printed."""

    def value(job: Job, metric: str) -> float | Mapping[str, float]:
        if metric not in pro_fit.METRICS:
            return as_printed(job, metric)
        pattern, population = job.params["mobility.pattern"], int(job.params["clients"])
        off = here * (1 + 0.01 * math.sin(7 * job.seed + population))
        subscribers = {b: off * n for b, n in CHAINS[pattern].expected(population).items()}
        if metric == "broker_subscribers":
            return {broker.lower(): n for broker, n in subscribers.items()}
        factor = lift if pattern == "NBR" else 1.0
        return {
            broker.lower(): factor * (1 + scatter * (-1) ** number) * float(paper_throughput(n))
            for number, (broker, n) in enumerate(subscribers.items())
        }

    return ScriptedEvidence(value)


def judged_in(outcome: Outcome) -> dict[str, set[str]]:
    """Sentence -> what was found over the sets."""
    found: dict[str, set[str]] = {}
    for row in outcome.tables[0].rows:
        found.setdefault(str(row[0]).partition(" (")[0], set()).add(str(row[-1]))
    return found


def test_every_accepted_set_is_fitted_and_judged() -> None:
    evidence = on_testbed()

    outcome = pro_fit.throughput_from_subscribers(evidence)

    sets = {
        str(row[0]).rpartition("(")[2].rstrip(")") for row in outcome.tables[0].rows if "(set" in str(row[0])
    }
    assert sets == set(named_sets())
    found = judged_in(outcome)
    assert found["R2 of the cubic on random runs"] == {"holds"}
    assert found["B3 has the expected number of subscribers, very close, NBR"] == {"holds"}
    assert found["the curve is close to the throughput of B1, RND"] == {"holds"}
    assert found["the curve is close to the throughput of most brokers, NBR"] == {"holds"}
    assert outcome.ours.startswith("set A: R2")
    assert [figure.title[-8:] for figure in outcome.figures[:3]] == ["Fig. 11)", "Fig. 12)", "Fig. 13)"]


def test_every_set_has_runs_for_the_curve() -> None:
    runs: dict[str, set[str]] = {}
    for name in named_sets():
        cells = [cell for cell in pro_runs.fit_cells(False) if cell.name == name]
        runs[name] = {job.params["clients"] for job in pro_runs.jobs_of(cells, False)}

    assert set(map(frozenset, runs.values())) == {frozenset({"10", "50", "100", "150", "200"})}


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        (on_testbed(lift=3.0), "the curve is close to the throughput of most brokers, NBR"),
        (on_testbed(lift=0.7), "the curve is relatively lower than the throughput of B3, NBR"),
        (on_testbed(here=1.3), "B6 has the expected number of subscribers, very close, RND"),
        (on_testbed(scatter=0.7), "R2 of the cubic on random runs"),
    ],
    ids=["another curve", "higher at the center", "other movement", "no curve"],
)
def test_the_curve_of_every_set_can_fail(evidence: ScriptedEvidence, says: str) -> None:
    outcome = pro_fit.throughput_from_subscribers(evidence)

    assert outcome.verdict is Verdict.DIFFERS
    assert judged_in(outcome)[says] == {"does not hold"}


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
    by_seed = pro_fit.BySeed(observed, 200)
    assert by_seed.close("NBR") == {0: 0.0}, (
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
