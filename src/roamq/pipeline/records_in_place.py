"""Files that are read in place: at an address, or RoamQ's own records in a folder that grows.

Brokers write a small file every second, `BROKER-FIRST-LAST.parquet`, named by the numbers of its records. `compact`
merges neighbours into one file that is named in the same way, so that names alone say which file holds the records of
which others: whoever reads the folder while small files are still there, or was there before, reads every record once.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from roamq.core.errors import ConfigError
from roamq.core.records import RECORDS_VERSION
from roamq.pipeline.books import FAILED, LANDED, LEAVING, READ, Book, FileEntry, TraceSource
from roamq.pipeline.input_files import visible_files
from roamq.pipeline.landing import uncopied
from roamq.pipeline.store import SCHEME, literally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERED: Final = re.compile(r"(.+)-(\d+)-(\d+)\.parquet")
SMALL_BYTES: Final = 32 << 20
"""Files from this size on are left as they are."""


class Records(NamedTuple):
    """The records of one broker that a file holds, by its name."""

    folder: str
    broker: str
    first: int
    last: int

    @classmethod
    def of(cls, path: str) -> "Records | None":
        folder, _, name = path.rpartition("/")
        found = NUMBERED.fullmatch(name)
        return None if found is None else cls(folder, found[1], int(found[2]), int(found[3]))


def _count(path: str) -> int:
    found = Records.of(path)
    return 0 if found is None else found.last - found.first + 1


def without_merged(paths: Iterable[str]) -> list[str]:
    """The paths without files whose records another of them holds as well."""
    named = sorted(paths)
    ranges = {path: found for path in named if (found := Records.of(path)) is not None}
    covered: set[str] = set()
    reach: tuple[str, str, int] | None = None
    for path, found in sorted(ranges.items(), key=lambda item: (*item[1][:3], -item[1].last)):
        if reach is not None and reach[:2] == found[:2] and found.last <= reach[2]:
            covered.add(path)
        else:
            reach = (found.folder, found.broker, found.last)
    return [path for path in named if path not in covered]


def discovered(spark: "SparkSession", book: Book, source: TraceSource) -> None:
    """Enter the files that have appeared in a place that is read in place: remote, or a folder of records.

    A file that changed there replaces its earlier self. A file that is gone keeps its rows. A file into which others
    were merged replaces those of them that were read.
    """
    trace_format = source.trace_format()
    is_address, are_records = bool(SCHEME.match(source.path)), source.format == "records"
    if not is_address and trace_format.read is None:
        return
    if is_address:
        found = _listed_by_spark(spark, source.path)
    else:
        found = _listed_here(Path(source.path), trace_format.suffixes)
    here = {path for path, _, _ in found}
    read: dict[str, Records] = {}
    if are_records:
        here = set(without_merged(here))
        read = {path: place for path in book.entries if (place := Records.of(path)) is not None}
    new: list[FileEntry] = []
    for path, size, modified_ns in found:
        known = book.entries.get(path)
        is_same = known is not None and (known.origin_bytes, known.modified_ns) == (size, modified_ns)
        if path not in here or (known is not None and is_same and not _may_be_read_now(known)):
            continue
        name = path.removeprefix(source.path).lstrip("/") or Path(path).name
        entry = uncopied(path, name, size, modified_ns)
        if trace_format.read is not None and not is_address:
            entry = _with_lines(entry, trace_format.count)
        if known is not None and known.batch and entry.state == LANDED:
            # The rows of its earlier self leave under another name.
            book.put(replace(known, path=f"{known.path}#{known.modified_ns}", state=LEAVING))
        new.append(entry)
    _enter_merged(book, new, read)


def _may_be_read_now(known: FileEntry) -> bool:
    """A newer release reads what an older one left."""
    from roamq.pipeline.traces.records import TOO_NEW, version_of

    if known.state != FAILED or not known.reason.startswith(TOO_NEW):
        return False
    return version_of(Path(known.path)) <= RECORDS_VERSION


def _enter_merged(book: Book, new: Sequence[FileEntry], read: dict[str, Records]) -> None:
    """Enter new files. One that holds just the records of files that were read takes their place; one that holds more
    replaces them when it is read.
    """
    by_broker: dict[tuple[str, str], list[tuple[Records, str]]] = {}
    for path, place in read.items():
        by_broker.setdefault(place[:2], []).append((place, path))
    for entry in new:
        mine = Records.of(entry.path)
        within = [
            path
            for place, path in (by_broker.get(mine[:2], []) if mine is not None else [])
            if mine is not None and mine.first <= place.first and place.last <= mine.last
        ]
        parts = [path for path in within if path != entry.path and book.entries[path].batch]
        for path in set(within) - {entry.path, *parts}:  # they were never read, or could not be
            del book.entries[path]
        if parts and sum(map(_count, parts)) == _count(entry.path):
            book.put(
                replace(entry, state=READ, lines=0, reason="its records were read before they were merged")
            )
        else:
            book.put(replace(entry, replaces=tuple(parts)))


def _listed_here(place: Path, suffixes: tuple[str, ...] = (".parquet",)) -> list[tuple[str, int, int]]:
    """The files of a folder, or one file, with sizes and times."""
    listed = []
    for file in visible_files(place):
        # A file may have been merged into another since the folder was listed.
        with contextlib.suppress(FileNotFoundError):
            if place == file or file.name.endswith(suffixes):
                status = file.stat()
                listed.append((str(file), status.st_size, status.st_mtime_ns))
    return listed


def _listed_by_spark(spark: "SparkSession", address: str) -> list[tuple[str, int, int]]:
    """The files under an address, by Spark's own listing: it reads no content."""
    from pyspark.errors import PySparkException

    from roamq.pipeline.arrivals import PipelineFailedError, reason_of

    try:
        rows = (
            spark.read.format("binaryFile")
            .option("recursiveFileLookup", "true")
            .load(literally(address))
            .selectExpr("path", "length", "unix_micros(modificationTime) as modified")
            .orderBy("path")
            .collect()
        )
    except PySparkException as error:
        raise PipelineFailedError(f"{address}: {reason_of(error)}") from error
    return [(row.path, row.length, row.modified * 1000) for row in rows]


def _with_lines(entry: FileEntry, count: Callable[[Path], int] | None) -> FileEntry:
    """The entry of a file with its number of rows, which stands at the end of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if count is not None:
            return replace(entry, lines=count(Path(entry.path)))
        return replace(entry, lines=pq.read_metadata(entry.path).num_rows)
    except EOFError:
        return replace(entry, state=FAILED, reason="the compressed file is cut short")
    except ConfigError as error:
        return replace(entry, state=FAILED, reason=str(error))
    except (pa.ArrowException, OSError) as error:
        kind = "Parquet" if entry.path.endswith(".parquet") else "compressed"
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return replace(entry, state=FAILED, reason=f"it is no complete {kind} file: {first_line}")


# --- compaction --------------------------------------------------------------------------------------------------


def compact(folder: Path, *, older_than_s: float = 60.0, now_s: float) -> tuple[int, int]:
    """Merge small files of records in a folder; returns how many files there were, and how many there are.

    Each broker's files are merged in the order of their records as long as no record is missing between them. A merged
    file appears whole, and only then do its parts go. Files younger than `older_than_s` are left to whoever is writing,
    those of a newer version to a newer release, and files of two versions stay two files.
    """
    from roamq.pipeline.traces.records import version_of

    if not folder.is_dir():
        raise ConfigError(f"records: there is no folder {folder}")
    listed = _listed_here(folder)
    files = {path: size for path, size, modified_ns in listed if now_s - modified_ns / 1e9 >= older_than_s}
    kept = without_merged(files)
    for path in files.keys() - set(kept):  # a compaction died between writing and deleting
        Path(path).unlink()
    named = sorted((found, path) for path in kept if (found := Records.of(path)) is not None)
    for _, mine in groupby(named, key=lambda item: item[0][:2]):
        for run in _mergeable(list(mine), files):
            for version, paths in groupby(run, key=lambda path: version_of(Path(path))):
                if version <= RECORDS_VERSION and len(parts := list(paths)) > 1:
                    _merge(parts)
    return len(listed), len(_listed_here(folder))


def _mergeable(mine: Sequence[tuple[Records, str]], sizes: dict[str, int]) -> list[list[str]]:
    """Runs of small neighbours without a gap, each up to about `SMALL_BYTES`."""
    runs: list[list[str]] = [[]]
    total, reach = 0, -1
    for place, path in mine:
        size = sizes[path]
        if place.first != reach + 1 or total + size > SMALL_BYTES:
            runs.append([])
            total = 0
        runs[-1].append(path)
        total, reach = total + size, place.last
    return [run for run in runs if len(run) > 1]


def _merge(paths: Sequence[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first, last = Records.of(paths[0]), Records.of(paths[-1])
    assert first is not None and last is not None
    target = Path(first.folder) / f"{first.broker}-{first.first:020d}-{last.last:020d}.parquet"
    beside = target.with_name(f".{target.name}")
    schema = pq.read_schema(paths[0])
    with pq.ParquetWriter(beside, schema, compression="zstd") as writer:
        for start in range(0, len(paths), 1000):
            parts = [pq.read_table(path, partitioning=None) for path in paths[start : start + 1000]]
            writer.write_table(pa.concat_tables(parts).cast(schema))
    beside.replace(target)
    for path in paths:
        if path != str(target):
            Path(path).unlink()
