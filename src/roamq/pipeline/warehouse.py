"""A warehouse as a session sees it: the tables of one version are temporary views.

`schemas.DERIVED` and the formats say what is a table, and the ledger which files it has in which version
(docs/decisions/0120). Any number of sessions may read while runs write.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from roamq.core.errors import ConfigError
from roamq.pipeline.ledger import Ledger, Snapshot
from roamq.pipeline.schemas import BRONZE, DERIVED, PROVENANCE
from roamq.pipeline.store import Place, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD_LAYOUT = ("checkpoints", "sources.json")


def require_warehouse(warehouse: Place) -> None:
    """Refuse a place in which no dataset has landed, or that an older RoamQ made."""
    store = Store.at(warehouse)
    refuse_old_layout(store)
    if Ledger(store).latest().number < 0:
        raise ConfigError(f"{warehouse} holds no traces yet: name some with `roamq pipeline run --traces`")


def refuse_old_layout(store: Store) -> None:
    if store.is_local and any(store.exists(name) for name in OLD_LAYOUT):
        raise ConfigError(
            f"{store.place} was made by an older RoamQ: name another --warehouse and add the traces to it"
        )


def table_names(snapshot: Snapshot) -> list[str]:
    """The tables that are there, arrivals first."""
    return [
        *sorted(name for name in snapshot.tables if name.startswith(BRONZE)),
        *(name for name in DERIVED if name in snapshot.tables),
    ]


def open_tables(
    spark: "SparkSession", warehouse: Place, version: int | None = None, *, without: Collection[str] = ()
) -> list[str]:
    """Make the tables of a warehouse views of the session; returns their names. Views of another warehouse go.

    `without`: tables that are such views already.
    """
    from roamq.pipeline.arrivals import read_files
    from roamq.pipeline.traces import FORMATS

    ledger = Ledger(Store.at(warehouse))
    snapshot = ledger.latest() if version is None else ledger.at(version)
    names = table_names(snapshot)
    for name in (*DERIVED, *(f"{BRONZE}{known}" for known in FORMATS)):
        if name not in names:
            spark.catalog.dropTempView(name)
    for name in (name for name in names if name not in without):
        read_files(spark, ledger.store, name, ledger.files(snapshot, name)).createOrReplaceTempView(name)
    return names


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
