"""Gold: what brokers, simulator, models and people read."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline import connectivity, gold, prediction
from roamq.pipeline.definitions.bronze import table_of
from roamq.pipeline.definitions.silver import declare_view, good_rows, observations, rules_of, union
from roamq.pipeline.landing import Source
from roamq.pipeline.metrics import metrics_of
from roamq.pipeline.records import SILVER, runs_of
from roamq.pipeline.tables import SUMMARY, conform
from roamq.pipeline.traces import FORMATS
from roamq.pipeline.traces.base import is_good, is_malformed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Query = Callable[..., DataFrame]
"""Called with rows of each table, then the values of the rules; keeps `dataset` as a key."""


def declare(spark: "SparkSession", sources: Sequence[Source]) -> list[str]:
    observed = [source for source in sources if FORMATS[source.format].observe is not None]
    eventful = [source for source in sources if source.format in ("gps", "counts", "records")]
    names: list[str] = []

    def view(name: str, query: Callable[[], DataFrame]) -> None:
        declare_view(name, query)
        names.append(name)

    def derived(name: str, tables: Sequence[str], rules: Sequence[str], query: Query) -> None:
        """A view made of silver tables, by the named rules of each dataset."""
        view(name, lambda: union(by_rules(spark, observed, tables, rules, query)))

    if observed:
        derived("neighbor_graph", ["moves"], ["half_life_days"], gold.neighbor_graph)
        derived("trigrams", ["moves"], ["time_zone", "test_share"], prediction.trigrams)
        view("transitions", lambda: gold.transitions(spark.read.table("trigrams")))
        view("ranked_tests", lambda: prediction.ranked_tests(spark.read.table("trigrams")))
        view("prediction", lambda: prediction.prediction(spark.read.table("ranked_tests")))
        view("prediction_sets", lambda: prediction.prediction_sets(spark.read.table("ranked_tests")))
        derived("connectivity", ["sojourns"], ["fit_samples"], connectivity.connectivity)
        view("ccdf", lambda: connectivity.ccdf(spark.read.table("sojourns")))
        derived("days", ["sojourns", "moves"], ["time_zone"], gold.days)
        view("sites", lambda: union(_sites(spark, s) for s in observed))

    def rates() -> DataFrame:
        clients = by_rules(spark, observed, ["sojourns"], ["bin_s"], gold.client_arrivals)
        events = (gold.event_arrivals(_events(spark, s), rules_of(s).bin_s) for s in eventful)
        return union([*clients, *events])

    def profile() -> DataFrame:
        return union(by_rules(spark, sources, ["arrival_rates"], ["bin_s", "time_zone"], gold.daily_profile))

    recorded = [source for source in sources if source.format == "records"]

    def metrics() -> DataFrame:
        rows = union(good_rows(spark, source) for source in recorded)
        return metrics_of(rows, runs_of(rows)).withColumn("dataset", F.col("scenario"))

    if recorded:
        view("metrics", metrics)
    view("arrival_rates", rates)
    view("daily_profile", profile)
    declare_view("summary", lambda: summary(spark, sources, [*names]))
    return [*names, "summary"]


def by_rules(
    spark: "SparkSession",
    sources: Sequence[Source],
    tables: Sequence[str],
    rules: Sequence[str],
    query: Query,
) -> Iterator[DataFrame]:
    """The query over the rows of datasets whose named rules are equal, once for each choice of them."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for source in sources:
        chosen = tuple(getattr(rules_of(source), rule) for rule in rules)
        alike.setdefault(chosen, []).append(source.dataset)
    for chosen, datasets in alike.items():
        parts = (spark.read.table(table).where(F.col("dataset").isin(datasets)) for table in tables)
        yield query(*parts, *chosen)


def _sites(spark: "SparkSession", source: Source) -> DataFrame:
    if FORMATS[source.format].has_coordinates:
        return gold.sites_of_observations(observations(spark, source), source.dataset)
    return gold.sites_of_sojourns(spark.read.table("sojourns").where(F.col("dataset") == source.dataset))


def _events(spark: "SparkSession", source: Source) -> DataFrame:
    """What counts as an event at a site: a call in a count, a publication, a position report of a vehicle."""
    if source.format == "counts":
        return good_rows(spark, source).select("dataset", "site", F.col("bin").alias("time"), "n")
    if source.format == "records":
        published = good_rows(spark, source).where(F.col("kind") == "published")
        time = F.timestamp_micros((F.col("time_s") * 1_000_000).cast("bigint"))
        return published.select(
            "dataset", F.col("broker").alias("site"), time.alias("time"), F.lit(1).alias("n")
        )
    reports = observations(spark, source).where(F.col("site").isNotNull())
    return reports.select(F.lit(source.dataset).alias("dataset"), "site", "time", F.lit(1).alias("n"))


def summary(spark: "SparkSession", sources: Sequence[Source], derived: Sequence[str]) -> DataFrame:
    """Lines in, malformed and understood per dataset, and rows out per table."""
    formats = sorted({source.format for source in sources})
    lines = union(
        spark.read.table(table_of(name))
        .groupBy("dataset")
        .agg(
            F.count("*").alias("lines in"),
            F.count_if(is_malformed()).alias("quarantined"),
            F.count_if(is_good()).alias("rows"),
        )
        .unpivot("dataset", ["lines in", "quarantined", "rows"], "name", "rows_counted")
        .withColumn("layer", F.lit("bronze"))
        for name in formats
    )
    silver_tables = ["sojourns", "moves"] if any(FORMATS[s.format].observe for s in sources) else []
    silver_tables += SILVER if any(s.format == "records" for s in sources) else ()
    out = union(
        spark.read.table(name).select(
            "dataset",
            F.lit(name).alias("name"),
            F.lit("silver" if name in silver_tables else "gold").alias("layer"),
        )
        for name in (*silver_tables, *derived)
    )
    counts = out.groupBy("dataset", "name", "layer").agg(F.count("*").alias("rows_counted"))
    return conform(union([lines, counts]).withColumnRenamed("rows_counted", "rows"), SUMMARY)
