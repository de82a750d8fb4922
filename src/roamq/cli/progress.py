"""Progress of long work: a bar on a terminal, a plain line a minute elsewhere. Both go to standard error."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import click

LINE_EVERY_S = 60.0


@contextlib.contextmanager
def progress(
    what: str, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int, int], None]]:
    """Yields `report(done, total)`; call it as often as you like."""
    with _bar(what) if sys.stderr.isatty() else _lines(what, clock) as report:
        yield report


@contextlib.contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    look = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*look, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def _lines(what: str, clock: Callable[[], float]) -> Iterator[Callable[[int, int], None]]:
    began = clock()
    last = began

    def report(done: int, total: int) -> None:
        nonlocal last
        now = clock()
        if now - last >= LINE_EVERY_S:
            last = now
            click.echo(f"{what}: {done} of {total} after {now - began:.0f} s", err=True)

    yield report
