"""The id of a run: it changes with whatever may change the run's records, and with nothing else."""

import shutil
from pathlib import Path

import pytest

from roamq.cli.live_runner import LIVE_BROKERS
from roamq.pipeline.jobs import SIMULATOR, Job, Runner, code_digest
from roamq.pipeline.replay import LearnedNetwork
from roamq.pipeline.study import StudyPlan, jobs_of
from roamq.reproduce.drip_runs import MOBILE_BROKERS
from tests.support.source import SOURCE, modules
from tests.test_architecture import imports, package_of

STEPS = "client,time_s,site,connected\nann,0.0,a,true\nann,9.0,a,false\nann,10.0,b,true\n"
NETWORK = LearnedNetwork(brokers=("a", "b"), broker_of={"a": "a", "b": "b"}, links=(("a", "b"),), edges=())


def study_of(trace: Path) -> dict[str, Job]:
    plan = StudyPlan(dataset="walks", format="associations", seeds=1, schemes=("standard", "proactive"))
    return {job.scheme: job for job in jobs_of(plan, NETWORK, trace, clients=1)}


def test_a_changed_trace_makes_the_runs_of_every_scheme_new(tmp_path: Path) -> None:
    """Else a study would compare one scheme on the old trace with another on the new one."""
    trace = tmp_path / "steps.csv"
    trace.write_text(STEPS)
    before = {scheme: job.run_id for scheme, job in study_of(trace).items()}
    assert {scheme: job.run_id for scheme, job in study_of(trace).items()} == before

    trace.write_text(STEPS.replace("10.0", "11.0"))

    after = {scheme: job.run_id for scheme, job in study_of(trace).items()}
    assert after["standard"] != before["standard"]
    assert after["proactive"] != before["proactive"]


@pytest.mark.parametrize(
    ("package", "live", "simulated", "mobile"),
    [
        ("net", True, False, False),
        ("fieldtest", True, False, False),
        ("cli", True, False, False),
        ("schemes", True, True, True),
        ("sim", True, True, True),
        ("manet", False, False, True),
        ("report", False, False, False),
        ("a_new_one", True, True, True),
    ],
)
def test_code_that_a_runner_uses_makes_its_runs_new(
    tmp_path: Path, package: str, live: bool, simulated: bool, mobile: bool
) -> None:
    """A changed file of `net` makes live runs new, and leaves simulated ones: those never import it."""
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(SOURCE, old, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(old, new)
    (new / package).mkdir(exist_ok=True)
    (new / package / "changed.py").write_text("# changed\n")

    def is_new(runner: Runner) -> bool:
        return code_digest(runner.unrelated, old) != code_digest(runner.unrelated, new)

    assert (is_new(LIVE_BROKERS), is_new(SIMULATOR), is_new(MOBILE_BROKERS)) == (live, simulated, mobile)


def test_the_code_is_part_of_the_id() -> None:
    def run_id(*unrelated: str) -> str:
        runner = Runner(run=SIMULATOR.run, unrelated=frozenset(unrelated))
        return Job(scenario="toy", scheme="none", seed=1, runner=runner).run_id

    assert run_id("net") != run_id("net", "schemes")
    assert run_id("net") == run_id("net")


@pytest.mark.parametrize("runner", [SIMULATOR, LIVE_BROKERS, MOBILE_BROKERS], ids=lambda runner: runner.name)
def test_no_runner_imports_code_that_it_calls_unrelated(runner: Runner) -> None:
    imported_by: dict[str, set[str]] = {}
    for path in modules():
        names = (name.split(".") for _, name in imports(path))
        ours = {parts[1] for parts in names if parts[0] == "roamq" and len(parts) > 1}
        imported_by.setdefault(package_of(path), set()).update(ours)
    reached, waiting = set[str](), [runner.run.__module__.split(".")[1]]
    while waiting:
        package = waiting.pop()
        if package not in reached:
            reached.add(package)
            waiting += imported_by.get(package, ())

    assert not reached & runner.unrelated
