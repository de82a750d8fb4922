"""Lists of many brokers in one: what `clients` and `sessions` share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from roamq.cli.asking import Door, NoAnswerError, broker_option, only
from roamq.core.errors import RoamqError

F = TypeVar("F", bound=Callable[..., Any])


def limit_options(command: F) -> F:
    """`--broker`, `--search`, `--limit`: how much of a list."""
    search = click.option("--search", default="", metavar="TEXT", help="Only client ids that contain TEXT.")
    limit = click.option(
        "--limit", type=click.IntRange(1), default=100, show_default=True, help="Rows, of each broker."
    )
    return broker_option(search(limit(command)))


def listed(
    asked: list[Door], kind: str, broker: str | None, search: str, limit: int
) -> tuple[list[dict[str, Any]], str]:
    """Rows of all brokers that answer, and a note on what is missing."""
    asked = only(asked, broker)
    found: list[dict[str, Any]] = []
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
