"""Progress of long work: a bar on a terminal, a plain line a minute elsewhere. Both go to standard error."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import click

LINE_EVERY_S = 60.0


class Reporting(Protocol):
    """Tells how far a long command has come."""

    def __call__(self, done: int, total: int) -> None:
        """Reports how much of the phase is done; callers call it as often as they like."""

    def phase(self, name: str) -> None:
        """Begins a phase of which the length is not known yet."""


@contextlib.contextmanager
def progress(what: str, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Reporting]:
    """Reports the progress of work whose first phase is `what`."""
    if sys.stderr.isatty():
        with _bar(what) as report:
            yield report
    else:
        yield _Lines(what, clock)


@contextlib.contextmanager
def _bar(what: str) -> Iterator[Reporting]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Bar:
        def __init__(self) -> None:
            self._task = bar.add_task(what, total=None)

        def __call__(self, done: int, total: int) -> None:
            bar.update(self._task, completed=done, total=total)

        def phase(self, name: str) -> None:
            bar.remove_task(self._task)  # a task that is reset would keep its total, and stand at 0 of it
            self._task = bar.add_task(name, total=None)

    class Done(MofNCompleteColumn):
        def render(self, task: Task) -> Text:
            return Text() if task.total is None else super().render(task)

    look = (TextColumn("{task.description}"), BarColumn(), Done(), TimeElapsedColumn())
    with Progress(*look, console=Console(stderr=True), transient=True) as bar:
        yield Bar()


class _Lines:
    """Writes a line when a named phase begins, and a line a minute."""

    def __init__(self, what: str, clock: Callable[[], float]) -> None:
        self._what = what
        self._clock = clock
        self._began = self._last = clock()

    def __call__(self, done: int, total: int) -> None:
        now = self._clock()
        if now - self._last >= LINE_EVERY_S:
            self._last = now
            click.echo(f"{self._what}: {done} of {total} after {now - self._began:.0f} s", err=True)

    def phase(self, name: str) -> None:
        self._what = name
        click.echo(f"{name} ...", err=True)
