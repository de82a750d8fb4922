"""A field test writes where the console of its brokers is, for those who want to watch."""

import json
import threading
import urllib.request
from pathlib import Path

import pytest

from roamq.fieldtest.run import CONSOLE_FILE, run_job
from roamq.sim.scenario import load_scenario
from tests.support.waiting import wait_until


@pytest.mark.live
@pytest.mark.slow
def test_the_console_of_a_field_test_can_be_opened_while_it_runs(tmp_path: Path) -> None:
    overrides = {"clients": "3", "duration_s": "6", "drain_s": "5", "warmup_s": "0"}
    scenario = load_scenario("testbed", scheme="standard", overrides=overrides)
    file = tmp_path / "console.url"
    payload = {**json.loads(scenario.to_json()), CONSOLE_FILE: str(file)}
    found: list[str] = []

    def look() -> None:
        wait_until(lambda: file.exists() and bool(file.read_text()), "the address of the console")
        with urllib.request.urlopen(file.read_text(), timeout=10) as answer:  # noqa: S310 - our own broker
            found.append(answer.geturl())

    watcher = threading.Thread(target=look)
    watcher.start()
    records = run_job(payload, 1)
    watcher.join()

    assert found and found[0].endswith("/console")
    assert file.stat().st_mode & 0o077 == 0
    assert not [record for record in records if record.kind == "violation"]
