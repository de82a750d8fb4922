"""Writes records into a folder, off the event loop, as Parquet files that appear whole: a pipeline may read meanwhile.

    FOLDER/part=records/run_id=RUN/BROKER-FIRST-LAST.parquet

A record's number follows from the inputs. A broker that fell makes the same records again when it replays its journal,
and the writer leaves out those that the folder has already: every record is there once.
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
"""The columns of the pipeline's contract, without `run_id`, which is in the path."""
_STAMP: Final = {VERSION_KEY: str(RECORDS_VERSION), "roamq.release": __version__}

_TEXTS: Final = [field.name for field in SCHEMA if field.type == pa.string()]

_RECORD: Final = pa.schema(list(SCHEMA)[1:])
_KINDS: Final = tuple(_RECORD.types)
CHUNK_ROWS: Final = 4096
"""Rows turned into columns at a time: they fit the processor's cache, and the event loop gets its turn."""

Batch = tuple[int, list[Record]]
_LOOK: Final = "look"
"""Tells the thread to look at the gathered records."""
_DUE: Final = "due"
"""Stands for the end of the thread's wait: nobody has told it anything, but records have waited long enough."""
RETRY_S: Final = 5.0
WAITING_MAX: Final = 1_000_000
"""Records that are kept while the folder cannot be written; of more, records are given up: delivery comes first."""


class RecordWriter:
    """Takes records from the event loop and writes them in a thread."""

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
        """Processor time for which the thread kept the interpreter from the event loop, while it turned records into
        columns. The thread compresses and writes files without the interpreter."""
        self._added = 0
        """Number of records that were added."""
        self._left = 0
        """Number of records that are in the folder, or were given up."""
        self._place = place
        self._flush_s = flush_s
        self._rows_max = rows_max
        self._queue: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        """What the thread waits for: `_LOOK`, an event to set when all is written, None to end."""
        self._gathered: deque[Batch] = deque()
        """Batches that the thread takes when it wakes up. Each waking takes the interpreter from the event loop."""
        self._unnoticed = 0
        """Rows that were gathered since the thread was last told to look."""
        self._notice_rows = min(CHUNK_ROWS, rows_max)
        """The number of rows at which the thread is told to look."""
        self._is_woken = False
        """Whether the thread knows that there is something to write, and when that is due."""
        self._thread = threading.Thread(target=self._run, name="records", daemon=True)
        self._thread.start()

    def add(self, first: int, records: list[Record]) -> None:
        """Adds records, the first of which has the number `first`; returns at once."""
        if first + len(records) > self.written:
            self._added += len(records)
            self._gathered.append((first, records))
            self._unnoticed += len(records)
            if self._unnoticed >= self._notice_rows or not self._is_woken:
                self._unnoticed, self._is_woken = 0, True
                self._queue.put(_LOOK)

    @property
    def waiting(self) -> int:
        """Returns how many records were added and are not in the folder yet."""
        return max(0, self._added - self._left)

    def flush(self, timeout_s: float) -> bool:
        """Waits until all added records are in the folder; returns False if that takes too long."""
        done = self.flush_soon()
        return done.wait(timeout_s)

    def flush_soon(self) -> threading.Event:
        """Returns an event that is set when all added records are in the folder."""
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
                # Records that came during the write begin the next file, instead of a small one of their own.
                waiting, is_full = self._take_gathered(_Waiting(0))
                if self._left >= asked and not is_full:
                    due = time.monotonic() + self._flush_s
                    break
            if isinstance(wish, threading.Event):
                wish.set()
            if wish is None:
                return
            self._is_woken = due != math.inf
            if self._gathered and not self._is_woken:  # new since the look; no wake-up will come
                self._is_woken = True
                due = time.monotonic() + self._flush_s

    def _take_gathered(self, waiting: "_Waiting") -> tuple["_Waiting", bool]:
        """Adds gathered records to those that wait to be written, until they fill a file; returns them, and whether
        they do.

        After a gap in the numbers, another file begins.
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
    """Returns a column. Many columns have one value, or none, in every row: those need no conversion row by row."""
    first = values[0]
    is_one = first == values[-1] == values[len(values) // 2]  # most columns that vary differ here
    if not is_one or values.count(first) < len(values):
        return pa.array(values, kind)
    return pa.nulls(len(values), kind) if first is None else pa.repeat(pa.scalar(first, kind), len(values))
