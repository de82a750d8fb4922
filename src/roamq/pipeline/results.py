"""Small answers out of a campaign's tables: plain rows for claims, summaries and reports.

These are the only places where rows leave Spark for Python, and all of them are aggregates: their size grows
with the number of experiments, not with the number of records.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roamq.pipeline.campaign import Campaign
from roamq.pipeline.schemas import METRICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Transform = Callable[["DataFrame", "DataFrame"], "DataFrame"]


class Measured(NamedTuple):
    """One row of `schemas.SUMMARY`: a metric's mean over seeds with its 95% confidence interval."""

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


class RunRow(NamedTuple):
    """What became of a run."""

    scenario: str
    scheme: str
    seed: int
    status: str
    error: str | None
    replay: str
    wall_s: float
    records: int


class PerRun(NamedTuple):
    """One row of `schemas.METRICS`: a metric of one run."""

    run_id: str
    scenario: str
    scheme: str
    params: dict[str, str]
    seed: int
    metric: str
    entity: str
    value: float


def measured(campaign: Campaign, names: Iterable[str] | None = None) -> list[Measured]:
    """The named metrics, or all, over the seeds of a campaign; sorted, so that equal campaigns print equally."""
    from roamq.pipeline.metrics import NAMES, metrics_of

    return _over_seeds(metrics_of(campaign.records, campaign.runs, NAMES if names is None else names))


def per_run(campaign: Campaign, names: Iterable[str]) -> list[PerRun]:
    """The named metrics of every run."""
    from roamq.pipeline.metrics import metrics_of

    return [PerRun(*row) for row in metrics_of(campaign.records, campaign.runs, names).collect()]


def over_seeds(spark: "SparkSession", rows: Sequence[PerRun]) -> list[Measured]:
    """What `measured` gives for the runs that these rows are of."""
    return _over_seeds(spark.createDataFrame(rows, schema=METRICS)) if rows else []


def _over_seeds(metrics: "DataFrame") -> list[Measured]:
    from roamq.pipeline.metrics import summary

    found = [Measured(*row) for row in summary(metrics).collect()]
    return sorted(found, key=lambda m: (m.scenario, m.scheme, sorted(m.params.items()), m.metric, m.entity))


def run_rows(campaign: Campaign) -> list[RunRow]:
    """Every run's fate, in order of scheme and seed."""
    rows = campaign.runs.select(*RunRow._fields).orderBy("scenario", "scheme", "seed").collect()
    return [RunRow(*row) for row in rows]


def rows_of(campaign: Campaign, transform: Transform) -> list[dict[str, Any]]:
    """The rows of `transform(records, runs)`, which must be an aggregate."""
    return [row.asDict(recursive=True) for row in transform(campaign.records, campaign.runs).collect()]
