"""Campaigns: one task per run, the same records whatever the number of cores, failures named and survived."""

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from roamq.core.records import Record
from roamq.pipeline.campaign import _OUT, run_campaign, run_one
from roamq.pipeline.jobs import Job, RunFunction, Runner
from roamq.pipeline.schemas import CAMPAIGN, RECORD_COLUMNS, RECORDS, RUNS, columns
from roamq.sim.scenario import load_scenario
from tests.support.runners import counting, dying, failing, refusing, refusing_while_there, violating

pytestmark = pytest.mark.spark


def jobs(run: RunFunction, seeds: Iterable[int], **payload: object) -> list[Job]:
    return [
        Job(
            scenario="toy",
            scheme="none",
            seed=seed,
            params={"n": "1"},
            payload=payload,
            runner=Runner(run=run),
        )
        for seed in seeds
    ]


def digest(rows: Iterable[tuple[object, ...]]) -> str:
    """Of the records' exact values: `repr` of a float is exact."""
    return hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()


def test_the_contract_has_the_columns_of_a_record() -> None:
    assert columns(RECORD_COLUMNS) == list(Record._fields)
    assert [field.name for field in _OUT] == columns(CAMPAIGN)


def simulations() -> list[Job]:
    """Two seeds of a real scenario."""
    scenario = load_scenario("testbed", overrides={"duration_s": "40", "drain_s": "20"}, scheme="standard")
    payload = json.loads(scenario.to_json())
    return [Job(scenario="testbed", scheme="standard", seed=seed, payload=payload) for seed in (1, 2)]


@pytest.mark.parametrize(
    "wanted", [jobs(counting, range(5), events=300), simulations()], ids=["toy", "simulator"]
)
def test_records_on_spark_are_those_of_one_process(
    spark: SparkSession, tmp_path: Path, wanted: list[Job]
) -> None:

    campaign = run_campaign(spark, wanted, tmp_path)

    rows = campaign.records.orderBy("run_id", "position").collect()
    on_spark = digest((row.run_id, *tuple(row)[2:]) for row in rows)
    here = digest(
        (job.run_id, *record)
        for job in sorted(wanted, key=lambda job: job.run_id)
        for record in job.runner.run(dict(job.payload), job.seed)
    )
    assert on_spark == here
    assert campaign.records.columns == columns(RECORDS)
    assert campaign.runs.columns == columns(RUNS)


def test_a_second_campaign_makes_only_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    run_campaign(spark, jobs(counting, range(2), events=10), tmp_path)

    again = run_campaign(spark, jobs(counting, range(3), events=10), tmp_path)

    assert again.made == 1
    assert again.runs.count() == 3
    assert again.records.count() == 3 * 20


def test_a_run_that_was_made_twice_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """As when a job was given up while one of its tasks was still committing."""
    [job] = jobs(counting, [1], events=10)
    run_campaign(spark, [job], tmp_path)
    for folder in tmp_path.glob("part=*/run_id=*/attempt=*"):
        shutil.copytree(folder, folder.with_name("attempt=azzz"))

    campaign = run_campaign(spark, [job], tmp_path)

    assert (campaign.made, campaign.runs.count(), campaign.records.count()) == (0, 1, 20)


def test_a_failed_run_is_named_with_its_replay_and_the_rest_finishes(
    spark: SparkSession, tmp_path: Path
) -> None:
    campaign = run_campaign(spark, jobs(failing, range(4)), tmp_path)

    rows = {row.seed: row for row in campaign.runs.collect()}
    assert {seed: row.status for seed, row in rows.items()} == {0: "ok", 1: "failed", 2: "ok", 3: "failed"}
    assert "RuntimeError: broke at seed 3" in rows[3].error
    assert rows[3].replay == "roamq simulate toy --scheme none --set n=1 --seed 3"
    assert (rows[3].scenario, rows[3].scheme, rows[3].params) == ("toy", "none", {"n": "1"})
    # The half-written records of a failed run are nobody's evidence.
    kept = {row.run_id for row in campaign.records.select("run_id").distinct().collect()}
    assert kept == {rows[0].run_id, rows[2].run_id}


def test_a_campaign_of_which_every_run_failed_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """No run left a record, so that there is no folder of records."""
    campaign = run_campaign(spark, jobs(refusing, [1, 2]), tmp_path)

    assert {row.status for row in campaign.runs.collect()} == {"failed"}
    assert campaign.records.count() == 0


def test_a_failed_run_is_tried_again_by_the_next_campaign(spark: SparkSession, tmp_path: Path) -> None:
    """The disk may have been full: only the failed run is made again, and what came of it now counts."""
    full = tmp_path / "full"
    full.touch()
    wanted = [job for seed in (1, 2) for job in jobs(refusing_while_there, [seed], file=str(full))]
    first = run_campaign(spark, wanted, tmp_path / "out")
    full.unlink()

    second = run_campaign(spark, wanted, tmp_path / "out")
    third = run_campaign(spark, wanted, tmp_path / "out")

    assert {row.seed: row.status for row in second.runs.collect()} == {1: "ok", 2: "ok"}
    assert (first.made, second.made, third.made) == (2, 1, 0)
    assert second.records.count() == 2


def test_a_run_that_takes_its_process_down_is_named_too(spark: SparkSession, tmp_path: Path) -> None:
    campaign = run_campaign(spark, jobs(dying, range(3)), tmp_path)

    rows = {row.seed: row for row in campaign.runs.collect()}
    assert {seed: row.status for seed, row in rows.items()} == {0: "ok", 1: "failed", 2: "ok"}
    assert rows[1].error.startswith("its process ended: ")
    assert rows[1].replay.endswith("--seed 1")
    assert campaign.records.count() == 2


def test_a_violated_invariant_shows_in_the_run(spark: SparkSession, tmp_path: Path) -> None:
    [row] = run_campaign(spark, jobs(violating, [1]), tmp_path).runs.collect()

    assert (row.status, row.error) == ("violated", "duplication: 1 found")


def test_every_run_is_a_task_and_progress_ends_complete(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    run_campaign(
        spark,
        jobs(counting, range(3), events=1),
        tmp_path,
        progress=lambda ended, total: seen.append((ended, total)),
    )

    assert seen[0] == (0, 3)
    assert seen[-1] == (3, 3)
    assert len(list((tmp_path / "part=records").glob("run_id=*/attempt=*/*.parquet"))) == 3


def test_records_leave_in_batches_of_bounded_size() -> None:
    [job] = jobs(counting, [1], events=25_000)
    row = {
        "run_id": job.run_id,
        "scenario": "toy",
        "scheme": "none",
        "seed": 1,
        "params": {},
        "runner": job.runner.name,
        "warmup_s": 0.0,
        "until_s": None,
        "replay": "",
        "payload": '{"events": 25000}',
    }

    batches: list[pa.RecordBatch] = list(run_one(row, counting))

    assert [batch.num_rows for batch in batches] == [20_000, 20_000, 10_000, 1]


def test_the_id_of_a_run_depends_on_what_decides_its_records() -> None:
    [job], [same] = jobs(counting, [1], events=3), jobs(counting, [1], events=3)
    [longer], [other_seed] = jobs(counting, [1], events=4), jobs(counting, [2], events=3)

    assert job.run_id == same.run_id
    assert len({job.run_id, longer.run_id, other_seed.run_id}) == 3
