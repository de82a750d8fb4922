"""Column contracts of the trace tables, as Spark DDL: importable without Spark.

Every transform ends in `conform`, so a table has exactly the columns, the order and the types written here.
Columns are nullable throughout: tables are Parquet, and Parquet read back is nullable whatever was written.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from roamq.pipeline import schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PROVENANCE: Final = "dataset string, file string, position bigint, raw string, reason string"
"""In front of every bronze row: where it came from and, if it was not taken, why.

`position` orders the lines of one file (see `traces.base.number_lines`); `raw` is the line as it was, kept only
where `reason` is set.
"""

QUARANTINE: Final = "dataset string, format string, file string, line bigint, reason string, raw string"
"""One row per malformed line of an input file."""

OBSERVATIONS: Final = (
    "client string, client_class string, time timestamp, tie bigint, site string, connected boolean, "
    "x double, y double"
)
"""Someone seen somewhere: what all mobility formats have in common. `tie` orders rows of one instant."""

STAYS: Final = (
    "client string, client_class string, begin timestamp, tie bigint, site string, connected boolean, "
    "last_seen timestamp, observations bigint, follows_silence boolean"
)
"""Uninterrupted runs of observations at one site; `follows_silence` also marks the client's first."""

SOJOURNS: Final = (
    "dataset string, client string, client_class string, state string, site string, begin timestamp, "
    "end timestamp, last_seen timestamp, observations bigint, complete boolean, previous_site string, "
    "next_site string, next_begin timestamp, on_since timestamp, on_complete boolean"
)
"""Silver: how long a client was connected at a site, disconnected, or unknown.

`complete`: both ends were observed, so the duration is one and not a lower bound. `previous_site`: the last other
site; `next_site`, `next_begin`: the next connected stay, wherever it is. `on_since` is set on the stay that ends a
connected period, which may span many sites: since when it lasted; `on_complete` says that both its ends were seen.
"""

MOVES: Final = (
    "dataset string, client string, client_class string, before string, from string, to string, "
    "left_at timestamp, time timestamp, gap_s double, disconnected boolean"
)
"""Silver: from one site to another. `gap_s` runs from last seen at `from` to first seen at `to`."""

SITES: Final = "dataset string, site string, x double, y double, observations bigint, clients bigint"
"""Where a site is, in degrees or plan units, and how popular."""

NEIGHBOR_GRAPH: Final = (
    "dataset string, from string, to string, moves bigint, probability double, recent_probability double, "
    "last_seen timestamp, gap_s_median double"
)
"""Gold: the learned neighbor graph; `recent_probability` weighs a move by its age."""

TRANSITIONS: Final = (
    "dataset string, order int, before string, from string, to string, moves bigint, probability double, "
    "last_seen timestamp"
)
"""Gold: next-site counts of order 0 (no context), 1 (the site) and 2 (the site and the one before)."""

TRIGRAMS: Final = (
    "dataset string, before string, from string, to string, first_test_day date, trained bigint, tested bigint, "
    "last_seen timestamp"
)
"""Gold: how often clients went `from` one site `to` another having come from `before`, on training and test days."""

RANKED_TESTS: Final = (
    "dataset string, predictor string, first_test_day date, train_moves bigint, "
    "rank bigint, size bigint, n bigint"
)
"""Gold: `n` moves of the test days whose target had this rank in a list of this size; null: not on the list."""

PREDICTION: Final = (
    "dataset string, predictor string, set_size int, hit_rate double, mean_set_size double, test_moves bigint, "
    "train_moves bigint, first_test_day date"
)
"""Gold: share of later moves whose target was among the first `set_size` predicted from earlier days."""

PREDICTION_SETS: Final = "dataset string, predictor string, target double, set_size int, reachable double"
"""Gold: smallest set that reaches the target hit rate; null where even the longest list does not."""

FIT: Final = (
    "median_s double, p90_s double, p99_s double, family string, params map<string,double>, fit_mean_s double, "
    "ks_statistic double, ks_pvalue double, aic double, fitted_on bigint, best boolean"
)
CONNECTIVITY: Final = (
    "dataset string, period string, grouping string, value string, n bigint, censored bigint, mean_s double, "
    + FIT
)
"""Gold: durations of one `period` (on, off, stay, handoff) in one group, one row per fitted family."""

CCDF: Final = "dataset string, period string, share_above double, duration_s double"
"""Gold: the duration that this share of a period's complete durations exceeds, all clients together."""

ARRIVAL_RATES: Final = (
    "dataset string, kind string, site string, bin timestamp, arrivals bigint, rate_per_s double"
)
"""Gold: arrivals per site and bin; `kind` is clients (stays that begin) or events (reports, calls, publications)."""

DAILY_PROFILE: Final = (
    "dataset string, kind string, site string, minute_of_day int, days bigint, rate_per_s double"
)
"""Gold: the mean rate of a bin over the observed days, by local time of day; site `*` is the whole network."""

DAYS: Final = (
    "dataset string, day date, clients bigint, moves bigint, connected_hours double, "
    "disconnected_hours double"
)
"""Gold: one row per local day."""

SUMMARY: Final = "dataset string, layer string, name string, rows bigint"
"""How many rows each table has for each dataset, and what became of the lines that came in."""


PUBLICATIONS: Final = (
    "dataset string, run_id string, origin string, sequence bigint, client string, broker string, time_s double, "
    "receivers bigint"
)
DELIVERIES: Final = (
    "dataset string, run_id string, origin string, sequence bigint, client string, broker string, time_s double, "
    "latency_s double, path string"
)
TRAFFIC: Final = (
    "dataset string, run_id string, broker string, kind string, time_s double, messages bigint, hops bigint, "
    "bytes bigint"
)
"""Silver: what records say of events and messages."""

METRICS: Final = f"{schemas.METRICS}, dataset string"

BRONZE: Final = "bronze_"
"""Tables of what arrived begin with this; there is one per format."""


class Table(NamedTuple):
    """What a derived table is for, and its columns."""

    about: str
    contract: str


DERIVED: Final[Mapping[str, Table]] = {
    "quarantine": Table("malformed lines: file, line and reason", QUARANTINE),
    "sojourns": Table("how long clients were connected where, disconnected, or unknown", SOJOURNS),
    "moves": Table("from one site to another", MOVES),
    "publications": Table("events that entered the network", PUBLICATIONS),
    "deliveries": Table("events that reached a client, how late and which way", DELIVERIES),
    "traffic": Table("messages by kind that crossed links", TRAFFIC),
    "neighbor_graph": Table("which site follows which, how likely, how lately", NEIGHBOR_GRAPH),
    "trigrams": Table("paths over three sites, counted on training and on test days", TRIGRAMS),
    "transitions": Table("next-site counts of order 0, 1 and 2", TRANSITIONS),
    "ranked_tests": Table("moves of the test days, and the rank each predictor gave them", RANKED_TESTS),
    "prediction": Table("hit rate of next-site prediction against the size of the set", PREDICTION),
    "prediction_sets": Table("size of the set that hits 90 and 99%", PREDICTION_SETS),
    "connectivity": Table("durations on, off, at a site and in handoff, with fits", CONNECTIVITY),
    "ccdf": Table("distribution of durations on, off, at a site and in handoff", CCDF),
    "days": Table("one row per local day", DAYS),
    "sites": Table("where sites are, and how popular", SITES),
    "metrics": Table("the papers' metrics of every recorded run", METRICS),
    "arrival_rates": Table("clients and events that arrive per site and bin", ARRIVAL_RATES),
    "daily_profile": Table("mean rate by local time of day", DAILY_PROFILE),
    "summary": Table("rows per table and dataset", SUMMARY),
}
"""Every table that is made of what arrived, silver before gold."""


def columns_of(contract: str) -> str:
    """A contract as the columns of a `create table`; some names are words of SQL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in schemas.fields(contract).items())


def conform(frame: "DataFrame", contract: str) -> "DataFrame":
    """The frame with exactly the contract's columns, in its order and types; extra columns go.

    A `select`, because `DataFrame.to` asks the server at once, which the query of a declared table may not.
    """
    from pyspark.sql import functions as F

    return frame.select(*(F.col(field.name).cast(field.dataType) for field in struct_of(contract)))


def struct_of(contract: str) -> "StructType":
    """A contract as a Spark type. Spark's own parser sits in the server, which a pipeline's query may not ask."""
    from pyspark.sql import types as T

    known: dict[str, T.DataType] = {
        "string": T.StringType(),
        "bigint": T.LongType(),
        "int": T.IntegerType(),
        "double": T.DoubleType(),
        "boolean": T.BooleanType(),
        "timestamp": T.TimestampType(),
        "date": T.DateType(),
        "map<string,double>": T.MapType(T.StringType(), T.DoubleType()),
    }
    # A comma inside a map type has no blank after it; the one between two columns has.
    columns = (column.split(" ") for column in contract.split(", "))
    return T.StructType([T.StructField(name, known[kind]) for name, kind in columns])
