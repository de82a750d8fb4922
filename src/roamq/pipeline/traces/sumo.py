"""Floating-car data of the traffic simulator SUMO: XML, or Parquet from its version 1.24 on.

XML is read in pieces: Spark splits the file where a time step ends, so that no task ever holds a whole document, and
reads every vehicle, person and container of a step as an element of its own. An element that is no XML is refused
alone. Time is that of the simulation and begins in 1970. Positions are metres on the plane of the network, or degrees
if SUMO wrote `--fcd-output.geo`: then set the rule `sites` to `grid:METRES` or `h3:RESOLUTION`.
"""

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.pipeline.conform import conform
from roamq.pipeline.placing import site_of
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import OBSERVATIONS
from roamq.pipeline.traces.base import (
    BLANK,
    TraceFormat,
    coordinate,
    number_lines,
    parsed,
    refuse,
    unix_time,
    unreadable,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS: Final = ("vehicle", "person", "container")
STEP_END: Final = "</timestep>"
ATTRIBUTES: Final = ("id", "x", "y", "type", "speed", "lane", "edge")
CHUNK_BYTES: Final = 1 << 20
_ELEMENT: Final = rf"<(?:{'|'.join(KINDS)})\s[^<]*"
_STEP: Final = r"<timestep(?=[\s>/])"
_TIME: Final = r'^\s[^>]*?time="([^"]*)"'
_CORRUPT: Final = "_corrupt"


def read(spark: "SparkSession", paths: str | list[str], *, base: str | None = None) -> DataFrame:
    """Rows (file, position, value, kind, time, attributes), all of them texts, of XML and of Parquet files."""
    listed = [paths] if isinstance(paths, str) else paths
    tables = [path for path in listed if path.endswith(".parquet")]
    documents = [path for path in listed if not path.endswith(".parquet")]
    parts = [_read_xml(spark, documents)] if documents else []
    parts += [_read_parquet(spark, tables)] if tables else []
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _read_xml(spark: "SparkSession", paths: list[str]) -> DataFrame:
    steps = (
        spark.read.format("text")
        .option("lineSep", STEP_END)
        .load(paths)
        .select(
            F.col("_metadata.file_path").alias("file"),
            F.col("_metadata.file_block_start").alias("block"),
            # Steps without vehicles close themselves, and a broken file may miss the end of a step: an element is in
            # the last step that opens before it.
            F.explode(F.split("value", _STEP)).alias("step"),
        )
        .select(
            "file",
            "block",
            F.regexp_extract("step", _TIME, 1).alias("time"),
            F.explode(F.regexp_extract_all("step", F.lit(_ELEMENT), F.lit(0))).alias("element"),
        )
    )
    value = F.concat("time", F.lit(" "), F.rtrim("element"))
    numbered = number_lines(steps.withColumn("value", value))
    time, element = F.substring_index("value", " ", 1), F.expr("substring(value, instr(value, ' ') + 1)")
    # An element may have others in it; alone, it ends where its first tag ends.
    closed = F.regexp_replace(element, r"([^/])>\s*$", "$1/>")
    schema = ", ".join(f"_{name} string" for name in (*ATTRIBUTES, _CORRUPT[1:]))
    options = {"rowTag": "element", "attributePrefix": "_", "columnNameOfCorruptRecord": _CORRUPT}
    return (
        numbered.withColumn("parts", F.from_xml(closed, F.lit(schema), options))
        .withColumns(
            {
                "time": F.nullif(time, F.lit("")),
                "kind": F.regexp_extract(element, r"^<(\w+)", 1),
                "is_step": F.lit(False),
                "is_torn": F.col(f"parts.{_CORRUPT}").isNotNull(),
                **{name: F.col(f"parts._{name}") for name in ATTRIBUTES},
            }
        )
        .drop("parts")
    )


def _read_parquet(spark: "SparkSession", paths: list[str]) -> DataFrame:
    """SUMO names a column by its element (`vehicle_id`), or by the attribute alone where it is told to."""
    rows = spark.read.parquet(*paths)

    def column(*names: str) -> Column:
        present = [F.col(f"`{name}`").cast("string") for name in names if name in rows.columns]
        return F.coalesce(*present) if present else F.lit(None).cast("string")

    own = {kind: column(f"{kind}_id") for kind in KINDS}
    if not any(f"{kind}_id" in rows.columns for kind in KINDS) and "id" not in rows.columns:
        raise ConfigError(
            f"sumo: a Parquet file has neither vehicle_id nor id; it has {', '.join(rows.columns)}"
        )
    kind = F.coalesce(*(F.when(own[kind].isNotNull(), kind) for kind in KINDS), F.lit(KINDS[0]))
    return rows.select(
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.row_index").alias("position"),
        F.to_json(F.struct(*(F.col(f"`{name}`") for name in rows.columns))).alias("value"),
        column("timestep_time", "time").alias("time"),
        kind.alias("kind"),
        F.lit(False).alias("is_torn"),
        # A step without vehicles is a row of its own.
        F.coalesce(*own.values(), column("id"), column("x")).isNull().alias("is_step"),
        *(column(*(f"{kind}_{name}" for kind in KINDS), name).alias(name) for name in ATTRIBUTES),
    )


def parse(rows: DataFrame) -> DataFrame:
    time = _clock(F.col("time"))
    x, y = (coordinate(F.col(name)) for name in "xy")
    reason = refuse(
        (F.col("is_step"), BLANK),
        (F.col("is_torn"), "is not XML: the element is cut off or has a stray quote"),
        unreadable(F.col("time"), time, "time"),
        (F.coalesce(F.col("id"), F.lit("")) == "", "id is missing"),
        unreadable(F.col("x"), x, "x"),
        unreadable(F.col("y"), y, "y"),
    )
    return parsed(
        rows,
        reason,
        time=time,
        kind=F.col("kind"),
        id=F.col("id"),
        x=x,
        y=y,
        type=F.col("type"),
        speed_mps=F.col("speed").try_cast("double"),
        lane=F.coalesce("lane", "edge"),
    )


def _clock(text: Column) -> Column:
    """Seconds, or `[days:]hours:minutes:seconds` as SUMO writes them for people."""
    parts = F.split(text, ":")
    weights = F.array(*map(F.lit, (1.0, 60.0, 3600.0, 86400.0)))
    weighed = F.zip_with(
        F.reverse(parts),
        F.slice(weights, 1, F.size(parts)),
        lambda part, weight: part.try_cast("double") * weight,
    )
    total = F.aggregate(weighed, F.lit(0.0), lambda so_far, part: so_far + part)
    return F.coalesce(unix_time(text), F.when(F.size(parts).between(3, 4), unix_time(total.cast("string"))))


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    """A vehicle is a client at the site its position belongs to; its class is its kind and type."""
    return conform(
        rows.select(
            F.col("id").alias("client"),
            F.concat_ws("/", "kind", "type").alias("client_class"),
            "time",
            F.col("position").alias("tie"),
            site_of(F.col("x"), F.col("y"), rules.sites).alias("site"),
            F.lit(True).alias("connected"),
            "x",
            "y",
        ),
        OBSERVATIONS,
    )


def count(path: Path) -> int:
    """How many elements a file has, counted without reading it as XML."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        rows: int = pq.read_metadata(path).num_rows
        return rows
    pattern = re.compile(rf"<(?:{'|'.join(KINDS)})\s".encode())
    longest = max(map(len, KINDS)) + 1
    found, before = 0, b""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            found += len(pattern.findall(before + chunk)) - len(pattern.findall(before))
            before = (before + chunk)[-longest:]
    return found


SUMO = TraceFormat(
    name="sumo",
    about="floating-car data of the traffic simulator SUMO: XML or Parquet",
    fields="time timestamp, kind string, id string, x double, y double, type string, speed_mps double, lane string",
    parse=parse,
    observe=observe,
    read=read,
    # A vehicle reports in every step until it arrives: silence is the end of its trip.
    rules=Rules(gap_s=60, credit_s=1, sites="plane:500"),
    has_coordinates=True,
    unit="plane",
    suffixes=(".xml", ".xml.gz", ".parquet"),
    count=count,
)
