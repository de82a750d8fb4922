"""`roamq report`: a folder of results as one HTML page."""

from pathlib import Path

import click

from roamq.cli.options import json_option
from roamq.cli.output import print_json


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write.  [default: RUN/report.html]",
)
@json_option
def command(run: Path, out: Path | None, as_json: bool) -> None:
    """Write the HTML report of RUN, a folder that `simulate`, `study`, `reproduce` or `demo` wrote.

    The page contains its figures and the tables behind them; it needs no network to open.

    \b
    Example:
      roamq simulate testbed --scheme standard --out runs/first
      roamq report runs/first
    """
    path = write_report(run, out)
    print_json({"report": str(path)}) if as_json else click.echo(f"report: {path}")


def write_report(run: Path, out: Path | None = None) -> Path:
    from roamq.report.html import FILE_NAME, render
    from roamq.report.page import read_page

    text = render(read_page(run))
    path = out or run / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
