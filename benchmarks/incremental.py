"""What a run costs when little is new: the full run, then 1% more rows, three times, then nothing new.

The first rows that come are of new clients at four sites, so that few keys of gold tables change. The next ones are of
1% of the known clients, who go all over the city, so that nearly all keys change. The last ones are the next hours of
all clients, so that everything changes.

    python -m benchmarks incremental --rows 1000000
    python -m benchmarks incremental --traces ten-million hundred-thousand  # folders of files, made before
    python -m benchmarks incremental --by-table  # what each table costs, in processor seconds
    python -m benchmarks incremental --counts  # Spark's queries, jobs and tasks, and the rows that they read and wrote
    python -m benchmarks incremental --shapes 2 --no-comparison  # the first two kinds of new rows; no table is compared

All in one Spark session. Its virtual machine compiles the code of each kind of run when it meets it first, so every
run is made twice, in two warehouses, and the second time counts; the first time is printed too. With --commands each
run is a command of its own, from the start of Spark to its end. Processor seconds say more where the machine has other
work. At the end every table is compared with that of a run over all files.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks import _event_log
from benchmarks.pipeline import ROW_BYTES, ROWS_PER_FILE, timed
from benchmarks.small_run import processor_s
from roamq.pipeline import derive
from roamq.pipeline.generator import DAY_BEGINS_S, DAY_ENDS_S, MONDAY, City, city_traces, write_city
from roamq.pipeline.landing import add_source
from roamq.pipeline.ledger import Ledger
from roamq.pipeline.runner import run_pipeline, warehouse_settings
from roamq.pipeline.schemas import DERIVED
from roamq.pipeline.session import open_session
from roamq.pipeline.store import Store

SHAPES = ("rows at few sites", "rows everywhere", "next hours of all")


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks incremental", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=0.01, help="how much is added")
    parser.add_argument(
        "--traces", type=Path, nargs=2, help="files at first and files that come later, made before"
    )
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument("--work", type=Path, help="folder for files and tables (default: a temporary one)")
    parser.add_argument("--commands", action="store_true", help="also as commands")
    parser.add_argument(
        "--by-table", action="store_true", help="make one table after the other, and say what each costs"
    )
    parser.add_argument("--counts", action="store_true", help="say what Spark did, by its event log")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="how many kinds of new rows come")
    parser.add_argument("--no-comparison", action="store_true", help="make no tables to compare with")
    options = parser.parse_args(argv)
    work = Path(tempfile.mkdtemp(prefix="roamq-bench-", dir=options.work))
    try:
        result = measure(work, options)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for name, value in result.items():
        print(f"{name:>46}  {value:,.3f}" if isinstance(value, float) else f"{name:>46}  {value}", flush=True)
    return result


def measure(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    first, more = options.traces or (work / "first", work / "more")
    size = sum(file.stat().st_size for file in first.glob("*.csv")) if options.traces else 0
    settings = warehouse_settings(
        work / "w",
        master="local[2]",
        driver_memory=options.driver_memory,
        config={"spark.local.dir": str(work / "spark")}
        | (_event_log.settings(work / "events") if options.counts else {}),
        input_bytes=size or options.rows * ROW_BYTES,
    )
    result: dict[str, Any] = {}
    when: dict[str, tuple[float, float]] = {}
    at_once = 1 if options.by_table else derive.TABLES_AT_ONCE
    with mock.patch.object(derive, "TABLES_AT_ONCE", at_once), open_session(settings) as spark:
        if not options.traces:
            city = City.with_rows(options.rows)
            write_city(spark, city, first, files=max(4, options.rows // ROWS_PER_FILE))
            write_city(spark, City.with_rows(int(options.rows * options.share), seed=2), more, files=1)
        few, later = at_few_sites(more, work / "few"), next_hours(spark, options, work / "later")

        at_table = 0.0

        def told(table: str, state: str) -> None:
            nonlocal at_table
            if state == "COMPLETED":
                print(f"{table:>46}  {processor_s() - at_table:.1f} processor s", flush=True)
            at_table = processor_s()

        def run(what: str, name: str, *folders: Path) -> None:
            began, used, at = time.perf_counter(), processor_s(), time.time()
            for folder in folders:
                add_source(work / name, str(folder), "associations", "city", {})
            run_pipeline(spark, work / name, progress=told if options.by_table else None)
            when[what] = (at, time.time())
            result[f"{what} (s)"] = time.perf_counter() - began
            result[f"{what} (processor s)"] = processor_s() - used
            told_s, used_s = result[f"{what} (s)"], result[f"{what} (processor s)"]
            print(f"{what}: {told_s:.1f} s, {used_s:.1f} processor s", flush=True)

        coming = dict(list(zip(SHAPES, (few, more, later), strict=True))[: options.shapes])
        if not options.no_comparison:
            run("all rows at once", "all", first, *coming.values())
        for warehouse, times in (("once", ", first time"), ("w", "")):
            run(f"full run{times}", warehouse, first)
            for name, folder in coming.items():
                run(f"{name}{times}", warehouse, folder)
        run("nothing new", "w", first)
    for what, (begin_s, end_s) in when.items() if options.counts else ():
        counted = _event_log.counts(work / "events", begin_s, end_s)
        result[f"{what}, by Spark"] = ", ".join(f"{number:,} {name}" for name, number in counted.items())
    for name in coming:
        for unit in ("s", "processor s"):
            result[f"{name}, share of full ({unit})"] = (
                result[f"{name} ({unit})"] / result[f"full run ({unit})"]
            )
    ledger = Ledger(Store.at(work / "w"))
    result["rows"] = sum(file.rows for file in ledger.files(ledger.latest(), "bronze_associations"))
    if not options.no_comparison:
        result["tables that differ"] = ", ".join(differing(work / "all", work / "w")) or "none"
    if options.commands:
        command = [
            *(sys.executable, "-m", "roamq", "pipeline", "run", "--warehouse", str(work / "by-command")),
            *("--format", "associations", "--dataset", "city", "--master", "local[2]"),
            *("--driver-memory", options.driver_memory, "--traces"),
        ]
        for name, folder in (("full", first), ("few sites", few), ("everywhere", more), ("no news", more)):
            run_it = partial(subprocess.run, [*command, str(folder)], check=True, capture_output=True)
            result[f"{name}, a command (s)"] = timed(run_it)
    return result


def next_hours(spark: SparkSession, options: argparse.Namespace, folder: Path) -> Path:
    """The rows of all clients in the hours after those that are known, as many as come of others."""
    known = City.with_rows(options.rows)
    begin = MONDAY + known.days * 86_400 + DAY_BEGINS_S
    end = begin + options.share * known.days * (DAY_ENDS_S - DAY_BEGINS_S)
    longer = replace(known, days=known.days + 1)
    rows = city_traces(spark, longer, 4).where((F.col("time") >= begin) & (F.col("time") < int(end)))
    rows.coalesce(1).write.csv(str(folder))
    return folder


def at_few_sites(traces: Path, folder: Path) -> Path:
    """The same rows of clients that nobody knows, at four sites only: few keys of gold tables change."""
    folder.mkdir()
    for file in traces.glob("*.csv"):
        with file.open() as lines, (folder / file.name).open("w") as written:
            for line in lines:
                time_s, client, site = line.rstrip("\n").split(",")
                written.write(f"{time_s},new-{client},{f's{int(site[1:]) % 4}' if site else ''}\n")
    return folder


def differing(one: Path, other: Path) -> list[str]:
    """The derived tables that two warehouses do not share row by row."""
    ledgers = [Ledger(Store.at(place)) for place in (one, other)]

    def rows(ledger: Ledger, table: str) -> pa.Table | None:
        found = ledger.read(ledger.latest(), table)
        if found is None:
            return None
        # Arrow sorts by no map: as text, in the order of its keys, it can be compared as well.
        for number, field in enumerate(found.schema):
            if pa.types.is_map(field.type):
                text = [None if value is None else repr(sorted(value)) for value in found[number].to_pylist()]
                found = found.set_column(number, field.name, pa.array(text, pa.string()))
        return found.sort_by([(name, "ascending") for name in found.column_names]).combine_chunks()

    return [table for table in DERIVED if not _are_equal(*(rows(ledger, table) for ledger in ledgers))]


def _are_equal(one: pa.Table | None, other: pa.Table | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.num_rows == other.num_rows and bool(one.equals(other.cast(one.schema)))
