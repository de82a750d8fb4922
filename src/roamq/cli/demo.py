"""`roamq demo`: the tour in about two minutes, on any machine."""

import json
import os
import sys
import threading
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roamq.cli.options import json_option, out_option, results_folder, spark_options, spark_settings
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress

if TYPE_CHECKING:
    from roamq.pipeline.jobs import Job

SCENARIO = "testbed"
SEEDS = range(1, 6)
SHOWN_FIRST = ("standard", "proactive", "prefetching", "home-broker")
"""The tour prefers these schemes, and takes as many as fit its time."""
SCHEMES_MAX = 4
SHOWN = {
    "loss_pct": "lost %",
    "duplication_pct": "dup. %",
    "waiting_delay_s_mean": "wait s",
    "latency_s_mean": "latency s",
}
EXPLAINED = """wait: from a client's reconnect to the first message that was waiting for it
latency: from publish to receipt, the time that the client was away included
model: the latency that the closed form predicts from the same run's parameters
"""
CONSOLE_S_MAX = 120.0
"""Seconds that the tour waits for its live brokers, to show their console."""
LIVE = {
    "clients": "18",
    "duration_s": "20",
    "drain_s": "20",
    "warmup_s": "0",
    "mobility.connect_s": "4",
    "mobility.disconnect_s": "0.8",
    "mobility.handoff_s": "0.4",
    "workload.begin_s": "3",
    "records.buffer_s": "5",
    "faults": '[{ at_s = 9.0, kind = "crash", target = "b3", duration_s = 1.0 }]',
}
"""Parameters of the run, live and simulated alike: clients that move often, and a broker that is killed on the way."""


@click.command()
@out_option("demo-out")
@click.option("--open/--no-open", "open_page", default=None, help="Open the report in a browser.")
@spark_options
@json_option
def command(out: Path, open_page: bool | None, master: str, remote: str | None, as_json: bool) -> None:
    """Take the tour: clients roam between six brokers and one of the brokers is killed, live and simulated.

    The live run, its simulation and the model have the same parameters and the same duration, and stand beside each
    other in the table and in the report. The tour takes about two minutes. On a desktop, from a terminal, a browser
    opens with the console of the live brokers, and in the end with the report.

    \b
    Example:
      roamq demo --out demo-out
    """
    from roamq.cli.campaigns import simulate_and_report
    from roamq.cli.model_column import BRIEFLY, add_model, model_data
    from roamq.cli.report import write_report
    from roamq.cli.simulate import key_numbers
    from roamq.pipeline.model_check import model_of_folder
    from roamq.pipeline.session import require_spark
    from roamq.pipeline.sweep import jobs_of

    require_spark()
    results_folder(out)
    schemes = tour_schemes()
    _say(as_json, "1/3 running six live brokers with clients that roam, and killing one of the brokers;")
    _say(
        as_json,
        f"    simulating {SCENARIO} under {', '.join(schemes)}, {len(SEEDS)} seeds each, on Spark",
    )
    shows_pages = open_page if open_page is not None else _on_a_desktop()
    console = (out / "console.url").resolve() if shows_pages else None
    if console is not None:
        console.parent.mkdir(parents=True, exist_ok=True)
        console.unlink(missing_ok=True)
        threading.Thread(target=_open_console, args=(console,), daemon=True).start()
    jobs = [live_job(console), *jobs_of(SCENARIO, schemes, SEEDS, [LIVE])]
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
    model = model_of_folder(out)
    path = write_report(out)
    _say(as_json, "3/3 wrote the report\n")
    if as_json:
        print_json({"report": str(path), **finished.as_json(), "model": model_data(model)})
    else:
        columns, rows = add_model(*key_numbers(finished.numbers, SHOWN), model, BRIEFLY)
        print_table(columns, rows, numeric=[*SHOWN.values(), "runs"], narrow=True)
        click.echo(EXPLAINED)
        click.echo(f"report: {path.resolve()}")
    for line in finished.troubles:
        click.echo(line, err=True)
    if shows_pages:
        webbrowser.open(path.resolve().as_uri())
    raise SystemExit(1 if finished.troubles else 0)


def tour_schemes() -> list[str]:
    """Returns a few of the registered schemes, the best known first."""
    from roamq.schemes.table import scheme_names

    names = scheme_names()
    known = [name for name in SHOWN_FIRST if name in names]
    return (known + [name for name in names if name not in known])[:SCHEMES_MAX]


def live_job(console: Path | None = None) -> "Job":
    """Returns the job of one run of the same scenario on real brokers, on sockets and in real time. `console`: the file
    that gets the address of their console."""
    from roamq.cli.live_runner import LIVE_BROKERS
    from roamq.pipeline.jobs import Job
    from roamq.sim.scenario import load_scenario

    scenario = load_scenario(SCENARIO, scheme="proactive", overrides=LIVE)
    return Job(
        scenario=SCENARIO,
        scheme="proactive, live",
        seed=1,
        payload={
            **json.loads(scenario.to_json()),
            **({"console_file": str(console)} if console is not None else {}),
        },
        runner=LIVE_BROKERS,
        cost=100.0,
        replay="roamq bench roaming --quick",
    )


def _open_console(file: Path) -> None:
    """Opens the console of the live brokers as soon as they are up."""
    deadline = time.monotonic() + CONSOLE_S_MAX
    while time.monotonic() < deadline:
        if file.exists() and (address := file.read_text()):
            webbrowser.open(address)
            return
        time.sleep(0.2)


def _on_a_desktop() -> bool:
    graphical = (
        sys.platform in ("darwin", "win32") or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    )
    return graphical and sys.stdout.isatty() and "CI" not in os.environ


def _say(as_json: bool, text: str) -> None:
    click.echo(text, err=as_json)
