"""Nothing is lost in silence: every way in which rows once vanished, from the files to the tables."""

import gzip
import json
import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roamq.pipeline.books import Shelf
from roamq.pipeline.landing import add_source
from roamq.pipeline.runner import FilesFailedError, run_pipeline
from roamq.pipeline.upkeep import files_of, remove_what, retry_failed, tables_of
from tests.pipeline.warehouses import pipeline_command, table

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def add(warehouse: Path, path: Path, dataset: str = "d", **settings: str) -> None:
    add_source(warehouse, str(path), "counts", dataset, settings)


def run(spark: SparkSession, warehouse: Path, *, full_refresh: bool = False) -> None:
    run_pipeline(spark, warehouse, full_refresh=full_refresh)


def counts(first: int, last: int) -> str:
    """Lines of the format `counts`, each with another number of calls."""
    return "".join(f"s{number % 3},{1_704_067_200 + 60 * number},{number}\n" for number in range(first, last))


def calls(spark: SparkSession, warehouse: Path) -> dict[str, int]:
    """All calls in the gold table, by dataset: a row that is lost or read twice changes them."""
    rows = table(spark, warehouse, "arrival_rates").groupBy("dataset").sum("arrivals").collect()
    return {row.dataset: row["sum(arrivals)"] for row in rows}


def total(first: int, last: int) -> int:
    return sum(range(first, last))


def test_fifteen_datasets_of_one_format_share_a_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    for number in range(15):
        (tmp_path / f"{number}.csv").write_text(counts(0, 10 * (number + 1)))
        add(warehouse, tmp_path / f"{number}.csv", f"d{number}")
        if number == 0:
            run(spark, warehouse)
    expected = {f"d{number}": total(0, 10 * (number + 1)) for number in range(15)}

    run(spark, warehouse)
    assert calls(spark, warehouse) == expected

    remove_what(warehouse, "d7")
    run(spark, warehouse, full_refresh=True)
    assert calls(spark, warehouse) == {name: rows for name, rows in expected.items() if name != "d7"}
    assert table(spark, warehouse, "bronze_counts").where("dataset = 'd7'").isEmpty()


def test_a_file_that_is_cut_short_fails_the_run_by_name_and_the_good_files_are_kept(tmp_path: Path) -> None:
    """From outside: exit codes, what is printed, and the way back."""
    folder, warehouse = tmp_path / "in", tmp_path / "w"
    folder.mkdir()
    (folder / "good.csv").write_text(counts(0, 10))
    (folder / "bad.csv.gz").write_bytes(gzip.compress(counts(10, 2000).encode())[:-30])
    (folder / "wrong.csv").write_text("another;format\n")

    done = pipeline_command("run", warehouse, "--traces", str(folder), "--format", "counts", "--json")
    assert done.returncode == 1
    assert "1 files could not be read: bad.csv.gz: the compressed file is cut short" in done.stderr
    assert {(row["name"], row["rows"]) for row in json.loads(done.stdout)} >= {("lines in", 11), ("rows", 10)}
    assert "no line of wrong.csv could be read" in done.stderr

    status = pipeline_command("status", warehouse, "--json")
    assert status.returncode == 1
    told = json.loads(status.stdout)
    assert {(row["file"], row["state"], row["rows"]) for row in told["files"]} == {
        ("good.csv", "read", 10),
        ("bad.csv.gz", "failed", 0),
        ("wrong.csv", "read", 0),
    }
    assert {(row["table"], row["rows in"]) for row in told["tables"]} >= {("arrival_rates", 11)}

    (folder / "bad.csv.gz").write_bytes(gzip.compress(counts(10, 2000).encode()))
    done = pipeline_command("retry", warehouse, "--json")
    assert done.returncode == 0, done.stderr
    assert {(row["name"], row["rows"]) for row in json.loads(done.stdout)} >= {("rows", 2000)}
    assert pipeline_command("status", warehouse).returncode == 0
    assert pipeline_command("retry", warehouse).returncode == 2, "nothing has failed"


def test_a_file_that_only_spark_finds_broken_is_named_with_its_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Files at an address are read in place: nobody but Spark opens them."""
    folder, warehouse = tmp_path / "there", tmp_path / "w"
    folder.mkdir()
    (folder / "good 1.csv").write_text(counts(0, 10))
    (folder / "bad.csv.gz").write_bytes(gzip.compress(counts(10, 2000).encode())[:-30])
    add_source(warehouse, f"file://{folder}", "counts", "d", {})

    for _ in range(2):
        with pytest.raises(FilesFailedError, match=r"bad\.csv\.gz: .*reading file.*bad\.csv\.gz"):
            run(spark, warehouse)
        assert calls(spark, warehouse) == {"d": total(0, 10)}

    (folder / "bad.csv.gz").write_bytes(gzip.compress(counts(10, 2000).encode()))
    (folder / "good 2.csv").write_text(counts(2000, 2010))
    run(spark, warehouse)
    assert calls(spark, warehouse) == {"d": total(0, 2010)}
    (folder / "good 1.csv").write_text(counts(0, 12))
    (folder / "good 2.csv").unlink()
    run(spark, warehouse)
    assert calls(spark, warehouse) == {"d": total(0, 2010) + 10 + 11}, "changed there: read anew; gone: kept"


def test_a_file_older_than_those_that_were_read_is_read(spark: SparkSession, tmp_path: Path) -> None:
    folder, warehouse = tmp_path / "in", tmp_path / "w"
    folder.mkdir()
    (folder / "new.csv").write_text(counts(0, 10))
    add(warehouse, folder)
    run(spark, warehouse)
    (folder / "old.csv").write_text(counts(10, 20))
    os.utime(folder / "old.csv", (time.time() - 30 * 86_400,) * 2)

    add(warehouse, folder)
    run(spark, warehouse)

    assert calls(spark, warehouse) == {"d": total(0, 20)}


def test_the_new_part_of_a_file_that_grew_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    """Three times: whole lines, then half a line, then its other half; quarantined lines keep their numbers."""
    source, warehouse = tmp_path / "a.csv", tmp_path / "w"
    text = "site,bin,n\n" + counts(0, 100) + "torn\n"
    versions = [
        text,
        text + counts(100, 110) + "also torn\n",
        text + counts(100, 110) + "also torn\n" + counts(110, 111)[:-3],
    ]
    versions.append(text + counts(100, 110) + "also torn\n" + counts(110, 112))
    sums = [total(0, 100), total(0, 110), None, total(0, 112)]
    for version, expected in zip(versions, sums, strict=True):
        source.write_text(version)
        add(warehouse, source)
        run(spark, warehouse)
        if expected is not None:
            assert calls(spark, warehouse) == {"d": expected}
        refused = table(spark, warehouse, "quarantine").where("raw like '%torn'").orderBy("line").collect()
        assert [(row.file, row.line) for row in refused] == [("a.csv", 102), ("a.csv", 113)][: len(refused)]
        lines = sum(entry.lines or 0 for entry in Shelf.of(warehouse).book("d"))
        assert lines == len(version.splitlines()) == table(spark, warehouse, "bronze_counts").count()

    run(spark, warehouse, full_refresh=True)
    assert calls(spark, warehouse) == {"d": total(0, 112)}


def test_a_source_that_went_away_leaves_what_landed(spark: SparkSession, tmp_path: Path) -> None:
    source, warehouse = tmp_path / "a.csv", tmp_path / "w"
    source.write_text(counts(0, 10))
    add(warehouse, source)
    run(spark, warehouse)
    source.unlink()

    run(spark, warehouse, full_refresh=True)

    assert calls(spark, warehouse) == {"d": total(0, 10)}


def test_paths_may_hold_any_letter(spark: SparkSession, tmp_path: Path) -> None:
    odd = "a b ü'\"#%[x]{y}+&=*?$"
    folder, warehouse = tmp_path / f"in {odd}%20", tmp_path / f"w {odd}"
    odd += "%20"
    folder.mkdir()
    (folder / f"{odd}.csv").write_text(counts(0, 10) + "torn\n")
    (folder / "plain.csv").write_text(counts(10, 20))
    add(warehouse, folder)

    run(spark, warehouse)
    rates = spark.read.table("arrival_rates").groupBy().sum("arrivals").collect()
    assert rates[0][0] == total(0, 20)
    assert [row.file for row in spark.read.table("quarantine").collect()] == [f"{odd}.csv"]
    assert {path.name for path in tmp_path.iterdir()} == {folder.name, warehouse.name}, "nothing beside them"

    with (folder / f"{odd}.csv").open("a") as file:
        file.write(counts(20, 30))
    add(warehouse, folder)
    run(spark, warehouse)
    assert spark.read.table("arrival_rates").groupBy().sum("arrivals").collect()[0][0] == total(0, 30)
    remove_what(warehouse, "plain.csv")
    run(spark, warehouse)
    left = total(0, 10) + total(20, 30)
    assert spark.read.table("arrival_rates").groupBy().sum("arrivals").collect()[0][0] == left


def test_a_file_can_be_removed_with_its_rows_and_no_others(spark: SparkSession, tmp_path: Path) -> None:
    folder, warehouse = tmp_path / "in", tmp_path / "w"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.csv").write_text(counts(10 * number, 10 * number + 10))
    add(warehouse, folder)
    run(spark, warehouse)

    assert remove_what(warehouse, "1.csv") == "1.csv of dataset d (10 rows)"
    run(spark, warehouse)

    assert calls(spark, warehouse) == {"d": total(0, 10) + total(20, 30)}
    assert [row["file"] for row in files_of(warehouse)] == ["0.csv", "2.csv"]
    assert {row["table"]: row["changed"] for row in tables_of(warehouse)}["arrival_rates"] <= 0
    assert retry_failed(warehouse) == []


def test_files_of_one_name_keep_their_quarantined_lines_when_another_arrives(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = tmp_path / "w"
    for folder in ("monday", "tuesday"):
        (tmp_path / folder).mkdir()
        good = "".join(f"{1_704_067_200 + 600 * n},{folder},s{n % 3}\n" for n in range(40))
        (tmp_path / folder / "ap.csv").write_text(f"{good}{folder} is torn\n")
        add_source(warehouse, str(tmp_path / folder), "associations", "d", {})
        run_pipeline(spark, warehouse)
    with (tmp_path / "tuesday" / "ap.csv").open("a") as file:
        file.write("1704967200,tuesday,s1\n")
    add_source(warehouse, str(tmp_path / "tuesday"), "associations", "d", {})
    run_pipeline(spark, warehouse)

    refused = table(spark, warehouse, "quarantine").collect()
    assert sorted((row.line, row.raw) for row in refused) == [(41, "monday is torn"), (41, "tuesday is torn")]


def test_books_that_do_not_balance_fail_the_run_with_the_name_of_the_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A copy that lost a line after it was counted, as a failing disk may do."""
    folder, warehouse = tmp_path / "in", tmp_path / "w"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.csv").write_text(counts(10 * number, 10 * number + 10))
    add(warehouse, folder)
    [landed] = (warehouse / "landing" / "d").rglob("*-1.csv")
    landed.write_text(counts(10, 19))

    with pytest.raises(FilesFailedError, match=r"1\.csv: 10 lines landed, but 9 rows"):
        run(spark, warehouse)

    assert calls(spark, warehouse) == {"d": total(0, 10)}


def test_absurd_times_and_places_end_in_quarantine_and_make_few_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """68 lines with times of 3,000 years once made a million days per client, and one place beyond all digits failed
    the run.
    """
    lines = [f"{sign}{10**power},c{power},s{power % 2}" for power in range(9, 13) for sign in ("", "-")]
    lines += [f"{year}-01-01T00:00:00,c,s" for year in ("0001", "1969", "2100", "9999", "123456", "+99999")]
    lines += [f"{1_704_067_200 + 60 * number},c{number % 3},s{number % 2}" for number in range(54)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    add_source(tmp_path / "w", str(tmp_path / "a.csv"), "associations", "d", {})
    places = ["0.5", "1e10", "-1e300", "inf", "nan"]
    (tmp_path / "wlan.csv").write_text(
        "".join(f"2013-05-06 10:{n}0:00,ap{n},room,{x},0.5,device\n" for n, x in enumerate(places))
    )
    add_source(tmp_path / "w", str(tmp_path / "wlan.csv"), "wifi", "wlan", {"min_observations": "1"})

    run(spark, tmp_path / "w")

    refused = table(spark, tmp_path / "w", "quarantine").collect()
    assert sum(row.dataset == "d" for row in refused) == 13
    reasons = {row.line: row.reason for row in refused if row.dataset == "wlan"}
    assert reasons == {n: f"x is not readable: '{x}'" for n, x in enumerate(places, start=1) if n > 1}
    [place] = table(spark, tmp_path / "w", "sites").where("dataset = 'wlan'").collect()
    assert (place.site, place.x) == ("ap0", 0.5)
    written = {row["table"]: row["rows out"] for row in tables_of(tmp_path / "w")}
    assert written["days"] < 100
    assert sum(written.values()) < 10_000, "no table spreads a time over years"
