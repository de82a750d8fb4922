"""Small traces, runs of the command, and the comparison of whole warehouses."""

import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

TABLES = (
    *(
        "quarantine",
        "sojourns",
        "moves",
        "neighbor_graph",
        "trigrams",
        "transitions",
        "ranked_tests",
        "prediction",
    ),
    *(
        "prediction_sets",
        "connectivity",
        "ccdf",
        "days",
        "sites",
        "arrival_rates",
        "daily_profile",
        "summary",
    ),
)


def small_traces(folder: Path, *, days: range = range(4), clients: int = 6) -> Path:
    """Clients that walk round five sites, one file a day, each with a line that cannot be read."""
    folder.mkdir(parents=True, exist_ok=True)
    for day in days:
        lines = ["time,client,site"]
        for client in range(clients):
            for step in range(40):
                second = 1_704_067_200 + day * 86_400 + 8 * 3600 + step * 240 + client
                lines.append(f"{second},c{client},s{(client + step // (1 + (client + day) % 3)) % 5}")
        lines.insert(7, "not a row")
        (folder / f"day-{day}.csv").write_text("\n".join(lines) + "\n")
    return folder


def roamq(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "roamq.cli.main", "--debug", *arguments]


def environment() -> dict[str, str]:
    """Python on the workers finds the code under test, installed or not."""
    kept = {
        name: value for name, value in os.environ.items() if "SPARK" not in name
    }  # those of the tests' session
    return kept | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # Every process here lives for seconds: machine code worth minutes of compiling would never pay.
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    }


def run_pipeline_command(warehouse: Path, *arguments: str, timeout_s: float = 500) -> None:
    command = roamq("pipeline", "run", "--warehouse", str(warehouse), *arguments)
    done = subprocess.run(
        command,
        env=environment(),
        cwd=warehouse.parent,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def table(spark: SparkSession, warehouse: Path, name: str) -> DataFrame:
    return spark.read.parquet(str(warehouse / name))


def differences(spark: SparkSession, one: Path, other: Path) -> dict[str, int]:
    """Per table how many rows two warehouses do not share; tables that are equal are left out."""
    found = {}
    for name in TABLES:
        left, right = (_comparable(table(spark, warehouse, name)) for warehouse in (one, other))
        different = left.exceptAll(right).unionAll(right.exceptAll(left)).count()
        if different or left.isEmpty():
            found[name] = different
    return found


def _comparable(frame: DataFrame) -> DataFrame:
    """Columns by name; maps as text, since Spark compares no maps."""
    return frame.select(
        *(
            frame[name].cast("string").alias(name) if kind.startswith("map") else frame[name]
            for name, kind in sorted(frame.dtypes)
        ),
    )
