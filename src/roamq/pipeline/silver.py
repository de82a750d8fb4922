"""Clean: observations become stays, stays become sojourns and moves. Every rule is a function with parameters.

All rules look at one client's rows in time order, so all windows share one partitioning and one ordering: Spark
shuffles and sorts the observations once, however many rules follow. Run ends are found without aggregation: the
row that opens the next stay knows when the last one was seen.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from roamq.pipeline.conform import conform
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import MOVES, OBSERVATIONS, SOJOURNS, STAYS
from roamq.pipeline.vectorised import arrow_function

CONNECTED: Final = "connected"
DISCONNECTED: Final = "disconnected"
UNKNOWN: Final = "unknown"

EARTH_RADIUS_M: Final = 6_371_000.0

_CONTENT = ("site", "connected", "client_class")
_BY_TIME = ("time", "tie", *_CONTENT)
_BY_BEGIN = ("begin", "tie", *_CONTENT)
"""Lines of two files may be at one instant and have the same number: what they say then decides, so that every run
chooses the same, whichever files it read together."""
_BY_TIME_AND_PLACE = (*_BY_TIME, "x", "y")


Holes = Sequence[tuple[int, int]]
"""Begins and ends in microseconds since 1970."""


def sojourns(observations: DataFrame, rules: Rules, *, dataset: str, holes: Holes = ()) -> DataFrame:
    """Observations -> silver `sojourns`: all rules in their order.

    `holes`: when nobody at all was observed (`known_holes`, over all clients).
    """
    seen = observations
    if rules.at_one_instant == "sticky":
        seen = keep_site_while_listed(seen)
    elif rules.at_one_instant == "last":
        seen = last_of_each_instant(seen)
    if rules.max_speed_mps > 0:
        seen = drop_position_spikes(seen, rules.max_speed_mps)
    found = stays(seen, rules.gap_s)
    if rules.ping_pong_s > 0:
        found = absorb_ping_pong(found, rules.ping_pong_s)
    if rules.min_observations > 1:
        found = leave_out_rare_clients(found, rules.min_observations)
    return sojourns_of(found, rules, dataset=dataset, holes=holes)


def holes_of(observations: DataFrame, hole_s: float) -> DataFrame:
    """Observations of all clients -> (begin, end) in microseconds: when nobody was observed for longer than `hole_s`.

    Only the first and the last time of bins of half that length are sorted; a longer gap lies between two bins.
    """
    micros = F.unix_micros("time")
    bins = observations.groupBy(F.floor(micros / (hole_s * 500_000)).alias("bin")).agg(
        F.min(micros).alias("first"), F.max(micros).alias("last")
    )
    in_order = Window.partitionBy(F.lit(0)).orderBy("bin")  # Spark warns of a window without partitions
    gaps = bins.select(F.lag("last").over(in_order).alias("begin"), F.col("first").alias("end"))
    return gaps.where(F.col("end") - F.col("begin") > hole_s * 1_000_000)


def known_holes(observations: DataFrame, hole_s: float) -> Holes:
    """The holes of a trace, for `sojourns`; none where the rule `hole_s` is 0. This looks at all times at once."""
    if hole_s <= 0:
        return ()
    return sorted((row.begin, row.end) for row in holes_of(observations, hole_s).collect())


def last_of_each_instant(observations: DataFrame) -> DataFrame:
    """Keep the last row per client and instant; exact duplicates and contradictions go."""
    following = F.lead("time").over(Window.partitionBy("client").orderBy(*_BY_TIME_AND_PLACE))
    is_last = following.isNull() | (following != F.col("time"))
    return conform(observations.withColumn("is_last", is_last).where("is_last"), OBSERVATIONS)


def keep_site_while_listed(observations: DataFrame) -> DataFrame:
    """Of several sites at one instant keep the one the client was at, if it is listed, else the first listed.

    Each choice depends on the one before, which no window can express: a function reads the lists of one client
    after the other in time order and remembers a single site. Spark forgets how rows are partitioned when they pass
    through Python, so this rule alone costs a second shuffle.
    """
    instant = Window.partitionBy("client", "time").orderBy(*_BY_TIME_AND_PLACE[1:])
    everything = instant.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    lists = (
        observations.repartition("client")  # the one shuffle; the window over instants needs no other
        .withColumns(
            {"listed": F.collect_list("site").over(everything), "number": F.row_number().over(instant)}
        )
        .where("number = 1")
        .sortWithinPartitions("client", *_BY_TIME)
    )
    choose = arrow_function(choose_sites, StringType(), stateful=True)
    return conform(lists.withColumn("site", choose("client", "listed")), OBSERVATIONS)


def choose_sites(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
    """Clients and their lists of sites, sorted by client and time -> the site that is kept from each list."""
    client: object = None
    site: str | None = None
    for clients, lists in batches:
        kept: list[str | None] = []
        for now_client, listed in zip(clients.to_pylist(), lists.to_pylist(), strict=True):
            if now_client != client or site not in listed:
                site = listed[0] if listed else None
            client = now_client
            kept.append(site)
        yield pa.array(kept, pa.string())


def drop_position_spikes(observations: DataFrame, max_speed_mps: float) -> DataFrame:
    """Drop a position that could be neither reached nor left at `max_speed_mps`, while its neighbours agree.

    Longitude and latitude are `x` and `y`. First and last positions have one neighbour and are kept.
    """
    by_time = Window.partitionBy("client").orderBy(*_BY_TIME_AND_PLACE)
    too_fast = [
        metres_between(F.col("x"), F.col("y"), neighbour("x").over(by_time), neighbour("y").over(by_time))
        > F.abs(_seconds("time") - _seconds(neighbour("time").over(by_time))) * max_speed_mps
        for neighbour in (F.lag, F.lead)
    ]
    is_spike = F.coalesce(too_fast[0] & too_fast[1], F.lit(False))
    return conform(observations.withColumn("is_spike", is_spike).where("not is_spike"), OBSERVATIONS)


def stays(observations: DataFrame, gap_s: float) -> DataFrame:
    """Runs of rows at one site (or in one state) without a silence of more than `gap_s`."""
    by_time = Window.partitionBy("client").orderBy(*_BY_TIME)
    everything = by_time.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    rows = observations.select(
        *("client", "client_class", "time", "tie", "site", "connected"),
        F.lag("time").over(by_time).alias("seen_before"),
        F.lag("site").over(by_time).alias("site_before"),
        F.lag("connected").over(by_time).alias("connected_before"),
        F.row_number().over(by_time).alias("number"),
        F.max("time").over(everything).alias("last_of_client"),
        F.count("time").over(everything).alias("rows_of_client"),
    )
    follows_silence = F.col("seen_before").isNull() | (_seconds("time") - _seconds("seen_before") > gap_s)
    is_same = F.col("site").eqNullSafe(F.col("site_before")) & (
        F.col("connected") == F.col("connected_before")
    )
    opening = rows.withColumn("follows_silence", follows_silence).where(F.col("follows_silence") | ~is_same)
    last_seen = F.coalesce(F.lead("seen_before").over(by_time), "last_of_client")
    last_number = F.coalesce(F.lead("number").over(by_time) - 1, "rows_of_client")
    return conform(
        opening.withColumns(
            {"last_seen": last_seen, "observations": last_number - F.col("number") + 1}
        ).withColumnRenamed("time", "begin"),
        STAYS,
    )


def absorb_ping_pong(found: DataFrame, ping_pong_s: float) -> DataFrame:
    """Give a stay shorter than `ping_pong_s` between two stays at one other place to that place.

    Bounces have no silence on either side. In a chain A-B-A-B all inner stays go, which leaves A and the last B.
    """
    by_begin = Window.partitionBy("client").orderBy(*_BY_BEGIN)
    place = F.struct("connected", "site")
    next_begin = F.lead("begin").over(by_begin)
    bounced = (
        F.lag(place).over(by_begin).eqNullSafe(F.lead(place).over(by_begin))
        & next_begin.isNotNull()
        & (_seconds(next_begin) - _seconds("begin") < ping_pong_s)
        & ~F.col("follows_silence")
        & ~F.lead("follows_silence").over(by_begin)
    )
    return merge_stays(found.withColumn("bounced", F.coalesce(bounced, F.lit(False))))


def merge_stays(marked: DataFrame) -> DataFrame:
    """Drop `bounced` stays into the one before, and join stays at one place that then touch."""
    by_begin = Window.partitionBy("client").orderBy(*_BY_BEGIN)
    kept_before = by_begin.rowsBetween(Window.unboundedPreceding, -1)
    place = F.struct("connected", "site")
    last_kept = F.last(F.when(~F.col("bounced"), place), ignorenulls=True).over(kept_before)
    opens = ~F.col("bounced") & (F.col("follows_silence") | ~place.eqNullSafe(last_kept))
    everything = by_begin.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    so_far = F.sum("observations").over(by_begin.rowsBetween(Window.unboundedPreceding, -1))
    rows = marked.withColumns(
        {
            "opens": opens,
            "earlier": F.coalesce(so_far, F.lit(0)),
            "seen_before": F.lag("last_seen").over(by_begin),
            "rows_of_client": F.sum("observations").over(everything),
            "last_of_client": F.max("last_seen").over(everything),
        }
    ).where("opens")
    return conform(
        rows.withColumns(
            {
                "last_seen": F.coalesce(F.lead("seen_before").over(by_begin), "last_of_client"),
                "observations": F.coalesce(F.lead("earlier").over(by_begin), "rows_of_client")
                - F.col("earlier"),
            }
        ),
        STAYS,
    )


def leave_out_rare_clients(found: DataFrame, min_observations: int) -> DataFrame:
    """Drop the stays of clients with fewer observations in all: so few are no evidence."""
    total = F.sum("observations").over(Window.partitionBy("client"))
    return conform(found.withColumn("total", total).where(F.col("total") >= min_observations), STAYS)


def _within(holes: Holes, begin: Column | str, end: Column | str) -> Column:
    """Microseconds of holes between two observations; a hole lies between them whole or not at all."""
    known = F.array(*(F.struct(F.lit(b).alias("begin"), F.lit(e).alias("end")) for b, e in holes))
    first, last = F.unix_micros(begin), F.unix_micros(end)
    return F.aggregate(
        F.filter(known, lambda hole: (hole["begin"] >= first) & (hole["end"] <= last)),
        F.lit(0).cast("bigint"),
        lambda total, hole: total + hole["end"] - hole["begin"],
    )


def sojourns_of(found: DataFrame, rules: Rules, *, dataset: str, holes: Holes = ()) -> DataFrame:
    """Stays -> sojourns: a stay lasts until the next one, or until last seen where silence follows."""
    by_begin = Window.partitionBy("client").orderBy(*_BY_BEGIN)
    is_place = F.col("connected") & F.col("site").isNotNull()
    in_order = f"over (partition by client order by {', '.join(_BY_BEGIN)})"
    site_before = F.expr(f"lag(if(connected, site, null)) ignore nulls {in_order}")
    rows = found.withColumns(
        {
            "next": F.lead("begin").over(by_begin),
            "silent_after": F.coalesce(F.lead("follows_silence").over(by_begin), F.lit(True)),
            "was_connected": F.coalesce(F.lag("connected").over(by_begin), F.lit(False)),
            "stays_connected": F.coalesce(F.lead("connected").over(by_begin), F.lit(False)),
            "is_first": F.lag("begin").over(by_begin).isNull(),
            "next_place": F.expr(
                f"lead(if(connected and site is not null, struct(site, begin), null)) ignore nulls {in_order}"
            ),
            "came_from": F.when(is_place & (site_before != F.col("site")), site_before),
        }
    )
    is_unknown = F.lit(rules.silence == UNKNOWN)
    if holes:
        silent_us = F.unix_micros("next") - F.unix_micros("last_seen")
        looked_at = silent_us - _within(holes, "last_seen", "next") > rules.gap_s * 1_000_000
        is_unknown = is_unknown | (F.col("silent_after") & F.coalesce(~looked_at, F.lit(False)))
    rows = rows.withColumn("unknown_after", is_unknown)
    rows = rows.withColumn("unknown_before", F.coalesce(F.lag("unknown_after").over(by_begin), F.lit(False)))
    unknown_after = F.col("unknown_after")
    begins_open = F.col("is_first") | (F.col("follows_silence") & F.col("unknown_before"))
    ends_open = F.col("next").isNull() | (F.col("silent_after") & unknown_after)
    turned_on = F.col("connected") & (F.col("follows_silence") | ~F.col("was_connected"))
    turns_off = F.col("connected") & (F.col("silent_after") | ~F.col("stays_connected"))
    so_far = by_begin.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    period = F.when(turned_on, F.struct("begin", begins_open.alias("open")))
    rows = rows.withColumns(
        {
            "previous_site": F.last("came_from", ignorenulls=True).over(so_far),
            "period": F.last(period, ignorenulls=True).over(so_far),
        }
    )
    credited = F.least(
        F.col("last_seen") + F.make_dt_interval(secs=F.lit(rules.credit_s)),
        F.coalesce("next", F.lit("9999-12-31").cast("timestamp")),
    )
    end = F.when(F.col("silent_after"), credited).otherwise(F.col("next"))
    stay = _sojourn(
        state=F.when(F.col("connected"), CONNECTED).otherwise(DISCONNECTED),
        site=F.col("site"),
        begin=F.col("begin"),
        end=end,
        last_seen=F.col("last_seen"),
        observations=F.col("observations"),
        complete=~begins_open & ~ends_open,
        on_since=F.when(turns_off, F.col("period.begin")),
        on_complete=F.when(turns_off, ~F.col("period.open") & ~ends_open),
    )
    silence = _sojourn(
        state=F.when(unknown_after, UNKNOWN).otherwise(rules.silence),
        site=F.lit(None).cast("string"),
        begin=end,
        end=F.col("next"),
        last_seen=F.col("last_seen"),
        observations=F.lit(0).cast("bigint"),
        complete=~unknown_after,
        on_since=F.lit(None).cast("timestamp"),
        on_complete=F.lit(None).cast("boolean"),
    )
    is_silence = F.col("silent_after") & F.col("next").isNotNull() & (F.col("next") > end)
    pieces = F.when(is_silence, F.array(stay, silence)).otherwise(F.array(stay))
    next_place = ("next_place.site", "next_place.begin")
    unpacked = rows.select(
        F.lit(dataset).alias("dataset"),
        *("client", "client_class", "previous_site"),
        F.col(next_place[0]).alias("next_site"),
        F.col(next_place[1]).alias("next_begin"),
        F.inline(pieces),
    )
    return conform(unpacked, SOJOURNS)


def moves(found: DataFrame) -> DataFrame:
    """Sojourns -> silver `moves`: a connected stay whose next connected stay is elsewhere."""
    is_move = (
        (F.col("state") == CONNECTED)
        & F.col("site").isNotNull()
        & F.col("next_site").isNotNull()
        & (F.col("next_site") != F.col("site"))
    )
    return conform(
        found.where(is_move).select(
            *("dataset", "client", "client_class"),
            F.col("previous_site").alias("before"),
            F.col("site").alias("from"),
            F.col("next_site").alias("to"),
            F.col("last_seen").alias("left_at"),
            F.col("next_begin").alias("time"),
            (_seconds("next_begin") - _seconds("last_seen")).alias("gap_s"),
            (F.col("end") < F.col("next_begin")).alias("disconnected"),
        ),
        MOVES,
    )


def split_at_midnight(found: DataFrame, time_zone: str) -> DataFrame:
    """Cut sojourns where the local day ends; adds `day`. Days are cut by the zone's calendar, summer time included."""
    local_begin = F.from_utc_timestamp("begin", time_zone)
    local_end = F.from_utc_timestamp("end", time_zone)
    last_day = F.greatest(F.to_date(local_end - F.expr("interval 1 microsecond")), F.to_date(local_begin))
    days = F.sequence(F.to_date(local_begin), last_day)
    midnight = F.to_utc_timestamp(F.col("day").cast("timestamp"), time_zone)
    next_midnight = F.to_utc_timestamp(F.date_add("day", 1).cast("timestamp"), time_zone)
    return found.withColumn("day", F.explode(days)).withColumns(
        {"begin": F.greatest("begin", midnight), "end": F.least("end", next_midnight)}
    )


def _sojourn(**fields: Column) -> Column:
    return F.struct(*(column.alias(name) for name, column in fields.items()))


def _seconds(time: Column | str) -> Column:
    """A timestamp as seconds since the epoch with its fraction: unlike casts of intervals, exact to the microsecond."""
    return F.unix_micros(time) / 1_000_000


def metres_between(x: Column, y: Column, other_x: Column, other_y: Column) -> Column:
    """Distance on the ground between two places in degrees, by the haversine formula."""
    half_lat = F.radians(other_y - y) / 2
    half_lon = F.radians(other_x - x) / 2
    chord = F.pow(F.sin(half_lat), 2) + F.cos(F.radians(y)) * F.cos(F.radians(other_y)) * F.pow(
        F.sin(half_lon), 2
    )
    return F.asin(F.sqrt(chord)) * (2 * EARTH_RADIUS_M)
