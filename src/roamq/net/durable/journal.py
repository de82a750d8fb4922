"""The journal of a broker: groups of inputs in segment files, written before their outputs leave the process.

    segment-00000007.journal      group group group ...
    group                         header (magic, length, CRC-32), then the inputs as MessagePack
    written                       the number of the last segment that has groups

One group is one write: all inputs of a turn of the event loop. A fall may tear the last group. Its outputs never left
the broker, so a recovery cuts the group off and reports it. Anything else that cannot be read is damage, and the
recovery stops with an error.
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
from roamq.net.durable.inputs import KINDS, JournalEntry

MAGIC: Final = b"RQJ2"
"""Begins every group; the digit is the version. Inputs of another version mean something else to this program."""
_ANY_VERSION: Final = MAGIC[:3]
_HEADER: Final = struct.Struct("<4sII")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[list[Any]])
_SUFFIX: Final = ".journal"
_NOTHING: Final = _ENCODER.encode([])
_LAST_GROUP: Final = _HEADER.pack(MAGIC, len(_NOTHING), zlib.crc32(_NOTHING)) + _NOTHING
_WRITTEN: Final = "written"
LOCK_S_MAX: Final = 5.0


class StorageError(RoamqError):
    """The disk failed or holds the wrong files: the message says which file and why."""


class Journal:
    """Appends groups of inputs to the newest segment."""

    def __init__(self, folder: Path, segment: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self.segment = segment
        self.pending: list[JournalEntry] = []
        """Inputs that are not written yet. The shell appends to this list."""
        self.written_bytes = 0
        """Bytes written since the last snapshot."""
        self._size = 0
        self._unwritten = b""
        self._file = self._open(segment)
        self._size = os.lseek(self._file, 0, os.SEEK_END)
        self._next = -1
        """The open file of the next segment, once it is made; -1 before."""
        self._noted = 0
        """The segment of which the file beside the segments says that it has groups."""

    def write(self) -> None:
        """Hands all pending inputs to the operating system as one group: they survive the death of this process.

        Raises `StorageError` and leaves a clean end behind if the disk is full: call it again later, with more inputs
        pending or not.
        """
        self.gather()
        self.write_gathered()

    def gather(self) -> int:
        """Makes a group of the pending inputs; returns how many bytes wait to be written. Not while a thread writes."""
        if self.pending:
            body = _ENCODER.encode(self.pending)
            self._unwritten += _HEADER.pack(MAGIC, len(body), zlib.crc32(body)) + body
            self.pending.clear()
        return len(self._unwritten)

    def write_gathered(self) -> None:
        """Writes the groups that `gather` made. May be called from a thread."""
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
        if self._noted != self.segment:
            self._note_written()

    def sync(self) -> None:
        """Syncs all written groups to the disk, so that they survive a power failure. May be called from a thread."""
        os.fdatasync(self._file)

    def rotate(self) -> int:
        """Begins the next segment and returns its number: a snapshot of this moment replaces all segments before it."""
        self.write()
        self.make_next()
        self.finish(self.begin_next())
        return self.segment

    def make_next(self) -> None:
        """Makes the file of the next segment. May be called from a thread, while groups are written."""
        if self._next < 0:
            self._next = self._open(self.segment + 1)

    def begin_next(self) -> int:
        """Switches to the next segment, whose file is made, without waiting; returns the file of the segment that ends.

        All gathered groups must be written before. The caller passes the file to `finish`, and writes nothing until
        then.
        """
        assert self._next >= 0 and not self._unwritten
        ended, self._file, self._next = self._file, self._next, -1
        self._size = 0
        self.written_bytes = 0
        self.segment += 1
        return ended

    def finish(self, ended: int) -> None:
        """Ends a segment with an empty group, which tells a reader that another segment follows. May be called from a
        thread."""
        try:
            os.write(ended, _LAST_GROUP)
            os.fdatasync(ended)
        except OSError as error:
            path = self._path(self.segment - 1)
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
        finally:
            os.close(ended)

    def discard_before(self, segment: int) -> None:
        """Deletes the segments that a snapshot has replaced."""
        for number in segments(self.folder):
            if number < segment:
                self._path(number).unlink(missing_ok=True)

    def close(self) -> None:
        if self._file >= 0:
            self.write()
            os.fdatasync(self._file)
            os.close(self._file)
            self._file = -1
        if self._next >= 0:
            os.close(self._next)
            self._next = -1

    def _open(self, segment: int) -> int:
        path = self._path(segment)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            sync_folder(self.folder)
        except OSError as error:
            raise StorageError(f"{path}: cannot be opened: {error.strerror}") from error
        return file

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def _note_written(self) -> None:
        """Notes beside the segment that it has groups: if it were emptied later, it would look like a new one."""
        with contextlib.suppress(OSError):  # the next write tries again, and reports a full disk
            file = os.open(self.folder / _WRITTEN, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(file, b"%08d\n" % self.segment, 0)
            finally:
                os.close(file)
            self._noted = self.segment

    def _path(self, segment: int) -> Path:
        return segment_path(self.folder, segment)


def segment_path(folder: Path, segment: int) -> Path:
    return folder / f"segment-{segment:08d}{_SUFFIX}"


def segments(folder: Path) -> list[int]:
    """Returns the numbers of the segments in a folder, in order."""
    return sorted(numbered(path, path.stem.partition("-")[2]) for path in folder.glob(f"segment-*{_SUFFIX}"))


def numbered(path: Path, digits: str) -> int:
    """Returns the number in a file's name."""
    if not (digits.isascii() and digits.isdecimal()) or f"{int(digits):08d}" != digits:
        raise StorageError(f"{path}: is not a file of this broker; move it out of the folder")
    if path.exists() and not path.is_file():
        # Opening a pipe would wait for ever, and reading a device would not end.
        raise StorageError(f"{path}: is no plain file; move it out of the folder")
    return int(digits)


def sync_folder(folder: Path) -> None:
    """Makes the names of new files in a folder survive a power failure."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def lock_folder(folder: Path, wait_s: float = LOCK_S_MAX) -> int:
    """Keeps other processes out of the folder for as long as the returned file is open.

    The child process of a killed broker may still write its snapshot: this waits for it to end.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{folder}: cannot be written: {reason}; make it a folder of this user") from error
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

    def __init__(
        self, folder: Path, first: int, *, is_expected: bool = False, only_looks: bool = False
    ) -> None:
        """`is_expected`: a snapshot says that the segment `first` was begun. `only_looks`: nothing is cut off."""
        self.folder = folder
        self._only_looks = only_looks
        self.torn_bytes = 0
        """Bytes of an unfinished group at the end, which the reader cuts off."""
        self.read_bytes = 0
        self.numbers = [number for number in segments(folder) if number >= first]
        if not self.numbers and is_expected:
            raise StorageError(f"{segment_path(folder, first)}: is missing; put it back from a copy")
        written = _last_written(folder)
        if written >= first and written not in self.numbers:
            raise StorageError(f"{segment_path(folder, written)}: is missing; put it back from a copy")
        if self.numbers and self.numbers != list(range(first, first + len(self.numbers))):
            missing = min(set(range(first, self.numbers[-1])) - set(self.numbers))
            raise StorageError(f"{segment_path(folder, missing)}: is missing; put it back from a copy")
        if written in self.numbers and not size_of(segment_path(folder, written)):
            raise StorageError(
                f"{segment_path(folder, written)}: is empty, and this broker had written to it; put it back from a "
                f"copy, or remove the file {_WRITTEN!r} beside it to go on without"
            )

    def __iter__(self) -> Iterator[JournalEntry]:
        # The journal makes the file of the next segment before it needs it: a fall may have left the file empty.
        written = [number for number in self.numbers if size_of(segment_path(self.folder, number))]
        for number in self.numbers:
            yield from self._segment(number, is_last=number >= max(written, default=0))

    def _segment(self, number: int, *, is_last: bool) -> Iterator[JournalEntry]:
        path = segment_path(self.folder, number)
        data = read_file(path)
        if data[:3] == _ANY_VERSION and data[3:4] not in (b"", MAGIC[3:]):
            raise StorageError(
                f"{path}: is a journal of version {data[3:4].decode('latin-1')}, and this program reads version "
                f"{MAGIC[3:].decode()}; start the program that wrote it and drain the broker, or move the folder away "
                "to start empty"
            )
        at = 0
        while at < len(data):
            body = _group(data, at)
            if body is None:
                self._cut(path, data, at, is_last=is_last)
                return
            yield from self._entries(path, at, body)
            at += _HEADER.size + len(body)
            self.read_bytes += _HEADER.size + len(body)
            if number == self.numbers[-1] and bytes(body) == _NOTHING:
                following = segment_path(self.folder, number + 1)
                raise StorageError(f"{following}: is missing; put it back from a copy")

    def _entries(self, path: Path, at: int, body: memoryview) -> Iterator[JournalEntry]:
        try:
            entries = [tuple(entry) for entry in _DECODER.decode(body)]
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise StorageError(f"{path}: what is written at byte {at} is no journal: {error}") from error
        if not all(entry and isinstance(entry[0], int) for entry in entries):
            raise StorageError(f"{path}: what is written at byte {at} is no journal")
        for entry in entries:
            if entry[0] not in KINDS:
                raise StorageError(
                    f"{path}: has inputs of kind {entry[0]}, which this program does not know; start the newer "
                    "release that wrote it"
                )
            yield entry

    def _cut(self, path: Path, data: bytes, at: int, *, is_last: bool) -> None:
        """Cuts off the unreadable rest of a segment if a fall explains it; raises `StorageError` if not."""
        following = data.find(MAGIC, at + 1)
        while following >= 0 and _group(data, following) is None:
            following = data.find(MAGIC, following + 1)
        if not is_last or following >= 0:
            raise StorageError(
                f"{path}: damaged at byte {at}, with more after it; restore the file from a copy, or move the "
                "folder away to start empty"
            )
        self.torn_bytes = len(data) - at
        if self._only_looks:
            return
        if not at:
            (self.folder / _WRITTEN).unlink(missing_ok=True)  # it has no group now, and that is reported
        with path.open("r+b") as file:
            file.truncate(at)


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _last_written(folder: Path) -> int:
    """Returns the last segment that is noted to have groups; 0 if none is, as in a folder of the release before."""
    path = folder / _WRITTEN
    if not path.is_file():
        return 0
    digits = read_file(path).strip()
    return int(digits) if digits.isdigit() else 0


def _group(data: bytes, at: int) -> memoryview | None:
    """Returns the body of the group that begins at `at`; None if the group is not whole."""
    if at + _HEADER.size > len(data):
        return None
    magic, length, checksum = _HEADER.unpack_from(data, at)
    body = memoryview(data)[at + _HEADER.size : at + _HEADER.size + length]
    if magic != MAGIC or len(body) != length or zlib.crc32(body) != checksum:
        return None
    return body
