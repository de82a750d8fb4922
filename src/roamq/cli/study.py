"""`roamq study`: rank the mobility schemes for the clients in traces."""

from pathlib import Path

import click

from roamq.cli.options import (
    FiniteRange,
    command_line,
    conf_option,
    json_option,
    overrides_of,
    results_folder,
    spark_options,
    tariff_option,
)
from roamq.cli.output import print_json, print_table
from roamq.cli.pipeline import add_sources, mapping_option, warehouse_option
from roamq.cli.progress import progress
from roamq.core.errors import ConfigError
from roamq.models.tariff import Tariff


@click.command()
@click.option(
    "--traces",
    metavar="PATH",
    help="Traces to add first: a file, folder or archive. Without it, the dataset is in the warehouse.",
)
@click.option(
    "--format",
    "format_name",
    metavar="NAME",
    help="Format of the traces; `roamq pipeline formats` lists them.",
)
@mapping_option
@click.option("--dataset", metavar="NAME", help="Name of the traces.  [default: the format]")
@click.option("--set", "pairs", multiple=True, metavar="RULE=VALUE", help="Set a cleaning rule; repeatable.")
@click.option(
    "--brokers", type=click.IntRange(min=2), default=12, show_default=True, help="Number of brokers to place."
)
@click.option(
    "--clients",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="Number of clients to replay.",
)
@click.option(
    "--hours", type=FiniteRange(min=0.01), default=1.0, show_default=True, help="Hours to simulate."
)
@click.option(
    "--rate",
    type=FiniteRange(min=0.001),
    default=1.0,
    show_default=True,
    help="Events published per second.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Runs per scheme.")
@click.option(
    "--scheme", "schemes", multiple=True, metavar="NAME", help="Only this scheme; repeatable.  [default: all]"
)
@tariff_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results; existing runs are reused.  [default: runs/study-DATASET]",
)
@warehouse_option
@spark_options
@conf_option
@json_option
def command(
    traces: str | None,
    format_name: str | None,
    mapping: Path | None,
    dataset: str | None,
    pairs: tuple[str, ...],
    brokers: int,
    clients: int,
    hours: float,
    rate: float,
    seeds: int,
    schemes: tuple[str, ...],
    tariff: Tariff | None,
    out: Path | None,
    warehouse: str,
    master: str,
    remote: str | None,
    conf: dict[str, str],
    as_json: bool,
) -> None:
    """Rank the mobility schemes for the clients in your traces.

    The command brings the tables up to date, places brokers where the clients are, replays the clients' moves under
    every scheme, and ranks the schemes: those that lose or repeat messages come last, the others are ordered by what
    traffic, memory and delay cost together by the tariff. Schemes that the seeds cannot tell apart share a place.

    \b
    Examples:
      roamq study --traces wlan.csv.gz --format wifi
      roamq study --dataset wifi --brokers 20 --clients 200 --hours 4
      roamq study --dataset wifi --tariff delay=5
    """
    from roamq.pipeline.landing import find_source
    from roamq.pipeline.results import trouble_line
    from roamq.pipeline.runner import bring_up_to_date, warehouse_settings
    from roamq.pipeline.study import StudyPlan, run_study
    from roamq.report.page import write_page
    from roamq.report.study import report_study

    name = dataset or format_name
    if name is None and mapping is None:
        raise ConfigError("name --traces with --format, or a --dataset of the warehouse")
    tariff = tariff or Tariff()
    if out is not None:
        results_folder(out)
    settings = warehouse_settings(warehouse, remote=remote, master=master, config=conf)
    if traces is not None:
        name = add_sources(warehouse, traces, format_name, None, dataset, overrides_of(pairs), mapping)
        with progress("tables") as report:
            bring_up_to_date(settings, warehouse, report)
    if name is None:
        raise ConfigError("--mapping needs --traces")
    plan = StudyPlan(
        dataset=name,
        format=find_source(warehouse, name).format,
        brokers=brokers,
        clients=clients,
        duration_s=hours * 3600,
        rate=rate,
        seeds=seeds,
        schemes=tuple(schemes),
        tariff=tariff,
    )
    out = results_folder(out or Path("runs") / f"study-{name}")
    with progress("simulating") as report:
        result = run_study(
            settings, plan, out, progress=report, phase=lambda text: click.echo(f"{text} ...", err=True)
        )
    troubles = [trouble_line(row) for row in result.runs if row.status != "ok"]
    study = report_study(
        name,
        result.metrics,
        result.numbers,
        result.runs,
        result.waits,
        result.learned,
        tariff=tariff,
        network=result.network,
        command=command_line(),
        warnings=troubles,
    )
    write_page(study.page, out)
    columns, rows = list(study.ranking.columns), [list(row) for row in study.ranking.rows]
    if as_json:
        answer = {
            "advice": study.advice,
            "tariff": tariff.rates,
            "columns": columns,
            "ranking": rows,
            "network": result.network,
        }
        print_json({**answer, "out": str(out), "troubles": troubles})
    else:
        short = study.short
        print_table(short.columns, short.rows, numeric=short.columns[2:], narrow=True)
        click.echo(f"{short.note}\n\n{study.advice}\n{result.network}. Next: roamq report {out}")
    for line in troubles:
        click.echo(line, err=True)
    raise SystemExit(1 if troubles else 0)
