"""Records in a folder: whole files, every record once, whatever falls."""

import json
import logging
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roamq.core.records import Record
from roamq.net.ops import records as records_module
from roamq.net.ops.metrics import JsonLines
from roamq.net.ops.records import CHUNK_ROWS, SCHEMA, RecordWriter, _Waiting
from tests.support.waiting import WAIT_S, wait_until


def recorder(folder: Path, *, flush_s: float = 60.0, rows_max: int = 1000) -> RecordWriter:
    return RecordWriter(folder, "run", "b2", (1, 3), flush_s=flush_s, rows_max=rows_max)


def records(first: int, count: int) -> list[Record]:
    return [
        Record("published", float(number), "b2", "c", "b2", number) for number in range(first, first + count)
    ]


def stored(folder: Path) -> list[tuple[int, int]]:
    rows = pq.read_table(folder / "part=records").to_pylist()
    assert {row["run_id"] for row in rows} <= {"run"}
    return sorted((row["position"], row["sequence"]) for row in rows)


def test_records_are_rows_of_the_pipelines_contract(tmp_path: Path) -> None:
    writer = recorder(tmp_path)
    writer.add(0, [Record("delivered", 1.5, "b2", "c", "b1", 7, detail="live", duration_s=0.25)])
    writer.close()

    assert SCHEMA.names == ["position", *Record._fields]
    (row,) = pq.read_table(tmp_path / "part=records").to_pylist()
    assert {name: value for name, value in row.items() if value is not None} == {
        "run_id": "run",
        "position": 1,
        "kind": "delivered",
        "time_s": 1.5,
        "broker": "b2",
        "client": "c",
        "origin": "b1",
        "sequence": 7,
        "detail": "live",
        "duration_s": 0.25,
    }


def test_what_the_thread_takes_of_the_interpreter_is_counted_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns are made with the interpreter, which the event loop wants as well; files are written without it."""
    spent_s = [0.0]
    make_columns, write_file = records_module._batch, pq.write_table

    def columns(part: list[Record]) -> pa.RecordBatch:
        spent_s[0] += 1.0
        return make_columns(part)

    def file(*args: Any, **options: Any) -> None:
        spent_s[0] += 100.0
        write_file(*args, **options)

    monkeypatch.setattr(
        "roamq.net.ops.records.time",
        SimpleNamespace(thread_time=lambda: spent_s[0], monotonic=time.monotonic),
    )
    monkeypatch.setattr("roamq.net.ops.records._batch", columns)
    monkeypatch.setattr("roamq.net.ops.records.pq.write_table", file)
    writer = recorder(tmp_path, rows_max=2 * CHUNK_ROWS)
    writer.add(0, records(0, CHUNK_ROWS))
    assert writer.flush(WAIT_S)
    writer.add(CHUNK_ROWS, records(CHUNK_ROWS, 10))
    writer.close()

    assert len(stored(tmp_path)) == CHUNK_ROWS + 10
    assert spent_s[0] == 202.0, "two files, of one batch each"
    assert writer.interpreter_s == 2.0


def test_positions_of_several_brokers_never_meet(tmp_path: Path) -> None:
    for place, broker in enumerate(("b1", "b2", "b3")):
        writer = RecordWriter(tmp_path, "run", broker, (place, 3), flush_s=60.0, rows_max=100)
        writer.add(0, records(0, 5))
        writer.close()

    assert [position for position, _ in stored(tmp_path)] == list(range(15))


def test_files_appear_when_they_are_full_or_when_it_is_time(tmp_path: Path) -> None:
    writer = recorder(tmp_path, rows_max=10)
    for first in range(0, 25, 5):
        writer.add(first, records(first, 5))
    assert writer.flush(WAIT_S)

    files = sorted(path.name for path in (tmp_path / "part=records/run_id=run").iterdir())
    assert [name.split("-")[1:] for name in files] == [
        ["00000000000000000000", "00000000000000000009.parquet"],
        ["00000000000000000010", "00000000000000000019.parquet"],
        ["00000000000000000020", "00000000000000000024.parquet"],
    ]
    writer.close()


def test_a_steady_trickle_does_not_put_off_the_file(tmp_path: Path) -> None:
    writer = recorder(tmp_path, flush_s=0.1, rows_max=1_000_000)
    number = 0
    while not writer.written:
        assert number < 1000, "each record put the file off"
        writer.add(number, records(number, 1))
        number += 1
        time.sleep(0.02)
    writer.close()


def test_what_comes_while_a_file_is_written_waits_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a steady load something always does: small files would follow each other without an end."""
    flush_s, wrote_at = 0.1, list[float]()
    write = RecordWriter._write

    def write_while_more_comes(writer: RecordWriter, waiting: _Waiting) -> bool:
        wrote_at.append(time.monotonic())
        writer.add(len(wrote_at), records(len(wrote_at), 1))
        return write(writer, waiting)

    monkeypatch.setattr(RecordWriter, "_write", write_while_more_comes)
    writer = recorder(tmp_path, flush_s=flush_s)
    writer.add(0, records(0, 1))
    wait_until(lambda: len(wrote_at) >= 4)
    monkeypatch.setattr(RecordWriter, "_write", write)
    writer.close()

    assert min(later - earlier for earlier, later in pairwise(wrote_at)) >= flush_s / 2
    assert [sequence for _, sequence in stored(tmp_path)] == list(range(len(wrote_at) + 1))


def test_what_a_replay_makes_again_is_left_out(tmp_path: Path) -> None:
    before = recorder(tmp_path)
    before.add(0, records(0, 10))
    before.close()

    again = recorder(tmp_path)
    assert again.written == 10
    again.add(4, records(4, 3))
    again.add(7, records(7, 8))
    again.close()

    assert [sequence for _, sequence in stored(tmp_path)] == list(range(15))


def test_a_folder_that_cannot_be_written_is_reported_and_does_not_stop_anything(tmp_path: Path) -> None:
    writer = recorder(tmp_path)
    folder = tmp_path / "part=records" / "run_id=run"
    folder.rmdir()
    writer.add(0, records(0, 3))
    assert writer.flush(WAIT_S)

    assert writer.failed is not None
    assert writer.written == 0
    folder.mkdir()
    writer.add(3, records(3, 3))
    writer.close()
    assert writer.failed is None
    assert [sequence for _, sequence in stored(tmp_path)] == list(range(6))


def test_a_log_line_is_one_json_object() -> None:
    entry = logging.LogRecord(
        "roamq.links", logging.WARNING, "file", 1, "link with %s\nis down", ("b2",), None
    )
    entry.created, entry.msecs = 0.0, 12.0

    assert json.loads(JsonLines("b2").format(entry)) == {
        "time": "1970-01-01T00:00:00.012Z",
        "broker": "b2",
        "level": "warning",
        "logger": "roamq.links",
        "message": "link with b2\nis down",
    }


def test_waiting_records_are_counted_from_the_first(tmp_path: Path) -> None:
    writer = recorder(tmp_path)
    assert writer.waiting == 0
    writer.add(1_790_000_000_000_000, records(0, 3))
    assert writer.waiting == 3
    writer.flush(WAIT_S)
    assert writer.waiting == 0
    writer.close()
