"""`roamq bench roaming`: the papers' testbed on real broker processes, beside what the simulator predicts."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from roamq.cli.options import ABOVE_0, json_option, results_folder, tariff_option
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress
from roamq.core.errors import ConfigError
from roamq.models.tariff import Tariff

if TYPE_CHECKING:
    from roamq.pipeline.jobs import Job
    from roamq.pipeline.model_check import SchemeCheck
    from roamq.pipeline.schemas import RunRow, SummaryRow


@click.command()
@click.option(
    "--scheme",
    "schemes",
    multiple=True,
    help="A mobility scheme; repeatable.  [default: standard, proactive; with --streets prehandoff]",
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
@click.option("--seconds", type=ABOVE_0, default=40.0, show_default=True, help="How long clients roam.")
@click.option("--rate", type=ABOVE_0, default=10.0, show_default=True, help="Messages published per second.")
@click.option(
    "--compress",
    type=ABOVE_0,
    default=20.0,
    show_default=True,
    help="Speed up the clients' moves by this factor.",
)
@click.option(
    "--faults/--no-faults",
    default=None,
    help="Kill a broker and cut a link.  [default: faults; none with --streets]",
)
@click.option(
    "--streets",
    is_flag=True,
    help="Drive through the streets of a city, report cells, and count how many handoffs find a virtual consumer.",
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
@tariff_option
@json_option
def command(
    schemes: tuple[str, ...],
    patterns: tuple[str, ...],
    clients: int,
    seconds: float,
    rate: float,
    compress: float,
    faults: bool | None,
    streets: bool,
    seed: int,
    quick: bool,
    out: Path | None,
    tariff: Tariff | None,
    as_json: bool,
) -> None:
    """Run six broker processes with clients that roam between them; kill a broker and cut a link on the way.

    The clients make the same moves as in the simulator. The simulator's run is printed beside each live run, and the
    same queries measure both; the model's mean and 95th percentile, calibrated with the same records as `roamq plan
    check` does, stand in the last columns. The exit code is 1 if a client with QoS 1 or 2 lost a message, received one
    twice (other than a redelivery marked DUP), or received messages out of order.

    The price weighs traffic, memory and delay, by the same query for both. Live, bytes are those of the frames between
    brokers, which a run's encoding makes larger or smaller than the simulator's; both count messages to clients alike.

    With --streets, nine brokers serve the areas of a city, and clients drive through its streets for --seconds. They
    report the cells they enter, as phones do for `prehandoff`. Two numbers are printed beside the simulator's: how many
    handoffs found a filled virtual consumer, and how long a client waited for its first waiting message.

    \b
    Examples:
      roamq bench roaming --quick
      roamq bench roaming --streets --clients 60 --scheme prehandoff --scheme standard
      roamq bench roaming --scheme proactive --scheme standard --pattern RND --pattern NBR
      roamq bench roaming --quick --out runs/live --tariff delay=5
    """
    from roamq.cli.roaming_jobs import RoamingLoad, street_jobs, testbed_jobs

    if streets and (patterns or faults):
        raise ConfigError(
            "--streets: clients follow streets and nothing is broken; leave out --pattern and --faults"
        )
    if out is not None:
        results_folder(out)
    if quick:
        clients, seconds = 30, 10.0
    load = RoamingLoad(clients, seconds, rate, compress, seed)
    jobs = (
        street_jobs(schemes or ("prehandoff",), load)
        if streets
        else testbed_jobs(
            schemes or ("standard", "proactive"), patterns or ("NBR",), load, faults=faults is not False
        )
    )
    with tempfile.TemporaryDirectory(prefix="roamq-roaming-") as unkept:
        folder = Path(unkept) if out is None else out / "campaign"
        measured = _measure(jobs, folder, tariff or Tariff(), streets=streets)
    _show(measured, streets=streets, as_json=as_json)
    failed = [run for run in measured.runs if run.status != "ok"]
    for run in failed:
        click.echo(f"{run.scheme}: {run.status}: {run.error}", err=True)
    raise SystemExit(1 if failed else 0)


class RoamingResults(NamedTuple):
    """The results of the runs, live and simulated."""

    numbers: "list[SummaryRow]"
    runs: "list[RunRow]"
    waits: list[dict[str, object]]
    """One row per scheme: how long clients waited for their first message after a reconnect."""
    expected: list[dict[str, object]]
    """With --streets, rows that say how many handoffs found a virtual consumer."""
    model: "dict[str, SchemeCheck]"
    """Scheme -> the model's check of it; empty with --streets."""


def _measure(jobs: "list[Job]", folder: Path, tariff: Tariff, *, streets: bool) -> RoamingResults:
    """Makes the runs one at a time, because live brokers need the whole machine."""
    from roamq.pipeline.campaign import run_campaign
    from roamq.pipeline.model_check import model_of_folder
    from roamq.pipeline.prehandoff import prehandoff_summary
    from roamq.pipeline.results import priced_summary_rows, rows_of, run_rows
    from roamq.pipeline.roaming import reconnects
    from roamq.pipeline.session import SparkSettings, open_session

    with open_session(SparkSettings(master="local[1]")) as spark, progress("roaming") as report:
        campaign = run_campaign(spark, jobs, folder, progress=report)
        numbers, runs = priced_summary_rows(campaign, tariff), run_rows(campaign)
        waits = rows_of(campaign, reconnects)
        if streets:
            return RoamingResults(numbers, runs, waits, rows_of(campaign, prehandoff_summary), {})
        report.phase("asking the model")
        return RoamingResults(numbers, runs, waits, [], dict(model_of_folder(folder)))


def _show(measured: RoamingResults, *, streets: bool, as_json: bool) -> None:
    from roamq.cli.model_column import add_model, model_data
    from roamq.cli.simulate import KEY_METRICS, key_numbers

    if as_json:
        print_json(
            {
                "summary": [row._asdict() for row in measured.numbers],
                "reconnects": measured.waits,
                "prehandoff": measured.expected,
                "runs": [row._asdict() for row in measured.runs],
                "model": model_data(measured.model),
            }
        )
        return
    columns, rows = key_numbers(measured.numbers)
    if not streets:
        columns, rows = add_model(columns, rows, measured.model)
    print_table(columns, rows, numeric=[*KEY_METRICS.values(), "runs"])
    if streets:
        print_hits(measured.waits, measured.expected)
    else:
        print_waits(measured.waits)


def ms(seconds: object) -> str:
    return "-" if not isinstance(seconds, float) else f"{seconds * 1000:.1f}"


def print_waits(rows: list[dict[str, object]]) -> None:
    """Prints how long clients wait for their first message, at the broker they had left and at another one."""

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


def print_hits(waits: list[dict[str, object]], expected: list[dict[str, object]]) -> None:
    """Prints how many handoffs found a filled virtual consumer, and how long clients waited for waiting messages."""
    measured = {(row["scheme"], row["metric"]): row["mean"] for row in expected}

    def number(scheme: object, metric: str, digits: int) -> str:
        value = measured.get((scheme, metric))
        return f"{value:.{digits}f}" if isinstance(value, float) else "-"

    table = [
        [
            row["scheme"],
            number(row["scheme"], "handoffs", 0),
            number(row["scheme"], "hit_pct", 1),
            row["moved"],
            ms(row["moved_median_s"]),
            ms(row["moved_p95_s"]),
        ]
        for row in sorted(waits, key=lambda row: str(row["scheme"]))
    ]
    columns = ["scheme", "handoffs", "hit rate %", "with a message waiting", "median ms", "95% ms"]
    print_table(
        columns, table, title="Handoffs, and the first waiting message after them", numeric=columns[1:]
    )
