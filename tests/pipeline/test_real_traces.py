"""The real traces through formats and rules, against the counts their descriptions give."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from roamq.pipeline import silver
from roamq.pipeline.definitions.bronze import known_name
from roamq.pipeline.landing import add_source
from roamq.pipeline.traces import FORMATS
from roamq.pipeline.traces.base import is_good, is_malformed

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.data,
    pytest.mark.skipif(
        not DATA.is_dir(), reason=f"the real traces are not part of the repository: no {DATA}"
    ),
]


def bronze(spark: SparkSession, name: str, folder: str, warehouse: Path) -> DataFrame:
    trace_format = FORMATS[name]
    source = add_source(warehouse, str(DATA / folder), name, name, {})
    rows = trace_format.parse(trace_format.arrivals(spark, str(warehouse / source.path)))
    return rows.withColumn("file", known_name())


def sojourns(rows: DataFrame, name: str, **rules: str) -> DataFrame:
    observe = FORMATS[name].observe
    assert observe is not None
    changed = FORMATS[name].rules.changed(rules)
    return silver.sojourns(observe(rows.where(is_good()), changed), changed, dataset=name)


def test_extrasensory_has_the_runs_its_description_counts(spark: SparkSession, tmp_path: Path) -> None:
    """Runs cut at gaps over 10 minutes: 1,590 on, 1,370 off, 506 gaps; 220 rows without a status."""
    rows = bronze(spark, "onoff", "extrasensory-wifi-onoff", tmp_path)
    counts = rows.agg(
        F.count_if(is_good()).alias("good"),
        F.count_if(is_malformed()).alias("malformed"),
        F.count_if(is_good() & F.col("reachable").isNull()).alias("unmeasured"),
    ).first()
    assert counts is not None
    assert counts.asDict() == {"good": 139_664, "malformed": 0, "unmeasured": 220}

    states = {r.state: r["count"] for r in sojourns(rows, "onoff").groupBy("state").count().collect()}

    assert states == {"connected": 1590, "disconnected": 1370, "unknown": 506}


def test_ucc_has_the_cells_and_changes_its_description_counts(spark: SparkSession, tmp_path: Path) -> None:
    """1,218 changes over 543 pairs row by row; one step back in time, put in order, makes two changes more."""
    rows = bronze(spark, "cells", "ucc-5g-cells", tmp_path)
    found = sojourns(rows, "cells").persist()
    moves = silver.moves(found)
    counts = moves.agg(
        F.count("*").alias("moves"),
        F.count_distinct("from", "to").alias("pairs"),
        F.count_if(F.col("before") == F.col("to")).alias("returns"),
        F.count_if("disconnected").alias("after_silence"),
    ).first()

    assert counts is not None
    assert counts.asDict() == {"moves": 1220, "pairs": 544, "returns": 377, "after_silence": 0}
    assert found.select(F.count_distinct("site"), F.count_distinct("client")).first() == (244, 45)
    found.unpersist()
