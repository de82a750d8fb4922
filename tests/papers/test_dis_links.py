"""DIS-links on made-up measurements: each sentence can fail, and `--paper-only` leaves the claim out."""

from collections.abc import Sequence
from typing import Any

import pytest

from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Transform
from roamq.pipeline.under_way import transfers_under_way
from roamq.reproduce.dis_links import CLIENTS, link_jobs, transfers_over_finite_links
from roamq.reproduce.evidence import ScriptedEvidence
from roamq.reproduce.registry import Verdict

BINS = [300.0 * n for n in range(1, 55)]
PEAK_S = 4800.0
"""5:20 pm."""


def under_way(job: Job) -> dict[float, float]:
    """Transfers from 5 to 5:40 pm; half as many over links that are twice as fast."""
    most = 0.1 * CLIENTS * 20000 / float(job.params["link.bandwidth_bps"])
    return {b: most * max(0.0, 1 - abs(b - PEAK_S) / 1200) for b in BINS}


def evening(
    job: Job, *, most: float | None = None, at_s: float = PEAK_S, prefetched_s: float = 0.1
) -> dict[str, Any]:
    """What the two queries find in a run."""
    narrow = job.params["link.bandwidth_bps"] == "20000.0"
    latency = {b: 0.2 + (40.0 if 3600 < b <= 5400 else 0.0) for b in BINS}
    takes_s = 300.0 if narrow else 20.0
    return {
        "transfers_at_once": under_way(job),
        "transfers_at_once_max": 0.1 * CLIENTS if most is None else most,
        "transfers_at_once_max_at_s": at_s,
        "transfer_s_mean": prefetched_s * takes_s if job.scheme == "prefetching" else takes_s,
        "live_in_bin": dict.fromkeys(BINS, 100.0),
        "live_latency_s_in_bin": latency,
    }


def measured(unrelated: bool = False, **changed: Any) -> ScriptedEvidence:
    def rows(transform: Transform, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        found = []
        for job in jobs:
            run = (job.run_id, job.scenario, job.scheme, dict(job.params), job.seed)
            for metric, value in evening(job, **changed).items():
                if metric.startswith("transfer") is not (transform is transfers_under_way):
                    continue
                for entity, number in (value if isinstance(value, dict) else {"all": value}).items():
                    names = ("run_id", "scenario", "scheme", "params", "seed", "metric", "entity", "value")
                    found.append(dict(zip(names, (*run, metric, str(entity), number), strict=True)))
        return found

    def value(job: Job, metric: str) -> dict[str, float]:
        assert metric == "unicast_hops_in_bin"
        return {str(b): b if unrelated else 7.0 * level for b, level in under_way(job).items()}

    return ScriptedEvidence(value, rows, beyond=True)


def test_every_sentence_of_dis_links_can_hold() -> None:
    outcome = transfers_over_finite_links(measured())

    assert outcome.verdict is Verdict.REPRODUCED, outcome.why
    assert "up to 10.0% of the subscribers at once" in outcome.ours
    assert "standard 40.2 s and 0.2 s" in outcome.ours, "the latency in the peak half hour, and outside it"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"most": 10.0}, "up to 10%"),
        ({"most": 200.0}, "up to 10%"),
        ({"at_s": 9000.0}, "between 5:00 and 5:30 pm"),
        ({"prefetched_s": 2.0}, "prefetching hides"),
        ({"unrelated": True}, "closely tracks"),
    ],
)
def test_every_sentence_of_dis_links_can_fail(changed: dict[str, Any], why: str) -> None:
    outcome = transfers_over_finite_links(measured(**changed))

    assert outcome.verdict is Verdict.DIFFERS
    assert why in outcome.why


def test_dis_links_is_not_the_paper_s() -> None:
    outcome = transfers_over_finite_links(ScriptedEvidence())

    assert outcome.verdict is Verdict.NOT_RUN
    assert "--paper-only" in outcome.why


def test_dis_links_makes_few_runs_with_paired_seeds() -> None:
    jobs = link_jobs()

    assert len(jobs) == len({job.run_id for job in jobs}) == 30
    assert {job.seed for job in jobs} == {1, 2, 3, 4, 5}
    assert all(job.payload["link"]["frame_bytes"] == 1500 for job in jobs)
