"""Tables with versions: every table is a Delta table, and a ledger says which versions belong together.

A run writes Parquet files that nobody reads yet. Then it enters them in the logs of their tables, and at last the
ledger, a Delta table as well, names the new version of every table: that commit makes the whole run count. Each commit
creates the next file of a log and is refused where it exists. So readers find the tables of one run or of the next, a
run that dies changes nothing, and of two runs at once the later one is told to begin anew (docs/decisions/0120).
"""

import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from roamq import __version__
from roamq.core.errors import ConfigError, RoamqError
from roamq.pipeline.schemas import arrow_schema
from roamq.pipeline.store import Store, delta_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.fs import FileInfo

LEDGER: Final = "ledger"
LEDGER_COLUMNS: Final = "table string, version bigint, rows_in bigint, rows_out bigint, changed bigint"
FORMAT: Final = 1
"""Of the tables of a warehouse, the ledger and the books among them: each commit of the ledger says it, and which
release made it. Those of releases that did not say it are of the same format."""
FORMAT_KEY: Final = "roamq.warehouse"
RELEASE_KEY: Final = "roamq.release"
LOOKED_BACK: Final = 10
"""Commits of the ledger's log; those that delete old files say no format."""
FOOTERS_AT_ONCE: Final = 16
LONGEST_REASON: Final = 400


class ConflictError(RoamqError):
    """Another run has changed the warehouse since this one looked at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file of a table."""

    path: str
    """Within the table's folder."""
    size: int
    rows: int
    first: str | None = None
    last: str | None = None
    """The first and the last dataset in it, by name; None: unknown."""

    def may_hold(self, datasets: Iterable[str]) -> bool:
        if self.first is None or self.last is None:
            return True
        return any(self.first <= dataset <= self.last for dataset in datasets)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What the ledger says of a table."""

    version: int
    rows_in: int = 0
    rows_out: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of all tables."""

    number: int = -1
    """The version of the ledger; -1: nothing was ever committed."""
    tables: Mapping[str, TableState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """The files that a table is to have, and its books."""

    contract: str
    files: Sequence[DataFile]
    rows_in: int = 0


@dataclass(frozen=True, slots=True)
class Ledger:
    """The versions of a warehouse. Whoever looks at one of a newer format gets a `ConfigError`."""

    store: Store

    def latest(self) -> Snapshot:
        table = self._open_latest()
        return Snapshot() if table is None else self._snapshot(table)

    def at(self, number: int) -> Snapshot:
        """An older version; raises `ConfigError` where it is not there (any more)."""
        self._open_latest()
        try:
            table = self._open(LEDGER, number)
            if table is not None:
                return self._snapshot(table)
        except (ConfigError, OSError):
            pass
        raise ConfigError(f"{self.store.place} has no version {number}; `roamq pipeline versions` lists them")

    def versions(self) -> list[dict[str, Any]]:
        """The versions that can be read, the latest first: number, time in seconds, and what was done."""
        table = self._open_latest()
        if table is None:
            return []
        return [
            {"version": entry["version"], "time_s": entry["timestamp"] / 1000, "what": entry.get("what", "")}
            for entry in table.history()
        ]

    def files(self, snapshot: Snapshot, table: str) -> list[DataFile]:
        """The files of a table in one version."""
        state = snapshot.tables.get(table)
        if state is None:
            return []
        found = self._open(table, state.version)
        if found is None:
            raise self._damaged(f"{table}/_delta_log")
        return _files_in(found)

    def _damaged(self, relative: str) -> ConfigError:
        return ConfigError(
            f"{self.store.within(relative)} is gone, and the tables need it: put it back from a copy, or read the "
            "traces into another --warehouse"
        )

    def read(self, snapshot: Snapshot, table: str) -> "pa.Table | None":
        """A small table, whole; None where it has no files."""
        return self.rows(table, self.files(snapshot, table))

    def rows(
        self, table: str, files: Iterable[DataFile], columns: list[str] | None = None
    ) -> "pa.Table | None":
        """The rows of some files of a table; None where there are no files."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        parts = []
        for file in files:
            try:
                with self.store.open_to_read(f"{table}/{file.path}") as source:
                    parts.append(pq.read_table(source, columns=columns))
            except FileNotFoundError as error:
                raise self._damaged(f"{table}/{file.path}") from error
        # Spark writes a column that cannot be null as such, and another run of the same query may not know it.
        return pa.concat_tables(parts, promote_options="default") if parts else None

    def write(self, table: str, rows: "pa.Table", dataset: str | None = None) -> DataFile:
        """Write a small table as a file that counts when a commit names it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path, buffer = f"{secrets.token_hex(8)}.parquet", pa.BufferOutputStream()
        pq.write_table(rows, buffer, compression="zstd")
        content = buffer.getvalue()
        with self.store.open_to_write(f"{table}/{path}") as sink:
            sink.write(content)
        return DataFile(path=path, size=content.size, rows=rows.num_rows, first=dataset, last=dataset)

    def written(self, table: str, folder: str) -> list[DataFile]:
        """The files that Spark wrote to a folder within a table's folder, by their footers."""
        found = [info for info in self.store.files(f"{table}/{folder}") if info.path.endswith(".parquet")]
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            files = pool.map(lambda info: self._by_footer(table, info), found)
            return sorted((file for file in files if file.rows), key=lambda file: file.path)

    def _by_footer(self, table: str, info: "FileInfo") -> DataFile:
        import pyarrow.parquet as pq

        with self.store.open_to_read(info.path) as source:
            footer = pq.read_metadata(source)
        path, names = info.path.removeprefix(f"{table}/"), footer.schema.names
        file = DataFile(path=path, size=info.size, rows=footer.num_rows)
        if "dataset" not in names:
            return file
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        told = [group.column(names.index("dataset")).statistics for group in groups]
        if not told or not all(found is not None and found.has_min_max for found in told):
            return file
        return replace(file, first=min(found.min for found in told), last=max(found.max for found in told))

    def commit(self, base: Snapshot, changes: Mapping[str, TableChange], what: str) -> Snapshot:
        """Give tables new files, all at once. Raises `ConflictError` if another run committed since `base`."""
        import pyarrow as pa

        tables = dict(base.tables)
        for name, change in changes.items():
            before = tables.get(name, TableState(version=-1))
            rows = sum(file.rows for file in change.files)
            tables[name] = TableState(
                version=self._enter(name, change),
                rows_in=change.rows_in,
                rows_out=rows,
                changed=rows - before.rows_out,
            )
        rows = pa.Table.from_pylist(
            [{"table": name, **asdict(state)} for name, state in sorted(tables.items())],
            schema=arrow_schema(LEDGER_COLUMNS),
        )
        file = self.write(LEDGER, rows)
        number = self._enter(
            LEDGER, TableChange(contract=LEDGER_COLUMNS, files=[file]), base=base.number, what=what
        )
        return Snapshot(number, tables)

    def _enter(self, name: str, change: TableChange, *, base: int | None = None, what: str = "") -> int:
        """Commit to the log of one table that it has these files and no others; returns the version.

        What the log says beyond the ledger is of a run that died: the difference to that is committed. With `base`, the
        log must not be any further.
        """
        from deltalake import CommitProperties, Schema
        from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

        schema = Schema.from_arrow(arrow_schema(change.contract))
        table = self._open(name)
        now = int(time.time() * 1000)
        if base is not None and base != (-1 if table is None else table.version()):
            raise ConflictError(f"{self.store.place} was changed by another run")
        have = {} if table is None else {file.path: file for file in _files_in(table)}
        want = {file.path: file for file in change.files}
        adds = [
            AddAction(path, file.size, {}, now, True, _stats(file))
            for path, file in want.items()
            if path not in have
        ]
        # Without retries: of two runs that commit to one version, also to the first, one is refused.
        told = {"what": what, FORMAT_KEY: str(FORMAT), RELEASE_KEY: __version__}
        once = CommitProperties(custom_metadata=told, max_commit_retries=0)
        with self._refusals():
            if table is None:
                uri = self.store.for_delta(name)
                create_table_with_add_actions(
                    uri,
                    schema,
                    adds,
                    mode="error",
                    storage_options=delta_options(os.environ),
                    commit_properties=once,
                )
                return 0
            removes = [
                RemoveAction(path, True, now, file.size, {})
                for path, file in have.items()
                if path not in want
            ]
            if not adds and not removes and base is None:
                return table.version()
            version = table.version() + 1
            table.create_write_transaction([*adds, *removes], "append", schema, commit_properties=once)
            return version

    @contextmanager
    def _refusals(self) -> "Iterator[None]":
        from deltalake.exceptions import CommitFailedError, DeltaError

        try:
            yield
        except (DeltaError, OSError) as error:
            if isinstance(error, CommitFailedError) or "already exists" in str(error):
                raise ConflictError(f"{self.store.place} was changed by another run") from error
            raise ConfigError(f"{self.store.place} cannot be written: {_told_by(error)}") from error

    def expire(self, snapshot: Snapshot, keep_hours: int) -> int:
        """Delete files that no version needs any more that is younger than `keep_hours`; returns how many."""
        deleted = 0
        for name, state in (*snapshot.tables.items(), (LEDGER, TableState(version=snapshot.number))):
            table = self._open(name)
            if table is None or table.version() != state.version:
                continue  # a run is committing, or died while it did: the next commit mends that
            deleted += len(
                table.vacuum(keep_hours, dry_run=False, enforce_retention_duration=False, full=True)
            )
        return deleted

    def _snapshot(self, table: "DeltaTable") -> Snapshot:
        rows = self.rows(LEDGER, _files_in(table))
        assert rows is not None, "every version of the ledger is one file"
        return Snapshot(table.version(), {row.pop("table"): TableState(**row) for row in rows.to_pylist()})

    def _open_latest(self) -> "DeltaTable | None":
        """The ledger as it is now, if this release knows what its tables mean."""
        table = self._open(LEDGER)
        commits = [] if table is None else table.history(LOOKED_BACK)
        told = next((entry for entry in commits if FORMAT_KEY in entry), {})
        if int(told.get(FORMAT_KEY, FORMAT)) > FORMAT:
            raise ConfigError(
                f"{self.store.place} is of format {told[FORMAT_KEY]}, written by release "
                f"{told.get(RELEASE_KEY, 'unknown')}, and this release reads up to {FORMAT}: upgrade RoamQ here, or "
                "name another --warehouse"
            )
        return table

    def _open(self, name: str, version: int | None = None) -> "DeltaTable | None":
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        if self.store.is_local and not self.store.exists(f"{name}/_delta_log"):
            return None
        try:
            options = delta_options(os.environ)
            return DeltaTable(self.store.for_delta(name), version=version, storage_options=options)
        except (DeltaError, OSError) as error:
            if isinstance(error, TableNotFoundError) and "Unknown scheme" not in str(error):
                return None
            raise ConfigError(f"{self.store.within(name)} cannot be read: {_told_by(error)}") from error


def _files_in(table: "DeltaTable") -> list[DataFile]:
    import pyarrow as pa

    return [
        DataFile(
            path=row["path"],
            size=row["size_bytes"],
            rows=row["num_records"] or 0,
            first=row.get("min.dataset"),
            last=row.get("max.dataset"),
        )
        for row in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ]


def _told_by(error: Exception) -> str:
    """What delta-rs says, in a line: its causes are lines of their own, with arrows in colours."""
    lines = re.sub(r"\x1b\[\d*m|↳", "", str(error)).splitlines()
    return ": ".join(line.strip() for line in lines if line.strip())[:LONGEST_REASON]


def _stats(file: DataFile) -> str:
    told: dict[str, Any] = {"numRecords": file.rows}
    if file.first is not None and file.last is not None:
        told |= {"minValues": {"dataset": file.first}, "maxValues": {"dataset": file.last}}
    return json.dumps(told)
