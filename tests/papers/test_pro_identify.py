"""What [PRO] does not print: the declared ranges, the distance, and where the next runs are made."""

import math

import numpy as np
import pytest

from roamq.pipeline.schemas import MetricRow
from roamq.reproduce import pro_identify, pro_prior
from roamq.reproduce.pro_identify import (
    TARGETS,
    distance,
    figures_of,
    next_wave,
    rough,
    short_jobs,
    spread_out,
    wave_by_choice,
)
from roamq.reproduce.pro_sets import named_sets
from roamq.sim.scenario import load_scenario, mobility_of, workload_of

AS_PRINTED = {target.name: target.published for target in TARGETS}


def test_the_sets_that_claims_are_judged_over_lie_in_the_declared_ranges() -> None:
    assert len(named_sets()) >= 2, "one set shows no dependence"
    assert all(pro_prior.outside(chosen) == [] for chosen in named_sets().values())
    assert pro_prior.outside({**named_sets()["set A"], "weak": 0.1}) == ["weak"]


def test_the_preset_is_the_closest_set() -> None:
    first = pro_prior.overrides_of(named_sets()["set A"], "reactive")

    chosen, preset = (load_scenario("pro-testbed", scheme="reactive", overrides=o) for o in (first, {}))

    assert (chosen.service, chosen.last_hop) == (preset.service, preset.last_hop)
    assert (mobility_of(chosen), workload_of(chosen)) == (mobility_of(preset), workload_of(preset))


def test_a_point_of_the_cube_is_a_set_and_back() -> None:
    for point in pro_prior.designed(16):
        chosen = pro_prior.at(point)

        assert pro_prior.outside(chosen) == []
        again = pro_prior.point_of(chosen)
        smooth = [i for i, p in enumerate(pro_prior.PRIOR) if p.scale in ("log", "linear")]
        assert again[smooth] == pytest.approx(point[smooth], abs=0.01)


def test_the_distance_is_that_of_the_worst_figure() -> None:
    assert distance(AS_PRINTED)[0] == 0
    worse = AS_PRINTED | {"reactive 100": 1.2 * AS_PRINTED["reactive 100"], "durable 10": 90.0}
    off, which = distance(worse)
    assert (round(off, 6), which) == (1.0, "reactive 100")
    assert distance(AS_PRINTED | {"durable's handoffs, 60%": 0.001})[0] == 0, "a bound, not a value"
    assert distance(AS_PRINTED | {"reactive's handoffs, 40%": 0.0})[0] == math.inf


def test_the_figures_of_a_set_come_from_its_own_runs() -> None:
    mine, other = (short_jobs(chosen, [10]) for chosen in list(named_sets().values())[:2])
    rows = [
        MetricRow(job.run_id, job.scenario, job.scheme, dict(job.params), 0, "throughput", "all", value)
        for jobs, value in ((mine, 100.0), (other, 999.0))
        for job in jobs
    ]

    assert figures_of(rows, mine) == {"durable 10": 100.0, "reactive 10": 100.0, "proactive 10": 100.0}


@pytest.mark.slow
def test_the_next_wave_is_drawn_where_the_figures_may_come_out() -> None:
    """A world in which every throughput is a quarter less than the rough formula says."""
    known = [
        (
            chosen,
            {t.name: 0.75 * rough(t, chosen) if t.metric == "throughput" else t.published for t in TARGETS},
        )
        for chosen in map(pro_prior.at, pro_prior.designed(32))
    ]

    def typical(sets: list[dict[str, float]]) -> float:
        figures = [
            {t.name: 0.75 * rough(t, chosen) for t in TARGETS if t.metric == "throughput"} for chosen in sets
        ]
        return float(np.median([distance(some)[0] for some in figures]))

    informed, at_random = next_wave(known, 8), [chosen for chosen, _ in known]

    assert typical(informed) < 0.5 * typical(at_random)
    assert typical(informed) < 1.2
    assert typical(next_wave([], 8)) > typical(informed), "without runs nobody corrects the formula"


@pytest.mark.slow
def test_a_wave_looks_around_the_closest_set_and_takes_sets_that_are_far_apart() -> None:
    """A world in which one set of the table fits exactly, and everything else is far off."""
    known = [
        (chosen, AS_PRINTED if number == 0 else {name: 3 * value for name, value in AS_PRINTED.items()})
        for number, chosen in enumerate(named_sets().values())
    ]

    wave = [pro_prior.point_of(chosen) for chosen in next_wave(known, 6)]

    choices = [i for i, p in enumerate(pro_prior.PRIOR) if p.scale == "choice"]
    fits = np.delete(pro_prior.point_of(named_sets()["set A"]), choices)
    near = [np.linalg.norm(np.delete(point, choices) - fits) < 6 * pro_identify.SPREAD for point in wave]
    assert sum(near) >= 1, "some lie around the one that fits"
    assert all(point.min() >= 0 and point.max() <= 1 for point in wave)
    apart = [np.linalg.norm(one - other) for i, one in enumerate(wave) for other in wave[:i]]
    assert min(apart) > pro_identify.SPREAD


@pytest.mark.slow
def test_every_combination_of_the_choices_gets_the_set_that_promises_most() -> None:
    known = [(chosen, AS_PRINTED) for chosen in named_sets().values()]

    wave = wave_by_choice(known)

    choices = [p.name for p in pro_prior.PRIOR if p.scale == "choice"]
    assert len({tuple(chosen[name] for name in choices) for chosen in wave}) == len(wave) == 2 ** len(choices)
    assert not any(pro_prior.outside(chosen) for chosen in wave)
    fitting = {tuple(chosen[name] for name in choices) for chosen in named_sets().values()}
    near = [c for c in wave if tuple(c[name] for name in choices) in fitting]
    assert all(0.5 < rough(TARGETS[0], chosen) / TARGETS[0].published < 2 for chosen in near)


def test_of_the_sets_that_fit_those_far_apart_are_kept_the_closest_among_them() -> None:
    first = dict(named_sets()["set A"])
    alike = [(first | {"weak": 0.95 - 0.001 * n}, AS_PRINTED) for n in range(5)]
    off = {name: 1.1 * value for name, value in AS_PRINTED.items()}
    elsewhere = first | {"weak": 0.7, "service.store_s": 0.006, "last_hop.redelivers": 1.0}

    kept = spread_out([(elsewhere, off), *alike], 2)

    assert kept == [alike[0][0], elsewhere]
    assert spread_out([], 2) == []


def test_short_runs_are_short_and_of_one_seed() -> None:
    jobs = short_jobs(named_sets()["set A"], (10, 200))

    assert {job.seed for job in jobs} == {0}
    assert {job.until_s for job in jobs} == {pro_identify.SHORT_S[10], pro_identify.SHORT_S[200]}
