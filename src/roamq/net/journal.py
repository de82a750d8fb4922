"""The journal of inputs: groups of inputs in segment files, written before anything they cause leaves the process.

    segment-00000007.journal      group group group ...
    group                         header (magic, length, CRC-32), then the inputs as MessagePack

One group is one write: all inputs of a turn of the event loop. A fall may tear the last group; it was never
acknowledged to anybody, so it is cut off and reported. Anything else that cannot be read is damage, and is not
passed over in silence.
"""

import contextlib
import fcntl
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from roamq.core.errors import ConfigError, RoamqError
from roamq.net.node import Input

MAGIC: Final = b"RQJ1"
_HEADER: Final = struct.Struct("<4sII")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[list[Any]])
_SUFFIX: Final = ".journal"
LOCK_S_MAX: Final = 5.0


class StorageError(RoamqError):
    """The disk does not do what it should: the message says which file and why."""


class Journal:
    """The segment that is written to."""

    def __init__(self, folder: Path, segment: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self.segment = segment
        self.pending: list[Input] = []
        """Inputs that are not written yet. The shell appends to it."""
        self.written_bytes = 0
        """Since the last snapshot."""
        self._file = -1
        self._size = 0
        self._unwritten = b""
        self._open(segment)

    def write(self) -> None:
        """All pending inputs as one group, in the hands of the operating system: they survive our death.

        Raises `StorageError` and leaves a clean end behind if the disk is full: call it again later, with
        more inputs pending or not.
        """
        if self.pending:
            body = _ENCODER.encode(self.pending)
            self._unwritten += _HEADER.pack(MAGIC, len(body), zlib.crc32(body)) + body
            self.pending.clear()
        if not self._unwritten:
            return
        try:
            self._write_all(self._unwritten)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
                os.lseek(self._file, self._size, os.SEEK_SET)
            raise StorageError(f"{self._path(self.segment)}: cannot be written: {error.strerror}") from error
        self._size += len(self._unwritten)
        self.written_bytes += len(self._unwritten)
        self._unwritten = b""

    def sync(self) -> None:
        """What was written is on the disk: it survives a power failure. May be called from a thread."""
        os.fdatasync(self._file)

    def rotate(self) -> int:
        """Begin the next segment and give its number: a snapshot of now stands for all before it."""
        self.write()
        os.fdatasync(self._file)
        before = self._file
        self._open(self.segment + 1)
        os.close(before)
        self.written_bytes = 0
        return self.segment

    def discard_before(self, segment: int) -> None:
        """A snapshot has taken their place."""
        for number in segments(self.folder):
            if number < segment:
                self._path(number).unlink()

    def close(self) -> None:
        if self._file >= 0:
            self.write()
            os.fdatasync(self._file)
            os.close(self._file)
            self._file = -1

    def _open(self, segment: int) -> None:
        path = self._path(segment)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            sync_folder(self.folder)
        except OSError as error:
            raise StorageError(f"{path}: cannot be opened: {error.strerror}") from error
        self._file = file
        self._size = os.lseek(file, 0, os.SEEK_END)
        self.segment = segment

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def _path(self, segment: int) -> Path:
        return segment_path(self.folder, segment)


def segment_path(folder: Path, segment: int) -> Path:
    return folder / f"segment-{segment:08d}{_SUFFIX}"


def segments(folder: Path) -> list[int]:
    """The numbers of the segments in a folder, in order."""
    return sorted(int(path.stem.partition("-")[2]) for path in folder.glob(f"segment-*{_SUFFIX}"))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def lock_folder(folder: Path, wait_s: float = LOCK_S_MAX) -> int:
    """Keep other processes out for as long as the file that this gives is open.

    A killed broker's child may be at its last snapshot: it is given time to end.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(file)
                raise ConfigError(f"{folder}: is in use by another broker process") from None
            time.sleep(0.05)


class Reader:
    """Reads the groups from a segment on, across segments."""

    def __init__(self, folder: Path, first: int) -> None:
        self.folder = folder
        self.torn_bytes = 0
        """How much of an unfinished group was cut off at the end."""
        self.read_bytes = 0
        self.numbers = [number for number in segments(folder) if number >= first]
        if self.numbers and self.numbers != list(range(first, first + len(self.numbers))):
            missing = min(set(range(first, self.numbers[-1])) - set(self.numbers))
            raise StorageError(f"{segment_path(folder, missing)}: is missing; put it back from a copy")

    def __iter__(self) -> Iterator[Input]:
        for number in self.numbers:
            yield from self._segment(number, is_last=number == self.numbers[-1])

    def _segment(self, number: int, *, is_last: bool) -> Iterator[Input]:
        path = segment_path(self.folder, number)
        data = path.read_bytes()
        at = 0
        while at < len(data):
            body = _group(data, at)
            if body is None:
                self._cut(path, data, at, is_last=is_last)
                return
            for entry in _DECODER.decode(body):
                yield tuple(entry)
            at += _HEADER.size + len(body)
            self.read_bytes += _HEADER.size + len(body)

    def _cut(self, path: Path, data: bytes, at: int, *, is_last: bool) -> None:
        """The rest cannot be read: cut it off if a fall explains it."""
        following = data.find(MAGIC, at + 1)
        while following >= 0 and _group(data, following) is None:
            following = data.find(MAGIC, following + 1)
        if not is_last or following >= 0:
            raise StorageError(
                f"{path}: damaged at byte {at}, with more after it; restore the file from a copy, or move the "
                "folder away to start empty"
            )
        self.torn_bytes = len(data) - at
        with path.open("r+b") as file:
            file.truncate(at)


def _group(data: bytes, at: int) -> memoryview | None:
    """The body of the group that begins here, if it is whole."""
    if at + _HEADER.size > len(data):
        return None
    magic, length, checksum = _HEADER.unpack_from(data, at)
    body = memoryview(data)[at + _HEADER.size : at + _HEADER.size + length]
    if magic != MAGIC or len(body) != length or zlib.crc32(body) != checksum:
        return None
    return body
