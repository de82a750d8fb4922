"""Claims of our own, on histories whose delays are computed here, event by event."""

import numpy as np
import pytest

from roamq.models.histories import ClientHistory
from roamq.pipeline.client_histories import RecordedRun
from roamq.pipeline.jobs import Job
from roamq.reproduce.evidence import ScriptedEvidence
from roamq.reproduce.ours_model import model_and_live_brokers, model_and_simulator
from roamq.reproduce.registry import Verdict

UNTIL_S = 3000.0
LIVE_S = 0.01


def history(rng: np.random.Generator, *, later_s: float, rate_when_away: float) -> ClientHistory:
    """Connected for 60 s and away for 15 s on average; an event that meets the client away waits for it."""
    on, off = rng.exponential(60.0, 200), rng.exponential(15.0, 200)
    changes = np.cumsum(np.column_stack([on, off]).ravel())
    disconnects, connects = changes[::2], np.concatenate([[0.0], changes[1::2]])
    births = np.cumsum(rng.exponential(2.0, int(UNTIL_S)))
    births = births[births < UNTIL_S]
    state = np.searchsorted(changes, births)
    is_away = state % 2 == 1
    kept = is_away | (rng.random(births.size) < 1 / rate_when_away)
    births, is_away, state = births[kept], is_away[kept], state[kept]
    ends = np.where(is_away, changes[np.minimum(state, changes.size - 1)] + later_s, births + LIVE_S)
    order = np.argsort(ends, kind="stable")
    return ClientHistory(
        connects_s=connects,
        disconnects_s=disconnects,
        deliveries_s=ends[order],
        delays_s=(ends - births)[order],
        begin_s=0.0,
        until_s=UNTIL_S,
    )


def run_of(job: Job, *, rate_when_away: float = 1.0) -> RecordedRun:
    rng = np.random.default_rng([job.seed, len(job.scheme), len(job.params["setting"])])
    later_s = 400.0 if job.scheme == "durable" else LIVE_S
    histories = [history(rng, later_s=later_s, rate_when_away=rate_when_away) for _ in range(25)]
    per_s = sum(part.events for part in histories) / UNTIL_S
    return RecordedRun(
        run_id=job.run_id,
        scheme=job.scheme,
        scenario=job.scenario,
        seed=job.seed,
        is_live="live" in job.params["setting"],
        histories=histories,
        wanted_per_s=per_s,
        delivered_per_s=per_s,
    )


def test_runs_that_follow_the_model_do_not_differ_and_durable_is_not_claimed() -> None:
    """So few runs leave sentences open; those that they decide hold."""
    outcome = model_and_simulator(ScriptedEvidence(recorded=run_of, quick=True))

    assert outcome.verdict in (Verdict.REPRODUCED, Verdict.UNDECIDED), outcome.why
    assert "does not hold:" not in outcome.why
    assert "holds for 6 of 8" in outcome.ours
    assert "not claimed for durable" in outcome.why
    assert "stored where it is not" in outcome.why


def test_events_that_depend_on_connectivity_differ() -> None:
    """Events are three times as frequent while their client is away: the model expects them at any time."""
    evidence = ScriptedEvidence(recorded=lambda job: run_of(job, rate_when_away=3.0), quick=True)
    outcome = model_and_simulator(evidence)

    assert outcome.verdict is Verdict.DIFFERS
    assert "standard" in outcome.why


@pytest.mark.parametrize(("rate_when_away", "differs"), [(1.0, False), (3.0, True)])
def test_live_runs_alone_are_judged_by_the_live_claim(rate_when_away: float, differs: bool) -> None:
    evidence = ScriptedEvidence(recorded=lambda job: run_of(job, rate_when_away=rate_when_away))
    outcome = model_and_live_brokers(evidence)

    assert (outcome.verdict is Verdict.DIFFERS) == differs, outcome.why
    assert "of 3 schemes" in outcome.ours
