"""The papers' metrics, each defined once, as queries over records. `docs/metrics.md` is their dictionary.

A group of metrics is a function of `(records, runs)` that returns rows of `schemas.METRICS`; `GROUPS` lists them,
`metrics_of` computes those asked for, and `summary` gives their mean over seeds with a 95% confidence interval.
Which records count is said in `metric_rows.py`; what crosses links is counted in `traffic.py`.
"""

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from scipy.stats import norm as normal
from scipy.stats import t as student_t

from roamq.pipeline.metric_rows import ROUNDING_DIGITS, RUN, Metric, computed, in_window, long_rows, sum_if
from roamq.pipeline.schemas import SUMMARY, columns
from roamq.pipeline.traffic import (
    overhead,
    overhead_by_kind,
    overhead_over_time,
    overhead_peak,
    traffic_by_kind,
)

MOVES_BIN_S = 300.0
"""Moves are counted over time in bins of five minutes ([DIS] Fig. 5)."""

_T_TABLE = 60
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_TEXT_PERCENT = (40, 60)
_ACCURACY = 10_000
"""Accuracy of quantiles over many values: the error in rank is at most one part in this number."""


# --- delivery: Ts, Tb, L, D, E -------------------------------------------------------------------------------


def delivery(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Ts, L, D, and the share of messages that came by state transfer ([PRO] section 5.1)."""
    window = in_window(records, runs).where(F.col("kind").isin("published", "delivered"))
    is_delivery = F.col("kind") == "delivered"
    pair = F.when(is_delivery, F.struct("client", "origin", "sequence"))
    counted = window.groupBy(*RUN, "window_s").agg(
        sum_if(F.col("kind") == "published", "count").alias("expected"),
        F.count_if(F.col("kind") == "published").alias("published"),
        F.count_if(is_delivery).alias("received"),
        F.count_distinct(pair).alias("distinct"),
        F.count_distinct(F.when(is_delivery, F.col("client"))).alias("clients"),
        F.count_if(is_delivery & (F.col("detail") == "transferred")).alias("transferred"),
    )
    received, distinct = F.col("received"), F.col("distinct")
    return long_rows(
        counted,
        {
            "published": F.col("published"),
            "received": received,
            "received_once": distinct,
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
    per_broker = delivered.groupBy(*RUN, "window_s", "broker").agg(F.count("*").alias("routed"))
    return long_rows(per_broker, {"broker_throughput": F.col("routed") / F.col("window_s")}, F.col("broker"))


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
    bounds = runs.select(*RUN, "warmup_s", "until_s")
    stays = steps.join(F.broadcast(bounds), "run_id")
    end_s = F.least(F.coalesce("end_s", "until_s"), "until_s")
    inside_s = F.greatest(end_s - F.greatest("time_s", "warmup_s"), F.lit(0.0))
    per_broker = stays.groupBy(*RUN, "warmup_s", "until_s", "broker").agg(F.sum(inside_s).alias("stayed_s"))
    value = F.col("stayed_s") / (F.col("until_s") - F.col("warmup_s"))
    return long_rows(per_broker, {"broker_subscribers": value}, F.col("broker"))


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
    return _distribution(_handoffs(records, runs))


def handoff_quantiles(records: DataFrame, runs: DataFrame) -> DataFrame:
    """H at the percentages that [PRO] section 5.2.2 gives in its text, by run; the entity is the percentage."""
    counted = (
        _handoffs(records, runs)
        .groupBy(*RUN)
        .agg(
            *(
                F.percentile("duration_s", F.lit(percent / 100)).alias(f"p{percent}")
                for percent in _TEXT_PERCENT
            )
        )
    )
    return reduce(
        DataFrame.unionByName,
        (
            long_rows(counted, {"handoff_s_at": F.col(f"p{percent}")}, F.lit(percent))
            for percent in _TEXT_PERCENT
        ),
    )


def waiting_distribution(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The distribution of the waiting delay over all seeds, `schemas.DISTRIBUTION`: at every percent."""
    waits = first_and_last(records, runs).where(F.col("moved") & F.col("first_s").isNotNull())
    return _distribution(waits.withColumn("duration_s", F.col("first_s") - F.col("begin_s")))


def _distribution(rows: DataFrame) -> DataFrame:
    probabilities = [percent / 100 for percent in range(101)]
    return (
        rows.groupBy("scenario", "scheme", "params")
        .agg(F.percentile("duration_s", F.lit(probabilities)).alias("values"))
        .select("scenario", "scheme", "params", F.posexplode("values").alias("percent", "value"))
        .select("scenario", "scheme", "params", (F.col("percent") / 100).alias("probability"), "value")
    )


def moves(records: DataFrame, runs: DataFrame) -> DataFrame:
    """How often clients reconnected, and how often at another broker than before."""
    connects = _reconnects(records, runs)
    counted = connects.groupBy(*RUN).agg(
        F.count("*").alias("reconnects"), F.count_if(F.col("peer") != F.col("broker")).alias("handoffs")
    )
    return long_rows(counted, {"reconnects": F.col("reconnects"), "handoffs": F.col("handoffs")})


def transfers(records: DataFrame, runs: DataFrame) -> DataFrame:
    """How often a broker handed a context to another one because its client moved, or was expected to."""
    handed = in_window(records, runs).where(F.col("kind") == "transferred")
    return long_rows(handed.groupBy(*RUN).agg(F.count("*").alias("n")), {"transfers": F.col("n")})


def moves_over_time(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Handoffs that began in each five minutes; the entity is the bin's end in seconds."""
    connects = _reconnects(records, runs)
    bin_end_s = (F.ceil(F.col("time_s") / MOVES_BIN_S) * MOVES_BIN_S).cast("double")
    binned = (
        connects.where(F.col("peer") != F.col("broker"))
        .groupBy(*RUN, bin_end_s.alias("bin_end_s"))
        .agg(F.count("*").alias("handoffs"))
    )
    return long_rows(binned, {"handoffs_in_bin": F.col("handoffs")}, F.col("bin_end_s"))


# --- what moving costs a client: waiting delay, catch-up time, mobility delay ------------------------------------


def handoff_waits(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Waiting delay and catch-up time of handoffs: from the reconnect request to the first and to the last message
    that was waiting for the client.

    A message was waiting if it was published before the reconnect and had not reached the client. Handoffs with
    nothing waiting are counted apart (`handoffs_idle`), and so are those whose client left again before anything of
    what waited had come (`handoffs_unserved`). The rest are `handoffs_served`. Messages that never came count as loss.
    """
    per_handoff = first_and_last(records, runs).where("moved")
    served = per_handoff.where(F.col("first_s").isNotNull())
    first = _durations(served.withColumn("duration_s", F.col("first_s") - F.col("begin_s")), "waiting_delay")
    last = _durations(served.withColumn("duration_s", F.col("last_s") - F.col("begin_s")), "catch_up")
    some = per_handoff.groupBy("run_id").agg(F.count("*").alias("waited"), F.count("first_s").alias("served"))
    moved = _reconnects(records, runs).where(F.col("peer") != F.col("broker"))
    counted = moved.groupBy(*RUN).agg(F.count("*").alias("handoffs")).join(some, "run_id", "left")
    waited, done = (F.coalesce(F.col(name), F.lit(0)) for name in ("waited", "served"))
    counts = long_rows(
        counted,
        {
            "handoffs_served": done,
            "handoffs_unserved": waited - done,
            "handoffs_idle": F.col("handoffs") - waited,
        },
    )
    return reduce(DataFrame.unionByName, (first, last, counts))


def first_and_last(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Reconnects of the window for which messages were waiting: the run's columns, `client`, `begin_s`, whether the
    client had `moved` there from another broker, and when the first and the last of what waited came (`first_s`,
    `last_s`); null where nothing came before the client left again.
    """
    messages = _messages(records).select(
        "run_id",
        "client",
        "came_s",
        F.explode(
            F.filter(
                "stays",
                lambda stay: (
                    stay["again"]
                    & (F.col("published_s") < stay["begin_s"])
                    & (stay["begin_s"] <= F.col("came_s"))
                ),
            )
        ).alias("stay"),
    )
    bounds = runs.select(*RUN, "warmup_s", "until_s")
    begin_s = F.col("stay.begin_s")
    in_time = F.col("came_s") <= F.col("stay.end_s")
    came_s = F.when(in_time, F.col("came_s"))
    return (
        messages.join(F.broadcast(bounds), "run_id")
        .where((begin_s >= F.col("warmup_s")) & (begin_s < F.col("until_s")))
        .groupBy(*RUN, "client", begin_s.alias("begin_s"), F.col("stay.moved").alias("moved"))
        .agg(F.min(came_s).alias("first_s"), F.max(came_s).alias("last_s"))
    )


def mobility_delay(records: DataFrame, runs: DataFrame) -> DataFrame:
    """How much later a message came than it would have come to a client that had never moved.

    A client at rest has a message as soon as the network brings it there, or, if the client is away by then, when it
    comes back. What the network takes at least from an origin to a broker is seen in the run itself: it is the
    fastest delivery between the two. Messages count once, when they came first.
    """
    bounds = runs.select(*RUN, "warmup_s", "until_s")
    messages = (
        _messages(records)
        .join(F.broadcast(bounds), "run_id")
        .where(F.col("published_s").between(F.col("warmup_s"), F.col("until_s")))
    )
    fastest = messages.groupBy("run_id", "origin", "broker").agg(
        F.min(F.col("came_s") - F.col("published_s")).alias("at_rest_s")
    )
    arrived_s = F.col("published_s") + F.col("at_rest_s")
    ready = F.get(F.filter("stays", lambda stay: stay["end_s"] >= F.col("arrived_s")), F.lit(0))
    due_s = F.greatest(F.col("arrived_s"), ready["begin_s"])
    late_s = F.round(F.greatest(F.col("came_s") - due_s, F.lit(0.0)), ROUNDING_DIGITS)
    delayed = messages.join(F.broadcast(fastest), ["run_id", "origin", "broker"]).withColumn(
        "arrived_s", arrived_s
    )
    return _durations(delayed.withColumn("duration_s", late_s), "mobility_delay")


def _messages(records: DataFrame) -> DataFrame:
    """Each message that reached a client, once: `client`, `origin`, `broker`, `published_s`, `came_s`, and all `stays`
    of the client in order, each with `begin_s`, `end_s`, whether the client was there or elsewhere before (`again`),
    and whether it had `moved` from another broker.

    A stay begins with the reconnect request, and ends when the client leaves or connects again.
    """
    by_client = Window.partitionBy("run_id", "client").orderBy("time_s", "position")
    began = F.col("kind") == "connected"
    stays = (
        records.where(F.col("kind").isin("connected", "disconnected"))
        .withColumn("at", F.last(F.when(began, F.col("broker")), ignorenulls=True).over(by_client))
        .where(began | (F.col("broker") == F.col("at")))
        .withColumn("end_s", F.coalesce(F.lead("time_s").over(by_client), F.lit(float("inf"))))
        .where(began)
    )
    stay = F.struct(
        F.col("time_s").alias("begin_s"),
        F.col("end_s"),
        F.col("peer").isNotNull().alias("again"),
        F.coalesce(F.col("peer") != F.col("broker"), F.lit(False)).alias("moved"),
    )
    per_client = stays.groupBy("run_id", "client").agg(F.sort_array(F.collect_list(stay)).alias("stays"))
    first = F.min(F.struct("time_s", "position", "broker", "duration_s"))
    delivered = (
        records.where(F.col("kind") == "delivered")
        .groupBy("run_id", "client", "origin", "sequence")
        .agg(first.alias("first"))
    )
    came_s, took_s = F.col("first.time_s"), F.col("first.duration_s")
    return delivered.select(
        "run_id",
        "client",
        "origin",
        F.col("first.broker").alias("broker"),
        F.round(came_s - took_s, ROUNDING_DIGITS).alias("published_s"),
        came_s.alias("came_s"),
    ).join(per_client, ["run_id", "client"])


def _reconnects(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Connections of clients that were connected before, without those at the end of a run, when all clients come
    back.
    """
    is_reconnect = (F.col("kind") == "connected") & F.col("peer").isNotNull()
    return in_window(records, runs).where(is_reconnect & (F.col("time_s") < F.col("until_s")))


def _handoffs(records: DataFrame, runs: DataFrame) -> DataFrame:
    """First messages at another broker; a client that came back to its old one had no handoff."""
    is_handoff = (F.col("kind") == "handoff") & (F.col("peer") != F.col("broker"))
    return in_window(records, runs).where(is_handoff)


def _durations(rows: DataFrame, name: str) -> DataFrame:
    points = list(_QUANTILES.values())
    counted = rows.groupBy(*RUN).agg(
        F.avg("duration_s").alias("mean"),
        F.percentile_approx("duration_s", points, _ACCURACY).alias("quantiles"),
    )
    quantiles = {
        f"{name}_s_{label}": F.element_at("quantiles", place)
        for place, label in enumerate(_QUANTILES, start=1)
    }
    return long_rows(counted, {f"{name}_s_mean": F.col("mean"), **quantiles})


# --- brokers: M and buffers ----------------------------------------------------------------------------------


def processing(records: DataFrame, runs: DataFrame) -> DataFrame:
    """M: service time per event, to filter it and route it to its subscribers ([PRO] section 5.1), and how busy a
    broker is.

    Where consumers acknowledge, an acknowledgement lets further messages out: its time belongs to routing them.
    """
    spent = in_window(records, runs).where(F.col("kind") == "processing")
    is_event = F.col("detail") == "event"
    event_s = F.sum(F.when(F.col("detail").isin("event", "ack"), F.col("duration_s")))
    mean_s = (event_s / F.nullif(sum_if(is_event, "count"), F.lit(0))).alias("mean_s")
    busy = (100 * F.sum("duration_s") / F.max("until_s")).alias("busy_pct")
    per_broker = spent.groupBy(*RUN, "broker").agg(mean_s, busy)
    overall = spent.groupBy(*RUN).agg(mean_s)
    value = {"processing_s": F.col("mean_s")}
    each = value | {"busy_pct": F.col("busy_pct")}
    return long_rows(per_broker, each, F.col("broker")).unionByName(long_rows(overall, value))


def buffers(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Occupancy of the brokers' buffers: message-seconds, byte-seconds of memory, copies per message, peak bytes.

    A sampled level holds until the broker's next sample; the last sample of a run is not counted.
    """
    samples = in_window(records, runs).where(F.col("kind") == "buffer")
    by_broker = Window.partitionBy("run_id", "broker").orderBy("time_s", "position")
    stands_s = F.lead("time_s").over(by_broker) - F.col("time_s")
    levels = samples.withColumns(
        {"message_s": F.col("count") * stands_s, "byte_s": F.col("bytes") * stands_s}
    )
    together = levels.groupBy(*RUN, "time_s").agg(
        F.sum("message_s").alias("message_s"),
        F.sum("byte_s").alias("byte_s"),
        F.sum("count").alias("messages"),
        F.sum("hops").alias("copies"),
        F.sum("bytes").alias("bytes"),
    )
    overall = together.groupBy(*RUN).agg(
        F.sum("message_s").alias("message_s"),
        F.sum("byte_s").alias("byte_s"),
        (F.sum("copies") / F.nullif(F.sum("messages"), F.lit(0))).alias("copies"),
        F.max("bytes").alias("peak_bytes"),
    )
    return long_rows(
        overall,
        {
            "buffer_message_s": F.col("message_s"),
            "memory_byte_s": F.col("byte_s"),
            "buffer_copies_per_message": F.col("copies"),
            "buffer_peak_bytes": F.col("peak_bytes"),
        },
    )


# --- all together --------------------------------------------------------------------------------------------

GROUPS: dict[Metric, tuple[str, ...]] = {
    delivery: (
        "published",
        "received",
        "received_once",
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
    handoff_quantiles: ("handoff_s_at",),
    handoff_waits: (
        "waiting_delay_s_mean",
        "waiting_delay_s_p50",
        "waiting_delay_s_p95",
        "waiting_delay_s_p99",
        "catch_up_s_mean",
        "catch_up_s_p50",
        "catch_up_s_p95",
        "catch_up_s_p99",
        "handoffs_served",
        "handoffs_unserved",
        "handoffs_idle",
    ),
    mobility_delay: (
        "mobility_delay_s_mean",
        "mobility_delay_s_p50",
        "mobility_delay_s_p95",
        "mobility_delay_s_p99",
    ),
    moves: ("reconnects", "handoffs"),
    transfers: ("transfers",),
    moves_over_time: ("handoffs_in_bin",),
    processing: ("processing_s", "busy_pct"),
    buffers: ("buffer_message_s", "memory_byte_s", "buffer_copies_per_message", "buffer_peak_bytes"),
    overhead: (
        "overhead",
        "overhead_messages",
        "overhead_bytes",
        "unicast_hops",
        "multicast_hops",
        "subscription_migration_pct",
    ),
    overhead_by_kind: ("hops_of_kind", "messages_of_kind", "overhead_of_kind"),
    overhead_over_time: ("overhead_in_bin", "unicast_hops_in_bin", "replayed_hops_in_bin", "hops_in_bin"),
    overhead_peak: ("overhead_peak",),
    traffic_by_kind: ("bytes_of_kind", "peak_bytes_of_kind", "traffic_bytes", "traffic_peak_bytes"),
}
"""Every group of metrics with the names it yields."""

NAMES: tuple[str, ...] = tuple(name for names in GROUPS.values() for name in names)


def metrics_of(records: DataFrame, runs: DataFrame, names: Iterable[str] = NAMES) -> DataFrame:
    """The named metrics of every run, `schemas.METRICS`; only the groups that are asked for are computed."""
    wanted = set(names)
    unknown = wanted - set(NAMES)
    assert not unknown, f"no such metrics: {sorted(unknown)}"
    groups = [group for group, made in GROUPS.items() if wanted & set(made)]
    return computed(groups, records, runs).where(F.col("metric").isin(*sorted(wanted)))


def beside(names: Iterable[str]) -> tuple[str, ...]:
    """These metrics, and all others that the same queries compute."""
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
