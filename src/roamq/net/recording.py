"""Records into a folder, off the event loop: Parquet files that appear whole, so that a pipeline may read as it grows.

    FOLDER/part=records/run_id=RUN/BROKER-FIRST-LAST.parquet

A record's number follows from the inputs, so a broker that fell makes the same records again as it replays its
journal, and those that are in the folder already are left out: every record is there once.
"""

import logging
import math
import queue
import threading
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roamq.core.records import Record

log = logging.getLogger("roamq.records")

SCHEMA: Final = pa.schema(
    [
        pa.field("position", pa.int64()),
        *(
            pa.field(
                name,
                pa.float64()
                if name.endswith("_s")
                else pa.int64()
                if name in ("sequence", "count", "hops", "bytes")
                else pa.string(),
            )
            for name in Record._fields
        ),
    ]
)
"""The columns of the pipeline's contract; `run_id` is in the path."""

_TEXTS: Final = [field.name for field in SCHEMA if field.type == pa.string()]

Batch = tuple[int, list[Record]]
RETRY_S: Final = 5.0
WAITING_MAX: Final = 1_000_000
"""Records that are kept while the folder cannot be written; delivery comes first, so more are given up."""


class Recorder:
    """Takes records from the loop, writes them in a thread."""

    def __init__(
        self, folder: Path, run_id: str, broker: str, place: tuple[int, int], *, flush_s: float, rows_max: int
    ) -> None:
        """`place`: this broker's number and the number of brokers, which make positions unique in a run."""
        self.folder = folder / "part=records" / f"run_id={run_id}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.broker = broker
        self.written = self._last_written()
        """The number after the last record in the folder."""
        self.failed: str | None = None
        self._place = place
        self._flush_s = flush_s
        self._rows_max = rows_max
        self._queue: queue.SimpleQueue[Batch | threading.Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="records", daemon=True)
        self._thread.start()

    def add(self, first: int, records: list[Record]) -> None:
        """Records from number `first` on; returns at once."""
        if first + len(records) > self.written:
            self._queue.put((first, records))

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was added is in the folder; False if that takes too long."""
        done = self.flush_soon()
        return done.wait(timeout_s)

    def flush_soon(self) -> threading.Event:
        """An event that is set when all that was added is in the folder."""
        done = threading.Event()
        self._queue.put(done)
        return done

    def close(self, timeout_s: float = 10.0) -> None:
        self._queue.put(None)
        self._thread.join(timeout_s)

    # --- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        waiting: list[Record] = []
        first = 0
        due = math.inf
        while True:
            flushed: threading.Event | None = None
            try:
                wait_s = None if due == math.inf else max(0.0, due - time.monotonic())
                item = self._queue.get(timeout=wait_s)
            except queue.Empty:
                item = threading.Event()  # nobody asked, but it is time
            if isinstance(item, tuple):
                number, records = item
                if waiting and number != first + len(waiting):
                    self._write(first, waiting)
                    waiting = []
                if not waiting:
                    first = number
                waiting.extend(records)
                due = min(due, time.monotonic() + self._flush_s)
                if len(waiting) < self._rows_max:
                    continue
            elif item is not None:
                flushed = item
            due = math.inf
            if waiting and (self._write(first, waiting) or len(waiting) > WAITING_MAX):
                waiting = []
            elif waiting:
                due = time.monotonic() + RETRY_S
            if flushed is not None:
                flushed.set()
            if item is None:
                return

    def _write(self, first: int, records: list[Record]) -> bool:
        if first < self.written:
            records = records[self.written - first :]
            first = self.written
        if not records:
            return True
        index, brokers = self._place
        positions = np.arange(len(records), dtype=np.int64) * brokers + (first * brokers + index)
        columns = [pa.array(positions)]
        for name, values in zip(Record._fields, zip(*records, strict=True), strict=True):
            columns.append(_column(values, SCHEMA.field(name).type))
        last = first + len(records) - 1
        path = self.folder / f"{self.broker}-{first:020d}-{last:020d}.parquet"
        draft = self.folder / f".{path.name}.draft"
        try:
            # Measured: a dictionary for numbers and statistics for all cost more than they save here.
            pq.write_table(
                pa.Table.from_arrays(columns, schema=SCHEMA),
                draft,
                compression="zstd",
                use_dictionary=_TEXTS,
                write_statistics=False,
            )
            draft.rename(path)
        except (OSError, pa.ArrowException) as error:
            draft.unlink(missing_ok=True)
            self.failed = str(error)
            log.error("%d records could not be written to %s: %s", len(records), self.folder, error)
            return False
        self.failed = None
        self.written = last + 1
        return True

    def _last_written(self) -> int:
        names = (path.stem.rsplit("-", 2) for path in self.folder.glob(f"{self.broker}-*.parquet"))
        return max((int(last) for broker, _, last in names if broker == self.broker), default=-1) + 1


def _column(values: tuple[object, ...], kind: pa.DataType) -> pa.Array:
    """Many columns say the same thing in every row, or nothing: those need no conversion row by row."""
    first = values[0]
    if values.count(first) < len(values):
        return pa.array(values, kind)
    return pa.nulls(len(values), kind) if first is None else pa.repeat(pa.scalar(first, kind), len(values))
