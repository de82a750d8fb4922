"""Metrics of pre-handoff ([PRE]): how often it was just in time, and what its virtual consumers cost.

Both take records and runs. `just_in_time` gives one row per bin of the ratio of travel time to route set-up time;
`prehandoff_summary` rows of `schemas.SUMMARY`, the mean over seeds.

A virtual consumer is followed by the number of its attempt, which its server counts: `requested` is written there,
`ready`, `hit` and `unready` at the server it is for.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from roamq.core.records import CONTROL, MIGRATION
from roamq.pipeline.metric_rows import in_window
from roamq.pipeline.metrics import summary
from roamq.pipeline.schemas import METRICS, columns

RUN = ["run_id", "scenario", "scheme", "params", "seed"]
ATTEMPT = ["run_id", "client", "last_server", "new_server", "attempt"]
PAIR = ["run_id", "last_server", "new_server"]
EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Lower edges of the bins of travel time over set-up time; the last one is open."""

JUST_EARLY = 0.9
"""Travel time over set-up time of a client that came before the set-up was completed, where all others took less."""

PING_PONG_S = 60.0
"""A client that is back, or expected again, within this time went to and fro."""

HANDING_OVER = sorted(MIGRATION | CONTROL)
"""Traffic that exists to hand clients over, without the events themselves."""


# --- just in time --------------------------------------------------------------------------------------------


def attempts(records: DataFrame) -> DataFrame:
    """When virtual consumers were asked for, and when they were ready; by `ATTEMPT`."""
    noted = records.where(F.col("kind") == "prehandoff")
    asked = noted.where(F.col("detail") == "requested").select(
        "run_id",
        "client",
        F.col("broker").alias("last_server"),
        F.col("peer").alias("new_server"),
        F.col("count").alias("attempt"),
        F.col("time_s").alias("requested_s"),
    )
    ready = (
        noted.where(F.col("detail") == "ready")
        .groupBy(
            "run_id",
            "client",
            F.col("peer").alias("last_server"),
            F.col("broker").alias("new_server"),
            F.col("count").alias("attempt"),
        )
        .agg(F.min("time_s").alias("ready_s"))
    )
    return asked.join(ready, ATTEMPT, "left")


def arrivals(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Every handoff with the pre-handoff that was made for it: `travel_s`, `setup_s`, `delay_s`, `is_hit`.

    The travel time begins with the last request that was neither cancelled nor used before, and the set-up time is that
    of the same attempt: where links are loaded or delays vary, no two are alike. The set-up of a client that came much
    too early is never completed: all that is known is that it would have taken longer than the client travelled. It is
    taken to be the mean of those set-ups of its pair of servers that did take longer. Where none did, `setup_s` is null
    and `is_early` tells the same.
    """
    made = attempts(records)
    completed = made.where(F.col("ready_s").isNotNull()).select(
        *PAIR, (F.col("ready_s") - F.col("requested_s")).alias("other_setup_s")
    )
    came = (
        in_window(records, runs)
        .where((F.col("kind") == "prehandoff") & F.col("detail").isin("hit", "unready", "missed"))
        .select(
            *RUN,
            "client",
            F.col("peer").alias("last_server"),
            F.col("broker").alias("new_server"),
            F.col("time_s").alias("came_s"),
            (F.col("detail") == "hit").alias("is_hit"),
        )
    )
    who = ["run_id", "client", "last_server", "new_server"]
    is_open = (F.col("requested_s") < F.col("came_s")) & (
        F.col("ended_s").isNull() | (F.col("ended_s") >= F.col("came_s"))
    )
    candidates = came.join(made.join(_ends(records), ATTEMPT, "left"), who, "left")
    last = F.max(F.when(is_open, F.struct("requested_s", "ready_s")))
    travelled = (
        candidates.groupBy(*RUN, "client", "last_server", "new_server", "came_s", "is_hit")
        .agg(last.alias("last"))
        .select(
            *RUN,
            "client",
            "last_server",
            "new_server",
            "came_s",
            "is_hit",
            (F.col("came_s") - F.col("last.requested_s")).alias("travel_s"),
            (F.col("last.ready_s") - F.col("last.requested_s")).alias("own_setup_s"),
        )
    )
    first = _first_messages(records).withColumnsRenamed({name: f"first_{name}" for name in who})
    is_its_first = F.col("came_s").between(F.col("first_from_s"), F.col("first_until_s"))
    for name in who:
        is_its_first &= F.col(name) == F.col(f"first_{name}")
    is_cut = F.col("travel_s").isNotNull() & F.col("own_setup_s").isNull()
    came_so = [*PAIR, "client", "came_s"]
    longer = (
        travelled.where(is_cut)
        .select(*came_so, "travel_s")
        .join(completed, PAIR)
        .where(F.col("other_setup_s") > F.col("travel_s"))
        .groupBy(*came_so)
        .agg(F.avg("other_setup_s").alias("longer_setup_s"))
    )
    return (
        travelled.join(longer, came_so, "left")
        .join(first, is_its_first, "left")
        .withColumn("setup_s", F.coalesce("own_setup_s", "longer_setup_s"))
        .withColumn("is_early", is_cut)
        .drop(
            *("own_setup_s", "longer_setup_s", "first_from_s", "first_until_s"),
            *(f"first_{name}" for name in who),
        )
    )


def _travel_over_setup() -> Column:
    """Travel time over set-up time; a little below 1 where no more is known than that it is below."""
    is_unknown = F.col("is_early") & F.col("setup_s").isNull()
    return F.when(is_unknown, F.lit(JUST_EARLY)).otherwise(F.col("travel_s") / F.col("setup_s"))


def _ends(records: DataFrame) -> DataFrame:
    """When attempts were cancelled, or replaced by their client; by `ATTEMPT`."""
    noted = records.where(F.col("kind") == "prehandoff")
    is_cancelled = (
        F.col("detail") == "cancelled"
    )  # the asking server writes this record; the asked server writes the others
    ended = noted.where(F.col("detail").isin("cancelled", "hit", "unready")).select(
        "run_id",
        "client",
        F.when(is_cancelled, F.col("broker")).otherwise(F.col("peer")).alias("last_server"),
        F.when(is_cancelled, F.col("peer")).otherwise(F.col("broker")).alias("new_server"),
        F.col("count").alias("attempt"),
        F.col("time_s"),
    )
    return ended.groupBy(*ATTEMPT).agg(F.min("time_s").alias("ended_s"))


def _first_messages(records: DataFrame) -> DataFrame:
    """The first message after a handoff, and between which times its connection was accepted."""
    return records.where((F.col("kind") == "handoff") & (F.col("peer") != F.col("broker"))).select(
        "run_id",
        "client",
        F.col("peer").alias("last_server"),
        F.col("broker").alias("new_server"),
        (F.col("time_s") - F.col("duration_s") - 1e-6).alias("first_from_s"),
        F.col("time_s").alias("first_until_s"),
        F.col("duration_s").alias("delay_s"),
    )


def just_in_time(records: DataFrame, runs: DataFrame) -> DataFrame:
    """By bin of travel time over set-up time: handoffs, the share just in time, and the delay in set-up times."""
    ratio = _travel_over_setup()
    compared = arrivals(records, runs).where(ratio.isNotNull()).withColumn("ratio", ratio)
    relative = F.col("delay_s") / F.col("setup_s")
    return (
        compared.withColumn("bin", _bin(F.col("ratio")))
        .groupBy("scenario", "scheme", "bin")
        .agg(
            F.avg("ratio").alias("ratio"),
            F.count("*").alias("handoffs"),
            F.avg(F.col("is_hit").cast("int")).alias("just_in_time"),
            F.avg(relative).alias("delay"),
            (1.96 * F.stddev_samp(relative) / F.sqrt(F.count(relative))).alias("delay_error"),
            F.avg("delay_s").alias("delay_s"),
        )
    )


def timeliness_by_seed(records: DataFrame, runs: DataFrame) -> DataFrame:
    """By seed and bin of travel time over set-up time, `EDGES`: handoffs, how many were just in time, and the sum of
    the delays in set-up times, over `delays` handoffs that had one."""
    ratio = _travel_over_setup()
    compared = arrivals(records, runs).where(ratio.isNotNull())
    relative = F.col("delay_s") / F.col("setup_s")
    return (
        compared.withColumn("bin", _bin(ratio))
        .groupBy("scheme", "seed", "bin")
        .agg(
            F.count("*").alias("handoffs"),
            F.sum(F.col("is_hit").cast("int")).alias("timely"),
            F.count(relative).alias("delays"),
            F.sum(relative).alias("delay"),
        )
    )


def normal_handoff_delay(records: DataFrame, runs: DataFrame) -> DataFrame:
    """The delay of the normal handoff in set-up times: runs of the standard scheme beside those of pre-handoff.

    Runs are compared by their parameters and seed; the pair's set-up time is taken from the run with pre-handoff.
    """
    described = runs.select("run_id", "scheme", _sorted("params").alias("setting"), "seed")
    setup = (
        attempts(records)
        .join(described, "run_id")
        .groupBy("setting", "seed", "last_server", "new_server")
        .agg(F.avg(F.col("ready_s") - F.col("requested_s")).alias("setup_s"))
    )
    normal = _first_messages(records).join(described.where(F.col("scheme") == "standard"), "run_id")
    relative = F.col("delay_s") / F.col("setup_s")
    return normal.join(setup, ["setting", "seed", "last_server", "new_server"]).agg(
        F.count("*").alias("handoffs"),
        F.avg(relative).alias("delay"),
        (1.96 * F.stddev_samp(relative) / F.sqrt(F.count(relative))).alias("delay_error"),
    )


def _sorted(params: str) -> Column:
    """A map as text, in the order of its keys: what rows can be joined by."""
    return F.to_json(F.array_sort(F.map_entries(params)))


def _bin(ratio: Column) -> Column:
    place = F.lit(None).cast("double")
    for edge in EDGES:
        place = F.when(ratio >= edge, F.lit(edge)).otherwise(place)
    return place


# --- what it costs -------------------------------------------------------------------------------------------


def prehandoff_metrics(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Hit rate, virtual consumers, control messages and wasted events per handoff of every run, `schemas.METRICS`."""
    noted = in_window(records, runs).where(F.col("kind") == "prehandoff")
    counted = noted.groupBy(*RUN).agg(
        F.count_if(F.col("detail").isin("hit", "unready", "missed")).alias("handoffs"),
        F.count_if(F.col("detail") == "hit").alias("hits"),
        F.count_if(F.col("detail") == "requested").alias("requested"),
        F.sum(F.when(F.col("detail") == "wasted", F.col("count"))).alias("wasted"),
    )
    traffic = in_window(records, runs).where(
        (F.col("kind") == "traffic") & F.col("detail").isin(*HANDING_OVER)
    )
    control = traffic.groupBy("run_id").agg(F.sum("hops").alias("control_hops"))
    lived = _lifetimes(records, runs).groupBy("run_id").agg(F.sum("lived_s").alias("lived_s"))
    joined = counted.join(control, "run_id", "left").join(lived, "run_id", "left")
    joined = joined.join(_ping_pong(records, runs), "run_id", "left")
    handoffs = F.nullif("handoffs", F.lit(0))
    values: dict[str, Column] = {
        "handoffs": F.col("handoffs"),
        "hit_pct": 100 * F.col("hits") / handoffs,
        "virtual_consumers_per_handoff": F.col("requested") / handoffs,
        "virtual_consumer_s_per_handoff": F.coalesce("lived_s", F.lit(0.0)) / handoffs,
        "control_hops_per_handoff": F.coalesce("control_hops", F.lit(0)) / handoffs,
        "wasted_events_per_handoff": F.coalesce("wasted", F.lit(0)) / handoffs,
        "ping_pong_pct": 100 * F.coalesce("returned", F.lit(0)) / handoffs,
        "again_pct": 100 * F.coalesce("again", F.lit(0)) / F.nullif("requested", F.lit(0)),
    }
    pairs = F.array(
        *(
            F.struct(F.lit(name).alias("metric"), value.cast("double").alias("value"))
            for name, value in values.items()
        )
    )
    return (
        joined.select(*RUN, F.lit("all").alias("entity"), F.explode(pairs).alias("pair"))
        .select(*RUN, "entity", F.col("pair.metric").alias("metric"), F.col("pair.value").alias("value"))
        .select(*columns(METRICS))
    )


def _ping_pong(records: DataFrame, runs: DataFrame) -> DataFrame:
    """By run: handoffs back to the server that the client had left less than `PING_PONG_S` before (`returned`), and
    requests for a virtual consumer that had been cancelled less than that before (`again`).
    """
    by_client = Window.partitionBy("run_id", "client").orderBy("time_s", "position")
    is_handoff = (F.col("kind") == "connected") & (F.col("peer") != F.col("broker"))
    is_soon = F.col("time_s") - F.lag("time_s").over(by_client) < PING_PONG_S
    moved = in_window(records, runs).where(is_handoff)
    returned = moved.withColumn("is_back", is_soon & (F.lag("peer").over(by_client) == F.col("broker")))
    by_attempt = Window.partitionBy("run_id", "client", "broker", "peer").orderBy("time_s", "position")
    asked = in_window(records, runs).where(
        (F.col("kind") == "prehandoff") & F.col("detail").isin("requested", "cancelled")
    )
    is_again = (
        (F.col("detail") == "requested")
        & (F.lag("detail").over(by_attempt) == "cancelled")
        & (F.col("time_s") - F.lag("time_s").over(by_attempt) < PING_PONG_S)
    )
    back = returned.groupBy("run_id").agg(F.count_if("is_back").alias("returned"))
    again = (
        asked.withColumn("is_again", is_again).groupBy("run_id").agg(F.count_if("is_again").alias("again"))
    )
    return back.join(again, "run_id", "full")


def _lifetimes(records: DataFrame, runs: DataFrame) -> DataFrame:
    """How long each virtual consumer existed: from `ready` to the next record about it at its server."""
    life = Window.partitionBy("run_id", "broker", "client").orderBy("time_s", "position")
    noted = in_window(records, runs).where(
        (F.col("kind") == "prehandoff") & F.col("detail").isin("ready", "hit", "wasted")
    )
    ended_s = F.lead("time_s").over(life)
    return noted.withColumn("lived_s", ended_s - F.col("time_s")).where(F.col("detail") == "ready")


def prehandoff_summary(records: DataFrame, runs: DataFrame) -> DataFrame:
    return summary(prehandoff_metrics(records, runs))
