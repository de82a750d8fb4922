"""The books of a warehouse: for every file what landed and what became of its lines.

The lines that landed are the rows, the quarantined lines, and the headers and blank lines. The first number is counted
when the file lands, without Spark, and the others in the table that Spark wrote. A file whose numbers differ has failed
(docs/decisions/0077). Datasets and books are tables of the warehouse like any other, and change in the same commits.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from roamq.pipeline.ledger import DataFile, Ledger, Snapshot, TableChange
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import arrow_schema, columns
from roamq.pipeline.store import Place, Store

if TYPE_CHECKING:
    import pyarrow as pa

    from roamq.pipeline.traces import TraceFormat

DATASETS: Final = "datasets"
DATASET_COLUMNS: Final = (
    "dataset string, format string, path string, settings map<string,string>, mapping string, recipe string"
)
FILES: Final = "files"
FILE_COLUMNS: Final = (
    "dataset string, name string, path string, origin string, origin_bytes bigint, modified_ns bigint, digest string, "
    "lines bigint, state string, reason string, ends_whole boolean, shift bigint, first string, replaces string, "
    "batch string, url string, rows bigint, quarantined bigint, skipped bigint, splits string"
)

LANDED: Final = "landed"
READ: Final = "read"
FAILED: Final = "failed"
LEAVING: Final = "leaving"
"""Removed by its owner; the next run takes its rows out of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    """One dataset of a warehouse: its format, where Spark finds its files, and how its rules differ."""

    dataset: str
    format: str
    path: str
    settings: dict[str, str] = field(default_factory=dict)
    mapping: str = ""
    """With the format `mapped`: what the mapping file said, as `traces.mapping.Mapping.to_json` writes it."""
    recipe: str = ""
    """By which rules and which code the derived tables were made."""

    def trace_format(self) -> "TraceFormat":
        from roamq.pipeline.traces import format_named

        return format_named(self.format, self.mapping)

    def rules(self, defaults: Rules | None = None) -> Rules:
        return (defaults or self.trace_format().rules).changed(self.settings)


class Split(NamedTuple):
    """A part of a file that one task of Spark read."""

    number: int
    first: int
    """The position of its first line in the bronze table: it counts on from whatever the task read before."""
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of a dataset, or one piece of a file that grew."""

    name: str
    """The name that people know: that of the source file, or of the member of an archive."""
    path: str
    """Where Spark reads it: within the warehouse, or the place of a file that is read in place."""
    origin: str
    """The source file."""
    origin_bytes: int
    modified_ns: int
    """Size and time of the source file when it landed: a file that has both unchanged is not looked at again."""
    digest: str
    """Of the source file's content, from its begin to the end of this piece."""
    lines: int | None = None
    """Lines that landed, counted without Spark; None where nobody but Spark can count them."""
    state: str = LANDED
    reason: str = ""
    """Why the file failed."""
    ends_whole: bool = True
    """The last line is complete, so that later lines can be read as a piece of their own."""
    shift: int = 0
    """What is added to the split numbers of this piece, so that positions grow along the whole file."""
    first: str = ""
    """The key of the file's first piece, where this is a later one."""
    replaces: tuple[str, ...] = ()
    """Paths of the pieces that this file replaces once it is read."""
    batch: str = ""
    """The folder within the bronze table that holds the rows; empty: none."""
    url: str = ""
    """The file as the column `file` of the bronze table names it."""
    rows: int = 0
    quarantined: int = 0
    skipped: int = 0
    """Headers and blank lines."""
    splits: tuple[Split, ...] | None = ()
    """How Spark divided the file, in the file's order; None: it was read before this was kept."""

    @property
    def key(self) -> str:
        """What distinguishes the copy of a file within its dataset: the folder it landed in, and its digest."""
        return self.path.split("/", 2)[2][: -len(self.name) - 1]

    @property
    def balances(self) -> bool:
        counted = self.rows + self.quarantined + self.skipped
        return self.state != READ or self.lines is None or self.lines == counted

    @property
    def imbalance(self) -> str:
        return (
            f"{self.lines} lines landed, but {self.rows} rows, {self.quarantined} quarantined and "
            f"{self.skipped} headers and blank lines arrived"
        )


@dataclass(slots=True)
class Book:
    """The entries of one dataset, by path."""

    dataset: str
    entries: dict[str, FileEntry] = field(default_factory=dict)

    def __iter__(self) -> Iterator[FileEntry]:
        return iter(self.entries.values())

    def put(self, entry: FileEntry) -> None:
        self.entries[entry.path] = entry

    def totals(self) -> dict[str, int]:
        """What the tables of arrivals must hold of this dataset."""
        return {
            "rows": sum(entry.rows for entry in self),
            "quarantined": sum(entry.quarantined for entry in self),
            "lines in": sum(entry.rows + entry.quarantined + entry.skipped for entry in self),
        }

    def line_shifts(self) -> list[tuple[str, int, int]]:
        """What makes positions of the bronze table numbers of lines, from 0: (url, number of the split, what to add).

        Positions are in order within a file, but say nothing of lines of two files: which lines a task read before
        depends on the files that were read with it. Numbers of lines depend on the file alone. Where one file is all
        there is, its positions will do.
        """
        read = sorted(
            (entry for entry in self if entry.batch), key=lambda entry: (entry.url, entry.shift, entry.path)
        )
        shifts: list[tuple[str, int, int]] = []
        of_url = [(url, list(pieces)) for url, pieces in groupby(read, key=lambda entry: entry.url)]
        for url, pieces in of_url if len(of_url) > 1 else ():
            line = 0
            for split in (split for piece in pieces for split in piece.splits or ()):
                if split.first != line:
                    shifts.append((url, split.number, line - split.first))
                line += split.lines
        return shifts

    def named(self, file: str) -> list[FileEntry]:
        """The entries of a file by its name, its source or its path in the warehouse."""
        return [entry for entry in self if file in (entry.name, entry.origin, entry.path)]


@dataclass(slots=True)
class Shelf:
    """The datasets and books of one version of a warehouse, and what is changed in them before the next commit."""

    ledger: Ledger
    snapshot: Snapshot
    sources: dict[str, TraceSource]
    _books: dict[str, Book] = field(default_factory=dict)

    @classmethod
    def of(cls, place: "Place | Store", version: int | None = None) -> "Shelf":
        ledger = Ledger(Store.at(place))
        snapshot = ledger.latest() if version is None else ledger.at(version)
        rows = ledger.read(snapshot, DATASETS)
        sources = [
            TraceSource(**row | {"settings": dict(row["settings"])})
            for row in (rows.to_pylist() if rows is not None else ())
        ]
        return cls(
            ledger, snapshot, {source.dataset: source for source in sorted(sources, key=lambda s: s.dataset)}
        )

    def book(self, dataset: str) -> Book:
        """The book of a dataset, which may be changed."""
        if dataset not in self._books:
            rows = self.ledger.rows(FILES, [file for file in self._files() if file.first == dataset])
            entries = [_entry(row) for row in rows.to_pylist()] if rows is not None else []
            self._books[dataset] = Book(dataset, {entry.path: entry for entry in entries})
        return self._books[dataset]

    def _files(self) -> list[DataFile]:
        return self.ledger.files(self.snapshot, FILES)

    def freeze(self) -> str:
        """Datasets and books in a form that two states can be compared by."""
        return repr((self.sources, {name: list(book) for name, book in self._books.items()}))

    def changes(self) -> dict[str, TableChange]:
        """What a commit of datasets and books consists of."""
        import pyarrow as pa

        kept = [
            file for file in self._files() if file.first in self.sources and file.first not in self._books
        ]
        books = [
            self.ledger.write(FILES, _rows(book), name)
            for name, book in self._books.items()
            if name in self.sources and book.entries
        ]
        listed = [
            asdict(source) | {"settings": list(source.settings.items())} for source in self.sources.values()
        ]
        datasets = pa.Table.from_pylist(listed, schema=arrow_schema(DATASET_COLUMNS))
        return {
            DATASETS: TableChange(
                contract=DATASET_COLUMNS, files=[self.ledger.write(DATASETS, datasets)] if listed else []
            ),
            FILES: TableChange(contract=FILE_COLUMNS, files=[*kept, *books]),
        }


def _entry(row: dict[str, object]) -> FileEntry:
    values = {name: value for name, value in row.items() if name != "dataset"}
    values["replaces"] = tuple(json.loads(str(row["replaces"])))
    splits = row.get("splits")
    values["splits"] = None if splits is None else tuple(Split(*split) for split in json.loads(str(splits)))
    return FileEntry(**values)  # type: ignore[arg-type]


def _rows(book: Book) -> "pa.Table":
    import pyarrow as pa

    rows = [
        asdict(entry)
        | {
            "dataset": book.dataset,
            "replaces": json.dumps(entry.replaces),
            "splits": None if entry.splits is None else json.dumps(entry.splits),
        }
        for entry in book
    ]
    assert not rows or set(rows[0]) == set(columns(FILE_COLUMNS))
    return pa.Table.from_pylist(rows, schema=arrow_schema(FILE_COLUMNS))
