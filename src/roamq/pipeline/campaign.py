"""Campaigns: many runs as one Spark job, one task per run, records out through Arrow into Parquet.

    OUT/part=records/run_id=.../attempt=.../*.parquet      what happened (schemas.RECORDS)
    OUT/part=runs/run_id=.../attempt=.../*.parquet         one row per run (schemas.RUNS)

A task commits its files when its run ends, so an interrupted campaign keeps what was done, and the next one runs
only what is missing. If a run was made twice, because Spark gave a job up while one of its tasks was still
committing, readers use one of the two attempts. A run that fails becomes a row in `runs` with its error and the
command that replays it; the other runs go on, and the next campaign tries it again. Records leave a task in batches:
its memory does not grow with the length of the run.
"""

import contextlib
import itertools
import json
import secrets
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roamq.core.errors import RoamqError
from roamq.core.records import Record
from roamq.pipeline.jobs import Job, RunFunction
from roamq.pipeline.schemas import CAMPAIGN, RECORDS, RUNS, arrow_schema, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 20_000
ERROR_LINES = 4

Progress = Callable[[int, int], None]
"""Called with the number of runs that ended and the number of all runs."""

JOBS = (
    "ordinal bigint, run_id string, scenario string, scheme string, seed bigint, params map<string,string>, "
    "runner string, warmup_s double, until_s double, replay string, payload string"
)


@dataclass(frozen=True, slots=True)
class Campaign:
    """The two tables of a finished campaign, restricted to the runs that were asked for."""

    records: "DataFrame"
    """Records of runs that did not fail."""
    runs: "DataFrame"
    made: int
    """How many runs this campaign made; the others were in the folder already."""


def run_campaign(
    spark: "SparkSession", jobs: Iterable[Job], out: Path | str, *, progress: Progress | None = None
) -> Campaign:
    """Make the runs that `out` does not hold yet, and return the tables of all of them."""
    out = _place(out)
    wanted = {job.run_id: job for job in jobs}
    done = _finished(spark, out, wanted)
    missing = sorted((job for run_id, job in wanted.items() if run_id not in done), key=lambda j: -j.cost)
    if missing:
        _make_surely(spark, missing, out, progress or (lambda *_: None))
    return read_campaign(spark, out, wanted, made=len(missing))


def read_campaign(
    spark: "SparkSession", out: Path | str, run_ids: Iterable[str] | None = None, *, made: int = 0
) -> Campaign:
    """The tables that a campaign wrote to `out`: of all runs, or of those named."""
    from pyspark.sql import functions as F

    out = _place(out)
    records, runs = _part(spark, out, "records", RECORDS), _part(spark, out, "runs", RUNS)
    if run_ids is not None:
        wanted = list(run_ids)
        records = records.where(records.run_id.isin(wanted))
        runs = runs.where(runs.run_id.isin(wanted))
    best = F.min(F.struct(F.col("status") == "failed", "attempt")).alias("best")
    chosen = runs.groupBy("run_id").agg(best).select("run_id", "best.attempt")
    runs = runs.join(chosen, ["run_id", "attempt"], "left_semi")
    # Records of a failed run end somewhere in the middle: no metric may see them.
    usable = runs.where(F.col("status") != "failed").select("run_id", "attempt")
    kept = records.join(F.broadcast(usable), ["run_id", "attempt"], "left_semi").select(*columns(RECORDS))
    return Campaign(kept, runs.select(*columns(RUNS)), made)


def _place(out: Path | str) -> str:
    """Where Spark finds the folder: its server may run elsewhere than in our current directory."""
    return str(out.resolve()) if isinstance(out, Path) else out


def _part(spark: "SparkSession", out: str, part: str, schema: str) -> "DataFrame":
    """One of the two tables in `out`; empty if nothing was written to it, as if no run left a record."""
    from pyspark.errors import AnalysisException

    with_attempt = f"{schema}, attempt string"
    try:
        rows = spark.read.schema(with_attempt).parquet(f"{out}/part={part}")  # a classic session looks here
        _ = rows.schema  # a Connect session looks for the folder only when it is asked
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return spark.createDataFrame([], with_attempt)
    return rows


def _finished(spark: "SparkSession", out: str, wanted: Mapping[str, Job]) -> set[str]:
    """Which of the wanted runs are in `out` already. A failed one is not: the machine may have been at fault."""
    runs = _part(spark, out, "runs", RUNS)
    ended = runs.where(runs.status != "failed").select("run_id")
    return {row.run_id for row in ended.toLocalIterator() if row.run_id in wanted}


def _make_surely(spark: "SparkSession", jobs: Sequence[Job], out: str, progress: Progress) -> None:
    """Make the runs, even if one of them kills its process (out of memory, say) and Spark gives the job up.

    Runs that had ended are kept. The others are made one by one, so that the run at fault is known and harms no other.
    """
    from pyspark.errors import PySparkException

    try:
        _make(spark, jobs, out, progress)
        return
    except PySparkException:
        done = _finished(spark, out, {job.run_id: job for job in jobs})
    for job in jobs:
        if job.run_id in done:
            continue
        try:
            _make(spark, [job], out, lambda *_: None)
        except PySparkException as error:
            reason = f"its process ended: {str(error).strip().splitlines()[0]}"
            row = dict(zip(columns(JOBS)[1:], _job_row(job), strict=True))
            failed = run_row(row, status="failed", error=reason)
            _write(spark.createDataFrame(pa.Table.from_batches([failed])), out)
        done.add(job.run_id)
        progress(len(done), len(jobs))


def _make(spark: "SparkSession", jobs: Sequence[Job], out: str, progress: Progress) -> None:
    rows = [(ordinal, *_job_row(job)) for ordinal, job in enumerate(jobs)]
    grid = spark.createDataFrame(rows, schema=JOBS)
    # The ordinal is the partition: exactly one run per task, the longest first.
    tasks = grid.repartitionById(len(jobs), grid.ordinal.cast("int"))
    runners = {job.runner.name: job.runner.run for job in jobs}
    sent = _send_files(spark, jobs)

    def run_each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark sends this function with its runners to the workers."""
        for batch in batches:
            for row in batch.to_pylist():
                payload = with_local_files(json.loads(row["payload"]), sent)
                yield from run_one(row | {"payload": json.dumps(payload)}, runners[row["runner"]])

    with _progress_shown(spark, len(jobs), progress):
        _write(tasks.mapInArrow(run_each, schema=CAMPAIGN), out)


def _send_files(spark: "SparkSession", jobs: Sequence[Job]) -> dict[str, str]:
    """Send the files that payloads name to the workers, which may not see ours; returns their names there, by path."""
    paths = {path for job in jobs for path in job.runner.files(job.payload) if path in _texts(job.payload)}
    sent = {path: Path(path).name for path in sorted(paths) if Path(path).is_file()}
    for path in sent:
        spark.addArtifacts(path, file=True)
    return sent


def _texts(value: Any) -> set[str]:
    """All texts in plain data."""
    if isinstance(value, Mapping):
        return set().union(*map(_texts, value.values())) if value else set()
    if isinstance(value, list | tuple):
        return set().union(*map(_texts, value)) if value else set()
    return {value} if isinstance(value, str) else set()


def _write(rows: "DataFrame", out: str) -> None:
    """Append rows of `CAMPAIGN`. Each task moves its own files into place when it ends."""
    from pyspark.sql import functions as F

    one_by_one = {"mapreduce.fileoutputcommitter.algorithm.version": "2"}
    attempt = F.lit(f"a{secrets.token_hex(6)}")
    writer = rows.withColumn("attempt", attempt).write.mode("append").options(**one_by_one)
    writer.partitionBy("part", "run_id", "attempt").parquet(out)


def _job_row(job: Job) -> tuple[Any, ...]:
    return (
        job.run_id,
        job.scenario,
        job.scheme,
        job.seed,
        dict(job.params),
        job.runner.name,
        job.warmup_s,
        job.until_s,
        job.replay_command,
        json.dumps(dict(job.payload)),
    )


@contextlib.contextmanager
def _progress_shown(spark: "SparkSession", total: int, progress: Progress) -> Iterator[None]:
    """Report the tasks of the stage that has one task per run."""
    from pyspark.errors import PySparkException

    seen = 0

    def handler(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        nonlocal seen
        ended = max((s.num_completed_tasks for s in stages or () if s.num_tasks == total), default=0)
        if ended > seen:
            seen = min(ended, total)
            progress(seen, total)

    progress(0, total)
    with contextlib.ExitStack() as stack:
        # A classic session, as somebody's notebook may have it, tells no handlers about its tasks.
        with contextlib.suppress(PySparkException):
            spark.registerProgressHandler(handler)  # type: ignore[arg-type]
            stack.callback(spark.removeProgressHandler, handler)  # type: ignore[arg-type]
        yield
    progress(total, total)


# --- on the executors ----------------------------------------------------------------------------------------

_OUT = arrow_schema(CAMPAIGN)


def with_local_files(payload: Any, sent: Mapping[str, str]) -> Any:
    """A payload in which a file of the driver that is not here goes by its name among the files that were sent."""
    if isinstance(payload, dict):
        return {key: with_local_files(value, sent) for key, value in payload.items()}
    if isinstance(payload, list):
        return [with_local_files(value, sent) for value in payload]
    if not isinstance(payload, str) or payload not in sent or Path(payload).is_file():
        return payload
    from pyspark import SparkFiles

    return SparkFiles.get(sent[payload])


def run_one(job: Mapping[str, Any], run: RunFunction) -> Iterator[pa.RecordBatch]:
    """The records of one run in batches, then its row of `runs`; `job` is a row of `JOBS`."""
    began = time.perf_counter()
    position, last_s = 0, 0.0
    status, error = "ok", None
    try:
        records = iter(run(json.loads(job["payload"]), job["seed"]))
        while chunk := list(itertools.islice(records, BATCH_ROWS)):
            broken = next((r.detail for r in chunk if r.kind == "violation"), None)
            if broken is not None and status == "ok":
                status, error = "violated", broken
            last_s = max(last_s, *(r.time_s for r in chunk))
            yield record_batch(job["run_id"], position, chunk)
            position += len(chunk)
    except Exception as failure:
        status, error = "failed", _brief(failure)
    wall_s = time.perf_counter() - began
    yield run_row(job, status=status, error=error, last_s=last_s, wall_s=wall_s, records=position)


def run_row(
    job: Mapping[str, Any],
    *,
    status: str,
    error: str | None,
    last_s: float = 0.0,
    wall_s: float = 0.0,
    records: int = 0,
) -> pa.RecordBatch:
    """What became of a run, as a row of `CAMPAIGN`."""
    row = {
        **{name: job[name] for name in columns(RUNS) if name in job},
        "params": list(dict(job["params"]).items()),
        "part": "runs",
        "until_s": last_s if job["until_s"] is None else job["until_s"],
        "status": status,
        "error": error,
        "wall_s": wall_s,
        "records": records,
    }
    return pa.RecordBatch.from_pylist([row], schema=_OUT)


def record_batch(run_id: str, position: int, chunk: Sequence[Record]) -> pa.RecordBatch:
    """Records as rows of `CAMPAIGN`."""
    size = len(chunk)
    arrays = {
        "part": pa.array(["records"] * size, pa.string()),
        "run_id": pa.array([run_id] * size, pa.string()),
        "position": pa.array(range(position, position + size), pa.int64()),
    }
    for name, values in zip(Record._fields, zip(*chunk, strict=True), strict=True):
        arrays[name] = pa.array(values, _OUT.field(name).type)
    return pa.RecordBatch.from_arrays(
        [arrays[f.name] if f.name in arrays else pa.nulls(size, f.type) for f in _OUT], schema=_OUT
    )


def _brief(failure: Exception) -> str:
    """What went wrong and where, in a few lines. The message of a `RoamqError` is enough on its own."""
    if isinstance(failure, RoamqError):
        return str(failure)
    where = traceback.extract_tb(failure.__traceback__)[-ERROR_LINES:]
    lines = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} in {frame.name}" for frame in where]
    return f"{type(failure).__name__}: {failure} ({' > '.join(lines)})"
