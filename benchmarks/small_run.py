"""The fixed price of a run: a thousand rows to gold, and an empty pipeline of as many tables beside it.

    python -m benchmarks small_run

Each kind of session, one that compiles its queries and one that interprets them, is a process of its own: it starts
Spark, writes as many tables of one row as a run makes, and makes three warehouses of the same rows. Processor time is
that of the process and all that it started; it says more than seconds where the machine has other work.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from roamq.pipeline.generator import City, write_city
from roamq.pipeline.landing import add_source
from roamq.pipeline.ledger import Ledger
from roamq.pipeline.runner import run_pipeline, warehouse_settings
from roamq.pipeline.session import NOTHING_TO_COMPILE, open_session
from roamq.pipeline.store import Store

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
COMPILING = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
KINDS = {"compiled": COMPILING, "interpreted": NOTHING_TO_COMPILE}


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks small_run", description=__doc__)
    parser.add_argument("--kind", choices=KINDS, help="measure this kind in this process, and print JSON")
    parser.add_argument("--rows", type=int, default=1000)
    options = parser.parse_args(argv)
    if options.kind:
        measured = measure(KINDS[options.kind], options.rows)
        print(json.dumps(measured))
        return dict(measured)
    result: dict[str, object] = {}
    print("| | what | seconds | processor seconds |\n| --- | --- | ---: | ---: |")
    for kind in KINDS:
        command = [
            sys.executable,
            "-m",
            "benchmarks",
            "small_run",
            "--kind",
            kind,
            "--rows",
            str(options.rows),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result[kind] = measured = json.loads(done.stdout.splitlines()[-1])
        for what, (seconds, cpu_s) in measured.items():
            print(f"| {kind} | {what} | {seconds:.1f} | {cpu_s:.1f} |", flush=True)
    return result


def measure(config: dict[str, str], rows: int) -> dict[str, tuple[float, float]]:
    """Seconds and processor seconds of each step."""
    work = Path(tempfile.mkdtemp(prefix="roamq-small-run-"))
    result: dict[str, tuple[float, float]] = {}

    def step(name: str, action: Callable[[], object]) -> None:
        began, used = time.perf_counter(), processor_s()
        action()
        result[name] = (time.perf_counter() - began, processor_s() - used)

    try:
        settings = warehouse_settings(work / "w", master="local[2]", config=config, input_bytes=0)
        session = open_session(settings)
        began = time.perf_counter()
        with session as spark:
            result["start of Spark"] = (time.perf_counter() - began, processor_s())
            write_city(spark, City.with_rows(rows), work / "in", files=1)

            def run(number: int) -> int:
                add_source(work / f"w{number}", str(work / "in"), "associations", "city", {})
                return len(run_pipeline(spark, work / f"w{number}"))

            step("first run", lambda: run(0))
            tables = len(Ledger(Store.at(work / "w0")).latest().tables)

            def nothing() -> None:
                for number in range(tables):
                    spark.range(1).groupBy("id").count().write.parquet(str(work / "empty" / str(number)))

            step("second run", lambda: run(1))
            step("third run", lambda: run(2))
            step(f"{tables} tables of one row", nothing)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return result


def processor_s() -> float:
    """Processor time of this process and of all that it started."""
    used: dict[int, float] = {}
    parent: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        number = int(stat.parent.name)
        parent[number], used[number] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS_PER_S
    mine = {os.getpid()}
    while more := {number for number, of in parent.items() if of in mine} - mine:
        mine |= more
    return sum(used.get(number, 0.0) for number in mine)
