"""`roamq simulate`: a campaign over schemes and seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from roamq.cli.options import (
    command_line,
    json_option,
    out_option,
    overrides_of,
    results_folder,
    spark_options,
    spark_settings,
    tariff_option,
)
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress
from roamq.core.errors import ConfigError
from roamq.models.tariff import Tariff
from roamq.pipeline.jobs import Job
from roamq.pipeline.schemas import SummaryRow
from roamq.pipeline.session import SparkSettings
from roamq.report.numbers import with_interval

KEY_METRICS: Final = {
    "throughput": "received/s",
    "loss_pct": "loss %",
    "duplication_pct": "dup. %",
    "latency_s_mean": "latency s",
    "waiting_delay_s_mean": "wait s",
    "waiting_delay_s_p95": "wait p95",
    "overhead": "overhead",
    "transferred_pct": "transf. %",
    "price": "price",
}
"""Metric -> heading, of the metrics shown first. `wait` separates schemes best: the time from a reconnect to the first
message that waited. `price` is that of a million messages by the tariff."""

PRICED_WITH: Final = {"records.buffer_s": "10"}
"""Parameters that a price needs and most scenarios do not set: samples of what brokers store."""

NO_PRICE: Final = "no price: it needs a record of every delivery; add --set records.level=all"


@click.command()
@click.argument("scenario", required=False)
@click.option(
    "--scheme", "schemes", multiple=True, metavar="NAME", help="A mobility scheme; repeatable, or `all`."
)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Runs per scheme.")
@click.option("--seed", type=int, help="Replay this one run in this process, without Spark.")
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE[,VALUE...]",
    help="Set a parameter; repeatable. Several values make a run for each combination.",
)
@click.option(
    "--positions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With drip: nodes move as this CSV or Parquet file of client, time, x, y says (seconds, meters).",
)
@click.option("--list", "list_presets", is_flag=True, help="List the scenarios that come with RoamQ.")
@tariff_option
@click.option("--show", is_flag=True, help="Print the scenario as TOML, with every parameter explained.")
@out_option(None)
@spark_options
@json_option
def command(
    scenario: str | None,
    schemes: tuple[str, ...],
    seeds: int,
    seed: int | None,
    pairs: tuple[str, ...],
    positions: Path | None,
    list_presets: bool,
    tariff: Tariff | None,
    show: bool,
    out: Path | None,
    master: str,
    remote: str | None,
    as_json: bool,
) -> None:
    """Simulate SCENARIO, a preset or a TOML file, under one or several mobility schemes.

    \b
    Examples:
      roamq simulate --list
      roamq simulate testbed --scheme standard --seeds 5
      roamq simulate testbed --scheme all --set clients=200 --out runs/busy
      roamq simulate testbed --scheme standard --set clients=10,50 --out runs/sweep
      roamq simulate testbed --scheme all --tariff delay=5
      roamq simulate drip --scheme all --set parameters.k=30 --set nodes=100
      roamq simulate drip --scheme all --positions cars.csv
      roamq report runs/busy
    """
    from roamq.cli import drip
    from roamq.cli.describe import describe
    from roamq.pipeline.sweep import combinations, jobs_of, split_values
    from roamq.sim.scenario import load_scenario, presets

    if list_presets:
        rows = [(name, load_scenario(name).description) for name in presets()]
        rows.append((drip.NAME, drip.DESCRIPTION))
        print_json(dict(rows)) if as_json else print_table(["scenario", "what it is"], rows)
        return
    if scenario is None:
        raise ConfigError("name a scenario (`roamq simulate --list` shows the presets) or a .toml file")
    if tariff is not None and (show or seed is not None or scenario == drip.NAME):
        raise ConfigError(
            "--tariff: only a campaign has a price, and `drip` none; leave out --show, --seed or --tariff"
        )
    sampled = PRICED_WITH if tariff is not None else {}
    values = {name: split_values(text) for name, text in (sampled | overrides_of(pairs)).items()}
    swept = [name for name, several in values.items() if len(several) > 1]
    grid = combinations(values)
    if (show or seed is not None or scenario == drip.NAME) and swept:
        why = (
            f"`{drip.NAME}` takes no list" if scenario == drip.NAME else "this shows or replays a single run"
        )
        raise ConfigError(f"--set {swept[0]}: give one value: {why}")
    if scenario == drip.NAME:
        _drip(
            schemes,
            seeds,
            seed,
            grid[0],
            positions,
            show=show,
            out=out,
            settings=spark_settings(master, remote),
            as_json=as_json,
        )
        return
    if positions is not None:
        raise ConfigError(f"--positions: only `{drip.NAME}` moves its nodes by positions")
    if show:
        click.echo(describe(load_scenario(scenario, overrides=grid[0], scheme=_one(schemes))))
        return
    if seed is not None:
        _replay(scenario, schemes, seed, grid[0], as_json=as_json)
        return
    jobs = jobs_of(scenario, schemes, range(1, seeds + 1), grid)
    folder = results_folder(out or Path("runs") / Path(scenario).stem)
    _campaign(jobs, folder, spark_settings(master, remote), swept, tariff, as_json)


def _one(schemes: tuple[str, ...]) -> str | None:
    if len(schemes) > 1 or "all" in schemes:
        raise ConfigError("name one --scheme: this shows or replays a single run")
    return schemes[0] if schemes else None


def _replay(
    scenario: str, schemes: tuple[str, ...], seed: int, overrides: dict[str, str], *, as_json: bool
) -> None:
    """Runs once in this process; prints the checkers' counts and the violations that they found."""
    from roamq.sim.scenario import load_scenario, run

    result = run(load_scenario(scenario, overrides=overrides, scheme=_one(schemes)), seed=seed)
    if as_json:
        print_json({"seed": seed, **result.summary(), "violations": result.violations})
    else:
        name = f"{result.scenario.name}, {result.scenario.scheme_name}, seed {seed}"
        print_table(list(result.summary()), [list(result.summary().values())], title=name)
        for violation in result.violations:
            click.echo(f"violated: {violation}", err=True)
    raise SystemExit(1 if result.violations else 0)


def _drip(
    schemes: tuple[str, ...],
    seeds: int,
    seed: int | None,
    overrides: dict[str, str],
    positions: Path | None,
    *,
    show: bool,
    out: Path | None,
    settings: SparkSettings,
    as_json: bool,
) -> None:
    from roamq.cli import drip

    if show:
        click.echo(drip.show(overrides, positions))
    elif seed is not None:
        _one(schemes)
        drip.replay(schemes, seed, overrides, positions, as_json=as_json)
    else:
        jobs = drip.jobs_of(schemes, range(1, seeds + 1), overrides, positions)
        drip.campaign(jobs, results_folder(out or Path("runs") / drip.NAME), settings, as_json=as_json)


def _campaign(
    jobs: list[Job],
    out: Path,
    settings: SparkSettings,
    swept: Sequence[str],
    tariff: Tariff | None,
    as_json: bool,
) -> None:
    from roamq.cli.campaigns import simulate_and_report

    finished = simulate_and_report(
        jobs,
        out,
        settings,
        command=command_line(),
        progress=progress("simulating"),
        swept=swept,
        tariff=tariff,
    )
    if as_json:
        print_json(finished.as_json())
    else:
        print_table(*key_numbers(finished.numbers), numeric=[*KEY_METRICS.values(), "runs"])
        click.echo(f"{len(jobs)} runs in {out}, {finished.made} of them new; next: roamq report {out}")
        if swept:
            click.echo(f"all metrics for every combination, for pandas: {out / 'summary.csv'}")
    if tariff is not None and not any(row.metric == "price" for row in finished.numbers):
        click.echo(NO_PRICE, err=True)
    for line in finished.troubles:
        click.echo(line, err=True)
    raise SystemExit(1 if finished.troubles else 0)


def key_numbers(
    rows: Sequence[SummaryRow], metrics: Mapping[str, str] = KEY_METRICS
) -> tuple[list[str], list[list[object]]]:
    """Arranges the metrics that people ask for first, one line per scheme: the mean, with half its interval if any.

    A metric without a value in any scheme is left out: a price, for example, if nobody sampled what brokers store.
    """
    schemes = list(dict.fromkeys(row.scheme for row in rows))
    found = {(row.scheme, row.metric): row for row in rows if row.entity == "all"}
    shown = {m: label for m, label in metrics.items() if any((scheme, m) in found for scheme in schemes)}
    lines: list[list[object]] = []
    for scheme in schemes:
        cells: list[object] = [
            scheme,
            found[scheme, "published"].runs if (scheme, "published") in found else None,
        ]
        for metric in shown:
            row = found.get((scheme, metric))
            cells.append(None if row is None else with_interval(row.mean, row.high))
        lines.append(cells)
    return ["scheme", "runs", *shown.values()], lines
