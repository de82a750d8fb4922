"""Sessions: what they promise about settings, and how a missing server is told."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark import SparkContext
from pyspark.sql import SparkSession

from roamq.cli.main import cli
from roamq.core.errors import ConfigError
from roamq.pipeline.campaign import run_campaign
from roamq.pipeline.class_archive import RECORDING, WARNINGS_ASIDE, archive_path, make_archive
from roamq.pipeline.jobs import Job, Runner
from roamq.pipeline.session import SparkSettings, driver_address, open_session, server_settings
from tests.support.runners import counting
from tests.support.waiting import WAIT_S


@pytest.mark.spark
def test_a_session_speaks_utc_and_runs_python_of_this_environment(spark: SparkSession) -> None:
    def where(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"executable": [sys.executable] * batch.num_rows})

    [row] = spark.range(1).mapInArrow(where, "executable string").collect()

    assert row.executable == sys.executable
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.spark
def test_a_campaign_runs_on_a_server_that_is_already_there(spark: SparkSession, tmp_path: Path) -> None:
    """`--remote`: a second client, which finds the server by its address alone."""
    address: Any = spark.client._builder.url.geturl().replace("http:", "sc:")  # type: ignore[attr-defined]
    job = Job(
        scenario="toy",
        scheme="none",
        seed=1,
        payload={"events": 3},
        runner=Runner(run=counting),
    )

    with open_session(SparkSettings(remote=address)) as remote:
        assert run_campaign(remote, [job], tmp_path).records.count() == 6

    assert spark.range(3).count() == 3  # the server and its other clients go on


@pytest.mark.parametrize("url", ["sc://127.0.0.1:9", "sc://localhost:9/;token=secret"])
def test_a_remote_that_does_not_answer_is_told_at_once(url: str) -> None:
    with (
        pytest.raises(ConfigError, match=r"no Spark answers at sc://") as told,
        open_session(SparkSettings(remote=url)),
    ):
        pass

    assert "secret" not in str(told.value)


def test_a_remote_that_is_no_address_is_refused() -> None:
    with (
        pytest.raises(ConfigError, match=r"not a Spark Connect address; it looks like sc://host:15002"),
        open_session(SparkSettings(remote="spark://host:7077")),
    ):
        pass


def test_an_embedded_server_listens_on_loopback_alone_and_leaves_the_folder_clean() -> None:
    settings = server_settings(SparkSettings(config={"spark.ui.enabled": "true"}), Path("/scratch"), "token")

    assert settings["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert settings["spark.connect.authenticate.token"] == "token"
    assert settings["spark.sql.warehouse.dir"] == "/scratch/warehouse"
    assert "-Dderby.system.home=/scratch" in settings["spark.driver.extraJavaOptions"]
    assert settings["spark.ui.enabled"] == "true"


def test_executors_elsewhere_find_the_driver_at_the_address_that_reaches_the_master() -> None:
    assert driver_address("local[2]")["spark.driver.host"] == "127.0.0.1"
    assert driver_address("spark://127.0.0.1:7077") == {"spark.driver.host": "127.0.0.1"}
    assert driver_address("spark://localhost:7077,other:7077") == {"spark.driver.host": "127.0.0.1"}
    for unknown in ("yarn", "spark://no.such.host.invalid:7077"):
        assert driver_address(unknown) == {}, "Spark finds its own"
    given = SparkSettings(master="spark://127.0.0.1:7077", config={"spark.driver.host": "10.0.0.7"})
    assert server_settings(given, Path("/scratch"), "token")["spark.driver.host"] == "10.0.0.7"


def test_a_server_that_runs_takes_settings_of_sessions_only() -> None:
    settings = SparkSettings(remote="sc://localhost:9", config={"spark.executor.memory": "4g"})
    with (
        pytest.raises(ConfigError, match=r"--conf spark\.executor\.memory: a server that runs already"),
        open_session(settings),
    ):
        pass


def test_a_session_names_the_archive_of_classes_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a folder"))
    path = archive_path()
    assert path is not None and path.is_relative_to(tmp_path)

    def options(given: str = "-Xmx1g") -> str:
        made = server_settings(SparkSettings(java_options=given), Path("/scratch"), "token")
        return made["spark.driver.extraJavaOptions"]

    assert "Archive" not in options(), "there is none"
    path.parent.mkdir(parents=True)
    path.touch()
    assert f'-Xmx1g "-XX:SharedArchiveFile={path}"' in options()
    assert "Shared" not in options(f"{RECORDING}/other.jsa"), "one that is being made stands alone"


def test_an_archive_that_is_there_is_named_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = archive_path()
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_bytes(b"1" * 3_000_000)

    told = CliRunner().invoke(cli, ["pipeline", "prepare"])

    assert (told.exit_code, told.output) == (0, f"{path} (3 MB)\n")


def test_java_goes_on_without_an_archive_that_it_cannot_take_and_prints_nothing(tmp_path: Path) -> None:
    """What commands print is read by programs."""
    (tmp_path / "broken.jsa").write_bytes(b"no archive" * 1000)

    done = subprocess.run(
        ["java", f"-XX:SharedArchiveFile={tmp_path / 'broken.jsa'}", *WARNINGS_ASIDE.split(), "-version"],
        capture_output=True,
        check=True,
        timeout=WAIT_S,
    )

    assert done.stdout == b""


def test_an_archive_that_cannot_be_made_is_told_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nowhere"))

    with pytest.raises(
        ConfigError, match=r"no archive of Spark's classes could be made: .*Spark did not start"
    ):
        make_archive()

    assert list((tmp_path / "roamq").iterdir()) == []


@pytest.mark.spark
def test_a_cache_that_cannot_be_written_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    told = CliRunner().invoke(cli, ["pipeline", "prepare"])

    assert told.exit_code == 2
    assert str(tmp_path / "file") in told.output and "set XDG_CACHE_HOME" in told.output


def test_the_virtual_machine_maps_the_archive_that_there_is(spark: SparkSession) -> None:
    """`make setup` makes it."""
    path = archive_path()
    if path is None or not path.exists() or not Path("/proc").exists():
        pytest.skip("no archive: `roamq pipeline prepare` makes it; or no /proc that would show it")
    started = SparkContext._gateway.proc.pid  # type: ignore[union-attr]
    assert str(path) in Path(f"/proc/{started}/maps").read_text()
