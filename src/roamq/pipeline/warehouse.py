"""A warehouse is a folder of tables: Parquet, one folder each, found by their names.

No metastore says what is a table: `tables.DERIVED` does, and the folders say which of them are there. A session enters
them in its catalog in a moment, as tables with a location, and any number of sessions may read while one run writes.
That run makes derived tables in a folder of its own and puts each in place by a rename when all of them are ready, so
a reader finds the tables of one run or of the other, and a run that dies changes none (docs/decisions/0074).
"""

import contextlib
import fcntl
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roamq.core.errors import ConfigError
from roamq.pipeline.tables import BRONZE, DERIVED, PROVENANCE, columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINTS: Final = "checkpoints"
LOCK: Final = ".lock"
FORGETTING: Final = ".forgetting"
NEXT: Final = ".next"
BEFORE: Final = ".before"


def table_names(warehouse: Path) -> list[str]:
    """The tables that are there, arrivals first."""
    if not warehouse.is_dir():
        return []
    folders = {folder.name for folder in warehouse.iterdir() if folder.is_dir()}
    return [
        *sorted(name for name in folders if name.startswith(BRONZE)),
        *(n for n in DERIVED if n in folders),
    ]


def database_of(warehouse: Path) -> str:
    """A database of its own for each warehouse: a Spark Connect server may know several."""
    return f"roamq_{hashlib.blake2b(str(warehouse.resolve()).encode(), digest_size=6).hexdigest()}"


def open_tables(spark: "SparkSession", warehouse: Path) -> list[str]:
    """Enter the tables of a warehouse in the session's catalog and look there first; returns their names.

    Every table is entered with its location, as one that Spark does not own: dropping it leaves its files.
    """
    database, names = database_of(warehouse), table_names(warehouse)
    spark.sql(f"create database if not exists `{database}` location '{_url(warehouse)}'")
    spark.catalog.setCurrentDatabase(database)
    for known in spark.sql("show tables").collect():
        spark.sql(f"drop table if exists `{database}`.`{known.tableName}`")
    for name in names:
        enter(spark, database, name, warehouse / name)
    return names


def enter(spark: "SparkSession", database: str, name: str, folder: Path) -> None:
    """Make a folder of Parquet files a new table with the columns of its contract; there may be no file yet."""
    columns = columns_of(contract_of(name))
    spark.sql(
        f"create table if not exists `{database}`.`{name}` ({columns}) using parquet location '{_url(folder)}'"
    )


def about(table: str) -> str:
    """What a table holds, in a line."""
    from roamq.pipeline.traces import FORMATS

    return DERIVED[table].about if table in DERIVED else FORMATS[table.removeprefix(BRONZE)].about


def contract_of(table: str) -> str:
    """The columns of a table, by its name."""
    from roamq.pipeline.traces import FORMATS

    if table in DERIVED:
        return DERIVED[table].contract
    return f"{PROVENANCE}, {FORMATS[table.removeprefix(BRONZE)].fields}"


def forget_arrivals(warehouse: Path, *, now: bool) -> None:
    """Forget what was read, so that it is read again; finishes what an earlier run was killed in.

    Files of a table without the checkpoints of their stream, or the other way round, would be read as something else.
    """
    mark = warehouse / FORGETTING
    if now:
        mark.touch()
    if mark.exists():
        for folder in (CHECKPOINTS, *(name for name in table_names(warehouse) if name.startswith(BRONZE))):
            shutil.rmtree(warehouse / folder, ignore_errors=True)
        mark.unlink()


@contextlib.contextmanager
def next_tables(spark: "SparkSession", warehouse: Path, arrived: Sequence[str]) -> Iterator[str]:
    """An empty database for derived tables, beside which the arrived ones can be read; yields its name.

    What was made there is put in place when the block ends well, and forgotten otherwise.
    """
    database = f"{database_of(warehouse)}_next"
    spark.sql(f"drop database if exists `{database}` cascade")
    shutil.rmtree(warehouse / NEXT, ignore_errors=True)
    (warehouse / NEXT).mkdir(parents=True)
    spark.sql(f"create database `{database}` location '{_url(warehouse / NEXT)}'")
    for name in arrived:
        enter(spark, database, name, warehouse / name)
    yield database
    _put_in_place(warehouse)
    spark.sql(f"drop database `{database}` cascade")


def _put_in_place(warehouse: Path) -> None:
    """Replace every derived table by the new one; a table that is no longer made goes."""
    before = warehouse / BEFORE
    shutil.rmtree(before, ignore_errors=True)
    before.mkdir()
    for name in DERIVED:
        made, place = warehouse / NEXT / name, warehouse / name
        if place.is_dir():
            place.rename(before / name)
        if made.is_dir():
            made.rename(place)
    shutil.rmtree(before)
    shutil.rmtree(warehouse / NEXT)


@contextlib.contextmanager
def only_writer(warehouse: Path) -> Iterator[None]:
    """One run at a time writes a warehouse; the lock goes with the process, however it ends."""
    warehouse.mkdir(parents=True, exist_ok=True)
    with (warehouse / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{warehouse}: another run is writing its tables; wait for it to end") from None
        yield


def _url(folder: Path) -> str:
    return folder.resolve().as_uri().replace("'", "%27")
