"""`roamq simulate`: a campaign over schemes and seeds."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from roamq.cli.options import json_option, out_option, overrides_of, spark_options, spark_settings
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress
from roamq.core.errors import ConfigError
from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Measured
from roamq.pipeline.session import SparkSettings
from roamq.report.numbers import with_interval

KEY_METRICS = {
    "throughput": "received/s",
    "loss_pct": "loss %",
    "duplication_pct": "dup. %",
    "latency_s_mean": "latency s",
    "handoff_s_mean": "handoff s",
    "handoff_s_p95": "handoff p95",
    "overhead": "overhead",
    "transferred_pct": "transf. %",
}


@click.command()
@click.argument("scenario", required=False)
@click.option("--scheme", "schemes", multiple=True, metavar="NAME", help="Repeat for several; or `all`.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Runs per scheme.")
@click.option("--seed", type=int, help="Replay this one run here, without Spark.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Change a parameter; repeatable.")
@click.option("--list", "list_presets", is_flag=True, help="The scenarios that come with RoamQ.")
@click.option("--show", is_flag=True, help="The scenario with every parameter explained, as TOML.")
@out_option(None)
@spark_options
@json_option
def command(
    scenario: str | None,
    schemes: tuple[str, ...],
    seeds: int,
    seed: int | None,
    pairs: tuple[str, ...],
    list_presets: bool,
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
      roamq report runs/busy
    """
    from roamq.cli.describe import describe
    from roamq.sim.scenario import load_scenario, presets

    if list_presets:
        rows = [(name, load_scenario(name).description) for name in presets()]
        print_json(dict(rows)) if as_json else print_table(["scenario", "what it is"], rows)
        return
    if scenario is None:
        raise ConfigError("name a scenario (`roamq simulate --list` shows the presets) or a .toml file")
    overrides = overrides_of(pairs)
    if show:
        click.echo(describe(load_scenario(scenario, overrides=overrides, scheme=_one(schemes))))
        return
    if seed is not None:
        _replay(scenario, schemes, seed, overrides, as_json=as_json)
        return
    jobs = jobs_of(scenario, schemes, range(1, seeds + 1), overrides)
    _campaign(jobs, out or Path("runs") / Path(scenario).stem, spark_settings(master, remote), as_json)


def jobs_of(
    scenario: str, schemes: Sequence[str], seeds: Sequence[int], overrides: dict[str, str]
) -> list[Job]:
    """One job per scheme and seed; every scenario is read, and refused, before anything runs."""
    from roamq.schemes import scheme_names
    from roamq.sim.scenario import load_scenario

    chosen: Sequence[str | None] = (
        scheme_names() if "all" in schemes else list(dict.fromkeys(schemes)) or [None]
    )
    jobs = []
    for scheme in chosen:
        loaded = load_scenario(scenario, overrides=overrides, scheme=scheme)
        payload = json.loads(loaded.to_json())
        settings = "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in overrides.items())
        jobs += [
            Job(
                scenario=loaded.name,
                scheme=loaded.scheme_name,
                seed=seed,
                params=overrides,
                payload=payload,
                replay=f"roamq simulate {scenario} --scheme {loaded.scheme_name}{settings} --seed {seed}",
            )
            for seed in seeds
        ]
    return jobs


def _one(schemes: tuple[str, ...]) -> str | None:
    if len(schemes) > 1 or "all" in schemes:
        raise ConfigError("name one --scheme: this shows or replays a single run")
    return schemes[0] if schemes else None


def _replay(
    scenario: str, schemes: tuple[str, ...], seed: int, overrides: dict[str, str], *, as_json: bool
) -> None:
    """One run in this process: the checkers' counts, and what they found."""
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


def _campaign(jobs: list[Job], out: Path, settings: SparkSettings, as_json: bool) -> None:
    from roamq.cli.campaigns import simulate_and_report

    finished = simulate_and_report(jobs, out, settings, command=_typed(), progress=progress("simulating"))
    if as_json:
        print_json(finished.as_json())
    else:
        print_table(*key_numbers(finished.measured), numeric=[*KEY_METRICS.values(), "runs"])
        click.echo(f"{len(jobs)} runs, {finished.made} of them made now, in {out}; next: roamq report {out}")
    for line in finished.troubles:
        click.echo(line, err=True)
    raise SystemExit(1 if finished.troubles else 0)


def key_numbers(rows: Sequence[Measured]) -> tuple[list[str], list[list[object]]]:
    """The metrics people ask for first, one line per scheme: mean, and half the interval where there is one.

    What no scheme has a value for is left out: brokers as processes do not count what crosses their links.
    """
    schemes = list(dict.fromkeys(row.scheme for row in rows))
    found = {(row.scheme, row.metric): row for row in rows if row.entity == "all"}
    shown = {m: label for m, label in KEY_METRICS.items() if any((scheme, m) in found for scheme in schemes)}
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


def _typed() -> str:
    """The command line of this call, for the report."""
    import sys

    return shlex.join(["roamq", *sys.argv[1:]])
