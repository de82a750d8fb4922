"""How inputs become safe: large groups by a thread, in their order, and what a fall leaves of a segment made ahead."""

import asyncio
import contextlib
import os
import threading
from pathlib import Path

import pytest

from roamq.net.durable import writing
from roamq.net.durable.inputs import InputKind
from roamq.net.durable.journal import Journal, Reader, StorageError, segment_path
from roamq.net.durable.writing import AT_ONCE_BYTES, JournalWriter
from roamq.net.ops.local import local_network
from tests.net.live import PlainClient, port_of, running, write_network
from tests.support.waiting import eventually


def entry(number: int, size: int = 0) -> tuple[int, float, int, bytes]:
    return (int(InputKind.RECEIVED), 1000.0, number, bytes(size))


def numbers(folder: Path) -> list[int]:
    return [entry[2] for entry in Reader(folder, 1)]


def test_the_loop_writes_what_is_little_and_a_thread_what_is_much(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1)
    writer = JournalWriter(journal, syncs=False)

    journal.pending.append(entry(1))
    assert writer.write() is None
    assert numbers(tmp_path) == [1]
    journal.pending.append(entry(2, AT_ONCE_BYTES))
    done = writer.write()
    assert done is not None
    journal.pending.append(entry(3))  # comes while the thread writes, and is no part of it
    done.result()
    assert numbers(tmp_path) == [1, 2]
    assert writer.write() is None
    writer.close()
    journal.close()
    assert numbers(tmp_path) == [1, 2, 3]


def test_with_syncs_everything_waits_for_the_disk(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1)
    writer = JournalWriter(journal, syncs=True)
    for number, size in ((1, 0), (2, 2 * AT_ONCE_BYTES)):
        journal.pending.append(entry(number, size))
        done = writer.write()
        assert done is not None
        done.result()
    writer.close()
    journal.close()
    assert numbers(tmp_path) == [1, 2]


def test_what_a_thread_could_not_write_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, 1)
    writer = JournalWriter(journal, syncs=False)
    real = os.write

    def half(file: int, data: bytes) -> int:
        """The disk is full after a part of the group."""
        if len(data) > AT_ONCE_BYTES:
            return real(file, data[:AT_ONCE_BYTES])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        journal.pending.append(entry(1, 2 * AT_ONCE_BYTES))
        done = writer.write()
        assert done is not None
        with pytest.raises(StorageError, match="No space left on device"):
            done.result()
    assert segment_path(tmp_path, 1).stat().st_size == 0
    journal.pending.append(entry(2))
    assert writer.write_again() is None
    writer.close()
    journal.close()
    assert numbers(tmp_path) == [1, 2]


def test_a_fall_may_leave_the_next_segment_empty_and_the_last_group_torn(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1)
    for number in (1, 2):
        journal.pending.append(entry(number, 100))
        journal.write()
    journal.make_next()
    journal.close()
    path = segment_path(tmp_path, 1)
    whole = path.stat().st_size
    os.truncate(path, whole - 10)

    reader = Reader(tmp_path, 1)
    assert [entry[2] for entry in reader] == [1]
    assert reader.torn_bytes == whole // 2 - 10
    assert reader.numbers == [1, 2]
    journal = Journal(tmp_path, 2)
    journal.pending.append(entry(3))
    journal.close()
    assert numbers(tmp_path) == [1, 3]


def test_a_tear_before_a_segment_that_was_written_is_damage(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1)
    journal.pending.append(entry(1, 100))
    journal.write()
    journal.rotate()
    journal.pending.append(entry(2))
    journal.close()
    path = segment_path(tmp_path, 1)
    os.truncate(path, path.stat().st_size - 30)

    with pytest.raises(StorageError, match="damaged at byte"):
        numbers(tmp_path)


@pytest.mark.live
@pytest.mark.parametrize("durability", ["process", "disk"])
def test_a_disk_that_stands_still_holds_up_acknowledgements_and_no_ping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    """While one client's large message is being written, and while a snapshot begins, others are answered."""

    async def scenario() -> None:
        network = write_network(tmp_path, local_network(1, scheme="standard", durability=durability))
        goes_on = threading.Event()
        real_write, real_finish = Journal.write_gathered, Journal.finish

        def write(journal: Journal) -> None:
            if threading.current_thread() is not threading.main_thread():
                goes_on.wait()
            real_write(journal)

        def finish(journal: Journal, ended: int) -> None:
            goes_on.wait()
            real_finish(journal, ended)

        async def heard(client: PlainClient, payload: bytes) -> None:
            """Publish; return when the broker has read it, which is before it is safe."""
            before = shell.live.published
            client.publish("t", payload, 1)
            await eventually(lambda: shell.live.published > before)

        async with running(network) as servers:
            shell = servers["b1"].shell
            with contextlib.ExitStack() as stack:
                stack.callback(goes_on.set)  # a test that fails must not hang
                large, quiet = PlainClient("large"), PlainClient("quiet")
                for client in (large, quiet):
                    await client.connect(port_of(network, "b1"))
                monkeypatch.setattr(Journal, "write_gathered", write)
                monkeypatch.setattr(Journal, "finish", finish)
                monkeypatch.setattr(writing, "AT_ONCE_BYTES", 1000)
                large.publish("t", bytes(500_000), 1)
                await eventually(lambda: shell.is_holding)
                await quiet.ping()
                await heard(quiet, b"x")
                await quiet.ping()
                assert quiet.unacknowledged and large.unacknowledged
                goes_on.set()
                await eventually(lambda: not quiet.unacknowledged and not large.unacknowledged)

                goes_on.clear()
                taking = asyncio.create_task(servers["b1"].snapshots.take())
                await eventually(lambda: shell.is_holding)
                await heard(quiet, b"y")
                await quiet.ping()
                assert quiet.unacknowledged
                goes_on.set()
                await taking
                await eventually(lambda: not quiet.unacknowledged)
                for client in (large, quiet):
                    client.drop()

    asyncio.run(scenario())
