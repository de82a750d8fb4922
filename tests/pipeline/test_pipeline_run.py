"""The declared pipeline: runs, comes back, is killed, and moves to a cluster; the tables stay the same."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from roamq.pipeline.landing import add_source, load_sources
from roamq.pipeline.runner import run_pipeline
from tests.pipeline.warehouses import (
    TABLES,
    differences,
    environment,
    roamq,
    run_pipeline_command,
    small_traces,
    table,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark-pipeline")]


def run_here(spark: SparkSession, warehouse: Path) -> list[str]:
    """Run the pipeline in the tests' own session, in a database of its own."""
    spark.sql(f"create database if not exists trace_tests location '{warehouse}'")
    return run_pipeline(spark, load_sources(warehouse), warehouse, database="trace_tests")


@pytest.fixture(scope="module")
def reference(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A warehouse that was made in two runs: three days, then the same again under other names, and a fourth day."""
    root = tmp_path_factory.mktemp("reference")
    warehouse = root / "w"
    traces = small_traces(root / "traces", days=range(3))
    add_source(warehouse, str(traces), "associations", "walks", {})
    tables = run_here(spark, warehouse)
    assert set(tables) == {*TABLES, "bronze_associations"}
    first = table(spark, warehouse, "bronze_associations").count()

    for day in range(3):
        shutil.copy(traces / f"day-{day}.csv", traces / f"day-{day}-again.csv")
    small_traces(traces, days=range(4))
    add_source(warehouse, str(traces), "associations", "walks", {})
    run_here(spark, warehouse)
    assert table(spark, warehouse, "bronze_associations").count() == first * 4 // 3, (
        "known files were read again"
    )
    yield warehouse
    spark.sql("drop database trace_tests cascade")


def test_malformed_lines_are_in_the_quarantine_and_counted(spark: SparkSession, reference: Path) -> None:
    rows = table(spark, reference, "quarantine").orderBy("file").collect()
    assert [(r.file, r.line, r.reason, r.raw) for r in rows] == [
        (f"day-{day}.csv", 8, "expected 3 fields, found 1", "not a row") for day in range(4)
    ]
    counts = {r.name: r.rows for r in table(spark, reference, "summary").where("layer = 'bronze'").collect()}
    assert counts == {"lines in": 4 * 242, "quarantined": 4, "rows": 4 * 240}


def test_a_run_that_is_killed_and_started_again_gives_the_same_tables(
    spark: SparkSession, reference: Path, tmp_path: Path
) -> None:
    """SIGKILL while derived tables are being written; the second run starts from whatever that left."""
    warehouse = tmp_path / "w"
    traces = small_traces(tmp_path / "traces")
    source = (
        "--traces",
        str(traces),
        "--format",
        "associations",
        "--dataset",
        "walks",
        "--master",
        "local[2]",
    )
    command = roamq("pipeline", "run", "--warehouse", str(warehouse), *source)
    with (tmp_path / "killed.log").open("wb") as sink:
        process = subprocess.Popen(
            command, env=environment(), cwd=tmp_path, stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        _wait_for(lambda: any((warehouse / "sojourns").rglob("*.parquet")), process)
    finally:
        _kill(process)
    assert not any((warehouse / "summary").rglob("*.parquet")), "killed too late to show anything"

    run_pipeline_command(warehouse, "--master", "local[2]")

    assert differences(spark, reference, warehouse) == {}


def test_a_cluster_gives_the_same_tables(spark: SparkSession, reference: Path, tmp_path: Path) -> None:
    """A real standalone master with two workers, each a process of its own with processes of its own."""
    warehouse = tmp_path / "w"
    traces = small_traces(tmp_path / "traces")
    with standalone_cluster(tmp_path) as master:
        run_pipeline_command(
            warehouse,
            *("--traces", str(traces), "--format", "associations", "--dataset", "walks", "--master", master),
        )

    assert differences(spark, reference, warehouse) == {}
    assert len(list((tmp_path / "work").rglob("app-*/[01]"))) == 2, "both workers had an executor"


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A Spark master and two workers with a core each, for the time of the block."""
    home = Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    package = "org.apache.spark.deploy"
    commands = [
        [f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
        *(
            [
                *(f"{package}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1"),
                *("--memory", "1500m", "--work-dir", str(folder / "work" / str(number)), master),
            ]
            for number in range(2)
        ),
    ]
    variables = environment() | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    processes: list[subprocess.Popen[bytes]] = []
    logs = [folder / f"cluster-{number}.log" for number in range(3)]
    try:
        for command, log in zip(commands, logs, strict=True):
            with log.open("wb") as sink:
                processes.append(
                    subprocess.Popen(
                        [str(home / "bin" / "spark-class"), *command],
                        env=variables,
                        stdout=sink,
                        stderr=sink,
                        start_new_session=True,
                    )
                )
            if log == logs[0]:
                _wait_for(lambda: "I have been elected leader" in logs[0].read_text(), processes[0])
        _wait_for(lambda: len(re.findall("Registering worker", logs[0].read_text())) == 2, processes[0])
        yield master
    finally:
        for process in processes:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started in a session of its own, and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], limit_s: float = 400) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert process.poll() is None, f"ended early with {process.returncode}"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
