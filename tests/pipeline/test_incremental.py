"""A run makes what changed and keeps the rest: every table equals that of a warehouse that was made in one go.

A longer campaign: `python -m tests.pipeline.incremental --sequences 50`.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from roamq.core.records import Record
from roamq.pipeline import derive
from roamq.pipeline.definitions import gold
from roamq.pipeline.landing import add_source
from roamq.pipeline.ledger import DataFile, Ledger
from roamq.pipeline.runner import run_pipeline
from roamq.pipeline.schemas import RECORDS
from roamq.pipeline.store import Store
from roamq.pipeline.upkeep import remove_what
from tests.pipeline.incremental import BEGIN_S, play
from tests.pipeline.warehouses import differences, small_traces

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("seed", [1])
def test_arrivals_duplicates_late_rows_removals_and_kills_leave_what_a_full_run_makes(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    replay = f"replay: python -m tests.pipeline.incremental --first {seed} --sequences 1 --steps 3"
    found, killed = play(spark, tmp_path, seed, steps=3)
    assert found == {}, replay
    assert killed, "this sequence has a run that dies"


@pytest.mark.parametrize(("kind", "seed"), [("tied", 1), ("listed", 2)])
def test_lines_of_several_files_at_one_instant_leave_what_a_full_run_makes(
    spark: SparkSession, tmp_path: Path, kind: str, seed: int
) -> None:
    """A task that reads several files numbers their lines on: those numbers must not decide between files."""
    found, _ = play(spark, tmp_path, seed, steps=2, kind=kind)
    replay = f"--kind {kind} --first {seed} --sequences 1 --steps 2"
    assert found == {}, f"replay: python -m tests.pipeline.incremental {replay}"


def test_places_counts_and_records_that_come_leave_what_a_full_run_makes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Three datasets change in part at once: sites with places, sites of events, and runs are looked for together."""
    cabs, calls, records, warehouse = (tmp_path / name for name in ("cabs", "calls", "records", "w"))

    def arrive(first: int, last: int) -> None:
        for n in range(first, last):
            reports = (
                f"37.{7500 + 40 * (n + step // 4 % 5)} -122.4 0 {BEGIN_S + 60 * step}" for step in range(40)
            )
            (cabs / f"new_cab{n}.txt").write_text("\n".join(reports) + "\n")
            (calls / f"{n}.csv").write_text(f"site,bin,n\na{n % 3},{BEGIN_S + 600 * n},{n + 1}\n")
        happened = [
            (f"run{n}", number, *record)
            for n in range(first, last)
            for number, record in enumerate(
                [
                    Record(kind="connected", time_s=0.0, broker=f"b{n % 3}", client="c"),
                    Record(
                        kind="published", time_s=n, broker=f"b{n % 3}", client="p", origin="b", sequence=n
                    ),
                    Record(kind="disconnected", time_s=20.0, broker=f"b{n % 3}", client="c"),
                ]
            )
        ]
        spark.createDataFrame(happened, RECORDS).coalesce(1).write.mode("append").parquet(str(records))

    def run(place: Path) -> list[dict[str, Any]]:
        add_source(place, str(cabs), "gps", "cabs", {})
        add_source(place, str(calls), "counts", "calls", {})
        add_source(place, str(records), "records", "live", {})
        run_pipeline(spark, place)
        measured = Ledger(Store.at(place)).read(Ledger(Store.at(place)).latest(), "metrics")
        assert measured is not None
        return sorted(measured.to_pylist(), key=repr)

    cabs.mkdir()
    calls.mkdir()
    arrive(0, 6)
    run(warehouse)
    arrive(6, 7)
    assert run(warehouse) == run(tmp_path / "again")
    assert not any(differences(tmp_path / "again", warehouse).values())


@pytest.fixture(scope="module")
def three_days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three days, `in`, and a warehouse made of it, `w`: tests go on with copies of both."""
    root = tmp_path_factory.mktemp("three-days")
    add_source(root / "w", str(small_traces(root / "in", days=range(3))), "associations", "d", {})
    run_pipeline(spark, root / "w")
    return root


def copied(three_days: Path, root: Path) -> tuple[Path, Path]:
    """The folder, with the same files, and the warehouse, for a test of its own."""
    for name in ("in", "w"):
        shutil.copytree(three_days / name, root / name)
    return root / "in", root / "w"


def test_nothing_new_makes_nothing_and_one_dataset_leaves_the_files_of_another(
    spark: SparkSession, three_days: Path, tmp_path: Path
) -> None:
    _, warehouse = copied(three_days, tmp_path)
    ledger = Ledger(Store.at(warehouse))
    first = ledger.latest()

    run_pipeline(spark, warehouse)
    assert ledger.latest().number == first.number, "a run without news commits nothing"

    (tmp_path / "b.csv").write_text("1704067200,c,s1\n1704070000,c,s2\n")
    add_source(warehouse, str(tmp_path / "b.csv"), "associations", "b", {})
    run_pipeline(spark, warehouse)
    then = ledger.latest()
    for table in ("sojourns", "moves", "neighbor_graph", "connectivity"):
        before = {file.path for file in ledger.files(first, table)}
        assert before <= {file.path for file in ledger.files(then, table)}, table


def test_a_row_that_lasts_no_time_has_no_durations_and_more_rows_have(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, warehouse = tmp_path / "in", tmp_path / "w"
    folder.mkdir()
    ledger = Ledger(Store.at(warehouse))

    def described() -> int:
        add_source(warehouse, str(folder), "associations", "d", {})
        run_pipeline(spark, warehouse)
        return ledger.latest().tables["connectivity"].rows_out

    (folder / "one.csv").write_text("1704067200,c,s1\n")
    assert described() == 0
    (folder / "more.csv").write_text("".join(f"{1_704_067_200 + 300 * n},c,s{n // 3}\n" for n in range(12)))
    assert described() > 0


def test_rows_of_new_clients_leave_the_files_of_silver_tables_as_they_are(
    spark: SparkSession, three_days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts of paths are corrected meanwhile, and not counted again."""
    known: list[set[str]] = []
    correct = gold._corrected_trigrams

    def watched(*given: Any) -> tuple[list[DataFrame], set[str]]:
        made = correct(*given)
        known.append(made[1])
        return made

    monkeypatch.setattr(gold, "MANY_MOVES", 0)
    monkeypatch.setattr(gold, "_corrected_trigrams", watched)
    folder, warehouse = copied(three_days, tmp_path)
    ledger = Ledger(Store.at(warehouse))
    first = ledger.latest()

    (folder / "more.csv").write_text("".join(f"{1_704_067_200 + 300 * n},new,s{n // 3}\n" for n in range(12)))
    for place in (warehouse, tmp_path / "again"):
        add_source(place, str(folder), "associations", "d", {})
        run_pipeline(spark, place)

    for table in ("sojourns", "moves", "durations"):
        before = {file.path for file in ledger.files(first, table)}
        assert before < {file.path for file in ledger.files(ledger.latest(), table)}, table
    assert known == [{"d"}, set()], "the second run makes everything"
    assert differences(tmp_path / "again", warehouse) == {}


def clients_in(ledger: Ledger, table: str, file: DataFile) -> set[str]:
    rows = ledger.rows(table, [file], ["client"])
    assert rows is not None
    return set(rows.column("client").to_pylist())


def test_a_changed_client_meets_the_files_that_hold_it_and_no_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a client lie together, so files of silver tables that hold only others stay as they are."""
    monkeypatch.setattr(derive, "SILVER_ROWS", 60)
    monkeypatch.setattr(derive, "SILVER_SHARE", 1 << 20)
    folder, warehouse = small_traces(tmp_path / "in", clients=12), tmp_path / "w"
    ledger = Ledger(Store.at(warehouse))
    add_source(warehouse, str(folder), "associations", "d", {})
    run_pipeline(spark, warehouse)
    first = ledger.latest()

    (folder / "more.csv").write_text("1704567200,c3,s1\n1704567800,c3,s2\n")
    for place in (warehouse, tmp_path / "again"):
        add_source(place, str(folder), "associations", "d", {})
        run_pipeline(spark, place)

    for table in ("sojourns", "moves", "durations"):
        before = ledger.files(first, table)
        stayed = {file.path for file in ledger.files(ledger.latest(), table)}
        holding = {file.path for file in before if "c3" in clients_in(ledger, table, file)}
        assert {file.path for file in before} - stayed == holding, table
        assert len(holding) < len(before) / 2, table
    assert differences(tmp_path / "again", warehouse) == {}


def test_a_line_in_quarantine_comes_and_goes_with_its_file(spark: SparkSession, tmp_path: Path) -> None:
    """Where no line is or was refused, nobody looks for one."""
    folder, warehouse, ledger = tmp_path / "in", tmp_path / "w", Ledger(Store.at(tmp_path / "w"))
    folder.mkdir()
    good = "".join(f"{1_704_067_200 + 300 * n},c,s{n // 3}\n" for n in range(12))

    def refused() -> list[tuple[str, int]]:
        add_source(warehouse, str(folder), "associations", "d", {})
        run_pipeline(spark, warehouse)
        rows = ledger.read(ledger.latest(), "quarantine")
        return [] if rows is None else [(row["file"], row["line"]) for row in rows.to_pylist()]

    (folder / "good.csv").write_text(good)
    assert refused() == []
    (folder / "torn.csv").write_text("1704167200,c,s1\n17041\n")
    assert refused() == [("torn.csv", 2)]
    (folder / "torn.csv").unlink()
    remove_what(warehouse, "torn.csv")
    assert refused() == []


@pytest.fixture(scope="module")
def with_every_client(
    spark: SparkSession, three_days: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of three days with a row more of every client, `in`, and a warehouse made of it at once, `again`."""
    root = tmp_path_factory.mktemp("every-client")
    shutil.copytree(three_days / "in", root / "in")
    (root / "in" / "more.csv").write_text("".join(f"{1_704_367_200 + n},c{n},s1\n" for n in range(6)))
    add_source(root / "again", str(root / "in"), "associations", "d", {})
    run_pipeline(spark, root / "again")
    return root


@pytest.mark.parametrize(
    ("named", "counted", "files_max"),
    [(2, 2, 48), (1000, 2, 48), (1000, 100, 0)],
    ids=["made whole", "named and made whole", "merged"],
)
def test_a_row_of_every_client_leaves_what_a_full_run_makes(
    spark: SparkSession,
    three_days: Path,
    with_every_client: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: int,
    counted: int,
    files_max: int,
) -> None:
    """Where many clients changed the dataset is made whole, and silver tables of many files are written anew."""
    monkeypatch.setattr(derive, "MANY_KEYS", named)
    monkeypatch.setattr(derive, "COUNTED_CLIENTS", counted)
    monkeypatch.setattr(derive, "FILES_MAX", files_max)
    _, warehouse = copied(three_days, tmp_path)

    add_source(warehouse, str(with_every_client / "in"), "associations", "d", {})
    run_pipeline(spark, warehouse)

    assert differences(with_every_client / "again", warehouse) == {}
