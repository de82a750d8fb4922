"""A question is a struct: its fields are the options, the keys of the TOML file and the names in messages.

`asks` makes a command of a function from question to answer. Learned values override the preset, the file overrides
both, and options override all. An error names the field whose value is wrong, and the exit code is 2.
"""

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import click
import msgspec

from roamq.cli.options import json_option
from roamq.cli.plan.answer import Answer, show
from roamq.cli.plan.sweep import Measures, field_named, solve, unused_where_varied
from roamq.cli.plan.sweep import sweep as sweep_over
from roamq.cli.suggest import did_you_mean
from roamq.core.errors import ConfigError
from roamq.report.files import check_name

Q = TypeVar("Q", bound=msgspec.Struct)

Presets = Mapping[str, Mapping[str, Any]]

LearnedFields = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Makes fields from the pipeline's tables: values given, `warehouse` among them -> the fields that the tables fill."""


Unused = Callable[[Any], dict[str, str]]
"""Question -> the fields that its answer does not depend on, each with the reason: giving one is an error."""


def about(text: str, **limits: Any) -> Any:
    """Describes a field and its limits: `Annotated[float, about("Events per second.", gt=0)]`."""
    return msgspec.Meta(description=text, **limits)


def asks(
    name: str,
    question: type[Q],
    presets: Presets | None = None,
    learned: LearnedFields | None = None,
    unused: Unused | None = None,
    measures: Measures | None = None,
) -> Callable[[Callable[[Q, str | None], Answer]], click.Command]:
    """Turns `answer(question, preset)` into the command `name`, whose help is the function's docstring."""

    def decorate(function: Callable[[Q, str | None], Answer]) -> click.Command:
        def run(
            config: Path | None,
            preset: str | None,
            figure: Path | None,
            as_json: bool,
            sweep: str | None = None,
            solve_for: str | None = None,
            target: str | None = None,
            **options: Any,
        ) -> None:
            if figure is not None:
                check_name(figure)
            given = {key: value for key, value in options.items() if value is not None}
            if (solve_for is None) != (target is None):
                raise ConfigError("--solve-for, --target: give both, as --solve-for rate --target p95=30")
            if sweep is not None and solve_for is not None:
                raise ConfigError("--sweep, --solve-for: give one of them")
            key = solve_for if sweep is None else sweep.partition("=")[0]
            varied = None if key is None or measures is None else field_named(question, key, measures)
            asked = read(
                question,
                config,
                dict((presets or {}).get(preset or "", {})),
                given,
                learned,
                partial(unused_where_varied, unused or _none, measures, varied),
                varied,
            )
            try:
                if measures is not None and sweep is not None:
                    answer = sweep_over(asked, sweep, measures)
                elif measures is not None and solve_for is not None and target is not None:
                    answer = solve(asked, solve_for, target, measures)
                else:
                    answer = function(asked, preset)
            except (ValueError, ArithmeticError) as error:  # the models name the field at fault
                raise ConfigError(str(error)) from error
            show(answer, as_json=as_json, figure=figure)

        command = click.command(name, help=function.__doc__)(run)
        command.params += _parameters(question, presets or {})
        command.params += _sweep_parameters() if measures is not None else []
        return json_option_on(command)

    return decorate


def _none(_: Any) -> dict[str, str]:
    return {}


def _sweep_parameters() -> list[click.Parameter]:
    return [
        click.Option(
            ["--sweep"], metavar="KEY=A:B:N", help="Instead: answers at N values of a field, from A to B."
        ),
        click.Option(
            ["--solve-for"], metavar="KEY", help="Instead: the value of a field that just meets the target."
        ),
        click.Option(
            ["--target"], metavar="NAME=X", help="What --solve-for must meet, as p95=30 or mean=10."
        ),
    ]


def json_option_on(command: click.Command) -> click.Command:
    """Adds the shared `--json` to a command that exists already."""
    holder = json_option(lambda: None)
    command.params += holder.__click_params__  # type: ignore[attr-defined]
    return command


def read(
    question: type[Q],
    config: Path | None,
    preset: dict[str, Any],
    options: dict[str, Any],
    learned: LearnedFields | None = None,
    unused: Unused | None = None,
    varied: str | None = None,
) -> Q:
    """Reads a question from preset, tables, file and options; a later one of these overrides the earlier ones.

    `varied` is the field to which a sweep, or a question asked backwards, gives values: the answer must depend on it.
    """
    given = {**(_toml(config) if config else {}), **_parsed(question, options)}
    tables = learned(given) if learned and given.get("warehouse") else {}
    values = {**preset, **tables, **given}
    source = f"{config}: " if config else ""
    known = [field.name for field in msgspec.structs.fields(question)]
    for key in values:
        if key not in known:
            raise ConfigError(f"{source}{key}: no such field{did_you_mean(key, known)}")
    missing = [
        field.name
        for field in msgspec.structs.fields(question)
        if field.required and field.name not in values
    ]
    if missing:
        option = missing[0].replace("_", "-")
        raise ConfigError(f"{source}{missing[0]}: is needed; give it in the file, or as --{option}")
    try:
        asked = msgspec.convert(values, type=question, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}{_named(str(error))}") from error
    for field in _infinite(msgspec.to_builtins(asked)):
        raise ConfigError(f"{source}{field}: must be a finite number")
    for field, reason in (unused(asked) if unused else {}).items():
        if field in given or field == varied:
            raise ConfigError(f"{source}{field}: {reason}; leave it out")
    return asked


def _infinite(value: Any, name: str = "") -> Iterator[str]:
    """Yields the names of the numbers that are infinite or no number at all."""
    if isinstance(value, float) and not math.isfinite(value):
        yield name
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _infinite(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _infinite(part, name)


def _named(message: str) -> str:
    """Puts the field first in msgspec's `... - at `$.rate``."""
    match = re.fullmatch(r"(.*) - at `\$\.?(.*)`", message)
    return f"{match[2]}: {match[1][0].lower()}{match[1][1:]}" if match and match[2] else message


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error


def _parsed(question: type[msgspec.Struct], options: dict[str, Any]) -> dict[str, Any]:
    """Splits the options that are lists: the command line writes them with commas."""
    kinds = get_type_hints(question)
    return {key: _listed(key, value) if _is_list(kinds[key]) else value for key, value in options.items()}


def _listed(key: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ConfigError(f"{key}: give at least one value, or leave it out")
    return parts


def _parameters(question: type[msgspec.Struct], presets: Presets) -> list[click.Parameter]:
    parameters: list[click.Parameter] = [
        click.Argument(
            ["config"], required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
        )
    ]
    plain, annotated = get_type_hints(question), get_type_hints(question, include_extras=True)
    for field in msgspec.structs.fields(question):
        if _is_table(plain[field.name]):
            continue  # options cannot hold tables, a file can
        default = field.default if field.default is not msgspec.NODEFAULT else None
        if default is None and field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory() or None
        parameters.append(
            click.Option(
                [f"--{field.name.replace('_', '-')}", field.name],
                metavar=_metavar(plain[field.name]),
                is_flag=plain[field.name] is bool,
                default=None,
                help=_description(annotated[field.name])
                + (f"  [default: {_shown(default)}]" if default not in (None, False) else ""),
            )
        )
    parameters.append(
        click.Option(
            ["--preset"],
            type=click.Choice(sorted(presets)),
            help="A worked example: a paper's, where it prints one.",
        )
        if presets
        else click.Option(["--preset"], hidden=True)
    )
    parameters.append(
        click.Option(
            ["--figure"],
            type=click.Path(dir_okay=False, path_type=Path),
            help="Also draw the answer: a .png, .svg or .pdf file.",
        )
    )
    return parameters


def _shown(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, list) else f"{default}"


def _description(hint: Any) -> str:
    """Returns the text of `about`, also from inside `Annotated[...] | None`."""
    metas = [meta for meta in getattr(hint, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    if metas:
        return metas[0].description or ""
    return next((text for part in get_args(hint) if (text := _description(part))), "")


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Returns the members of an optional or annotated type, without None."""
    if get_origin(hint) is Annotated:
        return _kinds(get_args(hint)[0])
    members = get_args(hint) if get_origin(hint) is not None and type(None) in get_args(hint) else (hint,)
    return tuple(member for member in members if member is not type(None))


def _is_list(hint: Any) -> bool:
    return any(get_origin(kind) is list for kind in _kinds(hint))


def _is_table(hint: Any) -> bool:
    def holds_tables(kind: Any) -> bool:
        return (
            get_origin(kind) is dict
            or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))
            or (get_origin(kind) is list and holds_tables(get_args(kind)[0]))
        )

    return any(holds_tables(kind) for kind in _kinds(hint))


def _metavar(hint: Any) -> str:
    if _is_list(hint):
        return "A,B,..."
    kind = _kinds(hint)[0]
    return {int: "N", float: "X", bool: ""}.get(kind, "NAME")
