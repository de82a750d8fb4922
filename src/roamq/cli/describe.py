"""A scenario as a TOML file in which every parameter is explained. Reading it back gives the same scenario."""

import inspect
import typing
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import msgspec

from roamq.config import strings_under_fields, to_toml
from roamq.schemes.base import SchemeOptions
from roamq.sim import mobility, workload
from roamq.sim.scenario import Scenario, mobility_of, scheme_options, workload_of

COMMENT_COLUMN = 44


def describe(scenario: Scenario) -> str:
    """Returns a scenario as TOML with a comment per parameter, those at their defaults included."""
    plain: list[str] = []
    groups: list[str] = []
    for name, value, about in parameters(scenario):
        if isinstance(value, msgspec.Struct):
            groups += _group(name, type(value), parameters(value))
        elif name == "scheme":
            options = scheme_options(scenario)
            groups += ["", f"[{name}]", line("name", scenario.scheme_name, "the mobility scheme")]
            groups += [line(*parameter) for parameter in scheme_parameters(options)]
        elif name in ("mobility", "workload"):
            model = mobility_of(scenario) if name == "mobility" else workload_of(scenario)
            known = mobility.MODELS if name == "mobility" else workload.MODELS
            groups += ["", f"[{name}]  # {first_line(type(model))}"]
            groups.append(line("model", model.model, f"one of {', '.join(sorted(known))}"))
            groups += [line(*parameter) for parameter in parameters(model)]
        elif value is None:
            hint = typing.get_type_hints(type(scenario), include_extras=True)[name]
            absent = next((kind for kind in typing.get_args(hint) if isinstance(kind, type)), None)
            groups += ["", f"# [{name}]  # {first_line(absent) if absent else about}"]
            groups += [f"# {line(*p)}" for p in (parameters(absent()) if absent else ())]
        else:
            plain.append(line(name, value, about))
    return "\n".join(plain + groups)


def parameters(group: msgspec.Struct) -> Iterator[tuple[str, Any, str]]:
    """Yields name, value and meaning of each parameter of a group."""
    hints = typing.get_type_hints(type(group), include_extras=True)
    for name in group.__struct_fields__:
        notes = [n for n in getattr(hints[name], "__metadata__", ()) if isinstance(n, msgspec.Meta)]
        about = next((note.description for note in reversed(notes) if note.description), "")
        yield name, getattr(group, name), about


def scheme_parameters(options: SchemeOptions) -> Iterator[tuple[str, Any, str]]:
    """Yields name, value and meaning of each option of a scheme; the meanings stand as strings under the fields."""
    meanings: dict[str, str] = {}
    for kind in reversed(type(options).__mro__[:-1]):
        meanings |= strings_under_fields(kind)
    for field in fields(options):
        yield field.name, getattr(options, field.name), meanings.get(field.name, "")


def line(name: str, value: Any, about: str) -> str:
    """Writes one parameter. TOML has no null: a parameter that is not set is written as a comment."""
    text = f"# {name} = ..." if value is None else f"{name} = {to_toml(msgspec.to_builtins(value))}"
    return f"{text:<{COMMENT_COLUMN}}  # {about}".rstrip(" #") if about else text


def first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _group(name: str, kind: type, rows: Iterator[tuple[str, Any, str]]) -> list[str]:
    return ["", f"[{name}]  # {first_line(kind)}", *(line(*row) for row in rows)]
