"""`roamq demo`: the tour in about two minutes, on any machine."""

import json
import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roamq.cli.options import json_option, out_option, spark_options, spark_settings
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress

if TYPE_CHECKING:
    from roamq.pipeline.jobs import Job

SCENARIO = "testbed"
SEEDS = range(1, 4)
SHOWN_FIRST = ("standard", "proactive", "prefetching", "home-broker")
"""Of the schemes there are, these tell the story; the tour takes as many as fit its time."""
SCHEMES_MAX = 4
LIVE = {
    "clients": "18",
    "duration_s": "20",
    "drain_s": "20",
    "warmup_s": "0",
    "mobility.connect_s": "4",
    "mobility.disconnect_s": "0.8",
    "mobility.handoff_s": "0.4",
    "workload.begin_s": "3",
    "faults": '[{ at_s = 9.0, kind = "crash", target = "b3", duration_s = 1.0 }]',
}
"""The live part: real broker processes, clients in a hurry, and a broker that is killed on the way."""


@click.command()
@out_option("demo-out")
@click.option("--open/--no-open", "open_page", default=None, help="Open the report in a browser.")
@spark_options
@json_option
def command(out: Path, open_page: bool | None, master: str, remote: str | None, as_json: bool) -> None:
    """The tour: clients that roam between six brokers, live and simulated, measured on Spark, reported.

    Bounded to about two minutes. A browser opens only on a desktop, from a terminal.

    \b
    Example:
      roamq demo --out demo-out
    """
    from roamq.cli.campaigns import simulate_and_report
    from roamq.cli.report import write_report
    from roamq.cli.simulate import KEY_METRICS, jobs_of, key_numbers

    schemes = tour_schemes()
    _say(as_json, "1/3 six live brokers with clients that roam, one of the brokers killed on the way;")
    _say(
        as_json,
        f"    and simulating {SCENARIO} under {', '.join(schemes)}, {len(SEEDS)} seeds each, on Spark",
    )
    jobs = [live_job(), *jobs_of(SCENARIO, schemes, SEEDS, {"records.buffer_s": "5"})]
    finished = simulate_and_report(
        jobs,
        out,
        spark_settings(master, remote),
        command="roamq demo",
        progress=progress("simulating"),
        title="Clients that roam between six brokers",
    )
    records = sum(run.records for run in finished.runs)
    _say(as_json, f"2/3 measured {len(finished.runs)} runs from their {records:,} records")
    path = write_report(out)
    _say(as_json, "3/3 wrote the report\n")
    if as_json:
        print_json({"report": str(path), **finished.as_json()})
    else:
        print_table(*key_numbers(finished.measured), numeric=[*KEY_METRICS.values(), "runs"])
        click.echo(f"report: {path.resolve()}")
    for line in finished.troubles:
        click.echo(line, err=True)
    if open_page if open_page is not None else _on_a_desktop():
        webbrowser.open(path.resolve().as_uri())
    raise SystemExit(1 if finished.troubles else 0)


def tour_schemes() -> list[str]:
    """A few of the schemes there are, the best known first."""
    from roamq.schemes import scheme_names

    names = scheme_names()
    known = [name for name in SHOWN_FIRST if name in names]
    return (known + [name for name in names if name not in known])[:SCHEMES_MAX]


def live_job() -> "Job":
    """Real brokers under the same roof: a run like the others, but on sockets and in real time."""
    from roamq.pipeline.jobs import Job
    from roamq.sim.scenario import load_scenario

    scenario = load_scenario(SCENARIO, scheme="proactive", overrides=LIVE)
    return Job(
        scenario=SCENARIO,
        scheme="proactive, live brokers",
        seed=1,
        payload=json.loads(scenario.to_json()),
        runner="roamq.fieldtest.run:run_job",
        cost=100.0,
        replay="roamq bench roaming --quick",
    )


def _on_a_desktop() -> bool:
    graphical = (
        sys.platform in ("darwin", "win32") or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    )
    return graphical and sys.stdout.isatty() and "CI" not in os.environ


def _say(as_json: bool, text: str) -> None:
    click.echo(text, err=as_json)
