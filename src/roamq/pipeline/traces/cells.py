"""Serving cells of a phone, once a second: one row says which cell served it, where it was and how well.

The columns are those of the UCC 5G production set. One file is one trip and becomes one client; the folder it
lies in (application, driving or static) is its class. `CellID` repeats between base stations, so `RAWCELLID` is
the site. `-` stands for "not available".
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import OBSERVATIONS
from roamq.pipeline.traces.base import (
    TraceFormat,
    coordinate,
    fields_of,
    is_blank,
    is_header,
    parsed,
    refuse,
    split_lines,
    unreadable,
    written_time,
    wrong_width,
)

COLUMNS = [
    "Timestamp",
    "Longitude",
    "Latitude",
    "Speed",
    "Operatorname",
    "CellID",
    "NetworkMode",
    "RSRP",
    "RSRQ",
    "SNR",
    "CQI",
    "RSSI",
    "DL_bitrate",
    "UL_bitrate",
    "State",
    "PINGAVG",
    "PINGMIN",
    "PINGMAX",
    "PINGSTDEV",
    "PINGLOSS",
    "CELLHEX",
    "NODEHEX",
    "LACHEX",
    "RAWCELLID",
    "NRxRSRP",
    "NRxRSRQ",
]
TIME_PATTERN = "yyyy.MM.dd_HH.mm.ss"


def parse(lines: DataFrame) -> DataFrame:
    value = F.col("value")
    text = fields_of(COLUMNS)
    time = written_time(text["Timestamp"], TIME_PATTERN)
    longitude, latitude = coordinate(text["Longitude"]), coordinate(text["Latitude"])
    reason = refuse(
        is_blank(value),
        is_header(value, "Timestamp,"),
        wrong_width(len(COLUMNS)),
        unreadable(text["Timestamp"], time, "time"),
        unreadable(text["Longitude"], longitude, "longitude"),
        unreadable(text["Latitude"], latitude, "latitude"),
        (~longitude.between(-180, 180), "longitude is outside -180..180"),
        (~latitude.between(-90, 90), "latitude is outside -90..90"),
        (text["RAWCELLID"].isin("", "-"), "no cell id"),
    )
    return parsed(
        split_lines(lines, ","),
        reason,
        time=time,
        longitude=longitude,
        latitude=latitude,
        speed_kmh=_available(text["Speed"]),
        cell=text["RAWCELLID"],
        base_station=text["NODEHEX"],
        network_mode=text["NetworkMode"],
        rsrp_dbm=_available(text["RSRP"]),
        downlink_kbps=_available(text["DL_bitrate"]),
        uplink_kbps=_available(text["UL_bitrate"]),
        state=text["State"],
    )


def _available(text: Column) -> Column:
    """A measurement, or null for `-` and anything else that is no number: a bad one does not spoil the row."""
    return text.try_cast("double")


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    """Each file is a client; times are local to `rules.time_zone`."""
    folders = F.split("file", "/")
    name = F.regexp_replace(F.element_at(folders, -1), r"\.csv(\.gz)?$", "")
    # .../<application>/<Driving or Static>[/<what was watched>]/<trip>.csv
    purpose = F.regexp_extract("file", r"([^/]+/(?:Driving|Static))/", 1)
    return conform(
        rows.select(
            F.concat_ws("/", F.get(folders, F.size(folders) - 2), name).alias("client"),
            F.when(purpose != "", purpose).otherwise("all").alias("client_class"),
            F.to_utc_timestamp("time", rules.time_zone).alias("time"),
            F.col("position").alias("tie"),
            F.col("cell").alias("site"),
            F.lit(True).alias("connected"),
            F.col("longitude").alias("x"),
            F.col("latitude").alias("y"),
        ),
        OBSERVATIONS,
    )


CELLS = TraceFormat(
    name="cells",
    about="a phone's serving cell once a second, one file per trip (UCC 5G columns)",
    fields="time timestamp, longitude double, latitude double, speed_kmh double, cell string, base_station string, "
    "network_mode string, rsrp_dbm double, downlink_kbps double, uplink_kbps double, state string",
    parse=parse,
    observe=observe,
    # Several rows in one second are all valid, in file order; a minute without any row is a disconnection.
    rules=Rules(at_one_instant="all", gap_s=60, credit_s=1, ping_pong_s=0, time_zone="Europe/Dublin"),
    client_in_name=True,
    has_coordinates=True,
)
