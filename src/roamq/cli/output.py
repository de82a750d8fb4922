"""Tables and JSON on standard output."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from roamq.report.numbers import cell

WIDTH_ELSEWHERE = 140
"""Width in columns of a table that goes to a file or another program."""


def print_json(value: Any) -> None:
    """Prints a value as JSON in UTF-8. Bytes of a file's name that are not UTF-8 are written as escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    if not is_text(text):
        text = json.dumps(value, indent=2, allow_nan=False, default=str)
    click.echo(text)


def is_text(word: str) -> bool:
    """Whether a word is valid UTF-8; words that were typed, and names of files, may have other bytes."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    title: str = "",
    numeric: Sequence[str] = (),
    styles: Mapping[str, str] | None = None,
    narrow: bool = False,
) -> None:
    """Prints a table as wide as the terminal; a cell equal to a key of `styles` gets that style.

    A `narrow` table has one blank between columns, and so has every table that would not fit otherwise. Cells are
    broken between words, and within words only if the longest words of all columns do not fit beside each other.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console = Console(width=WIDTH_ELSEWHERE)
    cells = [[cell(value) for value in row] for row in rows]
    widths = column_widths([list(columns), *cells], console.width, blanks=1 if narrow else 3)
    narrow = narrow or widths is None
    if widths is None:
        widths = column_widths([list(columns), *cells], console.width, blanks=1)
    table = Table(
        title=title or None,
        box=SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        padding=(0, 0) if narrow else (0, 1),
    )
    for number, column in enumerate(columns):
        is_number = column in numeric
        width = None if widths is None else widths[number]
        table.add_column(column, justify="right" if is_number else "left", overflow="fold", width=width)
    for row in cells:
        table.add_row(*(Text(text, style=(styles or {}).get(text, "")) for text in row))
    console.print(table)


def column_widths(lines: Sequence[Sequence[str]], width: int, *, blanks: int) -> list[int] | None:
    """Returns how wide each column is, so that all lines fit and no word is broken; None if that is impossible."""
    from rich.cells import cell_len

    columns = list(zip(*lines, strict=True))
    wanted = [max(map(cell_len, column)) for column in columns]
    found = [max(max(map(cell_len, text.split()), default=0) for text in column) for column in columns]
    room = width - 2 - blanks * (len(columns) - 1) - sum(found)
    while room > 0 and found != wanted:
        shortest = min(range(len(found)), key=lambda at: (found[at] == wanted[at], found[at]))
        found[shortest] += 1
        room -= 1
    return found if room >= 0 else None
