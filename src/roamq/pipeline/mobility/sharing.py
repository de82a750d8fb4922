"""A copy of a trace that may be shared: pseudonyms instead of clients, coarser times, and a mapping that reads it."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from roamq.core.errors import ConfigError

if TYPE_CHECKING:
    from roamq.pipeline.api import LoadedTrace

MAPPING: Final = """\
# How the pipeline reads the files in this folder.
file = "parquet"
name = "shared"
about = "{about}"

[time]
column = "time"
zone = "{zone}"

[client]
column = "client"

[class]
columns = ["client_class"]

[state]
column = "connected"
connected = ["true"]
disconnected = ["false"]
{places}
[rules]
{rules}
"""
SITE: Final = """
[site]
column = "site"
"""
POSITION: Final = """
[position]
x = "x"
y = "y"
unit = "{unit}"
"""
RULES: Final = (
    "at_one_instant",
    "gap_s",
    "silence",
    "credit_s",
    "ping_pong_s",
    "max_speed_mps",
    "min_observations",
)


def write_shared(trace: "LoadedTrace", out: Path) -> None:
    """Write the observations of a trace to `out` as Parquet, with `mapping.toml` beside them. `out` must be new."""
    if out.exists():
        raise ConfigError(
            f"{out} exists: name a folder that does not, so that nothing of another trace is in it"
        )
    trace.observations.drop("tie").sort("time").write.parquet(str(out.resolve()))
    rules = trace.rules
    told = [f"{name} = {_toml(getattr(rules, name))}" for name in RULES]
    places = SITE
    if trace.format.has_coordinates:
        places += POSITION.format(unit="degrees" if trace.in_degrees else "metres")
    text = MAPPING.format(
        about=f"{trace.dataset}, with pseudonyms", zone=rules.time_zone, places=places, rules="\n".join(told)
    )
    (out / "mapping.toml").write_text(text, encoding="utf-8")


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
