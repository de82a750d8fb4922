"""Run a campaign, measure it, and leave a report in its folder: what `simulate` and `demo` have in common."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roamq.pipeline.campaign import Progress, run_campaign
from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Measured, RunRow, measured, rows_of, run_rows
from roamq.pipeline.session import SparkSettings, open_session
from roamq.report.page import write_page
from roamq.report.simulation import simulation_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A campaign with its numbers."""

    measured: list[Measured]
    runs: list[RunRow]
    made: int
    troubles: list[str]
    """One line per run that failed or broke an invariant, with its replay command."""

    def as_json(self) -> dict[str, Any]:
        return {
            "summary": [row._asdict() for row in self.measured],
            "runs": [row._asdict() for row in self.runs],
            "troubles": self.troubles,
        }


def simulate_and_report(
    jobs: Sequence[Job],
    out: Path,
    settings: SparkSettings,
    *,
    command: str,
    progress: AbstractContextManager[Progress],
    title: str | None = None,
) -> Finished:
    """Make the runs that `out` lacks, write `summary.json` and `report.json` beside them, return the numbers."""
    from roamq.pipeline.metrics import handoff_distribution

    with open_session(settings) as spark, progress as report:
        campaign = run_campaign(spark, jobs, out / "campaign", progress=report)
        numbers, runs = measured(campaign), run_rows(campaign)
        distribution = rows_of(campaign, handoff_distribution)
    troubles = [
        f"{row.scenario}/{row.scheme} seed {row.seed} {row.status}: {row.error} (replay: {row.replay})"
        for row in runs
        if row.status != "ok"
    ]
    finished = Finished(measured=numbers, runs=runs, made=campaign.made, troubles=troubles)
    out.mkdir(parents=True, exist_ok=True)
    (out / "summary.json").write_text(json.dumps(finished.as_json(), indent=1))
    page = simulation_page(numbers, runs, distribution, title=title, command=command, warnings=troubles)
    write_page(page, out)
    return finished
