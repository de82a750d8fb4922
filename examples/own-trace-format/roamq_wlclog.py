"""The log of a controller of access points, one event per line:

    2024-01-01T08:00:00Z wlc1 ASSOC sta=02:00:00:00:00:01 ap=hall
    2024-01-01T08:07:30Z wlc1 ROAM sta=02:00:00:00:00:01 ap=library
    2024-01-01T09:00:00Z wlc1 DISASSOC sta=02:00:00:00:00:01

Other events of the controller are no rows.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import OBSERVATIONS
from roamq.pipeline.traces import TraceFormat
from roamq.pipeline.traces.base import HEADER, is_blank, parsed, refuse, unreadable, written_time

OURS = ("ASSOC", "ROAM", "DISASSOC")


def parse(lines: DataFrame) -> DataFrame:
    """Lines -> typed rows; a line that cannot be read keeps its text and the reason."""
    value = F.col("value")
    words = F.split(F.trim(value), r"\s+")
    text = F.get(words, F.lit(0))
    time = written_time(text)
    event = F.get(words, F.lit(2))
    station = F.regexp_extract(value, r"\bsta=(\S+)", 1)
    access_point = F.nullif(F.regexp_extract(value, r"\bap=(\S+)", 1), F.lit(""))
    reason = refuse(
        is_blank(value),
        unreadable(text, time, "time"),
        (~F.coalesce(event, F.lit("")).isin(*OURS), HEADER),
        (station == "", "sta= is missing"),
        ((event != "DISASSOC") & access_point.isNull(), "ap= is missing"),
    )
    return parsed(lines, reason, time=time, event=event, station=station, access_point=access_point)


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    """Good rows -> observations: who was seen where, and connected or not."""
    is_connected = F.col("event") != "DISASSOC"
    nowhere = F.lit(None).cast("double")
    seen = rows.select(
        F.col("station").alias("client"),
        F.lit("all").alias("client_class"),
        "time",
        F.col("position").alias("tie"),
        F.when(is_connected, F.col("access_point")).alias("site"),
        is_connected.alias("connected"),
        nowhere.alias("x"),
        nowhere.alias("y"),
    )
    return conform(seen, OBSERVATIONS)


WLCLOG = TraceFormat(
    name="wlclog",
    about="log of a controller of access points: ASSOC, ROAM, DISASSOC",
    fields="time timestamp, event string, station string, access_point string",
    parse=parse,
    observe=observe,
    # The log names every disconnection, but a controller that restarts names none: a day of silence is an end.
    rules=Rules(at_one_instant="all", gap_s=86_400),
)
