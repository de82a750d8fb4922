"""The measures of mobility of datasets in a warehouse, as small rows for a command."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.pipeline.api import predict_online
from roamq.pipeline.books import TraceSource
from roamq.pipeline.definitions.bronze import table_of
from roamq.pipeline.definitions.silver import observations, rules_of
from roamq.pipeline.landing import load_sources
from roamq.pipeline.mobility.predictability import entropies, visits
from roamq.pipeline.mobility.privacy import reidentification_risk
from roamq.pipeline.mobility.stay_points import stay_points
from roamq.pipeline.mobility.travel import home_and_work, origin_destination, radius_of_gyration
from roamq.pipeline.session import SparkSettings, open_session
from roamq.pipeline.store import Place
from roamq.pipeline.warehouse import open_tables, require_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Options = Mapping[str, float]
Measure = Callable[["SparkSession", TraceSource, Options], DataFrame]


def _sojourns(spark: "SparkSession", source: TraceSource) -> DataFrame:
    return spark.read.table("sojourns").where(F.col("dataset") == source.dataset)


def _placed(spark: "SparkSession", source: TraceSource) -> DataFrame:
    if not source.trace_format().has_coordinates:
        raise ConfigError(f"dataset {source.dataset!r}: the format {source.format!r} has no positions")
    return observations(spark.read.table(table_of(source.format)), source)


def _stay_points(spark: "SparkSession", source: TraceSource, options: Options) -> DataFrame:
    limits = {name: options[name] for name in ("distance_m", "duration_s", "gap_s") if name in options}
    degrees = source.trace_format().in_degrees(rules_of(source))
    return stay_points(_placed(spark, source), in_degrees=degrees, **limits).orderBy("client", "begin")


def _gyration(spark: "SparkSession", source: TraceSource, options: Options) -> DataFrame:
    degrees = source.trace_format().in_degrees(rules_of(source))
    return radius_of_gyration(_placed(spark, source), in_degrees=degrees).orderBy(
        F.desc("radius_m"), "client"
    )


def _entropy(spark: "SparkSession", source: TraceSource, options: Options) -> DataFrame:
    return entropies(visits(_sojourns(spark, source)), moves_only=True).orderBy(F.desc("visits"), "client")


def _flows(spark: "SparkSession", source: TraceSource, options: Options) -> DataFrame:
    shortest = options.get("duration_s", 1200.0)
    flows = origin_destination(_sojourns(spark, source), min_stay_s=shortest)
    return flows.orderBy(F.desc("trips"), "origin", "destination")


def _home_work(spark: "SparkSession", source: TraceSource, options: Options) -> DataFrame:
    return home_and_work(_sojourns(spark, source), rules_of(source).time_zone).orderBy("client")


def _risk(spark: "SparkSession", source: TraceSource, options: Options) -> DataFrame:
    known, bin_s = int(options.get("known", 2)), int(options.get("bin_s", 0))
    found = reidentification_risk(_sojourns(spark, source), known=known, bin_s=bin_s)
    return found.orderBy("alike", "client")


def _summary(spark: "SparkSession", source: TraceSource, options: Options) -> DataFrame:
    """One row: how many clients, how far they go, how predictable they are, and how well we predict them."""
    bits = entropies(visits(_sojourns(spark, source)), moves_only=True)
    steps = F.col("visits") - 1
    moved = bits.agg(
        F.count("*").alias("clients"),
        F.sum("visits").alias("visits"),
        F.percentile("sites", 0.5).alias("sites, median"),
        *(
            (F.sum(F.col(f"{name}_bits") * steps) / F.sum(steps)).alias(f"{name} bits")
            for name in ("random", "uncorrelated", "real")
        ),
        (F.sum(F.col("predictability") * steps) / F.sum(steps)).alias("bound"),
    )
    tried = spark.read.table("prediction").where(
        (F.col("dataset") == source.dataset) & (F.col("set_size") == 1)
    )
    best = tried.agg(F.max("hit_rate").alias("best predictor"))
    moves = spark.read.table("moves").where(F.col("dataset") == source.dataset)
    rules = rules_of(source)
    online = predict_online(moves, rules.time_zone, rules.test_share).where("set_size = 1")
    both = moved.crossJoin(best).crossJoin(online.agg(F.max("hit_rate").alias("best that learns on")))
    if source.trace_format().has_coordinates:
        both = both.crossJoin(
            _gyration(spark, source, options).agg(F.percentile("radius_m", 0.5).alias("radius_m, median"))
        )
    return both.select(F.lit(source.dataset).alias("dataset"), "*")


MEASURES: Final[Mapping[str, Measure]] = {
    "summary": _summary,
    "stay-points": _stay_points,
    "gyration": _gyration,
    "entropy": _entropy,
    "flows": _flows,
    "home-work": _home_work,
    "risk": _risk,
}


def measured(
    settings: SparkSettings,
    warehouse: Place,
    dataset: str | None,
    measure: str,
    options: Options,
    rows: int,
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and the first rows of a measure of one dataset."""
    require_warehouse(warehouse)
    sources = {source.dataset: source for source in load_sources(warehouse)}
    if dataset is None and len(sources) > 1:
        raise ConfigError(f"--dataset: choose one of {', '.join(sources)}")
    chosen = sources.get(dataset or next(iter(sources)))
    if chosen is None:
        raise ConfigError(f"{warehouse} holds no dataset {dataset!r}; there are {', '.join(sources)}")
    with open_session(settings) as spark:
        open_tables(spark, warehouse)
        found = MEASURES[measure](spark, chosen, options)
        return list(found.columns), [tuple(row) for row in found.limit(rows).collect()]
