"""Association events, the plainest format: `time,client,site`, a header or none.

Time is ISO 8601 or UNIX seconds; a time without a zone is local to the rule `time_zone`. An empty site says that the
client disconnected. The generator writes this format, and an exporter of any system can.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import OBSERVATIONS
from roamq.pipeline.traces.base import (
    TraceFormat,
    any_time,
    fields_of,
    in_zone,
    is_blank,
    is_header,
    is_zoneless,
    parsed,
    refuse,
    split_lines,
    unreadable,
    wrong_width,
)

COLUMNS = ("time", "client", "site")


def parse(lines: DataFrame) -> DataFrame:
    value = F.col("value")
    text = fields_of(COLUMNS)
    time = any_time(text["time"])
    reason = refuse(
        is_blank(value),
        is_header(value, "time,"),
        (value.contains('"'), "quoted fields are not supported"),
        wrong_width(len(COLUMNS)),
        unreadable(text["time"], time, "time"),
        (text["client"] == "", "client is empty"),
    )
    return parsed(
        split_lines(lines, ","),
        reason,
        time=time,
        client=text["client"],
        site=F.nullif(text["site"], F.lit("")),
        zoneless=is_zoneless(text["time"]),
    )


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    return conform(
        rows.select(
            "client",
            F.lit("all").alias("client_class"),
            in_zone("time", "zoneless", rules.time_zone).alias("time"),
            F.col("position").alias("tie"),
            "site",
            F.col("site").isNotNull().alias("connected"),
            F.lit(None).cast("double").alias("x"),
            F.lit(None).cast("double").alias("y"),
        ),
        OBSERVATIONS,
    )


ASSOCIATIONS = TraceFormat(
    name="associations",
    about="association events: time,client,site (an empty site: disconnected)",
    fields="time timestamp, client string, site string, zoneless boolean",
    parse=parse,
    observe=observe,
    rules=Rules(gap_s=1800, min_observations=2),
)
