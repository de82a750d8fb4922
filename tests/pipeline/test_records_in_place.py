"""Brokers' records: many small files, merged or not, late or not, are read once each."""

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from roamq.core.records import RECORDS_VERSION, VERSION_KEY, Record
from roamq.net.ops.records import RecordWriter
from roamq.pipeline import records_in_place
from roamq.pipeline.books import FAILED, LANDED, Book, TraceSource
from roamq.pipeline.landing import add_source
from roamq.pipeline.records_in_place import compact, discovered, without_merged
from roamq.pipeline.runner import run_pipeline
from roamq.pipeline.traces import records
from tests.pipeline.warehouses import table


def write(folder: Path, broker: str, sizes: list[int]) -> int:
    """Records of one broker as it writes them, a file for each size; returns how many there are in the folder."""
    place = {"b1": (0, 2), "b2": (1, 2)}[broker]
    writer = RecordWriter(folder, "live", broker, place, flush_s=60, rows_max=10**6)
    number = writer.written
    for size in sizes:
        events = [
            Record(
                kind="published",
                time_s=float(n),
                broker=broker,
                client="p",
                origin=broker,
                sequence=n,
                count=1,
            )
            for n in range(number, number + size)
        ]
        writer.add(number, events)
        assert writer.flush(10)
        number += size
    writer.close()
    return number


def ages(folder: Path, seconds: float) -> None:
    for file in folder.rglob("*.parquet"):
        os.utime(file, (time.time() - seconds,) * 2)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.parquet"))


def says(file: Path, version: int | None) -> None:
    """Let a file say that its records are of another version, or of none."""
    rows = pq.read_table(file, partitioning=None)
    told = {} if version is None else {VERSION_KEY: str(version), "roamq.release": "9.1"}
    pq.write_table(rows.replace_schema_metadata(told), file)


def test_records_of_a_newer_version_are_refused_by_name_and_other_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "b1", [3, 2, 4])
    first, second, third = sorted(tmp_path.rglob("b1-*.parquet"))
    says(second, RECORDS_VERSION + 1)
    says(third, None)
    source = TraceSource(dataset="d", path=str(tmp_path), format="records")
    book, spark = Book("d"), cast("SparkSession", None)  # Spark lists addresses alone

    for _ in range(2):
        discovered(spark, book, source)
        entries = {entry.path: entry for entry in book}
        assert [entries[str(file)].state for file in (first, second, third)] == [LANDED, FAILED, LANDED]
        reason = entries[str(second)].reason
        assert f"are of version {RECORDS_VERSION + 1}, written by release 9.1" in reason
        assert "upgrade RoamQ" in reason

    for module in (records, records_in_place):
        monkeypatch.setattr(module, "RECORDS_VERSION", RECORDS_VERSION + 1)
    discovered(spark, book, source)
    assert [entry.state for entry in book] == [LANDED] * 3, "a newer release reads what an older one left"


def test_files_of_two_versions_are_not_merged(tmp_path: Path) -> None:
    write(tmp_path, "b1", [1, 1, 1, 1, 1, 1])
    files = sorted(tmp_path.rglob("b1-*.parquet"))
    for file in files[2:]:
        says(file, None if file in files[4:] else RECORDS_VERSION + 1)
    ages(tmp_path, 100)

    assert compact(tmp_path, now_s=time.time()) == (6, 4)

    versions = [records.version_of(file) for file in sorted(tmp_path.rglob("b1-*.parquet"))]
    assert versions == [RECORDS_VERSION, RECORDS_VERSION + 1, RECORDS_VERSION + 1, 0]


def test_neighbours_are_merged_and_young_files_and_gaps_are_left(tmp_path: Path) -> None:
    write(tmp_path, "b1", [3, 2, 4])
    write(tmp_path, "b2", [1, 1])
    [gap] = tmp_path.rglob(f"b1-{3:020d}-*")
    before = pq.read_table(tmp_path / "part=records" / "run_id=live").num_rows
    ages(tmp_path, 100)
    write(tmp_path, "b1", [5])

    assert compact(tmp_path, now_s=time.time()) == (6, 3)

    assert names(tmp_path) == [
        f"b1-{0:020d}-{8:020d}.parquet",
        f"b1-{9:020d}-{13:020d}.parquet",
        f"b2-{0:020d}-{1:020d}.parquet",
    ]
    rows = pq.read_table(tmp_path / "part=records" / "run_id=live").sort_by("position")
    assert rows.num_rows == before + 5
    assert rows["position"].to_pylist() == sorted(set(rows["position"].to_pylist()))
    assert not gap.exists()
    assert compact(tmp_path, now_s=time.time()) == (3, 3), "nothing is left to merge"
    assert write(tmp_path, "b1", [1]) == 15, "the broker goes on after the last record"


def test_a_compaction_that_died_before_it_deleted_is_finished(tmp_path: Path) -> None:
    write(tmp_path, "b1", [2, 2])
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    ages(tmp_path, 100)
    compact(tmp_path, now_s=time.time())
    for path, content in kept.items():
        path.write_bytes(content)
    ages(tmp_path, 100)
    merged = f"b1-{0:020d}-{3:020d}.parquet"

    assert [Path(path).name for path in without_merged(map(str, tmp_path.rglob("*.parquet")))] == [merged]
    compact(tmp_path, now_s=time.time())
    assert names(tmp_path) == [merged]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.data())
def test_whatever_is_merged_every_record_is_in_one_file_that_is_read(
    sizes: list[int], data: st.DataObject
) -> None:
    edges = [0]
    for size in sizes:
        edges.append(edges[-1] + size)
    files = {(first, last - 1) for first, last in pairwise(edges)}
    for _ in range(data.draw(st.integers(0, 3))):
        low, high = sorted(data.draw(st.lists(st.sampled_from(edges), min_size=2, max_size=2, unique=True)))
        if not any(low < first <= high - 1 < last or first < low <= last < high - 1 for first, last in files):
            files.add((low, high - 1))
    kept = without_merged(f"/r/b-{first}-{last}.parquet" for first, last in files)

    held = [
        n for path in kept for n in range(int(path.split("-")[1]), int(path.split("-")[2].split(".")[0]) + 1)
    ]
    assert sorted(held) == list(range(edges[-1]))


@pytest.mark.spark
@pytest.mark.slow
def test_every_record_is_read_once_whenever_files_are_merged_and_however_late_they_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, warehouse = tmp_path / "records", tmp_path / "w"
    count = write(folder, "b1", [3, 4])
    add_source(warehouse, str(folder), "records", "live", {})

    def sequences() -> list[int]:
        run_pipeline(spark, warehouse)
        return sorted(row.sequence for row in table(spark, warehouse, "publications").collect())

    assert sequences() == list(range(count))
    count = write(folder, "b1", [2, 2])
    ages(folder, 40 * 86_400)
    compact(folder, now_s=time.time())
    assert len(names(folder)) == 1, "files that were read and files that were not, in one"
    assert sequences() == list(range(count))
    ages(folder, 41 * 86_400)
    assert sequences() == list(range(count))


def test_a_day_of_small_files_is_listed_and_merged_in_moderate_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A twentieth of the 86,400 files that a broker writes in a day at most; `benchmarks small_files` does them all."""
    writes = 4320
    write(tmp_path, "b1", [1])
    [first] = tmp_path.rglob("*.parquet")
    content = first.read_bytes()
    for number in range(writes):
        first.with_name(f"b1-{number:020d}-{number:020d}.parquet").write_bytes(content)
    book = Book("live")
    discovered(spark, book, TraceSource(dataset="live", format="records", path=str(tmp_path)))
    assert len(book.entries) == writes
    assert all(entry.lines == 1 for entry in book)

    ages(tmp_path, 100)
    assert compact(tmp_path, now_s=time.time()) == (writes, 1)
