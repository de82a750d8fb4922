"""Gold: what brokers, simulator, models and people read."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline import connectivity, gold, prediction
from roamq.pipeline.books import TraceSource
from roamq.pipeline.conform import conform
from roamq.pipeline.definitions.bronze import table_of
from roamq.pipeline.definitions.silver import are_records, good_rows, has_clients, observations, rules_of
from roamq.pipeline.definitions.table import (
    MANY_KEYS,
    Names,
    Scope,
    TableQuery,
    Touched,
    is_named,
    union,
)
from roamq.pipeline.metrics import metrics_of
from roamq.pipeline.records import runs_of
from roamq.pipeline.schemas import TRIGRAMS
from roamq.pipeline.traces.base import in_zone, is_good

Query = Callable[..., DataFrame]
"""Called with rows of each table, then the values of the rules; keeps `dataset` as a key."""

EVENTFUL = ("gps", "counts", "records")
SPLITTING = ("time_zone", "test_share")
"""The rules that say which days are for testing."""
MOST = 0.5
"""If more than this share of a dataset's sites was touched, rows of all sites are made anew: few would be kept, and to
look for them, by a condition that names all others, costs more."""
MANY_MOVES = 1 << 20
"""Of more moves, counts of paths are corrected; fewer are sooner counted again."""


def derived(sources: Sequence[TraceSource]) -> list[TableQuery]:
    observed = [source for source in sources if has_clients(source)]
    eventful = [source for source in sources if source.format in EVENTFUL]
    tables: list[TableQuery] = []
    if observed:
        tables += [
            TableQuery("days", ("sojourns", "moves"), _days, has_clients),
            TableQuery("trigrams", ("moves", "days"), _trigrams, has_clients),
            _of_one("ranked_tests", "trigrams", prediction.ranked_tests),
            TableQuery(
                "duration_counts", ("durations",), _duration_counts, has_clients, changed=_at_touched("site")
            ),
            TableQuery(
                "connectivity",
                ("durations", "duration_counts"),
                _connectivity,
                has_clients,
                changed=_in_touched_groups,
            ),
            TableQuery(
                "neighbor_graph", ("moves",), _neighbor_graph, has_clients, changed=_at_touched("from")
            ),
            _of_one("transitions", "trigrams", gold.transitions),
            _of_one("prediction", "ranked_tests", prediction.prediction),
            _of_one("prediction_sets", "ranked_tests", prediction.prediction_sets),
            _of_one("ccdf", "duration_counts", connectivity.ccdf),
            TableQuery("sites", ("sojourns",), _sites, has_clients, changed=_at_touched("site")),
        ]
    if any(source.format == "records" for source in sources):
        tables.append(
            TableQuery("metrics", (table_of("records"),), _metrics, are_records, changed=_changed_runs)
        )
    arrivals = sorted({table_of(source.format) for source in eventful})
    tables.append(
        TableQuery(
            "arrival_rates",
            ("sojourns", *arrivals) if observed else tuple(arrivals),
            _arrival_rates,
            changed=_at_touched("site"),
        )
    )
    tables.append(
        _by_dataset(
            "daily_profile", ["arrival_rates"], ["bin_s", "time_zone"], gold.daily_profile, everybody=True
        )
    )
    return tables


def _of_one(name: str, read: str, query: Callable[[DataFrame], DataFrame]) -> TableQuery:
    """A table made of one other, dataset by dataset, whatever the rules."""
    return TableQuery(name, (read,), lambda scope: query(scope.of_touched(read)), has_clients)


def _by_dataset(
    name: str, reads: Sequence[str], rules: Sequence[str], query: Query, *, everybody: bool = False
) -> TableQuery:
    """A table made of others, dataset by dataset, by the named rules of each."""

    def made(scope: Scope) -> DataFrame:
        sources = scope.touched if everybody else _observed(scope)
        return union(by_rules(sources, [scope.new(read) for read in reads], rules, query))

    return TableQuery(name, tuple(reads), made, (lambda _: True) if everybody else has_clients)


def _observed(scope: Scope) -> list[TraceSource]:
    return [source for source in scope.touched if has_clients(source)]


def _touched(scope: Scope) -> Touched:
    """The sites and classes of changed clients, as they were and as they are; the sites of events that came or left;
    and where a format tells of places, those of observations that did, cleaned away or not.
    """
    parts = []
    stays = scope.changed_rows("sojourns") if _observed(scope) else None
    if stays is not None:
        parts.append(stays.select("dataset", "site", "client_class"))
    for source in scope.touched:
        nobody = F.lit(None).cast("string").alias("client_class")
        if has_clients(source) and source.trace_format().has_coordinates:
            parts += [_placed(r, source).select("dataset", "site", nobody) for r in _differing(scope, source)]
        if source.format in EVENTFUL:
            parts += [_events(r, source).select("dataset", "site", nobody) for r in _differing(scope, source)]
    sites, classes = _listed(parts, "site", "client_class")
    return Touched({name: _few(values, scope.sites.get(name)) for name, values in sites.items()}, classes)


def _few(sites: Collection[str] | None, known: int | None) -> Collection[str] | None:
    """The touched sites of a dataset, None where they are most of those that it had: all are then made anew."""
    return None if sites is None or (known is not None and len(sites) > MOST * known) else sites


def _runs(scope: Scope) -> Names:
    """The runs of which records came or left."""
    recorded = [source for source in scope.touched if source.format == "records"]
    rows = [rows.where(is_good()) for source in recorded for rows in _differing(scope, source)]
    [runs] = _listed([part.select("dataset", "run_id") for part in rows], "run_id")
    return runs


def _differing(scope: Scope, source: TraceSource) -> list[DataFrame]:
    """The bronze rows of a dataset that came, and those that left, if it changed in part."""
    rows = [scope.came(source), scope.left(source)] if source.dataset in scope.partly else []
    return [part for part in rows if part is not None]


def _listed(parts: Sequence[DataFrame], *columns: str) -> list[Names]:
    """The values of each column by dataset, none where they are too many to be named."""
    if not parts:
        return [{} for _ in columns]
    sets = [F.collect_set(name).alias(name) for name in columns]
    rows = union(parts).groupBy("dataset").agg(*sets).collect()
    return [
        {row.dataset: row[name] if len(row[name]) <= MANY_KEYS else None for row in rows} for name in columns
    ]


def _placed(rows: DataFrame, source: TraceSource) -> DataFrame:
    return observations(rows, source).withColumn("dataset", F.lit(source.dataset))


def _at_touched(column: str) -> Callable[[Scope], Column | None]:
    """Whether a row is of a touched site, or of none; None: all rows are made anew."""

    def is_changed(scope: Scope) -> Column | None:
        sites = scope.once(_touched).sites
        return None if _are_all(scope, sites) else F.col(column).isNull() | is_named(column, sites)

    return is_changed


def _are_all(scope: Scope, names: Names) -> bool:
    """Whether all values of all datasets that changed in part are meant."""
    return all(names.get(dataset, ()) is None for dataset in scope.partly)


def _in_touched_groups(scope: Scope) -> Column | None:
    """Whether a group of durations may have changed: that of a touched site or class, or a wider one; None: all are
    made anew.
    """
    touched = scope.once(_touched)
    if _are_all(scope, touched.sites):
        return None
    is_site, is_class = (F.col("grouping") == name for name in ("site", "class"))
    return (
        F.when(is_site, is_named("value", touched.sites))
        .when(is_class, is_named("value", touched.classes))
        .otherwise(True)
    )


def by_rules(
    sources: Sequence[TraceSource],
    frames: Sequence[DataFrame],
    rules: Sequence[str],
    query: Query,
    *more: Any,
) -> Iterator[DataFrame]:
    """The query over the rows of datasets whose named rules are equal, once for each choice of them."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for source in sources:
        chosen = tuple(getattr(rules_of(source), rule) for rule in rules)
        alike.setdefault(chosen, []).append(source.dataset)
    for chosen, datasets in alike.items():
        parts = (frame.where(F.col("dataset").isin(datasets)) for frame in frames)
        yield query(*parts, *chosen, *more)


# --- one function per table --------------------------------------------------------------------------------------


def _trigrams(scope: Scope) -> DataFrame:
    """Most datasets have moves on several days, which `days` knows: they are found without a look at all moves."""
    moves, days = scope.new("moves"), scope.new("days").where("moves > 0").select("dataset", "day")
    several = _have_several(days)
    made, known = _corrected_trigrams(scope, several, days)
    long = [source for source in _observed(scope) if source.dataset in several - known]
    short = [source for source in _observed(scope) if source.dataset not in several]
    return union(
        [
            *made,
            *by_rules(long, [moves], SPLITTING, prediction.trigrams, days),
            *by_rules(short, [moves], SPLITTING, prediction.trigrams),
        ]
    )


def _have_several(days: DataFrame) -> set[str]:
    """The datasets that have several of these days."""
    return {row.dataset for row in days.groupBy("dataset").count().where("count > 1").collect()}


def _corrected_trigrams(scope: Scope, several: set[str], days: DataFrame) -> tuple[list[DataFrame], set[str]]:
    """Of datasets that changed in part, and have many moves, the counts of before, corrected by the moves that went and
    came; and the datasets of which these are all.
    """
    if not scope.partly or scope.rows.get("moves", 0) < MANY_MOVES:
        return [], set()
    # A dataset that had a single day was split within it.
    alike = scope.partly & several & _have_several(scope.old("days").where("moves > 0"))
    partly = [source for source in _observed(scope) if source.dataset in alike]
    if not partly:
        return [], set()

    def counted(rows: DataFrame) -> DataFrame:
        return union(by_rules(partly, [rows], SPLITTING, prediction.trigrams, days))

    went = scope.past.get("moves")
    made = scope.keep(
        prediction.corrected_trigrams(
            scope.old("trigrams").where(F.col("dataset").isin(*alike)),
            None if went is None else counted(went),
            counted(scope.arrived("moves")),
        )
    )
    told = made.groupBy("dataset").agg(
        (F.min("is_known") & (F.min("first_test_day") == F.max("other_day"))).alias("is_known")
    )
    known = {row.dataset for row in told.collect() if row.is_known}
    rows = made.where(F.col("dataset").isin(*known) & (F.col("trained") + F.col("tested") > 0))
    return [conform(rows, TRIGRAMS)] if known else [], known


def _neighbor_graph(scope: Scope) -> DataFrame:
    rows = scope.new("moves").where(scope.is_made(_at_touched("from")(scope)))
    return union(by_rules(_observed(scope), [rows], ["half_life_days"], gold.neighbor_graph))


def _duration_counts(scope: Scope) -> DataFrame:
    """Of datasets that changed in part, the counts of before are corrected by the durations that went and came."""
    parts = []
    if scope.whole:
        parts.append(connectivity.duration_counts(scope.in_whole(scope.new("durations"))))
    if scope.partly:
        before = scope.in_part(scope.old("duration_counts"), _at_touched("site")(scope))
        went = scope.past.get("durations")
        parts.append(connectivity.corrected_counts(before, went, scope.arrived("durations")))
    return union(parts)


def _connectivity(scope: Scope) -> DataFrame:
    is_made = scope.is_made(_in_touched_groups(scope)) if scope.partly else None
    at_sites = scope.is_made(_at_touched("site")(scope)) if scope.partly else None
    groups = scope.in_hand(connectivity.described(scope.of_touched("duration_counts"), is_made))
    rows = scope.of_touched("durations")
    return union(by_rules(_observed(scope), [rows, groups], ["fit_samples"], connectivity.fitted, at_sites))


def _days(scope: Scope) -> DataFrame:
    """Days of whole datasets; those of others are corrected by the sojourns and moves that went and came."""
    parts: list[DataFrame] = []
    observed = _observed(scope)
    if whole := [source for source in observed if source.dataset in scope.whole]:
        rows = [scope.new("sojourns"), scope.new("moves")]
        parts += by_rules(whole, rows, ["time_zone"], gold.days)
    if partly := [source for source in observed if source.dataset in scope.partly]:
        frames = [scope.old("days"), scope.arrived("sojourns"), scope.arrived("moves")]
        if "sojourns" in scope.past:
            frames += [scope.past["sojourns"], scope.past["moves"]]
        parts += by_rules(partly, frames, ["time_zone"], _corrected_days)
    return union(parts)


def _corrected_days(before: DataFrame, *others: Any) -> DataFrame:
    *frames, time_zone = others
    went = (frames[2], frames[3]) if len(frames) > 2 else None
    return gold.corrected_days(before, (frames[0], frames[1]), went, time_zone)


def _sites(scope: Scope) -> DataFrame:
    """Sites of whole datasets and touched ones of others. A site has a place where the format tells of places."""

    def of(source: TraceSource) -> DataFrame:
        is_mine = F.col("dataset") == source.dataset
        is_made = scope.is_made(_at_touched("site")(scope))
        if source.trace_format().has_coordinates:
            seen = _placed(scope.new(table_of(source.format)), source).where(is_made)
            return gold.sites_of_observations(seen, source.dataset)
        if source.dataset in scope.whole:
            return gold.sites_of_sojourns(scope.new("sojourns").where(is_mine))
        went = scope.past.get("sojourns")
        return gold.corrected_sites(
            scope.old("sites").where(is_mine & is_made),
            scope.arrived("sojourns").where(is_mine),
            None if went is None else went.where(is_mine),
        )

    return union(of(source) for source in _observed(scope))


def _changed_runs(scope: Scope) -> Column:
    return F.col("run_id").isNull() | is_named("run_id", scope.once(_runs))


def _metrics(scope: Scope) -> DataFrame:
    good = scope.new(table_of("records")).where(is_good())
    rows = good.where(scope.is_made(_changed_runs(scope)))
    return metrics_of(rows, runs_of(rows)).withColumn("dataset", F.col("scenario"))


def _arrival_rates(scope: Scope) -> DataFrame:
    observed = _observed(scope)
    is_touched = _at_touched("site")(scope)
    parts: list[DataFrame] = []
    if whole := [source for source in observed if source.dataset in scope.whole]:
        parts += by_rules(whole, [scope.new("sojourns")], ["bin_s"], gold.client_arrivals)
    if partly := [source for source in observed if source.dataset in scope.partly]:
        before = scope.in_part(scope.old("arrival_rates").where(F.col("kind") == gold.CLIENTS), is_touched)
        frames = [before, scope.arrived("sojourns")]
        if "sojourns" in scope.past:
            frames.append(scope.past["sojourns"])
        parts += by_rules(partly, frames, ["bin_s"], _corrected_arrivals)
    for source in scope.touched:
        if source.format in EVENTFUL:
            events = _events(scope.new(table_of(source.format)), source).where(scope.is_made(is_touched))
            parts.append(gold.event_arrivals(events, rules_of(source).bin_s))
    return union(parts)


def _corrected_arrivals(before: DataFrame, came: DataFrame, *others: Any) -> DataFrame:
    *went, bin_s = others
    return gold.corrected_arrivals(before, came, went[0] if went else None, bin_s)


def _events(rows: DataFrame, source: TraceSource) -> DataFrame:
    """What counts as an event at a site: a call in a count, a publication, a position report of a vehicle."""
    if source.format == "counts":
        time = in_zone("bin", "zoneless", rules_of(source).time_zone)
        return good_rows(rows, source).select("dataset", "site", time.alias("time"), "n")
    if source.format == "records":
        published = good_rows(rows, source).where(F.col("kind") == "published")
        time = F.timestamp_micros((F.col("time_s") * 1_000_000).cast("bigint"))
        return published.select(
            "dataset", F.col("broker").alias("site"), time.alias("time"), F.lit(1).alias("n")
        )
    reports = observations(rows, source).where(F.col("site").isNotNull())
    return reports.select(F.lit(source.dataset).alias("dataset"), "site", "time", F.lit(1).alias("n"))
