"""Versions of tables: all tables of a run change at once or not at all, whoever else commits and whenever one dies."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from roamq.core.errors import ConfigError
from roamq.pipeline.landing import add_source
from roamq.pipeline.ledger import (
    FORMAT,
    FORMAT_KEY,
    LEDGER,
    RELEASE_KEY,
    ConflictError,
    Ledger,
    Snapshot,
    TableChange,
)
from roamq.pipeline.runner import run_pipeline
from roamq.pipeline.schemas import arrow_schema
from roamq.pipeline.store import Store
from roamq.pipeline.upkeep import expire, files_of, remove_what
from roamq.pipeline.warehouse import open_tables, require_warehouse, table_names
from tests.pipeline.warehouses import environment

COLUMNS = "dataset string, value bigint"


def ledger_at(place: Path) -> Ledger:
    return Ledger(Store.at(place))


def change(ledger: Ledger, table: str, value: int) -> TableChange:
    rows = pa.Table.from_pylist([{"dataset": "d", "value": value}], schema=arrow_schema(COLUMNS))
    return TableChange(contract=COLUMNS, files=[ledger.write(table, rows, "d")])


def both(ledger: Ledger, value: int, base: Snapshot | None = None) -> Snapshot:
    changes = {table: change(ledger, table, value) for table in ("one", "two")}
    return ledger.commit(base or ledger.latest(), changes, f"value {value}")


def values(ledger: Ledger, snapshot: Snapshot | None = None) -> list[int]:
    found = [ledger.read(snapshot or ledger.latest(), table) for table in ("one", "two")]
    return [row["value"] for rows in found if rows is not None for row in rows.to_pylist()]


def test_a_reader_finds_the_tables_of_one_commit_also_later(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    assert ledger.latest() == Snapshot()
    seen = [both(ledger, value) for value in range(3)]

    assert values(ledger) == [2, 2]
    assert [values(ledger, snapshot) for snapshot in seen] == [[0, 0], [1, 1], [2, 2]]
    assert values(ledger, ledger.at(1)) == [1, 1]
    assert [entry["what"] for entry in ledger.versions()] == ["value 2", "value 1", "value 0"]
    with pytest.raises(ConfigError, match="has no version 7"):
        ledger.at(7)


def test_of_two_runs_that_began_together_the_later_commit_is_refused(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    base = both(ledger, 0)
    both(ledger, 1, base)

    with pytest.raises(ConflictError):
        both(ledger, 2, base)
    assert values(ledger) == [1, 1]
    both(ledger, 3)
    assert values(ledger) == [3, 3], "what the refused run left in the logs does no harm"


def test_a_run_that_dies_between_its_commits_changes_nothing(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    both(ledger, 0)
    ledger._enter("one", change(ledger, "one", 1))  # and no more

    assert values(ledger) == [0, 0]
    assert DeltaTable(str(tmp_path / "one")).to_pyarrow_table()["value"].to_pylist() == [1]
    ledger.commit(ledger.latest(), {"two": change(ledger, "two", 2)}, "another run")
    assert values(ledger) == [0, 2]
    both(ledger, 3)
    assert values(ledger) == [3, 3]


COUNTING = """
import sys
from pathlib import Path
from roamq.pipeline.ledger import ConflictError
from tests.pipeline.test_ledger import both, ledger_at, values
ledger = ledger_at(Path(sys.argv[1]))
done = 0
while done < 15:
    base = ledger.latest()
    before = values(ledger, base)
    assert before[0] == before[1], before
    try:
        both(ledger, before[0] + 1, base)
    except ConflictError:
        continue
    done += 1
"""


def test_processes_that_count_together_lose_no_count(tmp_path: Path) -> None:
    """Three processes read a number, add one and commit, as fast as they can, and begin anew where refused."""
    ledger = ledger_at(tmp_path)
    both(ledger, 0)
    command = [sys.executable, "-c", COUNTING, str(tmp_path)]
    processes = [subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        assert process.wait(timeout=120) == 0, process.communicate()[1][-2000:]
        process.communicate()

    assert values(ledger) == [45, 45]


def test_old_versions_expire_and_the_current_one_stays(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,c,s\n")
    warehouse = tmp_path / "w"
    add_source(warehouse, str(tmp_path / "a.csv"), "associations", "d", {})
    add_source(warehouse, str(tmp_path / "a.csv"), "associations", "e", {})
    copies = len(list((warehouse / "landing").rglob("*.csv")))
    remove_what(warehouse, "e")
    files = len(list(warehouse.rglob("*.parquet")))

    assert expire(warehouse, 1.0) == 0
    assert expire(warehouse, 0.0) > 0

    assert len(list(warehouse.rglob("*.parquet"))) < files
    assert copies == 2
    assert [path.name[17:] for path in (warehouse / "landing").rglob("*.csv")] == ["a.csv"]
    require_warehouse(warehouse)
    assert table_names(ledger_at(warehouse).latest()) == []


def test_files_that_differ_in_what_may_be_null_are_one_table(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "w")
    strict = pa.schema([pa.field("dataset", pa.string()), pa.field("value", pa.int64(), nullable=False)])
    files = [
        ledger.write("one", pa.Table.from_pylist([{"dataset": "d", "value": value}], schema=schema), "d")
        for value, schema in ((1, arrow_schema(COLUMNS)), (2, strict), (None, arrow_schema(COLUMNS)))
    ]

    found = ledger.rows("one", files)

    assert found is not None and found.column("value").to_pylist() == [1, 2, None]


def written_by(place: Path, told: dict[str, str] | None) -> None:
    """Make it look as if another release had made the last commit of the ledger: one that says so, or nothing."""
    last = max((place / LEDGER / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in last.read_text().splitlines()]
    for line in lines:
        if (info := line.get("commitInfo")) is not None:
            for key in (FORMAT_KEY, RELEASE_KEY):
                del info[key]
            info.update(told or {})
    last.write_text("".join(json.dumps(line) + "\n" for line in lines))


def content(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_warehouse_of_a_newer_format_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    warehouse, traces = tmp_path / "w", tmp_path / "trace.csv"
    traces.write_text("1,2\n")
    ledger = ledger_at(warehouse)
    both(ledger, 1)
    written_by(warehouse, {FORMAT_KEY: str(FORMAT + 1), RELEASE_KEY: "9.1"})
    before = content(warehouse)
    spark: Any = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None))  # nobody asks it for more

    for opens in (
        ledger.latest,
        lambda: ledger.at(0),
        ledger.versions,
        lambda: add_source(warehouse, str(traces), "counts", "d", {}),
        lambda: run_pipeline(spark, warehouse),
        lambda: open_tables(spark, warehouse),
        lambda: remove_what(warehouse, "d"),
        lambda: expire(warehouse, 0),
    ):
        with pytest.raises(
            ConfigError, match=rf"is of format {FORMAT + 1}, written by release 9\.1.*upgrade RoamQ"
        ):
            opens()

    assert content(warehouse) == before


def test_a_warehouse_of_a_release_that_said_no_format_is_read(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    both(ledger, 1)
    written_by(tmp_path, None)

    assert values(ledger) == [1, 1]
    both(ledger, 2)
    assert values(ledger) == [2, 2]
    assert DeltaTable(str(tmp_path / LEDGER)).history(1)[0][FORMAT_KEY] == str(FORMAT)


def test_what_cannot_be_a_warehouse_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,c,s\n")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r".*/file cannot be written: "):
        add_source(tmp_path / "file", str(tmp_path / "a.csv"), "associations", "d", {})
    with pytest.raises(ConfigError, match="%20 cannot be part of the name"):
        add_source(tmp_path / "w%20", str(tmp_path / "a.csv"), "associations", "d", {})
    (tmp_path / "old" / "checkpoints").mkdir(parents=True)
    with pytest.raises(ConfigError, match="made by an older RoamQ"):
        require_warehouse(tmp_path / "old")


@pytest.mark.parametrize("address", ["s4a://bucket/w", "hdfs://127.0.0.1:9/w"])
def test_an_address_that_cannot_be_reached_is_named_with_the_reason(address: str) -> None:
    with pytest.raises(
        ConfigError, match=f"{address}/ledger cannot be read: .*(Unknown scheme|HDFS)"
    ) as told:
        require_warehouse(address)
    assert "\x1b" not in str(told.value)


def test_a_table_that_the_ledger_names_and_that_is_gone_is_no_empty_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,c,s\n")
    warehouse = tmp_path / "w"
    add_source(warehouse, str(tmp_path / "a.csv"), "associations", "d", {})
    assert len(files_of(warehouse)) == 1
    [book] = (warehouse / "files").glob("*.parquet")
    book.rename(tmp_path / "book")
    with pytest.raises(ConfigError, match=rf"{book} is gone, and the tables need it: put it back"):
        files_of(warehouse)
    (tmp_path / "book").rename(book)
    (warehouse / "files" / "_delta_log").rename(tmp_path / "log")
    with pytest.raises(ConfigError, match=r"files/_delta_log is gone"):
        files_of(warehouse)
    ledger = warehouse / "ledger" / "_delta_log" / f"{0:020d}.json"
    ledger.write_text(ledger.read_text()[:10])
    with pytest.raises(ConfigError, match="/ledger cannot be read: "):
        files_of(warehouse)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; skips the test where none can be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_named_and_what_was_there_stays(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,c,s\n")
    (tmp_path / "b.csv").write_bytes(os.urandom(1 << 20))
    warehouse = small_disk / "w"
    add_source(warehouse, str(tmp_path / "a.csv"), "associations", "d", {})
    before = ledger_at(warehouse).latest()

    with pytest.raises(ConfigError, match=r"cannot be written: .*No space left"):
        add_source(warehouse, str(tmp_path / "b.csv"), "associations", "e", {})

    assert ledger_at(warehouse).latest() == before


def test_a_store_says_when_its_disk_is_full(small_disk: Path, tmp_path: Path) -> None:
    """Spark says that a task failed, and not why."""
    assert Store.at(tmp_path).why_full() == ""
    assert f"no space left at {small_disk}: make some and run again" in Store.at(small_disk).why_full()


def test_a_warehouse_that_may_only_be_read_is_named_and_can_be_read(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,c,s\n")
    (tmp_path / "b.csv").write_text("2,c,s\n")
    warehouse = small_disk / "w"
    add_source(warehouse, str(tmp_path / "a.csv"), "associations", "d", {})
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    with pytest.raises(ConfigError, match=r"cannot be written: .*Read-only"):
        add_source(warehouse, str(tmp_path / "b.csv"), "associations", "d", {})
    require_warehouse(warehouse)
