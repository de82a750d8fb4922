"""Bronze: one table per format, to which the batches of its datasets are appended, and the quarantine over all."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.books import TraceSource
from roamq.pipeline.conform import conform
from roamq.pipeline.definitions.table import Scope, TableQuery
from roamq.pipeline.landing import DIGEST_LENGTH, LANDING
from roamq.pipeline.schemas import BRONZE, QUARANTINE
from roamq.pipeline.traces.base import TraceFormat, line_numbers
from roamq.pipeline.warehouse import contract_of

FILES_LISTED_MAX = 1000
"""So many changed files are named in a query; with more, all of their dataset are looked at."""


def table_of(trace_format: str) -> str:
    return f"{BRONZE}{trace_format}"


def derived(sources: Sequence[TraceSource]) -> list[TableQuery]:
    formats = sorted({source.format for source in sources})
    return [
        TableQuery(
            "quarantine",
            tuple(map(table_of, formats)),
            quarantine,
            idle=lambda scope: scope.faultless,
            changed=changed_files,
        )
    ]


def bronze_rows(lines: DataFrame, trace_format: TraceFormat, dataset: str) -> DataFrame:
    """Numbered lines -> rows of the format's bronze table."""
    rows = trace_format.parse(lines).withColumn("dataset", F.lit(dataset))
    return conform(rows, contract_of(table_of(trace_format.name)))


def known_name(url: Column | str = "file") -> Column:
    """The name that a file had before it landed under its digest: people know their files by it.

    Bronze keeps the path as it is: a name made for every row would cost as much as reading the row, and few ask for it.
    """
    # `url_decode` is for forms, where a plus sign is a blank.
    plain = F.url_decode(F.replace(url, F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(plain, rf"^.*/{LANDING}/[^/]+/[^/]+/[0-9a-f]{{{DIGEST_LENGTH}}}-", "")


def _listed(scope: Scope) -> dict[str, list[str]]:
    """The changed files of datasets that changed in part, where they are few."""
    return {
        name: urls
        for name, urls in scope.urls.items()
        if name in scope.partly and len(urls) <= FILES_LISTED_MAX
    }


def changed_files(scope: Scope) -> Column | None:
    """The files, by the names that people know, whose lines are looked at again."""
    listed = _listed(scope)
    if len(listed) < len(scope.partly):
        return None
    is_changed = F.lit(False)
    for dataset, urls in listed.items():
        names = [known_name(F.lit(url)) for url in urls]
        is_changed = is_changed | ((F.col("dataset") == dataset) & F.col("file").isin(*names))
    return is_changed


def quarantine(scope: Scope) -> DataFrame:
    """The malformed lines of all formats, in changed datasets."""
    listed = _listed(scope) if len(_listed(scope)) == len(scope.partly) else {}
    everything = [*scope.whole, *(scope.partly - set(listed))]
    parts = []
    for name in sorted({source.format for source in scope.touched}):
        of_format = {source.dataset for source in scope.touched if source.format == name}
        is_looked_at = F.col("dataset").isin(*(set(everything) & of_format))
        for dataset in of_format & set(listed):
            is_looked_at = is_looked_at | (
                (F.col("dataset") == dataset) & F.col("file").isin(*listed[dataset])
            )
        rows = scope.new(table_of(name)).where(is_looked_at)
        refused = line_numbers(rows.select("dataset", "file", "position", "raw", "reason"))
        parts.append(refused.withColumns({"format": F.lit(name), "file": known_name()}))
    return conform(reduce(DataFrame.unionByName, parts), QUARANTINE)
