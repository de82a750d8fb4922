"""Mapping files: CSV, JSON lines and Parquet without code; what is wrong is named with its remedy."""

import gzip
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from roamq.core.errors import ConfigError
from roamq.pipeline.headers import complete_mapping, load_mapping
from roamq.pipeline.input_files import data_files
from roamq.pipeline.landing import add_source
from roamq.pipeline.runner import FilesFailedError, run_pipeline
from roamq.pipeline.traces import format_named
from roamq.pipeline.traces.base import is_good
from roamq.pipeline.traces.mapping import Mapping
from roamq.pipeline.upkeep import files_of

pytestmark = pytest.mark.spark

CSV = """
file = "csv"
delimiter = ";"
comment = "#"
missing = ["NA"]
decimal = ","

[time]
column = "when"
format = "dd.MM.yyyy HH:mm"
zone = "Europe/Berlin"

[client]
column = "mac"

[site]
column = "ap"

[position]
x = "lon"
y = "lat"

[class]
columns = ["plan", "os"]

[rules]
gap_s = 900
"""
JSON = """
file = "json"
[time]
column = "meta.at"
format = "unix_ms"
[client]
column = "who.id"
[state]
column = "events[0].kind"
connected = ["up"]
disconnected = ["down"]
"""


def parse(spark: SparkSession, mapping: Mapping, *lines: str) -> DataFrame:
    rows = [("/in/trace", number, line) for number, line in enumerate(lines)]
    frame = spark.createDataFrame(rows, schema="file string, position bigint, value string")
    return format_named("mapped", mapping.to_json()).parse(frame)


def seen(rows: DataFrame, mapping: Mapping) -> list[Any]:
    trace_format = format_named("mapped", mapping.to_json())
    assert trace_format.observe is not None
    return trace_format.observe(rows.where(is_good()), trace_format.rules).orderBy("tie").collect()


def reasons(rows: DataFrame) -> list[str | None]:
    return [row.reason for row in rows.orderBy("position").collect()]


def test_a_csv_file_with_local_times_quotes_and_decimal_commas(spark: SparkSession) -> None:
    mapping = Mapping.from_toml(CSV).with_columns("ap;when;mac;lon;lat;plan;os", "x.csv")

    rows = parse(
        spark,
        mapping,
        "ap;when;mac;lon;lat;plan;os",
        "# exported by hand",
        '"hall; north";01.07.2024 12:00;aa;13,4;52,5;gold;a',
        "NA;01.07.2024 12:30;aa;;;NA;b",
        "",
        "x;2024-07-01;aa;1;1;g;a",
        "x;01.07.2024 12:00;NA;1;1;g;a",
        "x;01.07.2024 12:00;aa;190;1;g;a",
        "x;01.07.2024 12:00;aa;east;1;g;a",
        "x;01.07.2024 12:00;aa",
    )

    assert reasons(rows) == [
        "header",
        "header",
        None,
        None,
        "blank line",
        "time (when) is not readable: '2024-07-01'",
        "client (mac) is empty",
        "x (lon) is outside -180..180 degrees",
        "x (lon) is not readable: 'east'",
        "expected 7 fields; a quote may be open",
    ]
    first, second = seen(rows, mapping)
    assert (first.client, first.site, first.connected) == ("aa", "hall; north", True)
    assert (first.x, first.y, first.client_class) == (13.4, 52.5, "plan=gold, os=a")
    assert first.time.replace(tzinfo=UTC) == datetime(2024, 7, 1, 10, tzinfo=UTC)
    assert (second.site, second.connected, second.client_class) == (None, False, "plan=unknown, os=b")


def test_json_lines_with_nested_fields_and_milliseconds(spark: SparkSession) -> None:
    mapping = Mapping.from_toml(JSON)

    rows = parse(
        spark,
        mapping,
        "[",
        '{"meta": {"at": 1704067200250}, "who": {"id": 7}, "events": [{"kind": "up"}]},',
        '{"meta": {"at": 1704067201000}, "who": {"id": 7}, "events": [{"kind": "down"}]}]',
        '{"meta": {"at": 1704067201000}, "who": {"id": 7}, "events": [{"kind": "dawn"}]}',
        '{"meta": {"at": "soon"}, "who": {"id": 7}, "events": []}',
        '{"meta": {"at": 17040672',
        "[1, 2]",
    )

    assert reasons(rows) == [
        "header",
        None,
        None,
        "state (events[0].kind) is not readable: 'dawn'",
        "time (meta.at) is not readable: 'soon'",
        "is not a JSON object: write one object per line",
        "is not a JSON object: write one object per line",
    ]
    first, second = seen(rows, mapping)
    assert first.time.replace(tzinfo=UTC) == datetime(2024, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
    assert [(row.client, row.connected, row.site) for row in (first, second)] == [
        ("7", True, None),
        ("7", False, None),
    ]


def test_parquet_with_instants_nested_columns_and_a_missing_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC), None], pa.timestamp("us", tz="UTC")),
            "phone": [{"id": "p1"}, {"id": "p2"}],
            "lat_e7": [525_000_000, 0],
            "lon_e7": [134_000_000, 0],
        }
    )
    pq.write_table(table, tmp_path / "trace.parquet")
    text = """
file = "parquet"
time.column = "at"
time.zone = "Asia/Tokyo"
client.column = "phone.id"
position = { x = "lon_e7", y = "lat_e7", unit = "e7" }
rules.sites = "grid:1000"
"""
    mapping = Mapping.from_toml(text)
    trace_format = format_named("mapped", mapping.to_json())
    assert trace_format.read is not None

    rows = trace_format.parse(trace_format.read(spark, f"file://{tmp_path}/trace.parquet"))

    assert reasons(rows) == [None, "time (at) is not readable: missing"]
    assert '"p2"' in rows.where("reason is not null").first().raw  # type: ignore[union-attr]
    (row,) = seen(rows, mapping)
    # An instant needs no zone: the mapping's is for times that name none.
    assert row.time.replace(tzinfo=UTC) == datetime(2024, 1, 1, tzinfo=UTC)
    assert (row.client, row.x, row.y) == ("p1", pytest.approx(13.4), pytest.approx(52.5))
    assert row.site is not None
    wrong = Mapping.from_toml(text.replace("phone.id", "phone.number"))
    with pytest.raises(
        ConfigError, match=r"client.column: there is no column 'phone.number'; there are at, phone"
    ):
        format_named("mapped", wrong.to_json()).arrivals(spark, f"file://{tmp_path}/trace.parquet")


def test_a_file_whose_header_has_another_order_is_not_read_wrongly(spark: SparkSession) -> None:
    text = 'file = "csv"\ntime.column = "t"\nclient.column = "c"\nsite.column = "s"'
    mapping = Mapping.from_toml(text).with_columns("t,c,s", "a.csv")

    rows = parse(spark, mapping, "t,s,c", "2024-01-01,x,y")

    with pytest.raises(PySparkException, match=r"/in/trace: its header is not t,c,s"):
        rows.collect()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[site]", "[sites]"), "sites: unknown field; did you mean 'site'"),
        (('column = "mac"', 'column = "mac"\nfile = "(.*)"'), r"m.toml, line 13: client: give either column"),
        (('column = "mac"', 'file = "user"'), "client.file: must have one group"),
        (('delimiter = ";"', 'delimiter = ";;"'), "m.toml, line 3: delimiter: must be one character"),
        (('zone = "Europe/Berlin"', 'zone = "Berlin"'), "time_zone"),
        (("gap_s = 900", "gap_s = 0"), "rules: rule gap_s: must be above 0"),
        (("gap_s = 900", 'sites = "plane:5"'), "rules.sites: plane:5 does not go with positions in degrees"),
        (('[site]\ncolumn = "ap"', ""), "rules.sites: positions need sites: say h3:8"),
        (
            ('y = "lat"', 'y = "lat"\nunit = "feet"'),
            "position.unit: 'feet' is no choice; choose one of degrees, e7, metres",
        ),
    ],
)
def test_a_mistake_in_a_mapping_is_named(change: tuple[str, str], message: str) -> None:
    assert change[0] in CSV
    with pytest.raises(ConfigError, match=message):
        Mapping.from_toml(CSV.replace(*change, 1), "m.toml")


def test_a_parquet_file_without_the_columns_is_refused_first_and_named_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Before anything lands where it is the first. Beside files that are read it fails alone: a site that is missing
    would be a disconnection.
    """
    mapping = Mapping.from_toml(
        'file = "parquet"\ntime = { column = "t", format = "unix" }\nclient.column = "c"\nsite.column = "s"\n'
    )
    folder, warehouse = tmp_path / "in", tmp_path / "w"
    folder.mkdir()
    pq.write_table(pa.table({"other": [1], "c": ["x"], "s": ["y"]}), folder / "a.parquet")
    with pytest.raises(
        ConfigError, match=r"a.parquet: time.column: there is no column 't'; there are other, c, s"
    ):
        complete_mapping(mapping, str(folder))

    (folder / "a.parquet").rename(tmp_path / "wrong.parquet")
    rows = {"t": [1_704_067_200, 1_704_067_260], "c": ["x", "x"], "s": ["y", "z"]}
    pq.write_table(pa.table(rows), folder / "b.parquet")
    said = complete_mapping(mapping, str(folder)).to_json()
    (tmp_path / "wrong.parquet").rename(folder / "a.parquet")
    pq.write_table(pa.table({"t": [1_704_067_320], "c": ["x"]}), folder / "c.parquet")
    add_source(warehouse, str(folder), "mapped", "d", {"min_observations": "1"}, said)

    with pytest.raises(FilesFailedError, match=r"a\.parquet: mapping: time.column: there is no column 't'"):
        run_pipeline(spark, warehouse)

    states = {row["file"]: (row["state"], row["rows"]) for row in files_of(warehouse)}
    assert states == {"a.parquet": ("failed", 0), "b.parquet": ("read", 2), "c.parquet": ("failed", 0)}


def test_the_header_is_found_in_folders_and_archives(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(CSV)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "README.md").write_text("no data")
    with gzip.open(folder / "a.csv.gz", "wt") as file:
        file.write("# by hand\nap;when;mac;lon;lat;plan;os\n")
    with tarfile.open(tmp_path / "in.tar.gz", "w:gz") as archive:
        archive.add(folder / "a.csv.gz", "x/a.csv.gz")

    for traces in (folder, tmp_path / "in.tar.gz"):
        mapping = load_mapping(tmp_path / "m.toml", str(traces))
        assert (mapping.columns[0], mapping.has_header) == ("ap", True)

    (folder / "a.csv.gz").unlink()
    (folder / "a.csv").write_text("ap;time;mac\n")
    with pytest.raises(ConfigError, match=r"time.column: there is no column 'when'; there are ap, time, mac"):
        load_mapping(tmp_path / "m.toml", str(folder))
    with pytest.raises(ConfigError, match="name the columns in the mapping"):
        complete_mapping(Mapping.from_toml(CSV), "s3a://bucket/in")


def test_json_is_a_trace_where_it_lies_alone(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "readme.md", ".hidden.json"):
        (tmp_path / name).write_text("{}\n")
    assert [file.name for file in data_files(tmp_path)] == ["a.json", "b.json"]

    (tmp_path / "c.csv").write_text("1\n")
    assert [file.name for file in data_files(tmp_path)] == ["c.csv"]
