"""Metrics of brokers that are mobile nodes: what [DRIP] measures, and what it leaves out.

All take records and runs and give rows of the metrics contract (`schemas.METRICS`), one run at a time. The number
of brokers is the run's parameter `k`.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from roamq.pipeline.metrics import summary
from roamq.pipeline.schemas import METRICS, columns

EVENT = ["run_id", "origin", "sequence"]
LATEST_S = 60.0
"""The lifetime of an event, where one counts: what comes later, or never, counts as this."""


def region_metrics(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Records and runs -> coverage, delay, delivery ratio and transmissions of every run."""
    found = (
        broker_coverage(records, runs)
        .unionByName(delivery_delay(records))
        .unionByName(publication_delay(records))
        .unionByName(delivered_by_source(records))
        .unionByName(delivery_ratio(records))
        .unionByName(destinations_found(records))
        .unionByName(detected_by(records))
        .unionByName(transmissions(records))
    )
    described = runs.select("run_id", "scenario", "scheme", "params", "seed")
    return found.join(described, "run_id").select(*columns(METRICS))


def region_summary(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Records and runs -> the same metrics over seeds, with their confidence intervals (`schemas.SUMMARY`)."""
    return summary(region_metrics(records, runs))


def broker_coverage(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The share of the brokers that have had a copy of an event when a subscriber gets it ([DRIP] section VI-A), and
    of those that ever get an event which is delivered (section VI-B1)."""
    so_far = (
        Window.partitionBy(*EVENT)
        .orderBy("time_s")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    is_copy = (F.col("kind") == "copied").cast("int")
    seen = records.where(F.col("kind").isin("copied", "delivered")).withColumn(
        "copies", F.sum(is_copy).over(so_far)
    )
    brokers = runs.select("run_id", F.col("params")["k"].cast("double").alias("k"))
    is_delivery = F.col("kind") == "delivered"
    events = seen.groupBy(*EVENT).agg(
        F.sum(F.when(is_delivery, F.col("copies"))).alias("at_deliveries"),
        F.count(F.when(is_delivery, True)).alias("deliveries"),
        F.sum(is_copy).alias("in_the_end"),
    )
    columns_of = (
        events.where(F.col("deliveries") > 0)
        .join(brokers, "run_id")
        .groupBy("run_id")
        .agg(
            (F.sum(F.col("at_deliveries") / F.col("k")) / F.sum("deliveries")).alias("broker_coverage"),
            F.avg(F.col("in_the_end") / F.col("k")).alias("broker_coverage_in_the_end"),
        )
    )
    return _unpivoted(columns_of)


def delivery_delay(records: DataFrame) -> DataFrame:
    """Seconds from publication to delivery, over deliveries: the mean, the median and the 90th percentile."""
    delays = records.where(F.col("kind") == "delivered").groupBy("run_id")
    columns_of = delays.agg(
        F.avg("duration_s").alias("delivery_delay_s"),
        F.expr("percentile(duration_s, 0.5)").alias("delivery_delay_s_p50"),
        F.expr("percentile(duration_s, 0.9)").alias("delivery_delay_s_p90"),
    )
    return _unpivoted(columns_of)


def publication_delay(records: DataFrame) -> DataFrame:
    """Seconds from the detection of an event until the first broker has it, and until the last copy was made."""
    is_published, is_copied = F.col("kind") == "published", F.col("kind") == "copied"
    events = records.where(is_published | is_copied).groupBy(*EVENT)
    published_at = F.min(F.when(is_published, F.col("time_s")))
    copied_at = F.when(is_copied, F.col("time_s"))
    waited = events.agg(
        (F.min(copied_at) - published_at).alias("first"), (F.max(copied_at) - published_at).alias("last")
    )
    return _unpivoted(
        waited.groupBy("run_id").agg(
            F.avg("first").alias("publication_delay_s"), F.avg("last").alias("spreading_s")
        )
    )


def destinations_found(records: DataFrame) -> DataFrame:
    """What [DRIP] Eq. 1 and 2 are about: when the destinations of an event have it, from when its source has it.

    The mean over destinations (`destination_found_s`), and over events until the last of theirs
    (`destinations_found_s`, the paper's T_mcmd). `destinations_harmonic` and `destinations_printed` are means over
    events of H_n and (n^2 + 3n)/4 with the number n of their destinations: what the exact mean and Eq. 2 are multiples
    of. A destination that got its copy as a carrier, and one that never got it, is not among them.
    """
    of_event = Window.partitionBy(*EVENT)
    begun_s = F.min(F.when(F.col("detail") == "source", F.col("time_s"))).over(of_event)
    found = (
        records.where(F.col("kind") == "copied")
        .withColumn("begun_s", begun_s)
        .where(F.col("detail") == "destination")
        .withColumn("rank", F.row_number().over(of_event.orderBy("time_s", "broker")))
        .withColumn("found_s", F.col("time_s") - F.col("begun_s"))
    )
    events = found.groupBy(*EVENT).agg(
        F.count("rank").alias("n"),
        F.sum("found_s").alias("sum_s"),
        F.max("found_s").alias("last_s"),
        F.sum(1 / F.col("rank")).alias("harmonic"),
    )
    means = _unpivoted(
        events.groupBy("run_id").agg(
            (F.sum("sum_s") / F.sum("n")).alias("destination_found_s"),
            F.avg("last_s").alias("destinations_found_s"),
            F.avg("harmonic").alias("destinations_harmonic"),
            F.avg((F.col("n") * F.col("n") + 3 * F.col("n")) / 4).alias("destinations_printed"),
        )
    )
    return means.unionByName(_done_by_equation_1(events))


EQUATION_1 = (25, 50, 75)
"""Percentages at which the distribution of Eq. 1 is held against records."""


def _done_by_equation_1(events: DataFrame) -> DataFrame:
    """The share of events whose last destination was found when Eq. 1, (1 - exp(-lambda m t))^n, gives a share of so
    many percent (the entity): `destinations_found_share`. 1/(lambda m) is the mean time to find a destination.
    """
    of_run = Window.partitionBy("run_id")
    mean_s = F.sum("sum_s").over(of_run) / F.sum("n").over(of_run)
    given = F.pow(1 - F.exp(-F.col("last_s") / mean_s), F.col("n"))
    shares = (
        events.withColumn("given", given)
        .groupBy("run_id")
        .agg(
            *(
                F.avg((F.col("given") <= percent / 100).cast("int")).alias(str(percent))
                for percent in EQUATION_1
            )
        )
    )
    names = tuple(map(str, EQUATION_1))
    return shares.unpivot("run_id", names, "entity", "value").withColumn(
        "metric", F.lit("destinations_found_share")
    )


def delivered_by_source(records: DataFrame) -> DataFrame:
    """The share of deliveries made in the region where the event was published: no other broker was needed."""
    is_source = (F.col("kind") == "copied") & (F.col("detail") == "source")
    sources = records.where(is_source).select(*EVENT, "broker", F.lit(1.0).alias("by_source"))
    delivered = records.where(F.col("kind") == "delivered").select(*EVENT, "broker")
    matched = delivered.join(sources, [*EVENT, "broker"], "left")
    share = F.avg(F.coalesce(F.col("by_source"), F.lit(0.0)))
    return _unpivoted(matched.groupBy("run_id").agg(share.alias("delivered_by_source")))


def detected_by(records: DataFrame) -> DataFrame:
    """Deliveries of events that a `broker` detected, and of those that another `node` did, each its own entity.

    Their mean delay, the population of the region they began in, and the mean delay if each counts as often as its
    region has nodes: what it would be if any of these had detected the event.
    """
    is_own = F.col("client") == F.col("broker")
    begun = records.where(F.col("kind") == "region").select(
        *EVENT,
        F.when(is_own, "broker").otherwise("node").alias("entity"),
        F.col("count").alias("population"),
    )
    delivered = records.where(F.col("kind") == "delivered").select(*EVENT, "duration_s").join(begun, EVENT)
    wide = delivered.groupBy("run_id", "entity").agg(
        F.avg("duration_s").alias("detected_delay_s"),
        F.avg("population").alias("detected_population"),
        F.try_divide(F.sum(F.col("duration_s") * F.col("population")), F.sum("population")).alias(
            "detected_delay_by_population_s"
        ),
    )
    metrics = ("detected_delay_s", "detected_population", "detected_delay_by_population_s")
    return wide.unpivot(["run_id", "entity"], metrics, "metric", "value")


def delivery_ratio(records: DataFrame) -> DataFrame:
    """Deliveries over the pairs of an event and a subscriber that wants it, and how many want an event on average.

    `restricted_delay_s` is the mean delay over all such pairs: deliveries after `LATEST_S`, and those that never
    happen, count as `LATEST_S`. The mean over deliveries alone flatters a scheme that delivers the easy ones.
    """
    is_published, is_delivered = F.col("kind") == "published", F.col("kind") == "delivered"
    wanted = F.sum(F.when(is_published, F.col("count")))
    # What each delivery is earlier than the end of the lifetime.
    gained_s = F.sum(F.when(is_delivered, F.greatest(F.lit(LATEST_S) - F.col("duration_s"), F.lit(0.0))))
    counted = records.groupBy("run_id").agg(
        F.try_divide(F.count_if(is_delivered), wanted).alias("delivery_ratio"),
        (LATEST_S - F.try_divide(F.coalesce(gained_s, F.lit(0.0)), wanted)).alias("restricted_delay_s"),
        F.avg(F.when(is_published, F.col("count"))).alias("wanted_by"),
    )
    return _unpivoted(counted)


def transmissions(records: DataFrame) -> DataFrame:
    """Radio transmissions per delivered event and bytes per second, by kind of message and of all kinds."""
    delivered = records.groupBy("run_id").agg(
        F.count_if(F.col("kind") == "delivered").alias("deliveries"), F.max("time_s").alias("ran_s")
    )
    is_traffic = F.col("kind") == "traffic"
    sent = (
        records.where(is_traffic)
        .rollup("run_id", F.col("detail").alias("entity"))
        .agg(F.sum("count").alias("sent"), F.sum("bytes").alias("bytes"))
        .where(F.col("run_id").isNotNull())
        .fillna("all", ["entity"])
        .join(delivered, "run_id")
    )
    wide = sent.select(
        "run_id",
        "entity",
        F.try_divide(F.col("sent"), F.col("deliveries")).alias("transmissions_per_delivery"),
        (F.col("sent") / F.col("ran_s")).alias("transmissions_per_s"),
        (F.col("bytes") / F.col("ran_s")).alias("bytes_per_s"),
    )
    return wide.unpivot(
        ["run_id", "entity"],
        ["transmissions_per_delivery", "transmissions_per_s", "bytes_per_s"],
        "metric",
        "value",
    )


def _unpivoted(wide: DataFrame) -> DataFrame:
    """One row per metric: every column but `run_id` is one, named as it is."""
    metrics = tuple(column for column in wide.columns if column != "run_id")
    return wide.unpivot("run_id", metrics, "metric", "value").withColumn("entity", F.lit("all"))
