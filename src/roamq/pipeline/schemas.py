"""Column contracts of the tables that cross a file boundary, as Spark DDL. Importable without Spark.

Records and runs are written by a campaign; metrics and summary are made of them. `docs/metrics.md` says what each
metric means.
"""

from typing import Final

RECORD_COLUMNS: Final = (
    "kind STRING, time_s DOUBLE, broker STRING, client STRING, origin STRING, sequence BIGINT, peer STRING, "
    "detail STRING, count BIGINT, hops BIGINT, bytes BIGINT, duration_s DOUBLE"
)
"""The columns of `roamq.core.records.Record`, in its order."""

RECORDS: Final = f"run_id STRING, position BIGINT, {RECORD_COLUMNS}"
"""What happened in a run. `position` counts the run's records from 0: files and cores may shuffle rows."""

RUN_COLUMNS: Final = (
    "scenario STRING, scheme STRING, seed BIGINT, params MAP<STRING, STRING>, runner STRING, "
    "warmup_s DOUBLE, until_s DOUBLE, status STRING, error STRING, replay STRING, wall_s DOUBLE, "
    "records BIGINT"
)

RUNS: Final = f"run_id STRING, {RUN_COLUMNS}"
"""One row per run. `status`: ok, violated (an invariant broke) or failed (no result); `replay` runs it again.
`warmup_s` and `until_s` bound the window that metrics look at."""

CAMPAIGN: Final = f"part STRING, {RECORDS}, {RUN_COLUMNS}"
"""What a campaign's tasks emit: rows of both tables, told apart by `part`, so that one job writes both."""

METRICS: Final = (
    "run_id STRING, scenario STRING, scheme STRING, params MAP<STRING, STRING>, seed BIGINT, "
    "metric STRING, entity STRING, value DOUBLE"
)
"""One number of one run. `entity` says of what: `all`, or a broker, a kind of traffic, a time."""

SUMMARY: Final = (
    "scenario STRING, scheme STRING, params MAP<STRING, STRING>, metric STRING, entity STRING, "
    "runs BIGINT, mean DOUBLE, low DOUBLE, high DOUBLE"
)
"""One number over seeds, with its 95% confidence interval; the interval of a single run is null."""

DISTRIBUTION: Final = (
    "scenario STRING, scheme STRING, params MAP<STRING, STRING>, probability DOUBLE, value DOUBLE"
)
"""A cumulative distribution: `probability` of at most `value`."""


def fields(ddl: str) -> dict[str, str]:
    """A contract as name -> type, in order."""
    depth, declared, found = 0, "", {}
    for character in ddl + ",":
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            name, _, kind = declared.strip().partition(" ")
            found[name] = kind
            declared = ""
        else:
            declared += character
    return found


def columns(ddl: str) -> list[str]:
    """The names in a contract, in order."""
    return list(fields(ddl))
