"""A store: the place of a warehouse's files, here or elsewhere, as Spark, Arrow and delta-rs each name it.

A place is a folder or an address (`file:`, `s3a:`, `hdfs:`). Arrow's file systems read and write single files, Spark
writes tables, delta-rs keeps their logs (docs/decisions/0120). Nothing is renamed or locked here.
"""

import functools
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import quote

from roamq.core.errors import ConfigError

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

Place = str | os.PathLike[str]
"""A folder, or an address."""

SCHEME: Final = re.compile("([a-z][a-z0-9+.-]*):/")
"""An address begins with this: `s3a://bucket`, or `file:/folder` as Spark writes it."""
ESCAPE: Final = re.compile("%[0-9A-Fa-f]{2}")
"""What delta-rs takes for another letter, also where it is part of a name."""
S3: Final = ("s3", "s3a", "s3n")
FULL_BYTES: Final = 1 << 20
"""With less than this, a disk is full: what a writer left behind when it failed may be free again."""


@dataclass(frozen=True)
class Store:
    """Files under one place. `relative` paths have slashes, and no letter means anything but itself."""

    place: str
    """An absolute path, or an address."""

    @classmethod
    def at(cls, place: "Place | Store") -> "Store":
        if isinstance(place, Store):
            return place
        text = os.fspath(place)
        if text.startswith("file:"):
            text = "/" + text.removeprefix("file:").lstrip("/")
        if found := ESCAPE.search(text):
            raise ConfigError(f"--warehouse {text}: {found[0]} cannot be part of the name; choose another")
        return cls(text.rstrip("/") if SCHEME.match(text) else str(Path(text).resolve()))

    @property
    def is_local(self) -> bool:
        return not SCHEME.match(self.place)

    def within(self, relative: str) -> str:
        """The path or address of a file."""
        return f"{self.place}/{relative}" if relative else self.place

    @functools.cached_property
    def _files(self) -> "FileSystem":
        """All that lies under this place, as a file system of its own."""
        from pyarrow import fs

        if self.is_local:
            return fs.SubTreeFileSystem(self.place, fs.LocalFileSystem())
        scheme, _, rest = self.place.partition("://")
        address = f"s3://{rest}" if scheme in S3 else self.place
        try:
            system, path = fs.FileSystem.from_uri(quote(address, safe=":/@"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.place} cannot be reached: {error}") from error
        return fs.SubTreeFileSystem(path, system)

    def open_to_read(self, relative: str) -> Any:
        """A file for reading at any position."""
        return self._files.open_input_file(relative)

    @contextmanager
    def open_to_write(self, relative: str) -> Iterator[IO[bytes]]:
        """A new file; its folder is made if need be."""
        try:
            self._files.create_dir(relative.rpartition("/")[0], recursive=True)
            with self._files.open_output_stream(relative, compression=None) as sink:
                yield sink
        except OSError as error:
            raise ConfigError(f"{self.place} cannot be written: {_without_path(error)}") from error

    def files(self, relative: str) -> "list[FileInfo]":
        """The files in a folder and the folders within it, with sizes and times; none where there is no folder."""
        from pyarrow import fs

        selector = fs.FileSelector(relative, allow_not_found=True, recursive=True)
        return [found for found in self._files.get_file_info(selector) if found.type == fs.FileType.File]

    def exists(self, relative: str) -> bool:
        from pyarrow import fs

        return bool(self._files.get_file_info(relative).type != fs.FileType.NotFound)

    def delete(self, relative: str) -> None:
        """Delete a file, if it is there."""
        if self.exists(relative):
            self._files.delete_file(relative)

    def why_full(self) -> str:
        """What to add to an error of a writer that does not say why: the disk of a local place is full, or nothing."""
        if not self.is_local or shutil.disk_usage(self.place).free > FULL_BYTES:
            return ""
        return f" There is no space left at {self.place}: make some and run again; nothing was lost."

    def for_spark(self, relative: str = "") -> str:
        """As Spark takes it where it looks for no patterns."""
        return address(self.within(relative))

    def for_delta(self, table: str) -> str:
        """As delta-rs takes the folder of a table."""
        scheme, separator, rest = self.place.partition("://")
        return f"{'s3' if scheme in S3 else scheme}{separator}{rest}/{table}"


def delta_options(environment: Mapping[str, str]) -> dict[str, str]:
    """What delta-rs does not take from the variables of the AWS tools: whether their endpoint may go without TLS."""
    return {"allow_http": "true"} if environment.get("AWS_ENDPOINT_URL", "").startswith("http:") else {}


def spark_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for the object store that the variables of the AWS tools describe."""
    endpoint = environment.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return {}
    prefix = "spark.hadoop.fs.s3a"
    return {
        f"{prefix}.endpoint": endpoint,
        f"{prefix}.path.style.access": "true",
        f"{prefix}.connection.ssl.enabled": str(endpoint.startswith("https:")).lower(),
        **({f"{prefix}.endpoint.region": environment["AWS_REGION"]} if environment.get("AWS_REGION") else {}),
    }


def address(path: Place) -> str:
    """A local path or an address as Spark takes it where it looks for no patterns."""
    text = os.fspath(path)
    return text if SCHEME.match(text) else f"file://{Path(text).resolve()}"


def literally(path: Place) -> str:
    r"""The same where Spark looks for patterns: `[`, `{`, `*`, `?` and `\` stand for themselves."""
    return "".join(f"\\{letter}" if letter in r"\{}[]*?" else letter for letter in address(path))


def _without_path(error: OSError) -> str:
    """The reason alone: Arrow's messages repeat the path, and begin with what was tried."""
    return os.strerror(error.errno) if error.errno else str(error).strip().splitlines()[0]
