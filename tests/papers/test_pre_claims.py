"""The claims of [PRE] can fail: the same check on evidence that agrees with the paper, and on some that does not."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from roamq.pipeline.jobs import Job
from roamq.pipeline.prehandoff import just_in_time, normal_handoff_delay, prehandoff_summary
from roamq.pipeline.results import Measured
from roamq.report.area_map import Scene, area_map
from roamq.reproduce import pre
from roamq.reproduce.pre_film import one_client
from roamq.reproduce.registry import Verdict

Rows = list[dict[str, Any]]


class Evidence:
    """Says what a test wants it to say."""

    quick = True
    beyond = False

    def __init__(self, rows: dict[Callable[..., Any], Rows]) -> None:
        self._rows = rows

    def rows(self, transform: Callable[[Any, Any], Any], jobs: Iterable[Job]) -> Rows:
        assert list(jobs)
        return self._rows[transform]

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[Measured]:
        raise AssertionError("these claims have metrics of their own")


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
    evidence = Evidence({just_in_time: bins, normal_handoff_delay: [{"handoffs": 90, "delay": 0.8}]})
    outcome = pre.just_in_time_when_travel_exceeds_setup(evidence)
    assert outcome.verdict is verdict
    assert [len(figure.series) for figure in outcome.figures] == [1, 2]


def costs(border: float, hit: float) -> Rows:
    rows: Rows = []
    for name, options in pre.variants(quick=True).items():
        share = border if name != "all neighbors" else 1.0
        values = dict.fromkeys(pre.COSTS, 10 * share) | {"hit_pct": 99.0 if share == 1.0 else hit}
        rows += [
            {"params": options, "metric": metric, "mean": value, "low": None, "high": None}
            for metric, value in values.items()
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
    outcome = pre.border_cells_cost_less_than_all_neighbors(
        Evidence({prehandoff_summary: costs(border, hit)})
    )
    assert outcome.verdict is verdict
    [table] = outcome.tables
    assert len(table.rows) == len(pre.variants(quick=True))


def test_the_full_campaign_varies_what_it_says() -> None:
    jobs = pre.jit_jobs(False)
    assert {(job.scheme, job.params["link.delay_s"]) for job in jobs} == {
        (scheme, str(delay)) for scheme in ("prehandoff", "standard") for delay in pre.FULL.delays_s
    }
    assert {job.params["scheme.choose"] for job in pre.cost_jobs(False)} == {"all", "border", "ahead", "cone"}
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

    scene = Scene(region=REGION, servers=SITES, way=list(SITES.values()), serving=None, virtual=frozenset())
    assert 'r="6" fill="#fff"' in area_map(scene)
