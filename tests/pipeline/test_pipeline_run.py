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
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest
from pyspark.sql import SparkSession

from roamq.core.records import Record
from roamq.pipeline.landing import add_source
from roamq.pipeline.runner import run_pipeline
from roamq.pipeline.schemas import RECORDS
from roamq.pipeline.upkeep import files_of
from tests.pipeline.warehouses import (
    TABLES,
    differences,
    environment,
    pipeline_command,
    roamq,
    rows_of_tables,
    run_pipeline_command,
    small_traces,
    table,
)

SPARK_HOME = Path(pyspark.__file__).parent
FORMAT = ("--format", "associations", "--dataset", "walks")

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Place(NamedTuple):
    """Where a process of a cluster runs: its address, and the command that starts it there."""

    host: str
    prefix: tuple[str, ...] = ()


HERE = Place("127.0.0.1")


def run_here(spark: SparkSession, warehouse: Path) -> list[str]:
    """Run the pipeline in the tests' own session, which is warm: it takes half as long as a command."""
    return run_pipeline(spark, warehouse)


@pytest.fixture(scope="module")
def reference(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    return warehouse


def test_malformed_lines_are_in_the_quarantine_and_counted(spark: SparkSession, reference: Path) -> None:
    rows = table(spark, reference, "quarantine").orderBy("file").collect()
    assert [(r.file, r.line, r.reason, r.raw) for r in rows] == [
        (f"day-{day}.csv", 8, "expected 3 fields, found 1", "not a row") for day in range(4)
    ]
    counts = {r.name: r.rows for r in table(spark, reference, "summary").where("layer = 'bronze'").collect()}
    assert counts == {"lines in": 4 * 242, "quarantined": 4, "rows": 4 * 240}


def test_counts_per_antenna_and_records_become_rates_and_metrics(spark: SparkSession, tmp_path: Path) -> None:
    """What names no client, and what RoamQ wrote itself, side by side in one warehouse."""
    warehouse = tmp_path / "w"
    calls = tmp_path / "calls.csv"
    calls.write_text(
        "site,bin,n\na1,2024-01-01T08:00:00,12\na1,2024-01-01T08:05:00,6\na2,1704096000,3\na2,1704096600,-1\n"
    )
    add_source(warehouse, str(calls), "counts", "calls", {})
    happened = [
        Record(kind="connected", time_s=0.0, broker="b1", client="c"),
        Record(kind="published", time_s=1.0, broker="b1", client="p", origin="b1", sequence=1, count=1),
        Record(kind="published", time_s=2.0, broker="b1", client="p", origin="b1", sequence=2, count=1),
        Record(
            kind="delivered", time_s=1.5, broker="b1", client="c", origin="b1", sequence=1, duration_s=0.5
        ),
        Record(kind="disconnected", time_s=3.0, broker="b1", client="c"),
        Record(kind="connected", time_s=5.0, broker="b2", client="c"),
    ]
    rows = [("run", number, *record) for number, record in enumerate(happened)]
    spark.createDataFrame(rows, RECORDS).write.parquet(str(tmp_path / "records"))
    add_source(warehouse, str(tmp_path / "records"), "records", "live", {})

    run_here(spark, warehouse)

    rates = table(spark, warehouse, "arrival_rates").where("kind = 'events'").orderBy("dataset", "site")
    assert [(r.dataset, r.site, r.arrivals, r.rate_per_s) for r in rates.collect()] == [
        ("calls", "a1", 18, 0.03),
        ("calls", "a2", 3, 0.005),
        ("live", "b1", 2, 2 / 600),
    ]
    profile = table(spark, warehouse, "daily_profile").where("dataset = 'calls' and site = '*'").collect()
    assert [(r.minute_of_day, r.days, r.rate_per_s) for r in profile] == [(480, 1, 0.035)]
    refused = table(spark, warehouse, "quarantine").collect()
    assert [(r.dataset, r.line, r.reason) for r in refused] == [("calls", 5, "n is negative")]
    measured = table(spark, warehouse, "metrics").where("metric in ('published', 'loss_pct')").collect()
    assert {(r.dataset, r.metric, r.value) for r in measured} == {
        ("live", "published", 2.0),
        ("live", "loss_pct", 50.0),
    }
    counted = {(r.dataset, r.name): r.rows for r in table(spark, warehouse, "summary").collect()}
    assert counted["calls", "quarantined"] == 1
    assert {name: counted["live", name] for name in ("publications", "deliveries", "moves")} == {
        "publications": 2,
        "deliveries": 1,
        "moves": 1,
    }


def start(
    warehouse: Path, traces: Path, dataset: str = "walks", trace_format: str = "associations"
) -> subprocess.Popen[bytes]:
    """A run as a process of its own, with its log beside the warehouse."""
    arguments = [
        "--traces",
        str(traces),
        "--format",
        trace_format,
        "--dataset",
        dataset,
        "--master",
        "local[1]",
    ]
    with (warehouse.parent / f"{warehouse.name}-{dataset}.log").open("wb") as sink:
        return subprocess.Popen(
            roamq("pipeline", "run", "--warehouse", str(warehouse), *arguments),
            env=environment(),
            cwd=warehouse.parent,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )


def test_a_run_that_is_killed_in_any_phase_and_started_again_gives_the_same_tables(
    spark: SparkSession, reference: Path, tmp_path: Path
) -> None:
    """SIGKILL while files land, while they are read, and while derived tables are written; then one run to the end."""
    warehouse, traces = tmp_path / "w", small_traces(tmp_path / "traces")
    phases = {"landing": "*.csv", "bronze_associations": "*.parquet", "sojourns": "*.parquet"}
    for folder, pattern in phases.items():
        process = start(warehouse, traces)
        try:
            _wait_for(lambda f=folder, p=pattern: any((warehouse / f).rglob(p)), process)  # type: ignore[misc]
        finally:
            _kill(process)
        assert not (warehouse / "summary").exists(), "killed too late to show anything"

    add_source(warehouse, str(traces), "associations", "walks", {})
    run_here(spark, warehouse)

    assert differences(reference, warehouse) == {}
    assert all(row["state"] == "read" and row["balances"] for row in files_of(warehouse))


def test_two_runs_at_once_lose_nothing_of_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """Two datasets by two commands in one new warehouse: the run that is overtaken begins anew. Counts per antenna make
    few tables, which is enough here.
    """
    warehouse, traces = tmp_path / "w", tmp_path / "calls.csv"
    traces.write_text("".join(f"s{n % 3},{1_704_067_200 + 60 * n},{n}\n" for n in range(100)) + "torn\n")
    processes = [start(warehouse, traces, dataset, "counts") for dataset in ("one", "two")]
    try:
        for process in processes:
            assert process.wait(timeout=500) == 0, [log.read_text()[-2000:] for log in tmp_path.glob("*.log")]
    finally:
        for process in processes:
            _kill(process)

    together = rows_of_tables(warehouse)
    apart = tmp_path / "apart"
    for dataset in ("one", "two"):
        add_source(apart, str(traces), "counts", dataset, {})
    run_here(spark, apart)
    assert together == rows_of_tables(apart)
    assert together["quarantine"].total() == 2 and together["arrival_rates"]


def test_a_cluster_of_several_hosts_gives_the_same_tables(
    spark: SparkSession, reference: Path, tmp_path: Path
) -> None:
    """A real standalone master with two workers, and the driver, in network namespaces, where loopback leads nowhere.

    Spark compiles its queries here, as it does for larger inputs, and interprets them in the other tests.
    """
    warehouse = tmp_path / "w"
    traces = small_traces(tmp_path / "traces")
    compiled = ("spark.sql.codegen.wholeStage=true", "spark.sql.codegen.factoryMode=CODEGEN_ONLY")
    options = [word for setting in compiled for word in ("--conf", setting)]
    with (
        hosts(3) as (first, second, driver),
        standalone_cluster(tmp_path, [first, first, second]) as master,
    ):
        arguments = ("--traces", str(traces), *FORMAT, "--master", master, *options)
        done = pipeline_command("run", warehouse, *arguments, prefix=driver.prefix)
    assert done.returncode == 0, done.stderr[-3000:]

    assert differences(reference, warehouse) == {}
    assert len(list((tmp_path / "work").rglob("app-*/[01]"))) == 2, "both workers had an executor"


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Place]]:
    """Network namespaces on one bridge, as hosts on a cable; processes of one host where none can be made."""
    names = [f"roamq-{os.getpid()}-{number}" for number in range(count)]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        try:
            for name in names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            ip("-n", names[0], "link", "add", "cable", "type", "bridge")
            ip("-n", names[0], "addr", "add", "10.77.0.1/24", "dev", "cable")
            ip("-n", names[0], "link", "set", "cable", "up")
            for number, name in enumerate(names[1:], start=2):
                plug = f"plug{number}"
                ip("-n", names[0], "link", "add", plug, "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("-n", names[0], "link", "set", plug, "master", "cable", "up")
                ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            warnings.warn(f"no network namespaces here: {getattr(error, 'stderr', error)!r}", stacklevel=1)
            yield [HERE] * count
            return
        yield [
            Place(f"10.77.0.{number}", ("ip", "netns", "exec", name))
            for number, name in enumerate(names, start=1)
        ]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_a_connect_server_gives_the_same_tables(spark: SparkSession, reference: Path, tmp_path: Path) -> None:
    """A Spark that somebody else runs: the command is only its client, and starts no Spark of its own."""
    warehouse = tmp_path / "w"
    traces = small_traces(tmp_path / "traces")
    with connect_server(tmp_path) as remote:
        run_pipeline_command(warehouse, "--traces", str(traces), *FORMAT, "--remote", remote)

    assert differences(reference, warehouse) == {}


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server over two cores, for the time of the block."""
    port = _free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "not-ours"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder),
    }
    log = folder / "server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [
                *(str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"),
                *(part for pair in settings.items() for part in ("--conf", "=".join(pair))),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
            ],
            env=environment() | {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable},
            cwd=folder,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    try:
        _wait_for(lambda: "Spark Connect server started" in log.read_text(), process)
        yield f"sc://127.0.0.1:{port}"
    finally:
        _kill(process)


@contextlib.contextmanager
def standalone_cluster(folder: Path, places: Sequence[Place] = (HERE, HERE, HERE)) -> Iterator[str]:
    """A Spark master and two workers with a core each, each at its place, for the time of the block."""
    port = _free_port()
    master = f"spark://{places[0].host}:{port}"
    package = "org.apache.spark.deploy"
    commands = [
        [f"{package}.master.Master", "--host", places[0].host, "--port", str(port), "--webui-port", "0"],
        *(
            [
                *(f"{package}.worker.Worker", "--host", place.host, "--webui-port", "0", "--cores", "1"),
                *("--memory", "1500m", "--work-dir", str(folder / "work" / str(number)), master),
            ]
            for number, place in enumerate(places[1:])
        ),
    ]
    variables = environment() | {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable}
    processes: list[subprocess.Popen[bytes]] = []
    logs = [folder / f"cluster-{number}.log" for number in range(3)]
    try:
        for place, command, log in zip(places, commands, logs, strict=True):
            with log.open("wb") as sink:
                processes.append(
                    subprocess.Popen(
                        [*place.prefix, str(SPARK_HOME / "bin" / "spark-class"), *command],
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


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


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
