"""`roamq pipeline mobility`, `pseudonymise` and `positions`: how clients move, and traces for others and for DRIP."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roamq.cli.options import (
    ABOVE_0,
    FROM_0,
    F,
    conf_option,
    json_option,
    overrides_of,
    spark_options,
    whole_file,
)
from roamq.cli.output import print_json, print_table
from roamq.core.errors import ConfigError

if TYPE_CHECKING:
    from roamq.pipeline.api import LoadedTrace

MEASURES = ("summary", "stay-points", "gyration", "entropy", "flows", "home-work", "risk")
OPTIONS = {
    "stay-points": ("distance_m", "duration_s", "gap_s"),
    "flows": ("duration_s",),
    "risk": ("known", "bin_s"),
}


def trace_options(command: F) -> F:
    """Adds `--traces`, `--format`, `--mapping`, `--set`: which traces are read, and how."""
    for option in (
        click.option(
            "--set", "pairs", multiple=True, metavar="RULE=VALUE", help="Set a cleaning rule; repeatable."
        ),
        click.option(
            "--mapping",
            type=click.Path(dir_okay=False, exists=True, path_type=Path),
            help="A TOML file that names the columns of the traces, instead of --format.",
        ),
        click.option(
            "--format", "format_name", metavar="NAME", help="Format of the traces, such as gps or sumo."
        ),
        click.option("--traces", metavar="PATH", required=True, help="A file or folder."),
    ):
        command = option(command)
    return command


@click.command("mobility")
@click.argument("measure", type=click.Choice(MEASURES), default="summary")
@click.option("--dataset", metavar="NAME", help="Dataset of the warehouse.  [default: the only one]")
@click.option("--distance-m", type=ABOVE_0, help="stay-points: how far a stay extends.  [default: 200]")
@click.option("--duration-s", type=FROM_0, help="stay-points, flows: shortest stay.  [default: 1200]")
@click.option("--gap-s", type=ABOVE_0, help="stay-points: silence that ends a stay.  [default: 3600]")
@click.option("--known", type=click.IntRange(1, 4), help="risk: sites that an observer knows.  [default: 2]")
@click.option(
    "--bin-s", type=click.IntRange(min=0), help="risk: precision of known times; 0: none.  [default: 0]"
)
@click.option(
    "--rows", type=click.IntRange(min=1), default=20, show_default=True, help="Print at most this many."
)
@click.option(
    "--warehouse",
    metavar="PLACE",
    default="warehouse",
    show_default=True,
    help="Where the tables are: a folder, or an address such as s3a://bucket/warehouse.",
)
@spark_options
@conf_option
@json_option
def mobility(
    measure: str,
    dataset: str | None,
    rows: int,
    warehouse: str,
    master: str,
    remote: str | None,
    conf: dict[str, str],
    as_json: bool,
    **limits: Any,
) -> None:
    """Measure how the clients of a dataset move.

    \b
    summary      clients, entropies, the bound on prediction, our best predictors
    stay-points  where clients stayed, found in their positions
    gyration     radius of gyration of each client
    entropy      entropies and predictability of each client
    flows        origin-destination matrix
    home-work    where clients spend nights and office hours
    risk         how few clients fit what an observer knows of one

    \b
    Examples:
      roamq pipeline mobility --dataset cabs
      roamq pipeline mobility risk --dataset cabs --known 2 --bin-s 3600
    """
    from roamq.pipeline.mobility.measures import measured
    from roamq.pipeline.runner import warehouse_settings

    options = {name: value for name, value in limits.items() if value is not None}
    strange = sorted(set(options) - set(OPTIONS.get(measure, ())))
    if strange:
        raise ConfigError(f"--{strange[0].replace('_', '-')}: {measure} does not depend on it")
    settings = warehouse_settings(warehouse, remote=remote, master=master, config=conf)
    columns, lines = measured(settings, warehouse, dataset, measure, options, rows)
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in lines])
    else:
        print_table(columns, lines)


@click.command("pseudonymise")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@trace_options
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    required=True,
    help="The secret of the pseudonyms, 16 bytes or more. Keep it: the same key gives the same pseudonyms.",
)
@click.option(
    "--coarsen-s",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Cut times to multiples of so many seconds.",
)
@spark_options
@conf_option
def pseudonymise(
    out: Path,
    traces: str,
    format_name: str | None,
    mapping: Path | None,
    key_file: Path,
    coarsen_s: int,
    pairs: tuple[str, ...],
    master: str,
    remote: str | None,
    conf: dict[str, str],
) -> None:
    """Write traces to OUT with pseudonyms instead of clients, so that they can be shared.

    OUT gets Parquet files and a mapping that reads them. Sites and positions stay as they are: pseudonyms do not hide a
    client whom its places give away (`roamq pipeline mobility risk`).

    \b
    Examples:
      openssl rand -out key 32
      roamq pipeline pseudonymise shared --traces wlan.csv --format wifi --key-file key --coarsen-s 300
      roamq pipeline run --traces shared --mapping shared/mapping.toml
    """
    from roamq.pipeline.api import load_trace
    from roamq.pipeline.mobility.sharing import write_shared
    from roamq.pipeline.session import SparkSettings, open_session

    with open_session(SparkSettings(master=master, remote=remote, config=conf)) as spark:
        trace = load_trace(
            spark,
            traces,
            format_name,
            mapping=mapping,
            dataset=Path(traces).stem,
            rules=overrides_of(pairs),
            key=key_file.read_bytes(),
            coarsen_s=coarsen_s,
        )
        write_shared(trace, out)
    click.echo(f"{out}: next, roamq pipeline run --traces {out} --mapping {out}/mapping.toml")


@click.command("positions")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@trace_options
@click.option(
    "--begin-s",
    type=FROM_0,
    default=0.0,
    show_default=True,
    help="Begin so many seconds after the first position.",
)
@click.option("--seconds", type=ABOVE_0, help="Last so long.  [default: all]")
@spark_options
@conf_option
def positions(
    out: Path,
    traces: str,
    format_name: str | None,
    mapping: Path | None,
    begin_s: float,
    seconds: float | None,
    pairs: tuple[str, ...],
    master: str,
    remote: str | None,
    conf: dict[str, str],
) -> None:
    """Write the positions of traces to OUT, a .csv or .parquet file that moves mobile brokers.

    A client that is silent for longer than the rule `gap_s` is absent meanwhile, and another node afterwards.

    \b
    Examples:
      roamq pipeline positions cars.csv --traces fcd.xml --format sumo --begin-s 3600 --seconds 300
      roamq simulate drip --scheme all --positions cars.csv
    """
    from roamq.pipeline.api import load_trace
    from roamq.pipeline.mobility.positions import SUFFIXES, write_positions
    from roamq.pipeline.session import SparkSettings, open_session

    if out.suffix not in SUFFIXES:
        raise ConfigError(f"{out}: a file of positions ends with {' or '.join(SUFFIXES)}")
    if (format_name is None) == (mapping is None):
        raise ConfigError("name either a --format that `roamq pipeline formats` lists, or a --mapping")
    settings = SparkSettings(master=master, remote=remote, config=conf)
    with whole_file(out) as beside, open_session(settings) as spark:
        trace = load_trace(spark, traces, format_name, mapping=mapping, rules=overrides_of(pairs))
        if trace.observations.isEmpty():
            raise ConfigError(f"{traces}: {_why_unread(trace)}")
        written = write_positions(trace, beside, begin_s=begin_s, seconds=seconds)
    click.echo(f"{written} positions in {out}; next: roamq simulate drip --positions {out}")


def _why_unread(trace: "LoadedTrace") -> str:
    """Says why a loaded trace has no observation: its first unreadable line, or that it has no line of the format."""
    first = trace.quarantine().orderBy("file", "line").first()
    if first is None:
        return f"there is no line of the format {trace.format.name!r} in it"
    return f"no line could be read as {trace.format.name!r}; line {first['line']}: {first['reason']}"
