"""`roamq pipeline`: traces and records into tables, and a look at the tables."""

import re
from pathlib import Path
from typing import Any

import click

from roamq.cli.options import json_option, overrides_of, spark_options
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress
from roamq.core.errors import ConfigError
from roamq.report.numbers import cell

WAREHOUSE = "warehouse"
DATASET_NAME = re.compile(r"[a-z][a-z0-9_]*")

warehouse_option = click.option(
    "--warehouse",
    type=click.Path(file_okay=False, path_type=Path),
    default=WAREHOUSE,
    show_default=True,
    help="Folder of the tables.",
)


@click.group()
def command() -> None:
    """Traces and records into bronze, silver and gold tables, on Spark."""


@command.command("run")
@click.option("--traces", metavar="PATH", help="A file, a folder, an archive, or a place Spark can read.")
@click.option(
    "--format", "format_name", metavar="NAME", help="Its format; `roamq pipeline formats` lists them."
)
@click.option("--records", metavar="PATH", help="A folder of RoamQ's own records, which may grow.")
@click.option("--dataset", metavar="NAME", help="What to call the traces.  [default: the format]")
@click.option(
    "--set", "pairs", multiple=True, metavar="RULE=VALUE", help="Change a cleaning rule; repeatable."
)
@click.option("--full-refresh", is_flag=True, help="Read everything again, also what is known.")
@click.option("--driver-memory", default="2g", show_default=True, help="Memory of an embedded Spark.")
@warehouse_option
@spark_options
@json_option
def run(
    traces: str | None,
    format_name: str | None,
    records: str | None,
    dataset: str | None,
    pairs: tuple[str, ...],
    full_refresh: bool,
    driver_memory: str,
    warehouse: Path,
    master: str,
    remote: str | None,
    as_json: bool,
) -> None:
    """Bring the tables of a warehouse up to date.

    Files that are new are read, files that are known are not. Without --traces or --records, only the tables are
    made again.

    \b
    Examples:
      roamq pipeline run --traces wlan.csv.gz --format wifi
      roamq pipeline run --traces cabs.tar.gz --format gps --set sites=h3:8
      roamq pipeline run --records runs/testbed/campaign
      roamq pipeline show neighbor_graph
    """
    from roamq.pipeline.landing import load_sources
    from roamq.pipeline.runner import bring_up_to_date, warehouse_settings

    add_sources(warehouse, traces, format_name, records, dataset, overrides_of(pairs))
    if not load_sources(warehouse):
        raise ConfigError(f"{warehouse} holds no traces yet: name some with --traces and --format")
    settings = warehouse_settings(warehouse, remote=remote, master=master, driver_memory=driver_memory)
    with progress("tables") as report:
        rows = bring_up_to_date(settings, warehouse, report, full_refresh=full_refresh)
    print_json(rows) if as_json else _print_summary(rows)


def add_sources(
    warehouse: Path,
    traces: str | None,
    format_name: str | None,
    records: str | None,
    dataset: str | None,
    settings: dict[str, str],
) -> None:
    """Land what was named on the command line."""
    from roamq.pipeline.landing import add_source

    if traces is not None:
        if format_name is None:
            raise ConfigError("--traces needs --format; `roamq pipeline formats` lists them")
        add_source(warehouse, traces, format_name, _checked(dataset or format_name), settings)
    elif format_name is not None:
        raise ConfigError("--format needs --traces")
    if records is not None:
        name = "records" if traces is not None or dataset is None else dataset
        add_source(warehouse, records, "records", _checked(name), {} if traces is not None else settings)


def _checked(dataset: str) -> str:
    if not DATASET_NAME.fullmatch(dataset):
        raise ConfigError(f"--dataset {dataset}: use small letters, digits and _, a letter first")
    return dataset


def _print_summary(rows: list[dict[str, Any]]) -> None:
    datasets = sorted({row["dataset"] for row in rows})
    layers = ("bronze", "silver", "gold")
    names = sorted({(layers.index(row["layer"]), row["name"]) for row in rows})
    counts = {(row["name"], row["dataset"]): row["rows"] for row in rows}
    lines = [
        [layers[layer], name, *(_grouped(counts.get((name, dataset))) for dataset in datasets)]
        for layer, name in names
    ]
    print_table(["layer", "rows of", *datasets], lines, numeric=datasets)


def _grouped(count: int | None) -> str | None:
    return None if count is None else f"{count:,}"


@command.command("show")
@click.argument("table", required=False)
@click.option("--where", metavar="SQL", help="Only rows for which this holds, such as \"period = 'on'\".")
@click.option("--order-by", metavar="SQL", help='Sort by these columns, such as "moves desc".')
@click.option("--rows", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@click.option("--count", is_flag=True, help="Only how many rows there are.")
@warehouse_option
@spark_options
@json_option
def show(
    table: str | None,
    where: str | None,
    order_by: str | None,
    rows: int,
    count: bool,
    warehouse: Path,
    master: str,
    remote: str | None,
    as_json: bool,
) -> None:
    """Rows of TABLE, or the names of all tables."""
    from roamq.pipeline.runner import look_at, warehouse_settings

    settings = warehouse_settings(warehouse, remote=remote, master=master)
    columns, found = look_at(
        settings, warehouse, table, where=where, order_by=order_by, rows=rows, count=count
    )
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in found])
    else:
        print_table(columns, [[_brief(value) for value in row] for row in found])


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell(number)}" for name, number in value.items())
    return cell(value)


@command.command("formats")
@json_option
def formats(as_json: bool) -> None:
    """The trace formats, and the cleaning rules each starts from."""
    import dataclasses

    from roamq.pipeline.rules import Rules
    from roamq.pipeline.traces import FORMATS

    usual = Rules()
    rules = {
        name: {
            field.name: getattr(known.rules, field.name)
            for field in dataclasses.fields(Rules)
            if getattr(known.rules, field.name) != getattr(usual, field.name)
        }
        for name, known in FORMATS.items()
    }
    if as_json:
        print_json({name: {"about": known.about, "rules": rules[name]} for name, known in FORMATS.items()})
        return
    lines = [
        (name, known.about, ", ".join(f"{rule}={value}" for rule, value in rules[name].items()))
        for name, known in FORMATS.items()
    ]
    print_table(["format", "what a row says", "rules that differ"], lines)
    print_table(
        ["rule", "usual value"], [(f.name, str(getattr(usual, f.name))) for f in dataclasses.fields(Rules)]
    )


@command.command("generate")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--clients", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--days", type=click.IntRange(min=1), default=7, show_default=True)
@click.option("--sites", type=click.IntRange(min=2), default=100, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same traces.")
@click.option("--files", type=click.IntRange(min=1), default=8, show_default=True)
@spark_options
def generate(
    out: Path, clients: int, days: int, sites: int, seed: int, files: int, master: str, remote: str | None
) -> None:
    """Write synthetic city traces to OUT, in the format `associations`."""
    from roamq.pipeline.generator import City, write_city
    from roamq.pipeline.session import SparkSettings, open_session

    city = City(clients=clients, days=days, sites=sites, seed=seed)
    with open_session(SparkSettings(master=master, remote=remote)) as spark:
        write_city(spark, city, out, files=files)
    click.echo(f"{out}: next, roamq pipeline run --traces {out} --format associations")
