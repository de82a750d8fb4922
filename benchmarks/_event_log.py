"""What Spark did in a stretch of time, by its event log: queries, jobs, tasks, and rows that they read and wrote."""

import json
from collections import Counter
from pathlib import Path


def settings(folder: Path) -> dict[str, str]:
    """The settings of a session that writes its event log to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def counts(folder: Path, begin_s: float, end_s: float) -> Counter[str]:
    """What began between two times since 1970, of the one session whose log is in the folder, when it has ended."""
    [log] = folder.iterdir()
    counted: Counter[str] = Counter()
    with log.open() as lines:
        for event in map(json.loads, lines):
            if begin_s <= _began_ms(event) / 1000 <= end_s:
                counted += _counted(event)
    return counted


def _began_ms(event: dict[str, object]) -> float:
    told = [event, event.get("Stage Info") or {}, event.get("Task Info") or {}]
    for part in told:
        assert isinstance(part, dict)
        for name in ("Submission Time", "Launch Time", "time"):
            if isinstance(part.get(name), int | float):
                return float(part[name])
    return 0.0


def _counted(event: dict[str, object]) -> Counter[str]:
    kind = str(event["Event"])
    if kind.endswith("SQLExecutionStart"):
        return Counter({"queries": 1})
    if kind == "SparkListenerJobStart":
        return Counter({"jobs": 1})
    if kind == "SparkListenerStageCompleted":
        return Counter({"stages": 1})
    if kind != "SparkListenerTaskEnd":
        return Counter()
    found = event.get("Task Metrics") or {}
    assert isinstance(found, dict)
    return Counter(
        {
            "tasks": 1,
            "processor ms of tasks": found.get("Executor CPU Time", 0) // 1_000_000,
            "rows read": found.get("Input Metrics", {}).get("Records Read", 0),
            "rows written": found.get("Output Metrics", {}).get("Records Written", 0),
        }
    )
