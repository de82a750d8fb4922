"""Each format: good lines become typed rows, bad ones get the reason, quirks of the real files are understood."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from roamq.pipeline.schemas import OBSERVATIONS, PROVENANCE
from roamq.pipeline.traces import FORMATS
from roamq.pipeline.traces.base import NOT_UTF8, in_zone, is_good, line_numbers, number_lines, read_lines
from roamq.pipeline.traces.onoff import COLUMNS as ONOFF_COLUMNS
from tests.pipeline.frames import same

pytestmark = pytest.mark.spark

LINES = "file string, position bigint, value string"


def parse(spark: SparkSession, name: str, *lines: str, file: str = "/in/trace.csv") -> DataFrame:
    rows = [(file, number, line) for number, line in enumerate(lines)]
    return FORMATS[name].parse(spark.createDataFrame(rows, schema=LINES))


def reasons(rows: DataFrame) -> list[str | None]:
    return [row.reason for row in rows.orderBy("position").select("reason").collect()]


def bronze(spark: SparkSession, name: str, row: tuple[Any, ...], file: str) -> DataFrame:
    contract = f"{PROVENANCE}, {FORMATS[name].fields}"
    return spark.createDataFrame([("d", file, 7, None, None, *row)], schema=contract)


def test_a_parsed_line_has_the_declared_columns(spark: SparkSession) -> None:
    for name, trace_format in FORMATS.items():
        if name == "mapped":  # reads what a mapping says
            continue
        if name == "sumo":
            texts = (
                "time string, kind string, is_step boolean, is_torn boolean, id string, x string, y string"
            )
            schema = f"file string, position bigint, value string, {texts}, type string, speed string"
            parsed = trace_format.parse(
                spark.createDataFrame([], schema=f"{schema}, lane string, edge string")
            )
        elif trace_format.read is None:
            parsed = parse(spark, name, "x")
        else:  # rows already, not lines
            nothing = spark.createDataFrame([], schema=f"file string, position bigint, {trace_format.fields}")
            parsed = trace_format.parse(nothing)
        declared = spark.createDataFrame([], schema=f"{PROVENANCE}, {trace_format.fields}").drop("dataset")

        assert [(f.name, f.dataType) for f in parsed.schema] == [
            (f.name, f.dataType) for f in declared.schema
        ], name


def test_associations_take_both_kinds_of_time_and_refuse_the_rest_with_a_reason(spark: SparkSession) -> None:
    actual = parse(
        spark,
        "associations",
        "time,client,site",
        "1704067200,c1,s1",
        "2024-01-01T00:00:30Z,c1,",
        "",
        "yesterday,c1,s1",
        "1704067200,c1",
        "1704067200,,s1",
        '1704067200,"c,1",s1',
        "1704067200000000,c1,s1",
    )

    midnight, later = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 30, tzinfo=UTC)
    file = "/in/trace.csv"
    nothing = (None, None, None, None)
    same(
        actual,
        [
            (file, 0, "time,client,site", "header", *nothing),
            (file, 1, None, None, midnight, "c1", "s1", False),
            (file, 2, None, None, later, "c1", None, False),
            (file, 3, "", "blank line", *nothing),
            (file, 4, "yesterday,c1,s1", "time is not readable: 'yesterday'", *nothing),
            (file, 5, "1704067200,c1", "expected 3 fields, found 2", *nothing),
            (file, 6, "1704067200,,s1", "client is empty", *nothing),
            (file, 7, '1704067200,"c,1",s1', "quoted fields are not supported", *nothing),
            (file, 8, "1704067200000000,c1,s1", "time is not readable: '1704067200000000'", *nothing),
        ],
        "file string, position bigint, raw string, reason string, time timestamp, client string, site string, "
        "zoneless boolean",
    )


def test_wifi_reads_the_german_header_and_plan_positions(spark: SparkSession) -> None:
    header = "Zeit,Accesspoint,Raum,x (ungefähr),y (ungefähr),fortlaufende Gerätenummer"
    actual = parse(
        spark,
        "wifi",
        header,
        "2013-05-05T11:46:00.000Z,ap-1,lounge,1.5,0.2,17",
        "2013-05-05T11:46:00.000Z,ap-1,lounge,left,0.2,17",
        "2013-05-05T11:46:00.000Z,,lounge,1.5,0.2,17",
    )

    assert reasons(actual) == ["header", None, "x is not readable: 'left'", "access point is empty"]
    seen = FORMATS["wifi"].observe
    assert seen is not None
    same(
        seen(actual.where(is_good()).withColumn("dataset", F.lit("d")), FORMATS["wifi"].rules),
        [("17", "all", datetime(2013, 5, 5, 11, 46, tzinfo=UTC), 1, "ap-1", True, 1.5, 0.2)],
        OBSERVATIONS,
    )


def test_cells_name_the_client_by_its_trip_and_read_local_time(spark: SparkSession) -> None:
    """Cork is at UTC in winter and an hour ahead in summer; `-` is no fault in a measurement, but is in the cell."""

    def line(time: str, cell: str) -> str:
        measured = "-8.5,51.9,0,B,3,LTE,-79,-12,10.0,8,-61,-,3,D,-,-,-,-,-,3,76C6C,9CBA"
        return f"{time},{measured},{cell},-,-"

    file = "/in/5G/Netflix/Driving/Season3/B_2019.11.25.csv"
    rows = parse(
        spark, "cells", line("2019.07.25_15.34.34", "12"), line("2019.11.25_15.34.34", "-"), file=file
    )

    assert reasons(rows) == [None, "no cell id"]
    seen = FORMATS["cells"].observe
    assert seen is not None
    same(
        seen(rows.where(is_good()), FORMATS["cells"].rules),
        [
            (
                "Season3/B_2019.11.25",
                "Netflix/Driving",
                datetime(2019, 7, 25, 14, 34, 34, tzinfo=UTC),
                *(0, "12", True, -8.5, 51.9),
            )
        ],
        OBSERVATIONS,
    )


def test_gps_takes_the_vehicle_from_the_file_name_and_refuses_impossible_places(spark: SparkSession) -> None:
    rows = parse(
        spark,
        "gps",
        "37.75 -122.39 0 1211200841",
        "97.75 -122.39 0 1211200841",
        "37.75 -122.39 2 1211200841",
        "37.75 -122.39 0",
        file="/in/cabs/new_abboip.txt",
    )

    assert reasons(rows) == [
        None,
        "latitude is outside -90..90",
        "occupancy is neither 0 nor 1",
        "expected 4 fields, found 3",
    ]
    seen = FORMATS["gps"].observe
    assert seen is not None
    rules = FORMATS["gps"].rules.changed({"sites": "grid:1000"})
    (row,) = seen(rows.where(is_good()), rules).collect()
    assert (row.client, row.time.isoformat(), row.site) == ("abboip", "2008-05-19T12:40:41", "4202_-10773")


def test_onoff_knows_what_was_not_measured(spark: SparkSession) -> None:
    """220 rows of the real files have no valid status: neither on nor off, and not malformed either."""

    def line(**one_hot: str) -> str:
        values = {"timestamp": "1444079161", **{f"discrete:wifi_status:{k}": v for k, v in one_hot.items()}}
        return ",".join(values.get(column, "nan") for column in ONOFF_COLUMNS)

    rows = parse(
        spark,
        "onoff",
        ",".join(ONOFF_COLUMNS),
        line(is_reachable_via_wifi="1.000000", is_not_reachable="0.000000"),
        line(is_reachable_via_wifi="0.000000", is_not_reachable="1.000000"),
        line(missing="1.000000"),
        line()[:40],
        file="/in/00EABED2.phonestate.csv.gz",
    )

    assert reasons(rows) == ["header", None, None, None, "expected 37 fields, found 9"]
    assert [row.reachable for row in rows.orderBy("position").collect()][1:4] == [True, False, None]
    seen = FORMATS["onoff"].observe
    assert seen is not None
    observed = seen(rows.where(is_good()), FORMATS["onoff"].rules).orderBy("tie").collect()
    assert [(row.client, row.site, row.connected) for row in observed] == [
        ("00EABED2", None, True),
        ("00EABED2", None, False),
    ]


def test_counts_refuse_negative_numbers(spark: SparkSession) -> None:
    rows = parse(spark, "counts", "site,bin,n", "a1,1704067200,12", "a1,1704067200,-1", "a1,noon,3")

    assert reasons(rows) == ["header", None, "n is negative", "bin is not readable: 'noon'"]


def test_a_refused_line_is_found_again_by_file_and_line_number(spark: SparkSession, tmp_path: Path) -> None:
    """Several files, one of them cut into splits by Spark: numbers are those an editor shows."""
    good = "1704067200,c1,s1\n"
    (tmp_path / "a.csv").write_text("time,client,site\n" + good * 3 + "torn\n" + good + "\n" + "torn")
    big = [good] * 150_000
    for number in (10, 149_000):
        big[number - 1] = f"torn {number}\n"
    (tmp_path / "b.csv").write_text("".join(big))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(1 << 20))
    try:
        lines = number_lines(read_lines(spark, str(tmp_path)))
        rows = FORMATS["associations"].parse(lines).withColumn("dataset", F.lit("d"))
        found = line_numbers(rows).select(F.element_at(F.split("file", "/"), -1).alias("name"), "line", "raw")
        assert sorted(map(tuple, found.collect())) == [
            ("a.csv", 5, "torn"),
            ("a.csv", 8, "torn"),
            ("b.csv", 10, "torn 10"),
            ("b.csv", 149_000, "torn 149000"),
        ]
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before or str(128 << 20))


@pytest.mark.parametrize(
    ("name", "line"), [("associations", "{},c1,s1"), ("wifi", "{},ap,room,1,2,d1"), ("counts", "s1,{},3")]
)
def test_a_time_without_a_zone_is_local_to_the_rule(spark: SparkSession, name: str, line: str) -> None:
    """Tokyo is nine hours ahead of UTC; UNIX time, `Z` and an offset say their zone themselves."""
    texts = ["2024-01-01T09:00:00", "2024-01-01 09:00", "2024-01-01T00:00:00Z", "2024-01-01T09:00:00+09:00"]
    texts += ["1704067200"] if name != "wifi" else []

    rows = parse(spark, name, *(line.format(text) for text in texts))

    column = "bin" if name == "counts" else "time"
    assert reasons(rows) == [None] * len(texts)
    times = rows.select(in_zone(column, "zoneless", "Asia/Tokyo").alias("time")).distinct().collect()
    assert [row.time.isoformat() for row in times] == ["2024-01-01T00:00:00"]


def test_times_that_no_trace_has_are_refused(spark: SparkSession) -> None:
    """Such a time would make a stay of a thousand years, and a row for each of its days."""
    texts = [
        "-100000000000",
        "99999999999",
        "-1",
        "4102444800",
        "1e10",
        "123456-01-01",
        "+123456-01-01T00:00:00Z",
    ]
    texts += ["0001-01-01", "9999-12-31T00:00:00", "1969-12-31T23:59:59Z", "NaN", "Infinity"]

    rows = parse(spark, "associations", *(f"{text},c1,s1" for text in texts))

    assert reasons(rows) == [f"time is not readable: '{text}'" for text in texts]


def test_bytes_that_are_not_utf_8_are_refused_and_do_not_become_one_site(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two names in Latin-1 that differ in one letter, and one in UTF-8."""
    text = b"1704067200,c1,Caf\xe9\n1704067200,c1,Caf\xe8\n1704067200,c1,Caf\xc3\xa9\n"
    (tmp_path / "a.csv").write_bytes(text)

    rows = FORMATS["associations"].parse(number_lines(read_lines(spark, str(tmp_path))))

    assert reasons(rows) == [NOT_UTF8, NOT_UTF8, None]
    assert [row.raw for row in rows.where("reason is not null").collect()] == ["1704067200,c1,Caf\ufffd"] * 2
