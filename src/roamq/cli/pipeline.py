"""`roamq pipeline`: turn traces and records into tables, and show the tables."""

from pathlib import Path
from typing import Any

import click

from roamq.cli.groups import SentenceGroup
from roamq.cli.mobility import mobility, positions, pseudonymise
from roamq.cli.options import FROM_0, conf_option, json_option, overrides_of, spark_options
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress
from roamq.core.errors import ConfigError
from roamq.report.numbers import cell

WAREHOUSE = "warehouse"
FILES_NAMED = 5
KEEP_DAYS = 7.0

warehouse_option = click.option(
    "--warehouse",
    metavar="PLACE",
    default=WAREHOUSE,
    show_default=True,
    help="Where the tables are: a folder, or an address such as s3a://bucket/warehouse.",
)


mapping_option = click.option(
    "--mapping",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="A TOML file that names the columns of the traces, instead of --format.",
)


@click.group(cls=SentenceGroup)
def command() -> None:
    """Turn traces and records into bronze, silver and gold tables, on Spark.

    \b
    Examples:
      roamq pipeline run --traces wlan.csv.gz --format wifi
      roamq pipeline show neighbor_graph
    """


@command.command("run")
@click.option(
    "--traces", metavar="PATH", help="A file, folder or archive, or a location that Spark can read."
)
@click.option(
    "--format",
    "format_name",
    metavar="NAME",
    help="Format of the traces; `roamq pipeline formats` lists them.",
)
@mapping_option
@click.option("--records", metavar="PATH", help="A folder of RoamQ's own records; it may grow.")
@click.option("--dataset", metavar="NAME", help="Name for the traces.  [default: the format]")
@click.option("--set", "pairs", multiple=True, metavar="RULE=VALUE", help="Set a cleaning rule; repeatable.")
@click.option("--full-refresh", is_flag=True, help="Read all files again, also those read before.")
@click.option("--driver-memory", default="2g", show_default=True, help="Memory of the embedded Spark.")
@warehouse_option
@spark_options
@conf_option
@json_option
def run(
    traces: str | None,
    format_name: str | None,
    mapping: Path | None,
    records: str | None,
    dataset: str | None,
    pairs: tuple[str, ...],
    full_refresh: bool,
    driver_memory: str,
    warehouse: str,
    master: str,
    remote: str | None,
    conf: dict[str, str],
    as_json: bool,
) -> None:
    """Bring the tables of a warehouse up to date.

    The command reads new files only, and makes what changed of the derived tables. Without --traces and --records, it
    looks for new files of the known datasets. Several runs may work at once: a run that another one overtakes begins
    anew on what that one left.

    \b
    Examples:
      roamq pipeline run --traces wlan.csv.gz --format wifi
      roamq pipeline run --traces cabs.tar.gz --format gps --set sites=h3:8
      roamq pipeline run --traces hotspots.csv --mapping hotspots.toml
      roamq pipeline run --records runs/testbed/campaign
      roamq pipeline show neighbor_graph
    """
    from roamq.pipeline.landing import load_sources

    if traces is None and records is None and not load_sources(warehouse):
        raise ConfigError(f"{warehouse} holds no traces yet: name some with --traces and --format")
    spark = {"remote": remote, "master": master, "driver_memory": driver_memory, "config": conf}
    add_sources(warehouse, traces, format_name, records, dataset, overrides_of(pairs), mapping)
    _bring_up_to_date(warehouse, spark, full_refresh=full_refresh, as_json=as_json)


def _bring_up_to_date(
    warehouse: str, spark: dict[str, Any], *, as_json: bool, full_refresh: bool = False
) -> None:
    """Runs the pipeline and prints how many rows each table has; an error about files comes after that."""
    from roamq.pipeline.runner import FilesFailedError, bring_up_to_date, warehouse_settings
    from roamq.pipeline.upkeep import all_quarantined, expire

    def show(rows: list[dict[str, Any]]) -> None:
        print_json(rows) if as_json else _print_summary(rows)
        if wrong := all_quarantined(warehouse):
            names = ", ".join(wrong[:FILES_NAMED]) + (" and others" if len(wrong) > FILES_NAMED else "")
            click.echo(
                f"no line of {names} could be read: is it of this format? "
                "`roamq pipeline show quarantine` has the reasons",
                err=True,
            )

    try:
        with progress("tables") as report:
            rows = bring_up_to_date(
                warehouse_settings(warehouse, **spark), warehouse, report, full_refresh=full_refresh
            )
    except FilesFailedError as error:
        show(error.summary)
        raise
    expire(warehouse, KEEP_DAYS)
    show(rows)


def add_sources(
    warehouse: str,
    traces: str | None,
    format_name: str | None,
    records: str | None,
    dataset: str | None,
    settings: dict[str, str],
    mapping: Path | None = None,
) -> str | None:
    """Lands the files that were named on the command line; returns the name of their dataset."""
    from roamq.pipeline.headers import load_mapping
    from roamq.pipeline.landing import add_source

    if mapping is not None:
        if traces is None or format_name not in (None, "mapped"):
            raise ConfigError("--mapping needs --traces, and takes the place of --format")
        said = load_mapping(mapping, traces)
        dataset = dataset or said.name
        add_source(warehouse, traces, "mapped", dataset, settings, said.to_json())
    elif traces is not None:
        if format_name is None:
            raise ConfigError("--traces needs --format (`roamq pipeline formats` lists them) or --mapping")
        add_source(warehouse, traces, format_name, dataset or format_name, settings)
    elif format_name is not None:
        raise ConfigError("--format needs --traces")
    if records is not None:
        name = "records" if traces is not None or dataset is None else dataset
        add_source(warehouse, records, "records", name, {} if traces is not None else settings)
    return dataset or format_name


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
@click.option(
    "--where", metavar="SQL", help="Only rows that satisfy this condition, such as \"period = 'on'\"."
)
@click.option("--order-by", metavar="SQL", help='Sort by these columns, such as "moves desc".')
@click.option(
    "--rows", type=click.IntRange(min=1), default=20, show_default=True, help="Print at most this many."
)
@click.option("--count", is_flag=True, help="Print only the number of rows.")
@click.option("--version", type=click.IntRange(min=0), help="The tables as they were in this version.")
@warehouse_option
@spark_options
@conf_option
@json_option
def show(
    table: str | None,
    where: str | None,
    order_by: str | None,
    rows: int,
    count: bool,
    version: int | None,
    warehouse: str,
    master: str,
    remote: str | None,
    conf: dict[str, str],
    as_json: bool,
) -> None:
    """Print rows of TABLE, or the names of all tables."""
    from roamq.pipeline.runner import look_at, warehouse_settings

    settings = warehouse_settings(warehouse, remote=remote, master=master, config=conf)
    columns, lines = look_at(
        settings, warehouse, table, where=where, order_by=order_by, rows=rows, count=count, version=version
    )
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in lines])
    else:
        print_table(columns, [[_brief(value) for value in row] for row in lines])


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell(number)}" for name, number in value.items())
    return cell(value)


@command.command("status")
@warehouse_option
@json_option
def status(warehouse: str, as_json: bool) -> None:
    """List the files of every dataset: their states, and what became of their lines.

    The command exits with 1 if a file could not be read, or if its lines do not add up.
    """
    from roamq.pipeline.upkeep import files_of, tables_of

    files, tables = files_of(warehouse), tables_of(warehouse)
    if as_json:
        print_json({"files": files, "tables": tables})
    else:
        numbers = ["lines", "rows", "quarantined", "headers and blank"]
        print_table(
            ["dataset", "file", "state", *numbers, "reason"],
            [
                [
                    *(row["dataset"], row["file"], row["state"]),
                    *(_grouped(row[name]) for name in numbers),
                    row["reason"],
                ]
                for row in files
            ],
            numeric=numbers,
        )
        counts = ["rows in", "rows out", "changed"]
        print_table(
            ["table", *counts],
            [[row["table"], *(_grouped(row[name]) for name in counts)] for row in tables],
            numeric=counts,
        )
    raise SystemExit(1 if any(row["state"] == "failed" or not row["balances"] for row in files) else 0)


@command.command("retry")
@click.option("--driver-memory", default="2g", show_default=True, help="Memory of the embedded Spark.")
@warehouse_option
@spark_options
@conf_option
@json_option
def retry(
    driver_memory: str,
    warehouse: str,
    master: str,
    remote: str | None,
    conf: dict[str, str],
    as_json: bool,
) -> None:
    """Read the files that failed once more, from where they came, and bring the tables up to date."""
    from roamq.pipeline.upkeep import retry_failed

    spark = {"remote": remote, "master": master, "driver_memory": driver_memory, "config": conf}
    if not retry_failed(warehouse):
        raise ConfigError(f"{warehouse}: no file has failed; `roamq pipeline run` looks for new ones")
    _bring_up_to_date(warehouse, spark, as_json=as_json)


@command.command("remove")
@click.argument("what", metavar="FILE|DATASET")
@click.option("--driver-memory", default="2g", show_default=True, help="Memory of the embedded Spark.")
@warehouse_option
@spark_options
@conf_option
@json_option
def remove(
    what: str,
    driver_memory: str,
    warehouse: str,
    master: str,
    remote: str | None,
    conf: dict[str, str],
    as_json: bool,
) -> None:
    """Remove a file or a dataset, with its rows, and bring the other tables up to date.

    FILE is a name that `roamq pipeline status` lists; DATASET/FILE says which, where two datasets have one.
    """
    from roamq.pipeline.upkeep import remove_what

    spark = {"remote": remote, "master": master, "driver_memory": driver_memory, "config": conf}
    removed = remove_what(warehouse, what)
    click.echo(f"removed {removed}", err=True)
    _bring_up_to_date(warehouse, spark, as_json=as_json)


@command.command("versions")
@warehouse_option
@json_option
def versions(warehouse: str, as_json: bool) -> None:
    """List the versions of the tables that can still be read, the latest first."""
    from datetime import UTC, datetime

    from roamq.pipeline.ledger import Ledger
    from roamq.pipeline.store import Store
    from roamq.pipeline.warehouse import require_warehouse

    require_warehouse(warehouse)
    rows = Ledger(Store.at(warehouse)).versions()
    if as_json:
        print_json(rows)
        return
    lines = [
        (
            str(row["version"]),
            f"{datetime.fromtimestamp(row['time_s'], UTC):%Y-%m-%d %H:%M:%S} UTC",
            row["what"],
        )
        for row in rows
    ]
    print_table(["version", "made at", "what changed"], lines, numeric=["version"])


@command.command("expire")
@click.option(
    "--keep-days",
    type=FROM_0,
    default=KEEP_DAYS,
    show_default=True,
    help="Versions that are younger can still be read.",
)
@warehouse_option
def expire_command(keep_days: float, warehouse: str) -> None:
    """Delete the files that only older versions of the tables need.

    A run does the same for versions older than a week. With --keep-days 0, no other run may be writing.
    """
    from roamq.pipeline.upkeep import expire
    from roamq.pipeline.warehouse import require_warehouse

    require_warehouse(warehouse)
    click.echo(f"deleted {expire(warehouse, keep_days)} files")


@command.command("prepare")
def prepare() -> None:
    """Keep the classes that Spark loads in a file, so that every later command starts Spark with less work.

    The file is a cache for this Java and this Spark, of some two hundred megabytes. Spark starts without it too.
    It is left as it is if it is there.

    \b
    Example:
      roamq pipeline prepare
    """
    from roamq.pipeline.class_archive import make_archive

    path = make_archive()
    click.echo(f"{path} ({path.stat().st_size / 1e6:.0f} MB)")


@command.command("compact")
@click.argument("records", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--older-than",
    type=FROM_0,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Leave younger files alone.",
)
def compact_command(records: Path, older_than: float) -> None:
    """Merge the small files of records that brokers wrote to FOLDER.

    Every record is read once, whether a run reads the small files, the merged ones, or some of both. Brokers may go on
    writing meanwhile.
    """
    import time

    from roamq.pipeline.records_in_place import compact

    before, after = compact(records, older_than_s=older_than, now_s=time.time())
    click.echo(f"{records}: {before:,} files became {after:,}")


@command.command("formats")
@json_option
def formats(as_json: bool) -> None:
    """List the trace formats and their cleaning rules."""
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
@click.option(
    "--clients", type=click.IntRange(min=1), default=1000, show_default=True, help="Number of clients."
)
@click.option("--days", type=click.IntRange(min=1), default=7, show_default=True, help="Number of days.")
@click.option("--sites", type=click.IntRange(min=2), default=100, show_default=True, help="Number of sites.")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same traces.")
@click.option("--files", type=click.IntRange(min=1), default=8, show_default=True, help="Number of files.")
@spark_options
@conf_option
def generate(
    out: Path,
    clients: int,
    days: int,
    sites: int,
    seed: int,
    files: int,
    master: str,
    remote: str | None,
    conf: dict[str, str],
) -> None:
    """Write synthetic city traces to OUT, in the format `associations`."""
    from roamq.pipeline.generator import City, write_city
    from roamq.pipeline.session import SparkSettings, open_session

    city = City(clients=clients, days=days, sites=sites, seed=seed)
    with open_session(SparkSettings(master=master, remote=remote, config=conf)) as spark:
        write_city(spark, city, out, files=files)
    click.echo(f"{out}: next, roamq pipeline run --traces {out} --format associations")


command.add_command(mobility)
command.add_command(pseudonymise)
command.add_command(positions)
