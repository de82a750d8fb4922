"""How far clients travel, between which places, and where they live and work. All of it is column expressions."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.schemas import ANCHORS, FLOWS, GYRATION
from roamq.pipeline.silver import CONNECTED, metres_between, split_at_midnight

NIGHT = (22.0, 7.0)
OFFICE = (9.0, 17.0)
SATURDAY = 5


def radius_of_gyration(positions: DataFrame, *, in_degrees: bool = True) -> DataFrame:
    """Positions (client, x, y), such as observations or stay points -> `schemas.GYRATION`.

    The radius is the root of the mean squared distance from the mean position; every row counts the same. Distances are
    metres on the ground, or on the plane where x and y are metres.

    Example:
        >>> radius_of_gyration(trace.observations).orderBy(F.desc("radius_m")).show()
    """
    placed = positions.where(F.col("x").isNotNull() & F.col("y").isNotNull()).select("client", "x", "y")
    own = Window.partitionBy("client")
    centred = placed.withColumns({"mean_x": F.avg("x").over(own), "mean_y": F.avg("y").over(own)})
    if in_degrees:
        distance = metres_between(F.col("x"), F.col("y"), F.col("mean_x"), F.col("mean_y"))
    else:
        distance = F.hypot(F.col("x") - F.col("mean_x"), F.col("y") - F.col("mean_y"))
    measured = centred.groupBy("client").agg(
        F.count("*").alias("positions"),
        F.first("mean_x").alias("x"),
        F.first("mean_y").alias("y"),
        F.sqrt(F.avg(F.pow(distance, 2))).alias("radius_m"),
    )
    return conform(measured, GYRATION)


def origin_destination(sojourns: DataFrame, *, min_stay_s: float = 1200.0) -> DataFrame:
    """Sojourns -> `schemas.FLOWS`: trips between the sites where clients stay for at least `min_stay_s`.

    Sites that a client only passes are no destinations. With `min_stay_s=0` every site counts, and trips are moves.

    Example:
        >>> origin_destination(stays, min_stay_s=600).orderBy(F.desc("trips")).show()
    """
    lasting = F.unix_micros("end") - F.unix_micros("begin")
    is_place = (F.col("state") == CONNECTED) & F.col("site").isNotNull()
    anchors = sojourns.where(is_place & (lasting >= int(min_stay_s * 1e6)))
    by_begin = Window.partitionBy("dataset", "client").orderBy("begin", "end")
    trips = anchors.select(
        "dataset",
        "client",
        F.col("site").alias("origin"),
        F.lead("site").over(by_begin).alias("destination"),
        ((F.unix_micros(F.lead("begin").over(by_begin)) - F.unix_micros("end")) / 1e6).alias("lasting_s"),
    ).where(F.col("destination") != F.col("origin"))
    flows = trips.groupBy("dataset", "origin", "destination").agg(
        F.count("*").alias("trips"),
        F.count_distinct("client").alias("clients"),
        F.percentile_approx("lasting_s", 0.5).alias("duration_s"),
    )
    return conform(flows, FLOWS)


def home_and_work(
    sojourns: DataFrame,
    time_zone: str = "UTC",
    *,
    night: tuple[float, float] = NIGHT,
    office: tuple[float, float] = OFFICE,
) -> DataFrame:
    """Sojourns -> `schemas.ANCHORS`: the site with the most hours at night is home, and of the other sites the one with
    the most office hours from Monday to Friday is work.

    Hours are local to `time_zone`. Null where a client was never seen in such hours; equal sites go by their names.

    Example:
        >>> home_and_work(stays, "Europe/Berlin").show()
    """
    connected = sojourns.where((F.col("state") == CONNECTED) & F.col("site").isNotNull())
    daily = split_at_midnight(connected.select("dataset", "client", "site", "begin", "end"), time_zone)
    is_weekday = F.weekday("day") < SATURDAY
    at_night = sum((_overlap(*part, time_zone) for part in _parts(night)), F.lit(0.0))
    at_office = sum((_overlap(*part, time_zone) for part in _parts(office)), F.lit(0.0))
    spent = daily.groupBy("dataset", "client", "site").agg(
        F.sum(at_night).alias("night_h"),
        F.sum(F.when(is_weekday, at_office).otherwise(0.0)).alias("office_h"),
    )
    days = daily.groupBy("dataset", "client").agg(F.count_distinct("day").alias("days"))
    own = Window.partitionBy("dataset", "client")
    nights = own.orderBy(F.desc("night_h"), "site")
    whole = nights.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    home = F.first(F.when(F.col("night_h") > 0, F.struct("site", F.col("night_h").alias("hours"))))
    with_home = spent.withColumn("home", home.over(whole))
    is_else = F.col("home").isNull() | (F.col("site") != F.col("home.site"))
    hours = F.when(is_else & (F.col("office_h") > 0), F.col("office_h"))
    longest_first = F.struct(F.coalesce(F.negative(hours), F.lit(1.0)), "site")
    work = F.min_by(F.struct("site", hours.alias("hours")), longest_first)
    found = with_home.groupBy("dataset", "client", "home").agg(
        F.when(F.max(hours).isNotNull(), work).alias("work")
    )
    return conform(
        found.join(days, ["dataset", "client"]).select(
            "dataset",
            "client",
            F.col("home.site").alias("home"),
            F.col("home.hours").alias("home_hours"),
            F.col("work.site").alias("work"),
            F.col("work.hours").alias("work_hours"),
            "days",
        ),
        ANCHORS,
    )


def _parts(hours: tuple[float, float]) -> list[tuple[float, float]]:
    """Hours of a day as parts of one: those of a night lie on both sides of midnight."""
    begin, end = hours
    return [(begin, end)] if begin <= end else [(begin, 24.0), (0.0, end)]


def _overlap(begin_h: float, end_h: float, time_zone: str) -> Column:
    """How many hours of a row, which lies within one local day, fall into a part of that day."""
    midnight = F.to_utc_timestamp(F.col("day").cast("timestamp"), time_zone)
    since = [(F.unix_micros(time) - F.unix_micros(midnight)) / 3.6e9 for time in ("begin", "end")]
    return F.greatest(F.lit(0.0), F.least(since[1], F.lit(end_h)) - F.greatest(since[0], F.lit(begin_h)))
