"""Sweeps: one scenario under several schemes and for every combination of parameter values, as a table to go on with.

frame = sweep("testbed", {"clients": [10, 50]}, schemes=["standard", "proactive"])
"""

import itertools
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roamq.core.errors import ConfigError
from roamq.pipeline.jobs import Job
from roamq.pipeline.schemas import SummaryRow
from roamq.pipeline.session import SparkSettings
from roamq.schemes.table import scheme_names
from roamq.sim.scenario import load_scenario

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
_OPENS, _CLOSES = "[{(", "]})"


def sweep(
    scenario: str,
    values: Mapping[str, Sequence[Any] | Any],
    *,
    schemes: Sequence[str] = (),
    seeds: int = 3,
    out: Path | str = "runs/sweep",
    settings: SparkSettings | None = None,
) -> "pd.DataFrame":
    """Simulate a scenario for every combination of parameter values; the result is a tidy table.

    `values` maps a parameter, written as for `--set`, to one value or to a list of values. `schemes` are names, or
    "all"; without any, the scenario's own is used. One row stands for a scheme, a combination and a metric; its columns
    are `scheme`, the parameters, `metric`, `runs`, `mean`, `low` and `high` (the 95% confidence interval over seeds).
    Existing runs in `out` are reused.
    """
    from roamq.pipeline.campaign import run_campaign
    from roamq.pipeline.results import summary_rows
    from roamq.pipeline.session import open_session

    grid = combinations({name: _listed(value) for name, value in values.items()})
    jobs = jobs_of(scenario, schemes, range(1, seeds + 1), grid)
    with open_session(settings) as spark:
        return as_frame(summary_rows(run_campaign(spark, jobs, Path(out) / "campaign")))


def combinations(values: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of the values, the first parameter's slowest; one empty combination of no parameters."""
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


def split_values(text: str) -> list[str]:
    """`10,50` as two values; commas in brackets and quotes belong to a value."""
    found, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        depth += (letter in _OPENS) - (letter in _CLOSES) if not quote else 0
        if letter == "," and not depth and not quote:
            found.append("")
        else:
            found[-1] += letter
    return [value.strip() for value in found]


def jobs_of(
    scenario: str, schemes: Sequence[str], seeds: Sequence[int], grid: Iterable[dict[str, str]]
) -> list[Job]:
    """One job per combination, scheme and seed. Every scenario is read, and refused if it is wrong, before anything
    runs."""
    chosen: Sequence[str | None] = (
        scheme_names() if ALL in schemes else list(dict.fromkeys(schemes)) or [None]
    )
    jobs = []
    for overrides, scheme in itertools.product(grid, chosen):
        loaded = load_scenario(scenario, overrides=overrides, scheme=scheme)
        if loaded.duration_s <= loaded.warmup_s:
            raise ConfigError(
                f"duration_s: {loaded.duration_s:g} s leave nothing to measure after warmup_s, {loaded.warmup_s:g} s; "
                "give more, or --set warmup_s=0"
            )
        payload = json.loads(loaded.to_json())
        given = "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in overrides.items())
        jobs += [
            Job(
                scenario=loaded.name,
                scheme=loaded.scheme_name,
                seed=seed,
                params=overrides,
                payload=payload,
                replay=f"roamq simulate {scenario} --scheme {loaded.scheme_name}{given} --seed {seed}",
            )
            for seed in seeds
        ]
    return jobs


def as_frame(rows: Sequence[SummaryRow]) -> "pd.DataFrame":
    """The metrics of whole runs as a tidy table: scheme, parameters, metric, runs, mean, low, high."""
    import pandas as pd

    names = sorted({name for row in rows for name in row.params})
    table = [
        {
            "scheme": row.scheme,
            **{name: _number(row.params.get(name)) for name in names},
            **{name: getattr(row, name) for name in ("metric", "runs", "mean", "low", "high")},
        }
        for row in rows
        if row.entity == ALL
    ]
    columns = ["scheme", *names, "metric", "runs", "mean", "low", "high"]
    return pd.DataFrame(table, columns=columns).sort_values(["metric", *names, "scheme"], ignore_index=True)


def label(scheme: str, params: Mapping[str, str], swept: Iterable[str]) -> str:
    """A scheme with the values of the parameters that differ between runs."""
    return ", ".join([scheme, *(f"{name}={params[name]}" for name in swept if name in params)])


def _listed(value: Any) -> list[str]:
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return [one if isinstance(one, str) else json.dumps(one) for one in values]


def _number(text: str | None) -> Any:
    for kind in (int, float):
        try:
            return kind(text) if text is not None else None
        except ValueError:
            continue
    return text
