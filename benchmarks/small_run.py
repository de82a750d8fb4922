"""The fixed price of a run: a hundred rows to gold, and an empty pipeline of as many tables beside it.

    python -m benchmarks small_run

First the command, from the shell and to its end, and a process that only starts Spark and writes as many tables of one
row as that command makes: what Spark itself costs. Then each kind of session, one that compiles its queries and one
that interprets them, in a process of its own that makes three warehouses of the same rows: the second and third find
their code compiled. Processor time is that of the process and all that it started; it says more than seconds where the
machine has other work.
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

from benchmarks.pipeline import run_and_watch
from roamq.pipeline.landing import add_source
from roamq.pipeline.ledger import Ledger
from roamq.pipeline.runner import run_pipeline, warehouse_settings
from roamq.pipeline.session import NOTHING_TO_COMPILE, open_session
from roamq.pipeline.store import Store

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
COMPILING = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
KINDS = {"compiled": COMPILING, "interpreted": NOTHING_TO_COMPILE}
THIS = (sys.executable, "-m", "benchmarks", "small_run")


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks small_run", description=__doc__)
    parser.add_argument("--kind", choices=KINDS, help="measure this kind in this process, and print JSON")
    parser.add_argument(
        "--empty", type=int, metavar="TABLES", help="only start Spark and write so many tables"
    )
    parser.add_argument(
        "--commands", action="store_true", help="measure the commands, and no kinds of session"
    )
    parser.add_argument("--times", type=int, default=1, help="how often a command is measured")
    parser.add_argument("--rows", type=int, default=100)
    options = parser.parse_args(argv)
    work = Path(tempfile.mkdtemp(prefix="roamq-small-run-"))
    try:
        write_rows(work / "in", options.rows)
        if options.empty:
            empty_pipeline(work, options.empty)
            return {}
        if options.kind:
            measured = measure(work, KINDS[options.kind])
            print(json.dumps(measured))
            return dict(measured)
        print("| | what | seconds | processor seconds |\n| --- | --- | ---: | ---: |")
        result: dict[str, object] = {"commands": commands(work, options.times)}
        if not options.commands:
            result |= {kind: session_of(kind, options.rows) for kind in KINDS}
        return result
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_rows(folder: Path, rows: int) -> None:
    """Four clients that walk round five sites for three days."""
    folder.mkdir()
    each = -(-rows // 4)
    lines = []
    for number in range(rows):
        step = number // 4
        second = 1_704_096_000 + 86_400 * (step * 3 // each) + 600 * step
        lines.append(f"{second},c{number % 4},s{number * number % 5}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")


def commands(work: Path, times: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds and processor seconds of the command, and of a process with as many empty tables."""
    result: dict[str, list[tuple[float, float]]] = {"a run": [], "an empty pipeline": []}
    for number in range(times):
        warehouse = work / f"by-command-{number}"
        command = (
            *(sys.executable, "-m", "roamq", "pipeline", "run", "--warehouse", str(warehouse)),
            *("--traces", str(work / "in"), "--format", "associations", "--master", "local[2]"),
        )
        result["a run"].append(run_and_watch(list(command)))
        tables = len(Ledger(Store.at(warehouse)).latest().tables)
        result["an empty pipeline"].append(run_and_watch([*THIS, "--empty", str(tables)]))
    for what, found in result.items():
        for seconds, cpu_s in found:
            print(f"| command | {what} | {seconds:.1f} | {cpu_s:.1f} |", flush=True)
    return result


def session_of(kind: str, rows: int) -> dict[str, tuple[float, float]]:
    command = [*THIS, "--kind", kind, "--rows", str(rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, tuple[float, float]] = json.loads(done.stdout.splitlines()[-1])
    for what, (seconds, cpu_s) in measured.items():
        print(f"| {kind} | {what} | {seconds:.1f} | {cpu_s:.1f} |", flush=True)
    return measured


def empty_pipeline(work: Path, tables: int) -> None:
    """What Spark costs where there is nothing to compute: a session as a small run has it, and tables of one row."""
    settings = warehouse_settings(work / "w", master="local[2]", input_bytes=0)
    with open_session(settings) as spark:
        for number in range(tables):
            rows = spark.range(1).groupBy("id").count()
            rows.write.parquet(str(work / "empty" / str(number)))


def measure(work: Path, config: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Seconds and processor seconds of each step."""
    result: dict[str, tuple[float, float]] = {}

    def step(name: str, action: Callable[[], object]) -> None:
        began, used = time.perf_counter(), processor_s()
        action()
        result[name] = (time.perf_counter() - began, processor_s() - used)

    settings = warehouse_settings(work / "w", master="local[2]", config=config, input_bytes=0)
    session = open_session(settings)
    began = time.perf_counter()
    with session as spark:
        result["start of Spark"] = (time.perf_counter() - began, processor_s())

        def run(number: int) -> None:
            add_source(work / f"w{number}", str(work / "in"), "associations", "walks", {})
            run_pipeline(spark, work / f"w{number}")

        for number, name in enumerate(("first run", "second run", "third run")):
            step(name, lambda number=number: run(number))  # type: ignore[misc]
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
