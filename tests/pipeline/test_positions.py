"""Positions for mobile brokers, made of traces of vehicles."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roamq.core.errors import ConfigError
from roamq.manet.simulation.positions import read_positions
from roamq.pipeline.api import load_trace
from roamq.pipeline.mobility.positions import write_positions
from roamq.pipeline.placing import METRES_PER_DEGREE

pytestmark = pytest.mark.spark

STEPS = """<fcd-export>
  <timestep time="10.00"><vehicle id="a" x="0.0" y="5.0" type="car" speed="1"/></timestep>
  <timestep time="11.00"><vehicle id="a" x="4.0" y="5.0" type="car" speed="1"/>
    <vehicle id="b" x="100.0" y="0.0" type="car" speed="1"/></timestep>
  <timestep time="12.00"><vehicle id="b" x="100.0" y="2.0" type="car" speed="1"/></timestep>
  <timestep time="100.00"><vehicle id="b" x="50.0" y="2.0" type="car" speed="1"/></timestep>
</fcd-export>
"""


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_sumo_s_vehicles_move_mobile_brokers(spark: SparkSession, tmp_path: Path, suffix: str) -> None:
    """Vehicle b is silent for 88 s, longer than the format's gap of 60 s: it comes back as another node."""
    (tmp_path / "fcd.xml").write_text(STEPS)
    out = tmp_path / f"cars{suffix}"

    written = write_positions(load_trace(spark, tmp_path / "fcd.xml", "sumo"), out, begin_s=0.0, seconds=None)

    recorded = read_positions(out)
    assert written == 5
    assert recorded.clients == ("a", "b", "b/2")
    assert recorded.presence == [(0.0, 1.0), (1.0, 2.0), (90.0, 90.0)]
    assert recorded.positions(0.5)[0].tolist() == [2.0, 5.0]


def test_a_part_of_a_trace_begins_at_its_own_zero(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "fcd.xml").write_text(STEPS)
    out = tmp_path / "cars.csv"

    write_positions(load_trace(spark, tmp_path / "fcd.xml", "sumo"), out, begin_s=1.0, seconds=5.0)

    assert out.read_text().splitlines() == [
        '"client","time","x","y"',
        '"a",0,4,5',
        '"b",0,100,0',
        '"b",1,100,2',
    ]


def test_degrees_become_meters(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "new_cab.txt").write_text("60.002 10.0 0 1000\n60.0 10.004 1 1060\n")
    out = tmp_path / "cabs.csv"
    trace = load_trace(spark, tmp_path / "new_cab.txt", "gps")

    write_positions(trace, out, begin_s=0.0, seconds=None)

    (begin, end) = (read_positions(out).positions(time)[0] for time in (0.0, 60.0))
    east, north = end - begin
    assert east == pytest.approx(0.004 * METRES_PER_DEGREE / 2, rel=1e-3), (
        "a degree is half as wide at 60 degrees"
    )
    assert north == pytest.approx(-0.002 * METRES_PER_DEGREE)


def test_what_cannot_be_written_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "fcd.xml").write_text(STEPS)
    trace = load_trace(spark, tmp_path / "fcd.xml", "sumo")

    with pytest.raises(ConfigError, match=r"ends with .csv or .parquet"):
        write_positions(trace, tmp_path / "cars.txt", begin_s=0.0, seconds=None)
    with pytest.raises(ConfigError, match="--begin-s 1000: the trace has no positions then"):
        write_positions(trace, tmp_path / "cars.csv", begin_s=1000.0, seconds=None)
