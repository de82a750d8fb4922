"""Run the pipeline: one call that brings a warehouse up to date.

A run reads what arrived, dataset by dataset (`arrivals`), and then makes of every derived table what changed
(`derive`). All of it counts with one commit at the end. Both are plain Spark jobs in a session of ours, on whatever
master or server (docs/decisions/0077, 0120, 0121).
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from roamq.core.errors import ConfigError
from roamq.pipeline.arrivals import Arrivals, PipelineFailedError, read_arrivals, reason_of
from roamq.pipeline.books import FAILED, LANDED, LEAVING, FileEntry, Shelf, TraceSource
from roamq.pipeline.ledger import ConflictError, Ledger, TableChange
from roamq.pipeline.schemas import BRONZE
from roamq.pipeline.session import SparkSettings, open_session
from roamq.pipeline.store import SCHEME, Place, Store
from roamq.pipeline.tuning import warehouse_settings
from roamq.pipeline.warehouse import about, contract_of, open_tables, refuse_old_layout, table_names

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = ["FilesFailedError", "bring_up_to_date", "look_at", "run_pipeline", "warehouse_settings"]

FAILED_NAMED: Final = 5
"""An error names at most so many files."""
DATASETS_AT_ONCE: Final = 4
ATTEMPTS: Final = 5
"""How often a run begins anew because another one committed meanwhile."""

Progress = Callable[[str, str], None]
"""Called with the name of a table and what became of it: RUNNING, COMPLETED, FAILED."""


class FilesFailedError(PipelineFailedError):
    """The tables are up to date with all files but some, which could not be read."""

    def __init__(self, failed: Sequence[FileEntry]) -> None:
        self.summary: list[dict[str, Any]] = []
        """Rows of the table `summary`: what the run made of the other files."""
        named = "; ".join(f"{entry.name}: {entry.reason}" for entry in failed[:FAILED_NAMED])
        more = f"; and {len(failed) - FAILED_NAMED} more" if len(failed) > FAILED_NAMED else ""
        super().__init__(
            f"{len(failed)} files could not be read: {named}{more}. The tables hold the other files. "
            "`roamq pipeline status` lists the files; mend a file and use `roamq pipeline retry`, "
            "or give it up with `roamq pipeline remove`"
        )


def run_pipeline(
    spark: "SparkSession", warehouse: Place, *, progress: Progress | None = None, full_refresh: bool = False
) -> list[str]:
    """Bring all tables up to date with the files that landed, and open them as views; returns their names.

    The run reads new files only, and makes what changed of the derived tables. `full_refresh` reads all files again and
    makes everything anew. Raises `FilesFailedError` at the end if files could not be read: the tables then hold the
    others. If another run commits first, this one begins anew on what that one left.
    """
    report = progress or (lambda *_: None)
    failed, opened = _update_tables(spark, warehouse, report, full_refresh=full_refresh)
    names = open_tables(spark, warehouse, without=opened)
    if failed:
        raise FilesFailedError(failed)
    return names


def _update_tables(
    spark: "SparkSession", warehouse: Place, report: Progress, *, full_refresh: bool
) -> tuple[list[FileEntry], set[str]]:
    """Bring all tables up to date; returns the files that could not be read, and the tables that are views by then."""
    refuse_old_layout(Store.at(warehouse))
    # Delta's timestamps are numbers; Spark's default is twelve bytes in an order of their own.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    for _ in range(ATTEMPTS):
        with contextlib.suppress(ConflictError):
            return _run(spark, warehouse, report, full_refresh)
    raise ConfigError(f"{warehouse}: other runs keep changing it; wait for them to end")


def _run(
    spark: "SparkSession", warehouse: Place, report: Progress, again: bool
) -> tuple[list[FileEntry], set[str]]:
    """One attempt; returns the files that could not be read, and the tables that are views by then."""
    from roamq.pipeline.derive import derive, recipe_of

    shelf = Shelf.of(warehouse)
    for name in shelf.sources:
        shelf.book(name)
    before = shelf.freeze()
    recipes = {name: recipe_of(source) for name, source in shelf.sources.items()}
    arrivals = _read_all(spark, shelf, report, again=again)
    changes = _bronze_changes(shelf, arrivals)
    derived, opened = derive(spark, shelf, arrivals, recipes, report, again=again)
    changes |= derived
    if changes or shelf.freeze() != before:
        shelf.ledger.commit(shelf.snapshot, changes | shelf.changes(), f"a run changed {len(changes)} tables")
    failed = [entry for name in shelf.sources for entry in shelf.book(name) if entry.state == FAILED]
    return failed, opened


def _read_all(spark: "SparkSession", shelf: Shelf, report: Progress, *, again: bool) -> list[Arrivals]:
    """Read what arrived, a few datasets at once; a dataset touches nothing of another."""

    def read(source: TraceSource) -> Arrivals:
        name = f"{BRONZE}{source.format}_{source.dataset}"
        report(name, "RUNNING")
        found = read_arrivals(spark, shelf, source, again=again)
        report(name, "COMPLETED")
        return found

    with ThreadPoolExecutor(DATASETS_AT_ONCE, thread_name_prefix="dataset") as pool:
        return list(pool.map(read, shelf.sources.values()))


def _bronze_changes(shelf: Shelf, arrivals: Sequence[Arrivals]) -> dict[str, TableChange]:
    """The bronze tables whose files change, also by datasets that are gone."""
    changes: dict[str, TableChange] = {}
    names = {name for name in shelf.snapshot.tables if name.startswith(BRONZE)} | {a.table for a in arrivals}
    for table in sorted(names):
        mine = [found for found in arrivals if found.table == table]
        files = [file for found in mine for file in found.after]
        before = shelf.ledger.files(shelf.snapshot, table)
        if {file.path for file in files} != {
            file.path for file in before
        } or table not in shelf.snapshot.tables:
            lines = sum(shelf.book(found.source.dataset).totals()["lines in"] for found in mine)
            changes[table] = TableChange(contract=contract_of(table), files=files, rows_in=lines)
    return changes


def bring_up_to_date(
    settings: SparkSettings,
    warehouse: Place,
    report: Callable[[int, int], None],
    *,
    full_refresh: bool = False,
) -> list[dict[str, Any]]:
    """Open a session, run the pipeline of a warehouse, and return the rows of its `summary`."""
    flows: dict[str, str] = {}

    def progress(flow: str, state: str) -> None:
        flows[flow] = state
        report(sum(state == "COMPLETED" for state in flows.values()), len(flows))

    try:
        if full_refresh or not _is_up_to_date(warehouse):
            with open_session(settings) as spark:
                failed, _ = _update_tables(spark, warehouse, progress, full_refresh=full_refresh)
            if failed:
                raise FilesFailedError(failed)
    except FilesFailedError as error:
        error.summary = summary_rows(warehouse)
        raise
    return summary_rows(warehouse)


def _is_up_to_date(warehouse: Place) -> bool:
    """Whether a run has nothing to do, so that Spark need not start: no file waits, no rule has changed, no dataset was
    removed, and no records are read in place.

    Raises `FilesFailedError` as a run does.
    """
    from roamq.pipeline.derive import recipe_of

    shelf = Shelf.of(warehouse)
    summary = shelf.ledger.read(shelf.snapshot, "summary")
    made = set(summary.column("dataset").to_pylist()) if summary is not None else set()
    if not shelf.sources or not made <= set(shelf.sources):
        return False
    for source in shelf.sources.values():
        in_place = SCHEME.match(source.path) or source.trace_format().read is not None
        if in_place or source.recipe != recipe_of(source):
            return False
        if any(entry.state in (LANDED, LEAVING) for entry in shelf.book(source.dataset)):
            return False
    failed = [entry for name in shelf.sources for entry in shelf.book(name) if entry.state == FAILED]
    if failed:
        raise FilesFailedError(failed)
    return True


def summary_rows(warehouse: Place) -> list[dict[str, Any]]:
    """How many rows each table has for each dataset."""
    ledger = Ledger(Store.at(warehouse))
    rows = ledger.read(ledger.latest(), "summary")
    found = rows.to_pylist() if rows is not None else []
    return sorted(found, key=lambda row: (row["dataset"], row["layer"], row["name"]))


def look_at(
    settings: SparkSettings,
    warehouse: Place,
    table: str | None,
    *,
    where: str | None = None,
    order_by: str | None = None,
    rows: int = 20,
    count: bool = False,
    version: int | None = None,
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The first rows of a table with its columns, or how many there are; without a table, the tables there are."""
    from pyspark.errors import AnalysisException, ParseException

    ledger = Ledger(Store.at(warehouse))
    snapshot = ledger.latest() if version is None else ledger.at(version)
    known = {name: about(name) for name in table_names(snapshot)}
    if not known:
        raise ConfigError(f"{warehouse} holds no tables: `roamq pipeline run` makes them")
    if table is None:
        return ["table", "what it holds"], sorted(known.items())
    if table not in known:
        raise ConfigError(f"there is no table {table!r}; there are {', '.join(sorted(known))}")
    with open_session(settings) as spark:
        open_tables(spark, warehouse, version)
        try:
            frame = spark.read.table(table)
            if where:
                frame = frame.where(where)
            if count:
                return ["rows"], [(frame.count(),)]
            if order_by:
                frame = frame.orderBy(*(_order(part) for part in order_by.split(",")))
            return list(frame.columns), [tuple(row) for row in frame.limit(rows).collect()]
        except (AnalysisException, ParseException) as error:
            raise ConfigError(f"table {table}: {reason_of(error)}") from error


def _order(text: str) -> "Column":
    """`name`, `name asc` or `name desc` as a sort order."""
    from pyspark.sql import functions as F

    name, _, direction = text.strip().partition(" ")
    return F.desc(name) if direction.strip().lower() == "desc" else F.asc(name)
