"""Connectivity tuples of travellers, as [TIME] section 4.1.3 collects them: state, time, provider, path.

A tuple says whether a traveller's phone had a connection at an instant, with which provider, on which path. The
application writes one when the state changes and every 30 seconds; a journey's tuples are one pattern. Lines are JSON
objects (an array with one object per line will do) or `state,time,provider,path`, with a fifth field for the journey or
the client where a file holds several at a time. The patterns of a path are put together by grouping: the client's class
is `path=..., provider=...`, and gold `connectivity` has a row for each path, each provider and each pair.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.conform import conform
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import OBSERVATIONS
from roamq.pipeline.traces.base import (
    HEADER,
    TraceFormat,
    any_time,
    base_name,
    in_zone,
    is_blank,
    is_zoneless,
    parsed,
    refuse,
    unreadable,
)

KEYS: Final = {
    "state": ("state", "status"),
    "time": ("time", "timestamp"),
    "provider": ("provider",),
    "path": ("path", "metro_path_id", "path_id"),
    "journey": ("journey", "client", "user"),
}
"""Field -> the names that it may have in a JSON object; the place in a CSV line is the order here."""
ON: Final = ("on", "true", "1", "connected")
OFF: Final = ("off", "false", "0", "disconnected")


def parse(lines: DataFrame) -> DataFrame:
    value = F.trim("value")
    is_json = value.startswith("{") | value.startswith("[")
    object_text = F.regexp_replace(value, r"^\[\s*(?=\{)|\s*[,\]]+\s*$", "")
    read = lines.withColumns(
        {
            "object": F.when(is_json, F.try_parse_json(object_text)),
            "parts": F.split(value, ",", -1),
            "is_json": is_json,
        }
    )
    text = {name: _field(name, place) for place, name in enumerate(KEYS)}
    state = F.when(F.lower(text["state"]).isin(*ON), True).when(F.lower(text["state"]).isin(*OFF), False)
    time = any_time(text["time"])
    is_column = F.coalesce(~F.col("is_json"), F.lit(True))
    reason = refuse(
        is_blank(F.col("value")),
        (value.isin("[", "]", "],"), HEADER),
        (is_column & F.lower(value).startswith("state,"), HEADER),
        (F.col("is_json") & F.col("object").isNull(), "is not JSON: write one tuple per line"),
        (is_column & ~F.size("parts").isin(4, 5), "expected state,time,provider,path"),
        unreadable(text["state"], state, "state"),
        unreadable(text["time"], time, "time"),
        (text["provider"].isNull(), "provider is missing"),
        (text["path"].isNull(), "path is missing"),
    )
    return parsed(
        read,
        reason,
        time=time,
        connected=state,
        provider=text["provider"],
        path=text["path"],
        journey=text["journey"],
        zoneless=is_zoneless(text["time"]),
    )


def _field(name: str, place: int) -> Column:
    """A field of the object, or of the line at its place; null where it is empty."""
    of_object = F.coalesce(*(F.try_variant_get("object", f"$.{key}", "string") for key in KEYS[name]))
    text = F.trim(F.when(F.col("is_json"), of_object).otherwise(F.get(F.col("parts"), F.lit(place))))
    return F.when(text != "", text)


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    """A journey on a path with a provider is a client: what happens on another path is another pattern."""
    return conform(
        rows.select(
            F.concat_ws("/", F.coalesce("journey", base_name()), "path", "provider").alias("client"),
            F.concat(F.lit("path="), "path", F.lit(", provider="), "provider").alias("client_class"),
            in_zone("time", "zoneless", rules.time_zone).alias("time"),
            F.col("position").alias("tie"),
            F.lit(None).cast("string").alias("site"),
            "connected",
            F.lit(None).cast("double").alias("x"),
            F.lit(None).cast("double").alias("y"),
        ),
        OBSERVATIONS,
    )


TUPLES = TraceFormat(
    name="tuples",
    about="connectivity of travellers: state,time,provider,path, as lines or JSON objects ([TIME] 4.1.3)",
    fields="time timestamp, connected boolean, provider string, path string, journey string, zoneless boolean",
    parse=parse,
    observe=observe,
    # A tuple comes every 30 seconds: three missing ones are the end of the journey, which is nobody's disconnection.
    rules=Rules(gap_s=90, silence="unknown"),
    client_in_name=True,
)
