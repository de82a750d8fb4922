"""Arrivals: read the files that a dataset's book does not know as read, and append their rows to the bronze table.

All new files of a dataset become one batch, a folder within the bronze table. Its lines are counted file by file and
compared with those that landed. A file that Spark cannot read is marked as failed with Spark's reason, and the batch is
made again without it. Rows of files that leave, or that a new version replaces, go with the batch that held them, which
is written again without them. Nothing counts before the run commits (docs/decisions/0120).
"""

import re
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from roamq.core.errors import ConfigError, RoamqError
from roamq.pipeline.books import FAILED, LANDED, LEAVING, READ, Book, FileEntry, Shelf, Split, TraceSource
from roamq.pipeline.landing import DIGEST_LENGTH, LANDING
from roamq.pipeline.ledger import DataFile
from roamq.pipeline.records_in_place import discovered
from roamq.pipeline.schemas import BRONZE
from roamq.pipeline.store import SCHEME, Store, address, literally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_FILE: Final = 8_000_000
"""Many small input files become few large ones in the bronze table."""


class PipelineFailedError(RoamqError):
    """A table could not be brought up to date; the others may be."""


@dataclass(slots=True)
class Arrivals:
    """What reading a dataset changed: its files in the bronze table before and after, and where the difference is."""

    source: TraceSource
    before: list[DataFile]
    after: list[DataFile]
    came: list[DataFile] = field(default_factory=list)
    """Files whose rows are all new."""
    left: list[DataFile] = field(default_factory=list)
    """Files of before that hold rows which are no more."""
    urls_left: list[str] = field(default_factory=list)
    """Those rows are the ones of these files."""
    urls: list[str] = field(default_factory=list)
    """All files whose rows came or left, as the column `file` names them."""

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def table(self) -> str:
        return f"{BRONZE}{self.source.format}"


def read_arrivals(
    spark: "SparkSession", shelf: Shelf, source: TraceSource, *, again: bool = False
) -> Arrivals:
    """Read what is new of a dataset; its book says what became of each file. `again` reads all files anew."""
    ledger, table = shelf.ledger, f"{BRONZE}{source.format}"
    before = [file for file in ledger.files(shelf.snapshot, table) if file.may_hold([source.dataset])]
    book = shelf.book(source.dataset)
    discovered(spark, book, source)
    if again:
        require_files(ledger.store, book)
    elif any(entry.batch and entry.splits is None for entry in book):
        _learn_splits(spark, ledger.store, table, before, book)
    leaving = [entry for entry in book if entry.state == LEAVING]
    pending = [entry for entry in book if entry.state == LANDED or (again and entry.batch)]
    arrived, came = _read_surely(spark, shelf, source, pending)
    replaced = {path for entry in arrived for path in entry.replaces}
    leaving += [book.entries[path] for path in replaced if path in book.entries]
    for entry in (*leaving, *arrived):
        book.entries.pop(entry.path, None)
    for entry in arrived:
        book.put(replace(entry, replaces=()))
    if again:
        left = before
        found = Arrivals(source, before, came, came=came, left=before)
    else:
        left = [
            f for f in before if any(f.path.startswith(f"{entry.batch}/") for entry in leaving if entry.batch)
        ]
        urls = sorted({entry.url for entry in leaving if entry.batch})
        staying = _without(spark, shelf, source, left, urls)
        kept = [file for file in before if file not in left]
        found = Arrivals(source, before, [*kept, *staying, *came], came=came, left=left, urls_left=urls)
        # Files of one name are looked at together: the quarantine knows them by their names.
        names = {entry.name for entry in (*leaving, *arrived)}
        found.urls = sorted({*urls, *(entry.url for entry in book if entry.batch and entry.name in names)})
        moved = _batch_of(staying)
        gone = {file.path.rpartition("/")[0] for file in left}
        for entry in list(book):
            if entry.batch in gone:
                book.put(replace(entry, batch=moved))
    return found


def _learn_splits(
    spark: "SparkSession", store: Store, table: str, files: Sequence[DataFile], book: Book
) -> None:
    """Enter how files were divided that were read before books kept it."""
    known = [entry for entry in book if entry.batch]
    for entry in _entered(store, known, _counted(spark, store, table, files), ""):
        book.put(replace(book.entries[entry.path], splits=entry.splits))


def _batch_of(files: Sequence[DataFile]) -> str:
    return files[0].path.rpartition("/")[0] if files else ""


def _read_surely(
    spark: "SparkSession", shelf: Shelf, source: TraceSource, pending: list[FileEntry]
) -> tuple[list[FileEntry], list[DataFile]]:
    """Read files, without those that cannot be read: the book says why."""
    book = shelf.book(source.dataset)
    while pending:
        try:
            return _write_batch(spark, shelf, source, pending)
        except ReadFailedError as error:
            for entry in error.files:
                nothing = {"batch": "", "rows": 0, "quarantined": 0, "skipped": 0}
                book.put(replace(entry, state=FAILED, reason=error.reason, **nothing))  # type: ignore[arg-type]
            pending = [entry for entry in pending if entry not in error.files]
    return [], []


def _without(
    spark: "SparkSession", shelf: Shelf, source: TraceSource, files: Sequence[DataFile], urls: Sequence[str]
) -> list[DataFile]:
    """The rows of bronze files that do not come from some input files, as a batch of its own."""
    from pyspark.sql import functions as F

    if not files:
        return []
    table = f"{BRONZE}{source.format}"
    rows = read_files(spark, shelf.ledger.store, table, files).where(~F.col("file").isin(*urls))
    return _put(spark, shelf, source, rows)


def _put(spark: "SparkSession", shelf: Shelf, source: TraceSource, rows: "DataFrame") -> list[DataFile]:
    """Write rows as a batch of the bronze table."""
    table, batch = f"{BRONZE}{source.format}", f"{source.dataset}-{secrets.token_hex(6)}"
    rows.write.option("maxRecordsPerFile", ROWS_PER_FILE).parquet(
        shelf.ledger.store.for_spark(f"{table}/{batch}")
    )
    return shelf.ledger.written(table, batch)


def read_files(spark: "SparkSession", store: Store, table: str, files: Sequence[DataFile]) -> "DataFrame":
    """The rows of some files of a table, with the columns of its contract."""
    from roamq.pipeline.conform import struct_of
    from roamq.pipeline.warehouse import contract_of

    columns = struct_of(contract_of(table))
    if not files:
        return spark.createDataFrame([], columns)
    paths = [literally(store.within(f"{table}/{file.path}")) for file in files]
    return spark.read.schema(columns).parquet(*paths)


class ReadFailedError(Exception):
    """Spark could not read some files."""

    def __init__(self, files: Sequence[FileEntry], reason: str) -> None:
        super().__init__(reason)
        self.files = files
        self.reason = reason


def _write_batch(
    spark: "SparkSession", shelf: Shelf, source: TraceSource, pending: Sequence[FileEntry]
) -> tuple[list[FileEntry], list[DataFile]]:
    """Write the rows of some files as a batch of the bronze table; returns their entries with what was counted."""
    from pyspark.errors import PySparkException

    store, table = shelf.ledger.store, f"{BRONZE}{source.format}"
    try:
        rows = arriving_rows(spark, store, source, pending)
    except ConfigError as error:
        raise ReadFailedError(_refused(spark, store, source, pending), str(error)) from error
    try:
        written = _put(spark, shelf, source, rows)
        counted = _counted(spark, store, table, written) if written else {}
    except PySparkException as error:
        told = f"{error} {unquote(str(error))}"
        named = [entry for entry in pending if bare(location(store, entry)) in told]
        if not named:
            why = f"{reason_of(error)}{store.why_full()}"
            raise PipelineFailedError(f"dataset {source.dataset}: {why}") from error
        raise ReadFailedError(named, reason_of(error)) from error
    arrived = _entered(store, pending, counted, _batch_of(written))
    unbalanced = {entry.path: entry for entry in arrived if not entry.balances}
    if unbalanced:
        first = next(iter(unbalanced.values()))
        raise ReadFailedError([entry for entry in pending if entry.path in unbalanced], first.imbalance)
    return arrived, written


def _refused(
    spark: "SparkSession", store: Store, source: TraceSource, pending: Sequence[FileEntry]
) -> Sequence[FileEntry]:
    """The files that the format cannot read by their columns, each looked at alone; all, if none is refused alone."""

    def is_refused(entry: FileEntry) -> bool:
        try:
            arriving_rows(spark, store, source, [entry])
        except ConfigError:
            return True
        return False

    return [entry for entry in pending if is_refused(entry)] or pending


def arriving_rows(
    spark: "SparkSession", store: Store, source: TraceSource, pending: Sequence[FileEntry]
) -> "DataFrame":
    """Rows of the bronze table from some files."""
    from roamq.pipeline.definitions.bronze import bronze_rows

    trace_format = source.trace_format()
    base = location(store, source)

    def lines_of(entries: Sequence[FileEntry]) -> "DataFrame":
        paths = [literally(location(store, entry)) for entry in entries]
        return trace_format.arrivals(spark, paths, base=address(base))

    whole = [entry for entry in pending if not entry.first]
    pieces = [entry for entry in pending if entry.first]
    parts = [lines_of(whole)] if whole else []
    if pieces:
        parts.append(_joined_pieces(spark, lines_of(pieces), pieces))
    lines = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    return bronze_rows(lines, trace_format, source.dataset)


def _joined_pieces(spark: "SparkSession", lines: "DataFrame", pieces: Sequence[FileEntry]) -> "DataFrame":
    """Lines of later pieces under the name of their file's first piece, at positions behind those of earlier pieces."""
    from pyspark.sql import functions as F

    from roamq.pipeline.traces.base import ORDINAL_BITS

    shifts = spark.createDataFrame(
        [(entry.key, entry.first, entry.shift) for entry in pieces],
        "key string, first string, shift bigint",
    )
    inner = F.regexp_extract("file", rf"/{LANDING}/[^/]+/([^/]+/[0-9a-f]{{{DIGEST_LENGTH}}})-", 1)
    keyed = lines.withColumn("key", inner)
    return keyed.join(F.broadcast(shifts), "key").select(
        F.replace(
            "file", F.concat(F.lit("/"), "key", F.lit("-")), F.concat(F.lit("/"), "first", F.lit("-"))
        ).alias("file"),
        (F.col("position") + F.shiftleft("shift", ORDINAL_BITS)).alias("position"),
        "value",
    )


Counted = dict[str, dict[int, Counter[str]]]
"""File as Spark names it -> number of the split -> how many rows, quarantined and skipped lines, and under `FIRST` the
position of the first of them."""
FIRST: Final = "first"


def _counted(spark: "SparkSession", store: Store, table: str, written: Sequence[DataFile]) -> Counted:
    from pyspark.sql import functions as F

    from roamq.pipeline.traces.base import ORDINAL_BITS, is_good, is_malformed

    kind = F.when(is_good(), "rows").when(is_malformed(), "quarantined").otherwise("skipped")
    rows = (
        read_files(spark, store, table, written)
        .groupBy("file", F.shiftright("position", ORDINAL_BITS).alias("split"), kind.alias("kind"))
        .agg(F.count("*").alias("lines"), F.min("position").alias(FIRST))
        .collect()
    )
    counted: Counted = {}
    for row in rows:
        of_split = counted.setdefault(row.file, {}).setdefault(row.split, Counter({FIRST: row[FIRST]}))
        of_split[row.kind] += row.lines
        of_split[FIRST] = min(of_split[FIRST], row[FIRST])
    return counted


def _entered(store: Store, pending: Sequence[FileEntry], counted: Counted, batch: str) -> list[FileEntry]:
    """The entries of a batch with the numbers that Spark counted. Splits of a later piece begin at its shift."""
    of_file = {bare_url(url): (url, splits) for url, splits in counted.items()}
    starts: dict[str, list[FileEntry]] = {}
    for entry in pending:
        starts.setdefault(_first_location(store, entry), []).append(entry)
    arrived = []
    for place, pieces in starts.items():
        url, splits = of_file.get(bare(place), ("", {}))
        ordered = sorted(pieces, key=lambda entry: entry.shift)
        totals = {entry.path: Counter[str]() for entry in ordered}
        divided: dict[str, list[Split]] = {entry.path: [] for entry in ordered}
        for split, counts in sorted(splits.items()):
            piece = next((entry for entry in reversed(ordered) if entry.shift <= split), ordered[0])
            first = counts.pop(FIRST)
            totals[piece.path] += counts
            divided[piece.path].append(Split(split, first, counts.total()))
        arrived += [
            replace(
                entry,
                state=READ,
                reason="",
                batch=batch if totals[entry.path] else "",
                url=url,
                rows=totals[entry.path]["rows"],
                quarantined=totals[entry.path]["quarantined"],
                skipped=totals[entry.path]["skipped"],
                splits=tuple(divided[entry.path]),
            )
            for entry in ordered
        ]
    return arrived


def location(store: Store, entry: FileEntry | TraceSource) -> str:
    """Where a file lies: an absolute path, or an address."""
    return store.within(entry.path) if entry.path.startswith(f"{LANDING}/") else entry.path


def _first_location(store: Store, entry: FileEntry) -> str:
    place = location(store, entry)
    return place.replace(f"/{entry.key}-", f"/{entry.first}-") if entry.first else place


def bare(address: str) -> str:
    """A path or an address in a form that does not depend on who wrote it: `file:` and doubled slashes vary."""
    scheme, colon, rest = address.partition(":/")
    if not colon or "/" in scheme:
        return address
    return f"/{rest.lstrip('/')}" if scheme == "file" else f"{scheme}://{rest.lstrip('/')}"


def bare_url(url: str) -> str:
    """The same for a column of Spark's that holds a URL, in which letters are escaped."""
    return bare(unquote(url))


def require_files(store: Store, book: Book) -> None:
    """Refuse to read everything again where a file that was read is no longer there: its rows would be lost."""
    gone = [
        entry
        for entry in book
        if entry.batch
        and not SCHEME.match(entry.path)
        and not (
            store.exists(entry.path) if entry.path.startswith(f"{LANDING}/") else Path(entry.path).exists()
        )
    ]
    if gone:
        raise ConfigError(
            f"--full-refresh: {len(gone)} files of {book.dataset!r} that were read are no longer there, such as "
            f"{gone[0].origin}; put them back, or give up their rows with `roamq pipeline remove`"
        )


def reason_of(error: Any) -> str:
    """Spark's reason in a sentence: the message of the condition that it names, without its code and its stack."""
    text = " ".join(
        line.strip()
        for line in str(error).splitlines()
        if line.strip() and not line.strip().startswith("at ")
    )
    named = re.search(r"\[[A-Z_.]+\]\s*(.+?)(?:\s*SQLSTATE|$)", text)
    told = (named[1] if named else text).strip()
    cause = re.findall(r"Caused by: (?:[\w.$]+\.)?(\w+: .+?)(?:\s+(?:Caused by|Driver stacktrace)|$)", text)
    return f"{told[:300]}{f' ({cause[-1][:200]})' if cause else ''}"
