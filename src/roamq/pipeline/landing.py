"""Landing: input files are brought, by content, to where the pipeline picks them up.

A dataset has a folder of its own in the warehouse. A file lands there as a link named by the digest of its content: the
same file twice, or under another name, is one link, and Spark's file source then reads it once. Archives are
unpacked, because Spark reads compressed files but no archives. Nothing is half-landed: a file appears under its
final name by one rename. Places that are not local (`hdfs://`, `s3a://`) are left to Spark as they are.
"""

import hashlib
import json
import math
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from roamq.core.errors import ConfigError
from roamq.pipeline.rules import Rules

LANDING: Final = "landing"
SOURCES: Final = "sources.json"
DIGEST_LENGTH: Final = 16
CHUNK_BYTES: Final = 1 << 20
ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
NOT_DATA: Final = ("readme", "license", "licence")
"""Files beside the data that describe it; they are left alone when a folder lands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One dataset of a warehouse: its format, where Spark finds its files, and how its rules differ."""

    dataset: str
    format: str
    path: str
    settings: dict[str, str] = field(default_factory=dict)

    def rules(self, defaults: Rules) -> Rules:
        return defaults.changed(self.settings)


def load_sources(warehouse: Path) -> list[Source]:
    """The datasets of a warehouse, in the order of their names."""
    file = warehouse / SOURCES
    if not file.exists():
        return []
    return [Source(**entry) for entry in json.loads(file.read_text(encoding="utf-8"))]


def register(warehouse: Path, source: Source) -> Source:
    """Remember a dataset. A dataset keeps its format; its rules may change, which changes what is derived."""
    check_format(warehouse, source)
    known = {other.dataset: other for other in load_sources(warehouse)}
    known[source.dataset] = source
    entries = [asdict(known[name]) for name in sorted(known)]
    _write_whole(warehouse / SOURCES, json.dumps(entries, indent=2) + "\n")
    return source


def landed_bytes(warehouse: Path) -> float:
    """How much the sources of a warehouse hold on this machine; infinite where some lie elsewhere."""
    paths = [source.path for source in load_sources(warehouse)]
    if any("://" in path for path in paths):
        return math.inf
    files = (file for path in paths for file in Path(path).rglob("*"))
    return sum(file.stat().st_size for file in files if file.is_file())


def check_format(warehouse: Path, source: Source) -> None:
    for before in load_sources(warehouse):
        if before.dataset == source.dataset and before.format != source.format:
            raise ConfigError(
                f"dataset {source.dataset!r} holds {before.format!r} traces already; "
                f"choose another name with --dataset for {source.format!r}"
            )


def add_source(
    warehouse: Path, path: str, format_name: str, dataset: str, settings: dict[str, str]
) -> Source:
    """Land files of a known format and remember them as a dataset; refuses before anything is written."""
    from roamq.pipeline.traces import FORMATS

    if format_name not in FORMATS:
        raise ConfigError(f"format {format_name!r} is unknown; known are {', '.join(FORMATS)}")
    trace_format = FORMATS[format_name]
    source = Source(dataset=dataset, format=format_name, path=path, settings=settings)
    source.rules(trace_format.rules)
    check_format(warehouse, source)
    if trace_format.read is None:
        landed = land(path, warehouse, dataset, client_in_name=trace_format.client_in_name)
    else:
        landed = _records_folder(path)
    return register(warehouse, replace(source, path=landed))


def _records_folder(path: str) -> str:
    """A folder of records is read where it is, because it grows; campaigns keep them beside their runs."""
    if "://" in path:
        return path
    folder = Path(path)
    inner = folder / "part=records"
    if not folder.is_dir():
        raise ConfigError(f"records: there is no folder {path}")
    return str((inner if inner.is_dir() else folder).resolve())


def land(path: str, warehouse: Path, dataset: str, *, client_in_name: bool = False) -> str:
    """Bring a file, a folder or an archive into the dataset's landing folder; returns the path for Spark.

    `client_in_name`: a file's name is part of what it says, so only equal name and content are the same file.
    """
    if "://" in path:
        return path
    origin = Path(path)
    if not origin.exists():
        raise ConfigError(f"traces: there is no file or folder {path}")
    folder = warehouse.resolve() / LANDING / dataset
    folder.mkdir(parents=True, exist_ok=True)
    present = {name.name[:DIGEST_LENGTH] for name in folder.iterdir()}
    for file in _data_files(origin):
        digest = _digest(file, client_in_name)
        if digest not in present:
            present.add(digest)
            target = folder / f"{digest}-{file.name}"
            if file.name.lower().endswith(ARCHIVES):
                _unpack(file, target)
            else:
                _link(file, target)
    if not present:
        raise ConfigError(f"traces: {path} holds no data files")
    return str(folder)


def _data_files(origin: Path) -> Iterator[Path]:
    if origin.is_file():
        yield origin
        return
    for file in sorted(origin.rglob("*")):
        hidden = any(part.startswith((".", "_")) for part in file.relative_to(origin).parts)
        described = file.stem.lower().startswith(NOT_DATA) or file.suffix == ".json"
        if file.is_file() and not hidden and not described:
            yield file


def _digest(file: Path, client_in_name: bool) -> str:
    digest = hashlib.blake2b(digest_size=DIGEST_LENGTH // 2)
    if client_in_name:
        digest.update(file.name.encode() + b"\0")
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _link(file: Path, target: Path) -> None:
    """Land a plain file by a link to it, so that large inputs are not copied; a copy where links are unknown."""
    beside = target.parent / f".{target.name}"
    beside.unlink(missing_ok=True)
    try:
        beside.symlink_to(file.resolve())
    except OSError:
        shutil.copyfile(file, beside)
    beside.replace(target)


def _unpack(archive: Path, target: Path) -> None:
    """Unpack into a folder that appears only when it is whole; members cannot leave it."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=target.parent) as scratch:
        try:
            if archive.suffix == ".zip":
                with zipfile.ZipFile(archive) as members:
                    members.extractall(scratch)  # noqa: S202 - zipfile strips absolute and parent paths itself
            else:
                with tarfile.open(archive) as members:
                    members.extractall(scratch, filter="data")
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
            raise ConfigError(f"traces: {archive} cannot be unpacked: {error}") from error
        whole = Path(scratch) / "whole"
        members_found = [entry for entry in Path(scratch).iterdir() if entry != whole]
        whole.mkdir()
        for entry in members_found:
            entry.rename(whole / entry.name)
        whole.replace(target)


def _write_whole(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
