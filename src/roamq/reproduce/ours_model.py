"""Claims of our own: the models say what RoamQ does, in the simulator and on live brokers.

Every parameter comes from the records of the runs themselves (`roamq.models.calibration`), without the delays that are
predicted. A sentence is judged by the interval of model over run. Where the model says that it does not hold, nothing
is claimed, and the table says why.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from roamq.fieldtest.run import run_job
from roamq.models.calibration import AGREEMENT, AGREEMENT_LIVE
from roamq.models.paired import Estimate
from roamq.pipeline.jobs import AFTER_THE_RUN, SIMULATOR, Job, Runner, simulation_files
from roamq.pipeline.model_check import SchemeCheck, check_scheme
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.report.numbers import span
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement, Wanted
from roamq.reproduce.registry import Outcome, claim
from roamq.sim.scenario import load_scenario

LIVE_BROKERS: Final = Runner(run=run_job, unrelated=AFTER_THE_RUN | {"manet"}, files=simulation_files)

SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "as [PRO]": {},
    "away often": {"mobility.disconnect_s": "30", "mobility.handoff_s": "10"},
    "short stays": {"mobility.connect_s": "15", "mobility.disconnect_s": "8", "mobility.handoff_s": "1"},
    "many events": {"workload.rate": "30", "mobility.pattern": "RND"},
}
"""Name -> how it departs from the scenario `testbed`."""

SCHEMES: Final = ("standard", "proactive", "home-broker", "durable")
"""`durable` stores events where the client is not: there the model has to say that it does not hold."""

LIVE_SCHEMES: Final = ("standard", "proactive", "home-broker")

COMPRESS: Final = 20.0
"""Live clients move so many times as fast as in the testbed, as in `roamq bench roaming`."""

LIVE_S: Final = 60.0

LIVE_SEEDS: Final = (1, 2, 3, 4)
"""Two leave the 95th percentile undecided: its interval is wider than the tolerance."""


# Running


def simulated_jobs(quick: bool) -> Sequence[Job]:
    sizes = {"clients": "30", "duration_s": "600"} if quick else {"clients": "40", "duration_s": "900"}
    settings = ["as [PRO]", "away often"] if quick else list(SETTINGS)
    return [
        Job(
            scenario="testbed",
            scheme=scheme,
            seed=seed,
            params={"setting": name},
            payload=_payload(scheme, tuple({**sizes, **SETTINGS[name]}.items())),
            replay=f"roamq simulate testbed --scheme {scheme} --seed {seed}"
            + "".join(f" --set {key}={value}" for key, value in {**sizes, **SETTINGS[name]}.items()),
        )
        for name in settings
        for scheme in SCHEMES
        for seed in range(1, 4 if quick else 7)
    ]


def live_jobs(_quick: bool) -> Sequence[Job]:
    overrides = {
        "clients": "60",
        "duration_s": str(LIVE_S),
        "warmup_s": "3",
        "drain_s": "30",
        "mobility.connect_s": str(60 / COMPRESS),
        "mobility.disconnect_s": str(12 / COMPRESS),
        "mobility.handoff_s": str(3 / COMPRESS),
        "workload.begin_s": "3",
    }
    return [
        Job(
            scenario="testbed",
            scheme=scheme,
            seed=seed,
            params={"setting": "live" if runner is LIVE_BROKERS else "simulated"},
            payload=_payload(scheme, tuple(overrides.items())),
            runner=runner,
            cost=100.0 if runner is LIVE_BROKERS else 1.0,
            replay="roamq bench roaming --no-faults",
        )
        for scheme in LIVE_SCHEMES
        for seed in LIVE_SEEDS
        for runner in (LIVE_BROKERS, SIMULATOR)
    ]


@lru_cache(maxsize=64)
def _payload(scheme: str, overrides: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(
        load_scenario("testbed", scheme=scheme, overrides=dict(overrides)).to_json()
    )
    return payload


def _checks(evidence: Evidence, jobs: Sequence[Job]) -> dict[str, SchemeCheck]:
    """`scheme, setting` -> the model beside all its runs."""
    recorded = {run.run_id: run for run in evidence.recorded(jobs)}
    together: dict[str, list[Job]] = {}
    for job in jobs:
        together.setdefault(f"{job.scheme}, {job.params['setting']}", []).append(job)
    return {
        name: check_scheme(
            parts[0].scheme,
            [recorded[job.run_id] for job in parts if job.run_id in recorded],
            is_live=parts[0].runner is LIVE_BROKERS,
        )
        for name, parts in together.items()
    }


# Judging


def judge(checks: Mapping[str, SchemeCheck], *, tolerance: float) -> Judgement:
    """A sentence for every measure of every scheme and setting for which the model says that it holds."""
    judgement = Judgement()
    wanted = Wanted(at_least=1 - tolerance, at_most=1 + tolerance, named=1.0)
    for name, check in checks.items():
        if not check.reason:
            for measure in check.checks:
                judgement.says(f"{name}: model over run, {measure.name}", measure.ratio, wanted)
    return judgement


def furthest(checks: Mapping[str, SchemeCheck]) -> str:
    """The measure that model and run differ in most."""
    apart = [
        (abs(measure.ratio.mean - 1), f"{name}, {measure.name}: {measure.ratio.mean - 1:+.1%}")
        for name, check in checks.items()
        if not check.reason
        for measure in check.checks
        if measure.ratio is not None
    ]
    return max(apart)[1] if apart else "no run for which the model holds"


# Drawing


def table(checks: Mapping[str, SchemeCheck], runs_are: str) -> Table:
    rows: list[list[Cell]] = [
        [
            name,
            measure.name,
            "saturated" if measure.model is None else span(*measure.model),
            span(*measure.observed),
            "" if measure.ratio is None else span(*measure.ratio),
            measure.verdict if not check.reason else f"does not hold: {check.reason}",
        ]
        for name, check in checks.items()
        for measure in check.checks
    ]
    return Table(
        title="The model beside the runs that it was calibrated with",
        columns=["scheme and setting", "measure", "model", runs_are, "model over run", "verdict"],
        rows=rows,
        note="With 95% intervals over clients. The delays of events that waited are not used by the model.",
    )


def figure(checks: Mapping[str, SchemeCheck], runs_are: str) -> Figure:
    shown = [
        (f"{name}, {measure.name}", measure)
        for name, check in checks.items()
        if not check.reason
        for measure in check.checks
        if measure.name in ("mean", "p95", "p99") and measure.model is not None
    ]

    def series(name: str, estimates: Sequence[Estimate]) -> Series:
        return Series(
            name=name,
            x=[label for label, _ in shown],
            y=[estimate.mean for estimate in estimates],
            low=[estimate.low for estimate in estimates],
            high=[estimate.high for estimate in estimates],
        )

    return Figure(
        title="Delay from publication to delivery",
        kind="bar",
        x_label="",
        y_label="seconds",
        y_log=True,
        series=[
            series("model", [measure.model for _, measure in shown if measure.model is not None]),
            series(runs_are, [measure.observed for _, measure in shown]),
        ],
    )


def _outcome(checks: Mapping[str, SchemeCheck], *, tolerance: float, runs_are: str) -> Outcome:
    held = [name for name, check in checks.items() if not check.reason]
    silent = {name: check.reason for name, check in checks.items() if check.reason}
    return judge(checks, tolerance=tolerance).outcome(
        f"the model holds for {len(held)} of {len(checks)} schemes and settings; furthest apart there: "
        f"{furthest(checks)}",
        note="; ".join(f"not claimed for {name}: {why}" for name, why in silent.items()),
        tables=[table(checks, runs_are)],
        figures=[figure(checks, runs_are)] if held else [],
    )


@claim("OURS-model-sim", jobs=simulated_jobs)
def model_and_simulator(evidence: Evidence) -> Outcome:
    checks = _checks(evidence, simulated_jobs(evidence.quick))
    return _outcome(checks, tolerance=AGREEMENT, runs_are="simulator")


@claim("OURS-model-live", jobs=live_jobs, quick=False)
def model_and_live_brokers(evidence: Evidence) -> Outcome:
    checks = {
        name: check for name, check in _checks(evidence, live_jobs(evidence.quick)).items() if check.is_live
    }
    return _outcome(checks, tolerance=AGREEMENT_LIVE, runs_are="live brokers")
