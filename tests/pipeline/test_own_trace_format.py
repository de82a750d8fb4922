"""Formats from elsewhere: `examples/own-trace-format` is installed and chosen by name; a mapping needs no code."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roamq.pipeline.headers import load_mapping
from roamq.pipeline.landing import add_source
from roamq.pipeline.runner import FilesFailedError, run_pipeline
from roamq.pipeline.upkeep import files_of
from tests.pipeline.test_travel_formats import drive, journeys, write_parquet, write_xml
from tests.pipeline.warehouses import environment, roamq, table

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "own-trace-format"

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LOG = """\
2024-01-01T08:00:00Z wlc1 ASSOC sta=02:00 ap=hall
2024-01-01T08:07:30Z wlc1 ROAM sta=02:00 ap=library
2024-01-01T08:08:00Z wlc1 REBOOT
2024-01-01T08:09:00Z wlc1 ROAM ap=library
2024-01-01T09:00:00Z wlc1 DISASSOC sta=02:00
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the example into."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "own-trace-format")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(folder), str(source)], check=True)
    return folder


def command(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    known = environment()
    path = os.pathsep.join([str(installed), known["PYTHONPATH"]])
    return subprocess.run(
        roamq(*arguments), env=known | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def test_the_example_is_short() -> None:
    assert len((EXAMPLE / "roamq_wlclog.py").read_text().splitlines()) < 75


def test_an_installed_format_is_read_like_any_other(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "controller.log").write_text(LOG)
    place = ("--warehouse", str(tmp_path / "w"))

    listed = command(installed, "pipeline", "formats", "--json")
    ran = command(
        installed,
        "pipeline",
        "run",
        "--traces",
        str(tmp_path / "controller.log"),
        "--format",
        "wlclog",
        *place,
    )
    shown = command(installed, "pipeline", "show", "quarantine", "--json", *place)

    assert json.loads(listed.stdout)["wlclog"]["about"].startswith("log of a controller")
    assert ran.returncode == 0, ran.stderr
    (refused,) = json.loads(shown.stdout)
    assert (refused["line"], refused["reason"]) == (4, "sta= is missing")
    assert refused["file"] == "controller.log"


def test_a_format_that_cannot_be_loaded_is_named_with_its_package(installed: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(installed, tmp_path / "broken")
    (broken / "roamq_wlclog.py").write_text("WLCLOG = 7\n")

    ended = command(broken, "pipeline", "formats")

    assert ended.returncode == 2
    assert "the package roamq-wlclog brings the trace format 'wlclog'" in ended.stderr
    assert "is not a roamq.pipeline.traces.TraceFormat" in ended.stderr


MAPPING = """
file = "csv"
name = "hotspots"
time.column = "at"
client.column = "who"
site.column = "where"
"""


def test_mapped_files_sumo_and_tuples_share_a_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    """Every line is booked; a file whose header has another order fails by name, and the others are kept."""
    warehouse, traces, sumo = tmp_path / "w", tmp_path / "in", tmp_path / "sumo"
    traces.mkdir()
    sumo.mkdir()
    (tmp_path / "m.toml").write_text(MAPPING)
    (traces / "a.csv").write_text('at,who,where\n2024-01-01T10:00:00Z,c1,"a, b"\nnever,c1,x\n')
    (traces / "b.csv").write_text("at,where,who\n2024-01-01T11:00:00Z,x,c1\n")
    write_xml(sumo / "fcd.xml", drive())
    write_parquet(sumo / "more.parquet", drive(vehicles=2))
    (sumo / "net.txt").write_text("no trace")
    (tmp_path / "metro.csv").write_text("\n".join(journeys("1", "a", 120, 60, 5, seed=4)) + "\n")
    mapping = load_mapping(tmp_path / "m.toml", str(traces))
    add_source(warehouse, str(traces), "mapped", "hotspots", {}, mapping.to_json())
    add_source(warehouse, str(sumo), "sumo", "city", {"sites": "plane:200"})
    add_source(warehouse, str(tmp_path / "metro.csv"), "tuples", "metro", {})

    with pytest.raises(FilesFailedError, match=r"b.csv: .*its header is not at,who,where"):
        run_pipeline(spark, warehouse)

    books = {row["file"]: row for row in files_of(warehouse)}
    assert (books["a.csv"]["rows"], books["a.csv"]["quarantined"]) == (1, 1)
    assert (books["b.csv"]["state"], books["b.csv"]["rows"]) == ("failed", 0)
    assert (books["fcd.xml"]["lines"], books["fcd.xml"]["rows"]) == (110, 110)
    assert (books["more.parquet"]["lines"], books["more.parquet"]["headers and blank"]) == (58, 1)
    assert all(row["balances"] for row in books.values())
    sojourns = table(spark, warehouse, "sojourns")
    assert [row.site for row in sojourns.where("dataset = 'hotspots'").collect()] == ["a, b"]
    assert table(spark, warehouse, "moves").where("dataset = 'city'").count() > 0
    groups = table(spark, warehouse, "connectivity").where("dataset = 'metro'").select("grouping").distinct()
    assert {row.grouping for row in groups.collect()} == {"all", "class", "path", "provider"}
