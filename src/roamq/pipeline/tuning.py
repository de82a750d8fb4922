"""How Spark is set up for a run: by what there is to read, and where the warehouse is (docs/decisions/0076, 0122)."""

import os
from typing import Final

from roamq.pipeline.landing import landed_bytes
from roamq.pipeline.session import (
    LESS_TO_COMPILE,
    NOTHING_TO_COMPILE,
    QUICK_TO_ALLOCATE,
    QUICK_TO_COMPILE,
    QUICK_TO_PLAN,
    SparkSettings,
)
from roamq.pipeline.store import Place, Store, spark_settings

TINY_BYTES: Final = 1 << 20
"""Spark takes longer to compile its queries than to interpret them over less than this."""
SMALL_BYTES: Final = 32 << 20
"""Most of a smaller run is the JVM compiling code that then handles few rows."""
MODEST_BYTES: Final = 1 << 30
"""Up to here, plans that adapt themselves cost more than they save."""

READ_BYTES: Final = 32 << 20
"""What one task reads of the input."""
OPEN_BYTES: Final = 256 << 10
"""What a task could read in the time in which it opens a file."""
SHUFFLE_BYTES: Final = 48 << 20
"""Input behind one partition of a shuffle."""
LISTED_AT_ONCE: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
FILES_LISTED: Final = "10000"
"""Spark looks at more files than this by a job of its own, which pays where files are far away."""
SHUFFLE_PARTITIONS_MAX: Final = 200
"""Spark's default, and what is taken where nobody knows how much there is."""


def warehouse_settings(
    warehouse: Place,
    *,
    remote: str | None = None,
    master: str = "local[*]",
    driver_memory: str = "2g",
    config: dict[str, str] | None = None,
    input_bytes: int | None = None,
) -> SparkSettings:
    """Settings of a session that makes or reads the tables of a warehouse.

    They depend on how much there is to read: `input_bytes`, by default what has landed.
    """
    size = landed_bytes(warehouse) if input_bytes is None else input_bytes
    usual = {
        "spark.sql.parquet.compression.codec": "zstd",
        # Numbers, where Spark's default is twelve bytes in an order of their own.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Windows over a client's rows stay in memory up to this many rows; beyond, they spill.
        "spark.sql.windowExec.buffer.in.memory.threshold": "65536",
        # Small inputs are the rule: half a dozen files are not worth half a dozen tasks, and two cores share evenly
        # what comes in more pieces than two.
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.files.maxPartitionBytes": str(READ_BYTES),
        # Tables consist of some hundred small files: to open one costs what it costs to read so many bytes.
        "spark.sql.files.openCostInBytes": str(OPEN_BYTES),
        # The names of changed clients reach Parquet, which skips pages without them.
        "spark.sql.parquet.pushdown.inFilterThreshold": "1000",
        # Exact medians and samples are kept for so many keys at once; beyond, Spark sorts all rows by key first.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "8192",
    }
    return SparkSettings(
        remote=remote,
        master=master,
        warehouse=Store.at(warehouse).place,
        driver_memory=driver_memory,
        shuffle_partitions=max(2, int(min(size / SHUFFLE_BYTES, SHUFFLE_PARTITIONS_MAX))),
        java_options=f"{QUICK_TO_ALLOCATE} {_compiling(size)}",
        config=usual
        | (QUICK_TO_PLAN if size < MODEST_BYTES else {})
        | (NOTHING_TO_COMPILE if size < TINY_BYTES else {})
        | ({LISTED_AT_ONCE: FILES_LISTED} if Store.at(warehouse).is_local else {})
        | spark_settings(os.environ)
        | (config or {}),
    )


def _compiling(size: float) -> str:
    if size < SMALL_BYTES:
        return QUICK_TO_COMPILE
    return LESS_TO_COMPILE if size < MODEST_BYTES else ""
