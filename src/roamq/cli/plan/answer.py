"""An answer: tables, notes and perhaps a figure for a person; the same numbers as JSON for a program."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from roamq.cli.output import print_json, print_table
from roamq.core.errors import ConfigError
from roamq.report.exhibits import Figure, Table

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    data: dict[str, Any]
    """What `--json` prints."""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    figure: Figure | None = None


def show(answer: Answer, *, as_json: bool, figure: Path | None) -> None:
    if figure is not None:
        save(answer, figure)
    if as_json:
        print_json(answer.data)
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


def save(answer: Answer, path: Path) -> None:
    """Draw the answer's figure into a file of the kind its name ends with."""
    if path.suffix.lower() not in FIGURE_SUFFIXES:
        raise ConfigError(f"--figure {path}: the name must end with {', '.join(FIGURE_SUFFIXES)}")
    if answer.figure is None:
        raise ConfigError("--figure: there is nothing to draw for this question")
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib.figure import Figure as Canvas

    from roamq.report import charts

    style = {
        **{key: "black" if value == charts.INK else value for key, value in charts.STYLE.items()},
        "savefig.transparent": False,
    }
    with mpl.rc_context(style):
        canvas = Canvas(figsize=charts.SIZE_IN, layout="constrained")
        axes = canvas.add_subplot()
        drawing = charts.bars if answer.figure.kind == "bar" else charts.lines
        drawing(axes, answer.figure)
        axes.set(title=answer.figure.title, xlabel=answer.figure.x_label, ylabel=answer.figure.y_label)
        if answer.figure.y_log:
            axes.set_yscale("log")
        if len(answer.figure.series) > 1:
            axes.legend()
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=150)
