"""Traces that a mapping file describes: CSV and JSON lines, row by row, and Parquet.

All mapped datasets share one bronze table. A line that the mapping cannot read is refused with the column's name. The
header of every CSV file must name the columns in one order: a file with another order fails as a whole, because its
values would be taken for others.
"""

from collections.abc import Mapping as Dictionary
from dataclasses import replace
from functools import partial
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
    HEADER,
    TraceFormat,
    base_name,
    coordinate,
    in_zone,
    is_blank,
    is_zoneless,
    parsed,
    refuse,
    unix_time,
    unreadable,
    written_time,
)
from roamq.pipeline.traces.mapping import DEGREES, UNIX_UNITS, WHITESPACE, Mapping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS: Final = (
    "time timestamp, client string, client_class string, site string, connected boolean, "
    "x double, y double, zoneless boolean"
)
_CORRUPT: Final = "_corrupt"
_TYPED: Final = "is_instant"

Check = tuple[Column, Column | str]
Texts = Dictionary[str, Column]
"""Column of the files -> its text."""


def mapped_format(mapping: Mapping) -> TraceFormat:
    """The format that a mapping describes."""
    parse = {"csv": _parse_csv, "json": _parse_json, "parquet": _parse_parquet}[mapping.file]
    return replace(
        MAPPED,
        about=mapping.about or MAPPED.about,
        parse=lambda lines: parse(lines, mapping),
        observe=lambda rows, rules: _observe(rows, rules, mapping),
        rules=mapping.cleaning(),
        read=_ParquetReader(mapping) if mapping.file == "parquet" else None,
        count=partial(_count_rows, mapping) if mapping.file == "parquet" else None,
        client_in_name=bool(mapping.client.file),
        has_coordinates=mapping.position is not None,
        unit="degrees" if mapping.in_degrees else "plane",
    )


def _parse_csv(lines: DataFrame, mapping: Mapping) -> DataFrame:
    names = mapping.columns
    assert names, "the columns of a CSV mapping are known before it is read"
    value = F.col("value")
    if mapping.delimiter == WHITESPACE:
        split = lines.withColumn("parts", F.split(F.trim(value), r"\s+", -1))
        fields = [F.get(F.col("parts"), F.lit(number)) for number in range(len(names))]
        is_torn = F.size("parts") != len(names)
    else:
        options = {
            "sep": mapping.delimiter,
            "escape": '"',
            "columnNameOfCorruptRecord": _CORRUPT,
            "ignoreLeadingWhiteSpace": "true",
            "ignoreTrailingWhiteSpace": "true",
        }
        schema = ", ".join([*(f"_{number} string" for number in range(len(names))), f"{_CORRUPT} string"])
        split = lines.withColumn("parts", F.from_csv("value", F.lit(schema), options))
        fields = [F.col(f"parts._{number}") for number in range(len(names))]
        is_torn = F.col(f"parts.{_CORRUPT}").isNotNull()
    texts = dict(zip(names, fields, strict=True))
    heads = [F.coalesce(field, F.lit("")) == F.lit(name) for name, field in texts.items()]
    is_head = _all(heads)
    elsewhere = _any(
        [
            F.coalesce(texts[other] == F.lit(name), F.lit(False))
            for name in mapping.used().values()
            for other in names
            if other != name
        ]
    )
    # A line that names columns at other places is the header of a file with another order.
    strange = ~is_head & elsewhere & _time_of(texts, mapping).isNull()
    wrong_order = F.raise_error(
        F.concat(F.col("file"), F.lit(f": its header is not {mapping.delimiter.join(names)}"))
    ).cast("string")
    checks: list[Check] = [
        (is_head, HEADER),
        (strange, wrong_order),
        (is_torn, F.lit(f"expected {len(names)} fields; a quote may be open")),
    ]
    return _rows(split, texts, mapping, checks)


def _parse_json(lines: DataFrame, mapping: Mapping) -> DataFrame:
    # A file may be one array with an object per line: brackets and commas between objects are no rows.
    trimmed = F.regexp_replace(F.trim("value"), r"^\[\s*(?=\{)|\s*[,\]]+\s*$", "")
    is_bracket = F.trim("value").isin("[", "]", "],")
    read = lines.withColumn("parts", F.try_parse_json(F.when(is_bracket, None).otherwise(trimmed)))
    texts = {name: F.try_variant_get("parts", _json_path(name), "string") for name in mapping.used().values()}
    is_object = F.schema_of_variant("parts").startswith("OBJECT")
    checks: list[Check] = [
        (is_bracket, HEADER),
        (F.col("parts").isNull() | ~is_object, "is not a JSON object: write one object per line"),
    ]
    return _rows(read, texts, mapping, checks)


def _json_path(name: str) -> str:
    """`a.b[0].c` as Spark wants it; a name that begins with $ is a path already."""
    return name if name.startswith("$") else f"$.{name}"


def _parse_parquet(rows: DataFrame, mapping: Mapping) -> DataFrame:
    texts = {name: F.col("parts").getField(f"_{n}") for n, name in enumerate(mapping.used().values())}
    return _rows(rows, texts, mapping, [])


def _count_rows(mapping: Mapping, path: Path) -> int:
    """How many rows a Parquet file has. Beside others, a column that one of them lacks would be read as empty: such a
    file is refused.
    """
    import pyarrow.parquet as pq

    footer = pq.read_metadata(path)
    if missing := mapping.missing_among(footer.schema.to_arrow_schema().names):
        raise ConfigError(f"mapping: {missing}")
    rows: int = footer.num_rows
    return rows


class _ParquetReader:
    """Reads Parquet files as rows of texts, with the file and the place in it."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping

    def __call__(
        self, spark: "SparkSession", paths: str | list[str], *, base: str | None = None
    ) -> DataFrame:
        from pyspark.errors import AnalysisException
        from pyspark.sql import types as T

        rows = spark.read.parquet(*([paths] if isinstance(paths, str) else paths))
        names = self._mapping.used()
        kinds: dict[str, T.DataType] = {}
        for field, name in names.items():
            try:
                kinds[name] = rows.select(F.col(name).alias("value")).schema[0].dataType
            except AnalysisException:
                raise ConfigError(
                    f"mapping: {field}: there is no column {name!r}; there are {', '.join(rows.columns)}"
                ) from None
        parts = [
            self._text(name, kinds[name]).alias(f"_{number}") for number, name in enumerate(names.values())
        ]
        return rows.select(
            F.col("_metadata.file_path").alias("file"),
            F.col("_metadata.row_index").alias("position"),
            F.to_json(F.struct(*(F.col(f"`{name}`") for name in rows.columns))).alias("value"),
            F.struct(*parts).alias("parts"),
            F.lit(isinstance(kinds[self._mapping.time.column], T.TimestampType)).alias(_TYPED),
        )

    def _text(self, name: str, kind: object) -> Column:
        from pyspark.sql import types as T

        if isinstance(kind, T.TimestampType):
            # An instant names its zone.
            return F.date_format(name, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")
        return F.col(name).cast("string")


def _rows(lines: DataFrame, texts: Texts, mapping: Mapping, checks: list[Check]) -> DataFrame:
    """Bronze rows of the fields that the mapping names."""
    time_text = _given(texts[mapping.time.column], mapping)
    is_typed = F.col(_TYPED) if _TYPED in lines.columns else F.lit(False)
    time = F.when(is_typed, written_time(time_text)).otherwise(_time_of(texts, mapping))
    zoneless = is_zoneless(time_text) if mapping.time.format not in UNIX_UNITS else F.lit(False)
    fields: dict[str, Column] = {"time": time, "zoneless": zoneless & ~is_typed}
    further: list[Check] = [unreadable(time_text, time, f"time ({mapping.time.column})")]
    absent = F.lit(None).cast("string")
    if mapping.client.column:
        fields["client"] = _given(texts[mapping.client.column], mapping)
        further.append((fields["client"].isNull(), f"client ({mapping.client.column}) is empty"))
    else:
        fields["client"] = absent
    fields["client_class"] = _class_of(texts, mapping)
    fields["site"] = absent if mapping.site is None else _given(texts[mapping.site.column], mapping)
    fields["connected"] = F.lit(True) if mapping.site is None else fields["site"].isNotNull()
    if mapping.state is not None:
        said = _given(texts[mapping.state.column], mapping)
        known = F.when(said.isin(*mapping.state.connected), True).when(
            said.isin(*mapping.state.disconnected), False
        )
        further.append(unreadable(said, known, f"state ({mapping.state.column})"))
        fields["connected"] = known
    for name in ("x", "y"):
        fields[name] = F.lit(None).cast("double")
    if mapping.position is not None:
        further += _place(fields, texts, mapping)
    value = F.col("value")
    no_rows: list[Check] = [is_blank(value)]
    if mapping.comment:
        no_rows.append((F.trim(value).startswith(mapping.comment), HEADER))
    return parsed(lines, refuse(*no_rows, *checks, *further), **fields)


def _place(fields: dict[str, Column], texts: Texts, mapping: Mapping) -> list[Check]:
    """Add the position to the fields; returns what can be wrong with it."""
    position = mapping.position
    assert position is not None
    checks: list[Check] = []
    for name, column in (("x", position.x), ("y", position.y)):
        text = _given(texts[column], mapping)
        plain = F.replace(text, F.lit(","), F.lit(".")) if mapping.decimal == "," else text
        number = coordinate(plain, DEGREES.get(position.unit, 1.0))
        fields[name] = number
        # A row that names its site may lack the position.
        wanted = F.lit(True) if mapping.site is None else text.isNotNull()
        bad, why = unreadable(text, number, f"{name} ({column})")
        checks.append((wanted & bad, why))
        if mapping.in_degrees:
            most = 180 if name == "x" else 90
            checks.append((F.abs(number) > most, f"{name} ({column}) is outside -{most}..{most} degrees"))
    return checks


def _time_of(texts: Texts, mapping: Mapping) -> Column:
    text = _given(texts[mapping.time.column], mapping)
    if mapping.time.format in UNIX_UNITS:
        unit = UNIX_UNITS[mapping.time.format]
        if unit == 1:
            return unix_time(text)
        # Decimals: a double has too few digits for nanoseconds.
        return unix_time((text.try_cast("decimal(38,6)") / F.lit(unit)).cast("string"))
    return written_time(text, None if mapping.time.format == "iso" else mapping.time.format)


def _class_of(texts: Texts, mapping: Mapping) -> Column:
    """The client's class: a value, or `name=value, name=value` where several columns make it."""
    if mapping.client_class is None:
        return F.lit("all")
    names = mapping.client_class.columns
    values = [F.coalesce(_given(texts[name], mapping), F.lit("unknown")) for name in names]
    if len(names) == 1:
        return values[0]
    return F.concat_ws(
        ", ", *(F.concat(F.lit(f"{name}="), value) for name, value in zip(names, values, strict=True))
    )


def _given(text: Column, mapping: Mapping) -> Column:
    """The trimmed text, or null where it stands for nothing."""
    trimmed = F.trim(text)
    return F.when(~trimmed.isin("", *mapping.missing), trimmed)


def _all(conditions: list[Column]) -> Column:
    return F.forall(F.array(*conditions), lambda held: held)


def _any(conditions: list[Column]) -> Column:
    return F.exists(F.array(*conditions), lambda held: held) if conditions else F.lit(False)


def _observe(rows: DataFrame, rules: Rules, mapping: Mapping) -> DataFrame:
    client = F.regexp_extract(base_name(), mapping.client.file, 1) if mapping.client.file else F.col("client")
    if mapping.position is None or (mapping.site is not None and rules.sites == "given"):
        site = F.col("site")
    else:
        site = site_of(F.col("x"), F.col("y"), rules.sites)
    return conform(
        rows.select(
            client.alias("client"),
            "client_class",
            in_zone("time", "zoneless", rules.time_zone).alias("time"),
            F.col("position").alias("tie"),
            site.alias("site"),
            "connected",
            "x",
            "y",
        ),
        OBSERVATIONS,
    )


def _no_mapping(*_: object) -> DataFrame:
    raise ConfigError("format mapped: name the mapping file with --mapping (docs/own-trace-format.md)")


MAPPED: Final = TraceFormat(
    name="mapped",
    about="CSV, JSON lines or Parquet whose columns a mapping file names (--mapping FILE)",
    fields=FIELDS,
    parse=_no_mapping,
    observe=_no_mapping,
    rules=Rules(),
)
"""Stands in the table of formats for all that mappings describe."""
