"""Upkeep of a warehouse without Spark: what its books say, which files to read once more, what to remove."""

from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from roamq.core.errors import ConfigError
from roamq.pipeline.books import FAILED, LANDED, LEAVING, Book, FileEntry, Shelf, TraceSource
from roamq.pipeline.input_files import ARCHIVES
from roamq.pipeline.landing import LANDING, committed, land
from roamq.pipeline.ledger import Ledger
from roamq.pipeline.store import SCHEME, Place, Store
from roamq.pipeline.warehouse import require_warehouse, table_names


def files_of(warehouse: Place) -> list[dict[str, Any]]:
    """One row per file that landed: its state and its books."""
    require_warehouse(warehouse)
    shelf = Shelf.of(warehouse)
    return [
        {
            "dataset": dataset,
            "file": entry.name,
            "state": entry.state,
            "lines": entry.lines,
            "rows": entry.rows,
            "quarantined": entry.quarantined,
            "headers and blank": entry.skipped,
            "balances": entry.balances,
            "reason": entry.reason,
            "source": entry.origin,
        }
        for dataset in shelf.sources
        for entry in shelf.book(dataset)
    ]


def all_quarantined(warehouse: Place) -> list[str]:
    """The files of which not a single line was a row: they may be of another format than was said."""
    return [row["file"] for row in files_of(warehouse) if row["quarantined"] and not row["rows"]]


def tables_of(warehouse: Place) -> list[dict[str, Any]]:
    """One row per table: rows in, out and changed in the run that changed it last."""
    snapshot = Ledger(Store.at(warehouse)).latest()
    return [
        {"table": name, "rows in": state.rows_in, "rows out": state.rows_out, "changed": state.changed}
        for name in table_names(snapshot)
        if (state := snapshot.tables[name])
    ]


def retry_failed(warehouse: Place) -> list[str]:
    """Mark the files that failed as not read yet, and land them again where their source is still there."""
    require_warehouse(warehouse)
    names: list[str] = []

    def retry(shelf: Shelf) -> str:
        names.clear()
        for source in shelf.sources.values():
            book, trace_format = shelf.book(source.dataset), source.trace_format()
            failed = [entry for entry in book if entry.state == FAILED]
            names.extend(entry.name for entry in failed)
            for origin, entries in groupby(sorted(failed, key=_origin), key=_origin):
                if trace_format.read is None and Path(origin).is_file():
                    _land_again(shelf, source, list(entries))
                    continue
                for entry in entries:
                    if trace_format.read is not None or SCHEME.match(origin):
                        del book.entries[entry.path]  # the run finds it again where it lies
                    elif entry.path != origin:
                        book.put(replace(entry, state=LANDED, reason=""))  # the copy is all there is
        return f"{len(names)} failed files are to be read once more" if names else ""

    committed(warehouse, retry)
    return names


def _origin(entry: FileEntry) -> str:
    return entry.origin


def _land_again(shelf: Shelf, source: TraceSource, failed: list[FileEntry]) -> None:
    """Land a source of which files failed. Those that fail again, or of which nothing changed, stay as they are."""
    book, trace_format = shelf.book(source.dataset), source.trace_format()
    origin = Path(failed[0].origin)
    for entry in failed:
        del book.entries[entry.path]
    reason = ""
    try:
        land(
            str(origin),
            shelf,
            source.dataset,
            name=origin.name if origin.name.lower().endswith(ARCHIVES) else failed[0].name,
            client_in_name=trace_format.client_in_name,
            encoding=source.rules(trace_format.rules).encoding,
        )
    except ConfigError as error:
        reason = str(error)
    status = origin.stat()
    have = {entry.name for entry in book if entry.origin == str(origin)}
    for entry in failed:
        is_as_before = (entry.origin_bytes, entry.modified_ns) == (status.st_size, status.st_mtime_ns)
        if entry.name not in have and (reason or is_as_before):
            book.put(replace(entry, reason=reason or entry.reason))


def remove_what(warehouse: Place, what: str) -> str:
    """Give up a dataset, or a file of one; the next run takes its rows out. Returns what was removed, in words."""
    require_warehouse(warehouse)

    def remove(shelf: Shelf) -> str:
        if what in shelf.sources:
            del shelf.sources[what]
            return f"dataset {what}"
        found = [
            (book, entries)
            for dataset in shelf.sources
            if (entries := _entries_named(book := shelf.book(dataset), what))
        ]
        if not found:
            raise ConfigError(
                f"{what}: no dataset and no file of this name; `roamq pipeline status` lists them"
            )
        if len(found) > 1:
            names = ", ".join(f"{book.dataset}/{what}" for book, _ in found)
            raise ConfigError(f"{what}: several datasets have such a file; choose one of {names}")
        [(book, entries)] = found
        for entry in entries:
            book.put(replace(entry, state=LEAVING))
        return f"{entries[0].name} of dataset {book.dataset} ({sum(entry.rows for entry in entries):,} rows)"

    return committed(warehouse, remove)


def _entries_named(book: Book, what: str) -> list[FileEntry]:
    return book.named(what) or book.named(what.removeprefix(f"{book.dataset}/"))


def expire(warehouse: Place, keep_days: float) -> int:
    """Delete the files of versions that are older than `keep_days`, and copies that no book names any more; returns
    how many files went.
    """
    from datetime import UTC, datetime, timedelta

    shelf = Shelf.of(warehouse)
    store = shelf.ledger.store
    deleted = shelf.ledger.expire(shelf.snapshot, int(keep_days * 24))
    needed = {entry.path for dataset in shelf.sources for entry in shelf.book(dataset)}
    latest = datetime.now(UTC) - timedelta(days=keep_days)
    for found in store.files(LANDING):
        if found.path not in needed and found.mtime is not None and found.mtime < latest:
            store.delete(found.path)
            deleted += 1
    return deleted
