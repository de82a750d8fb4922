"""Connectivity sampled on the device, once a minute: reachable over Wi-Fi or not.

The columns are those of the ExtraSensory phone-state files, one per user; the columns that matter are found by name in
the header's order, which is the same in all of them. There is no access point and no position: such a trace tells
how long clients are connected, not where. A hole in it is an app or a phone that was off: missing, not OFF.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import OBSERVATIONS
from roamq.pipeline.traces.base import (
    TraceFormat,
    base_name,
    fields_of,
    is_blank,
    is_header,
    parsed,
    refuse,
    split_lines,
    unix_time,
    unreadable,
    wrong_width,
)

COLUMNS = [
    "timestamp",
    "location:num_valid_updates",
    "location:min_speed",
    "location:max_speed",
    "location:diameter",
    "location_quick_features:lat_change",
    "location_quick_features:long_change",
    "discrete:app_state:is_active",
    "discrete:app_state:is_inactive",
    "discrete:app_state:is_background",
    "discrete:app_state:missing",
    "discrete:battery_plugged:is_ac",
    "discrete:battery_plugged:is_usb",
    "discrete:battery_plugged:is_wireless",
    "discrete:battery_plugged:missing",
    "discrete:battery_state:is_unknown",
    "discrete:battery_state:is_unplugged",
    "discrete:battery_state:is_not_charging",
    "discrete:battery_state:is_discharging",
    "discrete:battery_state:is_charging",
    "discrete:battery_state:is_full",
    "discrete:battery_state:missing",
    "discrete:wifi_status:is_not_reachable",
    "discrete:wifi_status:is_reachable_via_wifi",
    "discrete:wifi_status:is_reachable_via_wwan",
    "discrete:wifi_status:missing",
    "lf_measurements:battery_level",
    "label:FIX_walking",
    "label:BICYCLING",
    "label:SLEEPING",
    "label:LOC_main_workplace",
    "label:OR_indoors",
    "label:OR_outside",
    "label:IN_A_CAR",
    "label:ON_A_BUS",
    "label:LOC_home",
    "label:AT_SCHOOL",
]
OFF = "discrete:wifi_status:is_not_reachable"
ON = "discrete:wifi_status:is_reachable_via_wifi"
CELLULAR = "discrete:wifi_status:is_reachable_via_wwan"


def parse(lines: DataFrame) -> DataFrame:
    value = F.col("value")
    text = fields_of(COLUMNS)
    time = unix_time(text["timestamp"])
    off, on, cellular = (text[name].try_cast("double") for name in (OFF, ON, CELLULAR))
    reason = refuse(
        is_blank(value),
        is_header(value, "timestamp,"),
        wrong_width(len(COLUMNS)),
        unreadable(text["timestamp"], time, "time"),
        unreadable(text[OFF], off, "status is_not_reachable"),
        unreadable(text[ON], on, "status is_reachable_via_wifi"),
    )
    # One-hot columns: a row without a single 1 was not measured and says nothing about the connection.
    reachable = F.when((on == 1) | (cellular == 1), True).when(off == 1, False)
    return parsed(
        split_lines(lines, ","),
        reason,
        time=time,
        reachable=reachable,
        at_home=_label(text["label:LOC_home"]),
        at_work=_label(text["label:LOC_main_workplace"]),
    )


def _label(text: Column) -> Column:
    """A self-reported label: 1, 0, or nan for not reported."""
    return F.when(text == "1", True).when(text == "0", False)


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    """Measured rows only; the site is unknown."""
    return conform(
        rows.where(F.col("reachable").isNotNull()).select(
            F.regexp_extract(base_name(), r"^(.+?)(?:\.phonestate)?(?:\.csv)?(?:\.gz)?$", 1).alias("client"),
            F.lit("all").alias("client_class"),
            "time",
            F.col("position").alias("tie"),
            F.lit(None).cast("string").alias("site"),
            F.col("reachable").alias("connected"),
            F.lit(None).cast("double").alias("x"),
            F.lit(None).cast("double").alias("y"),
        ),
        OBSERVATIONS,
    )


ONOFF = TraceFormat(
    name="onoff",
    about="per-minute reachability of phones, one file per user (ExtraSensory columns)",
    fields="time timestamp, reachable boolean, at_home boolean, at_work boolean",
    parse=parse,
    observe=observe,
    rules=Rules(gap_s=600, silence="unknown", ping_pong_s=0, time_zone="America/Los_Angeles"),
    client_in_name=True,
)
