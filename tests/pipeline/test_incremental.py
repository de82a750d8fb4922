"""A run makes what changed and keeps the rest: every table equals that of a warehouse that was made in one go.

A longer campaign: `python -m tests.pipeline.incremental --sequences 50`.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roamq.pipeline import derive
from roamq.pipeline.landing import add_source
from roamq.pipeline.ledger import Ledger
from roamq.pipeline.runner import run_pipeline
from roamq.pipeline.store import Store
from roamq.pipeline.upkeep import remove_what
from tests.pipeline.incremental import play
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


def test_nothing_new_makes_nothing_and_one_dataset_leaves_the_files_of_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = tmp_path / "w"
    ledger = Ledger(Store.at(warehouse))
    add_source(warehouse, str(small_traces(tmp_path / "a", days=range(2))), "associations", "a", {})
    run_pipeline(spark, warehouse)
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


def test_rows_of_new_clients_leave_the_files_of_silver_tables_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = small_traces(tmp_path / "in", days=range(2))
    warehouse, ledger = tmp_path / "w", Ledger(Store.at(tmp_path / "w"))
    add_source(warehouse, str(folder), "associations", "d", {})
    run_pipeline(spark, warehouse)
    first = ledger.latest()

    (folder / "more.csv").write_text("".join(f"{1_704_067_200 + 300 * n},new,s{n // 3}\n" for n in range(12)))
    add_source(warehouse, str(folder), "associations", "d", {})
    run_pipeline(spark, warehouse)

    for table in ("sojourns", "moves", "durations"):
        before = {file.path for file in ledger.files(first, table)}
        assert before < {file.path for file in ledger.files(ledger.latest(), table)}, table
    add_source(tmp_path / "again", str(folder), "associations", "d", {})
    run_pipeline(spark, tmp_path / "again")
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


@pytest.mark.parametrize(
    ("named", "counted", "files_max"),
    [(2, 2, 48), (1000, 2, 48), (1000, 100, 0)],
    ids=["made whole", "named and made whole", "merged"],
)
def test_a_row_of_every_client_leaves_what_a_full_run_makes(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: int,
    counted: int,
    files_max: int,
) -> None:
    """Where many clients changed the dataset is made whole, and silver tables of many files are written anew."""
    monkeypatch.setattr(derive, "MANY_CLIENTS", named)
    monkeypatch.setattr(derive, "COUNTED_CLIENTS", counted)
    monkeypatch.setattr(derive, "FILES_MAX", files_max)
    folder, warehouse = small_traces(tmp_path / "in", days=range(3)), tmp_path / "w"
    add_source(warehouse, str(folder), "associations", "d", {})
    run_pipeline(spark, warehouse)

    (folder / "more.csv").write_text("".join(f"{1_704_367_200 + n},c{n},s1\n" for n in range(6)))
    for place in (warehouse, tmp_path / "again"):
        add_source(place, str(folder), "associations", "d", {})
        run_pipeline(spark, place)

    assert differences(tmp_path / "again", warehouse) == {}
