"""Read TOML that people write into checked groups of parameters; errors name the file, the line and the field."""

import ast
import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from roamq.core.choices import choose_from, nearest
from roamq.core.errors import ConfigError

T = TypeVar("T")
_HEADER = re.compile(r"\s*\[+\s*([^\]=]+?)\s*\]+\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\-\"]+)\s*=")
_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_VALUE = re.compile(r"Invalid enum value (.*)", re.DOTALL)
_ENTRY = re.compile(r"(.*)\[(\d+)\](?:\.([^.\[\]]+).*)?")
_PATH = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)


class Source:
    """A TOML text, so that an error can say on which line a field stands."""

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        self.lines = text.splitlines()

    def place(self, field: str) -> str:
        """`name, line 7` if the field is found in the text, else the name alone."""
        table, _, key = field.rpartition(".")
        entry = _ENTRY.fullmatch(field)
        if entry:
            at = self._line_of_entry(entry.group(1), int(entry.group(2)), entry.group(3) or "")
            if at is not None:
                return f"{self.name}, line {at}"
            table = entry.group(1)
        current = ""
        fallback = None
        for number, line in enumerate(self.lines, 1):
            header = _HEADER.match(line)
            if header:
                current = header.group(1).replace('"', "")
                if current == field:
                    fallback = number
                continue
            name = _KEY.match(line)
            if name and ".".join(part for part in (current, name.group(1).strip('"')) if part) in (
                field,
                table,
            ):
                fallback = number
                if key == name.group(1).strip('"') or current + "." + name.group(1) == field:
                    return f"{self.name}, line {number}"
        return f"{self.name}, line {fallback}" if fallback else self.name

    def _line_of_entry(self, array: str, index: int, key: str) -> int | None:
        """The line of an entry of an array: under the `[[array]]` of that number, or at its `{` after `array = [`.

        If the entries are no tables, it is the line of `array = [`."""
        table, _, name = array.rpartition(".")
        current, entries, found, braces = "", -1, None, -1
        for number, line in enumerate(self.lines, 1):
            if header := _HEADER.match(line):
                if braces >= 0:
                    return found
                current, braces = header.group(1).replace('"', ""), -1
                if line.lstrip().startswith("[[") and current == array:
                    entries += 1
                    if entries == index:
                        found = number
                continue
            given = _KEY.match(line)
            if found is not None and current == array and entries == index and given:
                if given.group(1) == key:
                    return number
            elif given and current == table and given.group(1) == name:
                braces, found = 0, number
            elif given and braces >= 0:
                return found
            if braces >= 0:
                braces += line.partition("#")[0].count("{")
                if braces > index:
                    return number
        return found


def read_toml(path: Path) -> tuple[dict[str, Any], Source]:
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not a text file: {error.reason} at byte {error.start}") from error
    return parse_toml(text, str(path))


def parse_toml(text: str, name: str) -> tuple[dict[str, Any], Source]:
    try:
        return tomllib.loads(text), Source(name, text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: not valid TOML: {error}") from error


def bind(kind: type[T], data: Any, field: str, source: Source) -> T:
    """Check `data` against the parameter group `kind`; `field` is where it stands in the scenario."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        found = _PATH.match(str(error))
        assert found is not None
        reason, inner = found.group(1), (found.group(2) or "")
        unknown = re.search(r"unknown field `([^`]+)`", reason)
        if unknown:
            inner = f"{inner}.{unknown.group(1)}".strip(".")
            names = [name for one in _types_at(kind, inner.rpartition(".")[0]) for name in _fields(one)]
            reason = "unknown field" + suggestion(unknown.group(1), names)
        elif allowed := [value for one in _types_at(kind, inner) for value in _values(one)]:
            value = _VALUE.fullmatch(reason)
            given = value.group(1) if value else ""
            reason = f"{given} is no choice" if value else reason
            reason += choose_from(given.strip("'"), allowed)
        where = f"{field}.{inner}".strip(".")
        raise ConfigError(f"{source.place(where)}: {where}: {reason[:1].lower()}{reason[1:]}") from error


def _types_at(kind: Any, inner: str) -> list[Any]:
    """What may stand at a place within a group of parameters, as msgspec names it: `listeners[0].kind`."""
    kinds = list(_alternatives(kind))
    for name, index in _STEP.findall(inner):
        if name:
            found = [_fields(one)[name] for one in kinds if name in _fields(one)]
        else:
            found = [_element(one, index) for one in kinds if get_args(one)]
        kinds = [one for each in found for one in _alternatives(each)]
    return kinds


def _alternatives(kind: Any) -> Iterator[Any]:
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif origin is Union or origin is UnionType:
        for one in get_args(kind):
            yield from _alternatives(one)
    else:
        yield kind


def _element(kind: Any, index: str) -> Any:
    """The type of an element of a list or tuple, or of a value of a mapping."""
    arguments = [one for one in get_args(kind) if one is not Ellipsis]
    if get_origin(kind) is tuple and index.isdigit() and int(index) < len(arguments):
        return arguments[int(index)]
    return arguments[-1]


def _fields(kind: Any) -> dict[str, Any]:
    """The fields of a group of parameters; none for anything else."""
    is_group = isinstance(kind, type) and hasattr(kind, "__annotations__")
    return get_type_hints(kind, include_extras=True) if is_group else {}


def _values(kind: Any) -> list[Any]:
    """The values of a type that has a few; none for anything else."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [one.value for one in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` or the list of what there is."""
    names = sorted(known)
    close = nearest(word, names)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; known are {', '.join(names)}" if names else ""


def apply_overrides(data: dict[str, Any], overrides: Mapping[str, str]) -> None:
    """`--set mobility.connect_s=60`: the value is read as TOML, or taken as a string if it is not."""
    for key, text in overrides.items():
        table = data
        *parents, last = key.split(".")
        for parent in parents:
            table = table.setdefault(parent, {})
            if not isinstance(table, dict):
                raise ConfigError(f"--set {key}={text}: {parent!r} is not a group of parameters")
        table[last] = _value(text)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def to_toml(value: Any) -> str:
    """A value as TOML; only what scenarios use (strings and arrays look the same in TOML and JSON)."""
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{json.dumps(k)} = {to_toml(v)}" for k, v in value.items()) + " }"
            if value
            else "{}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_toml(item) for item in value) + "]"
    return json.dumps(value)


def strings_under_fields(kind: type) -> Mapping[str, str]:
    """Field -> the string that stands under it in the class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        is_field = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if is_field and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            assert isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            found[node.target.id] = " ".join(str(after.value.value).split())
    return found
