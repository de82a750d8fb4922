"""`roamq simulate drip`: networks in which the brokers are mobile nodes themselves ([DRIP]).

A setting (`manet.simulation.experiment.Setting`) takes the place of a scenario, and the metrics are those of regions.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from roamq.cli.options import command_line
from roamq.cli.output import print_json, print_table
from roamq.cli.progress import progress
from roamq.config import Source, apply_overrides, bind, suggestion, to_toml
from roamq.core.errors import ConfigError
from roamq.manet.simulation.experiment import SCHEMES, Setting
from roamq.manet.simulation.experiment import run as run_setting
from roamq.manet.simulation.positions import read_positions
from roamq.pipeline.jobs import Job
from roamq.pipeline.schemas import SummaryRow
from roamq.pipeline.session import SparkSettings
from roamq.report.exhibits import Figure, Section, Series
from roamq.report.numbers import with_interval
from roamq.report.page import Page, write_page
from roamq.reproduce.drip_runs import COVERAGE, DELAY, RATIO, TRANSMISSIONS, job_of

NAME: Final = "drip"
DESCRIPTION: Final = (
    "[DRIP]: mobile nodes elect brokers; schemes drip, sf (epidemic), spray-and-wait, prophet"
)

SHOWN: Final = {
    RATIO: "delivered",
    DELAY: "delay s",
    f"{DELAY}_p90": "delay p90",
    COVERAGE: "coverage",
    TRANSMISSIONS: "transmissions",
}
"""Metric -> heading. Transmissions are those per delivery; coverage is the share of brokers with a copy."""


def setting_of(overrides: Mapping[str, str], positions: Path | None = None) -> Setting:
    """Returns the paper's setting with the `--set` overrides; refuses an unknown or wrong one by its name.

    With a file of positions, the clients of the file are the nodes. Unless an override says otherwise, events are
    published until the last ones have just the time to arrive before the positions end.
    """
    chosen = _paper_setting(overrides)
    if positions is None:
        return chosen
    if "nodes" in overrides:
        raise ConfigError("--set nodes: with --positions the clients of the file are the nodes")
    recorded = read_positions(positions)
    publishing_s = chosen.publishing_s
    if "publishing_s" not in overrides:
        publishing_s = recorded.duration_s - chosen.warm_up_s - chosen.drain_s
    if publishing_s <= 0:
        raise ConfigError(
            f"{positions}: the positions last {recorded.duration_s:g} s, which is no longer than warm_up_s and drain_s "
            f"together; set these, or publishing_s"
        )
    # Spark's workers run in other folders, so they need the whole path.
    path = str(positions.resolve())
    return replace(chosen, nodes=len(recorded.clients), publishing_s=publishing_s, positions=path)


def _paper_setting(overrides: Mapping[str, str]) -> Setting:
    values = Setting().to_payload()
    for key in overrides:
        if key == "positions":
            raise ConfigError("--set positions: give the file as --positions FILE")
        if not _is_known(values, key.split(".")):
            raise ConfigError(f"--set {key}: unknown{suggestion(key, _names(values))}")
    given = {name: value for name, value in values.items() if value is not None}
    apply_overrides(given, overrides)
    return bind(Setting, given, "", Source(NAME))


def _names(values: Mapping[str, object], prefix: str = "") -> list[str]:
    names = []
    for name, value in values.items():
        names += _names(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [prefix + name]
    return names


def _is_known(values: Mapping[str, object], path: Sequence[str]) -> bool:
    if path[0] not in values:
        return False
    inner = values[path[0]]
    return len(path) == 1 or inner is None or (isinstance(inner, Mapping) and _is_known(inner, path[1:]))


def jobs_of(
    schemes: Sequence[str],
    seeds: Sequence[int],
    overrides: Mapping[str, str],
    positions: Path | None = None,
) -> list[Job]:
    """Makes one job per scheme and seed; runs of one seed share movements, subscriptions and events."""
    chosen = setting_of(overrides, positions)
    moved = {} if positions is None else {"positions": str(positions)}
    names = SCHEMES if "all" in schemes else tuple(dict.fromkeys(schemes)) or (chosen.scheme,)
    settings = "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in overrides.items())
    settings += "".join(f" --positions {shlex.quote(path)}" for path in moved.values())
    jobs = []
    for name in names:
        if name not in SCHEMES:
            raise ConfigError(f"--scheme {name}: with drip there are {', '.join(SCHEMES)}")
        for seed in seeds:
            command = f"roamq simulate drip --scheme {name}{settings} --seed {seed}"
            job = job_of(replace(chosen, scheme=name), seed)
            jobs.append(replace(job, params={**job.params, **overrides, **moved}, replay=command))
    return jobs


def show(overrides: Mapping[str, str], positions: Path | None = None) -> str:
    """Returns the setting as TOML."""
    values = setting_of(overrides, positions).to_payload()
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    lines = [f"{key} = {to_toml(value)}" for key, value in plain.items() if value is not None]
    for group in (key for key, value in values.items() if isinstance(value, dict)):
        lines += ["", f"[{group}]", *(f"{key} = {to_toml(value)}" for key, value in values[group].items())]
    return "\n".join(lines)


def replay(
    schemes: Sequence[str],
    seed: int,
    overrides: Mapping[str, str],
    positions: Path | None = None,
    *,
    as_json: bool,
) -> None:
    """Runs once in this process, and prints how often each thing happened."""
    (job,) = jobs_of(schemes, [seed], overrides, positions)
    counts: dict[str, int] = {}
    for record in run_setting(Setting.from_payload(job.payload), seed):
        counts[record.kind] = counts.get(record.kind, 0) + 1
    if as_json:
        print_json({"seed": seed, "scheme": job.scheme, "records": counts})
    else:
        print_table(list(counts), [list(counts.values())], title=f"drip, {job.scheme}, seed {seed}")


def campaign(jobs: Sequence[Job], out: Path, settings: SparkSettings, *, as_json: bool) -> None:
    """Makes the runs, measures them, and leaves `summary.json` and a report in `out`."""
    from roamq.pipeline.campaign import run_campaign
    from roamq.pipeline.regions import region_summary
    from roamq.pipeline.results import rows_of, run_rows, trouble_line
    from roamq.pipeline.session import open_session

    with progress("simulating") as report:
        report.phase("starting Spark")
        with open_session(settings) as spark:
            report.phase("simulating")
            made = run_campaign(spark, jobs, out / "campaign", progress=report)
            report.phase("measuring")
            numbers = [SummaryRow(**row) for row in rows_of(made, region_summary)]
            runs = run_rows(made)
    troubles = [trouble_line(row) for row in runs if row.status != "ok"]
    plain = {"summary": [row._asdict() for row in numbers], "troubles": troubles}
    out.mkdir(parents=True, exist_ok=True)
    (out / "summary.json").write_text(json.dumps(plain, indent=1))
    write_page(page_of(numbers, command=command_line(), warnings=troubles), out)
    if as_json:
        print_json(plain)
    else:
        print_table(*key_numbers(numbers), numeric=[*SHOWN.values(), "runs"])
        click.echo(f"{len(jobs)} runs in {out}, {made.made} of them new; next: roamq report {out}")
    raise SystemExit(1 if troubles else 0)


def key_numbers(rows: Sequence[SummaryRow]) -> tuple[list[str], list[list[object]]]:
    found = {(row.scheme, row.metric): row for row in rows if row.entity == "all"}
    lines: list[list[object]] = []
    for scheme in dict.fromkeys(row.scheme for row in rows):
        of = [found.get((scheme, metric)) for metric in SHOWN]
        runs = next((row.runs for row in of if row is not None), None)
        lines.append([scheme, runs, *(row and with_interval(row.mean, row.high) for row in of)])
    return ["scheme", "runs", *SHOWN.values()], lines


def page_of(rows: Sequence[SummaryRow], *, command: str, warnings: Sequence[str]) -> Page:
    figures = []
    for metric, label in SHOWN.items():
        of = sorted((r for r in rows if (r.metric, r.entity) == (metric, "all")), key=lambda r: r.scheme)
        bounded = bool(of) and all(row.low is not None and row.high is not None for row in of)
        series = Series(
            name=label,
            x=[row.scheme for row in of],
            y=[row.mean for row in of],
            low=[row.low or 0.0 for row in of] if bounded else None,
            high=[row.high or 0.0 for row in of] if bounded else None,
        )
        figures.append(Figure(title=label, kind="bar", x_label="", y_label=label, series=[series]))
    sections = [Section(title="What was measured", text=DESCRIPTION, figures=figures)]
    return Page(title="Brokers that move", command=command, sections=sections, warnings=warnings)
