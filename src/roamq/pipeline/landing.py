"""Landing: copy input files into the warehouse, where the pipeline reads them, and enter them in the dataset's book.

A file lands as a copy: the same content twice, or under another name, lands once, and a source that is moved, changed
or deleted later changes nothing that landed (docs/decisions/0077). A file that grew lands as a further piece that holds
the new lines. Archives are unpacked, because Spark reads compressed files but no archives. Addresses (`hdfs://`,
`s3a://`) and folders of records are read in place.
"""

import codecs
import hashlib
import io
import math
import re
import secrets
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from roamq.core.errors import ConfigError
from roamq.pipeline.books import FAILED, LANDED, LEAVING, READ, Book, FileEntry, Shelf, TraceSource
from roamq.pipeline.input_files import (
    ARCHIVES,
    CHUNK_BYTES,
    COUNTED,
    NOT_COUNTED,
    chunks,
    codec_of,
    count_lines,
    data_files,
    foreign,
    strange_files,
    uncompressed,
    unpack,
    why_unreadable,
)
from roamq.pipeline.ledger import ConflictError
from roamq.pipeline.store import SCHEME, Place, Store

LANDING: Final = "landing"
DATASET_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
DIGEST_LENGTH: Final = 16
SAME: Final = "same"
LONGER: Final = "longer"
OTHER: Final = "other"
ATTEMPTS: Final = 50
"""How often a change of the books is made again because another run committed meanwhile."""
PAUSE_S: Final = 0.2
"""At most so long it waits before that, so that two do not meet again."""


def load_sources(warehouse: Place) -> list[TraceSource]:
    """The datasets of a warehouse, in the order of their names."""
    return list(Shelf.of(warehouse).sources.values())


def find_source(warehouse: Place, dataset: str) -> TraceSource:
    """The dataset of this name; raises `ConfigError` where the warehouse holds none."""
    for source in load_sources(warehouse):
        if source.dataset == dataset:
            return source
    raise ConfigError(f"{warehouse} holds no dataset {dataset!r}; name its --traces and --format")


def landed_bytes(warehouse: Place) -> float:
    """How much the files of a warehouse hold; infinite where Spark alone can tell."""
    shelf = Shelf.of(warehouse)
    if any(SCHEME.match(source.path) for source in shelf.sources.values()):
        return math.inf
    return sum(entry.origin_bytes for name in shelf.sources for entry in shelf.book(name))


def check_source(shelf: Shelf, source: TraceSource) -> None:
    """Refuse a dataset whose name cannot be used, or that holds traces of another format or encoding already."""
    if not DATASET_NAME.fullmatch(source.dataset):
        raise ConfigError(f"--dataset {source.dataset}: use small letters, digits and _, a letter first")
    before = shelf.sources.get(source.dataset)
    if before is None:
        return
    if before.format != source.format:
        raise ConfigError(
            f"dataset {source.dataset!r} holds {before.format!r} traces already; "
            f"choose another name with --dataset for {source.format!r}"
        )
    encodings = [one.settings.get("encoding", "utf-8") for one in (before, source)]
    other = ""
    if before.mapping != source.mapping:
        other = f"--mapping: the files of {source.dataset!r} were read by another mapping"
    elif encodings[0] != encodings[1]:
        other = f"rule encoding: the files of {source.dataset!r} landed with encoding {encodings[0]}"
    if other and any(shelf.book(source.dataset)):
        raise ConfigError(f"{other}; remove the dataset first, or name another --dataset")


def committed(warehouse: Place, change: Callable[[Shelf], str]) -> str:
    """Change datasets and books in one commit; `change` says in words what it did, and nothing where it did nothing.

    Where another run commits first, the change is made again on what that run left.
    """
    for _ in range(ATTEMPTS):
        shelf = Shelf.of(warehouse)
        what = change(shelf)
        if not what:
            return what
        try:
            shelf.ledger.commit(shelf.snapshot, shelf.changes(), what)
        except ConflictError:
            time.sleep(PAUSE_S * secrets.randbelow(1000) / 1000)
            continue
        return what
    raise ConfigError(f"{warehouse}: other runs keep changing it; wait for them to end")


def add_source(
    warehouse: Place, path: str, format_name: str, dataset: str, settings: dict[str, str], mapping: str = ""
) -> TraceSource:
    """Land files of a known format and register them as a dataset; what is wrong is refused before anything is
    written.
    """
    source = TraceSource(dataset=dataset, format=format_name, path=path, settings=settings, mapping=mapping)
    trace_format = source.trace_format()
    rules = source.rules(trace_format.rules)
    source = _with_places(source, trace_format.has_coordinates)
    is_address = bool(SCHEME.match(path))
    if not is_address and not Path(path).exists():
        raise ConfigError(f"traces: there is no file or folder {path}")
    if trace_format.read is not None:
        source = replace(source, path=_read_in_place(path))
    elif is_address and rules.encoding != "utf-8":
        raise ConfigError(f"rule encoding: {path} is read in place, where only utf-8 can be read")
    in_place = is_address or trace_format.read is not None
    added = source

    def add(shelf: Shelf) -> str:
        nonlocal added
        check_source(shelf, source)
        known = shelf.sources.get(dataset)
        landed = 0
        if not in_place:
            landed = land(
                path, shelf, dataset, client_in_name=trace_format.client_in_name, encoding=rules.encoding
            )
        added = replace(
            source,
            path=source.path if in_place else f"{LANDING}/{dataset}",
            recipe=known.recipe if known else "",
        )
        shelf.sources[dataset] = added
        return f"{landed} files of {dataset} landed" if landed or known != added else ""

    committed(warehouse, add)
    return added


def _with_places(source: TraceSource, has_coordinates: bool) -> TraceSource:
    """The dataset with a rule `sites` that holds wherever a later run is started; one that cannot hold is refused."""
    from roamq.pipeline.placing import placing_by

    sites = source.settings.get("sites", "given")
    if sites == "given":
        return source
    if not has_coordinates:
        raise ConfigError(f"rule sites: traces of {source.format} have no positions; leave the rule out")
    placing_by(sites)
    kind, _, file = sites.partition(":")
    if kind != "nearest":
        return source
    return replace(source, settings=source.settings | {"sites": f"{kind}:{Path(file).resolve()}"})


def _read_in_place(path: str) -> str:
    """A file or folder that is read in place; a campaign keeps its records beside its table of runs."""
    if SCHEME.match(path):
        return path
    folder = Path(path)
    inner = folder / "part=records"
    return str((inner if inner.is_dir() else folder).resolve())


def land(
    path: str,
    shelf: Shelf,
    dataset: str,
    *,
    name: str | None = None,
    client_in_name: bool = False,
    encoding: str = "utf-8",
) -> int:
    """Bring a file, a folder or an archive into the dataset's landing folder; returns how many files were new.

    A file of a folder is named by its path within the folder; `name` says how a single file is named, if not by its
    own. `client_in_name`: a file's name is part of what it says, so only equal name and content are the same file.
    """
    origin = Path(path)
    if not origin.exists():
        raise ConfigError(f"traces: there is no file or folder {path}")
    files, strange = list(data_files(origin)), list(strange_files(origin))
    if not files and not strange:
        raise ConfigError(f"traces: {path} holds no data files")
    landing = _Landing(shelf.book(dataset), shelf.ledger.store, client_in_name, codecs.lookup(encoding).name)
    for file, reason in strange:
        landing.refuse(file.absolute(), str(file.relative_to(origin)), reason)
    for file in files:
        known_as = (name or file.name) if origin.is_file() else str(file.relative_to(origin))
        try:
            landing.take(file.resolve(), known_as)
        except ConfigError as error:
            if origin.is_file():
                raise
            landing.refuse(file.resolve(), known_as, str(error))  # the other files of the folder land
    return landing.taken


def uncopied(path: str, name: str, size: int, modified_ns: int) -> FileEntry:
    """The entry of a file that has no copy."""
    return FileEntry(name=name, path=path, origin=path, origin_bytes=size, modified_ns=modified_ns, digest="")


class _Landing:
    """Brings the files of one dataset into its folder and enters them in its book."""

    def __init__(self, book: Book, store: Store, client_in_name: bool, encoding: str) -> None:
        self.book = book
        self.taken = 0
        self._store = store
        self._folder = f"{LANDING}/{book.dataset}/{secrets.token_hex(6)}"
        self._client_in_name = client_in_name
        self._encoding = encoding
        self._of_origin: dict[str, list[FileEntry]] = {}
        for entry in book:
            self._of_origin.setdefault(entry.origin, []).append(entry)
        self._digests = {entry.digest for entry in book if entry.state != LEAVING}

    def take(self, file: Path, name: str) -> None:
        """Land one source file, unless its content has landed."""
        status = file.stat()
        known = [entry for entry in self._of_origin.get(str(file), []) if entry.state != LEAVING]
        if any(
            (entry.origin_bytes, entry.modified_ns) == (status.st_size, status.st_mtime_ns) for entry in known
        ):
            return
        digests = self._digest(file, name, status.st_size, {entry.origin_bytes for entry in known})
        digest = digests[status.st_size].hexdigest()
        if digest in self._digests or self._is_begin(known, name, status.st_size, digest):
            return
        entry = FileEntry(
            name=name,
            path=f"{self._folder}/{digest}-{name}",
            origin=str(file),
            origin_bytes=status.st_size,
            modified_ns=status.st_mtime_ns,
            digest=digest,
        )
        if name.lower().endswith(ARCHIVES):
            self._unpack(file, entry, known)
        else:
            begins = {size: begun.hexdigest() for size, begun in digests.items()}
            earlier = [other for other in known if begins.get(other.origin_bytes) == other.digest]
            if codec_of(name) in COUNTED:
                found = {other.path: self._compared(file, other) for other in known if other not in earlier}
                if SAME in found.values():
                    return
                earlier += [other for other in known if found.get(other.path) == LONGER]
            stale = [other for other in known if other.state == FAILED and other not in earlier]
            self._copy(file, entry, earlier, stale, digests)
        self._digests.add(digest)

    def refuse(self, file: Path, name: str, reason: str) -> None:
        """Enter a file that could not land."""
        status = file.lstat()
        entry = uncopied(str(file), name, status.st_size, status.st_mtime_ns)
        self._enter(replace(entry, state=FAILED, reason=reason))

    def _enter(self, entry: FileEntry) -> None:
        self.book.put(entry)
        self.taken += 1

    def _copy(
        self,
        file: Path,
        entry: FileEntry,
        earlier: list[FileEntry],
        stale: list[FileEntry],
        digests: "dict[int, hashlib.blake2b]",
    ) -> None:
        """Copy a file, or the part of it that is new since its earlier pieces landed."""
        begin = 0
        last = max(earlier, key=lambda other: other.origin_bytes, default=None)
        if last is not None and self._can_go_on(file, earlier):
            begin = last.origin_bytes
            previous = [other.origin_bytes for other in earlier if other.origin_bytes < last.origin_bytes]
            size = last.origin_bytes - max(previous, default=0)
            entry = replace(entry, first=last.first or last.key, shift=last.shift + (size >> 20) + 1)
        elif earlier or stale:
            entry = replace(entry, replaces=tuple(other.path for other in (*earlier, *stale)))
        size = entry.origin_bytes - begin
        begun = (digests[begin] if begin else self._new_digest(entry.name)).copy()
        self._take_the_place(self._copied(file, entry, begin, size, begun))

    def _take_the_place(self, entry: FileEntry) -> None:
        """Enter a file. What it replaces goes at once where it was never read."""
        for path in entry.replaces:
            if self.book.entries[path].state != READ and entry.state == LANDED:
                del self.book.entries[path]
        self._enter(entry)

    def _compared(self, file: Path, other: FileEntry) -> str:
        """How a file goes with a copy that landed before, both uncompressed: it is the same, begins with it, or is
        another.
        """
        if other.state == FAILED or other.lines is None or self._encoding != "utf-8":
            return OTHER
        try:
            with (
                file.open("rb") as raw,
                uncompressed(raw, file.name) as new,
                self._store.open_to_read(other.path) as copy,
                uncompressed(copy, other.path) as old,
            ):
                while chunk := old.read(CHUNK_BYTES):
                    if new.read(len(chunk)) != chunk:
                        return OTHER
                return LONGER if new.read(1) else SAME
        except (EOFError, zlib.error, OSError):
            return OTHER  # whoever counts its lines says what is wrong with it

    def _can_go_on(self, file: Path, earlier: list[FileEntry]) -> bool:
        """New lines can be read alone if the file is plain text and the lines before them were whole."""
        plain = codec_of(file.name) == "" and self._encoding == "utf-8"
        return plain and all(entry.ends_whole and entry.state != FAILED for entry in earlier)

    def _copied(
        self, file: Path, entry: FileEntry, begin: int, size: int, digest: "hashlib.blake2b | None" = None
    ) -> FileEntry:
        """Copy `size` bytes from `begin` and count the lines of the copy. With `digest`, which goes up to `begin`, the
        copy must be what was digested.
        """
        if self._encoding != "utf-8":
            entry = replace(entry, path=entry.path.removesuffix(codec_of(entry.name)))
        try:
            if reason := foreign(file):
                return replace(entry, state=FAILED, reason=reason)
            if self._encoding != "utf-8":
                self._transcode(file, entry.path)
            else:
                with file.open("rb") as source, self._store.open_to_write(entry.path) as sink:
                    source.seek(begin)
                    for chunk in chunks(source, size):
                        sink.write(chunk)
                        if digest is not None:
                            digest.update(chunk)
                if digest is not None and digest.hexdigest() != entry.digest:
                    return replace(entry, state=FAILED, reason="it changed while it was copied")
            return self._counted(entry)
        except (EOFError, UnicodeError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise ConfigError(f"traces: {file} cannot be read: {error.strerror}") from error
            return replace(entry, state=FAILED, reason=why_unreadable(error))

    def _transcode(self, file: Path, path: str) -> None:
        """Copy a file as plain UTF-8."""
        with (
            file.open("rb") as raw,
            uncompressed(raw, file.name) as source,
            self._store.open_to_write(path) as sink,
        ):
            text = io.TextIOWrapper(source, self._encoding, newline="")
            while part := text.read(CHUNK_BYTES):
                sink.write(part.encode())

    def _counted(self, entry: FileEntry) -> FileEntry:
        """The entry, with the number of lines that its landed copy has, and whether the last line is complete."""
        if codec_of(entry.path) in NOT_COUNTED:
            return replace(entry, ends_whole=False)
        with self._store.open_to_read(entry.path) as copy, uncompressed(copy, entry.path) as stream:
            lines, ends_whole = count_lines(stream)
        return replace(entry, lines=lines, ends_whole=ends_whole)

    def _digest(
        self, file: Path, name: str, size: int, also_at: Iterable[int]
    ) -> "dict[int, hashlib.blake2b]":
        """Digests of the first `size` bytes and of each shorter begin in `also_at`."""
        digest = self._new_digest(name)
        found: dict[int, hashlib.blake2b] = {}
        at = 0
        with file.open("rb") as stream:
            for stop in sorted({*(mark for mark in also_at if mark <= size), size}):
                for chunk in chunks(stream, stop - at):
                    digest.update(chunk)
                at = stop
                found[stop] = digest.copy()
        return found

    def _new_digest(self, name: str) -> "hashlib.blake2b":
        digest = hashlib.blake2b(digest_size=DIGEST_LENGTH // 2)
        if self._client_in_name:
            digest.update(name.encode() + b"\0")
        return digest

    def _is_begin(self, known: list[FileEntry], name: str, size: int, digest: str) -> bool:
        """A source that shrank to a begin of what landed holds nothing new."""
        longer = [entry for entry in known if entry.origin_bytes > size]
        pieces = sorted(
            (entry for entry in known if entry.state != FAILED), key=lambda entry: entry.origin_bytes
        )
        if not longer or self._encoding != "utf-8" or any(entry.path == entry.origin for entry in pieces):
            return False
        ours = self._new_digest(name)
        left = size
        for piece in pieces:
            with self._store.open_to_read(piece.path) as copy:
                for chunk in chunks(copy, left):
                    ours.update(chunk)
                    left -= len(chunk)
        return left == 0 and ours.hexdigest() == digest

    def _unpack(self, archive: Path, entry: FileEntry, known: list[FileEntry]) -> None:
        """Land every member of an archive that an earlier version of it did not hold; members cannot leave the folder
        they are unpacked to.
        """
        with tempfile.TemporaryDirectory(prefix="roamq-unpacking-") as scratch:
            unpack(archive, Path(scratch))
            for file in data_files(Path(scratch)):
                inner = str(file.relative_to(scratch))
                member = replace(entry, name=f"{entry.name}/{inner}", path=f"{entry.path}/{inner}")
                found = {
                    other.path: self._compared(file, other) for other in known if other.name == member.name
                }
                if SAME in found.values():
                    continue
                replaced = tuple(path for path, how in found.items() if how == LONGER)
                member = replace(member, replaces=replaced)
                self._take_the_place(self._copied(file, member, 0, file.stat().st_size))
