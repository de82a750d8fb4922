"""Mapping files: TOML that says which columns of a CSV, JSON or Parquet file are time, client, site and so on.

A mapping is a value that knows nothing of Spark; `traces.mapped` makes a format of it. Every error names the file, the
line and the field, and says what to write instead.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from roamq.config import Source, bind, parse_toml, read_toml
from roamq.core.errors import ConfigError
from roamq.pipeline.rules import Rules

UNIX_UNITS: Final = {"unix": 1, "unix_ms": 1_000, "unix_us": 1_000_000, "unix_ns": 1_000_000_000}
"""Names of time formats that count since 1970, and what one second is in them."""
DEGREES: Final = {"degrees": 1.0, "e7": 1e-7}
"""Units of a position that stand for degrees, and the degrees in one."""
WHITESPACE: Final = "whitespace"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a mapping file."""


class TimeColumn(_Table, frozen=True):
    column: str
    format: str = "iso"
    """`iso`, a name of `UNIX_UNITS`, or a pattern such as `dd.MM.yyyy HH:mm:ss`."""
    zone: str = ""
    """Where times without a zone are local; default: UTC."""


class ClientColumn(_Table, frozen=True):
    column: str = ""
    file: str = ""
    """Instead of a column: a regular expression whose first group, on the file's name, is the client."""


class SiteColumn(_Table, frozen=True):
    column: str


class StateColumn(_Table, frozen=True):
    column: str
    connected: list[str]
    disconnected: list[str]


class PositionColumns(_Table, frozen=True):
    x: str
    y: str
    unit: Literal["degrees", "e7", "metres"] = "degrees"
    """`degrees` (x is the longitude), `e7` (ten-millionths of a degree), or `metres` on a plane."""


class ClassColumns(_Table, frozen=True):
    columns: list[str]


class Mapping(_Table, frozen=True):
    """What a mapping file says."""

    file: Literal["csv", "json", "parquet"]
    """`json`: one object per line."""
    time: TimeColumn
    client: ClientColumn
    name: str = "mapped"
    """The dataset's name where the command gives none."""
    about: str = ""
    delimiter: str = ","
    """Between the fields of a CSV line: one character, or `whitespace` for any run of blanks and tabs."""
    columns: list[str] = []
    """The columns of CSV files that have no header. Where this is empty, the first line names them."""
    comment: str = ""
    """Lines that begin with this are no rows."""
    missing: list[str] = []
    """Values that stand for nothing, besides an empty field."""
    decimal: Literal[".", ","] = "."
    site: SiteColumn | None = None
    state: StateColumn | None = None
    position: PositionColumns | None = None
    client_class: ClassColumns | None = msgspec.field(name="class", default=None)
    rules: dict[str, str | int | float] = {}
    has_header: bool = False
    """Set by `with_columns`: the columns came from the header of a file."""

    @classmethod
    def load(cls, path: Path) -> "Mapping":
        return cls._checked(*read_toml(path))

    @classmethod
    def from_toml(cls, text: str, name: str = "mapping") -> "Mapping":
        return cls._checked(*parse_toml(text, name))

    @classmethod
    def _checked(cls, data: dict[str, Any], source: Source) -> "Mapping":
        mapping = bind(cls, data, "", source)
        mapping._check(source)
        return mapping

    @classmethod
    def parse(cls, text: str) -> "Mapping":
        """What `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    def _check(self, source: Source) -> None:
        def refuse(field: str, why: str) -> ConfigError:
            return ConfigError(f"{source.place(field)}: {field}: {why}")

        if bool(self.client.column) == bool(self.client.file):
            raise refuse("client", "give either column, or file with a pattern such as '^user-(.+)\\.csv'")
        if self.client.file:
            try:
                groups = re.compile(self.client.file).groups
            except re.error as error:
                raise refuse("client.file", f"is not a regular expression: {error}") from None
            if groups != 1:
                raise refuse("client.file", f"must have one group, (...), for the client; it has {groups}")
        if self.file == "csv" and self.delimiter != WHITESPACE and len(self.delimiter) != 1:
            raise refuse("delimiter", f'must be one character or "{WHITESPACE}", got {self.delimiter!r}')
        if self.file != "csv" and self.columns:
            raise refuse("columns", f"{self.file} files name their columns themselves; remove it")
        if len(set(self.columns)) != len(self.columns):
            raise refuse("columns", "a name occurs twice")
        if self.has_header:
            raise refuse("has_header", "unknown field; leave columns out where files have a header")
        if self.columns:
            self.require_columns(self.columns, source)
        if self.state is not None and set(self.state.connected) & set(self.state.disconnected):
            raise refuse("state", "a value cannot mean both connected and disconnected")
        if self.site is None and self.state is None and self.position is None:
            raise refuse("site", "a row must say something: give [site], [position] or [state]")
        self._check_rules(refuse)

    def _check_rules(self, refuse: Any) -> None:
        if self.time.zone and "time_zone" in self.rules:
            raise refuse("rules.time_zone", "time.zone says it already; remove one")
        try:
            rules = self.cleaning()
        except ConfigError as error:
            raise refuse("rules", str(error)) from None
        if self.site is None and self.position is not None and rules.sites == "given":
            example = "plane:500" if self.position.unit == "metres" else "h3:8 or grid:500"
            raise refuse("rules.sites", f"positions need sites: say {example}, for example")
        is_plane = rules.sites.startswith("plane:")
        if self.position is not None and rules.sites != "given" and is_plane != (not self.in_degrees):
            raise refuse("rules.sites", f"{rules.sites} does not go with positions in {self.position.unit}")

    @property
    def in_degrees(self) -> bool:
        return self.position is not None and self.position.unit in DEGREES

    def cleaning(self) -> Rules:
        """The cleaning rules that the mapping gives a dataset."""
        zone = {"time_zone": self.time.zone} if self.time.zone else {}
        return Rules().changed({**zone, **{name: str(value) for name, value in self.rules.items()}})

    def used(self) -> dict[str, str]:
        """Field of the mapping -> the column that it names."""
        found = {"time.column": self.time.column}
        if self.client.column:
            found["client.column"] = self.client.column
        if self.site is not None:
            found["site.column"] = self.site.column
        if self.state is not None:
            found["state.column"] = self.state.column
        if self.position is not None:
            found |= {"position.x": self.position.x, "position.y": self.position.y}
        if self.client_class is not None:
            found |= {f"class.columns[{n}]": name for n, name in enumerate(self.client_class.columns)}
        return found

    def missing_among(self, columns: Sequence[str]) -> str:
        """Which column of a Parquet file is missing, in words; empty where all are there.

        Of a nested column, the outermost is looked for. Spark does not tell small letters from capital ones.
        """
        known = {column.lower() for column in columns}
        for field, name in self.used().items():
            outermost = re.match(r"`([^`]+)`|([^.\[]*)", name)
            assert outermost is not None, "every text begins with something, or nothing"
            if (outermost[1] or outermost[2]).lower() not in known:
                return f"{field}: there is no column {name!r}; there are {', '.join(columns)}"
        return ""

    def require_columns(self, columns: list[str], source: Source) -> None:
        """Refuse a mapping that names columns which the files do not have."""
        for field, name in self.used().items():
            if name not in columns:
                raise ConfigError(
                    f"{source.place(field)}: {field}: there is no column {name!r}; there are {', '.join(columns)}"
                )

    def with_columns(self, header: str, where: str) -> "Mapping":
        """The mapping with the columns that the header of a CSV file names."""
        import csv

        if self.delimiter == WHITESPACE:
            names = header.split()
        else:
            names = [name.strip() for name in next(csv.reader([header], delimiter=self.delimiter), [])]
        self.require_columns(names, Source(f"mapping of {where}"))
        return msgspec.structs.replace(self, columns=names, has_header=True)
