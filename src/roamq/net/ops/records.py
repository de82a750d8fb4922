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
from collections import deque
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roamq import __version__
from roamq.core.records import RECORDS_VERSION, VERSION_KEY, Record

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
_STAMP: Final = {VERSION_KEY: str(RECORDS_VERSION), "roamq.release": __version__}

_TEXTS: Final = [field.name for field in SCHEMA if field.type == pa.string()]

_RECORD: Final = pa.schema(list(SCHEMA)[1:])
_KINDS: Final = tuple(_RECORD.types)
CHUNK_ROWS: Final = 4096
"""Rows that are turned into columns at a time: they fit the processor's cache, and the event loop gets its turn."""

Batch = tuple[int, list[Record]]
_LOOK: Final = "look"
"""Tells the thread that records have gathered."""
_DUE: Final = "due"
"""Nobody says anything, but what waits has waited long enough."""
RETRY_S: Final = 5.0
WAITING_MAX: Final = 1_000_000
"""Records that are kept while the folder cannot be written; delivery comes first, so more are given up."""


class RecordWriter:
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
        self.interpreter_s = 0.0
        """Processor time for which the thread kept the interpreter from the event loop: it turned records into columns.
        Files are compressed and written without the interpreter."""
        self._added = 0
        """Records that came in."""
        self._left = 0
        """Records that are in the folder, or were given up."""
        self._place = place
        self._flush_s = flush_s
        self._rows_max = rows_max
        self._queue: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        """What the thread waits for: `_LOOK`, a wish to have everything written, None to end."""
        self._gathered: deque[Batch] = deque()
        """Records that the thread takes when it wakes up. Each waking takes the interpreter from the event loop."""
        self._unnoticed = 0
        """Rows that were gathered since the thread was last woken up."""
        self._notice_rows = min(CHUNK_ROWS, rows_max)
        """So many rows wake the thread up."""
        self._is_woken = False
        """Whether the thread knows that there is something to write, and when that is due."""
        self._thread = threading.Thread(target=self._run, name="records", daemon=True)
        self._thread.start()

    def add(self, first: int, records: list[Record]) -> None:
        """Records from number `first` on; returns at once."""
        if first + len(records) > self.written:
            self._added += len(records)
            self._gathered.append((first, records))
            self._unnoticed += len(records)
            if self._unnoticed >= self._notice_rows or not self._is_woken:
                self._unnoticed, self._is_woken = 0, True
                self._queue.put(_LOOK)

    @property
    def waiting(self) -> int:
        """How many records were added and are not in the folder yet."""
        return max(0, self._added - self._left)

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
        waiting = _Waiting(0)
        due = math.inf
        while True:
            try:
                wait_s = None if due == math.inf else max(0.0, due - time.monotonic())
                wish = self._queue.get(timeout=wait_s)
            except queue.Empty:
                wish = _DUE
            asked = self._added if wish is None or isinstance(wish, threading.Event) else 0
            waiting, is_full = self._take_gathered(waiting)
            if wish is _LOOK and not is_full:
                due = min(due, time.monotonic() + self._flush_s)
                continue
            due = math.inf
            while waiting:
                if not self._write(waiting) and len(waiting) <= WAITING_MAX:
                    due = time.monotonic() + RETRY_S
                    break
                self._left += len(waiting)
                # What came while that was written is the beginning of the next file, not a small one of its own.
                waiting, is_full = self._take_gathered(_Waiting(0))
                if self._left >= asked and not is_full:
                    due = time.monotonic() + self._flush_s
                    break
            if isinstance(wish, threading.Event):
                wish.set()
            if wish is None:
                return
            self._is_woken = due != math.inf
            if self._gathered and not self._is_woken:  # since it was looked at, and nobody will say so
                self._is_woken = True
                due = time.monotonic() + self._flush_s

    def _take_gathered(self, waiting: "_Waiting") -> tuple["_Waiting", bool]:
        """Add what has gathered to what waits to be written, until that is a whole file; and whether it is.

        After a gap in the numbers another file begins.
        """
        began_s = time.thread_time()
        while self._gathered and len(waiting) < self._rows_max:
            number, records = self._gathered.popleft()
            if waiting and number != waiting.first + len(waiting):
                self._write(waiting)
                self._left += len(waiting)
                waiting = _Waiting(number)
            elif not waiting:
                waiting = _Waiting(number)
            waiting.extend(records)
        self.interpreter_s += time.thread_time() - began_s
        return waiting, len(waiting) >= self._rows_max

    def _write(self, waiting: "_Waiting") -> bool:
        began_s = time.thread_time()
        first, table = waiting.first, waiting.table()
        self.interpreter_s += time.thread_time() - began_s
        if first < self.written:
            table = table.slice(self.written - first)
            first = self.written
        if not len(table):
            return True
        index, brokers = self._place
        positions = np.arange(len(table), dtype=np.int64) * brokers + (first * brokers + index)
        table = table.add_column(0, SCHEMA.field("position"), pa.array(positions))
        table = table.replace_schema_metadata(_STAMP)
        last = first + len(table) - 1
        path = self.folder / f"{self.broker}-{first:020d}-{last:020d}.parquet"
        draft = self.folder / f".{path.name}.draft"
        try:
            # Measured: a dictionary for numbers and statistics for all cost more than they save here.
            pq.write_table(
                table,
                draft,
                compression="zstd",
                use_dictionary=_TEXTS,
                write_statistics=False,
            )
            draft.rename(path)
        except (OSError, pa.ArrowException) as error:
            draft.unlink(missing_ok=True)
            self.failed = str(error)
            log.error("%d records could not be written to %s: %s", len(table), self.folder, error)
            return False
        self.failed = None
        self.written = last + 1
        return True

    def _last_written(self) -> int:
        names = (path.stem.rsplit("-", 2) for path in self.folder.glob(f"{self.broker}-*.parquet"))
        return max((int(last) for broker, _, last in names if broker == self.broker), default=-1) + 1


class _Waiting:
    """Consecutive records that are to be written, most of them as columns already.

    Thousands of small tuples cost the allocator and the garbage collector time for as long as they exist, so records
    are turned into columns early.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self._batches: list[pa.RecordBatch] = []
        self._records: list[Record] = []
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def extend(self, records: list[Record]) -> None:
        self._rows += len(records)
        self._records += records
        if len(self._records) >= CHUNK_ROWS:
            self._batches.append(_batch(self._records))
            self._records = []

    def table(self) -> pa.Table:
        if self._records:
            self._batches.append(_batch(self._records))
            self._records = []
        return pa.Table.from_batches(self._batches, schema=_RECORD)


def _batch(records: list[Record]) -> pa.RecordBatch:
    columns = [_column(values, kind) for values, kind in zip(zip(*records, strict=True), _KINDS, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_RECORD)


def _column(values: tuple[object, ...], kind: pa.DataType) -> pa.Array:
    """Many columns say the same thing in every row, or nothing: those need no conversion row by row."""
    first = values[0]
    is_one = first == values[-1] == values[len(values) // 2]  # most columns that vary do so here
    if not is_one or values.count(first) < len(values):
        return pa.array(values, kind)
    return pa.nulls(len(values), kind) if first is None else pa.repeat(pa.scalar(first, kind), len(values))
