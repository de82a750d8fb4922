"""`roamq reproduce`: the scorecard of the papers' claims."""

import time
from pathlib import Path
from typing import Any

import click

from roamq.cli.options import (
    command_line,
    json_option,
    out_option,
    results_folder,
    spark_options,
    spark_settings,
)
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress

STYLES = {
    "reproduced": "green",
    "depends": "cyan",
    "differs": "yellow",
    "undecided": "magenta",
    "not run": "dim",
    "error": "bold red",
}


@click.command()
@click.argument("claims", nargs=-1)
@click.option(
    "--quick",
    is_flag=True,
    help="Fewer seeds and smaller populations: minutes, not hours. Claims that need runs stay undecided.",
)
@click.option(
    "--paper-only",
    is_flag=True,
    help="Skip what goes beyond the papers: larger networks, and runs that explain differences.",
)
@click.option(
    "--recordings",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Recorded connectivity for TIME-F12-recorded (docs/traces.md), which is not part of the repository.",
)
@click.option("--list", "list_claims", is_flag=True, help="List the claims without checking them.")
@out_option("reproduce-out")
@spark_options
@json_option
def command(
    claims: tuple[str, ...],
    quick: bool,
    paper_only: bool,
    recordings: Path | None,
    list_claims: bool,
    out: Path,
    master: str,
    remote: str | None,
    as_json: bool,
) -> None:
    """Rerun the papers' experiments; print each claim with the published value, ours, the verdict and the reason.

    CLAIMS are ids (PRO-T2) or papers (DIS); without any, all claims are checked. Existing runs in the output folder
    are reused.

    \b
    Examples:
      roamq reproduce --quick
      roamq reproduce DIS --paper-only
      roamq reproduce PRO-T2 PRO-T3 --json
    """
    from roamq.pipeline.results import trouble_line
    from roamq.pipeline.session import QUICK_TO_COMPILE, QUICK_TO_PLAN, open_session
    from roamq.report.page import write_page
    from roamq.reproduce.registry import Verdict, select
    from roamq.reproduce.scorecard import page_of, score
    from roamq.reproduce.time_recorded import recordings_in

    if recordings is not None:
        recordings_in(recordings)
    began = time.monotonic()
    chosen = select(claims)
    if list_claims:
        listed = [(c.id, c.published.title, c.published.value, "yes" if c.check else "no") for c in chosen]
        columns = ["claim", "title", "published", "checked"]
        if as_json:
            print_json([dict(zip(columns, row, strict=True)) for row in listed])
        else:
            print_table(columns, listed)
        return
    results_folder(out)
    brief: dict[str, Any] = {"java_options": QUICK_TO_COMPILE, "config": QUICK_TO_PLAN} if quick else {}
    settings = spark_settings(master, remote, **brief)
    with progress("simulating") as report:
        results, troubled = score(
            chosen,
            out / "campaign",
            quick=quick,
            beyond=not (quick or paper_only),
            session=lambda: open_session(settings),
            progress=report,
            phase=report.phase,
            recordings=recordings,
        )
    write_page(page_of(results, troubled, command=command_line(), quick=quick), out)
    rows = [result.row() for result in results]
    if as_json:
        from dataclasses import asdict

        print_json([{**asdict(row), "seconds": r.seconds} for row, r in zip(rows, results, strict=True)])
    else:
        cells = [(row.claim, row.published, row.ours, row.verdict, row.why) for row in rows]
        print_table(["claim", "published", "ours", "verdict", "why"], cells, styles=STYLES)
        counts = {v: sum(r.outcome.verdict is v for r in results) for v in Verdict}
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        minutes, seconds = divmod(round(time.monotonic() - began), 60)
        click.echo(f"{told}, in {minutes} min {seconds} s; next: roamq report {out}")
    for row in troubled:
        click.echo(trouble_line(row), err=True)
    raise SystemExit(1 if any(r.outcome.verdict is Verdict.ERROR for r in results) else 0)
