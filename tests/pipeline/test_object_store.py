"""A warehouse in an object store, served by a real HTTP server that speaks S3.

The server is moto's. Spark needs jars that PySpark does not bring: `scripts/s3-jars` fetches them.
"""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from roamq.pipeline.landing import add_source
from roamq.pipeline.ledger import ConflictError, Ledger
from roamq.pipeline.runner import run_pipeline
from roamq.pipeline.store import Store
from roamq.pipeline.upkeep import expire, files_of
from tests.pipeline.test_ledger import both, values
from tests.pipeline.warehouses import environment, roamq, rows_of_tables, small_traces

WAIT_S = 60
MAVEN = Path.home() / ".m2" / "repository"
JARS = (
    "org/apache/hadoop/hadoop-aws/*/hadoop-aws-{hadoop}.jar",
    "software/amazon/awssdk/bundle/*/bundle-*.jar",
    "software/amazon/s3/analyticsaccelerator/analyticsaccelerator-s3/*/analyticsaccelerator-s3-*.jar",
)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket; the environment leads to it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    with (tmp_path / "server.log").open("wb") as sink:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, env=environment(), stdout=sink, stderr=sink)
    try:
        create = urllib.request.Request(f"{endpoint}/bucket", method="PUT")  # noqa: S310 - an address of ours
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                urllib.request.urlopen(create).close()  # noqa: S310 - an address of ours
                break
            except urllib.error.URLError:
                assert process.poll() is None, (tmp_path / "server.log").read_text()
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.1)
        settings = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}
        for name, value in (settings | {"ENDPOINT_URL": endpoint}).items():
            monkeypatch.setenv(f"AWS_{name}", value)
        yield "s3a://bucket"
    finally:
        process.terminate()
        process.wait()


def test_files_land_in_an_object_store_and_commits_conflict_there(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,c,s\n")
    warehouse = f"{bucket}/ware house ü"
    add_source(warehouse, str(tmp_path / "a.csv"), "associations", "d", {})
    [file] = files_of(warehouse)
    assert (file["file"], file["state"], file["lines"]) == ("a.csv", "landed", 1)

    ledger = Ledger(Store.at(f"{bucket}/other"))
    base = both(ledger, 0)
    both(ledger, 1, base)
    with pytest.raises(ConflictError):
        both(ledger, 2, base)
    assert values(ledger) == [1, 1]
    assert values(ledger, ledger.at(0)) == [0, 0]
    assert expire(warehouse, 0.0) >= 0
    assert len(files_of(warehouse)) == 1


def jars() -> str:
    hadoop = next((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")).stem.rpartition(
        "-"
    )[2]
    found = [sorted(MAVEN.glob(pattern.format(hadoop=hadoop))) for pattern in JARS]
    if not all(found):
        missing = [pattern.rpartition("/")[2] for pattern, jar in zip(JARS, found, strict=True) if not jar]
        pytest.skip(
            f"Spark cannot reach an object store here: no {missing[0].format(hadoop=hadoop)} in {MAVEN}; "
            "scripts/s3-jars fetches it"
        )
    return ",".join(str(jar[-1]) for jar in found)


@pytest.mark.spark
@pytest.mark.slow
def test_tables_in_an_object_store_are_those_of_a_local_folder(
    bucket: str, spark: SparkSession, tmp_path: Path
) -> None:
    traces, local = small_traces(tmp_path / "traces", days=range(2)), tmp_path / "w"
    arguments = ("--traces", str(traces), "--format", "associations", "--dataset", "walks")
    done = subprocess.run(
        [
            *roamq("pipeline", "run", "--warehouse", f"{bucket}/w", *arguments),
            *("--master", "local[2]", "--conf", f"spark.jars={jars()}"),
        ],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]

    add_source(local, str(traces), "associations", "walks", {})
    run_pipeline(spark, local)
    assert rows_of_tables(f"{bucket}/w") == rows_of_tables(local)
