"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from roamq.core.errors import ConfigError
from roamq.pipeline.session import SparkSettings

F = TypeVar("F", bound=Callable[..., Any])


def spark_options(command: F) -> F:
    """`--master` and `--remote`: where Spark runs. The command gets them as keyword arguments."""
    remote = click.option("--remote", metavar="URL", help="A running Spark Connect server: sc://host:15002.")
    master = click.option(
        "--master", metavar="URL", default="local[*]", show_default=True, help="Where the tasks run."
    )
    return master(remote(command))


def spark_settings(master: str, remote: str | None, **more: Any) -> SparkSettings:
    return SparkSettings(master=master, remote=remote, **more)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for a program to read.")(command)


def out_option(default: str | None) -> Callable[[F], F]:
    shown = default or "runs/SCENARIO"
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=default,
        help=f"Folder for results; runs that it holds are not made again.  [default: {shown}]",
    )


def overrides_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """`--set key=value` pairs as a mapping."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair}: write key=value, such as --set clients=200")
        found[key.strip()] = value.strip()
    return found
