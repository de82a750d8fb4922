"""Positions of vehicles: latitude, longitude, occupied, UNIX time, separated by blanks, one file per vehicle.

The columns are those of the cabspotting set (`new_<cab>.txt`). There are no sites in it: a rule lays a grid, hexagonal
cells or the regions of given brokers over the positions. There is no sign of disconnection but silence.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.placing import site_of
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import OBSERVATIONS
from roamq.pipeline.traces.base import (
    TraceFormat,
    base_name,
    coordinate,
    fields_of,
    is_blank,
    parsed,
    refuse,
    split_lines,
    unix_time,
    unreadable,
    wrong_width,
)

COLUMNS = ("latitude", "longitude", "occupied", "time")


def parse(lines: DataFrame) -> DataFrame:
    value = F.trim("value")
    text = fields_of(COLUMNS)
    latitude, longitude = coordinate(text["latitude"]), coordinate(text["longitude"])
    time = unix_time(text["time"])
    reason = refuse(
        is_blank(value),
        wrong_width(len(COLUMNS)),
        unreadable(text["latitude"], latitude, "latitude"),
        unreadable(text["longitude"], longitude, "longitude"),
        unreadable(text["time"], time, "time"),
        (~latitude.between(-90, 90), "latitude is outside -90..90"),
        (~longitude.between(-180, 180), "longitude is outside -180..180"),
        (~text["occupied"].isin("0", "1"), "occupancy is neither 0 nor 1"),
    )
    return parsed(
        split_lines(lines, " +"),
        reason,
        time=time,
        latitude=latitude,
        longitude=longitude,
        occupied=text["occupied"] == "1",
    )


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    """A report is a client at the site its position belongs to."""
    return conform(
        rows.select(
            F.regexp_extract(base_name(), r"^(?:new_)?(.+?)(?:\.txt)?(?:\.gz)?$", 1).alias("client"),
            F.lit("all").alias("client_class"),
            "time",
            F.col("position").alias("tie"),
            site_of(F.col("longitude"), F.col("latitude"), rules.sites).alias("site"),
            F.lit(True).alias("connected"),
            F.col("longitude").alias("x"),
            F.col("latitude").alias("y"),
        ),
        OBSERVATIONS,
    )


GPS = TraceFormat(
    name="gps",
    about="positions of vehicles: latitude longitude occupied time, one file per vehicle (cabspotting)",
    fields="time timestamp, latitude double, longitude double, occupied boolean",
    parse=parse,
    observe=observe,
    # Reports come once a minute: five minutes without one is off shift, a tunnel or a garage.
    rules=Rules(
        gap_s=300,
        credit_s=60,  # reports come once a minute: each holds until the next one is due
        max_speed_mps=70,
        sites="h3:7",
        time_zone="America/Los_Angeles",
        min_observations=100,
    ),
    client_in_name=True,
    has_coordinates=True,
)
