"""Reading TOML that people write: checked parameter groups out, errors that name file, line and field."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from roamq.core.errors import ConfigError

T = TypeVar("T")
_PATH = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)


class Source:
    """A TOML text, so that an error can say on which line a field stands."""

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        self.lines = text.splitlines()

    def place(self, field: str) -> str:
        """`name, line 7` if the field is found in the text, else the name alone."""
        table, _, key = field.rpartition(".")
        current = ""
        fallback = None
        for number, line in enumerate(self.lines, 1):
            header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
            if header:
                current = header.group(1).replace('"', "")
                if current == field:
                    fallback = number
                continue
            name = re.match(r"\s*([A-Za-z0-9_.\-\"]+)\s*=", line)
            if name and ".".join(part for part in (current, name.group(1).strip('"')) if part) in (
                field,
                table,
            ):
                fallback = number
                if key == name.group(1).strip('"') or current + "." + name.group(1) == field:
                    return f"{self.name}, line {number}"
        return f"{self.name}, line {fallback}" if fallback else self.name


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
    """A TOML value; the subset that scenarios use (TOML's strings and arrays are JSON's)."""
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{json.dumps(k)} = {to_toml(v)}" for k, v in value.items()) + " }"
            if value
            else "{}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_toml(item) for item in value) + "]"
    return json.dumps(value)
