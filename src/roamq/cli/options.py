"""Options that several commands share."""

import math
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from roamq.core.errors import ConfigError
from roamq.models.tariff import Tariff
from roamq.pipeline.session import SparkSettings

F = TypeVar("F", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A number within a range. `nan`, which click takes, and infinity are refused: no command goes on for ever."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number that can be used here.", param, ctx)
        return number


ABOVE_0 = FiniteRange(min=0, min_open=True)
FROM_0 = FiniteRange(min=0)


def spark_options(command: F) -> F:
    """Adds `--master` and `--remote`: where Spark runs. The command gets them as keyword arguments."""
    remote = click.option(
        "--remote", metavar="URL", help="A running Spark Connect server, such as sc://host:15002."
    )
    master = click.option(
        "--master", metavar="URL", default="local[*]", show_default=True, help="Where Spark runs its tasks."
    )
    return master(remote(command))


def conf_option(command: F) -> F:
    """Adds `--conf KEY=VALUE`: further settings of Spark. The command gets them as a mapping `conf`."""
    return click.option(
        "--conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=lambda _context, _option, pairs: _conf_of(pairs),
        help="A setting of Spark, such as spark.executor.memory=4g; repeatable.",
    )(command)


def _conf_of(pairs: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip().startswith("spark."):
            raise ConfigError(f"--conf {pair}: write KEY=VALUE, such as --conf spark.executor.memory=4g")
        settings[key.strip()] = value.strip()
    return settings


def spark_settings(master: str, remote: str | None, **more: Any) -> SparkSettings:
    return SparkSettings(master=master, remote=remote, **more)


def tariff_option(command: F) -> F:
    """Adds `--tariff`: what traffic, memory and delay cost. The command gets a `Tariff`, or None without the option."""
    return click.option(
        "--tariff",
        metavar="NAME=PRICE,...",
        callback=lambda _context, _option, text: None if text is None else _tariff_of(text),
        help="Prices by which schemes are compared: traffic (a GB over a link), memory (a GB stored for an hour), "
        "delay (an hour by which a message is late).  [default: traffic=0.1,memory=0.01,delay=0.01]",
    )(command)


def _tariff_of(text: str) -> Tariff:
    try:
        return Tariff.parse(text)
    except ValueError as error:
        raise ConfigError(f"--tariff: {error}") from error


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for a program to read.")(command)


def log_level_option(*, default: str) -> Callable[[F], F]:
    return click.option(
        "--log-level",
        type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]),
        default=default,
        show_default=True,
        help="INFO tells who connects, moves and is denied.",
    )


def authority_option(command: F) -> F:
    """Adds `--authority`: the folder of the key that makes brokers."""
    return click.option(
        "--authority",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of ca.key, which no broker needs.  [default: beside the folder of keys, or of the network]",
    )(command)


def out_option(default: str | None) -> Callable[[F], F]:
    shown = default or "runs/SCENARIO"
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=default,
        help=f"Folder for results; existing runs are reused.  [default: {shown}]",
    )


def results_folder(out: Path) -> Path:
    """Makes the folder of `--out`, and tries to write there before hours of work begin."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as tried:
            tried.write(bytes(4096))  # a full disk still has room for the name of a file
            tried.flush()
            return out
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror}; name another folder") from error


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """Gives a path to write to in place of `out`, and tries it before the work begins. The path becomes `out` if all
    goes well; else it is removed, and `out` is as it was."""
    out = out.resolve()
    beside = out.with_name(f".{out.stem}.part{out.suffix}")
    try:
        if not out.parent.exists():
            out.parent.mkdir(parents=True)
        beside.write_bytes(bytes(4096))  # a full disk still has room for the name of a file
        if out.exists():
            shutil.copymode(out, beside)  # before there are secrets in it
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise ConfigError(f"{out}: cannot be written: {error.strerror}; name another file") from error
    try:
        yield beside
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)


def command_line() -> str:
    """Returns what the operator typed, for the report."""
    return shlex.join(["roamq", *sys.argv[1:]])


def overrides_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Returns `--set key=value` pairs as a mapping."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair}: write key=value, such as --set clients=200")
        overrides[key.strip()] = value.strip()
    return overrides
