"""The papers' metrics, each defined once, as queries over records. `docs/metrics.md` is their dictionary.

A group of metrics is a function of `(records, runs)` that returns rows of `schemas.METRICS`; `GROUPS` lists them,
`metrics_of` computes those asked for, and `summary` gives their mean over seeds with a 95% confidence interval.

The window. Events published from `warmup_s` until `until_s` count, and so do their deliveries, whenever these
happen: the end of a run is for them to arrive. Everything else (handoffs, traffic, buffers) counts by its own
time; a bin of traffic, if it ends after the warm-up and begins before the end.
"""

from collections.abc import Callable, Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from scipy.stats import norm as normal
from scipy.stats import t as student_t

from roamq.core.records import MIGRATION, MULTICAST, UNICAST
from roamq.pipeline.schemas import METRICS, SUMMARY, columns

Metric = Callable[[DataFrame, DataFrame], DataFrame]

PEAK_BIN_S = 1800.0
"""[DIS] section 5.2.2 reports the peak as the worst half hour."""

MOVES_BIN_S = 300.0
"""Moves are counted over time in bins of five minutes ([DIS] Fig. 5)."""

_T_TABLE = 60
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ACCURACY = 10_000
"""Quantiles of many values are exact to a part in so many ranks, in bounded memory."""
_RUN = ("run_id", "scenario", "scheme", "params", "seed")
_ROUNDING_DIGITS = 6
"""A delivery knows when its event was published only as a difference of floats."""


# --- the window ----------------------------------------------------------------------------------------------


def in_window(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The records that count, with their run's columns and `window_s`, the length of the window."""
    bounds = runs.select(
        *_RUN, "warmup_s", "until_s", (F.col("until_s") - F.col("warmup_s")).alias("window_s")
    )
    is_delivery = F.col("kind") == "delivered"
    happened_s = F.when(is_delivery, F.col("time_s") - F.col("duration_s")).otherwise(F.col("time_s"))
    happened_s = F.round(happened_s, _ROUNDING_DIGITS)
    after_warmup = happened_s > F.col("warmup_s")
    counts = (
        F.when(F.col("kind") == "processing", after_warmup)  # counted once, when the run is over
        .when(F.col("kind") == "traffic", after_warmup & (happened_s <= F.col("until_s")))
        .otherwise(happened_s.between(F.col("warmup_s"), F.col("until_s")))
    )
    return records.join(F.broadcast(bounds), "run_id").where(counts)


def _long(wide: DataFrame, values: dict[str, Column], entity: Column | None = None) -> DataFrame:
    """One row of `schemas.METRICS` per value; what a run has no value for is left out."""
    pairs = F.array(
        *(
            F.struct(F.lit(name).alias("metric"), value.cast("double").alias("value"))
            for name, value in values.items()
        )
    )
    entity = F.lit("all") if entity is None else entity.cast("string")
    return (
        wide.select(*_RUN, entity.alias("entity"), F.explode(pairs).alias("pair"))
        .select(*_RUN, F.col("pair.metric").alias("metric"), "entity", F.col("pair.value").alias("value"))
        .where(F.col("value").isNotNull())
        .select(*columns(METRICS))
    )


def _sum_if(condition: Column, value: str) -> Column:
    return F.sum(F.when(condition, F.col(value)))


# --- delivery: Ts, Tb, L, D, E -------------------------------------------------------------------------------


def delivery(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Ts, L, D, and the share of messages that came by state transfer ([PRO] section 5.1)."""
    window = in_window(records, runs).where(F.col("kind").isin("published", "delivered"))
    is_delivery = F.col("kind") == "delivered"
    pair = F.when(is_delivery, F.struct("client", "origin", "sequence"))
    counted = window.groupBy(*_RUN, "window_s").agg(
        _sum_if(F.col("kind") == "published", "count").alias("expected"),
        F.count_if(F.col("kind") == "published").alias("published"),
        F.count_if(is_delivery).alias("received"),
        F.count_distinct(pair).alias("distinct"),
        F.count_distinct(F.when(is_delivery, F.col("client"))).alias("clients"),
        F.count_if(is_delivery & (F.col("detail") == "transferred")).alias("transferred"),
    )
    received, distinct = F.col("received"), F.col("distinct")
    return _long(
        counted,
        {
            "published": F.col("published"),
            "received": received,
            "throughput": received / F.col("window_s"),
            "throughput_per_subscriber": received / F.col("window_s") / F.nullif("clients", F.lit(0)),
            "loss_pct": 100 * (1 - distinct / F.nullif("expected", F.lit(0))),
            "duplication_pct": 100 * (received - distinct) / F.nullif(received, F.lit(0)),
            "transferred_pct": 100 * F.col("transferred") / F.nullif(received, F.lit(0)),
        },
    )


def broker_throughput(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Tb: messages routed per second to subscribers, by broker ([PRO] section 5.1)."""
    delivered = in_window(records, runs).where(F.col("kind") == "delivered")
    per_broker = delivered.groupBy(*_RUN, "window_s", "broker").agg(F.count("*").alias("routed"))
    return _long(per_broker, {"broker_throughput": F.col("routed") / F.col("window_s")}, F.col("broker"))


def broker_subscribers(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Subscribers connected at a broker, on average over the window ([PRO] section 6.3).

    A stay ends when its broker notices, or when the client connects again; what another broker notices late does not
    end it.
    """
    history = Window.partitionBy("run_id", "client").orderBy("time_s", "position")
    begins = F.col("kind") == "connected"
    stays_at = F.last(F.when(begins, F.col("broker")), ignorenulls=True).over(history)
    steps = (
        records.where(F.col("kind").isin("connected", "disconnected"))
        .withColumn("stays_at", stays_at)
        .where(begins | (F.col("broker") == F.col("stays_at")))
        .withColumn("end_s", F.lead("time_s").over(history))
        .where(begins)
    )
    bounds = runs.select(*_RUN, "warmup_s", "until_s")
    stays = steps.join(F.broadcast(bounds), "run_id")
    end_s = F.least(F.coalesce("end_s", "until_s"), "until_s")
    inside_s = F.greatest(end_s - F.greatest("time_s", "warmup_s"), F.lit(0.0))
    per_broker = stays.groupBy(*_RUN, "warmup_s", "until_s", "broker").agg(F.sum(inside_s).alias("stayed_s"))
    value = F.col("stayed_s") / (F.col("until_s") - F.col("warmup_s"))
    return _long(per_broker, {"broker_subscribers": value}, F.col("broker"))


def latency(records: DataFrame, runs: DataFrame) -> DataFrame:
    """E: from publication to the subscriber, over all deliveries ([PRO] section 5.1)."""
    delivered = in_window(records, runs).where(F.col("kind") == "delivered")
    return _durations(delivered, "latency")


# --- moving: H and the number of handoffs --------------------------------------------------------------------


def handoff_latency(records: DataFrame, runs: DataFrame) -> DataFrame:
    """H: from the reconnect request to the first message at the new broker ([PRO] section 5.1)."""
    return _durations(_handoffs(records, runs), "handoff")


def handoff_distribution(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The distribution of H over all seeds, `schemas.DISTRIBUTION`: at every percent."""
    probabilities = [percent / 100 for percent in range(101)]
    return (
        _handoffs(records, runs)
        .groupBy("scenario", "scheme", "params")
        .agg(F.percentile("duration_s", F.lit(probabilities)).alias("values"))
        .select("scenario", "scheme", "params", F.posexplode("values").alias("percent", "value"))
        .select("scenario", "scheme", "params", (F.col("percent") / 100).alias("probability"), "value")
    )


def moves(records: DataFrame, runs: DataFrame) -> DataFrame:
    """How often clients reconnected, and how often at another broker than before."""
    connects = _reconnects(records, runs)
    counted = connects.groupBy(*_RUN).agg(
        F.count("*").alias("reconnects"), F.count_if(F.col("peer") != F.col("broker")).alias("handoffs")
    )
    return _long(counted, {"reconnects": F.col("reconnects"), "handoffs": F.col("handoffs")})


def transfers(records: DataFrame, runs: DataFrame) -> DataFrame:
    """How often a broker handed a context to another one, whenever its client moves or is expected to."""
    handed = in_window(records, runs).where(F.col("kind") == "transferred")
    return _long(handed.groupBy(*_RUN).agg(F.count("*").alias("n")), {"transfers": F.col("n")})


def moves_over_time(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Handoffs that began in each five minutes; the entity is the bin's end in seconds."""
    connects = _reconnects(records, runs)
    bin_end_s = (F.ceil(F.col("time_s") / MOVES_BIN_S) * MOVES_BIN_S).cast("double")
    binned = (
        connects.where(F.col("peer") != F.col("broker"))
        .groupBy(*_RUN, bin_end_s.alias("bin_end_s"))
        .agg(F.count("*").alias("handoffs"))
    )
    return _long(binned, {"handoffs_in_bin": F.col("handoffs")}, F.col("bin_end_s"))


def _reconnects(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Connections of clients that were somewhere before; not those in which a run ends, when everybody comes back."""
    is_reconnect = (F.col("kind") == "connected") & F.col("peer").isNotNull()
    return in_window(records, runs).where(is_reconnect & (F.col("time_s") < F.col("until_s")))


def _handoffs(records: DataFrame, runs: DataFrame) -> DataFrame:
    """First messages at another broker; a client that came back to its old one had no handoff."""
    is_handoff = (F.col("kind") == "handoff") & (F.col("peer") != F.col("broker"))
    return in_window(records, runs).where(is_handoff)


def _durations(rows: DataFrame, name: str) -> DataFrame:
    points = list(_QUANTILES.values())
    counted = rows.groupBy(*_RUN).agg(
        F.avg("duration_s").alias("mean"),
        F.percentile_approx("duration_s", points, _ACCURACY).alias("quantiles"),
    )
    quantiles = {
        f"{name}_s_{label}": F.element_at("quantiles", place)
        for place, label in enumerate(_QUANTILES, start=1)
    }
    return _long(counted, {f"{name}_s_mean": F.col("mean"), **quantiles})


# --- brokers: M and buffers ----------------------------------------------------------------------------------


def processing(records: DataFrame, runs: DataFrame) -> DataFrame:
    """M: service time per event, to filter it and route it to its subscribers ([PRO] section 5.1)."""
    events = in_window(records, runs).where((F.col("kind") == "processing") & (F.col("detail") == "event"))
    mean_s = F.sum("duration_s") / F.nullif(F.sum("count"), F.lit(0))
    per_broker = events.groupBy(*_RUN, "broker").agg(mean_s.alias("mean_s"))
    overall = events.groupBy(*_RUN).agg(mean_s.alias("mean_s"))
    value = {"processing_s": F.col("mean_s")}
    return _long(per_broker, value, F.col("broker")).unionByName(_long(overall, value))


def buffers(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Occupancy of the brokers' buffers: message-seconds, copies per message, peak bytes.

    A sampled level stands until the broker's next sample; the last one stands for nothing.
    """
    samples = in_window(records, runs).where(F.col("kind") == "buffer")
    by_broker = Window.partitionBy("run_id", "broker").orderBy("time_s", "position")
    stands_s = F.lead("time_s").over(by_broker) - F.col("time_s")
    levels = samples.withColumn("message_s", F.col("count") * stands_s)
    together = levels.groupBy(*_RUN, "time_s").agg(
        F.sum("message_s").alias("message_s"),
        F.sum("count").alias("messages"),
        F.sum("hops").alias("copies"),
        F.sum("bytes").alias("bytes"),
    )
    overall = together.groupBy(*_RUN).agg(
        F.sum("message_s").alias("message_s"),
        (F.sum("copies") / F.nullif(F.sum("messages"), F.lit(0))).alias("copies"),
        F.max("bytes").alias("peak_bytes"),
    )
    return _long(
        overall,
        {
            "buffer_message_s": F.col("message_s"),
            "buffer_copies_per_message": F.col("copies"),
            "buffer_peak_bytes": F.col("peak_bytes"),
        },
    )


# --- traffic: the overhead ratio -----------------------------------------------------------------------------


def overhead(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Unicast over multicast ([DIS] section 5.2.1), by link traversals, messages and bytes; and its parts."""
    traffic = _traffic(records, runs)
    multicast, unicast = F.col("detail").isin(*MULTICAST), F.col("detail").isin(*UNICAST)
    migration = F.col("detail").isin(*MIGRATION)
    unicast_hops = _sum_if(unicast, "hops")
    overall = traffic.groupBy(*_RUN).agg(
        _ratio("hops").alias("overhead"),
        _ratio("count").alias("overhead_messages"),
        _ratio("bytes").alias("overhead_bytes"),
        F.coalesce(unicast_hops, F.lit(0)).alias("unicast_hops"),
        _sum_if(multicast, "hops").alias("multicast_hops"),
        (100 * F.coalesce(_sum_if(migration, "hops"), F.lit(0)) / unicast_hops).alias("migration_pct"),
    )
    return _long(
        overall,
        {
            "overhead": F.col("overhead"),
            "overhead_messages": F.col("overhead_messages"),
            "overhead_bytes": F.col("overhead_bytes"),
            "unicast_hops": F.col("unicast_hops"),
            "multicast_hops": F.col("multicast_hops"),
            "subscription_migration_pct": F.col("migration_pct"),
        },
    )


def overhead_by_kind(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The overhead ratio's terms: link traversals of each kind of traffic over all multicast ones."""
    traffic = _traffic(records, runs)
    by_kind = traffic.groupBy(*_RUN, "detail").agg(
        F.sum("hops").alias("hops"), F.sum("count").alias("messages")
    )
    whole_run = Window.partitionBy("run_id")
    multicast = F.sum(F.when(F.col("detail").isin(*MULTICAST), F.col("hops"))).over(whole_run)
    with_total = by_kind.withColumn("multicast", multicast)
    return _long(
        with_total,
        {
            "hops_of_kind": F.col("hops"),
            "messages_of_kind": F.col("messages"),
            "overhead_of_kind": F.col("hops") / F.nullif("multicast", F.lit(0)),
        },
        F.col("detail"),
    )


def overhead_over_time(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The overhead ratio in each bin of the records; the entity is the bin's end in seconds."""
    traffic = _traffic(records, runs)
    binned = traffic.groupBy(*_RUN, "time_s").agg(
        _ratio("hops").alias("ratio"),
        F.coalesce(_sum_if(F.col("detail").isin(*UNICAST), "hops"), F.lit(0)).alias("unicast_hops"),
        F.sum("hops").alias("all_hops"),
    )
    values = {
        "overhead_in_bin": F.col("ratio"),
        "unicast_hops_in_bin": F.col("unicast_hops"),
        "hops_in_bin": F.col("all_hops"),
    }
    return _long(binned, values, F.col("time_s"))


def overhead_peak(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The overhead ratio in the half hour in which it is highest ([DIS] Fig. 4)."""
    traffic = _traffic(records, runs)
    half_hour = F.ceil(F.col("time_s") / PEAK_BIN_S).alias("half_hour")
    binned = traffic.groupBy(*_RUN, half_hour).agg(_ratio("hops").alias("ratio"))
    peak = binned.groupBy(*_RUN).agg(F.max("ratio").alias("peak"))
    return _long(peak, {"overhead_peak": F.col("peak")})


def _traffic(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Whole bins of the window: when nobody publishes any more, a ratio means nothing."""
    return in_window(records, runs).where(F.col("kind") == "traffic")


def _ratio(value: str) -> Column:
    """Unicast over multicast of a group; null where there was no multicast traffic."""
    unicast = F.coalesce(_sum_if(F.col("detail").isin(*UNICAST), value), F.lit(0))
    return unicast / F.nullif(_sum_if(F.col("detail").isin(*MULTICAST), value), F.lit(0))


# --- all together --------------------------------------------------------------------------------------------

GROUPS: dict[Metric, tuple[str, ...]] = {
    delivery: (
        "published",
        "received",
        "throughput",
        "throughput_per_subscriber",
        "loss_pct",
        "duplication_pct",
        "transferred_pct",
    ),
    broker_throughput: ("broker_throughput",),
    broker_subscribers: ("broker_subscribers",),
    latency: ("latency_s_mean", "latency_s_p50", "latency_s_p95", "latency_s_p99"),
    handoff_latency: ("handoff_s_mean", "handoff_s_p50", "handoff_s_p95", "handoff_s_p99"),
    moves: ("reconnects", "handoffs"),
    transfers: ("transfers",),
    moves_over_time: ("handoffs_in_bin",),
    processing: ("processing_s",),
    buffers: ("buffer_message_s", "buffer_copies_per_message", "buffer_peak_bytes"),
    overhead: (
        "overhead",
        "overhead_messages",
        "overhead_bytes",
        "unicast_hops",
        "multicast_hops",
        "subscription_migration_pct",
    ),
    overhead_by_kind: ("hops_of_kind", "messages_of_kind", "overhead_of_kind"),
    overhead_over_time: ("overhead_in_bin", "unicast_hops_in_bin", "hops_in_bin"),
    overhead_peak: ("overhead_peak",),
}
"""Every group of metrics with the names it yields."""

NAMES: tuple[str, ...] = tuple(name for names in GROUPS.values() for name in names)


def metrics_of(records: DataFrame, runs: DataFrame, names: Iterable[str] = NAMES) -> DataFrame:
    """The named metrics of every run, `schemas.METRICS`; only the groups that are asked for are computed."""
    wanted = set(names)
    unknown = wanted - set(NAMES)
    assert not unknown, f"no such metrics: {sorted(unknown)}"
    groups = [group(records, runs) for group, made in GROUPS.items() if wanted & set(made)]
    return reduce(DataFrame.unionByName, groups).where(F.col("metric").isin(*sorted(wanted)))


def beside(names: Iterable[str]) -> tuple[str, ...]:
    """These metrics with all that the same queries yield anyway."""
    wanted = set(names)
    return tuple(name for made in GROUPS.values() if wanted & set(made) for name in made)


def summary(metrics: DataFrame) -> DataFrame:
    """The mean over seeds and its 95% confidence interval by Student's t, `schemas.SUMMARY`."""
    runs, mean = F.count("value"), F.avg("value")
    half_width = _student_t(runs - 1) * F.stddev_samp("value") / F.sqrt(runs)
    return (
        metrics.groupBy("scenario", "scheme", "params", "metric", "entity")
        .agg(
            runs.alias("runs"),
            mean.alias("mean"),
            (mean - half_width).alias("low"),
            (mean + half_width).alias("high"),
        )
        .select(*columns(SUMMARY))
    )


def _student_t(degrees: Column) -> Column:
    """The 97.5% quantile of Student's t: tabled, and past the table its expansion around the normal one."""
    table = [float(student_t.ppf(0.975, number)) for number in range(1, _T_TABLE + 1)]
    z = float(normal.ppf(0.975))
    tabled = F.get(F.lit(table), (degrees - 1).cast("int"))
    return F.when(degrees < 1, F.lit(None)).otherwise(F.coalesce(tabled, z + (z**3 + z) / (4 * degrees)))
