"""Where sessions and messages are kept: the journal of inputs beside SQLite (WAL) and LMDB in the same run.

    python -m benchmarks.storage [messages] [folder]

Each takes QoS 1 messages in turns of the event loop (1, 10 or 100 messages to a turn): a message enters, is stored for
one session, is delivered, and goes when it is acknowledged in the next turn. A turn is one commit, as in the broker:
what it acknowledges is safe before the turn ends. `process` hands a turn to the operating system, `disk` waits for the
disk. The databases keep the outcome (a row per stored message, the session's position); the journal keeps the bytes
that came. `recover` is the time until a restarted broker knows again what it knew: for the databases reading all rows,
for the journal a replay through the real broker, or a snapshot.
"""

import json
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import lmdb
import msgspec

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import Connect, Subscribe, SubscriptionRequest, Version, encode
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import InputKind, JournalEntry, LiveBroker
from roamq.net.durable.journal import Journal
from roamq.net.ops.settings import Settings

PAYLOAD: Final = bytes(64)
TURNS: Final = (1, 10, 100)
NOW: Final = 1000.0
PUBLISHER, SUBSCRIBER = 1, 2


def _publish(number: int) -> bytes:
    return b"\x32\x45\x00\x01t" + (number % 65535 + 1).to_bytes(2, "big") + PAYLOAD


def _puback(number: int) -> bytes:
    return b"\x40\x02" + (number % 65535 + 1).to_bytes(2, "big")


class Store(Protocol):
    """What is compared."""

    def turn(self, first: int, count: int) -> None:
        """Messages `first`... come, those of the turn before are acknowledged; all of it is safe on return."""

    def close(self) -> None: ...


class InputJournal:
    """Ours: the reads of the turn, as they came."""

    def __init__(self, folder: Path, *, disk: bool) -> None:
        self.journal = Journal(folder, 1)
        self.disk = disk
        self.before: tuple[int, int] = (0, 0)

    def turn(self, first: int, count: int) -> None:
        acknowledged = range(self.before[0], sum(self.before))
        self.journal.pending += [
            (int(InputKind.RECEIVED), NOW, SUBSCRIBER, b"".join(map(_puback, acknowledged))),
            (int(InputKind.RECEIVED), NOW, PUBLISHER, b"".join(map(_publish, range(first, first + count)))),
        ]
        self.before = (first, count)
        self.journal.write()
        if self.disk:
            self.journal.sync()

    def close(self) -> None:
        self.journal.close()


class Sqlite:
    """A table of stored messages and one of positions."""

    def __init__(self, folder: Path, *, disk: bool) -> None:
        self.database = sqlite3.connect(folder / "sessions.db", isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute(f"PRAGMA synchronous = {'FULL' if disk else 'OFF'}")
        self.database.execute("CREATE TABLE stored (number INTEGER PRIMARY KEY, topic TEXT, payload BLOB)")
        self.database.execute("CREATE TABLE position (client TEXT PRIMARY KEY, number INTEGER)")
        self.before: tuple[int, int] = (0, 0)

    def turn(self, first: int, count: int) -> None:
        execute = self.database.execute
        execute("BEGIN")
        if self.before[1]:
            execute("DELETE FROM stored WHERE number >= ? AND number < ?", (self.before[0], sum(self.before)))
            execute("INSERT OR REPLACE INTO position VALUES ('c', ?)", (sum(self.before) - 1,))
        rows = ((number, "t", PAYLOAD) for number in range(first, first + count))
        self.database.executemany("INSERT INTO stored VALUES (?, ?, ?)", rows)
        execute("COMMIT")
        self.before = (first, count)

    def close(self) -> None:
        self.database.close()


class Lmdb:
    """A key per stored message and one for the position."""

    def __init__(self, folder: Path, *, disk: bool) -> None:
        self.environment = lmdb.open(str(folder), map_size=1 << 32, sync=disk, metasync=disk)
        self.before: tuple[int, int] = (0, 0)

    def turn(self, first: int, count: int) -> None:
        with self.environment.begin(write=True) as transaction:
            for number in range(self.before[0], sum(self.before)):
                transaction.delete(number.to_bytes(8, "big"))
            for number in range(first, first + count):
                transaction.put(number.to_bytes(8, "big"), b"t\x00" + PAYLOAD)
            transaction.put(b"position c", first.to_bytes(8, "big"))
        self.before = (first, count)

    def close(self) -> None:
        self.environment.close()


STORES: Final[dict[str, Callable[..., Store]]] = {"journal": InputJournal, "sqlite": Sqlite, "lmdb": Lmdb}


def rate(make: Callable[..., Store], folder: Path, turn: int, messages: int, *, disk: bool) -> float:
    """Messages a second."""
    folder.mkdir()
    store = make(folder, disk=disk)
    begin = time.perf_counter()
    for first in range(0, messages, turn):
        store.turn(first, turn)
    elapsed = time.perf_counter() - begin
    store.close()
    shutil.rmtree(folder)
    return messages / elapsed


# --- recovery ------------------------------------------------------------------------------------------------------


def recover_journal(folder: Path, messages: int) -> dict[str, float]:
    """A broker whose client is away with all messages stored: by replay, and by snapshot."""
    settings = Settings(me=BrokerId("b1"), brokers=(BrokerId("b1"),), links=(), scheme="standard")
    folder.mkdir()
    journal = Journal(folder, 1)
    node = LiveBroker(settings, NOW)
    for entry in _history(settings, messages):
        journal.pending.append(entry)
        node.replay(entry)
        if len(journal.pending) >= 10:
            journal.write()
    journal.close()
    replayed = snapshot.recover(folder, settings, NOW)
    assert replayed.live.status().stored_events == messages
    begin = time.perf_counter()
    snapshot.write(node, folder, 2)
    written = time.perf_counter() - begin
    Journal(folder, 2).close()  # the segment that goes on where the snapshot ends
    restored = snapshot.recover(folder, settings, NOW)
    assert restored.live.status().stored_events == messages
    shutil.rmtree(folder)
    return {
        "journal, replay: s": round(replayed.seconds, 4),
        "journal, snapshot: s": round(restored.seconds, 4),
        "journal, writing the snapshot: s": round(written, 4),
    }


def _history(settings: Settings, messages: int) -> list[JournalEntry]:
    entries: list[JournalEntry] = [(int(InputKind.SETTINGS), NOW, msgspec.msgpack.encode(settings))]
    for number, name in ((PUBLISHER, "publisher"), (SUBSCRIBER, "subscriber")):
        connect = encode(Connect(version=Version.V311, client_id=name, clean_start=False), Version.V311)
        entries.append((int(InputKind.OPENED), NOW, number, "0:mqtt", ""))
        entries.append((int(InputKind.RECEIVED), NOW, number, connect))
        entries.append((int(InputKind.AUTHENTICATED), NOW, number, None, True))
    subscribe = encode(Subscribe(1, (SubscriptionRequest("t", 1),)), Version.V311)
    entries.append((int(InputKind.RECEIVED), NOW, SUBSCRIBER, subscribe))
    entries.append((int(InputKind.LOST), NOW, SUBSCRIBER))
    entries.extend((int(InputKind.RECEIVED), NOW, PUBLISHER, _publish(number)) for number in range(messages))
    return entries


def recover_sqlite(folder: Path, messages: int) -> float:
    folder.mkdir()
    store = Sqlite(folder, disk=False)
    with store.database:
        rows = ((number, "t", PAYLOAD) for number in range(messages))
        store.database.executemany("INSERT INTO stored VALUES (?, ?, ?)", rows)
    store.close()
    begin = time.perf_counter()
    database = sqlite3.connect(folder / "sessions.db")
    assert (
        len(database.execute("SELECT number, topic, payload FROM stored ORDER BY number").fetchall())
        == messages
    )
    elapsed = time.perf_counter() - begin
    database.close()
    shutil.rmtree(folder)
    return round(elapsed, 4)


def recover_lmdb(folder: Path, messages: int) -> float:
    folder.mkdir()
    store = Lmdb(folder, disk=False)
    store.turn(0, messages)
    store.close()
    begin = time.perf_counter()
    environment = lmdb.open(str(folder), map_size=1 << 32)
    with environment.begin() as transaction:
        assert sum(1 for _ in transaction.cursor()) == messages + 1
    elapsed = time.perf_counter() - begin
    environment.close()
    shutil.rmtree(folder)
    return round(elapsed, 4)


def main(argv: list[str]) -> dict[str, object]:
    """Measure and give the rates; nothing is printed here."""
    messages = int(argv[0]) if argv else 20_000
    results: dict[str, object] = {"messages": messages, "payload_bytes": len(PAYLOAD)}
    with tempfile.TemporaryDirectory(dir=argv[1] if len(argv) > 1 else None) as scratch:
        folder = Path(scratch)
        for disk in (False, True):
            level = "disk" if disk else "process"
            for turn in TURNS:
                # A sync takes milliseconds: some hundred of them say enough.
                count = min(messages, 200 * turn) if disk else messages
                for name, make in STORES.items():
                    found = rate(make, folder / name, turn, count, disk=disk)
                    results[f"{level}, {turn} to a turn, {name}: messages/s"] = round(found)
        stored = min(messages, 100_000)
        results["recover: stored messages"] = stored
        for what, seconds in recover_journal(folder / "recover", stored).items():
            results[f"recover: {what}"] = seconds
        results["recover: sqlite: s"] = recover_sqlite(folder / "recover", stored)
        results["recover: lmdb: s"] = recover_lmdb(folder / "recover", stored)
    return results


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
