"""Small traces, runs of the command, and the comparison of whole warehouses."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from roamq.pipeline.arrivals import read_files
from roamq.pipeline.class_archive import archive_options
from roamq.pipeline.ledger import Ledger
from roamq.pipeline.session import QUICK_TO_COMPILE
from roamq.pipeline.store import Store

TABLES = (
    *(
        "quarantine",
        "sojourns",
        "moves",
        "durations",
        "neighbor_graph",
        "trigrams",
        "transitions",
        "ranked_tests",
        "prediction",
    ),
    *(
        "prediction_sets",
        "duration_counts",
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
        # Clusters and servers map the archive of classes too, which commands name themselves.
        "JAVA_TOOL_OPTIONS": f"{QUICK_TO_COMPILE} {archive_options('')}",
    }


def run_pipeline_command(warehouse: Path, *arguments: str, timeout_s: float = 500) -> None:
    done = pipeline_command("run", warehouse, *arguments, timeout_s=timeout_s)
    assert done.returncode == 0, done.stderr[-3000:]


def pipeline_command(
    verb: str, warehouse: Path, *arguments: str, timeout_s: float = 500, prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """`roamq pipeline VERB` as a process of its own; `prefix` starts it somewhere else."""
    return subprocess.run(
        [*prefix, *roamq("pipeline", verb, "--warehouse", str(warehouse), *arguments)],
        env=environment(),
        cwd=warehouse.parent,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def table(spark: SparkSession, warehouse: Path, name: str) -> DataFrame:
    """A table as whoever knows Delta reads it: the ledger says which version, the log which files."""
    ledger = Ledger(Store.at(warehouse))
    return read_files(spark, ledger.store, name, ledger.files(ledger.latest(), name))


def differences(one: Path, other: Path) -> dict[str, int]:
    """Per table how many rows two warehouses do not share; tables that are equal are left out."""
    left, right = rows_of_tables(one), rows_of_tables(other)
    found = {}
    for name in TABLES:
        different = left[name] - right[name] + (right[name] - left[name])
        if different or not left[name]:
            found[name] = different.total()
    return found


def rows_of_tables(warehouse: Path | str, version: int | None = None) -> dict[str, Counter[str]]:
    """The rows of all derived tables, without Spark."""
    ledger = Ledger(Store.at(warehouse))
    snapshot = ledger.latest() if version is None else ledger.at(version)
    tables = {name: ledger.read(snapshot, name) for name in TABLES}
    return {
        name: Counter(repr(sorted(row.items())) for row in rows.to_pylist())
        if rows is not None
        else Counter()
        for name, rows in tables.items()
    }
