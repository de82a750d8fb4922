"""Decides when a broker takes snapshots, and reports when it cannot: a child writes the state, then the part of the
journal that the snapshot replaces is deleted. Threads wait for the disk, not the event loop (docs/decisions/0160)."""

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final

from roamq.net.durable import snapshot
from roamq.net.durable.journal import Journal, StorageError
from roamq.net.ops.options import Durability, Storage
from roamq.net.shell import Shell

if TYPE_CHECKING:
    from roamq.net.ops.records import RecordWriter

log = logging.getLogger("roamq.server")

RECORDS_S_MAX: Final = 10.0
RETRY_S: Final = 10.0
SYNCED_AT_ONCE_BYTES: Final = 1024 * 1024
"""Bytes of the journal that may still be unsynced when a segment ends; outputs wait until they are synced."""
SYNCS_AHEAD_MAX: Final = 3


class Snapshots:
    """Takes the snapshots of one broker."""

    def __init__(self, shell: Shell, storage: Storage, recorder: "RecordWriter | None") -> None:
        self.failure: str | None = None
        """Why the last snapshot was not made; None if it was."""
        self._shell = shell
        self._storage = storage
        self._recorder = recorder

    async def take_when_due(self) -> None:
        """Takes a snapshot whenever the journal has grown enough, for ever."""
        journal = self._shell.journal
        if journal is None:
            return
        # A large state is worth a longer journal: otherwise a broker would do little else than write snapshots.
        due_bytes = max(self._storage.snapshot_bytes, snapshot.size(journal.folder))
        while True:
            await asyncio.sleep(1.0)
            if journal.written_bytes >= due_bytes and self._shell.stalled is None:
                try:
                    await self.take()
                except (
                    StorageError,
                    OSError,
                    RuntimeError,
                ) as error:  # RuntimeError: no thread can be started
                    self.note_failure(str(error))
                    await asyncio.sleep(RETRY_S)
                    continue
                due_bytes = max(self._storage.snapshot_bytes, snapshot.size(journal.folder))

    def note_failure(self, reason: str) -> None:
        """Tells operators, until a snapshot succeeds. The broker goes on serving, and its journal grows."""
        log.error("no snapshot: %s; the journal is kept and grows", reason)
        self._shell.counts["snapshot_failed"] += 1
        self.failure = reason

    async def take(self) -> None:
        """Lets a child write the state, then deletes the part of the journal that the snapshot replaces."""
        shell, journal, recorder = self._shell, self._shell.journal, self._recorder
        assert journal is not None
        if self._storage.durability is Durability.PROCESS:
            await _sync_ahead(journal)  # with `disk` there is nothing left to sync
        # No write may be under way: a group being written holds inputs before the snapshot.
        child, pipe = await shell.when_at_rest(
            lambda segment: snapshot.fork(shell.live, journal.folder, segment)
        )
        segment, records = journal.segment, shell.live.records
        recorded = recorder.flush_soon() if recorder is not None else None
        await _closed(pipe)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        if status:
            self.note_failure("the process that wrote it failed")
            return
        if recorded is not None and not await asyncio.to_thread(recorded.wait, RECORDS_S_MAX):
            log.warning("records are behind; the journal is kept")
            return
        if recorder is not None and recorder.written < records:
            return  # the folder lacks some records: the journal, which can make them again, is kept
        await asyncio.to_thread(_discard_before, journal, segment)
        shell.counts["snapshots"] += 1
        self.failure = None

    def take_last(self) -> None:
        """Writes the state of a broker that stops."""
        shell, journal = self._shell, self._shell.journal
        assert journal is not None
        shell.at_rest(lambda segment: snapshot.write(shell.live, journal.folder, segment))
        _discard_before(journal, journal.segment)


async def _sync_ahead(journal: Journal) -> None:
    """Syncs most of the segment that ends, in a thread, while clients are served: all of it has to be on the disk."""
    for _ in range(SYNCS_AHEAD_MAX):
        written = journal.written_bytes
        await asyncio.to_thread(journal.sync)
        if journal.written_bytes - written < SYNCED_AT_ONCE_BYTES:
            return


def _discard_before(journal: Journal, segment: int) -> None:
    """Deletes the files that the last snapshot replaces. A file of 64 MiB takes some ten milliseconds."""
    journal.discard_before(segment)
    snapshot.discard_before(journal.folder, segment)


async def _closed(pipe: int) -> None:
    """Returns when the other end of the pipe is closed."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def look() -> None:
        loop.remove_reader(pipe)
        ended.set_result(None)

    loop.add_reader(pipe, look)
    try:
        await ended
    finally:
        os.close(pipe)
