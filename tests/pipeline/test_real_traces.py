"""The real traces through formats and rules, against the counts their descriptions give."""

import csv
import gzip
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from roamq.models.censoring import kaplan_meier
from roamq.pipeline import silver
from roamq.pipeline.connectivity import durations
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
    seen = observe(rows.where(is_good()), changed)
    holes = silver.known_holes(seen, changed.hole_s)
    return silver.sojourns(seen, changed, dataset=name, holes=holes)


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


def plain_on_periods(gap_s: float, hole_s: float, credit_s: float) -> list[tuple[float, bool, bool]]:
    """Connected periods of `republica` from its raw file, without the pipeline: length, begin seen, end seen."""
    [path] = (DATA / "republica13-wifi").glob("*.csv.gz")
    seen: dict[str, set[float]] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            time = datetime.fromisoformat(row["Zeit"].replace("Z", "+00:00"))
            seen.setdefault(row["fortlaufende Gerätenummer"], set()).add(time.timestamp())
    polls = sorted(set().union(*seen.values()))
    holes = [(one, other) for one, other in pairwise(polls) if other - one > hole_s]
    found = []
    for times in (sorted(some) for some in seen.values()):
        begin, begin_seen = times[0], False
        for last, following in zip(times, [*times[1:], None], strict=True):
            if following is not None and following - last <= gap_s:
                continue
            away = False
            if following is not None:
                unseen = sum(max(0.0, min(following, b) - max(last, a)) for a, b in holes)
                away = following - last - unseen > gap_s
            found.append((last - begin + credit_s, begin_seen, away))
            begin, begin_seen = following or last, away
    return found


def test_t_on_of_republica_is_what_plain_python_finds_in_the_raw_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also periods that a single snapshot saw count; those whose begin was not seen do not."""
    rules = FORMATS["wifi"].rules
    periods = plain_on_periods(rules.gap_s, rules.hole_s, rules.credit_s)
    # Clients that were seen once have one period, whose begin was not seen.
    expected = kaplan_meier(*zip(*((length, end) for length, begin, end in periods if begin), strict=True))

    rows = bronze(spark, "wifi", "republica13-wifi", tmp_path)
    found = durations(sojourns(rows, "wifi")).where("period = 'on'")
    measured = kaplan_meier(*zip(*found.select("duration_s", "complete").collect(), strict=True))

    assert expected.ended.sum() == 12_531
    assert list(measured.times_s) == list(expected.times_s)
    assert list(measured.ended) == list(expected.ended)
    assert list(measured.at_risk) == list(expected.at_risk)
    assert measured.quantile_s(0.5) == 4320
