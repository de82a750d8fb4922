"""The derived tables: which table is made of which, by which query, key by key.

The functions behind the tables are pure and live elsewhere. A query reads other tables by their names; `reads` says
which, so that a table is made when they are there (docs/decisions/0121).
"""

from collections.abc import Sequence

from roamq.pipeline.books import TraceSource
from roamq.pipeline.definitions import bronze, gold, silver
from roamq.pipeline.definitions.table import Scope, TableQuery

__all__ = ["Scope", "TableQuery", "derived_tables"]


def derived_tables(sources: Sequence[TraceSource]) -> list[TableQuery]:
    """The tables that are derived from those that arrived; each comes after those that it reads."""
    return [*bronze.derived(sources), *silver.derived(sources), *gold.derived(sources)]
