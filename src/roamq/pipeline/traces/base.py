"""What a trace format is, and what all of them share: lines with a position, and reasons to refuse one.

An adapter is two pure functions. `parse` turns numbered lines into typed rows, each with a `reason` that is null
for a good row; `observe` turns good rows into observations, the shape that cleaning starts from. Every line of
every file becomes one bronze row, so that nothing is lost on the way in and a refused line can be named exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.rules import Rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER: Final = "header"
BLANK: Final = "blank line"
SKIPPED: Final = (HEADER, BLANK)
"""Reasons that are no fault: such lines are neither rows nor malformed."""

ORDINAL_BITS: Final = 33
"""Low bits of a position count lines within a task; the high bits hold the split's offset in MiB."""


NOT_UTF8: Final = "bytes are not UTF-8: state the encoding with --set encoding=NAME"

EARLIEST_S: Final = 0
LATEST_S: Final = 4_102_444_800
"""Times before 1970 and from 2100 on are in no trace of a network: they are in another unit, or part of a torn line.
The bound also keeps the number of days small that a stay can last."""
FARTHEST: Final = 1e9
"""No place is farther away, in degrees, metres or units of a plan: means of places have so many digits."""

HAS_ZONE: Final = "^.{10}.*[-+A-SU-Za-su-z]"
"""A time that names its zone has a sign or a letter other than T behind its date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """One format of trace files: how to read it, and which cleaning rules suit it."""

    name: str
    about: str
    """One line for `--help`: what a row says."""
    fields: str
    """The typed columns of its bronze table, as DDL, after `schemas.PROVENANCE`."""
    parse: Callable[[DataFrame], DataFrame]
    """Lines (file, position, value) -> fields and `reason`."""
    observe: Callable[[DataFrame, Rules], DataFrame] | None
    """Good bronze rows -> `schemas.OBSERVATIONS`; None where the format knows no clients."""
    rules: Rules
    read: Callable[..., DataFrame] | None = None
    """Paths -> what `parse` takes, where that is not numbered lines of text."""
    client_in_name: bool = False
    """The file's name is the client: equal content under another name is another client, not a copy."""
    has_coordinates: bool = False
    unit: Literal["degrees", "plane"] = "degrees"
    """With coordinates: longitude and latitude, or places on a plane."""
    suffixes: tuple[str, ...] = (".parquet",)
    """With `read`: how the names of the files end that belong to the trace; others in the folder are left alone."""
    count: Callable[[Path], int] | None = None
    """With `read`: how many rows a file must give, counted without Spark; None: it is a Parquet file, which knows."""

    def in_degrees(self, rules: Rules) -> bool:
        """Positions of a dataset with these rules are longitude and latitude. The rule for sites knows it best."""
        kind = rules.sites.partition(":")[0]
        return self.unit == "degrees" if kind == "given" else kind != "plane"

    def arrivals(
        self, spark: "SparkSession", paths: str | list[str], *, base: str | None = None
    ) -> DataFrame:
        """What files or folders hold, as `parse` takes it. `base` is the folder in which they lie."""
        if self.read is not None:
            return self.read(spark, paths, base=base)
        return number_lines(read_lines(spark, paths))


def read_lines(spark: "SparkSession", paths: str | list[str]) -> DataFrame:
    """The lines of files, compressed ones too, with file, offset of the split and text."""
    return (
        spark.read.format("text")
        .option("recursiveFileLookup", "true")
        .load(paths)
        .select(
            F.col("_metadata.file_path").alias("file"),
            F.col("_metadata.file_block_start").alias("block"),
            F.ltrim(F.col("value"), F.lit("\ufeff")).alias("value"),
        )
    )


def number_lines(lines: DataFrame) -> DataFrame:
    """Give each line a `position` that grows along its file, whatever the splits.

    A split is read in order by one task, and splits of a file are at least a MiB apart: the split's offset in MiB
    above a count within the task is thus in file order. The count is the low part of Spark's own id, whose high
    part is the number of the task (docs/decisions/0075).
    """
    ordinal = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << ORDINAL_BITS) - 1))
    split = F.shiftleft(F.shiftright("block", 20), ORDINAL_BITS)
    return lines.select("file", (split + ordinal).alias("position"), "value")


def line_numbers(bronze: DataFrame) -> DataFrame:
    """The malformed lines among bronze rows, with their `line` number (from 1); the rows must hold all lines of
    their files.

    Positions are dense within a split, so a line number is the lines of the splits before it plus the distance
    from the split's first position: only one row per split is ever sorted.
    """
    from pyspark.sql import Window

    split = F.shiftright("position", ORDINAL_BITS)
    refused = bronze.where(is_malformed()).withColumn("split", split)
    # Files without a fault are not counted, and where none has one, Spark does not read them again.
    faulty = F.broadcast(refused.select("dataset", "file").distinct())
    splits = (
        bronze.join(faulty, ["dataset", "file"], "left_semi")
        .groupBy("dataset", "file", split.alias("split"))
        .agg(F.min("position").alias("first"), F.count("*").alias("lines"))
    )
    earlier = (
        Window.partitionBy("dataset", "file").orderBy("split").rowsBetween(Window.unboundedPreceding, -1)
    )
    splits = splits.withColumn("before", F.coalesce(F.sum("lines").over(earlier), F.lit(0)))
    return (
        refused.join(splits, ["dataset", "file", "split"])
        .withColumn("line", F.col("before") + F.col("position") - F.col("first") + 1)
        .select("dataset", "file", "line", "reason", "raw")
    )


def is_good() -> Column:
    return F.col("reason").isNull()


def is_malformed() -> Column:
    return F.col("reason").isNotNull() & ~F.col("reason").isin(*SKIPPED)


def split_lines(lines: DataFrame, separator: str) -> DataFrame:
    """Lines with their `parts`. The parts are a column: as an expression, Spark would split the line at each use."""
    return lines.withColumn("parts", F.split(F.trim("value"), separator, -1))


def fields_of(names: Sequence[str]) -> dict[str, Column]:
    """The named parts of a line, as trimmed strings; null where the line is too short."""
    return {name: F.trim(F.get(F.col("parts"), F.lit(index))) for index, name in enumerate(names)}


def base_name() -> Column:
    """The name of a row's file without its folders; cheaper than a regular expression, which would try every letter."""
    return F.substring_index("file", "/", -1)


def unix_time(text: Column) -> Column:
    """UNIX seconds, with a fraction or none; null for anything else, also for what lies in no trace."""
    # Whole numbers are tried first: they are the rule, and reading them costs a fraction.
    readings = (text.try_cast("bigint"), text.try_cast("double"))
    return F.coalesce(
        *(
            F.when((seconds >= EARLIEST_S) & (seconds < LATEST_S), F.timestamp_seconds(seconds))
            for seconds in readings
        )
    )


def coordinate(text: Column, scale: float = 1.0) -> Column:
    """A number that can be part of a place; null for anything else, also for what lies nowhere."""
    number = text.try_cast("double") * scale
    return F.when(F.abs(number) < FARTHEST, number)  # what is not a number is greater than all numbers


def any_time(text: Column) -> Column:
    """A time in UNIX seconds or ISO 8601; null for anything else."""
    # UNIX seconds are tried first: they are cheaper to read and the usual case in large files.
    return F.coalesce(unix_time(text), written_time(text))


def written_time(text: Column, pattern: str | None = None) -> Column:
    """A date and time in words of ISO 8601 or of `pattern`; null for anything else, also for what lies in no trace."""
    time = F.try_to_timestamp(text) if pattern is None else F.try_to_timestamp(text, F.lit(pattern))
    earliest, latest = (F.timestamp_seconds(F.lit(bound)) for bound in (EARLIEST_S, LATEST_S))
    return F.when((time >= earliest) & (time < latest), time)


def is_zoneless(text: Column) -> Column:
    """A written time says nothing about its zone: it is a local time of the rule `time_zone`. UNIX time is not."""
    return F.when(unix_time(text).isNull(), ~text.rlike(HAS_ZONE)).otherwise(False)


def in_zone(time: str, zoneless: str, time_zone: str) -> Column:
    """A bronze time as the instant it stands for: what named no zone is local."""
    return F.when(F.col(zoneless), F.to_utc_timestamp(time, time_zone)).otherwise(F.col(time))


def refuse(*checks: tuple[Column, Column | str]) -> Column:
    """The reason of the first check that holds, or null: a line is refused for its first fault."""
    return F.coalesce(*(F.when(condition, reason) for condition, reason in checks))


def wrong_width(expected: int) -> tuple[Column, Column]:
    """A check for `refuse`: the line has another number of fields, which also hits torn last lines."""
    found = F.size("parts")
    message = F.concat(F.lit(f"expected {expected} fields, found "), found.cast("string"))
    return found != expected, message


def unreadable(text: Column, parsed: Column, what: str) -> tuple[Column, Column]:
    """A check for `refuse`: `text` did not become a value."""
    return parsed.isNull(), F.concat(
        F.lit(f"{what} is not readable: "),
        F.coalesce(F.concat(F.lit("'"), text, F.lit("'")), F.lit("missing")),
    )


def is_blank(value: Column) -> tuple[Column, str]:
    return F.trim(value) == "", BLANK


def is_header(value: Column, start: str) -> tuple[Column, str]:
    return value.startswith(start), HEADER


def parsed(lines: DataFrame, reason: Column, **fields: Column) -> DataFrame:
    """Assemble a bronze row: the fields of a good line, or the line itself and why it was refused.

    Fields and reason stand side by side in one projection, where Spark reads a number once for both. A line that is no
    text in UTF-8 is refused whatever it says: its letters would be replaced, and different names would become one.
    """
    is_text = F.is_valid_utf8("value")
    told = F.when(is_text, reason).otherwise(NOT_UTF8)
    read = lines.select(
        "file", "position", "value", told.alias("reason"), *(c.alias(n) for n, c in fields.items())
    )
    columns = [
        F.when(F.col("reason").isNull(), F.col(name)).alias(name) for name in fields
    ]  # a refused line has no fields
    kept = F.when(F.col("reason").isNotNull(), F.make_valid_utf8("value")).alias("raw")
    return read.select("file", "position", kept, "reason", *columns)
