"""A derived table as a value, and what a run has to make of it.

A table is keyed: rows with one key are made together, from the rows of other tables that belong to the key. A run makes
the keys that changed and keeps the others (docs/decisions/0121). `Scope` says which those are.
"""

import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.pipeline.books import TraceSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLIENT = ("dataset", "client")
PLACE = "_place"
MANY_KEYS = 1000
"""Up to so many changed keys are named in queries; if there are more, all keys of their dataset are made anew."""

Found = TypeVar("Found")
Names = Mapping[str, Collection[str] | None]
"""By dataset, values of a column; None: any value."""


class Touched(NamedTuple):
    """In datasets that changed in part: where changed clients are or were and events came or left, and the classes of
    those clients."""

    sites: Names
    classes: Names


@dataclass(slots=True)
class Scope:
    """What changed: datasets of which everything is made anew, and the changed clients of others.

    `old` and `new` read a table as it was and as it is; `came` and `left` are the rows that differ in a bronze table.
    """

    spark: "SparkSession"
    sources: Sequence[TraceSource]
    """All datasets, also those in which nothing changed."""
    whole: set[str]
    partly: set[str]
    old: Callable[[str], DataFrame]
    came: Callable[[TraceSource], DataFrame]
    left: Callable[[TraceSource], DataFrame | None]
    urls: dict[str, list[str]] = field(default_factory=dict)
    """Input files of a dataset whose rows came or left."""
    line_shifts: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict)
    """What makes the positions of a dataset's bronze rows numbers of lines (`Book.line_shifts`)."""
    faultless: set[str] = field(default_factory=set)
    """Datasets of which no line is or was in quarantine."""
    file_rows: int = 0
    """How many rows a file of a silver table may hold; 0: any number."""
    sites: dict[str, int] = field(default_factory=dict)
    """How many sites a dataset had before this run, where that is known."""
    clients: DataFrame | None = None
    """The changed clients (dataset, client) of datasets that changed in part."""
    names: dict[str, list[str]] | None = None
    """The changed clients by dataset, where they are few: a filter costs less than a join, and Parquet skips pages that
    hold none of them."""
    fresh: dict[str, DataFrame] = field(default_factory=dict)
    """By silver table, the rows that this run made: those of whole datasets and of changed clients."""
    past: dict[str, DataFrame] = field(default_factory=dict)
    """By silver table, the rows of changed clients as they were; no entry: there were none. They are found once:
    several tables are corrected by them, or ask for their keys."""
    rows: dict[str, int] = field(default_factory=dict)
    """By table that this run has made, how many rows it has."""
    found: dict[Callable[["Scope"], Any], Any] = field(default_factory=dict)
    """What was looked for `once`."""
    looking: threading.Lock = field(default_factory=threading.Lock)
    kept: list[DataFrame] = field(default_factory=list)
    """What stays in memory until the run ends."""
    views: list[str] = field(default_factory=list)
    """What has a name until the run ends."""

    @property
    def touched(self) -> list[TraceSource]:
        return [source for source in self.sources if source.dataset in self.whole | self.partly]

    def new(self, table: str) -> DataFrame:
        return self.spark.read.table(table)

    @property
    def is_partly(self) -> Column:
        return F.col("dataset").isin(*self.partly)

    def is_made(self, is_changed: Column | None) -> Column:
        """Whether a row is of a whole dataset, or of one that changed in part and has a changed key; None: any key."""
        is_mine = self.is_partly if is_changed is None else self.is_partly & is_changed
        is_whole = F.col("dataset").isin(*self.whole)
        return is_whole | is_mine if self.whole and self.partly else is_whole if self.whole else is_mine

    def once(self, look: Callable[["Scope"], Found]) -> Found:
        """What a function finds, looked for when it is first asked for: several tables are made at once."""
        with self.looking:
            if look not in self.found:
                self.found[look] = look(self)
            found: Found = self.found[look]
            return found

    def of_touched(self, table: str) -> DataFrame:
        """All rows of the datasets that changed."""
        return self.new(table).where(F.col("dataset").isin(*self.whole, *self.partly))

    def changed_rows(self, table: str) -> DataFrame | None:
        """Rows of changed clients in a silver table, as they were and as they are; None: no dataset changed in part."""
        if not self.partly or self.clients is None:
            return None
        now, past = self.arrived(table), self.past.get(table)
        return now if past is None else past.unionByName(now)

    def of_changed_clients(self, rows: DataFrame, *, without: bool = False) -> DataFrame:
        """Rows of changed clients, or of all others, in datasets that changed in part."""
        assert self.clients is not None, "datasets changed in part"
        if self.names is None:
            return with_keys(rows, self.clients, CLIENT, without=without)
        is_changed = is_named("client", self.names)
        return rows.where(is_not(is_changed) if without else is_changed)

    def arrived(self, table: str) -> DataFrame:
        """Rows of changed clients in a silver table, as they are."""
        return self.fresh[table].where(self.is_partly)

    def in_part(self, rows: DataFrame, is_changed: Column | None = None) -> DataFrame:
        """Rows of datasets that changed in part, with changed keys; None: all of them."""
        mine = rows.where(self.is_partly)
        return mine if is_changed is None else mine.where(is_changed)

    def in_whole(self, rows: DataFrame) -> DataFrame:
        """Rows of datasets of which everything is made anew."""
        return rows.where(F.col("dataset").isin(*self.whole))

    def keep(self, frame: DataFrame) -> DataFrame:
        """A frame that is asked for several times and computed once."""
        kept = frame.persist()  # several tables are made at once: the last in the list may be another's
        self.kept.append(kept)
        return kept

    def in_hand(self, frame: DataFrame) -> DataFrame:
        """A frame as small as the network, computed now: queries that use it need not know how it was made."""
        rows = frame.toArrow()
        # Spark takes no columns from a table without rows.
        return self.spark.createDataFrame(rows) if rows.num_rows else frame.where(F.lit(False))

    def named(self, name: str, frame: DataFrame) -> DataFrame:
        """A frame that is asked for several times: as a view, it is looked up and not resolved again, file by file."""
        view = f"roamq_{secrets.token_hex(4)}_{name}"  # several tables are made at once, each with names of its own
        self.views.append(view)
        frame.createOrReplaceTempView(view)
        return self.spark.read.table(view)

    def forget(self) -> None:
        """Give back the memory of what was kept, and the names."""
        for frame in self.kept:
            frame.unpersist()
        for view in self.views:
            self.spark.catalog.dropTempView(view)


def with_keys(rows: DataFrame, keys: DataFrame, on: Sequence[str], *, without: bool = False) -> DataFrame:
    """Rows that have one of the keys, or none of them; a missing value is a value."""
    named = keys.select(*(F.col(name).alias(f"key_{name}") for name in on))
    is_equal = reduce(Column.__and__, (F.col(name).eqNullSafe(F.col(f"key_{name}")) for name in on))
    return rows.join(F.broadcast(named), is_equal, "left_anti" if without else "left_semi")


def is_named(column: str, names: Names) -> Column:
    """Whether a row has one of the values that are listed for its dataset.

    A filter costs less than a join, and Parquet skips pages that hold none of the values.
    """
    listed = F.lit(False)
    for dataset, values in names.items():
        is_mine = F.col("dataset") == dataset
        is_one = F.lit(True) if values is None else F.col(column).isin(*sorted(values))
        listed = listed | (is_mine & is_one)
    return listed


def is_not(condition: Column) -> Column:
    """Whether a condition is false or unknown. Unlike this, a bare condition reaches Parquet."""
    return ~F.coalesce(condition, F.lit(False))


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """All rows of at least one frame."""
    return reduce(DataFrame.unionByName, frames)


class TableQuery(NamedTuple):
    """A table that is made of others."""

    name: str
    reads: tuple[str, ...]
    query: Callable[[Scope], DataFrame]
    """The rows of whole datasets and of changed keys."""
    concerns: Callable[[TraceSource], bool] = lambda source: True
    """Whether the table has rows of a dataset."""
    idle: Callable[[Scope], set[str]] = lambda scope: set()
    """Datasets of which the table has no rows in this run, although it may have some."""
    changed: Callable[[Scope], Column | None] = lambda scope: None
    """Which rows of datasets that changed in part are made anew; None: all of them. It may hold for more rows than
    changed: those are made again as they were."""
    by_client: bool = False
    """Rows are made client by client: those of changed clients are made anew."""
    past: Callable[[DataFrame], DataFrame] | None = None
    """Tables of clients that are made of sojourns: rows as they were from sojourns as they were."""
    appends: bool = False
    """Rows are made of bronze rows one by one: where rows only came, theirs are added to those that are there."""
