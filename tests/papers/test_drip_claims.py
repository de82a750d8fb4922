"""The claims of [DRIP]: what they run, and that their verdicts follow what was measured."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from roamq.manet.experiment import Setting
from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Measured, Transform
from roamq.report.exhibits import Film
from roamq.reproduce import drip, drip_delay, drip_model, drip_runs, drip_selection
from roamq.reproduce.drip_film import one_event
from roamq.reproduce.registry import Verdict, select

Measure = Callable[[Setting], float]


class Invented:
    """Evidence made up: a function of the setting for coverage and delay, and one for everything else."""

    def __init__(self, measure: Measure, quick: bool = False) -> None:
        self.quick = quick
        self.beyond = False
        self._measure = measure

    def rows(self, transform: Transform, jobs: Iterable[Job]) -> list[dict[str, Any]]:
        kinds = ("all", "event", "hello", "beacon", "contact", "broker", "node")
        own = {drip_runs.COVERAGE, drip_runs.DELAY}
        other = {drip_runs.RATIO, drip_runs.TRANSMISSIONS, drip_runs.PUBLICATION, drip_runs.SPREADING}
        other |= {drip_runs.BY_SOURCE, drip_runs.WANTED_BY, drip_runs.DETECTED_DELAY}
        other |= {drip_runs.DETECTED_LIKE_OTHERS, "delivery_delay_s_p50"}
        metrics = sorted(own | other | {"transmissions_per_s", "bytes_per_s"})
        return [
            {
                "scheme": job.scheme,
                "params": dict(job.params),
                "metric": metric,
                "entity": entity,
                "mean": self._measure(Setting.from_payload(dict(job.payload))) if metric in own else 0.5,
                "low": 0.0,
                "high": 1.0,
            }
            for job in jobs
            for metric in metrics
            for entity in kinds
        ] + [
            {
                "scheme": job.scheme,
                "params": dict(job.params),
                "metric": drip_runs.DETECTED_POPULATION,
                "entity": entity,
                "mean": population,
            }
            for job in jobs
            for entity, population in (("broker", 19.0), ("node", 30.0))
        ]

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[Measured]:
        raise AssertionError("these claims have their own metrics")


def coverage_as_published(one: Setting) -> float:
    return 1.0 if one.scheme == "sf" else (3 + one.parameters.m) / one.parameters.k


def delay_as_published(one: Setting) -> float:
    return 100.0 if one.scheme == "sf" else one.parameters.k / one.parameters.m


def test_every_claim_of_the_paper_has_a_check() -> None:
    assert all(claim.check is not None for claim in select(["DRIP"]))


@pytest.mark.parametrize("quick", [True, False])
def test_jobs_can_be_carried_out_and_are_shared(quick: bool) -> None:
    claims = select(["DRIP"])
    jobs = [job for claim in claims if claim.jobs for job in claim.jobs(quick)]

    for job in jobs:
        again = Setting.from_payload(json.loads(json.dumps(dict(job.payload))))
        assert drip_runs.params_of(again) == dict(job.params)
    by_id: dict[str, dict[str, str]] = {}
    for job in jobs:
        assert by_id.setdefault(job.run_id, dict(job.params)) == dict(job.params)
    assert len(by_id) < len(jobs), "Figure 4 uses runs of Figure 3(b)"


def test_the_full_grid_is_the_papers_setting() -> None:
    """[DRIP] section VI: 200 nodes, 500 time units, intensity 0.8, l = 4 and l = 5."""
    one = Setting.from_payload(dict(drip_delay.delay_jobs(quick=False)[0].payload))

    assert (one.nodes, one.publishing_s, one.range_m, one.walk.side_m) == (200, 500.0, 120.0, 1000.0)
    assert (one.workload.events_per_s, one.workload.subscribing) == (0.8, 0.5)
    assert one.parameters.l == 5


@pytest.mark.parametrize(
    ("measure", "verdict"),
    [
        (coverage_as_published, Verdict.REPRODUCED),
        (
            lambda one: (
                0.1 * coverage_as_published(one) if one.scheme == "sf" else coverage_as_published(one)
            ),
            Verdict.DIFFERS,
        ),
        (lambda one: 1.0 if one.scheme == "sf" else 1 / one.parameters.m, Verdict.DIFFERS),
        (lambda one: 1e6 if one.scheme == "sf" else one.parameters.k * one.parameters.m, Verdict.DIFFERS),
    ],
    ids=["as published", "above SF", "falls with m", "grows with k"],
)
def test_coverage_is_judged_by_its_trends(
    measure: Measure, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = Film(title="", frames=[], texts=[])
    monkeypatch.setattr(drip, "one_event", lambda quick: film)

    outcome = drip.broker_coverage(Invented(measure))

    assert outcome.verdict is verdict
    assert outcome.films == [film]


def test_delay_is_judged_by_its_trends_and_says_what_contention_does() -> None:
    as_published = drip_delay.delivery_delay(Invented(delay_as_published))
    assert as_published.verdict is Verdict.REPRODUCED

    fast_sf = drip_delay.delivery_delay(
        Invented(lambda one: 1.0 if one.scheme == "sf" else delay_as_published(one))
    )
    assert fast_sf.verdict is Verdict.DIFFERS
    assert "SF is faster" in fast_sf.why
    assert "16384 bytes" in fast_sf.why


def test_the_choice_of_brokers_is_judged_at_every_k() -> None:
    better = drip_selection.broker_selection(Invented(lambda one: 1.0 if one.selection == "ability" else 2.0))
    assert better.verdict is Verdict.REPRODUCED
    assert better.ours.startswith("k=10: -50%")

    mixed = drip_selection.broker_selection(
        Invented(lambda one: 3.0 if one.selection == "ability" and one.parameters.k == 40 else 2.0)
    )
    assert mixed.verdict is Verdict.DIFFERS
    assert "among 30 nodes" in mixed.why
    assert "a broker detects begins among 19" in mixed.why


def test_eq_2_differs_from_the_walk_and_the_exact_mean_does_not() -> None:
    outcome = drip_model.region_delay(Invented(coverage_as_published, quick=True))

    assert outcome.verdict is Verdict.DIFFERS
    walk, meeting = outcome.figures
    simulated, redrawn, exact, printed = (series.y for series in walk.series)
    assert all(abs(r / s - 1) < 0.15 for s, r in zip(simulated, redrawn, strict=True))
    assert all(abs(e / s - 1) < 0.75 for s, e in zip(simulated, exact, strict=True))
    assert max(p / s for s, p in zip(simulated, printed, strict=True)) > 3
    assert meeting.series[0].y[0] < meeting.series[0].y[-1] / 4, "the meeting time depends on k"
    assert meeting.series[1].y[0] > meeting.series[1].y[-1] / 4, "which the formula hardly knows"


def test_the_film_follows_one_event_to_its_subscribers() -> None:
    film = one_event(quick=True)

    assert 2 <= len(film.frames) <= 6
    assert len(film.frames) == len(film.texts)
    assert "1 of 15 brokers have a copy" in film.texts[0]
    assert all(frame.startswith("<svg") for frame in film.frames)
    assert "4 of 4 subscribers have the event" in film.texts[-1]
    assert "from, to" in film.frames[-1]
    assert "from, to" not in film.frames[0]
