"""Tables and JSON on standard output."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from roamq.report.numbers import cell


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    title: str = "",
    numeric: Sequence[str] = (),
    styles: Mapping[str, str] | None = None,
    narrow: bool = False,
) -> None:
    """A table as wide as the terminal; a cell equal to a key of `styles` gets that style.

    A `narrow` table breaks no cell and has one blank between columns; its caller keeps the cells short.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title or None,
        box=SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        padding=(0, 0) if narrow else (0, 1),
    )
    for column in columns:
        is_number = column in numeric
        table.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=narrow)
    for row in rows:
        table.add_row(*(Text(text := cell(value), style=(styles or {}).get(text, "")) for value in row))
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console = Console(width=140)
    console.print(table)
