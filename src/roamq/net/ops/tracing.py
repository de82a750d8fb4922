"""Answers "where is my message?" from the records of live brokers: published, handed over, delivered, dropped.

With `records.steps` the records also tell a message's way: over which link it was routed, where and for whom it was
stored, when it was acknowledged. No record tells of a message on its way; `roamq where CLIENT` shows what waits.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import pyarrow.compute as pc
import pyarrow.dataset as ds

from roamq.core.errors import ConfigError
from roamq.core.filters import Filter
from roamq.net.ops.inspection import StepRow, TraceAnswer, TracedRow

Row = dict[str, Any]
COLUMNS: Final = [
    "kind",
    "time_s",
    "broker",
    "client",
    "origin",
    "sequence",
    "peer",
    "detail",
    "count",
    "bytes",
    "duration_s",
]


MODES: Final = {
    "serving": "serves",
    "active": "stores messages for",
    "passive": "keeps a copy of",
    "closed": "let go of",
}
"""Mode of a session, as a record names it -> what the broker does with the session."""


@dataclass
class TracedMessage:
    """One published message, and all that the records say of it."""

    id: str
    rows: list[Row]
    """All records of the message, in time, with those of the sessions that moved in between."""

    @property
    def published(self) -> Row | None:
        return next((row for row in self.rows if row["kind"] == "published"), None)


@dataclass
class TracedPublication:
    """A message of a topic, as one line of a list."""

    id: str
    time_s: float
    broker: str
    client: str | None
    topic: str
    delivered: int = 0
    dropped: int = 0
    slowest_s: float | None = None
    receivers: set[str] = field(default_factory=set)


class RecordFolder:
    """The records in a folder, which `[records]` of a configuration names."""

    def __init__(self, folder: Path) -> None:
        path = folder / "part=records"
        if not path.is_dir():
            raise ConfigError(f"{folder}: holds no records; name the folder of [records]")
        self._data = ds.dataset(path, format="parquet", partitioning="hive")
        if not self._data.files:
            raise ConfigError(f"{folder}: holds no records yet; they are there after about records.flush_s")

    def message(self, origin: str, sequence: int) -> TracedMessage:
        """Finds a message by its id, with the moves of its receivers' sessions while it was under way."""
        mine = (pc.field("origin") == origin) & (pc.field("sequence") == sequence)
        rows = self._rows(mine)
        receivers = sorted({row["client"] for row in rows if row["client"] and row["kind"] != "published"})
        begin = min((row["time_s"] for row in rows), default=0.0)
        end = max((row["time_s"] for row in rows), default=0.0)
        if receivers:
            moved = pc.field("kind").isin(["transferred", "connected", "disconnected"])
            within = (pc.field("time_s") >= begin) & (pc.field("time_s") <= end)
            rows += self._rows(moved & within & pc.field("client").isin(receivers))
        return TracedMessage(f"{origin}:{sequence}", _in_time(rows))

    def client(self, name: str, last: int) -> list[Row]:
        """Returns the last records of a client: its connections, moves and messages."""
        return _in_time(self._rows(pc.field("client") == name))[-last:]

    def topic(self, filter: str, last: int) -> list[TracedPublication]:
        """Returns the last messages of a topic or filter, each with the number of clients that have got it."""
        wanted = Filter(filter)
        rows = self._rows((pc.field("kind") == "published") & pc.is_valid(pc.field("detail")))
        fitting = [row for row in rows if wanted.covers(Filter(row["detail"]))]
        found = {
            (row["origin"], row["sequence"]): TracedPublication(
                id=f"{row['origin']}:{row['sequence']}",
                time_s=row["time_s"],
                broker=row["broker"],
                client=row["client"],
                topic=row["detail"],
            )
            for row in _in_time(fitting)[-last:]
        }
        by_origin: dict[str, list[int]] = defaultdict(list)
        for origin, sequence in found:
            by_origin[origin].append(sequence)
        for origin, sequences in by_origin.items():
            of_these = (pc.field("origin") == origin) & pc.field("sequence").isin(sequences)
            for row in self._rows(of_these & pc.field("kind").isin(["delivered", "dropped"])):
                one = found[row["origin"], row["sequence"]]
                if row["kind"] == "dropped":
                    one.dropped += 1
                else:
                    one.delivered += 1
                    one.receivers.add(row["client"])
                    one.slowest_s = max(one.slowest_s or 0.0, row["duration_s"] or 0.0)
        return list(found.values())

    def kind_of(self, what: str) -> Literal["message", "client", "topic"]:
        """Guesses what a person means by a word: the id of a message, a client that is recorded, or else a topic or
        filter."""
        if message_id(what) is not None:
            return "message"
        if "/" in what or what in ("#", "+") or not self._data.count_rows(filter=pc.field("client") == what):
            return "topic"
        return "client"

    def traced(self, what: str, last: int) -> TraceAnswer:
        """Returns what is recorded of a message, a client or a topic, as a value for programs."""
        about = self.kind_of(what)
        if about == "topic":
            found = [TracedRow(**_as_answer(one)) for one in self.topic(what, last)]
            return TraceAnswer(about=about, messages=found)
        named = message_id(what)
        rows = self.client(what, last) if named is None else self.message(*named).rows[-last:]
        return TraceAnswer(about=about, steps=[_step(row) for row in rows])

    def _rows(self, which: ds.Expression) -> list[Row]:
        found: list[Row] = self._data.to_table(columns=COLUMNS, filter=which).to_pylist()
        return found


def message_id(text: str) -> tuple[str, int] | None:
    """Reads `b1:17` as origin and sequence; returns None for text that is no id of a message."""
    match = re.fullmatch(r"(.+):(\d+)", text)
    return (match.group(1), int(match.group(2))) if match else None


def sentence(row: Row) -> str:
    """Says what a record tells, as a sentence."""
    kind, client, broker, peer = row["kind"], row["client"], row["broker"], row["peer"]
    took = f" after {row['duration_s']:.3f} s" if row["duration_s"] is not None else ""
    id_ = f"{row['origin']}:{row['sequence']}" if row["origin"] is not None else ""
    if kind == "published":
        size = f", {row['bytes']} bytes" if row["bytes"] is not None else ""
        topic = f" to {row['detail']}" if row["detail"] else ""
        return f"{client} published {id_}{topic} at {broker}{size}"
    if kind == "delivered":
        how = {"live": "as it came", "stored": "from its store", "transferred": "from another broker's store"}
        return f"{broker} delivered {id_} to {client}{took}, {how.get(row['detail'], row['detail'])}"
    if kind == "routed":
        return f"{id_} came to {broker} over the link from {peer}"
    if kind == "stored":
        return f"{broker} stored {id_} for {client}, which is away"
    if kind == "acknowledged":
        return f"{client} acknowledged {id_} to {broker}"
    if kind == "dropped":
        return f"{broker} dropped {id_} for {client or f'all behind {peer}'}: {row['detail']}"
    if kind == "connected":
        before = f"; it was at {peer}" if peer and peer != broker else ""
        return f"{client} connected at {broker}{before}"
    if kind == "disconnected":
        return f"{client} left {broker}: {row['detail']}"
    if kind == "transferred":
        count = row["count"] or 0
        messages = "1 message" if count == 1 else f"{count:,} messages"
        return f"{broker} handed the session of {client} over to {peer}, with {messages}"
    if kind == "handoff":
        return f"{client} got its first message at {broker}{took}"
    if kind == "mode":
        return f"{broker} {MODES.get(row['detail'], 'has, as ' + str(row['detail']) + ',')} the session of {client}"
    if kind == "denied":
        return f"{broker} denied {client}: {row['detail']}"
    return f"{kind} {client or ''} at {broker}: {row['detail'] or ''}".strip()


def _as_answer(one: TracedPublication) -> dict[str, Any]:
    told = vars(one) | {"message": one.id, "time": one.time_s, "receivers": sorted(one.receivers)}
    return {name: value for name, value in told.items() if name not in ("id", "time_s")}


def _step(row: Row) -> StepRow:
    return StepRow(
        time=row["time_s"],
        kind=row["kind"],
        broker=row["broker"],
        client=row["client"],
        message=f"{row['origin']}:{row['sequence']}" if row["origin"] is not None else None,
        text=sentence(row),
    )


def _in_time(rows: Iterable[Row]) -> list[Row]:
    order = {"published": 0, "routed": 1, "stored": 2, "delivered": 4, "acknowledged": 5, "disconnected": 6}
    return sorted(rows, key=lambda row: (row["time_s"], order.get(row["kind"], 3)))


if __name__ == "__main__":  # a broker starts this module as a process of its own, see `trace_reader`
    try:
        _answer = RecordFolder(Path(sys.argv[1])).traced(sys.argv[3], int(sys.argv[2]))
    except ConfigError as _error:
        sys.exit(str(_error))
    sys.stdout.buffer.write(msgspec.json.encode(_answer) + b"\n")
