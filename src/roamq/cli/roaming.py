"""`roamq bench roaming`: the papers' testbed on real broker processes, beside what the simulator predicts."""

import json
import tempfile
from pathlib import Path

import click

from roamq.cli.options import json_option, results_folder
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress

FAULTS = (
    '[{{ at_s = {crash:.1f}, kind = "crash", target = "b3", duration_s = 1.0 }},'
    ' {{ at_s = {cut:.1f}, kind = "cut", target = "b2-b6", duration_s = 2.0 }}]'
)


@click.command()
@click.option(
    "--scheme",
    "schemes",
    multiple=True,
    help="A mobility scheme; repeatable.  [default: standard, proactive]",
)
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    type=click.Choice(["RND", "NBR"]),
    help="Move to any broker (RND), or to a neighbor (NBR); repeatable.  [default: NBR]",
)
@click.option(
    "--clients",
    type=click.IntRange(3),
    default=200,
    show_default=True,
    help="Number of clients; they subscribe with QoS 0, 1 and 2 in turn.",
)
@click.option("--seconds", type=float, default=40.0, show_default=True, help="How long clients roam.")
@click.option("--rate", type=float, default=10.0, show_default=True, help="Messages published per second.")
@click.option(
    "--compress",
    type=float,
    default=20.0,
    show_default=True,
    help="Speed up the clients' moves by this factor.",
)
@click.option(
    "--faults/--no-faults",
    default=True,
    show_default=True,
    help="Kill a broker and cut a link.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of moves, filters and publications."
)
@click.option("--quick", is_flag=True, help="Run 30 clients for 10 seconds.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the records in this folder, for `roamq plan check`.",
)
@json_option
def command(
    schemes: tuple[str, ...],
    patterns: tuple[str, ...],
    clients: int,
    seconds: float,
    rate: float,
    compress: float,
    faults: bool,
    seed: int,
    quick: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run six broker processes with clients that roam between them; kill a broker and cut a link on the way.

    The clients make the same moves as in the simulator. The simulator's run is printed beside each live run, and the
    same queries measure both; the model's mean and 95th percentile, calibrated with the same records as `roamq plan
    check` does, stand in the last columns. The exit code is 1 if a client with QoS 1 or 2 lost a message, received one
    twice (other than a redelivery marked DUP), or received messages out of order.

    \b
    Examples:
      roamq bench roaming --quick
      roamq bench roaming --scheme proactive --scheme standard --pattern RND --pattern NBR
      roamq bench roaming --quick --out runs/live
    """
    from roamq.cli.live_runner import LIVE_BROKERS
    from roamq.cli.model_column import add_model, model_data
    from roamq.cli.simulate import KEY_METRICS, key_numbers
    from roamq.pipeline.campaign import run_campaign
    from roamq.pipeline.jobs import SIMULATOR, Job
    from roamq.pipeline.model_check import model_of_folder
    from roamq.pipeline.results import rows_of, run_rows, summary_rows
    from roamq.pipeline.roaming import reconnects
    from roamq.pipeline.session import SparkSettings, open_session
    from roamq.sim.scenario import load_scenario

    if out is not None:
        results_folder(out)
    if quick:
        clients, seconds = 30, 10.0
    jobs = []
    for pattern in patterns or ("NBR",):
        for scheme in schemes or ("standard", "proactive"):
            overrides = {
                "clients": str(clients),
                "duration_s": str(seconds + 3),
                "warmup_s": "0",
                "drain_s": "30",
                "mobility.pattern": pattern,
                "mobility.connect_s": str(60 / compress),
                "mobility.disconnect_s": str(12 / compress),
                "mobility.handoff_s": str(3 / compress),
                "workload.rate": str(rate),
                "workload.begin_s": "3",
            }
            if faults:
                overrides["faults"] = FAULTS.format(crash=3 + seconds / 3, cut=3 + seconds / 2)
            scenario = load_scenario("testbed", scheme=scheme, overrides=overrides)
            payload = json.loads(scenario.to_json())
            for label, runner in (("live", LIVE_BROKERS), ("simulated", SIMULATOR)):
                jobs.append(
                    Job(
                        scenario="testbed",
                        scheme=f"{scheme} {pattern} {label}",
                        seed=seed,
                        payload=payload,
                        runner=runner,
                        replay="roamq bench roaming",
                    )
                )
    with (
        tempfile.TemporaryDirectory(prefix="roamq-roaming-") as unkept,
        open_session(
            SparkSettings(master="local[1]")
        ) as spark,  # one at a time: live brokers want the machine
        progress("roaming") as report,
    ):
        folder = Path(unkept) if out is None else out / "campaign"
        campaign = run_campaign(spark, jobs, folder, progress=report)
        numbers, runs = summary_rows(campaign), run_rows(campaign)
        waits = rows_of(campaign, reconnects)
        report.phase("asking the model")
        model = model_of_folder(folder)
    failed = [run for run in runs if run.status != "ok"]
    if as_json:
        print_json(
            {
                "summary": [row._asdict() for row in numbers],
                "reconnects": waits,
                "runs": [row._asdict() for row in runs],
                "model": model_data(model),
            }
        )
    else:
        columns, rows = add_model(*key_numbers(numbers), model)
        print_table(columns, rows, numeric=[*KEY_METRICS.values(), "runs"])
        print_waits(waits)
    for run in failed:
        click.echo(f"{run.scheme}: {run.status}: {run.error}", err=True)
    raise SystemExit(1 if failed else 0)


def print_waits(rows: list[dict[str, object]]) -> None:
    """Print how long clients wait for their first message, at the broker they had left and at another one."""

    def ms(value: object) -> str:
        return "-" if not isinstance(value, float) else f"{value * 1000:.1f}"

    def ratio(row: dict[str, object]) -> str:
        same, moved = row["same_median_s"], row["moved_median_s"]
        return f"{moved / same:.2f}" if isinstance(same, float) and isinstance(moved, float) and same else "-"

    table = [
        [
            row["scheme"],
            row["same"],
            ms(row["same_median_s"]),
            row["moved"],
            ms(row["moved_median_s"]),
            ratio(row),
        ]
        for row in sorted(rows, key=lambda row: str(row["scheme"]))
    ]
    columns = ["scheme", "came back", "median ms", "moved", "median ms ", "moved / came back"]
    print_table(
        columns, table, title="First message after a reconnect, where one was waiting", numeric=columns[1:]
    )
