"""A folder that is not as a broker left it, and a system that refuses: said by name, never passed over in silence."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from roamq.net.durable import snapshot
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.durable.journal import Journal, StorageError, lock_folder, segment_path
from roamq.net.ops.local import local_network
from tests.net.live import PlainClient, port_of, python_path, running, write_network
from tests.support.live_world import settings
from tests.support.waiting import WAIT_S, eventually

MINE = settings("b1", 1, "standard")


def with_snapshot(folder: Path, snapshots: int = 1) -> int:
    """A folder with a snapshot and inputs after it; gives the segment that they are in."""
    live, journal = LiveBroker(MINE, 1000.0), Journal(folder, 1)
    for number in range(1, 10 * (snapshots + 1) + 1):
        entry = (int(InputKind.OPENED), 1000.0 + number, number, "0:mqtt", "127.0.0.1:1")
        journal.pending.append(entry)
        live.apply(entry)
        live.take()
        journal.write()
        if number % 10 == 0 and number <= 10 * snapshots:
            segment = journal.rotate()
            snapshot.write(live, folder, segment)
            journal.discard_before(segment)
            snapshot.discard_before(folder, segment)
    journal.close()
    return journal.segment


def test_a_missing_segment_after_a_snapshot_is_named(tmp_path: Path) -> None:
    segment = with_snapshot(tmp_path)
    assert snapshot.recover(tmp_path, MINE, 2000.0).inputs == 10

    segment_path(tmp_path, segment).unlink()

    with pytest.raises(StorageError, match=f"segment-{segment:08d}.journal: is missing"):
        snapshot.recover(tmp_path, MINE, 2000.0)


def test_a_missing_last_segment_is_named_where_a_snapshot_had_failed(tmp_path: Path) -> None:
    """The journal went on in another segment, but no snapshot took the place of the first."""
    segment = with_snapshot(tmp_path)
    journal = Journal(tmp_path, segment)
    journal.rotate()
    journal.close()
    assert snapshot.recover(tmp_path, MINE, 2000.0).segment == segment + 1

    segment_path(tmp_path, segment + 1).unlink()

    with pytest.raises(StorageError, match=f"segment-{segment + 1:08d}.journal: is missing"):
        snapshot.recover(tmp_path, MINE, 2000.0)


@pytest.mark.parametrize("snapshots", [0, 1])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_last_segment_that_was_emptied_or_taken_away_is_named(
    tmp_path: Path, snapshots: int, is_gone: bool
) -> None:
    """It looks like one that was just begun, and what was acknowledged was lost without a word."""
    path = segment_path(tmp_path, with_snapshot(tmp_path, snapshots))
    whole = path.read_bytes()
    path.write_bytes(b"")
    if is_gone:
        path.unlink()

    with pytest.raises(StorageError, match=f"{path.name}: is {'missing' if is_gone else 'empty'}"):
        snapshot.recover(tmp_path, MINE, 2000.0)

    path.write_bytes(whole)
    assert snapshot.recover(tmp_path, MINE, 2000.0).inputs == 10
    path.write_bytes(b"")
    (tmp_path / "written").unlink()
    assert snapshot.recover(tmp_path, MINE, 2000.0).inputs == 0


def test_a_segment_that_was_just_begun_is_empty_and_nothing_is_wrong(tmp_path: Path) -> None:
    """A broker that stops leaves one behind, and so does a fall between two segments."""
    segment = with_snapshot(tmp_path)
    journal = Journal(tmp_path, segment)
    snapshot.write(LiveBroker(MINE, 1000.0), tmp_path, journal.rotate())
    journal.discard_before(journal.segment)
    journal.make_next()
    journal.close()

    assert snapshot.recover(tmp_path, MINE, 2000.0).segment == segment + 2


@pytest.mark.parametrize("word", [b"", b"\0" * 9, b"no number"])
def test_a_word_about_segments_that_cannot_be_read_says_nothing(tmp_path: Path, word: bytes) -> None:
    with_snapshot(tmp_path)
    (tmp_path / "written").write_bytes(word)

    assert snapshot.recover(tmp_path, MINE, 2000.0).inputs == 10


def test_a_first_group_that_is_torn_leaves_a_segment_that_is_begun_anew(tmp_path: Path) -> None:
    path = segment_path(tmp_path, with_snapshot(tmp_path))
    os.truncate(path, 5)

    assert snapshot.recover(tmp_path, MINE, 2000.0).torn_bytes == 5
    assert snapshot.recover(tmp_path, MINE, 2000.0).torn_bytes == 0, "the tear was reported"


@pytest.mark.parametrize(
    "name",
    [
        "segment-copy.journal",
        "backup.snapshot",
        "segment-²².journal",
        "segment-2.journal",
        "segment-000000002.journal",
        "2.snapshot",
    ],
)
def test_a_stray_file_is_named(tmp_path: Path, name: str) -> None:
    with_snapshot(tmp_path)
    (tmp_path / name).write_bytes(b"x")

    with pytest.raises(StorageError, match="is not a file of this broker; move it"):
        snapshot.recover(tmp_path, MINE, 2000.0)


@pytest.mark.parametrize("what", ["pipe", "folder", "device"])
@pytest.mark.parametrize("place", ["this segment", "next segment", "snapshot"])
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path, what: str, place: str) -> None:
    """A broker that opened a pipe waited for ever, without a word."""
    segment = with_snapshot(tmp_path)
    paths = {
        "this segment": segment_path(tmp_path, segment),
        "next segment": segment_path(tmp_path, segment + 1),
        "snapshot": next(tmp_path.glob("*.snapshot")),
    }
    path = paths[place]
    path.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")

    with pytest.raises(StorageError, match=f"{path.name}: is no plain file; move it"):
        snapshot.recover(tmp_path, MINE, 2000.0)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(StorageError, match="Read-only file system"):
        lock_folder(tmp_path / "data")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be written"):
        lock_folder(tmp_path / "file" / "data")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = with_snapshot(tmp_path)
    real = Path.read_bytes

    def fail(path: Path) -> bytes:
        if path == segment_path(tmp_path, segment):
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", fail)

    with pytest.raises(
        StorageError, match=f"segment-{segment:08d}.journal: cannot be read: Input/output error"
    ):
        snapshot.recover(tmp_path, MINE, 2000.0)


@pytest.mark.live
def test_a_fork_that_fails_is_reported_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        network = write_network(tmp_path, local_network(1, scheme="standard"))
        async with running(network) as servers:
            server = servers["b1"]
            client = PlainClient("c")
            await client.connect(port_of(network, "b1"))
            await client.subscribe("t", 1)

            def fail() -> int:
                raise OSError(11, "Resource temporarily unavailable")

            with monkeypatch.context() as patch:
                patch.setattr(os, "fork", fail)
                for _ in range(2):
                    client.publish("t", b"under way", 1)
                    with pytest.raises(StorageError, match="no process to write a snapshot"):
                        await server.snapshots.take()
                    server.snapshots.note_failure("no process")
            await client.ping()
            assert server.health()["status"] == "degraded"
            assert server.health()["snapshot"] == "no process"
            await server.snapshots.take()
            assert server.health()["status"] == "ok"
            assert [payload for _, payload, *_ in client.received] == [b"under way"] * 2
        async with running(network):
            await client.connect(port_of(network, "b1"))
            assert client.session_present

    asyncio.run(scenario())


@pytest.mark.live
def test_a_full_disk_when_a_broker_stops_is_reported_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended with an unexpected error."""

    async def scenario() -> None:
        network = write_network(tmp_path, local_network(1, scheme="standard"))
        client = PlainClient("c")
        with monkeypatch.context() as patch:

            def fail(*_: Any) -> NoReturn:
                raise OSError(28, "No space left on device")

            async with running(network) as servers:
                await client.connect(port_of(network, "b1"))
                patch.setattr(snapshot, "write", fail)
            assert servers["b1"].snapshots.failure is not None
        async with running(network):
            await client.connect(port_of(network, "b1"))
            assert client.session_present

    asyncio.run(scenario())
    assert "no snapshot: [Errno 28] No space left on device; the journal is kept" in caplog.text


@pytest.mark.live
def test_a_disk_that_fails_to_sync_is_never_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EIO: what a failed sync has left on the disk is unknown, so nothing is acknowledged any more."""

    async def scenario() -> None:
        network = write_network(tmp_path, local_network(1, scheme="standard", durability="disk"))
        async with running(network) as servers:
            server = servers["b1"]
            client = PlainClient("c")
            await client.connect(port_of(network, "b1"))

            def fail(_: int) -> NoReturn:
                raise OSError(5, "Input/output error")

            with monkeypatch.context() as patch:
                patch.setattr(os, "fdatasync", fail)
                client.publish("t", b"x", 1)
                await eventually(lambda: server.health()["status"] == "stalled")
            assert "Input/output error" in server.health()["reason"]
            assert client.unacknowledged
            assert server.shell.counts["stall"] == 1
            client.drop()

    asyncio.run(scenario())


@pytest.mark.live
@pytest.mark.parametrize("of", ["data", "records"])
def test_a_broker_without_a_folder_to_write_to_says_so_and_ends(tmp_path: Path, of: str) -> None:
    text = local_network(1, scheme="standard", records=tmp_path / "records")
    text = text.replace('"data"' if of == "data" else f'"{tmp_path / "records"}"', '"/proc/roamq"')
    (tmp_path / "network.toml").write_text(text)

    done = subprocess.run(
        [sys.executable, "-m", "roamq.cli.main", "serve", str(tmp_path / "network.toml"), "--broker", "b1"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, "PYTHONPATH": python_path()},
    )

    assert done.returncode != 0
    assert "roamq: /proc/roamq" in done.stderr
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr
