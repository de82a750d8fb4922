"""Connectivity tuples of [TIME] section 4.1.3, and floating-car data of SUMO."""

import gzip
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.pipeline.connectivity import connectivity, durations
from roamq.pipeline.silver import sojourns
from roamq.pipeline.traces import FORMATS
from roamq.pipeline.traces.base import is_good, line_numbers
from roamq.pipeline.traces.sumo import count
from tests.pipeline.test_trace_formats import parse, reasons

pytestmark = pytest.mark.spark


def seen(rows: DataFrame, name: str, **rules: str) -> DataFrame:
    observe = FORMATS[name].observe
    assert observe is not None
    return observe(rows.where(is_good()), FORMATS[name].rules.changed(rules))


def test_tuples_are_lines_or_json_objects(spark: SparkSession) -> None:
    rows = parse(
        spark,
        "tuples",
        "state,time,provider,path",
        "ON,1704067200,Vodafone,1",
        "off,2024-01-01T00:00:30Z,Vodafone,1,journey-7",
        '[{"state": "ON", "timestamp": 1704067260, "provider": "Orange", "metro_path_id": 2},',
        "]",
        "maybe,1704067200,Vodafone,1",
        "ON,1704067200,,1",
        '{"state": "ON", "timestamp": 17',
        "ON,1704067200",
    )

    assert reasons(rows) == [
        "header",
        None,
        None,
        None,
        "header",
        "state is not readable: 'maybe'",
        "provider is missing",
        "is not JSON: write one tuple per line",
        "expected state,time,provider,path",
    ]
    observed = seen(rows, "tuples").orderBy("tie").collect()
    assert [(row.client, row.client_class, row.connected, row.site) for row in observed] == [
        ("trace.csv/1/Vodafone", "path=1, provider=Vodafone", True, None),
        ("journey-7/1/Vodafone", "path=1, provider=Vodafone", False, None),
        ("trace.csv/2/Orange", "path=2, provider=Orange", True, None),
    ]


def journeys(path: str, provider: str, on_s: float, off_s: float, number: int, seed: int) -> list[str]:
    """Tuples of journeys of 26 minutes: one at every change of the state and one every 30 seconds."""
    draw = random.Random(seed)
    lines = []
    for journey in range(number):
        start = 1_704_067_200 + journey * 7200
        at, connected = 0.0, True
        while at < 1560:
            until = min(at + draw.expovariate(1 / (on_s if connected else off_s)), 1560)
            moments = {at, *range(int(at // 30 + 1) * 30, int(until) + 1, 30)}
            lines += [
                f"{'ON' if connected else 'OFF'},{start + moment:.3f},{provider},{path},j{journey}"
                for moment in sorted(moments)
                if moment < until
            ]
            at, connected = until, not connected
    return lines


def test_connectivity_is_grouped_by_path_and_provider(spark: SparkSession) -> None:
    """[TIME] section 4.1.3: "we concatenate all the con_patterns for each metro_path_id"; its means come back."""
    lines = [
        *journeys("1", "a", 146.38, 96.0, 120, seed=1),
        *journeys("2", "a", 155.88, 72.15, 120, seed=2),
        *journeys("2", "b/c=d", 60.0, 20.0, 60, seed=3),
    ]
    observed = seen(parse(spark, "tuples", *lines), "tuples")

    gold = connectivity(durations(sojourns(observed, FORMATS["tuples"].rules, dataset="metro")), 2000)

    found = gold.select("grouping", "value", "period", "mean_s", "n").distinct().collect()
    means = {(row.grouping, row.value, row.period): row.mean_s for row in found}
    assert {group for group, _, _ in means} == {"all", "class", "path", "provider"}
    assert means["path", "1", "on"] == pytest.approx(146.38, rel=0.1)
    assert means["path", "1", "off"] == pytest.approx(96.0, rel=0.1)
    assert means["class", "path=2, provider=a", "on"] == pytest.approx(155.88, rel=0.1)
    assert means["class", "path=2, provider=a", "off"] == pytest.approx(72.15, rel=0.1)
    assert means["provider", "b/c=d", "on"] == pytest.approx(60.0, rel=0.1)
    counts = {(row.grouping, row.value, row.period): row.n for row in found}
    assert counts["path", "2", "on"] == (
        counts["class", "path=2, provider=a", "on"] + counts["class", "path=2, provider=b/c=d", "on"]
    )


Step = tuple[float, list[dict[str, Any]]]


def drive(vehicles: int = 4, steps: int = 30) -> list[Step]:
    """Vehicles that drive east at 20 m/s in lanes of their own, one after the other; the first step is empty."""
    return [
        (
            float(step),
            [
                {
                    "id": f"v&{n}",
                    "x": 20.0 * step,
                    "y": 100.0 * n,
                    "type": "car",
                    "speed": 20.0,
                    "lane": f"l{n}_0",
                }
                for n in range(vehicles)
                if step > n
            ],
        )
        for step in range(steps)
    ]


def write_xml(path: Path, steps: list[Step]) -> Path:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<!-- made by a test -->", "<fcd-export>"]
    for time, vehicles in steps:
        if not vehicles:
            lines.append(f'    <timestep time="{time:.2f}"/>')
            continue
        lines.append(f'    <timestep time="{time:.2f}">')
        for vehicle in vehicles:
            told = " ".join(f'{name}="{str(value).replace("&", "&amp;")}"' for name, value in vehicle.items())
            lines.append(f"        <vehicle {told}/>")
        lines.append("    </timestep>")
    text = "\n".join([*lines, "</fcd-export>"]) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def write_parquet(path: Path, steps: list[Step]) -> Path:
    """As SUMO writes it: a step without vehicles is a row with nothing but its time."""
    rows = [
        {"timestep_time": time, **{f"vehicle_{name}": value for name, value in vehicle.items()}}
        for time, vehicles in steps
        for vehicle in vehicles or [{}]
    ]
    names = ["timestep_time", *(f"vehicle_{name}" for name in steps[-1][1][0])]
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    return path


def rows_of(spark: SparkSession, *files: Path) -> DataFrame:
    sumo = FORMATS["sumo"]
    return sumo.parse(sumo.arrivals(spark, [f"file://{file}" for file in files])).withColumn(
        "dataset", F.lit("d")
    )


def test_xml_compressed_xml_and_parquet_of_sumo_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    files = [
        write_xml(tmp_path / "fcd.xml", drive()),
        write_xml(tmp_path / "fcd.xml.gz", drive()),
        write_parquet(tmp_path / "fcd.parquet", drive()),
    ]
    expected = sorted(
        (f"v&{n}", float(step), 20.0 * step, 100.0 * n) for n in range(4) for step in range(n + 1, 30)
    )

    for file in files:
        rows = rows_of(spark, file)
        good = rows.where(is_good()).select("id", F.unix_seconds("time").cast("double"), "x", "y").collect()

        assert sorted(map(tuple, good)) == expected
        assert rows.count() == count(file), "every element is a row, and nothing else"
    stays = sojourns(
        seen(rows_of(spark, files[0]), "sumo", sites="plane:200"), FORMATS["sumo"].rules, dataset="d"
    )
    first = stays.where("client = 'v&0' and state = 'connected'").orderBy("begin").collect()
    assert [row.site for row in first] == ["0_0", "0_1", "0_2"]
    assert first[0].client_class == "vehicle/car"


def test_a_torn_element_of_sumo_is_refused_alone(spark: SparkSession, tmp_path: Path) -> None:
    file = write_xml(tmp_path / "fcd.xml", drive(vehicles=2, steps=5))
    text = (
        file.read_text()
        .replace('id="v&amp;1" x="40.0"', 'id="v&amp;1 x="40.0"')
        .replace('y="0.0"', 'y="inf"', 1)
    )
    file.write_text(text[: text.rindex("lane")])

    rows = rows_of(spark, file)

    refused = line_numbers(rows).orderBy("line").collect()
    assert [(row.line, row.reason) for row in refused] == [
        (1, "y is not readable: 'inf'"),
        (3, "is not XML: the element is cut off or has a stray quote"),
        (7, "is not XML: the element is cut off or has a stray quote"),
    ]
    assert refused[1].raw.startswith('2.00 <vehicle id="v&amp;1 x="40.0"')
    assert rows.where(is_good()).count() == 4
    assert rows.count() == count(file)


def test_elements_of_a_broken_file_keep_the_time_of_their_own_step(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Ends of steps are missing, and the begin of one: its elements have no time, and no other step lends them its."""
    file = write_xml(tmp_path / "fcd.xml", drive(vehicles=1, steps=6))
    text = file.read_text().replace("</timestep>", "", 2).replace('<timestep time="4.00">', '<timest="4.00">')
    file.write_text(text)

    rows = rows_of(spark, file)

    good = rows.where(is_good()).select(F.unix_seconds("time"), "x").collect()
    assert sorted(map(tuple, good)) == [(step, 20.0 * step) for step in (1, 2, 3, 5)]
    assert [row.reason for row in line_numbers(rows).collect()] == ["time is not readable: missing"]
    assert rows.count() == count(file) == 5


def test_times_for_people_and_a_parquet_file_of_something_else(spark: SparkSession, tmp_path: Path) -> None:
    file = write_xml(tmp_path / "fcd.xml", drive(vehicles=1, steps=3))
    file.write_text(file.read_text().replace('"1.00"', '"1:01:02:03.50"').replace('"2.00"', '"00:00:02.00"'))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")

    times = rows_of(spark, file).select(F.unix_micros("time") / 1e6).collect()

    assert sorted(row[0] for row in times) == [2.0, 86_400 + 3600 + 123.5]
    with pytest.raises(ConfigError, match="neither vehicle_id nor id; it has a"):
        rows_of(spark, tmp_path / "other.parquet")
