"""A day of one broker's records: 86,400 files of a second each, read by a run, merged, and read by another.

python -m benchmarks small_files --files 86400
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.pipeline import timed
from roamq.core.records import Record
from roamq.net.ops.records import RecordWriter
from roamq.pipeline.landing import add_source
from roamq.pipeline.ledger import Ledger
from roamq.pipeline.records_in_place import compact
from roamq.pipeline.runner import run_pipeline, warehouse_settings
from roamq.pipeline.session import open_session
from roamq.pipeline.store import Store

ROWS = 20
"""Records in a second of a quiet broker."""


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks small_files", description=__doc__)
    parser.add_argument("--files", type=int, default=86_400)
    options = parser.parse_args(argv)
    work = Path(tempfile.mkdtemp(prefix="roamq-small-files-"))
    try:
        result = measure(work, options.files)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for name, value in result.items():
        print(
            f"{name:>36}  {value:,.1f}" if isinstance(value, float) else f"{name:>36}  {value:,}", flush=True
        )
    return dict(result)


def measure(work: Path, files: int) -> dict[str, float | int]:
    folder = work / "records"
    write_day(folder, files)
    result: dict[str, float | int] = {"files": files, "records": files * ROWS}
    with open_session(warehouse_settings(work / "w", master="local[2]")) as spark:

        def run(name: str) -> int:
            add_source(work / name, str(folder), "records", "live", {})
            run_pipeline(spark, work / name)
            ledger = Ledger(Store.at(work / name))
            assert ledger.latest().tables["bronze_records"].rows_out == files * ROWS
            return len(ledger.files(ledger.latest(), "bronze_records"))

        result["a run over all small files (s)"] = timed(lambda: run("w"))
        result["files in the bronze table"] = run("w")
        result["merging them (s)"] = timed(lambda: compact(folder, older_than_s=0, now_s=time.time() + 1))
        result["merged files"] = len(list(folder.rglob("*.parquet")))
        result["a run after that, nothing new (s)"] = timed(lambda: run("w"))
        result["a run over the merged files (s)"] = timed(lambda: run("again"))
    return result


def write_day(folder: Path, files: int) -> None:
    """One file as a broker writes it, and then copies under the names of the seconds that follow."""
    writer = RecordWriter(folder, "live", "b1", (0, 1), flush_s=60, rows_max=10**6)
    happened = [
        Record(kind="published", time_s=float(n), broker="b1", client="p", origin="b1", sequence=n, count=1)
        for n in range(ROWS)
    ]
    writer.add(0, happened)
    writer.close()
    [first] = folder.rglob("*.parquet")
    content = first.read_bytes()
    for number in range(1, files):
        name = f"b1-{number * ROWS:020d}-{number * ROWS + ROWS - 1:020d}.parquet"
        with os.fdopen(os.open(first.with_name(name), os.O_WRONLY | os.O_CREAT), "wb") as file:
            file.write(content)
