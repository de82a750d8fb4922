"""How inputs become safe while nobody waits for the disk who need not: the event loop writes what is little, and a
thread writes what is much and syncs (docs/decisions/0160).

A write may stand still for as long as the disk does. The thread takes one job at a time, so that groups reach the
journal in their order, and outputs wait for the group that caused them.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from roamq.net.durable.journal import Journal

AT_ONCE_BYTES: Final = 256 * 1024
"""So much the event loop writes itself, where no sync follows: a thread would take longer to wake."""


class JournalWriter:
    """Makes the inputs of a journal safe."""

    def __init__(self, journal: Journal, *, syncs: bool) -> None:
        """`syncs`: inputs are safe on the disk alone."""
        self.journal = journal
        self._syncs = syncs
        self._thread = ThreadPoolExecutor(1, "journal")
        self._job: Future[None] | None = self._submit(lambda: None)  # it begins now, while there are threads

    def write(self) -> "Future[None] | None":
        """Make pending inputs safe: None if they are, or what to wait for. `StorageError`: the disk is full, say."""
        if self.journal.gather() > AT_ONCE_BYTES:
            return self._submit(self._write_gathered)
        self.journal.write()
        return self.sync() if self._syncs else None

    def write_again(self) -> "Future[None] | None":
        """Write what could not be written before."""
        self.journal.write()
        self._job = None  # what failed is made good
        return self.sync() if self._syncs else None

    def sync(self) -> "Future[None]":
        return self._submit(self.journal.sync)

    def finish(self, ended: int) -> "Future[None]":
        """Give the segment its end that `Journal.begin_next` has left."""
        return self._submit(lambda: self.journal.finish(ended))

    def close(self) -> None:
        """Make all inputs safe and end the thread; raises what went wrong with its last job or with this."""
        self._thread.shutdown(wait=True)
        if self._job is not None:
            self._job.result()
        self.journal.write()
        self.journal.sync()

    def _write_gathered(self) -> None:
        self.journal.write_gathered()
        if self._syncs:
            self.journal.sync()

    def _submit(self, act: Callable[[], None]) -> "Future[None]":
        self._job = job = self._thread.submit(act)
        return job
