"""`roamq study`: traces in, a ranking of the schemes out."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from roamq.cli.options import json_option, overrides_of, spark_options
from roamq.cli.output import print_json, print_table
from roamq.cli.pipeline import add_sources, warehouse_option
from roamq.cli.progress import progress
from roamq.core.errors import ConfigError


@click.command()
@click.option(
    "--traces", metavar="PATH", help="A file, folder or archive; without it, a dataset that is there."
)
@click.option(
    "--format", "format_name", metavar="NAME", help="Its format; `roamq pipeline formats` lists them."
)
@click.option("--dataset", metavar="NAME", help="What to call the traces.  [default: the format]")
@click.option(
    "--set", "pairs", multiple=True, metavar="RULE=VALUE", help="Change a cleaning rule; repeatable."
)
@click.option(
    "--brokers", type=click.IntRange(min=2), default=12, show_default=True, help="Brokers to place."
)
@click.option(
    "--clients", type=click.IntRange(min=1), default=60, show_default=True, help="Clients to replay."
)
@click.option("--hours", type=click.FloatRange(min=0.01), default=1.0, show_default=True, help="How long.")
@click.option(
    "--rate", type=click.FloatRange(min=0.001), default=1.0, show_default=True, help="Events per second."
)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Runs per scheme.")
@click.option("--scheme", "schemes", multiple=True, metavar="NAME", help="Only these.  [default: all]")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results.  [default: runs/study-DATASET]",
)
@warehouse_option
@spark_options
@json_option
def command(
    traces: str | None,
    format_name: str | None,
    dataset: str | None,
    pairs: tuple[str, ...],
    brokers: int,
    clients: int,
    hours: float,
    rate: float,
    seeds: int,
    schemes: tuple[str, ...],
    out: Path | None,
    warehouse: Path,
    master: str,
    remote: str | None,
    as_json: bool,
) -> None:
    """Which mobility scheme suits the clients in these traces.

    Brings the tables up to date, puts brokers where the clients are, replays their moves under every scheme, and
    ranks the schemes by loss, duplicates, handoff delay, overhead and buffer cost.

    \b
    Examples:
      roamq study --traces wlan.csv.gz --format wifi
      roamq study --dataset wifi --brokers 20 --clients 200 --hours 4
    """
    from roamq.pipeline.landing import load_sources
    from roamq.pipeline.runner import bring_up_to_date, warehouse_settings
    from roamq.pipeline.study import Plan

    name = dataset or format_name
    if name is None:
        raise ConfigError("name --traces with --format, or a --dataset of the warehouse")
    settings = warehouse_settings(warehouse, remote=remote, master=master)
    if traces is not None:
        add_sources(warehouse, traces, format_name, None, dataset, overrides_of(pairs))
        with progress("tables") as report:
            bring_up_to_date(settings, warehouse, report)
    source = next((known for known in load_sources(warehouse) if known.dataset == name), None)
    if source is None:
        raise ConfigError(f"{warehouse} holds no dataset {name!r}; name its --traces and --format")
    plan = Plan(
        dataset=name,
        format=source.format,
        brokers=brokers,
        clients=clients,
        duration_s=hours * 3600,
        rate=rate,
        seeds=seeds,
        schemes=tuple(schemes),
    )
    result = _simulate(plan, settings, out or Path("runs") / f"study-{name}")
    if as_json:
        print_json(result)
    else:
        print_table(result["columns"], result["ranking"])
        click.echo(f"{result['advice']}\n{result['network']}. Next: roamq report {result['out']}")
    for line in result["troubles"]:
        click.echo(line, err=True)
    raise SystemExit(1 if result["troubles"] else 0)


def _simulate(plan: Any, settings: Any, out: Path) -> dict[str, Any]:
    from roamq.pipeline.campaign import run_campaign
    from roamq.pipeline.learned import learned_rows
    from roamq.pipeline.metrics import handoff_distribution
    from roamq.pipeline.results import measured, rows_of, run_rows
    from roamq.pipeline.session import open_session
    from roamq.pipeline.study import study_jobs
    from roamq.pipeline.warehouse import open_tables
    from roamq.report.page import write_page
    from roamq.report.ranking import advice, rank_schemes, ranking_table
    from roamq.report.simulation import simulation_page
    from roamq.report.study import study_page
    from roamq.report.trace_charts import trace_section

    with open_session(settings) as spark, progress("simulating") as report:
        open_tables(spark, settings.warehouse)
        jobs, network, clients = study_jobs(spark, plan, out)
        campaign = run_campaign(spark, jobs, out / "campaign", progress=report)
        numbers, runs = measured(campaign), run_rows(campaign)
        distribution = rows_of(campaign, handoff_distribution)
        learned = learned_rows(spark, plan.dataset)
    troubles = [
        f"{row.scheme} seed {row.seed} {row.status}: {row.error}" for row in runs if row.status != "ok"
    ]
    ranked = rank_schemes(numbers)
    table = ranking_table(ranked)
    said = (
        f"{len(network.brokers)} brokers, {len(network.links)} links, {clients} clients, "
        f"{plan.duration_s / 3600:g} h, {len(jobs)} runs"
    )
    simulated = simulation_page(numbers, runs, distribution, title=None, command="", warnings=troubles)
    page = study_page(
        simulated,
        title=f"Study of {plan.dataset}",
        advice=advice(ranked),
        ranking=table,
        network=said,
        learned=trace_section(plan.dataset, learned),
        command=shlex.join(["roamq", *sys.argv[1:]]),
    )
    write_page(page, out)
    return {
        "advice": advice(ranked),
        "columns": list(table.columns),
        "ranking": [list(row) for row in table.rows],
        "network": said,
        "out": str(out),
        "troubles": troubles,
    }
