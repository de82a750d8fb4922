"""Snapshots: turn a live broker into bytes, and restore it from its last snapshot and the journal after that.

A forked child makes the snapshot: it sees the memory of this moment while the parent goes on serving. A snapshot holds
plain values under names of their own (`graph.py`, `forms.py`), so that a later release can read it whatever its classes
are called, and it names the release that wrote it. Passwords are left out of it, as they are left out of the journal.

    file        header (magic and version, length, CRC-32), then one MessagePack map:
    release     the program that wrote it
    made_of, settings    what the broker was made of, and what is in force
    layout      which fields the rows of each kind of object have
    events, objects, parts    the state (`graph.py`)
"""

import gc
import os
import struct
import time
import warnings
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from roamq import __version__
from roamq.build import check_change
from roamq.core.errors import ConfigError
from roamq.core.records import Record
from roamq.net.bounds import choices, make_schemes, schemes_of, schemes_read, set_quotas
from roamq.net.durable import before
from roamq.net.durable.forms import all_parts, forms_for
from roamq.net.durable.graph import Packer, Unpacker, encode_settings
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.durable.journal import Reader, StorageError, numbered, read_file, segments, sync_folder
from roamq.net.ops.settings import Settings

FORMAT: Final = b"RQS3"
"""Begins a snapshot; the digit is the version."""
_ANY_VERSION: Final = FORMAT[:3]
_HEADER: Final = struct.Struct("<4sQI")
_SUFFIX: Final = ".snapshot"
_encode: Final = msgspec.msgpack.Encoder().encode


class Stored(msgspec.Struct):
    """A snapshot as it lies on the disk."""

    release: str
    made_of: Settings
    settings: Settings
    time: float
    layout: dict[str, list[str]]
    events: list[list[Any]]
    objects: list[list[Any]]
    parts: dict[str, dict[str, Any]]
    schemes: list[str] = []
    """The broker's schemes, if it has several (`ByClass`)."""


_STORED: Final = msgspec.msgpack.Decoder(Stored)


def dump(live: LiveBroker) -> bytes:
    """Returns the live broker as bytes. The caller takes the broker's outputs before."""
    forms = forms_for(live)
    packer = Packer(forms)
    parts = {name: packer.part(part) for name, part in sorted(all_parts(live, forms).items())}
    packer.finish()
    machine = live.machine
    used = dict.fromkeys(row[0] for row in packer.objects)
    return _encode(
        {
            "release": __version__,
            "made_of": msgspec.Raw(encode_settings(machine.made_of)),
            "settings": msgspec.Raw(encode_settings(machine.settings)),
            "time": machine.time,
            "layout": {name: forms.by_name[name].fields for name in used},
            "events": packer.events,
            "objects": packer.objects,
            "parts": parts,
            "schemes": schemes_of(machine),
        }
    )


def load(data: bytes | memoryview) -> LiveBroker:
    """Restores the live broker from the bytes of `dump`. Wrong bytes raise an error of some kind."""
    return _live(_STORED.decode(data))


def _live(stored: Stored) -> LiveBroker:
    live = LiveBroker(stored.made_of, stored.time, stored.settings)
    make_schemes(live.machine, stored.schemes)
    forms = forms_for(live)
    parts = all_parts(live, forms)
    unpacker = Unpacker(forms, parts, stored.events, stored.objects, stored.layout)
    for name, fields in stored.parts.items():
        unpacker.into_part(parts[name], fields)
    schemes_read(live.machine)
    live.machine.access.set_rules(live.machine.access.rules)
    set_quotas(live.machine, live.machine.settings)
    live.machine.membership.rewire()
    return live


def size(folder: Path) -> int:
    """Returns the size of the last snapshot in bytes; 0 if there is none."""
    found = _snapshots(folder)
    return (folder / f"{found[-1]:08d}{_SUFFIX}").stat().st_size if found else 0


def write(live: LiveBroker, folder: Path, segment: int) -> None:
    """Writes the state before the first input of `segment`. The file gets its name when it is whole on the disk."""
    body = dump(live)
    path = folder / f"{segment:08d}{_SUFFIX}"
    draft = path.with_suffix(".draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(_HEADER.pack(FORMAT, len(body), zlib.crc32(body)))
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_folder(folder)


def fork(live: LiveBroker, folder: Path, segment: int) -> tuple[int, int]:
    """Writes a snapshot in a child; returns the child's process id, and a pipe that closes when the child ends."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        # Later Pythons warn of forking beside threads: the child takes no lock and calls nothing but `write`.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            child = os.fork()
        except OSError as error:
            os.close(read_end)
            os.close(write_end)
            raise StorageError(f"{folder}: no process to write a snapshot: {error.strerror}") from error
    if child:
        os.close(write_end)
        return child, read_end
    status = 1
    try:
        gc.disable()
        write(live, folder, segment)
        status = 0
    finally:
        os._exit(status)


def discard_before(folder: Path, segment: int) -> None:
    for number in _snapshots(folder):
        if number < segment:
            (folder / f"{number:08d}{_SUFFIX}").unlink(missing_ok=True)


def _snapshots(folder: Path) -> list[int]:
    return sorted(numbered(path, path.stem) for path in folder.glob(f"*{_SUFFIX}"))


@dataclass
class Recovery:
    """The broker that a start recovered, and what the recovery took."""

    live: LiveBroker
    segment: int
    """The segment in which the journal goes on."""
    inputs: int = 0
    """Number of inputs that were replayed."""
    torn_bytes: int = 0
    seconds: float = 0.0


def recover(
    folder: Path,
    settings: Settings,
    now: float,
    on_records: Callable[[int, list[Record]], None] | None = None,
) -> Recovery:
    """Recovers a folder's broker, or makes a new one. `on_records` gets the records of replayed inputs: the number of
    the first, and the records."""
    began = time.perf_counter()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = _snapshots(folder)
    if found:
        first = found[-1]
        live = _read(folder / f"{first:08d}{_SUFFIX}")
        _check_same_network(live, settings, folder)
    else:
        first = 1
        if segments(folder)[:1] not in ([], [1]):
            raise StorageError(f"{folder}: the snapshot is missing; put it back, or move the folder away")
        live = LiveBroker(settings, now)
    recovery = Recovery(live, first)
    reader = Reader(folder, first, is_expected=bool(found))
    for entry in reader:
        if entry[0] == InputKind.SETTINGS and not recovery.inputs and not found:
            # The first input of all tells what the broker was made of, and when.
            live = recovery.live = LiveBroker(msgspec.msgpack.decode(entry[2], type=Settings), entry[1])
            _check_same_network(live, settings, folder)
        before = live.records
        records = live.replay(entry)
        recovery.inputs += 1
        if records and on_records is not None:
            on_records(before, records)
    recovery.torn_bytes = reader.torn_bytes
    recovery.segment = reader.numbers[-1] if reader.numbers else first
    recovery.seconds = time.perf_counter() - began
    return recovery


class StoredFolder(msgspec.Struct):
    """What a data folder holds, found by reading all of it without changing it."""

    snapshot: str | None = None
    """The file name of the snapshot; None if there is none."""
    snapshot_version: int | None = None
    release: str | None = None
    """The release that wrote the snapshot."""
    sessions: int = 0
    inputs: int = 0
    """Inputs in the journal after the snapshot: a start replays them."""
    torn_bytes: int = 0
    """Bytes of an unfinished group at the end of the journal: a start cuts them off."""


def examine(folder: Path, settings: Settings) -> StoredFolder:
    """Reads all that `recover` would read, and raises what it would raise; changes nothing."""
    found = _snapshots(folder)
    first = 1
    examined = StoredFolder()
    if found:
        first = found[-1]
        path = folder / f"{first:08d}{_SUFFIX}"
        live = _read(path)
        _check_same_network(live, settings, folder)
        data = read_file(path)
        is_old = data[:4] == before.FORMAT
        examined = StoredFolder(
            snapshot=path.name,
            snapshot_version=int(data[3:4]),
            release=before.RELEASE if is_old else _RELEASE.decode(data[_HEADER.size :]).release,
            sessions=live.status().sessions,
        )
    elif segments(folder)[:1] not in ([], [1]):
        raise StorageError(f"{folder}: the snapshot is missing; put it back, or move the folder away")
    reader = Reader(folder, first, is_expected=bool(found), only_looks=True)
    for entry in reader:
        if entry[0] == InputKind.SETTINGS and not examined.inputs and not found:
            stored = LiveBroker(msgspec.msgpack.decode(entry[2], type=Settings), entry[1])
            _check_same_network(stored, settings, folder)
        examined.inputs += 1
    examined.torn_bytes = reader.torn_bytes
    return examined


class _Release(msgspec.Struct):
    release: str


_RELEASE: Final = msgspec.msgpack.Decoder(_Release)


def _read(path: Path) -> LiveBroker:
    data = read_file(path)
    version = data[:4]
    if len(data) < _HEADER.size or version not in (FORMAT, before.FORMAT):
        what = (
            f"a snapshot of version {version[3:].decode('latin-1')}"
            if version[:3] == _ANY_VERSION
            else "no snapshot"
        )
        raise StorageError(
            f"{path}: is {what}, and this program reads versions {before.FORMAT[3:].decode()} and "
            f"{FORMAT[3:].decode()}; start a release that reads it, or move the folder away to start empty"
        )
    _, length, checksum = _HEADER.unpack_from(data)
    body = memoryview(data)[_HEADER.size :]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise StorageError(f"{path}: damaged; restore it from a copy, or move the folder away to start empty")
    gc.disable()  # nothing made here is garbage, and the collector would look at very many objects
    try:
        return load(body) if version == FORMAT else _live(Stored(**before.read(body)))
    except Exception as error:
        raise StorageError(f"{path}: cannot be read by this release, {__version__}: {error}") from error
    finally:
        gc.enable()


_HINTS: Final = {"links": ' (`paths = "links"` if others carried none then)'}


def _topics(listed: Iterable[str] | None) -> str:
    """Returns a list of topic filters as the configuration file has it, for messages."""
    return "no list" if listed is None else repr(list(listed))


def _check_same_network(live: LiveBroker, settings: Settings, folder: Path) -> None:
    """Refuses settings that do not fit the network for which the folder was stored."""
    stored = live.machine.settings
    for name in ("me", "brokers", "links", "at", "overlay", "publishes"):
        then, now = getattr(stored, name), getattr(settings, name)
        if then == now:
            continue
        field, was, has = f"network.{name}", repr(then), repr(now)
        if name == "publishes":
            broker = next(one for one in (*then, *now) if then.get(one) != now.get(one))
            field, was, has = f"brokers.{broker}.{name}", _topics(then.get(broker)), _topics(now.get(broker))
        raise ConfigError(
            f"{field}: is {has}, but {folder} holds sessions of a network with {was}; set it "
            f"back{_HINTS.get(name, '')}, or move the folder away to start empty"
        )
    try:
        check_change(choices(stored), choices(settings), "network.scheme")
    except ConfigError as error:
        raise ConfigError(
            f"{error}; {folder} holds sessions under {stored.scheme!r}: set it back, or move the folder away to start "
            "empty"
        ) from error
