"""What a trace format is, and what all of them share: lines with a position, and reasons to refuse one.

An adapter is two pure functions. `parse` turns numbered lines into typed rows, each with a `reason` that is null
for a good row; `observe` turns good rows into observations, the shape that cleaning starts from. Every line of
every file becomes one bronze row, so that nothing is lost on the way in and a refused line can be named exactly.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from roamq.pipeline.rules import Rules
from roamq.pipeline.vectorised import arrow_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER: Final = "header"
BLANK: Final = "blank line"
SKIPPED: Final = (HEADER, BLANK)
"""Reasons that are no fault: such lines are neither rows nor malformed."""

ORDINAL_BITS: Final = 33
"""Low bits of a position count lines within a task; the high bits hold the split's offset in MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """One format of trace files: how to read it, and which cleaning rules suit it."""

    name: str
    about: str
    """One line for `--help`: what a row says."""
    fields: str
    """The typed columns of its bronze table, as DDL, after `tables.PROVENANCE`."""
    parse: Callable[[DataFrame], DataFrame]
    """Lines (file, position, value) -> fields and `reason`."""
    observe: Callable[[DataFrame, Rules], DataFrame] | None
    """Good bronze rows -> `tables.OBSERVATIONS`; None where the format knows no clients."""
    rules: Rules
    read: Callable[..., DataFrame] | None = None
    """Path -> what `parse` takes, where that is not numbered lines of text."""
    client_in_name: bool = False
    """The file's name is the client: equal content under another name is another client, not a copy."""
    has_coordinates: bool = False

    def arrivals(self, spark: "SparkSession", path: str, *, streaming: bool) -> DataFrame:
        """What lies under `path`, as `parse` takes it."""
        if self.read is not None:
            return self.read(spark, path, streaming=streaming)
        return number_lines(read_lines(spark, path, streaming=streaming))


def read_lines(spark: "SparkSession", path: str, *, streaming: bool) -> DataFrame:
    """The lines of all files under `path`, compressed ones too, with file, offset of the split and text."""
    reader = spark.readStream if streaming else spark.read
    return (
        reader.format("text")
        .option("recursiveFileLookup", "true")
        .load(path)
        .select(
            F.col("_metadata.file_path").alias("file"),
            F.col("_metadata.file_block_start").alias("block"),
            F.ltrim(F.col("value"), F.lit("\ufeff")).alias("value"),
        )
    )


def _count_up(blocks: Iterator[pa.Array]) -> Iterator[pa.Array]:
    import numpy as np

    counted = 0
    for block in blocks:
        yield pa.array(np.arange(counted, counted + len(block), dtype=np.int64))
        counted += len(block)


def number_lines(lines: DataFrame) -> DataFrame:
    """Give each line a `position` that grows along its file, whatever the splits.

    A split is read in order by one task, and splits of a file are at least a MiB apart: the split's offset in MiB
    above a count within the task is thus in file order. The count needs Python because Spark refuses
    `monotonically_increasing_id` in streams; eight bytes per row go there and back, the line does not
    (docs/decisions/0070).
    """
    ordinal = arrow_function(_count_up, LongType(), stateful=True)
    split = F.shiftleft(F.shiftright("block", 20), ORDINAL_BITS)
    return lines.select("file", (split + ordinal("block")).alias("position"), "value")


def line_numbers(bronze: DataFrame) -> DataFrame:
    """The malformed ones among rows that hold every line of their files, with their `line` (from 1).

    Positions are dense within a split, so a line number is the lines of the splits before it plus the distance
    from the split's first position: only one row per split is ever sorted.
    """
    from pyspark.sql import Window

    split = F.shiftright("position", ORDINAL_BITS)
    splits = bronze.groupBy("dataset", "file", split.alias("split")).agg(
        F.min("position").alias("first"), F.count("*").alias("lines")
    )
    earlier = (
        Window.partitionBy("dataset", "file").orderBy("split").rowsBetween(Window.unboundedPreceding, -1)
    )
    splits = splits.withColumn("before", F.coalesce(F.sum("lines").over(earlier), F.lit(0)))
    refused = bronze.where(is_malformed()).withColumn("split", split)
    return (
        refused.join(splits, ["dataset", "file", "split"])
        .withColumn("line", F.col("before") + F.col("position") - F.col("first") + 1)
        .select("dataset", "file", "line", "reason", "raw")
    )


def is_good() -> Column:
    return F.col("reason").isNull()


def is_malformed() -> Column:
    return F.col("reason").isNotNull() & ~F.col("reason").isin(*SKIPPED)


def split_fields(value: Column, separator: str, names: Sequence[str]) -> dict[str, Column]:
    """The named fields of a line, as trimmed strings; null where the line is too short."""
    parts = F.split(value, separator, -1)
    return {name: F.trim(F.get(parts, F.lit(index))) for index, name in enumerate(names)}


def refuse(*checks: tuple[Column, Column | str]) -> Column:
    """The reason of the first check that holds, or null: a line is refused for its first fault."""
    return F.coalesce(*(F.when(condition, reason) for condition, reason in checks))


def wrong_width(value: Column, separator: str, expected: int) -> tuple[Column, Column]:
    """A check for `refuse`: the line has another number of fields, which also hits torn last lines."""
    found = F.size(F.split(value, separator, -1))
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
    """Assemble a bronze row: the fields of a good line, or the line itself and why it was refused."""
    columns = [
        F.when(F.col("reason").isNull(), column).alias(name)  # a refused line has no half-read fields
        for name, column in fields.items()
    ]
    kept = F.when(F.col("reason").isNotNull(), F.col("value")).alias("raw")
    return lines.withColumn("reason", reason).select("file", "position", kept, "reason", *columns)
