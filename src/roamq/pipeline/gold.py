"""Learn: the neighbor graph, transitions of higher order, arrival rates and their daily profile, days, sites.

Functions take silver frames of one or many datasets and keep `dataset` as a key; what depends on a dataset's rules
(time zone, bin width, half-life) is a parameter. Prediction and connectivity have files of their own.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.corrections import corrected
from roamq.pipeline.schemas import ARRIVAL_RATES, DAILY_PROFILE, DAYS, NEIGHBOR_GRAPH, SITES, TRANSITIONS
from roamq.pipeline.silver import CONNECTED, DISCONNECTED, split_at_midnight

CLIENTS: Final = "clients"
EVENTS: Final = "events"
WHOLE_NETWORK: Final = "*"
SECONDS_PER_DAY: Final = 86_400
DAILY_SUMS: Final = ("clients", "moves", "sojourns", "connected_us", "disconnected_us")
"""Of these columns of `days` the others are made."""


def neighbor_graph(moves: DataFrame, half_life_days: float = 7.0) -> DataFrame:
    """Moves -> `neighbor_graph`: how often, how likely and how lately a client went from one site to another.

    [PRO] section 4.2 keeps neighbors by their timestamp; `last_seen` is that, and `recent_probability` grades it: a
    move counts half after `half_life_days`.
    """
    # Shares are within a site, so the age counts from the last move from it: other sites' moves change nothing.
    latest = moves.groupBy("dataset", "from").agg(F.max("time").alias("latest"))
    age_days = (F.unix_micros("latest") - F.unix_micros("time")) / (1_000_000 * SECONDS_PER_DAY)
    edges = (
        moves.join(F.broadcast(latest), ["dataset", "from"])
        .groupBy("dataset", "from", "to")
        .agg(
            F.count("*").alias("moves"),
            F.sum(_exact(F.pow(F.lit(0.5), age_days / half_life_days))).alias("weight"),
            F.max("time").alias("last_seen"),
            F.expr("percentile_disc(0.5) within group (order by gap_s)").alias("gap_s_median"),
        )
    )
    return conform(
        edges.withColumns(
            {
                "probability": _share("moves", "dataset", "from"),
                "recent_probability": _share("weight", "dataset", "from"),
            }
        ),
        NEIGHBOR_GRAPH,
    )


def transitions(trigrams: DataFrame) -> DataFrame:
    """Trigrams -> `transitions` of order 0, 1 and 2: counts of `to` given nothing, `from`, or `before` and `from`."""
    nothing = F.lit(None).cast("string")
    given = [
        F.struct(F.lit(order).alias("order"), before.alias("before"), here.alias("from"))
        for order, before, here in (
            (0, nothing, nothing),
            (1, nothing, F.col("from")),
            (2, F.col("before"), F.col("from")),
        )
    ]
    known = F.when(F.col("before").isNull(), F.array(*given[:2])).otherwise(F.array(*given))
    counted = (
        trigrams.select(
            *("dataset", "to", "last_seen"),
            (F.col("trained") + F.col("tested")).alias("moves"),
            F.inline(known),
        )
        .groupBy("dataset", "order", "before", "from", "to")
        .agg(F.sum("moves").alias("moves"), F.max("last_seen").alias("last_seen"))
    )
    share = _share("moves", "dataset", "order", "before", "from")
    return conform(counted.withColumn("probability", share), TRANSITIONS)


def _exact(weight: Column) -> Column:
    """A weight of at most 1 as a whole number: sums are then the same in any order, on any number of cores."""
    return (weight * float(1 << 40)).cast("bigint")


def _share(count: str, *group: str) -> Column:
    return F.col(count) / F.sum(count).over(Window.partitionBy(*reversed(group)))


def client_arrivals(sojourns: DataFrame, bin_s: int) -> DataFrame:
    """Sojourns -> `arrival_rates` of clients: stays that begin at a site, per bin."""
    return _rates(_begun(sojourns), CLIENTS, bin_s)


def _begun(sojourns: DataFrame) -> DataFrame:
    """Stays that begin at a site, as (dataset, site, time, n)."""
    arrivals = sojourns.where((F.col("state") == CONNECTED) & F.col("site").isNotNull())
    return arrivals.select("dataset", "site", F.col("begin").alias("time"), F.lit(1).alias("n"))


def event_arrivals(events: DataFrame, bin_s: int) -> DataFrame:
    """Frames of (dataset, site, time, n) -> `arrival_rates` of events: reports, calls, publications."""
    return _rates(events.select("dataset", "site", "time", "n"), EVENTS, bin_s)


def _rates(events: DataFrame, kind: str, bin_s: int) -> DataFrame:
    return _with_rate(_arrivals(events, bin_s), kind, bin_s)


def _arrivals(events: DataFrame, bin_s: int) -> DataFrame:
    begin = F.timestamp_seconds(F.floor(F.unix_seconds("time") / bin_s) * bin_s)
    return events.groupBy("dataset", "site", begin.alias("bin")).agg(F.sum("n").alias("arrivals"))


def _with_rate(counted: DataFrame, kind: str, bin_s: int) -> DataFrame:
    return conform(
        counted.withColumns({"kind": F.lit(kind), "rate_per_s": F.col("arrivals") / F.lit(float(bin_s))}),
        ARRIVAL_RATES,
    )


def corrected_arrivals(before: DataFrame, came: DataFrame, went: DataFrame | None, bin_s: int) -> DataFrame:
    """`arrival_rates` of clients after some sojourns went and others came."""
    taken = None if went is None else _arrivals(_begun(went), bin_s)
    left = corrected(
        before, taken, _arrivals(_begun(came), bin_s), by=("dataset", "site", "bin"), sums=("arrivals",)
    )
    return _with_rate(left.where("arrivals > 0"), CLIENTS, bin_s)


def daily_profile(rates: DataFrame, bin_s: int, time_zone: str) -> DataFrame:
    """Arrival rates -> the mean rate per local time of day, for each site and for the whole network.

    The mean runs over every day on which the dataset has any arrival of that kind: a bin without arrivals is
    evidence of a rate of zero, not of nothing.
    """
    local = F.from_utc_timestamp("bin", time_zone)
    binned = rates.withColumns(
        {"day": F.to_date(local), "minute_of_day": (F.hour(local) * 60 + F.minute(local)).cast("int")}
    )
    days = binned.groupBy("dataset", "kind").agg(F.count_distinct("day").alias("days"))
    per_site = binned.groupBy("dataset", "kind", "site", "minute_of_day").agg(
        F.sum("arrivals").alias("arrivals")
    )
    places = F.array(
        F.struct("site", F.lit(False).alias("is_whole")),
        F.struct(F.lit(WHOLE_NETWORK).alias("site"), F.lit(True).alias("is_whole")),
    )
    both = (
        per_site.select("dataset", "kind", "minute_of_day", "arrivals", F.inline(places))
        .groupBy("dataset", "kind", "minute_of_day", "site", "is_whole")
        .agg(F.sum("arrivals").alias("arrivals"))
    )
    rate = F.col("arrivals") / (F.col("days") * F.lit(float(bin_s)))
    return conform(
        both.join(F.broadcast(days), ["dataset", "kind"]).withColumn("rate_per_s", rate), DAILY_PROFILE
    )


def days(sojourns: DataFrame, moves: DataFrame, time_zone: str) -> DataFrame:
    """Sojourns and moves -> one row per local day; a sojourn across midnight counts on both sides of it."""
    return _in_hours(_daily_sums(sojourns, moves, time_zone))


def corrected_days(
    before: DataFrame,
    came: tuple[DataFrame, DataFrame],
    went: tuple[DataFrame, DataFrame] | None,
    time_zone: str,
) -> DataFrame:
    """`days` after some clients' sojourns and moves went and others came, all of each client."""
    taken = None if went is None else _daily_sums(*went, time_zone)
    left = corrected(before, taken, _daily_sums(*came, time_zone), by=("dataset", "day"), sums=DAILY_SUMS)
    return _in_hours(left.where("sojourns > 0"))


def _daily_sums(sojourns: DataFrame, moves: DataFrame, time_zone: str) -> DataFrame:
    known = sojourns.where(
        F.col("state").isin(CONNECTED, DISCONNECTED)
    )  # a day without any data does not count
    micros = F.unix_micros("end") - F.unix_micros("begin")
    spent = (
        split_at_midnight(known, time_zone)
        .groupBy("dataset", "day")
        .agg(
            F.count_distinct(F.when(F.col("state") == CONNECTED, F.col("client"))).alias("clients"),
            F.count("*").alias("sojourns"),
            *(
                F.coalesce(F.sum(F.when(F.col("state") == state, micros)), F.lit(0)).alias(f"{state}_us")
                for state in (CONNECTED, DISCONNECTED)
            ),
        )
    )
    arrival = F.to_date(F.from_utc_timestamp("time", time_zone))
    counted = moves.groupBy("dataset", arrival.alias("day")).agg(F.count("*").alias("moves"))
    both = spent.join(F.broadcast(counted), ["dataset", "day"], "left")
    return both.withColumn("moves", F.coalesce("moves", F.lit(0)))


def _in_hours(sums: DataFrame) -> DataFrame:
    hours = {f"{state}_hours": F.col(f"{state}_us") / 3.6e9 for state in (CONNECTED, DISCONNECTED)}
    return conform(sums.withColumns(hours), DAYS)


def sites_of_observations(observations: DataFrame, dataset: str) -> DataFrame:
    """Observations with places -> `sites`: a site lies where its clients were seen, on average."""
    seen = observations.where(F.col("site").isNotNull()).groupBy("site")
    located = seen.agg(
        F.avg(F.col("x").cast("decimal(18,9)")).alias("x"),  # decimals: their mean is the same in any order
        F.avg(F.col("y").cast("decimal(18,9)")).alias("y"),
        F.count("*").alias("observations"),
        F.count_distinct("client").alias("clients"),
    )
    return conform(located.withColumn("dataset", F.lit(dataset)), SITES)


def sites_of_sojourns(sojourns: DataFrame) -> DataFrame:
    """Sojourns -> `sites` without places, for formats that know none."""
    return _nowhere(_site_sums(sojourns))


def corrected_sites(before: DataFrame, came: DataFrame, went: DataFrame | None) -> DataFrame:
    """`sites` without places after some clients' sojourns went and others came, all of each client."""
    taken = None if went is None else _site_sums(went)
    left = corrected(
        before, taken, _site_sums(came), by=("dataset", "site"), sums=("observations", "clients")
    )
    return _nowhere(left.where("observations > 0"))


def _site_sums(sojourns: DataFrame) -> DataFrame:
    at_sites = sojourns.where(F.col("site").isNotNull()).groupBy("dataset", "site")
    return at_sites.agg(
        F.sum("observations").alias("observations"), F.count_distinct("client").alias("clients")
    )


def _nowhere(counted: DataFrame) -> DataFrame:
    nowhere = F.lit(None).cast("double")
    return conform(counted.withColumns({"x": nowhere, "y": nowhere}), SITES)
