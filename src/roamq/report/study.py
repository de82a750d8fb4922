"""The report of a study: the advice, the ranking, what the traces taught, and the simulation behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from roamq.models.tariff import UNITS, Tariff
from roamq.pipeline.schemas import MetricRow, RunRow, SummaryRow
from roamq.report.exhibits import Section, Table
from roamq.report.page import Page
from roamq.report.ranking import advice, front_figures, rank_schemes, ranking_table, short_table
from roamq.report.simulation import simulation_page
from roamq.report.trace_charts import trace_section


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    """The answer in words and as a table, and the page that shows all that is behind it."""

    advice: str
    ranking: Table
    """With intervals, as the page shows it."""
    short: Table
    """The means alone, for a terminal."""
    page: Page


def report_study(
    dataset: str,
    metrics: Sequence[MetricRow],
    numbers: Sequence[SummaryRow],
    runs: Sequence[RunRow],
    waits: Sequence[Mapping[str, Any]],
    learned: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    tariff: Tariff,
    network: str,
    command: str,
    warnings: Sequence[str] = (),
) -> StudyReport:
    """Rank the schemes by their price, and put the answer in front of the page of the simulation."""
    ranked = rank_schemes(metrics)
    said, ranking = advice(ranked, tariff), ranking_table(ranked)
    simulated = simulation_page(numbers, runs, waits, title=None, command=command, warnings=warnings)
    rates = ", ".join(f"{UNITS[name]} costs {rate:g}" for name, rate in tariff.rates.items())
    answer = Section(
        title="Which scheme to use",
        text=f"Simulated: {network}. By the tariff {rates}.",
        tables=[ranking],
        figures=front_figures(ranked),
    )
    page = replace(
        simulated,
        title=f"Study of {dataset}",
        lead=said,
        sections=[answer, trace_section(dataset, learned), *simulated.sections],
    )
    return StudyReport(advice=said, ranking=ranking, short=short_table(ranked), page=page)
