"""Lists the clients or sessions of many brokers in one table: what `clients` and `sessions` share."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click

from roamq.cli.asking import (
    Door,
    NoAnswerError,
    again_and_again,
    broker_option,
    doors,
    network_argument,
    only,
    watch_option,
)
from roamq.cli.options import json_option
from roamq.cli.output import print_json, print_table
from roamq.core.errors import RoamqError

Row = dict[str, Any]


class Listing(NamedTuple):
    """The arguments of both commands: which rows of NETWORK are listed, and how."""

    network: str
    token: str | None
    broker: str | None
    search: str
    limit: int
    watch: bool
    as_json: bool

    def show(self, kind: str, table: Callable[[list[Row]], tuple[list[str], list[tuple[Any, ...]]]]) -> None:
        """Prints the rows of this kind as `table` arranges them: columns and cells, some of them numeric."""
        asked = doors(self.network, self.token)

        def show() -> None:
            found, note = listed(asked, kind, self.broker, self.search, self.limit)
            if self.as_json:
                print_json(found)
                return
            columns, rows = table(found)
            print_table(columns, rows, numeric=[name for name in columns if name in NUMERIC], narrow=True)
            if note:
                click.echo(note)

        again_and_again(show, self.watch)


NUMERIC = frozenset({"subscr.", "subscriptions", "waiting", "oldest"})
"""The columns that hold numbers."""


def listing_options(command: Callable[[Listing], None]) -> Callable[..., None]:
    """Adds NETWORK, `--broker`, `--search`, `--limit`, `--watch`, `--json`: the command gets them as a `Listing`."""

    @wraps(command)
    def with_listing(**arguments: Any) -> None:
        command(Listing(**arguments))

    search = click.option("--search", default="", metavar="TEXT", help="Only client ids that contain TEXT.")
    limit = click.option(
        "--limit", type=click.IntRange(1), default=100, show_default=True, help="Rows, of each broker."
    )
    return network_argument(broker_option(search(limit(watch_option(json_option(with_listing))))))


def listed(
    asked: list[Door], kind: str, broker: str | None, search: str, limit: int
) -> tuple[list[Row], str]:
    """Returns the rows of all brokers that answer, and a note on missing rows."""
    asked = only(asked, broker)
    found: list[Row] = []
    notes, silent = [], []
    for door in asked:
        try:
            rows = list(door.rows(kind, limit + 1, search))
        except NoAnswerError:
            silent.append(door.name)
            continue
        if len(rows) > limit:
            notes.append(f"{door.name} has more than {limit}; --limit shows more")
        found += rows[:limit]
    if len(silent) == len(asked):
        raise RoamqError(f"no broker answers on this host: {', '.join(door.url for door in asked)}")
    if silent:
        notes.append(f"no answer from {', '.join(silent)}")
    return sorted(found, key=lambda row: (row["client"], row["broker"])), "; ".join(notes)
