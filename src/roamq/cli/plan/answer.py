"""An answer: tables, notes and perhaps a figure for a person; the same numbers as JSON for a program."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from roamq.cli.output import print_json, print_table
from roamq.core.errors import ConfigError
from roamq.report.exhibits import Figure, Table
from roamq.report.files import save


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    data: dict[str, Any]
    """The numbers that `--json` prints; the notes are added as `notes`."""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    figure: Figure | None = None


def show(answer: Answer, *, as_json: bool, figure: Path | None) -> None:
    if figure is not None:
        if answer.figure is None:
            raise ConfigError("--figure: there is nothing to draw for this question")
        save(answer.figure, figure)
    if as_json:
        print_json({**answer.data, "notes": list(answer.notes)} if answer.notes else answer.data)
        return
    for table in answer.tables:
        numeric = [
            column
            for i, column in enumerate(table.columns)
            if all(isinstance(row[i], int | float | None) for row in table.rows)
        ]
        print_table(table.columns, table.rows, title=table.title, numeric=numeric)
        if table.note:
            click.echo(table.note)
    for note in answer.notes:
        click.echo(note)
    if figure is not None:
        click.echo(f"figure: {figure}")
