"""Makes inputs safe while the event loop does not wait for the disk: the loop writes small groups, and a thread writes
large ones and syncs (docs/decisions/0160).

A write may take as long as the disk stands still. The thread takes one job at a time, so that groups reach the journal
in their order, and outputs wait for the group of the inputs that caused them.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from roamq.net.durable.journal import Journal

AT_ONCE_BYTES: Final = 256 * 1024
"""Up to this size, the event loop writes a group itself, if no sync follows: a thread would take longer to wake."""


class JournalWriter:
    """Makes the inputs of a journal safe."""

    def __init__(self, journal: Journal, *, syncs: bool) -> None:
        """`syncs`: inputs are safe only when they are synced to the disk."""
        self.journal = journal
        self._syncs = syncs
        self._thread = ThreadPoolExecutor(1, "journal")
        self._job: Future[None] | None = self._submit(lambda: None)  # starts the thread while one can be had

    def write(self) -> "Future[None] | None":
        """Makes pending inputs safe. Returns None if they are, or a future to wait for. Raises `StorageError`."""
        if self.journal.gather() > AT_ONCE_BYTES:
            return self._submit(self._write_gathered)
        self.journal.write()
        return self.sync() if self._syncs else None

    def write_again(self) -> "Future[None] | None":
        """Writes the inputs that could not be written before."""
        self.journal.write()
        self._job = None  # the job that failed is made good
        return self.sync() if self._syncs else None

    def sync(self) -> "Future[None]":
        return self._submit(self.journal.sync)

    def finish(self, ended: int) -> "Future[None]":
        """Ends the segment that `Journal.begin_next` has left."""
        return self._submit(lambda: self.journal.finish(ended))

    def close(self) -> None:
        """Makes all inputs safe and ends the thread; raises the error of the thread's last job, or of this write."""
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
