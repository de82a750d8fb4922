"""Column contracts of all tables, as Spark DDL, and the rows that leave Spark. Importable without Spark.

A campaign writes records and runs; metrics and summary are made of them. The pipeline makes bronze tables of the traces
that arrived, and silver and gold tables of those. `docs/metrics.md` says what each metric means.

Every transform of the pipeline ends in `conform.conform`, so a table has exactly the columns, the order and the types
written here. Columns are nullable throughout: tables are Parquet, and Parquet read back is nullable whatever was
written.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

# --- campaigns -------------------------------------------------------------------------------------------------

RECORD_COLUMNS: Final = (
    "kind string, time_s double, broker string, client string, origin string, sequence bigint, peer string, "
    "detail string, count bigint, hops bigint, bytes bigint, duration_s double"
)
"""The columns of `roamq.core.records.Record`, in its order."""

RECORDS: Final = f"run_id string, position bigint, {RECORD_COLUMNS}"
"""What happened in a run. `position` counts the run's records from 0: files and cores may shuffle rows."""

RUN_COLUMNS: Final = (
    "scenario string, scheme string, seed bigint, params map<string,string>, runner string, "
    "warmup_s double, until_s double, status string, error string, replay string, wall_s double, "
    "records bigint"
)

RUNS: Final = f"run_id string, {RUN_COLUMNS}"
"""One row per run. `status`: ok, violated (an invariant broke) or failed (no result); `replay` runs it again.
`warmup_s` and `until_s` bound the window that metrics look at."""


class RunRow(NamedTuple):
    """What became of a run: the columns of `RUNS` that reports show."""

    scenario: str
    scheme: str
    seed: int
    status: str
    error: str | None
    replay: str
    wall_s: float
    records: int


CAMPAIGN: Final = f"part string, {RECORDS}, {RUN_COLUMNS}"
"""What a campaign's tasks emit: rows of both tables, told apart by `part`, so that one job writes both."""

METRICS: Final = (
    "run_id string, scenario string, scheme string, params map<string,string>, seed bigint, "
    "metric string, entity string, value double"
)
"""One number of one run. `entity` says of what: `all`, or a broker, a kind of traffic, a time."""


class MetricRow(NamedTuple):
    """A row of `METRICS`: a metric of one run."""

    run_id: str
    scenario: str
    scheme: str
    params: dict[str, str]
    seed: int
    metric: str
    entity: str
    value: float


SUMMARY: Final = (
    "scenario string, scheme string, params map<string,string>, metric string, entity string, "
    "runs bigint, mean double, low double, high double"
)
"""One number over seeds, with its 95% confidence interval; the interval of a single run is null."""


class SummaryRow(NamedTuple):
    """A row of `SUMMARY`: a metric's mean over seeds with its 95% confidence interval."""

    scenario: str
    scheme: str
    params: dict[str, str]
    metric: str
    entity: str
    """What was measured: `all`, or a broker, a kind of traffic, the end of a time bin."""
    runs: int
    mean: float
    low: float | None
    """None where a single run leaves the interval open."""
    high: float | None


DISTRIBUTION: Final = (
    "scenario string, scheme string, params map<string,string>, probability double, value double"
)
"""A cumulative distribution: `probability` of at most `value`."""


# --- traces ------------------------------------------------------------------------------------------------------

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

DURATIONS: Final = (
    "dataset string, client string, client_class string, period string, site string, duration_s double, "
    "complete boolean, draw double"
)
"""Silver: one row per period (on, off, stay, handoff) whose begin was observed. `complete`: its end was as well;
otherwise it lasted longer. `draw` is uniform in [0, 1), by a hash: samples are chosen by it."""

DURATION_COUNTS: Final = (
    "dataset string, period string, client_class string, site string, duration_s double, ended bigint, "
    "cut bigint"
)
"""Gold: how many periods of one length ended so, and how many were cut off there: of a class at any site (`site` is
null), and at a site of any class (`client_class` is null). Counts can be added and taken off: a run adds those of its
new durations and takes off those that are no more."""

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
    "family string, params map<string,double>, fit_mean_s double, "
    "ks_statistic double, ks_pvalue double, aic double, fitted_on bigint, best boolean"
)
CONNECTIVITY: Final = (
    "dataset string, period string, grouping string, value string, n bigint, censored bigint, mean_s double, "
    "median_s double, p90_s double, p99_s double, " + FIT
)
"""Gold: durations of one `period` (on, off, stay, handoff) in one group, one row per fitted family.

`n` durations are complete; of `censored` ones the begin was seen and not the end. Mean, quantiles and fits know that
those last longer than seen.
"""

CCDF: Final = "dataset string, period string, share_above double, duration_s double"
"""Gold: the duration that this share of a period's durations exceeds, all clients together (Kaplan and Meier)."""

ARRIVAL_RATES: Final = (
    "dataset string, kind string, site string, bin timestamp, arrivals bigint, rate_per_s double"
)
"""Gold: arrivals per site and bin; `kind` is clients (stays that begin) or events (reports, calls, publications)."""

DAILY_PROFILE: Final = (
    "dataset string, kind string, site string, minute_of_day int, days bigint, rate_per_s double"
)
"""Gold: the mean rate of a bin over the observed days, by local time of day; site `*` is the whole network."""

DAYS: Final = (
    "dataset string, day date, clients bigint, moves bigint, connected_hours double, disconnected_hours double, "
    "sojourns bigint, connected_us bigint, disconnected_us bigint"
)
"""Gold: one row per local day; hours are the microseconds behind them."""

TABLE_SUMMARY: Final = "dataset string, layer string, name string, rows bigint"
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

TRACE_METRICS: Final = f"{METRICS}, dataset string"
"""Gold: `METRICS` of the runs whose records came in as a dataset."""

BRONZE: Final = "bronze_"
"""Tables of what arrived begin with this; there is one per format."""


class DerivedTable(NamedTuple):
    """What a derived table is for, and its columns."""

    about: str
    contract: str


DERIVED: Final[Mapping[str, DerivedTable]] = {
    "quarantine": DerivedTable("malformed lines: file, line and reason", QUARANTINE),
    "sojourns": DerivedTable("how long clients were connected where, disconnected, or unknown", SOJOURNS),
    "moves": DerivedTable("from one site to another", MOVES),
    "durations": DerivedTable("how long clients were on, off, at a site and in handoff", DURATIONS),
    "publications": DerivedTable("events that entered the network", PUBLICATIONS),
    "deliveries": DerivedTable("events that reached a client, how late and which way", DELIVERIES),
    "traffic": DerivedTable("messages by kind that crossed links", TRAFFIC),
    "neighbor_graph": DerivedTable("which site follows which, how likely, how lately", NEIGHBOR_GRAPH),
    "trigrams": DerivedTable("paths over three sites, counted on training and on test days", TRIGRAMS),
    "transitions": DerivedTable("next-site counts of order 0, 1 and 2", TRANSITIONS),
    "ranked_tests": DerivedTable(
        "moves of the test days, and the rank each predictor gave them", RANKED_TESTS
    ),
    "prediction": DerivedTable("hit rate of next-site prediction against the size of the set", PREDICTION),
    "prediction_sets": DerivedTable("size of the set that hits 90 and 99%", PREDICTION_SETS),
    "duration_counts": DerivedTable(
        "how many periods lasted how long, by class and by site", DURATION_COUNTS
    ),
    "connectivity": DerivedTable("durations on, off, at a site and in handoff, with fits", CONNECTIVITY),
    "ccdf": DerivedTable("distribution of durations on, off, at a site and in handoff", CCDF),
    "days": DerivedTable("one row per local day", DAYS),
    "sites": DerivedTable("where sites are, and how popular", SITES),
    "metrics": DerivedTable("the papers' metrics of every recorded run", TRACE_METRICS),
    "arrival_rates": DerivedTable("clients and events that arrive per site and bin", ARRIVAL_RATES),
    "daily_profile": DerivedTable("mean rate by local time of day", DAILY_PROFILE),
    "summary": DerivedTable("rows per table and dataset", TABLE_SUMMARY),
}
"""Every table that is made of what arrived, silver before gold."""


# --- measures of mobility ------------------------------------------------------------------------------------------

STAY_POINTS: Final = (
    "client string, begin timestamp, end timestamp, last_seen timestamp, x double, y double, "
    "observations bigint"
)
"""Where and how long a client stayed, found in positions; it left between `last_seen` and `end`."""

GYRATION: Final = "client string, positions bigint, x double, y double, radius_m double"
"""How far from the middle of its positions a client typically is."""

ENTROPIES: Final = (
    "client string, visits bigint, sites bigint, random_bits double, uncorrelated_bits double, real_bits double, "
    "predictability double"
)
"""How predictable a client's sequence of sites is; no predictor is right more often than `predictability`."""

FLOWS: Final = (
    "dataset string, origin string, destination string, trips bigint, clients bigint, duration_s double"
)
"""The origin-destination matrix, one row per pair that occurs; `duration_s` is the median from leaving to arriving."""

ANCHORS: Final = (
    "dataset string, client string, home string, home_hours double, work string, work_hours double, "
    "days bigint"
)
"""Where a client spends its nights and its working hours."""

POSITIONS: Final = "client string, time double, x double, y double"
"""Where clients were, in seconds from the first of them and meters on a plane: what drives mobile brokers."""

RISKS: Final = "client string, known string, alike bigint, risk double"
"""How well a client hides: with the worst that an observer may know, `alike` clients fit, and `risk` is 1 of them."""


# --- reading a contract ------------------------------------------------------------------------------------------


def fields(ddl: str) -> dict[str, str]:
    """A contract as name -> type, in order."""
    # A comma between two columns has a blank after it; a comma inside a type has none.
    return dict(column.split(" ") for column in ddl.split(", "))


def columns(ddl: str) -> list[str]:
    """The names in a contract, in order."""
    return list(fields(ddl))


def arrow_schema(contract: str) -> "pa.Schema":
    """The Arrow schema of a contract."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "date": pa.date32(),
        "map<string,double>": pa.map_(pa.string(), pa.float64()),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    return pa.schema([(name, types[kind]) for name, kind in fields(contract).items()])
