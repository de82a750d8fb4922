"""The scorecard: the runs of all requested claims in one campaign, then one verdict per claim."""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roamq.pipeline.campaign import Campaign, Progress, read_campaign, run_campaign
from roamq.pipeline.client_histories import RecordedRun, read_runs
from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Transform, over_seeds, per_run, rows_of, run_rows, trouble_line
from roamq.pipeline.schemas import MetricRow, RunRow, SummaryRow
from roamq.report.exhibits import Section
from roamq.report.page import Page, ScoreRow
from roamq.reproduce.registry import Claim, Outcome, Verdict

if TYPE_CHECKING:
    from roamq.pipeline.session import SparkSession

NO_CHECK = "no check is implemented yet"
TOO_LONG = "takes too long for --quick, which leaves its runs out"
FEWER = "quick runs are fewer and smaller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A claim with its outcome."""

    claim: Claim
    outcome: Outcome
    seconds: float = 0.0

    def row(self) -> ScoreRow:
        published, outcome = self.claim.published, self.outcome
        return ScoreRow(
            claim=published.id,
            title=published.title,
            published=published.value,
            ours=outcome.ours,
            verdict=str(outcome.verdict),
            why=outcome.why,
            command=self.claim.command,
        )


class CampaignEvidence:
    """Evidence from the runs in a folder; `evidence.Evidence` documents the methods.

    Claims of one paper look at the same runs by the same metrics. A metric is therefore computed once for all runs of a
    scenario, when the first claim asks for it: a query takes longer to begin than to read a few more runs.
    """

    def __init__(
        self,
        spark: "SparkSession | None",
        folder: Path,
        jobs: Sequence[Job] = (),
        *,
        quick: bool,
        beyond: bool = False,
        recordings: Path | None = None,
    ) -> None:
        self.quick = quick
        self.beyond = beyond
        self.recordings = recordings
        self._spark = spark
        self._folder = folder
        self._declared = {job.run_id: job for job in jobs}
        self._known: dict[tuple[str, str], list[MetricRow]] = {}
        """Scenario and metric -> its value in every run."""

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[SummaryRow]:
        from roamq.pipeline.metrics import NAMES

        found = self.per_seed(jobs, NAMES if metrics is None else metrics)
        assert self._spark is not None
        return over_seeds(self._spark, found)

    def per_seed(self, jobs: Iterable[Job], metrics: Sequence[str]) -> list[MetricRow]:
        wanted = {job.run_id: job for job in jobs}
        assert wanted.keys() <= self._declared.keys(), (
            "a claim declares the runs it looks at: @claim(..., jobs=...)"
        )
        scenarios = sorted({job.scenario for job in wanted.values()})
        self._look_up(scenarios, metrics)
        return [
            row
            for scenario in scenarios
            for name in metrics
            for row in self._known[scenario, name]
            if row.run_id in wanted
        ]

    def _look_up(self, scenarios: Sequence[str], names: Sequence[str]) -> None:
        """Compute what is not known yet, for all runs of these scenarios."""
        from roamq.pipeline.metrics import beside

        missing = [s for s in scenarios if any((s, name) not in self._known for name in names)]
        if not missing:
            return
        together = beside(names)
        found: dict[tuple[str, str], list[MetricRow]] = {(s, name): [] for s in missing for name in together}
        for row in per_run(
            self._campaign(j for j in self._declared.values() if j.scenario in missing), together
        ):
            found[row.scenario, row.metric].append(row)
        self._known.update(found)  # at once, and complete: another thread may be looking

    def rows(self, transform: Transform, jobs: Iterable[Job]) -> list[dict[str, Any]]:
        return rows_of(self._campaign(jobs), transform)

    def recorded(self, jobs: Iterable[Job]) -> list[RecordedRun]:
        return list(read_runs(self._folder, {job.run_id for job in jobs}))

    def _campaign(self, jobs: Iterable[Job]) -> Campaign:
        assert self._spark is not None, "a claim that looks at runs declares them: @claim(..., jobs=...)"
        return read_campaign(self._spark, self._folder, [job.run_id for job in jobs])


def score(
    claims: Sequence[Claim],
    folder: Path,
    *,
    quick: bool,
    beyond: bool = False,
    session: Callable[[], AbstractContextManager["SparkSession"]],
    progress: Progress | None = None,
    phase: Callable[[str], None] = lambda text: None,
    recordings: Path | None = None,
) -> tuple[list[Scored], list[RunRow]]:
    """Check every claim. Spark starts only if a claim needs runs; all their runs are one campaign in `folder`.

    With `beyond`, the runs that the papers did not make are among them. `recordings` is a folder of recorded
    connectivity, for the claim that needs one. `phase` is told what begins: `progress` counts runs, which is only a
    part of the work.

    Returns the verdicts in the order of `claims`, and the runs that failed or broke an invariant.
    """
    due = [claim for claim in claims if claim.check is not None and (claim.quick or not quick)]
    jobs = [job for claim in due if claim.jobs is not None for job in claim.jobs(quick)]
    if beyond:
        jobs += [job for claim in due if claim.beyond is not None for job in claim.beyond()]
    results: list[Scored] = []
    with contextlib.ExitStack() as stack:
        # Claims that look at no run need not wait for them.
        models = _workers(stack, 1)
        without_runs = CampaignEvidence(None, folder, quick=quick, recordings=recordings)
        awaited = {c.id: models.submit(_check, c, without_runs) for c in claims if c.jobs is None}
        phase("starting Spark" if jobs else "computing")
        spark = stack.enter_context(session()) if jobs else None
        if jobs:
            phase("simulating")
        campaign = run_campaign(spark, jobs, folder, progress=progress) if spark is not None else None
        if jobs:
            phase("judging")
        # A query keeps one core busy for most of its time: the papers are checked two at a time.
        evidence = CampaignEvidence(spark, folder, jobs, quick=quick, beyond=beyond)
        papers = _workers(stack, 2)
        for paper in dict.fromkeys(claim.paper for claim in claims):
            awaited |= _one_by_one(papers, [c for c in claims if c.paper == paper and c.jobs], evidence)
        results += [awaited[claim.id].result() for claim in claims]
        troubled = [row for row in run_rows(campaign) if row.status != "ok"] if campaign is not None else []
    return results, troubled


def _workers(stack: contextlib.ExitStack, count: int) -> ThreadPoolExecutor:
    """Threads that are not waited for when something else fails."""
    pool = ThreadPoolExecutor(max_workers=count)
    stack.callback(pool.shutdown, wait=False, cancel_futures=True)
    return pool


def _one_by_one(
    pool: ThreadPoolExecutor, claims: Sequence[Claim], evidence: CampaignEvidence
) -> dict[str, Future[Scored]]:
    """Check these claims in one thread, in order: they look at the same runs, and what one computes serves the next."""
    awaited: dict[str, Future[Scored]] = {claim.id: Future() for claim in claims}

    def check_all() -> None:
        for claim in claims:
            try:
                awaited[claim.id].set_result(_check(claim, evidence))
            except BaseException as error:  # the waiting thread must see it
                awaited[claim.id].set_exception(error)

    pool.submit(check_all)
    return awaited


def _check(claim: Claim, evidence: CampaignEvidence) -> Scored:
    if claim.check is None:
        return Scored(claim=claim, outcome=Outcome(verdict=Verdict.NOT_RUN, why=NO_CHECK))
    if evidence.quick and not claim.quick:
        return Scored(claim=claim, outcome=Outcome(verdict=Verdict.UNDECIDED, why=TOO_LONG))
    began = time.perf_counter()
    try:
        outcome = claim.check(evidence)
        if evidence.quick and claim.jobs is not None:
            outcome = undecided_by_fewer(outcome)
    except Exception as error:
        # One broken check must not hide the verdicts of the others; the exit code reports it.
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        outcome = Outcome(verdict=Verdict.ERROR, why=f"{type(error).__name__}: {error} ({place})")
    return Scored(claim=claim, outcome=outcome, seconds=time.perf_counter() - began)


def undecided_by_fewer(outcome: Outcome) -> Outcome:
    """What quick runs say is no verdict: they have smaller populations or fewer of the settings that the paper has, so
    that the full ones may say otherwise. Their reason tells what they say."""
    if outcome.verdict not in (Verdict.REPRODUCED, Verdict.DEPENDS, Verdict.DIFFERS):
        return outcome
    why = f"{FEWER}: they say {outcome.verdict}"
    return replace(outcome, verdict=Verdict.UNDECIDED, why="; ".join(filter(None, [why, outcome.why])))


def page_of(results: Sequence[Scored], troubled: Sequence[RunRow], *, command: str, quick: bool) -> Page:
    """The report of a scorecard: every claim that shows something is a section."""
    counts = {verdict: sum(r.outcome.verdict is verdict for r in results) for verdict in Verdict}
    size = "the quick subset: fewer seeds and smaller populations" if quick else "the full experiments"
    return Page(
        title="The papers' claims, rerun",
        lead=f"Every published claim beside what this code measured, with {size}. A claim is reproduced if every "
        "sentence of it holds, by intervals over paired seeds, for every setting that the paper allows; it depends if "
        "they hold together for some of these; it is undecided where the intervals do not tell.",
        command=command,
        facts=[(str(verdict), str(count)) for verdict, count in counts.items() if count],
        scorecard=[result.row() for result in results],
        sections=[
            Section(
                title=f"{r.claim.id}: {r.claim.published.title}",
                claim=r.claim.id,
                command=r.claim.command + (" --quick" if quick else ""),
                figures=r.outcome.figures,
                tables=r.outcome.tables,
                films=r.outcome.films,
            )
            for r in results
            if r.outcome.figures or r.outcome.tables or r.outcome.films
        ],
        warnings=[trouble_line(row) for row in troubled],
    )
