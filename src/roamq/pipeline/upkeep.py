"""Upkeep of a warehouse without Spark: what its books say, which files to read once more, what to remove."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from roamq.core.errors import ConfigError
from roamq.pipeline.books import FAILED, LANDED, LEAVING, Book, FileEntry, Shelf
from roamq.pipeline.input_files import ARCHIVES
from roamq.pipeline.landing import LANDING, committed, land
from roamq.pipeline.ledger import Ledger
from roamq.pipeline.store import Place, Store
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
            for entry in failed:
                if not entry.path.startswith(f"{LANDING}/") or Path(entry.origin).exists():
                    del book.entries[entry.path]
                else:
                    book.put(replace(entry, state=LANDED, reason=""))
            if trace_format.read is None:
                rules = source.rules(trace_format.rules)
                for origin, name in sorted({(entry.origin, entry.name) for entry in failed}):
                    if Path(origin).exists():
                        member = Path(origin).name.lower().endswith(ARCHIVES)
                        land(
                            origin,
                            shelf,
                            source.dataset,
                            name=None if member else name,
                            client_in_name=trace_format.client_in_name,
                            encoding=rules.encoding,
                        )
        return f"{len(names)} failed files are to be read once more" if names else ""

    committed(warehouse, retry)
    return names


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
        if store.relative(found) not in needed and found.mtime is not None and found.mtime < latest:
            store.delete(store.relative(found))
            deleted += 1
    return deleted
