"""Traces to gold: rows per second, against a plain Spark job that reads and sorts the same rows, and against pandas.

    python -m benchmarks pipeline --rows 1000000 10000000 100000000
    python -m benchmarks pipeline --rows 10000000 --driver-memory 600m  # more rows than memory: it spills

The generator writes a city. Then the plain job and the pipeline each run as a command of their own, from the start of
Spark to its end: that is `ratio`. Before that both run once in the generator's session, which says how full memory
was and when each table was ready; there the plain job finds its code compiled already and the pipeline does not
(`session_ratio`). Pandas, at the sizes it can do, gives the same sojourns, moves and neighbor graph.
"""

import argparse
import contextlib
import itertools
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._read_and_sort import read_and_sort
from roamq.pipeline.generator import City, write_city
from roamq.pipeline.landing import add_source
from roamq.pipeline.runner import run_pipeline, warehouse_settings
from roamq.pipeline.session import open_session
from roamq.pipeline.traces import FORMATS

PANDAS_ROWS_MAX = 10_000_000
ROWS_PER_FILE = 2_000_000
ROW_BYTES = 22
WATCH_S = 0.2
"""How often processor time is read; what a process uses after the last time is missed."""


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks pipeline", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000], help="sizes to measure")
    parser.add_argument("--master", default="local[2]", help="where the tasks run")
    parser.add_argument(
        "--driver-memory", default="6g", help="memory of Spark; less than the rows makes it spill"
    )
    parser.add_argument("--work", type=Path, help="folder for files and tables (default: a temporary one)")
    parser.add_argument("--traces", type=Path, help="files of this size, made before, instead of new ones")
    parser.add_argument("--no-pandas", action="store_true", help="leave pandas out")
    options = parser.parse_args(argv)
    results = []
    for rows in options.rows:
        work = Path(tempfile.mkdtemp(prefix="roamq-bench-", dir=options.work))
        try:
            results.append(measure(rows, work, options))
        finally:
            shutil.rmtree(work, ignore_errors=True)
        print(line(results[-1]), flush=True)
    return {"sizes": results, "growth": growth(results)}


def measure(rows: int, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One size: generate, plain job, pipeline, pandas."""
    warehouse = work / "warehouse"
    city, files = City.with_rows(rows), max(4, rows // ROWS_PER_FILE)
    settings = warehouse_settings(
        warehouse,
        master=options.master,
        driver_memory=options.driver_memory,
        # Rows and shuffles go where there is room, beside the tables.
        config={"spark.local.dir": str(work / "spark")},
        input_bytes=rows * ROW_BYTES,  # nothing has landed yet
    )
    traces = options.traces or work / "traces"
    with open_session(settings) as spark:
        generated = 0.0 if options.traces else timed(lambda: write_city(spark, city, traces, files=files))
        plain = timed(lambda: read_and_sort(spark, traces))
        spilled_before = spilled_bytes()
        flows: dict[str, float] = {}
        began = time.perf_counter()

        def progress(flow: str, state: str) -> None:
            if state == "COMPLETED":
                flows[flow] = time.perf_counter() - began

        add_source(warehouse, str(traces), "associations", "city", {})
        run_pipeline(spark, warehouse, progress=progress)
        pipeline = time.perf_counter() - began
        counted = {row.name: row.rows for row in spark.read.table("summary").collect()}
        spilled = spilled_bytes() - spilled_before
        graph = {
            (row["from"], row["to"]): row.moves
            for row in spark.read.table("neighbor_graph").select("from", "to", "moves").collect()
        }
    result: dict[str, Any] = {
        "rows": counted["rows"],
        "generate_s": generated,
        "session_read_and_sort_s": plain,
        "session_pipeline_s": pipeline,
        "session_ratio": pipeline / plain,
        "spilled_mb": spilled / 1e6,
        "driver_memory": options.driver_memory,
        "tables_ready_s": flows,
        "moves": counted["moves"],
        "sojourns": counted["sojourns"],
    }
    result |= as_commands(counted["rows"], traces, work, options)
    if rows <= PANDAS_ROWS_MAX and not options.no_pandas:
        took, answer = pandas_answers(traces)
        assert answer == (counted["sojourns"], counted["moves"], graph), "pandas and Spark disagree"
        result |= {"pandas_s": took, "pandas_ratio": took / result["pipeline_s"]}
    return result


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def as_commands(rows: int, traces: Path, work: Path, options: argparse.Namespace) -> dict[str, float]:
    """Both jobs from the shell: what somebody waits for who has a folder of files and nothing running."""
    spark_options = ["--master", options.master, "--driver-memory", options.driver_memory]
    plain = [
        sys.executable,
        "-m",
        "benchmarks._read_and_sort",
        str(traces),
        options.master,
        options.driver_memory,
    ]
    ours = [
        *(sys.executable, "-m", "roamq", "pipeline", "run", "--warehouse", str(work / "by-command")),
        *("--traces", str(traces), "--format", "associations", *spark_options),
    ]
    (plain_s, plain_cpu_s), (ours_s, ours_cpu_s) = (run_and_watch(command) for command in (plain, ours))
    return {
        "read_and_sort_s": plain_s,
        "pipeline_s": ours_s,
        "ratio": ours_s / plain_s,
        "read_and_sort_cpu_s": plain_cpu_s,
        "pipeline_cpu_s": ours_cpu_s,
        "cpu_ratio": ours_cpu_s / plain_cpu_s,
        "rows_per_s": rows / ours_s,
    }


def run_and_watch(command: list[str]) -> tuple[float, float]:
    """Seconds and processor seconds of a command, Spark's processes included: they belong to its session."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    used: dict[str, float] = {}
    while process.poll() is None:
        used |= processor_s_by_process(process.pid)
        time.sleep(WATCH_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - began, sum(used.values())


def processor_s_by_process(session: int) -> dict[str, float]:
    """Processor seconds so far of each process of a session that lives."""
    ticks = os.sysconf("SC_CLK_TCK")
    used = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                used[stat.parent.name] = (int(fields[11]) + int(fields[12])) / ticks
    return used


def spilled_bytes() -> int:
    """What the embedded Spark wrote to disk because memory was short, so far; 0 where it runs elsewhere."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    if context is None:
        return 0
    no_quantiles = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, no_quantiles, None)
    return sum(stages.apply(number).diskBytesSpilled() for number in range(stages.size()))


def pandas_answers(traces: Path) -> tuple[float, tuple[int, int, dict[tuple[str, str], int]]]:
    """The same sojourns, moves and graph with pandas, in memory and on one core."""
    import pandas as pd

    rules = FORMATS["associations"].rules
    began = time.perf_counter()
    names, kinds = ["time", "client", "site"], {"time": "int64", "client": "str", "site": "str"}
    parts = [pd.read_csv(file, names=names, dtype=kinds) for file in sorted(traces.glob("*.csv"))]
    rows = pd.concat(parts, ignore_index=True).sort_values(["client", "time"], kind="stable")
    rows = rows.drop_duplicates(["client", "time"], keep="last")
    rows = rows[rows.groupby("client")["time"].transform("size") >= rules.min_observations]
    same = rows["client"].eq(rows["client"].shift())
    silent = ~same | (rows["time"] - rows["time"].shift() > rules.gap_s)
    opens = silent | rows["site"].ne(rows["site"].shift())
    stays = rows[opens]
    gaps = int((silent & same).sum())
    followed = stays["client"].eq(stays["client"].shift(-1)) & stays["site"].ne(stays["site"].shift(-1))
    moved = pd.DataFrame({"from": stays["site"], "to": stays["site"].shift(-1)})[followed]
    counted: Any = moved.value_counts(["from", "to"]).items()
    graph = {(source, target): int(moves) for (source, target), moves in counted}
    return time.perf_counter() - began, (len(stays) + gaps, len(moved), graph)


def growth(results: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Time against n log n between one size and the next: 1 is just that, less is better."""
    grown = []
    for before, after in itertools.pairwise(results):
        expected = after["rows"] * math.log(after["rows"]) / (before["rows"] * math.log(before["rows"]))
        grown.append(
            {"rows": after["rows"], "of_n_log_n": after["pipeline_s"] / before["pipeline_s"] / expected}
        )
    return grown


def line(result: dict[str, Any]) -> str:
    text = (
        f"{result['rows']:>12,} rows  read and sort {result['read_and_sort_s']:7.1f} s  pipeline "
        f"{result['pipeline_s']:7.1f} s  ratio {result['ratio']:5.2f}  {result['rows_per_s']:>10,.0f} rows/s  "
        f"(processor {result['read_and_sort_cpu_s']:.1f} and {result['pipeline_cpu_s']:.1f} s, ratio "
        f"{result['cpu_ratio']:.2f})  "
        f"(in one session {result['session_read_and_sort_s']:.1f} and {result['session_pipeline_s']:.1f} s, ratio "
        f"{result['session_ratio']:.2f}, spilled {result['spilled_mb']:,.0f} MB)"
    )
    return text + (f"  pandas {result['pandas_s']:.1f} s" if "pandas_s" in result else "")
