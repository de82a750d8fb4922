"""`roamq bench roaming`: the papers' testbed on real broker processes, beside what the simulator predicts."""

import json
import tempfile
from pathlib import Path

import click

from roamq.cli.options import json_option
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress

FAULTS = (
    '[{{ at_s = {crash:.1f}, kind = "crash", target = "b3", duration_s = 1.0 }},'
    ' {{ at_s = {cut:.1f}, kind = "cut", target = "b2-b6", duration_s = 2.0 }}]'
)
LIVE = "roamq.fieldtest.run:run_job"


@click.command()
@click.option(
    "--scheme", "schemes", multiple=True, help="A mobility scheme; may be repeated.  [standard, proactive]"
)
@click.option(
    "--pattern", "patterns", multiple=True, type=click.Choice(["RND", "NBR"]), help="[default: NBR]"
)
@click.option(
    "--clients", type=click.IntRange(3), default=200, show_default=True, help="QoS 0, 1 and 2 in turn."
)
@click.option("--seconds", type=float, default=40.0, show_default=True, help="How long clients roam.")
@click.option("--rate", type=float, default=10.0, show_default=True, help="Messages published per second.")
@click.option(
    "--compress", type=float, default=20.0, show_default=True, help="Moves are so many times as fast."
)
@click.option("--faults/--no-faults", default=True, show_default=True, help="Kill a broker, cut a link.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of moves, filters and publications.")
@click.option("--quick", is_flag=True, help="30 clients for 10 seconds.")
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
    as_json: bool,
) -> None:
    """Six brokers as processes, clients that vanish and reappear; a broker is killed and a link cut on the way.

    The clients follow the same moves as in the simulator, whose prediction stands beside each live run; both are
    measured by the same queries on their records. Exit code 1 if a client of QoS 1 or 2 lost anything, got anything
    twice (other than a redelivery flagged as such), or got it out of order.

    \b
    Examples:
      roamq bench roaming --quick
      roamq bench roaming --scheme proactive --scheme standard --pattern RND --pattern NBR
    """
    from roamq.cli.simulate import KEY_METRICS, key_numbers
    from roamq.pipeline.campaign import run_campaign
    from roamq.pipeline.jobs import SIMULATE, Job
    from roamq.pipeline.results import measured, rows_of, run_rows
    from roamq.pipeline.roaming import reconnects
    from roamq.pipeline.session import SparkSettings, open_session
    from roamq.sim.scenario import load_scenario

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
            for label, runner in (("live", LIVE), ("simulated", SIMULATE)):
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
        tempfile.TemporaryDirectory(prefix="roamq-roaming-") as folder,
        open_session(
            SparkSettings(master="local[1]")
        ) as spark,  # one at a time: live brokers want the machine
        progress("roaming") as report,
    ):
        campaign = run_campaign(spark, jobs, Path(folder), progress=report)
        numbers, runs = measured(campaign), run_rows(campaign)
        waits = rows_of(campaign, reconnects)
    failed = [run for run in runs if run.status != "ok"]
    if as_json:
        print_json(
            {
                "summary": [row._asdict() for row in numbers],
                "reconnects": waits,
                "runs": [row._asdict() for row in runs],
            }
        )
    else:
        print_table(*key_numbers(numbers), numeric=[*KEY_METRICS.values(), "runs"])
        print_waits(waits)
    for run in failed:
        click.echo(f"{run.scheme}: {run.status}: {run.error}", err=True)
    raise SystemExit(1 if failed else 0)


def print_waits(rows: list[dict[str, object]]) -> None:
    """How long a client waits for its first message: where it was before, and elsewhere."""

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
