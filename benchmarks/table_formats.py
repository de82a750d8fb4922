"""Table formats side by side: commits of files that lie there already, refused conflicts, and the list of files.

    python -m benchmarks table_formats --commits 200

Delta by delta-rs; Iceberg by pyiceberg with its catalog in SQLite, where it is installed; Parquet with a manifest per
version, which is put in place by a hard link. Each commit adds one file. Then two writers that began at one version
commit after each other: the later one is refused, or is put on top of the other by the library.
"""

import argparse
import importlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from roamq.pipeline.ledger import ConflictError, DataFile, Ledger, TableChange
from roamq.pipeline.store import Store

COLUMNS = "dataset string, value bigint"
SCHEMA = pa.schema([("dataset", pa.string()), ("value", pa.int64())])

Commit = Callable[[Any, DataFile], None]
"""Add a file on top of a version that was opened before."""


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks table_formats", description=__doc__)
    parser.add_argument("--commits", type=int, default=200)
    options = parser.parse_args(argv)
    results: dict[str, object] = {}
    for name, make in (("delta-rs", delta), ("pyiceberg", iceberg), ("manifest", manifest)):
        folder = Path(tempfile.mkdtemp(prefix="roamq-formats-"))
        try:
            opened, commit, files = make(folder)
        except ImportError as error:
            print(f"{name:>12}  not installed: {error}")
            continue
        try:
            began = time.perf_counter()
            for number in range(options.commits):
                commit(opened(), data_file(folder, number))
            per_commit = (time.perf_counter() - began) / options.commits
            began = time.perf_counter()
            listed = len(files())
            to_list = time.perf_counter() - began
            refused = is_refused(folder, opened, commit, options.commits)
        finally:
            shutil.rmtree(folder)
        results[name] = {
            "commit_ms": per_commit * 1e3,
            "list_ms": to_list * 1e3,
            "files": listed,
            "refused": refused,
        }
        print(
            f"{name:>12}  {per_commit * 1e3:6.1f} ms a commit  {to_list * 1e3:6.1f} ms to list {listed} files  "
            f"the later of two writers is {'refused' if refused else 'put on top'}",
            flush=True,
        )
    return results


def data_file(folder: Path, number: int) -> DataFile:
    path = folder / "table" / f"{number}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist([{"dataset": "d", "value": number}], schema=SCHEMA), path)
    return DataFile(path=path.name, size=path.stat().st_size, rows=1, first="d", last="d")


def is_refused(folder: Path, opened: Callable[[], Any], commit: Commit, number: int) -> bool:
    first, second = opened(), opened()
    commit(first, data_file(folder, number))
    try:
        commit(second, data_file(folder, number + 1))
    except Exception:
        return True
    return False


Format = tuple[Callable[[], Any], Commit, Callable[[], list[Any]]]
"""Open the latest version, commit on top of a version, list the files."""


def delta(folder: Path) -> Format:
    """As the pipeline does it: the log of the table, then the ledger over all tables."""
    ledger = Ledger(Store.at(folder))

    def commit(base: Any, file: DataFile) -> None:
        files = [*ledger.files(base, "table"), file]
        ledger.commit(base, {"table": TableChange(contract=COLUMNS, files=files)}, "a file")

    return ledger.latest, commit, lambda: ledger.files(ledger.latest(), "table")


def iceberg(folder: Path) -> Format:
    sql = importlib.import_module("pyiceberg.catalog.sql")  # no dependency of ours

    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    catalog.create_table("n.t", schema=SCHEMA)

    def commit(table: Any, file: DataFile) -> None:
        table.add_files([f"file://{folder}/table/{file.path}"], check_duplicate_files=False)

    def files() -> list[Any]:
        return list(catalog.load_table("n.t").scan().plan_files())

    return lambda: catalog.load_table("n.t"), commit, files


def manifest(folder: Path) -> Format:
    """One JSON file per version with the list of all files."""

    def latest() -> tuple[int, list[str]]:
        numbers = [int(path.stem) for path in folder.glob("*.json")]
        number = max(numbers, default=-1)
        return number, json.loads((folder / f"{number}.json").read_text()) if number >= 0 else []

    def commit(base: Any, file: DataFile) -> None:
        number, files = base
        draft = folder / f"draft-{os.getpid()}"
        draft.write_text(json.dumps([*files, file.path]))
        try:
            os.link(draft, folder / f"{number + 1}.json")
        except FileExistsError:
            raise ConflictError("overtaken") from None

    return latest, commit, lambda: latest()[1]
