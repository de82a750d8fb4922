"""A scheme from another package: `examples/own-scheme` is installed, chosen by name, simulated and run live."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "own-scheme"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the example into."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "own-scheme")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(folder), str(source)], check=True)
    return folder


def environment(installed: Path) -> dict[str, str]:
    path = os.pathsep.join([str(installed), str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path}


def python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=environment(installed), capture_output=True, text=True, check=False
    )


def test_the_example_is_short() -> None:
    assert len((EXAMPLE / "roamq_latest.py").read_text().splitlines()) < 80


SIMULATE = """
import json
from roamq.sim.scenario import load_scenario, run
from tests.support.rough_rides import ride

scenario = load_scenario("testbed", scheme="latest", overrides={"clients": "30", "duration_s": "120"})
result = run(scenario, seed=1)
superseded = sum(r.kind == "dropped" and r.detail == "superseded" for r in result.records)
rides = [violation for number in range(20) for violation in ride("latest", number).violations]
print(json.dumps({"superseded": superseded, "violations": result.violations + rides, "lost": len(result.lost())}))
"""


@pytest.mark.slow
def test_it_runs_in_the_simulator_and_keeps_what_it_promises(installed: Path) -> None:
    ended = python(installed, "-c", SIMULATE)

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["violations"] == []
    assert found["superseded"] > 0
    assert found["lost"] == found["superseded"]


@pytest.mark.slow
def test_its_options_are_checked_like_those_of_any_scheme(installed: Path) -> None:
    ended = python(
        installed, "-m", "roamq", "simulate", "testbed", "--scheme", "latest", "--set", "scheme.keep=0"
    )

    assert ended.returncode == 2
    assert "scheme.keep: 0 is too few; give 1 or more" in ended.stderr


@pytest.mark.slow
def test_a_scheme_that_cannot_be_loaded_is_named_with_its_package(installed: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(installed, tmp_path / "broken")
    (broken / "roamq_latest.py").write_text("raise ImportError('a part is missing')")

    ended = python(broken, "-m", "roamq", "simulate", "testbed", "--scheme", "latest")

    assert ended.returncode == 2
    assert "the package roamq-latest brings the scheme 'latest'" in ended.stderr
    assert "a part is missing" in ended.stderr


RUN_ID = """
from roamq.pipeline.jobs import Job
print(Job(scenario="testbed", scheme="latest", seed=1, payload={"scheme": {"name": "latest"}}).run_id)
"""


@pytest.mark.slow
def test_a_run_is_named_anew_when_the_scheme_s_package_changes(installed: Path, tmp_path: Path) -> None:
    """Results of a scheme from outside are never stale (docs/decisions/0021)."""
    changed = shutil.copytree(installed, tmp_path / "changed")
    with (changed / "roamq_latest.py").open("a") as file:
        file.write("# another version\n")

    ids = [python(folder, "-c", RUN_ID).stdout for folder in (installed, installed, changed)]

    assert ids[0].startswith("r")
    assert ids[0] == ids[1] != ids[2]


LIVE = """
import asyncio, json, sys
from pathlib import Path
from tests.net.live import BrokerProcesses, PlainClient
from tests.support.waiting import eventually

async def scene(brokers):
    wall, sensor = PlainClient("wall"), PlainClient("sensor")
    await wall.connect(brokers.port("b1"))
    await wall.subscribe("sensors/#", 1)
    wall.drop()
    await sensor.connect(brokers.port("b1"))
    for reading in (b"1", b"2", b"3"):
        sensor.publish("sensors/a", reading, 1)
        sensor.publish("sensors/b", b"b" + reading, 1)
    await eventually(lambda: len(sensor.acknowledged) == 6)
    await wall.connect(brokers.port("b2"))
    sensor.publish("sensors/a", b"4", 1)
    await eventually(lambda: any(payload == b"4" for _, payload, _, _ in wall.received))
    wall.drop()
    sensor.drop()
    return [payload.decode() for _, payload, _, _ in wall.received]

with BrokerProcesses(Path(sys.argv[1]), 2, scheme="latest") as brokers:
    brokers.start()
    print(json.dumps(asyncio.run(scene(brokers))))
"""


@pytest.mark.live
def test_live_brokers_run_it(installed: Path, tmp_path: Path) -> None:
    """A client that moves gets the last reading of each sensor, and what is published since."""
    ended = python(installed, "-c", LIVE, str(tmp_path))

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == ["3", "b3", "4"]
