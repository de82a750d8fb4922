"""Movements that somebody recorded: a table of client, time, x and y, as CSV (with these names above) or Parquet.

Time is in seconds, from any beginning; x and y are meters on a plane. Rows may stand in any order. A client moves in a
straight line from one of its positions to the next. Before its first position and after its last it is absent.
"""

import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roamq.core.errors import ConfigError
from roamq.core.events import Seconds
from roamq.manet.simulation.waypoint import Area, Positions

COLUMNS: Final = ("client", "time", "x", "y")


class RecordedPosition(NamedTuple):
    """A client was at this place at this time. `line` is where the file says so."""

    client: str
    time_s: Seconds
    line: int
    x_m: float
    y_m: float


class RecordedMovement:
    """The movement of all clients of a file; the first position of all is at time 0.

    The tracks of all clients lie one after the other in the same arrays. `_at` has, for each client, the index of its
    last position that is not later than the time of the last question.
    """

    def __init__(self, sightings: Iterable[RecordedPosition]) -> None:
        ordered = sorted(sightings)
        self.clients = tuple(dict.fromkeys(one.client for one in ordered))
        counts: dict[str, int] = dict.fromkeys(self.clients, 0)
        for one in ordered:
            counts[one.client] += 1
        times = np.array([one.time_s for one in ordered])
        self._times = times - times.min()
        self._places: Positions = np.array([(one.x_m, one.y_m) for one in ordered])
        ends = np.cumsum(list(counts.values()))
        self._last: NDArray[np.intp] = ends - 1
        self._at: NDArray[np.intp] = ends - np.array(list(counts.values()))
        self.presence: list[tuple[Seconds, Seconds]] = list(
            zip(self._times[self._at].tolist(), self._times[self._last].tolist(), strict=True)
        )
        """For each client, the times of its first and its last position."""

    @property
    def duration_s(self) -> Seconds:
        return float(self._times.max())

    @property
    def area(self) -> Area:
        """The smallest rectangle that holds all positions."""
        (left, low), (right, high) = self._places.min(axis=0).tolist(), self._places.max(axis=0).tolist()
        return Area((left, low), (right - left, high - low))

    def positions(self, time: Seconds) -> Positions:
        """Returns where the clients are; an absent client is at its position nearest in time."""
        while (later := self._is_behind(time)).any():
            self._at[later] += 1
        at, ahead = self._at, self._next()
        span = self._times[ahead] - self._times[at]
        walked = np.divide(time - self._times[at], span, out=np.zeros(len(at)), where=span > 0)
        legs = self._places[ahead] - self._places[at]
        found: Positions = self._places[at] + np.clip(walked, 0.0, 1.0)[:, None] * legs
        return found

    def _next(self) -> NDArray[np.intp]:
        return np.minimum(self._at + 1, self._last)

    def _is_behind(self, time: Seconds) -> NDArray[np.bool_]:
        """Which clients have reached their next position by this time."""
        behind: NDArray[np.bool_] = (self._at < self._last) & (self._times[self._next()] <= time)
        return behind


def read_positions(path: Path) -> RecordedMovement:
    """The movement that a file records; a mistake in it is named with its line and field."""
    if path.is_dir():
        raise ConfigError(
            f"{path}: is a folder; name a file of positions, as `roamq pipeline positions` writes it"
        )
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file of positions")
    sightings = list(_checked(path, _parquet(path) if path.suffix == ".parquet" else _csv(path)))
    if not sightings:
        raise ConfigError(f"{path}: no positions, only {', '.join(COLUMNS)}")
    _refuse_two_places(path, sightings)
    return RecordedMovement(sightings)


Row = tuple[int, tuple[object, ...]]
"""A line's number, and its values in the order of `COLUMNS`."""


def _csv(path: Path) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream)
        try:
            names = [name.strip() for name in next(reader, [])]
            places = [_place(path, names, column) for column in COLUMNS]
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != len(names):
                    raise ConfigError(
                        f"{path}: line {reader.line_num}: {len(fields)} fields, the first line has {len(names)}"
                    )
                yield reader.line_num, tuple(fields[place].strip() for place in places)
        except csv.Error as mistake:
            raise ConfigError(f"{path}: line {reader.line_num}: {mistake}") from None
        except UnicodeDecodeError as mistake:
            raise ConfigError(f"{path}: its bytes are not UTF-8: {mistake}") from None


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as mistake:
        raise ConfigError(f"{path}: no Parquet file: {mistake}") from None
    for column in COLUMNS:
        _place(path, table.column_names, column)
    values = (table.column(column).to_pylist() for column in COLUMNS)
    yield from enumerate(zip(*values, strict=True), start=1)


def _place(path: Path, names: list[str], column: str) -> int:
    if column not in names:
        raise ConfigError(
            f"{path}: line 1: no column {column!r}; needed are {', '.join(COLUMNS)}, found {', '.join(names) or 'none'}"
        )
    return names.index(column)


def _checked(path: Path, rows: Iterable[Row]) -> Iterator[RecordedPosition]:
    for line, (client, *numbers) in rows:
        if client is None or client == "":
            raise ConfigError(f"{path}: line {line}: client: is missing")
        time_s, x_m, y_m = (
            _number(path, line, column, value) for column, value in zip(COLUMNS[1:], numbers, strict=True)
        )
        yield RecordedPosition(str(client), time_s, line, x_m, y_m)


def _number(path: Path, line: int, column: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        unit = "seconds" if column == "time" else "meters"
        raise ConfigError(f"{path}: line {line}: {column}: {value!r} is no number of {unit}")
    return number


def _refuse_two_places(path: Path, sightings: Iterable[RecordedPosition]) -> None:
    """A client is at one place at a time; the same row twice says nothing new."""
    seen: dict[tuple[str, Seconds], RecordedPosition] = {}
    for one in sightings:
        first = seen.setdefault((one.client, one.time_s), one)
        if (first.x_m, first.y_m) != (one.x_m, one.y_m):
            raise ConfigError(
                f"{path}: line {one.line}: time: client {one.client!r} is at another place at the same time in line "
                f"{first.line}"
            )
