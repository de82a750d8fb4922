"""`roamq reproduce`: the scorecard, its exit code, and claims that share runs."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from roamq.cli.main import cli
from roamq.pipeline.jobs import Job, Runner
from roamq.reproduce import registry
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.published import PUBLISHED
from roamq.reproduce.registry import Claim, Outcome, Verdict, claim, select
from roamq.reproduce.scorecard import CampaignEvidence, _check, score
from tests.support.runners import counting


@pytest.fixture
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No claim has a check, whatever the package implements by now."""
    registry.all_claims()
    monkeypatch.setattr(registry, "_implemented", {})
    yield


def reproduce(*args: str) -> Result:
    return CliRunner().invoke(cli, ["reproduce", *args])


def test_every_claim_has_an_id_of_its_own_and_a_published_value() -> None:
    ids = [published.id for published in PUBLISHED]

    assert len(ids) == len(set(ids)) == 40
    assert all(published.title and published.value for published in PUBLISHED)
    assert {published.paper for published in PUBLISHED} == {"PRO", "DIS", "DRIP", "PRE", "TIME", "OURS"}
    assert all(published.id.startswith(f"{published.paper}-") for published in PUBLISHED)


@pytest.mark.parametrize(
    ("names", "count"), [(["DIS"], 13), (["dis-f3"], 1), (["PRO-T"], 3), (["DIS", "DIS-F3"], 13)]
)
def test_claims_are_named_by_id_paper_or_beginning(names: list[str], count: int) -> None:
    assert len(select(names)) == count


def test_an_unknown_claim_is_refused() -> None:
    result = reproduce("NOPE")

    assert result.exit_code == 2
    assert "no claim or paper 'NOPE'; papers: PRO, DIS, DRIP, PRE, TIME" in result.stderr


@pytest.mark.usefixtures("empty_registry")
def test_what_nobody_checks_is_not_run_and_needs_no_spark(tmp_path: Path) -> None:
    result = reproduce("PRE", "--json", "--out", str(tmp_path))

    assert "computing ..." in result.stderr

    rows = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [(row["claim"], row["verdict"]) for row in rows] == [
        ("PRE-jit", "not run"),
        ("PRE-cost", "not run"),
        ("PRE-literal", "not run"),
        ("PRE-ping-pong", "not run"),
    ]
    assert (tmp_path / "report.json").exists()


@pytest.mark.usefixtures("empty_registry")
def test_a_verdict_and_its_reason_reach_the_scorecard(tmp_path: Path) -> None:
    @claim("DRIP-eq")
    def equation(evidence: Evidence) -> Outcome:
        return Outcome(verdict=Verdict.DIFFERS, ours="0.5", why="a sign slip in the paper")

    @claim("DRIP-F4", quick=False)
    def long_one(evidence: Evidence) -> Outcome:
        raise AssertionError("must not run with --quick")

    result = reproduce("DRIP", "--quick", "--out", str(tmp_path))

    assert result.exit_code == 0
    assert "a sign slip in the paper" in result.stdout
    assert "takes too long for --quick" in result.stdout
    assert "1 differs, 1 undecided, 3 not run" in result.stdout, "quick may say undecided, and nothing else"


@pytest.mark.usefixtures("empty_registry")
@pytest.mark.parametrize("verdict", [Verdict.REPRODUCED, Verdict.DEPENDS, Verdict.DIFFERS])
def test_quick_runs_decide_nothing_and_tell_what_they_say(verdict: Verdict, tmp_path: Path) -> None:
    """Full runs have larger populations and more settings, and may say otherwise."""
    claim("PRE-jit", jobs=lambda quick: [])(lambda evidence: Outcome(verdict=verdict, why="a sentence"))
    claim("PRE-cost")(lambda evidence: Outcome(verdict=verdict))
    with_runs, of_a_model = select(["PRE-jit", "PRE-cost"])

    def checked(one: Claim, *, quick: bool) -> Outcome:
        return _check(one, CampaignEvidence(None, tmp_path, quick=quick)).outcome

    assert checked(with_runs, quick=True) == Outcome(
        verdict=Verdict.UNDECIDED, why=f"quick runs are fewer and smaller: they say {verdict}; a sentence"
    )
    assert checked(with_runs, quick=False).verdict is verdict
    assert checked(of_a_model, quick=True).verdict is verdict


@pytest.mark.usefixtures("empty_registry")
def test_a_broken_check_does_not_hide_the_others_and_shows_in_the_exit_code(tmp_path: Path) -> None:
    @claim("PRE-jit")
    def broken(evidence: Evidence) -> Outcome:
        raise KeyError("standard")

    @claim("PRE-cost")
    def fine(evidence: Evidence) -> Outcome:
        return Outcome(verdict=Verdict.REPRODUCED, ours="yes")

    result = reproduce("PRE-jit", "PRE-cost", "--json", "--out", str(tmp_path))

    rows = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [row["verdict"] for row in rows] == ["error", "reproduced"]
    assert rows[0]["why"].startswith("KeyError: 'standard' (test_reproduce.py:")


@pytest.mark.spark
@pytest.mark.usefixtures("empty_registry")
def test_claims_share_the_runs_of_one_campaign(spark: Any, tmp_path: Path) -> None:
    def jobs(quick: bool) -> Sequence[Job]:
        return [
            Job(
                scenario="toy",
                scheme="none",
                seed=seed,
                payload={"events": 10, "duration_s": 1.0},
                runner=Runner(run=counting),
            )
            for seed in range(2 if quick else 9)
        ]

    def loss(evidence: Evidence) -> Outcome:
        [row] = evidence.summary(jobs(evidence.quick), ["loss_pct"])
        verdict = Verdict.REPRODUCED if row.mean == 0 else Verdict.DIFFERS
        return Outcome(verdict=verdict, ours=f"{row.mean:g}% of {row.runs} runs")

    def undeclared(evidence: Evidence) -> Outcome:
        return Outcome(verdict=Verdict.REPRODUCED, ours=str(evidence.summary(jobs(False), ["loss_pct"])))

    def fewer(evidence: Evidence) -> Outcome:
        [row] = evidence.summary(jobs(evidence.quick)[:1], ["throughput"])
        return Outcome(verdict=Verdict.REPRODUCED, ours=f"{row.metric} of {row.runs} run")

    claim("PRE-jit", jobs=jobs)(loss)
    claim("PRE-cost", jobs=jobs)(loss)
    claim("DRIP-F3a", jobs=jobs)(fewer)
    claim("DRIP-F3b", jobs=jobs)(undeclared)
    told: list[tuple[int, int]] = []
    phases: list[str] = []

    results, troubled = score(
        select(["PRE-jit", "PRE-cost", "DRIP-F3"]),
        tmp_path,
        quick=True,
        session=lambda: contextlib.nullcontext(spark),
        progress=lambda done, total: told.append((done, total)),
        phase=phases.append,
    )

    assert phases == ["starting Spark", "simulating", "judging"]

    assert [result.outcome.ours for result in results[:3]] == [
        "0% of 2 runs",
        "0% of 2 runs",
        "throughput of 1 run",
    ]
    assert results[3].outcome.verdict is Verdict.ERROR
    assert "declares the runs it looks at" in results[3].outcome.why
    assert told[-1] == (2, 2)
    assert troubled == []


@pytest.mark.spark
@pytest.mark.usefixtures("empty_registry")
def test_what_goes_beyond_the_paper_is_run_when_asked(spark: Any, tmp_path: Path) -> None:
    def job(seed: int) -> Job:
        payload = {"events": 10, "duration_s": 1.0}
        runner = Runner(run=counting)
        return Job(scenario="toy", scheme="none", seed=seed, payload=payload, runner=runner)

    def count(evidence: Evidence) -> Outcome:
        jobs = [job(1), *([job(2)] if evidence.beyond else [])]
        [row] = evidence.summary(jobs, ["loss_pct"])
        return Outcome(verdict=Verdict.REPRODUCED, ours=f"{row.runs} runs")

    claim("PRE-jit", jobs=lambda quick: [job(1)], beyond=lambda: [job(2)])(count)

    def ours(beyond: bool) -> str:
        session = lambda: contextlib.nullcontext(spark)  # noqa: E731
        [result], _ = score(select(["PRE-jit"]), tmp_path, quick=False, beyond=beyond, session=session)
        return result.outcome.ours

    assert ours(beyond=False) == "1 runs"
    assert ours(beyond=True) == "2 runs"
