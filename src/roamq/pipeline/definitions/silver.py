"""Silver: sojourns, moves and durations of all datasets, each cleaned by its own rules, client by client."""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.pipeline import connectivity, records, silver
from roamq.pipeline.books import TraceSource
from roamq.pipeline.definitions.bronze import known_name, table_of
from roamq.pipeline.definitions.table import Scope, TableQuery, union
from roamq.pipeline.rules import Rules
from roamq.pipeline.traces.base import ORDINAL_BITS, is_good


def derived(sources: Sequence[TraceSource]) -> list[TableQuery]:
    observed = [source for source in sources if has_clients(source)]
    if not observed:
        return []
    recorded = [source for source in sources if source.format == "records"]
    bronze_tables = tuple(sorted({table_of(source.format) for source in observed}))

    def of_sojourns(name: str, transform: Callable[[DataFrame], DataFrame]) -> TableQuery:
        return TableQuery(
            name,
            ("sojourns",),
            lambda scope: transform(scope.fresh["sojourns"]),
            has_clients,
            by_client=True,
            past=transform,
        )

    return [
        TableQuery("sojourns", bronze_tables, sojourns, has_clients, by_client=True),
        of_sojourns("moves", silver.moves),
        of_sojourns("durations", connectivity.durations),
        *(
            TableQuery(name, (table_of("records"),), _recorded(transform), are_records, appends=True)
            for name, transform in records.SILVER.items()
            if recorded
        ),
    ]


def has_clients(source: TraceSource) -> bool:
    return source.trace_format().observe is not None


def are_records(source: TraceSource) -> bool:
    return source.format == "records"


def sojourns(scope: Scope) -> DataFrame:
    """Sojourns of whole datasets and of changed clients."""
    return union(
        silver.sojourns(
            _observed(scope, source),
            rules_of(source),
            dataset=source.dataset,
            holes=holes(scope.new(table_of(source.format)), source),
        )
        for source in scope.touched
        if has_clients(source)
    )


def _observed(scope: Scope, source: TraceSource) -> DataFrame:
    rows = observations(_by_line(scope, source), source)
    if source.dataset in scope.whole or scope.clients is None:
        return rows
    return scope.of_changed_clients(rows.withColumn("dataset", F.lit(source.dataset)))


def _by_line(scope: Scope, source: TraceSource) -> DataFrame:
    """Bronze rows whose positions can be compared across the files of a dataset."""
    rows = scope.new(table_of(source.format))
    shifts = scope.line_shifts.get(source.dataset)
    if not shifts:
        return rows
    known = scope.spark.createDataFrame(
        shifts, "shifted_file string, shifted_split bigint, line_shift bigint"
    )
    is_mine = (F.col("file") == F.col("shifted_file")) & (
        F.shiftright("position", ORDINAL_BITS) == F.col("shifted_split")
    )
    line = F.col("position") + F.coalesce("line_shift", F.lit(0))
    return rows.join(F.broadcast(known), is_mine, "left").withColumn("position", line).drop(*known.columns)


def _recorded(transform: Callable[[DataFrame], DataFrame]) -> Callable[[Scope], DataFrame]:
    def query(scope: Scope) -> DataFrame:
        rows = (
            scope.new(table_of("records")) if s.dataset in scope.whole else scope.came(s)
            for s in scope.touched
            if s.format == "records"
        )
        return union(
            transform(r.where(is_good() & F.col("dataset").isin(*scope.whole, *scope.partly))) for r in rows
        )

    return query


def rules_of(source: TraceSource) -> Rules:
    return source.rules()


def good_rows(rows: DataFrame, source: TraceSource) -> DataFrame:
    """The rows of one dataset that were understood."""
    return rows.where((F.col("dataset") == source.dataset) & is_good())


def observations(rows: DataFrame, source: TraceSource) -> DataFrame:
    """Bronze rows -> observations of one dataset."""
    trace_format, good = source.trace_format(), good_rows(rows, source)
    assert trace_format.observe is not None, f"{source.format} knows no clients"
    if trace_format.client_in_name:
        # The name is made once for each file: made for each row, it would cost more than the rest of the row.
        names = good.select("file").distinct().withColumn("name", known_name())
        good = good.join(F.broadcast(names), "file").withColumn("file", F.col("name"))
    return trace_format.observe(good, rules_of(source))


def holes(rows: DataFrame, source: TraceSource) -> silver.Holes:
    """When nobody of a dataset was observed, from its bronze rows; none where its rules know no holes."""
    return silver.known_holes(observations(rows, source).select("time"), rules_of(source).hole_s)


def changed_clients(scope: Scope) -> DataFrame | None:
    """The clients of datasets that changed in part of whom rows came or left."""
    frames = []
    for source in scope.touched:
        if source.dataset in scope.partly and has_clients(source):
            rows = [scope.came(source), scope.left(source)]
            frames += [
                observations(part, source).select(F.lit(source.dataset).alias("dataset"), "client")
                for part in rows
                if part is not None
            ]
    return union(frames).distinct() if frames else None
