"""Wi-Fi client tables, polled: one row says "device D was in the table of access point A at snapshot T".

The columns are those of the re:publica 13 set (German header): time, access point, room, x, y, device. Snapshots are
states, not events: absence from the next ones is the only sign of leaving, and a device may be listed at several
access points at once.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import OBSERVATIONS
from roamq.pipeline.traces.base import (
    TraceFormat,
    coordinate,
    fields_of,
    in_zone,
    is_blank,
    is_header,
    is_zoneless,
    parsed,
    refuse,
    split_lines,
    unreadable,
    written_time,
    wrong_width,
)

COLUMNS = ("time", "access_point", "room", "x", "y", "device")


def parse(lines: DataFrame) -> DataFrame:
    value = F.col("value")
    text = fields_of(COLUMNS)
    time = written_time(text["time"])
    x, y = coordinate(text["x"]), coordinate(text["y"])
    reason = refuse(
        is_blank(value),
        is_header(value, "Zeit,"),
        wrong_width(len(COLUMNS)),
        unreadable(text["time"], time, "time"),
        unreadable(text["x"], x, "x"),
        unreadable(text["y"], y, "y"),
        (text["access_point"] == "", "access point is empty"),
        (text["device"] == "", "device is empty"),
    )
    return parsed(
        split_lines(lines, ","),
        reason,
        time=time,
        access_point=text["access_point"],
        room=text["room"],
        x=x,
        y=y,
        device=text["device"],
        zoneless=is_zoneless(text["time"]),
    )


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    """A row of the table is a connected device at an access point."""
    return conform(
        rows.select(
            F.col("device").alias("client"),
            F.lit("all").alias("client_class"),
            in_zone("time", "zoneless", rules.time_zone).alias("time"),
            F.col("position").alias("tie"),
            F.col("access_point").alias("site"),
            F.lit(True).alias("connected"),
            "x",
            "y",
        ),
        OBSERVATIONS,
    )


WIFI = TraceFormat(
    name="wifi",
    about="snapshots of access points' client tables: time, access point, room, x, y, device",
    fields="time timestamp, access_point string, room string, x double, y double, device string, zoneless boolean",
    parse=parse,
    observe=observe,
    # Snapshots come every 10 to 15 minutes and up to 45 apart: two missed ones are an absence.
    rules=Rules(
        at_one_instant="sticky",
        gap_s=1800,
        credit_s=600,  # a snapshot holds until the next one is due
        hole_s=1800,  # no snapshot at all: nobody was polled
        ping_pong_s=0,
        time_zone="Europe/Berlin",
        min_observations=2,
    ),
    has_coordinates=True,
    unit="plane",
)
