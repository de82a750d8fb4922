"""Input files as they lie before they land: which of a folder are data, how they are packed, how many lines they have.

Nothing here knows a warehouse.
"""

import bz2
import gzip
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from roamq.core.errors import ConfigError

CHUNK_BYTES: Final = 1 << 20
ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
COUNTED: Final = {".gz": gzip.open, ".bz2": bz2.open}
"""Compressed files that are read whole on landing, which finds those that are cut short."""
NOT_COUNTED: Final = (".deflate", ".lz4", ".snappy", ".zst")
"""Compressed files that only Spark can read: their lines are counted by Spark alone."""
FOREIGN: Final = {
    rb"\x1f\x8b\x08": "compressed by gzip, which a name ending in .gz must say",
    rb"BZh[1-9]1AY&SY": "compressed by bzip2, which a name ending in .bz2 must say",
    rb"\x28\xb5\x2f\xfd": "compressed by zstd, which a name ending in .zst must say",
    rb"\xfd7zXZ\x00": "compressed by xz; use gzip or bzip2",
    rb"PK\x03\x04": "a zip archive, which is unpacked under a name ending in .zip, and not within another archive",
    rb"7z\xbc\xaf\x27\x1c": "a 7z archive; use .zip or .tar.gz",
    rb"PAR1": "a Parquet file, and the format reads text; `roamq pipeline formats` lists others",
}
"""Begins of files that are no text although their names do not say so: each of their lines would be quarantined."""
NOT_DATA: Final = ("readme", "license", "licence")
"""Files beside the data that describe it; they are left alone when a folder lands."""


def count_lines(stream: IO[bytes]) -> tuple[int, bool]:
    """How many lines a stream has, as Spark counts them, and whether the last one is complete.

    A line ends with a line feed, a carriage return, or both.
    """
    lines, last = 0, b""
    while chunk := stream.read(CHUNK_BYTES):
        lines += chunk.count(b"\n")
        returns = chunk.count(b"\r")
        if returns:
            lines += returns - chunk.count(b"\r\n")
        if last == b"\r" and chunk[:1] == b"\n":
            lines -= 1
        last = chunk[-1:]
    is_whole = last in (b"", b"\n")
    # After a carriage return a line feed may still come: the line is there, but a piece cannot begin behind it.
    return lines + (last not in (b"", b"\n", b"\r")), is_whole


def chunks(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """The next `size` bytes of a stream, or as many as there are."""
    while size > 0 and (chunk := stream.read(min(CHUNK_BYTES, size))):
        yield chunk
        size -= len(chunk)


def codec_of(name: str) -> str:
    """The suffix by which Spark knows that a file is compressed; empty for plain text."""
    suffix = Path(name).suffix
    return suffix if suffix in COUNTED or suffix in NOT_COUNTED else ""


def uncompressed(stream: IO[bytes], name: str) -> IO[bytes]:
    """What a stream holds, uncompressed if its name says that it is compressed."""
    opener = COUNTED.get(codec_of(name))
    opened: IO[bytes] = stream if opener is None else opener(stream, "rb")  # type: ignore[operator]
    return opened


def why_unreadable(error: Exception) -> str:
    """What is wrong with a file, by the error of whoever read it."""
    if isinstance(error, EOFError):
        return "the compressed file is cut short"
    if isinstance(error, UnicodeError):
        return f"its bytes are not in the stated encoding: {error}"
    return f"the compressed file is damaged: {error}"


def foreign(file: Path) -> str:
    """Why a file whose name says that it is text is none; empty where it may be."""
    if codec_of(file.name):
        return ""
    with file.open("rb") as stream:
        begin = stream.read(16)
    return next((f"it is {what}" for mark, what in FOREIGN.items() if re.match(mark, begin)), "")


def visible_files(origin: Path) -> Iterator[Path]:
    """A file, or the files of a folder in the order of their names, without those that are hidden."""
    return (path for path in [origin, *_within(origin)] if path.is_file())


def _within(origin: Path) -> list[Path]:
    """All that lies in a folder and the folders within it, and is not hidden."""
    return [
        path
        for path in sorted(origin.rglob("*"))
        if not any(part.startswith((".", "_")) for part in path.relative_to(origin).parts)
    ]


def strange_files(origin: Path) -> Iterator[tuple[Path, str]]:
    """What lies in a folder and cannot land, with the reason."""
    for path in _within(origin):
        if path.is_symlink() and path.is_dir():
            yield path, "it is a link to a folder, which is not followed: name that folder with --traces"
        elif not path.exists():
            yield path, "it is a link to a file that is not there"
        elif not path.is_file() and not path.is_dir():
            yield path, "it is neither a file nor a folder"


def data_files(origin: Path) -> Iterator[Path]:
    """A file, or the files of a folder that are data and not about it."""
    if origin.is_file():
        yield origin
        return
    files = [file for file in visible_files(origin) if not file.stem.lower().startswith(NOT_DATA)]
    # JSON beside other files describes them; JSON alone is the trace. TOML is a mapping.
    others = [file for file in files if file.suffix not in (".json", ".toml")]
    yield from others or [file for file in files if file.suffix == ".json"]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder, which no member can leave."""
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as members:
                members.extractall(folder)  # noqa: S202 - zipfile strips absolute and parent paths itself
        else:
            with tarfile.open(archive) as members:
                members.extractall(folder, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, OSError) as error:
        raise ConfigError(f"traces: {archive} cannot be unpacked: {error}") from error
