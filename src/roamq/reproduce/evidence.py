"""What a claim may look at: the runs of a campaign. `ScriptedEvidence` stands in for them in tests.

`scorecard.CampaignEvidence` is the real one: it asks the records of the runs on Spark.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Transform
from roamq.pipeline.schemas import MetricRow, SummaryRow

if TYPE_CHECKING:
    from roamq.pipeline.client_histories import RecordedRun


class Evidence(Protocol):
    """What a claim may look at. The runs were made before the claim is asked."""

    quick: bool
    beyond: bool
    """Whether the runs that go beyond the paper were made."""
    recordings: Path | None
    """Recorded connectivity, which is not part of the repository; None if nobody gave it."""

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[SummaryRow]:
        """These runs' metrics over their seeds; all of them, or those named (`roamq.pipeline.metrics`)."""
        ...

    def per_seed(self, jobs: Iterable[Job], metrics: Sequence[str]) -> list[MetricRow]:
        """The named metrics of every run: what sentences are judged by."""
        ...

    def rows(self, transform: Transform, jobs: Iterable[Job]) -> list[dict[str, Any]]:
        """The few rows of `transform(records, runs)`, a DataFrame -> DataFrame function of the pipeline."""
        ...

    def recorded(self, jobs: Iterable[Job]) -> "list[RecordedRun]":
        """These runs as their clients saw them: what models are calibrated with."""
        ...


Value = Callable[[Job, str], float | Mapping[str, float]]
"""`value(job, metric)` is what a run measured: one number for `all`, or a number for each entity."""

Rows = Callable[[Transform, Sequence[Job]], list[dict[str, Any]]]
"""`rows(transform, jobs)` is what a query over these runs returned."""


class ScriptedEvidence:
    """Evidence without runs: two functions say what the runs would have given.

    A claim that asks for something nobody scripted fails: it should not have looked.
    """

    def __init__(
        self,
        value: Value | None = None,
        rows: Rows | None = None,
        recorded: "Callable[[Job], RecordedRun] | None" = None,
        *,
        interval: float | None = 0.0,
        quick: bool = False,
        beyond: bool = False,
        recordings: Path | None = None,
    ) -> None:
        """`interval`: half of the confidence interval, as a share of the mean; None leaves the interval open."""
        self.quick = quick
        self.beyond = beyond
        self.recordings = recordings
        self.asked: list[Job] = []
        """The runs that a claim looked at."""
        self._value = value
        self._rows = rows
        self._recorded = recorded
        self._interval = interval

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[SummaryRow]:
        assert self._value is not None, "the claim asks for a summary, which nobody scripted"
        assert metrics is not None, "a claim names the metrics it looks at"
        seeds: dict[tuple[str, str, tuple[tuple[str, str], ...], str, str], list[float]] = {}
        for job in self._noted(jobs):
            for metric in metrics:
                value = self._value(job, metric)
                by_entity = value if isinstance(value, Mapping) else {"all": value}
                for entity, number in by_entity.items():
                    params = tuple(sorted(job.params.items()))
                    seeds.setdefault((job.scenario, job.scheme, params, metric, entity), []).append(number)
        return [
            self._row(scenario, scheme, dict(params), metric, entity, numbers)
            for (scenario, scheme, params, metric, entity), numbers in seeds.items()
        ]

    def per_seed(self, jobs: Iterable[Job], metrics: Sequence[str]) -> list[MetricRow]:
        assert self._value is not None, "the claim asks for metrics, which nobody scripted"
        found = []
        for job in self._noted(jobs):
            for metric in metrics:
                value = self._value(job, metric)
                for entity, number in (value if isinstance(value, Mapping) else {"all": value}).items():
                    params = dict(job.params)
                    found.append(
                        MetricRow(
                            job.run_id, job.scenario, job.scheme, params, job.seed, metric, entity, number
                        )
                    )
        return found

    def rows(self, transform: Transform, jobs: Iterable[Job]) -> list[dict[str, Any]]:
        assert self._rows is not None, "the claim asks for rows, which nobody scripted"
        return self._rows(transform, self._noted(jobs))

    def recorded(self, jobs: Iterable[Job]) -> "list[RecordedRun]":
        assert self._recorded is not None, "the claim asks for what clients saw, which nobody scripted"
        return [self._recorded(job) for job in self._noted(jobs)]

    def _noted(self, jobs: Iterable[Job]) -> list[Job]:
        noted = list(jobs)
        assert noted, "the claim looks at no run"
        self.asked += noted
        return noted

    def _row(
        self,
        scenario: str,
        scheme: str,
        params: dict[str, str],
        metric: str,
        entity: str,
        numbers: Sequence[float],
    ) -> SummaryRow:
        mean = fmean(numbers)
        low, high = (
            (None, None)
            if self._interval is None
            else (mean * (1 - self._interval), mean * (1 + self._interval))
        )
        return SummaryRow(scenario, scheme, params, metric, entity, len(numbers), mean, low, high)


class Seeds:
    """What every seed measured, looked up by scheme, metric and parameters: seed -> value."""

    def __init__(self, rows: Iterable[MetricRow]) -> None:
        self._rows: dict[tuple[str, str], list[MetricRow]] = {}
        for row in rows:
            self._rows.setdefault((row.scheme, row.metric), []).append(row)
        self._looked_up: dict[tuple[object, ...], dict[str, dict[int, float]]] = {}

    def of(self, scheme: str, metric: str, entity: str = "all", /, **where: object) -> dict[int, float]:
        """`where` are the run's parameters, with `__` for a dot, or its `scenario`; `None`: not given to the run."""
        found = self.entities(scheme, metric, **where).get(entity)
        assert found, f"no run of {scheme} with {where} measured {metric} of {entity}"
        return found

    def entities(self, scheme: str, metric: str, /, **where: object) -> dict[str, dict[int, float]]:
        """Entity -> seed -> value: brokers, kinds of traffic, bins of time."""
        key = (scheme, metric, *sorted((name, str(value)) for name, value in where.items()))
        if key not in self._looked_up:
            self._looked_up[key] = self._look_up(scheme, metric, where)
        return self._looked_up[key]

    def _look_up(self, scheme: str, metric: str, where: dict[str, object]) -> dict[str, dict[int, float]]:
        scenario = where.pop("scenario", None)
        wanted = {name.replace("__", "."): None if v is None else str(v) for name, v in where.items()}
        found: dict[str, dict[int, float]] = {}
        for row in self._rows.get((scheme, metric), ()):
            is_wanted = all(row.params.get(name) == value for name, value in wanted.items())
            if is_wanted and scenario in (None, row.scenario):
                found.setdefault(row.entity, {})[row.seed] = row.value
        return found
