"""Counts per antenna and bin: `site,bin,n`, the shape of call records ([TIME] section 4.1.2).

`bin` is the begin of a bin, ISO 8601 (local to the rule `time_zone` if it names no zone) or UNIX seconds; `n` is how
many calls or messages began in it. No client is named, so such a trace gives arrival rates and nothing else.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.rules import Rules
from roamq.pipeline.traces.base import (
    TraceFormat,
    any_time,
    fields_of,
    is_blank,
    is_header,
    is_zoneless,
    parsed,
    refuse,
    split_lines,
    unreadable,
    wrong_width,
)

COLUMNS = ("site", "bin", "n")


def parse(lines: DataFrame) -> DataFrame:
    value = F.col("value")
    text = fields_of(COLUMNS)
    begin = any_time(text["bin"])
    count = text["n"].try_cast("bigint")
    reason = refuse(
        is_blank(value),
        is_header(value, "site,"),
        wrong_width(len(COLUMNS)),
        (text["site"] == "", "site is empty"),
        unreadable(text["bin"], begin, "bin"),
        unreadable(text["n"], count, "n"),
        (count < 0, "n is negative"),
    )
    return parsed(
        split_lines(lines, ","),
        reason,
        site=text["site"],
        bin=begin,
        n=count,
        zoneless=is_zoneless(text["bin"]),
    )


COUNTS = TraceFormat(
    name="counts",
    about="calls or messages per antenna and bin: site,bin,n",
    fields="site string, bin timestamp, n bigint, zoneless boolean",
    parse=parse,
    observe=None,
    rules=Rules(),
)
