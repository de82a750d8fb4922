"""Read TOML that people write into checked groups of parameters; errors name the file, the line and the field."""

import ast
import difflib
import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from roamq.core.errors import ConfigError

T = TypeVar("T")
_HEADER = re.compile(r"\s*\[+\s*([^\]=]+?)\s*\]+\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\-\"]+)\s*=")
_PATH = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)


class Source:
    """A TOML text, so that an error can say on which line a field stands."""

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        self.lines = text.splitlines()

    def place(self, field: str) -> str:
        """`name, line 7` if the field is found in the text, else the name alone."""
        table, _, key = field.rpartition(".")
        entry = re.fullmatch(r"(.*)\[(\d+)\]", table) or re.fullmatch(r"(.*)\[(\d+)\]", field)
        if entry:
            at = self._line_of_entry(entry.group(1), int(entry.group(2)), key)
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
        """The line of an entry of an array: under the `[[array]]` of that number, or at its `{` after `array = [`."""
        table, _, name = array.rpartition(".")
        current, entries, found, braces = "", -1, None, -1
        for number, line in enumerate(self.lines, 1):
            if header := _HEADER.match(line):
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
                braces = 0
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
            names = _field_names(kind, inner.rpartition(".")[0])
            reason = "unknown field" + suggestion(unknown.group(1), names)
        where = f"{field}.{inner}".strip(".")
        raise ConfigError(f"{source.place(where)}: {where}: {reason[:1].lower()}{reason[1:]}") from error


def _field_names(kind: Any, inner: str) -> list[str]:
    for part in filter(None, inner.split(".")):
        names = {f.name: f.type for f in msgspec.structs.fields(kind)}
        kind = names.get(re.sub(r"\[.*", "", part))
    try:
        return [f.name for f in msgspec.structs.fields(kind)]
    except TypeError:
        return []


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` or the list of what there is."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
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
