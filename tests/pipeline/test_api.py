"""`roamq.pipeline` from a notebook: on a Connect session here, on a classic session in the example notebook."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import roamq.pipeline as rp
from roamq.cli.main import cli
from roamq.core.errors import ConfigError
from roamq.pipeline.mobility.sharing import write_shared
from roamq.pipeline.session import NOTHING_TO_COMPILE
from tests.pipeline.frames import at
from tests.pipeline.warehouses import environment, small_traces

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.spark


def test_importing_the_package_needs_no_spark() -> None:
    program = "import sys, roamq.pipeline as rp; assert 'load_trace' in dir(rp); assert 'pyspark' not in sys.modules"

    subprocess.run([sys.executable, "-c", program], env=environment(), check=True)


def test_every_name_is_there_and_described() -> None:
    for name in rp.NAMES:
        assert getattr(rp, name).__doc__, name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = rp.nothing


def test_a_trace_is_loaded_cleaned_and_learned_from(spark: SparkSession, tmp_path: Path) -> None:
    folder = small_traces(tmp_path / "in with space")

    trace = rp.load_trace(spark, folder, "associations", dataset="walks", rules={"gap_s": 900})

    refused = trace.quarantine().collect()
    assert [(row.dataset, row.line, row.raw) for row in refused] == [("walks", 8, "not a row")] * 4
    assert trace.rules.gap_s == 900
    stays = trace.sojourns()
    assert stays.where("dataset <> 'walks'").isEmpty()
    moves = rp.moves(stays).cache()  # as the notebook does: predictors ask for them many times
    assert rp.neighbor_graph(moves).count() > 0
    assert rp.predict_next_site(moves).where("set_size = 5 and hit_rate > 0.5").count() > 0
    assert trace.sites().count() == 5
    moves.unpersist()


def test_a_trace_that_is_loaded_knows_the_holes_of_the_whole_network(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nobody was polled for an hour: as in a run of the pipeline, that is nobody's disconnection."""
    polls = [f"2024-01-01T{hour:02}:{minute:02}:00Z" for hour in (8, 10) for minute in range(0, 60, 10)]
    (tmp_path / "polls.csv").write_text(
        "Zeit,Accesspoint,Raum,x,y,Gerät\n"
        + "".join(f"{poll},ap,room,1,1,{d}\n" for poll in polls for d in "ab")
    )
    trace = rp.load_trace(spark, tmp_path / "polls.csv", "wifi")

    def states(**rules: float) -> set[str]:
        return {row.state for row in trace.sojourns(**rules).select("state").collect()}

    assert states() == {"connected", "unknown"}
    assert states(hole_s=0) == {"connected", "disconnected"}


def test_pseudonyms_are_given_on_reading_and_can_be_shared(spark: SparkSession, tmp_path: Path) -> None:
    folder = small_traces(tmp_path / "in", days=range(1), clients=2)
    key = b"0123456789abcdef"

    trace = rp.load_trace(spark, folder, "associations", key=key, coarsen_s=3600)
    write_shared(trace, tmp_path / "shared")
    again = rp.load_trace(spark, tmp_path / "shared", mapping=tmp_path / "shared" / "mapping.toml")

    columns = ["client", "client_class", "time", "site", "connected"]
    assert trace.observations.where("client like 'c%' and length(client) < 4").isEmpty()
    assert trace.observations.where("minute(time) > 0").isEmpty()
    assert again.observations.select(columns).exceptAll(trace.observations.select(columns)).isEmpty()
    assert again.observations.count() == trace.observations.count() == 80
    assert again.rules.gap_s == trace.rules.gap_s
    with pytest.raises(ConfigError, match="exists"):
        write_shared(trace, tmp_path / "shared")


def test_what_cannot_be_loaded_is_refused_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="roamq pipeline formats"):
        rp.load_trace(spark, tmp_path)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "a.csv").symlink_to(tmp_path / "gone.csv")
    with pytest.raises(ConfigError, match=r"a\.csv cannot be read: it is a link to a file that is not there"):
        rp.load_trace(spark, tmp_path / "linked", "associations")
    (tmp_path / "linked" / "a.csv").unlink()
    (tmp_path / "linked").rmdir()
    with pytest.raises(ConfigError, match="holds no data files"):
        rp.load_trace(spark, tmp_path, "gps")
    with pytest.raises(ConfigError, match="format 'counts' knows no clients"):
        rp.load_trace(spark, tmp_path, "counts")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with pytest.raises(ConfigError, match="keeps its time in Europe/Berlin: set it to UTC"):
            rp.load_trace(spark, tmp_path, "gps")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_client_names_in_files_are_read_as_people_know_them(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "new_cab 1.txt").write_text(f"37.75 -122.39 0 {int(at(0).timestamp())}\n")

    trace = rp.load_trace(spark, tmp_path, "gps", rules={"sites": "grid:1000"})

    assert [row.client for row in trace.observations.collect()] == ["cab 1"]
    assert trace.in_degrees


def test_the_command_refuses_options_that_a_measure_does_not_have(tmp_path: Path) -> None:
    ended = CliRunner().invoke(cli, ["pipeline", "mobility", "gyration", "--known", "2"])
    assert ended.exit_code == 2
    assert "--known: gyration does not depend on it" in ended.output
    ended = CliRunner().invoke(cli, ["pipeline", "mobility", "--warehouse", str(tmp_path)])
    assert ended.exit_code == 2
    assert "holds no traces yet" in ended.output


@pytest.mark.slow
def test_the_notebook_runs_on_a_classic_session(tmp_path: Path) -> None:
    settings = "".join(f"{key} {value}\n" for key, value in NOTHING_TO_COMPILE.items())
    (tmp_path / "spark-defaults.conf").write_text(settings)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.notebook"],
        env=environment() | {"SPARK_CONF_DIR": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["session"] == "pyspark.sql.session"
    assert (told["refused"], told["troubles"]) == (1, [])
    assert told["moves"] > 400
    assert 0.5 < told["best"] <= told["bound"] <= 1
    assert sorted(told["ranking"]) == ["proactive", "standard"]
