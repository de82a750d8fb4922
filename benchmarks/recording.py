"""What records cost: on the event loop, where delivery happens, and in the thread that writes them.

    python -m benchmarks.recording [records]

`loop` is what a record adds to a turn (handing the turn's list over); `thread` is the work of turning records into
Parquet files, most of it outside Python's lock. Making the record itself is part of serving and is in `throughput`.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from roamq.core.records import Record
from roamq.net.ops.records import RecordWriter

TURN = 200


def main(argv: list[str]) -> dict[str, object]:
    """Measure and give the costs; nothing is printed here."""
    count = int(argv[0]) if argv else 400_000
    turns = [[_record(first + place) for place in range(TURN)] for first in range(0, count, TURN)]
    with tempfile.TemporaryDirectory() as folder:
        recorder = RecordWriter(Path(folder), "bench", "b1", (0, 1), flush_s=1.0, rows_max=50_000)
        began, worked = time.perf_counter(), time.process_time()
        for number, turn in enumerate(turns):
            recorder.add(number * TURN, turn)
        on_loop = time.perf_counter() - began
        recorder.close(60.0)
        elapsed, worked = time.perf_counter() - began, time.process_time() - worked
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))
    return {
        "records": count,
        "loop: ns per record": round(on_loop / count * 1e9),
        "thread: ns of processor per record": round(worked / count * 1e9),
        "records/s": round(count / elapsed),
        "bytes per record": round(size / count, 1),
    }


def _record(number: int) -> Record:
    if number % 2:
        return Record("published", 1000.0 + number / 1000, "b1", f"c{number % 50}", "b1", number, bytes=64)
    return Record(
        "delivered", 1000.0 + number / 1000, "b1", "c1", "b1", number, detail="live", duration_s=number * 1e-9
    )


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
