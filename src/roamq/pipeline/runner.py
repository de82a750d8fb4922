"""Run the declared tables: one call that brings a warehouse up to date, and the settings that keep it.

Spark's own `spark-pipelines` command starts a session of its own, on a fixed port, with no way to choose master and
catalog together. This module does what that command does after its start-up - make a graph, register the
definitions, start a run, follow its events - in a session that is ours (docs/decisions/0071).
"""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roamq.core.errors import ConfigError, RoamqError
from roamq.pipeline.landing import LANDING, Source, load_sources
from roamq.pipeline.session import SparkSettings, open_session

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

CHECKPOINTS: Final = "checkpoints"
METASTORE: Final = "metastore"

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
    shuffle_partitions: int = 8,
    config: dict[str, str] | None = None,
) -> SparkSettings:
    """Settings of a session whose tables outlive it: an embedded metastore inside the warehouse remembers them."""
    metastore = (warehouse.resolve() / METASTORE).as_posix()
    kept = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={metastore};create=true",
        # Parquet of ours is read by Spark's own reader, and partitions are found in the files, not in the metastore.
        "spark.sql.hive.convertMetastoreParquet": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        # Windows over a client's rows stay in memory up to this many rows; beyond, they spill.
        "spark.sql.windowExec.buffer.in.memory.threshold": "65536",
        # Small inputs are the rule: half a dozen files are not worth half a dozen tasks.
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }
    return SparkSettings(
        remote=remote,
        master=master,
        warehouse=warehouse,
        driver_memory=driver_memory,
        shuffle_partitions=shuffle_partitions,
        config=kept | (config or {}),
    )


def run_pipeline(
    spark: "SparkSession",
    sources: Sequence[Source],
    warehouse: Path,
    *,
    progress: Progress | None = None,
    full_refresh: bool = False,
    database: str | None = None,
) -> list[str]:
    """Bring all tables up to date with the files that landed; returns their names.

    New files are read, known ones are not; derived tables are made again. `full_refresh` forgets what was read.

    What arrives and what follows from it are two graphs, and derived tables are dropped between them: where a table
    exists already, Spark 4.3 takes a query with `withColumn` to read the old one, and runs it before the table it
    is made from is up to date (docs/decisions/0071).
    """
    from roamq.pipeline.definitions import declare_arrivals, declare_derived

    run = partial(_run_graph, spark, sources, warehouse, database, progress or (lambda *_: None))
    arrived = run(declare_arrivals, full_refresh=full_refresh)
    place = f"`{database}`." if database else ""
    for known in spark.catalog.listTables(database):
        if known.name not in arrived and not known.isTemporary and not known.name.startswith("bronze_"):
            spark.sql(f"drop table if exists {place}`{known.name}`")
    return [*arrived, *run(declare_derived, full_refresh=False)]


Declare = Callable[["SparkSession", Sequence[Source]], list[str]]


def _run_graph(
    spark: "SparkSession",
    sources: Sequence[Source],
    warehouse: Path,
    database: str | None,
    progress: Progress,
    declare: Declare,
    *,
    full_refresh: bool,
) -> list[str]:
    """Define a graph of tables and run it to its end."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    try:
        graph = create_dataflow_graph(spark, default_catalog=None, default_database=database, sql_conf={})
        with graph_element_registration_context(SparkConnectGraphElementRegistry(spark, graph)):
            tables = declare(spark, sources)
        events = start_run(
            spark,
            graph,
            full_refresh=[],
            full_refresh_all=full_refresh,
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
        forget_half_made_tables(spark, warehouse)
        run_pipeline(spark, load_sources(warehouse), warehouse, progress=progress, full_refresh=full_refresh)
        found = spark.read.table("summary").orderBy("dataset", "layer", "name")
        return [row.asDict() for row in found.select("dataset", "layer", "name", "rows").collect()]


def forget_half_made_tables(spark: "SparkSession", warehouse: Path) -> None:
    """Remove folders of tables that the metastore does not know.

    A process that dies between making a table's folder and entering the table leaves one, and Spark then refuses to
    make the table. Nothing was ever read from it: a flow writes only to a table that is entered.
    """
    if not (warehouse / METASTORE).is_dir():
        return
    known = {table.name for table in spark.catalog.listTables()}
    kept = {CHECKPOINTS, METASTORE, LANDING}
    for folder in warehouse.iterdir():
        if folder.is_dir() and folder.name not in known | kept and (folder.name.replace("_", "").isalnum()):
            shutil.rmtree(folder)


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

    if settings.remote is None and not (warehouse / METASTORE).is_dir():
        raise ConfigError(f"{warehouse} holds no tables: `roamq pipeline run` makes them")
    with open_session(settings) as spark:
        known = {entry.name: entry.description or "" for entry in spark.catalog.listTables()}
        if table is None:
            return ["table", "what it holds"], sorted(known.items())
        if table not in known:
            raise ConfigError(f"there is no table {table!r}; there are {', '.join(sorted(known))}")
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
    for event in events:
        result = event.get("pipeline_event_result")
        if result is None:
            continue
        found = _EVENT.search(result.event.message)
        if found:
            progress(found["flow"], found["state"])


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
