"""RoamQ's own records on their way through the pipeline."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from roamq.pipeline import records, silver
from roamq.pipeline.metrics import metrics_of
from roamq.pipeline.schemas import DELIVERIES, PROVENANCE, TRAFFIC
from roamq.pipeline.traces.base import is_good
from roamq.pipeline.traces.records import FIELDS, RECORDS
from tests.pipeline.frames import same

pytestmark = pytest.mark.spark

NONE = None
ROWS = [
    # kind, time_s, broker, client, origin, sequence, peer, detail, count, hops, bytes, duration_s
    ("connected", 100.0, "b1", "c", *[NONE] * 8),
    ("published", 101.0, "b1", "p", "b1", 1, NONE, NONE, 1, NONE, NONE, NONE),
    ("published", 102.0, "b1", "p", "b1", 2, NONE, NONE, 1, NONE, NONE, NONE),
    ("delivered", 101.5, "b1", "c", "b1", 1, NONE, "live", NONE, NONE, NONE, 0.5),
    ("disconnected", 103.0, "b1", "c", *[NONE] * 8),
    ("traffic", 104.0, "b1", NONE, NONE, NONE, NONE, "event", 3, 4, 50, NONE),
    ("connected", 105.0, "b2", "c", *[NONE] * 8),
    ("invented", 105.0, "b2", "c", *[NONE] * 8),
    ("delivered", 106.0, "b2", *[NONE] * 9),
]


def test_records_become_sojourns_facts_and_metrics_and_wrong_ones_are_refused(spark: SparkSession) -> None:
    rows = [("f", number, "run", *row) for number, row in enumerate(ROWS)]
    arrived = spark.createDataFrame(rows, schema=f"file string, position bigint, {FIELDS}")
    parsed = RECORDS.parse(arrived).withColumn("dataset", F.lit("d")).persist()
    assert [r.reason for r in parsed.where(~is_good()).orderBy("position").collect()] == [
        "kind is unknown: invented",
        "client is missing",
    ]
    good = parsed.where(is_good())
    assert {f.name for f in good.schema} >= {column.split(" ")[0] for column in PROVENANCE.split(", ")}

    assert RECORDS.observe is not None
    found = silver.sojourns(RECORDS.observe(good, RECORDS.rules), RECORDS.rules, dataset="d")
    assert [(r.client, r.state, r.site) for r in found.orderBy("begin").collect()] == [
        ("run/c", "connected", "b1"),
        ("run/c", "disconnected", None),
        ("run/c", "connected", "b2"),
    ]
    same(records.deliveries(good), [("d", "run", "b1", 1, "c", "b1", 101.5, 0.5, "live")], DELIVERIES)
    same(records.traffic(good), [("d", "run", "b1", "event", 104.0, 3, 4, 50)], TRAFFIC)
    assert records.publications(good).count() == 2
    measured = metrics_of(good, records.runs_of(good), ["published", "loss_pct"]).collect()
    assert {(r.metric, r.value) for r in measured} == {("published", 2.0), ("loss_pct", 50.0)}
    parsed.unpersist()
