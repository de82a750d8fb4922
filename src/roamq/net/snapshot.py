"""Snapshots: the node as bytes, and a node again from the last snapshot and the journal after it.

A snapshot is made by a forked child, which sees the memory of this moment while the parent goes on serving. It is
a pickle: the files are ours, made by this program for itself, and lie in a folder that only its user may read.
Passwords are left out of it, as they are of the journal.
"""

import copyreg
import gc
import io
import os
import pickle
import struct
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from roamq.core.errors import ConfigError
from roamq.core.events import Event
from roamq.core.records import Record
from roamq.net.journal import Reader, StorageError, segments, sync_folder
from roamq.net.mqtt.codec import Connect
from roamq.net.node import Kind, Node
from roamq.net.settings import Settings

FORMAT: Final = b"RQS1"
_HEADER: Final = struct.Struct("<4sQI")
_SUFFIX: Final = ".snapshot"


_EVENT_FIELDS: Final = tuple(field.name for field in fields(Event) if field.init)
_event_values: Final = attrgetter(*_EVENT_FIELDS)


def _event(*values: Any) -> Event:
    return Event(**dict(zip(_EVENT_FIELDS, values, strict=True)))


def _reduce_event(event: Event) -> tuple[Any, ...]:
    """Most of a snapshot is events: this takes a third of the time that a dataclass takes by itself."""
    return _event, _event_values(event)


def _reduce_connect(connect: Connect) -> Any:
    return msgspec.structs.replace(connect, password=None).__reduce__()


class _Pickler(pickle.Pickler):
    dispatch_table = {**copyreg.dispatch_table, Event: _reduce_event, Connect: _reduce_connect}  # noqa: RUF012


def dump(node: Node) -> bytes:
    """The node as bytes; its outputs are to be taken before."""
    target = io.BytesIO()
    _Pickler(target, pickle.HIGHEST_PROTOCOL).dump(node)
    return target.getvalue()


def size(folder: Path) -> int:
    """Bytes of the last snapshot; 0 if there is none."""
    found = _snapshots(folder)
    return (folder / f"{found[-1]:08d}{_SUFFIX}").stat().st_size if found else 0


def write(node: Node, folder: Path, segment: int) -> None:
    """The state before the first input of `segment`; whole on the disk before it has its name."""
    body = dump(node)
    path = folder / f"{segment:08d}{_SUFFIX}"
    draft = path.with_suffix(".draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(_HEADER.pack(FORMAT, len(body), zlib.crc32(body)))
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_folder(folder)


def fork(node: Node, folder: Path, segment: int) -> tuple[int, int]:
    """Write a snapshot in a child; gives its process id, and a pipe that is closed when it has ended."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        # Later Pythons warn of forking beside threads: the child takes no lock and calls nothing but this.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        os.close(write_end)
        return child, read_end
    status = 1
    try:
        gc.disable()
        write(node, folder, segment)
        status = 0
    finally:
        os._exit(status)


def discard_before(folder: Path, segment: int) -> None:
    for number in _snapshots(folder):
        if number < segment:
            (folder / f"{number:08d}{_SUFFIX}").unlink()


def _snapshots(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob(f"*{_SUFFIX}"))


@dataclass
class Recovery:
    """What a start found, and how long it took."""

    node: Node
    segment: int
    """Where the journal goes on."""
    inputs: int = 0
    """How many were replayed."""
    torn_bytes: int = 0
    seconds: float = 0.0


def recover(
    folder: Path,
    settings: Settings,
    now: float,
    on_records: Callable[[int, list[Record]], None] | None = None,
) -> Recovery:
    """The node as it was, or a new one. `on_records` gets the records of replayed inputs, and their first number."""
    began = time.perf_counter()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = _snapshots(folder)
    if found:
        first = found[-1]
        node = _read(folder / f"{first:08d}{_SUFFIX}")
        _check_same_network(node, settings, folder)
    else:
        first = 1
        if segments(folder)[:1] not in ([], [1]):
            raise StorageError(f"{folder}: the snapshot is missing; put it back, or move the folder away")
        node = Node(settings, now)
    recovery = Recovery(node, first)
    reader = Reader(folder, first)
    for entry in reader:
        if entry[0] == Kind.SETTINGS and not recovery.inputs and not found:
            # The first input of all: what the node was made of, and when.
            node = recovery.node = Node(msgspec.msgpack.decode(entry[2], type=Settings), entry[1])
            _check_same_network(node, settings, folder)
        before = node.records
        records = node.replay(entry)
        recovery.inputs += 1
        if records and on_records is not None:
            on_records(before, records)
    recovery.torn_bytes = reader.torn_bytes
    recovery.segment = reader.numbers[-1] if reader.numbers else first
    recovery.seconds = time.perf_counter() - began
    return recovery


def _read(path: Path) -> Node:
    data = path.read_bytes()
    if len(data) < _HEADER.size or data[:4] != FORMAT:
        raise StorageError(f"{path}: is not a snapshot of this version; move the folder away to start empty")
    _, length, checksum = _HEADER.unpack_from(data)
    body = memoryview(data)[_HEADER.size :]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise StorageError(f"{path}: damaged; restore it from a copy, or move the folder away to start empty")
    gc.disable()  # nothing that is made here is garbage, and there is much to look at
    try:
        node = pickle.loads(body)  # noqa: S301 - our own file, see above
    except Exception as error:
        raise StorageError(f"{path}: was written by another version: {error}") from error
    finally:
        gc.enable()
    assert isinstance(node, Node)
    return node


def _check_same_network(node: Node, settings: Settings, folder: Path) -> None:
    """What is stored fits only the network it was stored for."""
    stored = node.machine.settings
    for name in ("me", "brokers", "links", "overlay", "scheme"):
        if getattr(stored, name) != getattr(settings, name):
            raise ConfigError(
                f"network.{name}: is {getattr(settings, name)!r}, but {folder} holds sessions of a network with "
                f"{getattr(stored, name)!r}; set it back, or move the folder away to start empty"
            )
