"""Small answers out of a campaign's tables: plain rows for claims, summaries and reports.

These are the only places where rows leave Spark for Python, and all of them are aggregates: their size grows
with the number of experiments, not with the number of records.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from roamq.models.tariff import Tariff
from roamq.pipeline.campaign import Campaign
from roamq.pipeline.schemas import METRICS, MetricRow, RunRow, SummaryRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Transform = Callable[["DataFrame", "DataFrame"], "DataFrame"]


def summary_rows(campaign: Campaign, names: Iterable[str] | None = None) -> list[SummaryRow]:
    """The named metrics, or all, over the seeds of a campaign; sorted, so that equal campaigns print the same."""
    from roamq.pipeline.metrics import NAMES

    return over_seeds(campaign.records.sparkSession, per_run(campaign, NAMES if names is None else names))


def priced_summary_rows(campaign: Campaign, tariff: Tariff) -> list[SummaryRow]:
    """All metrics over the seeds of a campaign, and the price by the tariff of runs that have what it is made of."""
    from roamq.pipeline.metrics import NAMES

    spark = campaign.records.sparkSession
    return over_seeds(spark, with_prices(spark, per_run(campaign, NAMES), tariff))


def per_run(campaign: Campaign, names: Iterable[str]) -> list[MetricRow]:
    """The named metrics of every run.

    Each group of metrics is a query of its own: Spark plans and compiles one query for all of them for longer than it
    takes to compute them one after the other.
    """
    from roamq.pipeline.metrics import GROUPS, metrics_of

    wanted = set(names)
    together = [wanted.intersection(made) for made in GROUPS.values()]
    return [
        MetricRow(*row)
        for group in together
        if group
        for row in metrics_of(campaign.records, campaign.runs, group).collect()
    ]


def with_prices(spark: "SparkSession", rows: Sequence[MetricRow], tariff: Tariff) -> list[MetricRow]:
    """The metrics of single runs, and the price of each by the tariff."""
    from roamq.pipeline.price import priced

    found = priced(spark.createDataFrame(rows, schema=METRICS), tariff).collect() if rows else []
    return [*rows, *(MetricRow(*row) for row in found)]


def over_seeds(spark: "SparkSession", rows: Sequence[MetricRow]) -> list[SummaryRow]:
    """The same as `summary_rows`, from the metrics of single runs."""
    return _over_seeds(spark.createDataFrame(rows, schema=METRICS)) if rows else []


def _over_seeds(metrics: "DataFrame") -> list[SummaryRow]:
    from roamq.pipeline.metrics import summary

    found = [SummaryRow(*row) for row in summary(metrics).collect()]
    return sorted(found, key=lambda m: (m.scenario, m.scheme, sorted(m.params.items()), m.metric, m.entity))


def run_rows(campaign: Campaign) -> list[RunRow]:
    """What became of every run, in order of scheme and seed."""
    rows = campaign.runs.select(*RunRow._fields).orderBy("scenario", "scheme", "seed").collect()
    return [RunRow(*row) for row in rows]


def rows_of(campaign: Campaign, transform: Transform) -> list[dict[str, Any]]:
    """The rows of `transform(records, runs)`, which must be an aggregate."""
    return [row.asDict(recursive=True) for row in transform(campaign.records, campaign.runs).collect()]


def trouble_line(row: RunRow) -> str:
    """A run that failed or broke an invariant: what, where, and how to see it again."""
    return f"{row.scenario}/{row.scheme} seed {row.seed} {row.status}: {row.error} (replay: {row.replay})"
