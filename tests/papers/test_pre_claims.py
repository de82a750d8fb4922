"""The claims of [PRE] can fail: the same check on evidence that agrees with the paper, and on some that does not."""

from collections.abc import Sequence
from typing import Any

import pytest

from roamq.pipeline.jobs import Job
from roamq.pipeline.prehandoff import (
    just_in_time,
    normal_handoff_delay,
    prehandoff_metrics,
    timeliness_by_seed,
)
from roamq.pipeline.results import Transform
from roamq.report.area_map import AreaScene, area_map
from roamq.reproduce import pre, pre_literal
from roamq.reproduce.evidence import ScriptedEvidence
from roamq.reproduce.pre_film import one_client
from roamq.reproduce.registry import Verdict
from roamq.schemes.parts.locations import Choice

Rows = list[dict[str, Any]]


def queried(rows: dict[Transform, Rows]) -> ScriptedEvidence:
    """Evidence that knows the answers to these queries."""
    return ScriptedEvidence(rows=lambda transform, jobs: rows[transform], quick=True)


def step(ratio: float, share: float, delay: float) -> dict[str, Any]:
    return {
        "scheme": "prehandoff",
        "bin": ratio,
        "ratio": ratio,
        "handoffs": 50,
        "just_in_time": share,
        "delay": delay,
        "delay_error": 0.01,
    }


@pytest.mark.parametrize(
    ("beyond", "verdict"), [((1.0, 0.02), Verdict.REPRODUCED), ((0.7, 0.3), Verdict.DIFFERS)]
)
def test_just_in_time_is_a_step(beyond: tuple[float, float], verdict: Verdict) -> None:
    bins = [
        step(0.2, 0.0, 0.8),
        step(0.4, 0.0, 0.82),
        step(0.8, 0.0, 0.3),
        step(1.0, *beyond),
        step(3.0, *beyond),
    ]
    by_seed = [
        {
            "scheme": "prehandoff",
            "seed": seed,
            "bin": row["bin"],
            "handoffs": 50,
            "timely": 50 * row["just_in_time"],
            "delays": 50,
            "delay": 50 * row["delay"],
        }
        for seed in (1, 2)
        for row in bins
    ]
    evidence = queried(
        {
            just_in_time: bins,
            timeliness_by_seed: by_seed,
            normal_handoff_delay: [{"handoffs": 90, "delay": 0.8}],
        }
    )
    outcome = pre.just_in_time_when_travel_exceeds_setup(evidence)
    assert outcome.verdict is verdict
    assert [len(figure.series) for figure in outcome.figures[:2]] == [1, 2]


def costs(border: float, hit: float) -> Rows:
    rows: Rows = []
    for name, options in pre.variants(quick=True).items():
        share = border if name != "all neighbors" else 1.0
        values = dict.fromkeys(pre.COSTS, 10 * share) | {"hit_pct": 99.0 if share == 1.0 else hit}
        rows += [
            {"params": options, "metric": metric, "seed": seed, "value": value}
            for metric, value in values.items()
            for seed in (1, 2)
        ]
    return rows


@pytest.mark.parametrize(
    ("border", "hit", "verdict"),
    [
        (0.5, 99.0, Verdict.REPRODUCED),
        (0.5, 90.0, Verdict.DIFFERS),
        (1.2, 99.0, Verdict.DIFFERS),
    ],
)
def test_border_cells_cost_less_at_the_same_hit_rate(border: float, hit: float, verdict: Verdict) -> None:
    outcome = pre.border_cells_cost_less_than_all_neighbors(queried({prehandoff_metrics: costs(border, hit)}))
    assert outcome.verdict is verdict
    _, table = outcome.tables
    assert len(table.rows) == len(pre.variants(quick=True))


@pytest.mark.parametrize(
    ("lost", "repeated", "verdict"), [(0.0, 0.0, Verdict.REPRODUCED), (0.2, 14.0, Verdict.DEPENDS)]
)
def test_what_is_printed_may_lose_and_repeat(lost: float, repeated: float, verdict: Verdict) -> None:
    def value(job: Job, metric: str) -> float:
        is_literal = job.params["scheme.literal"] == "true"
        return {"loss_pct": lost, "duplication_pct": repeated}.get(metric, 1.0) * is_literal

    outcome = pre_literal.algorithms_as_printed(ScriptedEvidence(value))

    assert outcome.verdict is verdict
    if lost:
        assert "hold together with messages=five, and not with messages=three" in outcome.why
        assert "0.2% of the events are lost and 14% repeated" in outcome.ours


@pytest.mark.parametrize(("kept", "verdict"), [(99.0, Verdict.REPRODUCED), (99.9, Verdict.DIFFERS)])
def test_cancelling_at_once_must_not_miss_clients(kept: float, verdict: Verdict) -> None:
    def rows(transform: Transform, jobs: Sequence[Job]) -> Rows:
        waits = "scheme.hysteresis_s" in jobs[0].params
        values = dict.fromkeys(pre_literal.SHOWN, 2.0) | {"hit_pct": kept if waits else 99.0}
        return [{"metric": m, "seed": seed, "value": v} for m, v in values.items() for seed in (1, 2)]

    outcome = pre_literal.ping_pong_without_and_with_hysteresis(ScriptedEvidence(rows=rows))

    assert outcome.verdict is verdict
    assert len(outcome.tables[-1].rows) == 3


def test_the_full_campaign_varies_what_it_says() -> None:
    jobs = pre.jit_jobs(False)
    assert {(job.scheme, job.params["link.delay_s"]) for job in jobs} == {
        (scheme, str(delay)) for scheme in ("prehandoff", "standard") for delay in pre.FULL.delays_s
    }
    assert {job.params["scheme.choose"] for job in pre.cost_jobs(False)} == set(Choice)
    assert len({job.run_id for job in pre.cost_jobs(False)}) == len(pre.cost_jobs(False))


def test_the_film_shows_areas_border_cells_and_a_way() -> None:
    film = one_client()
    assert len(film.frames) == len(film.texts) >= 5
    assert all(frame.startswith("<svg") and frame.endswith("</svg>") for frame in film.frames)
    assert any("replaces its virtual consumer" in text or "is ready for it" in text for text in film.texts)
    assert film.texts[0].startswith("The whole way")
    assert "stroke-dasharray" in film.frames[2]


def test_a_client_that_is_switched_off_is_drawn_hollow() -> None:
    from tests.papers.test_pre_algorithms import REGION, SITES

    scene = AreaScene(
        region=REGION, servers=SITES, way=list(SITES.values()), serving=None, virtual=frozenset()
    )
    assert 'r="6" fill="#fff"' in area_map(scene)
