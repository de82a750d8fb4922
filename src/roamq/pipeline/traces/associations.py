"""Association events, the plainest format: `time,client,site`, a header or none.

Time is ISO 8601 or UNIX seconds. An empty site says that the client disconnected. The generator writes this format, and
an exporter of any system can.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.rules import Rules
from roamq.pipeline.tables import OBSERVATIONS, conform
from roamq.pipeline.traces.base import (
    TraceFormat,
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

COLUMNS = ("time", "client", "site")


def parse(lines: DataFrame) -> DataFrame:
    value = F.col("value")
    text = fields_of(COLUMNS)
    # UNIX seconds are tried first: they are cheaper to read and the usual case in large files.
    time = F.coalesce(unix_time(text["time"]), F.try_to_timestamp(text["time"]))
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
    )


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    return conform(
        rows.select(
            "client",
            F.lit("all").alias("client_class"),
            "time",
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
    fields="time timestamp, client string, site string",
    parse=parse,
    observe=observe,
    rules=Rules(gap_s=1800, min_observations=2),
)
