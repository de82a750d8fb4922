"""Run the declared tables: one call that brings a warehouse up to date, and the settings that keep it.

Spark's own `spark-pipelines` command starts a session of its own, on a fixed port, with no way to choose master and
catalog together. This module does what that command does after its start-up - make a graph, register the
definitions, start a run, follow its events - in a session that is ours (docs/decisions/0071).
"""

import collections
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from roamq.core.errors import ConfigError, RoamqError
from roamq.pipeline.landing import Source, landed_bytes, load_sources
from roamq.pipeline.session import (
    LESS_TO_COMPILE,
    QUICK_TO_ALLOCATE,
    QUICK_TO_COMPILE,
    QUICK_TO_PLAN,
    SparkSettings,
    open_session,
)
from roamq.pipeline.tables import BRONZE
from roamq.pipeline.warehouse import (
    CHECKPOINTS,
    about,
    database_of,
    enter,
    forget_arrivals,
    next_tables,
    only_writer,
    open_tables,
    table_names,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

SMALL_BYTES: Final = 32 << 20
"""Most of a smaller run is the JVM compiling code that then handles few rows."""
MODEST_BYTES: Final = 1 << 30
"""Up to here, plans that adapt themselves cost more than they save."""

READ_BYTES: Final = 32 << 20
"""What one task reads of the input."""
SHUFFLE_BYTES: Final = 48 << 20
"""Input behind one partition of a shuffle."""
SHUFFLE_PARTITIONS_MAX: Final = 200
"""Spark's default, and what is taken where nobody knows how much there is."""

GRAPH_SETTINGS: Final = {
    # Spark refuses its own row ids in streams because they begin anew with every batch; positions may (decision 0075).
    "spark.sql.streaming.unsupportedOperationCheck": "false",
}

Progress = Callable[[str, str], None]
"""Called with the name of a flow and what became of it: QUEUED, RUNNING, COMPLETED, FAILED."""

_EVENT = re.compile(r"Flow '?(?:[\w`]+\.)*`?(?P<flow>\w+)`?'? (?:is|has) (?P<state>[A-Z]+)")


class PipelineFailedError(RoamqError):
    """A table could not be brought up to date; the others may be."""


def warehouse_settings(
    warehouse: Path,
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
    }
    return SparkSettings(
        remote=remote,
        master=master,
        warehouse=warehouse,
        driver_memory=driver_memory,
        shuffle_partitions=max(2, int(min(size / SHUFFLE_BYTES, SHUFFLE_PARTITIONS_MAX))),
        java_options=f"{QUICK_TO_ALLOCATE} {_compiling(size)}",
        config=usual | (QUICK_TO_PLAN if size < MODEST_BYTES else {}) | (config or {}),
    )


def _compiling(size: float) -> str:
    if size < SMALL_BYTES:
        return QUICK_TO_COMPILE
    return LESS_TO_COMPILE if size < MODEST_BYTES else ""


def run_pipeline(
    spark: "SparkSession",
    sources: Sequence[Source],
    warehouse: Path,
    *,
    progress: Progress | None = None,
    full_refresh: bool = False,
) -> list[str]:
    """Bring all tables up to date with the files that landed; returns their names.

    New files are read, known ones are not; derived tables are made again. `full_refresh` forgets what was read.
    What arrives and what follows from it are two graphs: the second is made in a database of its own and replaces
    what was there when it is whole (docs/decisions/0074).
    """
    from roamq.pipeline.definitions import declare_arrivals, declare_derived

    run = partial(_run_graph, spark, sources, warehouse, progress or (lambda *_: None))
    with only_writer(warehouse):
        forget_arrivals(warehouse, now=full_refresh)
        open_tables(spark, warehouse)
        arrived = sorted({f"{BRONZE}{source.format}" for source in sources})
        for name in arrived:
            enter(spark, database_of(warehouse), name, warehouse / name)
        run(declare_arrivals, database_of(warehouse))
        with next_tables(spark, warehouse, arrived) as database:
            derived = run(declare_derived, database)
        open_tables(spark, warehouse)
    return [*arrived, *derived]


Declare = Callable[["SparkSession", Sequence[Source]], list[str]]


def _run_graph(
    spark: "SparkSession",
    sources: Sequence[Source],
    warehouse: Path,
    progress: Progress,
    declare: Declare,
    database: str,
) -> list[str]:
    """Define a graph of tables and run it to its end."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    try:
        graph = create_dataflow_graph(
            spark, default_catalog=None, default_database=database, sql_conf=GRAPH_SETTINGS
        )
        with graph_element_registration_context(SparkConnectGraphElementRegistry(spark, graph)):
            tables = declare(spark, sources)
        events = start_run(
            spark,
            graph,
            full_refresh=[],
            full_refresh_all=False,
            refresh=[],
            dry=False,
            storage=f"file://{warehouse.resolve()}/{CHECKPOINTS}",
        )
        _follow(events, progress)
    except PySparkException as error:
        raise PipelineFailedError(_brief(str(error))) from error
    return tables


def bring_up_to_date(
    settings: SparkSettings,
    warehouse: Path,
    report: Callable[[int, int], None],
    *,
    full_refresh: bool = False,
) -> list[dict[str, Any]]:
    """Open a session, run the pipeline of a warehouse, and return the rows of its `summary`."""
    flows: dict[str, str] = {}

    def progress(flow: str, state: str) -> None:
        flows[flow] = state
        report(sum(state == "COMPLETED" for state in flows.values()), len(flows))

    with open_session(settings) as spark:
        run_pipeline(spark, load_sources(warehouse), warehouse, progress=progress, full_refresh=full_refresh)
        found = spark.read.table("summary").orderBy("dataset", "layer", "name")
        return [row.asDict() for row in found.select("dataset", "layer", "name", "rows").collect()]


def look_at(
    settings: SparkSettings,
    warehouse: Path,
    table: str | None,
    *,
    where: str | None = None,
    order_by: str | None = None,
    rows: int = 20,
    count: bool = False,
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The first rows of a table with its columns, or how many there are; without a table, the tables there are."""
    from pyspark.errors import AnalysisException, ParseException

    if not table_names(warehouse):
        raise ConfigError(f"{warehouse} holds no tables: `roamq pipeline run` makes them")
    known = {name: about(name) for name in table_names(warehouse)}
    if table is None:
        return ["table", "what it holds"], sorted(known.items())
    if table not in known:
        raise ConfigError(f"there is no table {table!r}; there are {', '.join(sorted(known))}")
    with open_session(settings) as spark:
        open_tables(spark, warehouse)
        try:
            found = spark.read.table(table)
            if where:
                found = found.where(where)
            if count:
                return ["rows"], [(found.count(),)]
            if order_by:
                found = found.orderBy(*(_order(part) for part in order_by.split(",")))
            return list(found.columns), [tuple(row) for row in found.limit(rows).collect()]
        except (AnalysisException, ParseException) as error:
            raise ConfigError(f"table {table}: {_brief(str(error))}") from error


def _follow(events: Iterator[dict[str, Any]], progress: Progress) -> None:
    """Report what becomes of the flows, until all of them are completed or the run ends otherwise.

    Spark itself looks but once a second whether a run has ended; its last words are heard beside what comes next.
    """
    waiting: set[str] = set()
    for event in events:
        result = event.get("pipeline_event_result")
        found = result and _EVENT.search(result.event.message)
        if not found:
            continue
        progress(found["flow"], found["state"])
        if found["state"] != "COMPLETED":
            waiting.add(found["flow"])
            continue
        waiting.discard(found["flow"])
        if not waiting:
            Thread(target=_hear_out, args=(events,), daemon=True).start()
            return


def _hear_out(events: Iterator[Any]) -> None:
    with contextlib.suppress(Exception):  # the session may end first
        collections.deque(events, maxlen=0)


def _order(text: str) -> "Column":
    """`name`, `name asc` or `name desc` as a sort order."""
    from pyspark.sql import functions as F

    name, _, direction = text.strip().partition(" ")
    return F.desc(name) if direction.strip().lower() == "desc" else F.asc(name)


def _brief(message: str) -> str:
    """The first sentences of Spark's report: the rest is its stack."""
    lines = [
        line.strip() for line in message.splitlines() if line.strip() and not line.strip().startswith("at ")
    ]
    return " ".join(lines[:4])
