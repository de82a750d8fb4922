"""Derive: make of every derived table what changed, and keep the rest.

A dataset is *whole* if everything of it is made anew: at first, after a change of rules or code, or where much of it
changed. It changed *in part* if rows of some clients came or left: then keys that those rows touch are made anew. A
table is written in one job: new rows, and the kept rows of files that hold changed datasets. Files without changed
datasets stay as they are (docs/decisions/0121).
"""

import dataclasses
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.arrivals import Arrivals, PipelineFailedError, bare_url, read_files, reason_of
from roamq.pipeline.books import Shelf, TraceSource
from roamq.pipeline.definitions import Scope, TableQuery, derived_tables
from roamq.pipeline.definitions.silver import changed_clients, has_clients, holes
from roamq.pipeline.definitions.table import MANY_KEYS, PLACE, is_not, union
from roamq.pipeline.jobs import code_digest, file_digest
from roamq.pipeline.ledger import DataFile, TableChange
from roamq.pipeline.schemas import BRONZE, DERIVED, TABLE_SUMMARY, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES_AT_ONCE: Final = 4
"""Spark plans one table while it computes another."""
MUCH: Final = 0.3
"""If more than this share of a dataset's rows came, or of its clients changed, all of it is made anew, which costs
less."""
COUNTED_CLIENTS: Final = 100
"""If more clients changed, a run counts how many of all they are."""
FILES_MAX: Final = 48
"""Runs add files to silver tables; a run that finds so many more than a full run makes writes the tables anew."""
SILVER_SHARE: Final = 512
"""A file of a silver table holds at most this part of as many rows as there are lines. Rows of a client lie together:
few changed clients meet few files, and the others stay as they are."""
SILVER_ROWS: Final = 1 << 14
"""It may hold so many rows, however few lines there are: smaller files cost more to open than to copy."""
FEW_ROWS: Final = 1 << 20
"""So many rows are read by one task: what is made of them then needs no exchange between tasks, and one stage only."""
FEW_LINES: Final = 1 << 16
"""The same for bronze rows, which cost more each."""
EXCHANGED_ROWS: Final = 4_000_000
"""Rows behind one partition of an exchange, where datasets changed in part: few of them are exchanged."""
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
SILVER: Final = ("sojourns", "moves", "durations", "publications", "deliveries", "traffic")
NOT_DERIVING: Final = frozenset(
    {
        "broker",
        "cli",
        "core",
        "fieldtest",
        "geo",
        "manet",
        "net",
        "overlay",
        "report",
        "reproduce",
        "schemes",
        "sim",
    }
)
"""Packages whose code does not change what is derived."""

Progress = Callable[[str, str], None]


def recipe_of(source: TraceSource) -> str:
    """What decides the derived rows of a dataset apart from its files: its rules, places that they name, our code."""
    rules = source.rules()
    kind, _, places = rules.sites.partition(":")
    decisive = [
        *(source.format, source.mapping, dataclasses.asdict(rules), code_digest(NOT_DERIVING)),
        file_digest(Path(places)) if kind == "nearest" else "",
    ]
    text = json.dumps(decisive, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def derive(
    spark: "SparkSession",
    shelf: Shelf,
    arrivals: Sequence[Arrivals],
    recipes: dict[str, str],
    report: Progress,
    *,
    again: bool = False,
) -> tuple[dict[str, TableChange], set[str]]:
    """The changes of all derived tables, none where nothing changed; and the tables that are views of the session now,
    as they will be when the run has committed: those that others were made of.
    """
    scope, gone = _scope(spark, shelf, arrivals, recipes, again=again)
    tables = derived_tables(scope.sources) if scope.sources else []
    superfluous = {
        name: TableChange(contract=DERIVED[name].contract, files=[])
        for name in shelf.snapshot.tables
        if name in DERIVED and name not in {table.name for table in tables} | {"summary"}
    }
    if not scope.whole and not scope.partly and not gone:
        return superfluous, set()
    for found in arrivals:
        _enter(
            spark,
            shelf,
            found.table,
            [f for other in arrivals if other.table == found.table for f in other.after],
        )
    for found in arrivals:
        dataset = found.source.dataset
        if dataset in scope.partly and has_clients(found.source) and _other_holes(scope, found):
            scope.partly.discard(dataset)  # a hole that opened or closed concerns every client
            scope.whole.add(dataset)
    clients = changed_clients(scope) if scope.partly else None
    try:
        if clients is not None:
            scope.clients = scope.keep(clients)  # every table asks for them
            _look_at_clients(scope)
        with _exchanging(spark, None if scope.whole else _partitions(shelf)):
            made = _make_tables(shelf, scope, gone, tables, report)
    finally:
        scope.forget()
    for dataset in scope.whole:
        shelf.sources[dataset] = dataclasses.replace(shelf.sources[dataset], recipe=recipes[dataset])
    opened = {found.table for found in arrivals} | (made.keys() & {name for t in tables for name in t.reads})
    return superfluous | _with_summary(shelf, arrivals, tables, made), opened


def _scope(
    spark: "SparkSession", shelf: Shelf, arrivals: Sequence[Arrivals], recipes: dict[str, str], *, again: bool
) -> tuple[Scope, set[str]]:
    """What has to be made, and the datasets of which nothing may stay."""
    whole, partly = set(), set()
    for found in arrivals:
        source = found.source
        lines = sum(file.rows for file in found.after)
        much = sum(file.rows for file in found.came) > MUCH * lines
        # Tables of records are made row by row and have no key by which rows could leave.
        by_row = source.format == "records" and bool(found.left)
        if again or source.recipe != recipes[source.dataset] or (found.changed and (much or by_row)):
            whole.add(source.dataset)
        elif found.changed:
            partly.add(source.dataset)
    by_name = {found.source.dataset: found for found in arrivals}
    store = shelf.ledger.store

    def old(table: str) -> DataFrame:
        return _read(spark, shelf, table, shelf.ledger.files(shelf.snapshot, table))

    def came(source: TraceSource) -> DataFrame:
        found = by_name[source.dataset]
        return _read(spark, shelf, found.table, found.came)

    def left(source: TraceSource) -> DataFrame | None:
        found = by_name[source.dataset]
        if not found.left:
            return None
        return read_files(spark, store, found.table, found.left).where(F.col("file").isin(*found.urls_left))

    scope = Scope(
        spark,
        [found.source for found in arrivals],
        whole,
        partly,
        old,
        came,
        left,
        {name: found.urls for name, found in by_name.items()},
        {name: shelf.book(name).line_shifts() for name in by_name},
        faultless={name for name in by_name if _is_faultless(shelf, name)},
        file_rows=max(SILVER_ROWS, sum(file.rows for f in arrivals for file in f.after) // SILVER_SHARE),
    )
    known = shelf.ledger.read(shelf.snapshot, "summary")
    summary = known.to_pylist() if known is not None else []
    scope.sites = {row["dataset"]: row["rows"] for row in summary if row["name"] == "sites"}
    return scope, {row["dataset"] for row in summary} - set(by_name)


def _partitions(shelf: Shelf) -> int:
    """How many partitions an exchange needs that takes all rows of a silver table at most."""
    rows = [shelf.snapshot.tables[name].rows_out for name in SILVER if name in shelf.snapshot.tables]
    return 1 + max(rows, default=0) // EXCHANGED_ROWS


@contextmanager
def _exchanging(spark: "SparkSession", partitions: int | None) -> Iterator[None]:
    """Tasks exchange rows in so many partitions at most."""
    usual = str(spark.conf.get(SHUFFLE_PARTITIONS))
    if partitions is None or int(usual) <= partitions:
        yield
        return
    spark.conf.set(SHUFFLE_PARTITIONS, str(partitions))
    try:
        yield
    finally:
        spark.conf.set(SHUFFLE_PARTITIONS, usual)


def _is_faultless(shelf: Shelf, dataset: str) -> bool:
    """Whether no line of a dataset is or was in quarantine."""
    held = any(file.may_hold([dataset]) for file in shelf.ledger.files(shelf.snapshot, "quarantine"))
    return not held and not shelf.book(dataset).totals()["quarantined"]


def _other_holes(scope: Scope, found: Arrivals) -> bool:
    return holes(scope.old(found.table), found.source) != holes(scope.new(found.table), found.source)


def _look_at_clients(scope: Scope) -> None:
    """Name the changed clients where they are few. Where many of a dataset's clients changed, make it whole: to correct
    everything costs more than to make it.
    """
    assert scope.clients is not None, "datasets changed in part"
    few = scope.clients.limit(MANY_KEYS + 1).collect()
    if few and len(few) <= MANY_KEYS and all(row.client is not None for row in few):
        datasets = {row.dataset for row in few}
        scope.names = {name: sorted(r.client for r in few if r.dataset == name) for name in datasets}
    if len(few) <= COUNTED_CLIENTS:
        return
    for row in scope.clients.groupBy("dataset").count().collect():
        known = scope.old("sojourns").where(F.col("dataset") == row.dataset).select("client").distinct()
        if row["count"] > MUCH * known.count():
            scope.partly.discard(row.dataset)
            scope.whole.add(row.dataset)


def _make_tables(
    shelf: Shelf, scope: Scope, gone: set[str], tables: Sequence[TableQuery], report: Progress
) -> dict[str, list[DataFile]]:
    """Write every table when those that it reads are written, a few at once; returns their files."""
    waiting = list(tables)
    names = {table.name for table in tables}
    made: dict[str, list[DataFile]] = {}
    running: dict[Future[list[DataFile]], str] = {}
    with ThreadPoolExecutor(TABLES_AT_ONCE, thread_name_prefix="table") as pool:
        while waiting or running:
            ready = [table for table in waiting if names.isdisjoint(set(table.reads) - made.keys())]
            for table in ready[: TABLES_AT_ONCE - len(running)]:
                waiting.remove(table)
                report(table.name, "RUNNING")
                running[pool.submit(_make, shelf, scope, gone, table)] = table.name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                if error := future.exception():
                    report(name, "FAILED")
                    scope.spark.interruptAll()
                    why = f"{reason_of(error)}{shelf.ledger.store.why_full()}"
                    raise PipelineFailedError(f"table {name}: {why}") from error
                made[name] = future.result()
                scope.rows[name] = sum(file.rows for file in made[name])
                if any(name in table.reads for table in waiting):
                    _enter(scope.spark, shelf, name, made[name])
                report(name, "COMPLETED")
    return made


def _make(shelf: Shelf, scope: Scope, gone: set[str], table: TableQuery) -> list[DataFile]:
    """The files of a table: new ones, and those that stay."""
    mine = {source.dataset for source in scope.touched if table.concerns(source)} - table.idle(scope)
    changed = (mine - scope.partly if table.appends else mine) | gone
    before = shelf.ledger.files(shelf.snapshot, table.name)
    staying = [file for file in before if not file.may_hold(changed)]
    rewritten = [file for file in before if file.may_hold(changed)]
    if not table.by_client:
        is_changed = table.changed(scope) if scope.partly & mine else None
        frames = [table.query(scope)] if mine else []
        return [
            *staying,
            *_write(shelf, table, frames + _kept(shelf, scope, gone, table, mine, rewritten, is_changed)),
        ]
    made = _write(shelf, table, [table.query(scope)] if mine else [], scope.file_rows)
    fresh = _read(scope.spark, shelf, table.name, made)
    scope.fresh[table.name] = scope.named(f"fresh_{table.name}", fresh)
    if scope.partly & mine:
        held = _holding(shelf, scope, table, rewritten)
        usual = sum(file.rows for file in rewritten) // scope.file_rows
        if len(rewritten) <= FILES_MAX + 2 * usual:
            touched = [file for file in rewritten if file in held or file.may_hold(changed - scope.partly)]
            staying += [file for file in rewritten if file not in touched]
            rewritten = touched
    rest = _kept(shelf, scope, gone, table, mine, rewritten)
    return [*staying, *made, *_write(shelf, table, rest, scope.file_rows)]


def _holding(shelf: Shelf, scope: Scope, table: TableQuery, files: Sequence[DataFile]) -> list[DataFile]:
    """The files that hold rows of changed clients; the scope remembers those rows."""
    if table.past is not None:
        if "sojourns" not in scope.past:
            return []  # clients without sojourns have no moves and no durations
        past = scope.keep(table.past(scope.past["sojourns"]))
        scope.past[table.name] = scope.named(f"past_{table.name}", past)
    if not files:
        return []
    rows = read_files(scope.spark, shelf.ledger.store, table.name, files)
    placed = rows.withColumn(PLACE, F.col("_metadata.file_path"))
    mine = scope.of_changed_clients(placed.where(F.col("dataset").isin(*scope.partly)))
    if table.past is None:
        mine = scope.keep(mine if scope.names is None else mine.repartition(1))
    places = [bare_url(row[PLACE]) for row in mine.select(PLACE).distinct().collect()]
    if places and table.past is None:
        scope.past[table.name] = scope.named(f"past_{table.name}", mine.drop(PLACE))
    return [file for file in files if any(place.endswith(f"/{table.name}/{file.path}") for place in places)]


def _write(
    shelf: Shelf, table: TableQuery, frames: Sequence[DataFrame], file_rows: int = 0
) -> list[DataFile]:
    """Write rows as files that count when a commit names them, of `file_rows` at most, or as large as they come."""
    if not frames:
        return []
    folder = secrets.token_hex(6)
    writer = union(frames).write.option("maxRecordsPerFile", file_rows)
    writer.parquet(shelf.ledger.store.for_spark(f"{table.name}/{folder}"))
    return shelf.ledger.written(table.name, folder)


def _kept(
    shelf: Shelf,
    scope: Scope,
    gone: set[str],
    table: TableQuery,
    mine: set[str],
    files: Sequence[DataFile],
    is_changed: Column | None = None,
) -> list[DataFrame]:
    """Of some files the rows of datasets that did not change, and of those that changed in part the other rows."""
    leaving = gone | (mine - scope.partly)
    if is_changed is None and not table.appends and not table.by_client:
        leaving |= mine
    staying = [
        file for file in files if file.first is None or file.first != file.last or file.first not in leaving
    ]
    if not staying:
        return []
    rows = _read(scope.spark, shelf, table.name, staying)
    if leaving:
        rows = rows.where(~F.col("dataset").isin(*leaving))
    if table.by_client and scope.partly & mine:
        return [scope.of_changed_clients(rows, without=True)]
    return [rows if is_changed is None else rows.where(is_not(scope.is_partly & is_changed))]


def _read(spark: "SparkSession", shelf: Shelf, table: str, files: Sequence[DataFile]) -> DataFrame:
    """The rows of some files; few of them as one partition."""
    rows = read_files(spark, shelf.ledger.store, table, files)
    few = FEW_LINES if table.startswith(BRONZE) else FEW_ROWS
    return rows.coalesce(1) if sum(file.rows for file in files) <= few else rows


def _enter(spark: "SparkSession", shelf: Shelf, table: str, files: Sequence[DataFile]) -> None:
    _read(spark, shelf, table, files).createOrReplaceTempView(table)


def _with_summary(
    shelf: Shelf, arrivals: Sequence[Arrivals], tables: Sequence[TableQuery], made: dict[str, list[DataFile]]
) -> dict[str, TableChange]:
    """The changes of the tables, and `summary`, which counts their rows. What the books say arrived must be there."""
    import pyarrow as pa

    counted = {name: rows_by_dataset(shelf, name, files) for name, files in made.items()}
    rows = []
    for found in arrivals:
        dataset = found.source.dataset
        totals = shelf.book(dataset).totals()
        there = {
            "lines in": sum(file.rows for file in found.after),
            "quarantined": counted["quarantine"][dataset],
        }
        for name, number in there.items():
            if number != totals[name]:
                raise PipelineFailedError(
                    f"dataset {dataset}: the books have {totals[name]} {name}, the tables {number}; nothing was changed"
                )
        rows += [
            {"dataset": dataset, "layer": "bronze", "name": name, "rows": number}
            for name, number in totals.items()
            if totals["lines in"]
        ]
    for name, by_dataset in counted.items():
        if name != "quarantine":
            layer = "silver" if name in SILVER else "gold"
            rows += [
                {"dataset": dataset, "layer": layer, "name": name, "rows": number}
                for dataset, number in sorted(by_dataset.items())
            ]
    lines = {found.table: 0 for found in arrivals}
    for found in arrivals:
        lines[found.table] += sum(file.rows for file in found.after)
    sizes = lines | {name: sum(file.rows for file in files) for name, files in made.items()}
    changes = {
        table.name: TableChange(
            contract=DERIVED[table.name].contract,
            files=made[table.name],
            rows_in=sum(sizes.get(read, 0) for read in table.reads),
        )
        for table in tables
    }
    told = pa.Table.from_pylist(rows, schema=arrow_schema(TABLE_SUMMARY))
    summary = [shelf.ledger.write("summary", told)] if rows else []
    return changes | {
        "summary": TableChange(
            contract=TABLE_SUMMARY, files=summary, rows_in=sum(sizes[table.name] for table in tables)
        )
    }


def rows_by_dataset(shelf: Shelf, table: str, files: Sequence[DataFile]) -> Counter[str]:
    """How many rows of each dataset files hold; most files say it themselves."""
    import pyarrow.compute as pc

    counted: Counter[str] = Counter()
    for file in files:
        if file.first is not None and file.first == file.last:
            counted[file.first] += file.rows
            continue
        rows = shelf.ledger.rows(table, [file], ["dataset"])
        assert rows is not None, "one file is read"
        for value in pc.value_counts(rows.column("dataset")).to_pylist():
            counted[value["values"]] += value["counts"]
    return counted
