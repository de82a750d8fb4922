"""Runs a campaign, measures it, and leaves a report in its folder: what `simulate` and `demo` share."""

import contextlib
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roamq.cli.progress import Reporting
from roamq.models.tariff import Tariff
from roamq.pipeline.campaign import run_campaign
from roamq.pipeline.jobs import Job
from roamq.pipeline.results import priced_summary_rows, rows_of, run_rows, trouble_line
from roamq.pipeline.schemas import RunRow, SummaryRow
from roamq.pipeline.session import SparkSettings, open_session
from roamq.report.page import write_page
from roamq.report.simulation import simulation_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A campaign that was made and measured."""

    numbers: list[SummaryRow]
    runs: list[RunRow]
    made: int
    troubles: list[str]
    """One line per run that failed or broke an invariant, with its replay command."""
    tariff: Tariff
    """The tariff by which the metric `price` was computed."""

    def as_json(self) -> dict[str, Any]:
        return {
            "summary": [row._asdict() for row in self.numbers],
            "tariff": self.tariff.rates,
            "runs": [row._asdict() for row in self.runs],
            "troubles": self.troubles,
        }


def simulate_and_report(
    jobs: Sequence[Job],
    out: Path,
    settings: SparkSettings,
    *,
    command: str,
    progress: AbstractContextManager[Reporting],
    title: str | None = None,
    swept: Sequence[str] = (),
    tariff: Tariff | None = None,
) -> Finished:
    """Makes the runs that `out` does not hold, writes `summary.json`, `summary.csv` and `report.json` there, and
    returns the numbers. `swept` are parameters that differ between runs: schemes are shown with their values. Runs that
    sample their buffers have a price, by the `tariff`."""
    from roamq.pipeline.metrics import waiting_distribution
    from roamq.pipeline.sweep import as_frame, label

    tariff = tariff or Tariff()
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(progress)
        report.phase("starting Spark")
        spark = stack.enter_context(open_session(settings))
        report.phase("simulating")
        campaign = run_campaign(spark, jobs, out / "campaign", progress=report)
        report.phase("measuring")
        numbers, runs = priced_summary_rows(campaign, tariff), run_rows(campaign)
        distribution = rows_of(campaign, waiting_distribution)
    out.mkdir(parents=True, exist_ok=True)
    as_frame(numbers).to_csv(out / "summary.csv", index=False)
    if swept:
        numbers = [row._replace(scheme=label(row.scheme, row.params, swept)) for row in numbers]
        distribution = [{**row, "scheme": label(row["scheme"], row["params"], swept)} for row in distribution]
    troubles = [trouble_line(row) for row in runs if row.status != "ok"]
    finished = Finished(numbers=numbers, runs=runs, made=campaign.made, troubles=troubles, tariff=tariff)
    (out / "summary.json").write_text(json.dumps(finished.as_json(), indent=1))
    page = simulation_page(numbers, runs, distribution, title=title, command=command, warnings=troubles)
    write_page(page, out)
    return finished
