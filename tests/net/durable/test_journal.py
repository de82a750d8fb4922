"""The journal: what was written comes back, what was torn is cut off, what is damaged is said."""

import errno
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.errors import ConfigError, RemoteProtocolError
from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import Connect, Version, encode
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import InputKind, JournalEntry, LiveBroker
from roamq.net.durable.journal import (
    MAGIC,
    Journal,
    Reader,
    StorageError,
    lock_folder,
    segment_path,
    segments,
)
from roamq.net.machine import Machine
from tests.support.live_world import LiveWorld, settings

ENTRIES: list[JournalEntry] = [(2, 1000.0 + number, number, b"data" * number) for number in range(10)]


def written(folder: Path, groups: list[list[JournalEntry]]) -> Path:
    journal = Journal(folder, 1)
    for group in groups:
        journal.pending.extend(group)
        journal.write()
    journal.close()
    return segment_path(folder, 1)


def test_what_was_written_is_read_in_order(tmp_path: Path) -> None:
    written(tmp_path, [ENTRIES[:3], [], ENTRIES[3:]])

    assert list(Reader(tmp_path, 1)) == ENTRIES


def test_segments_follow_each_other_and_old_ones_go(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1)
    journal.pending.extend(ENTRIES[:5])
    assert journal.rotate() == 2
    journal.pending.extend(ENTRIES[5:])
    journal.close()

    assert list(Reader(tmp_path, 1)) == ENTRIES
    journal.discard_before(2)
    assert segments(tmp_path) == [2]
    assert list(Reader(tmp_path, 2)) == ENTRIES[5:]


def test_a_journal_goes_on_where_it_ended(tmp_path: Path) -> None:
    written(tmp_path, [ENTRIES[:5]])
    written(tmp_path, [ENTRIES[5:]])

    assert list(Reader(tmp_path, 1)) == ENTRIES


@given(st.data())
def test_a_torn_tail_is_cut_off_wherever_it_tears(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    path = written(folder, [ENTRIES[:5], ENTRIES[5:]])
    whole = path.read_bytes()
    first = len(whole) - (len(whole) - whole.find(MAGIC, 4))
    cut = data.draw(st.integers(1, len(whole) - 1))  # a segment that is empty was emptied: test_damage.py
    path.write_bytes(whole[:cut])

    reader = Reader(folder, 1)
    expected = ENTRIES[:5] if cut >= first else []
    assert list(reader) == expected
    assert reader.torn_bytes == cut - (first if cut >= first else 0)
    written(folder, [ENTRIES[5:]])
    assert list(Reader(folder, 1)) == expected + ENTRIES[5:]


def test_zeros_that_a_file_system_left_behind_are_a_torn_tail(tmp_path: Path) -> None:
    path = written(tmp_path, [ENTRIES])
    with path.open("ab") as file:
        file.write(bytes(4096))

    reader = Reader(tmp_path, 1)

    assert list(reader) == ENTRIES
    assert reader.torn_bytes == 4096


def test_damage_with_more_after_it_is_not_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, [ENTRIES[:5], ENTRIES[5:]])
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)

    with pytest.raises(StorageError, match="damaged at byte 0"):
        list(Reader(tmp_path, 1))


def test_a_journal_of_another_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = written(tmp_path, [ENTRIES])
    old = path.read_bytes().replace(MAGIC, b"RQJ1")
    path.write_bytes(old)

    with pytest.raises(StorageError, match="a journal of version 1"):
        list(Reader(tmp_path, 1))

    assert path.read_bytes() == old


def test_a_missing_segment_is_noticed(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1)
    for _ in range(3):
        journal.pending.extend(ENTRIES)
        journal.rotate()
    journal.close()
    segment_path(tmp_path, 2).unlink()

    with pytest.raises(StorageError, match="segment-00000002"):
        Reader(tmp_path, 1)


def test_a_full_disk_leaves_a_clean_end_and_the_group_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, 1)
    journal.pending.extend(ENTRIES[:2])
    journal.write()
    real_write, room = os.write, 10

    def small_disk(file: int, data: memoryview) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken, room = min(room, len(data)), 0
        return real_write(file, data[:taken])

    journal.pending.extend(ENTRIES[2:5])
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", small_disk)
        with pytest.raises(StorageError, match="No space left"):
            journal.write()
    assert list(Reader(tmp_path, 1)) == ENTRIES[:2]

    journal.pending.extend(ENTRIES[5:])
    journal.write()
    assert list(Reader(tmp_path, 1)) == ENTRIES


def test_a_folder_serves_one_process_at_a_time(tmp_path: Path) -> None:
    file = lock_folder(tmp_path)
    with pytest.raises(ConfigError, match="in use by another broker"):
        lock_folder(tmp_path, wait_s=0.0)
    os.close(file)
    os.close(lock_folder(tmp_path, wait_s=0.0))


def test_a_frame_that_cannot_be_read_costs_no_other() -> None:
    sender = LiveWorld(5, "standard")
    sender.run(120)
    target = LiveBroker(settings("b2", 3, "standard"), 1000.0)
    good = [(sequence, frame) for peer, sequence, frame in sender.nodes["b1"].sent if peer == "b2"]
    assert len(good) > 3
    bad = [*good[:2], (good[2][0], b"\xc1 nonsense"), *good[3:]]

    error = target.apply((int(InputKind.LINK_FRAMES), 1001.0, "b1", bad))

    assert isinstance(error, RemoteProtocolError)
    assert target.machine.outboxes.received[BrokerId("b1")] == good[-1][0]


# --- snapshots and recovery ----------------------------------------------------------------------------------------


def record(
    world: LiveWorld, folder: Path, *, snapshot_after: int | None = None, forked: bool = False
) -> LiveBroker:
    """Write the journal of b1 as a server would, and give its node."""
    before = world.nodes["b1"]
    node = LiveBroker(before.settings, before.born)
    journal = Journal(folder, 1)
    journal.pending.append((int(InputKind.SETTINGS), before.born, msgspec.msgpack.encode(before.settings)))
    node.replay(journal.pending[0])
    for number, entry in enumerate(before.journal):
        journal.pending.append(entry)
        node.replay(entry)
        if number == snapshot_after:
            segment = journal.rotate()
            if forked:
                child, pipe = snapshot.fork(node, folder, segment)
                assert os.read(pipe, 1) == b""
                os.close(pipe)
                assert os.waitpid(child, 0)[1] == 0
            else:
                snapshot.write(node, folder, segment)
            journal.discard_before(segment)
        elif number % 7 == 0:
            journal.write()
    journal.close()
    return node


@pytest.mark.parametrize("snapshot_after", [None, 0, 150])
@pytest.mark.parametrize("forked", [False, True])
def test_recovery_gives_the_node_that_fell(tmp_path: Path, snapshot_after: int | None, forked: bool) -> None:
    world = LiveWorld(3, "standard")
    world.run(300)
    node = record(world, tmp_path, snapshot_after=snapshot_after, forked=forked)

    found = snapshot.recover(tmp_path, node.machine.settings, now=5000.0)

    assert snapshot.dump(found.live) == snapshot.dump(node)
    assert found.torn_bytes == 0


def test_recovery_makes_the_records_again_with_their_numbers(tmp_path: Path) -> None:
    world = LiveWorld(3, "standard")
    world.run(300)
    node = record(world, tmp_path)
    made: list[int] = []

    snapshot.recover(
        tmp_path,
        node.machine.settings,
        5000.0,
        lambda first, records: made.extend(range(first, first + len(records))),
    )

    assert made == list(range(int(world.nodes["b1"].born * 1_000_000), node.records))
    assert made


def test_an_empty_folder_gives_a_new_node(tmp_path: Path) -> None:
    found = snapshot.recover(tmp_path / "new", settings("b1", 2, "standard"), now=1000.0)

    assert (found.inputs, found.segment) == (0, 1)


def test_a_folder_of_another_network_is_refused(tmp_path: Path) -> None:
    world = LiveWorld(3, "standard")
    world.run(50)
    record(world, tmp_path)

    with pytest.raises(ConfigError, match=r"network\.overlay: is 'interest', but .* 'flooding'"):
        snapshot.recover(tmp_path, settings("b1", 3, "standard", "interest"), now=5000.0)
    with pytest.raises(
        ConfigError, match=r"network\.scheme: 'home-broker' keeps .* sessions under 'standard'"
    ):
        snapshot.recover(tmp_path, settings("b1", 3, "home-broker"), now=5000.0)


@pytest.mark.parametrize("snapshot_after", [None, 40])
@pytest.mark.parametrize("scheme", ["logging", "proactive", "prefetching", "prehandoff"])
def test_a_folder_written_under_one_scheme_is_read_under_another(
    tmp_path: Path, scheme: str, snapshot_after: int | None
) -> None:
    """And it is stored and read again as what it became."""
    world = LiveWorld(10, "standard")  # in which b1 has events stored
    world.run(300)
    before = record(world, tmp_path, snapshot_after=snapshot_after)
    other = settings("b1", 3, scheme)

    live = snapshot.recover(tmp_path, other, now=5000.0).live
    live.apply((int(InputKind.SETTINGS), 5000.0, msgspec.msgpack.encode(other)))
    live.take()

    def events(machine: Machine) -> dict[str, list[object]]:
        contexts = machine.broker.contexts
        return {client: [held.event.id for held in context.stored] for client, context in contexts.items()}

    machine = live.machine
    assert any(events(machine).values())
    assert events(machine) == events(before.machine)
    whole = [context for context in machine.broker.contexts.values() if context.local_queue is None]
    assert {context.under for context in whole} == {scheme}
    stored = snapshot.dump(live)
    again = snapshot.load(stored)
    assert snapshot.dump(again) == stored
    assert events(again.machine) == events(machine)


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    world = LiveWorld(3, "standard")
    world.run(50)
    node = record(world, tmp_path, snapshot_after=5)
    path = next(tmp_path.glob("*.snapshot"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    with pytest.raises(StorageError, match="damaged"):
        snapshot.recover(tmp_path, node.machine.settings, now=5000.0)


def test_a_snapshot_of_another_version_is_refused(tmp_path: Path) -> None:
    world = LiveWorld(3, "standard")
    world.run(50)
    node = record(world, tmp_path, snapshot_after=5)
    path = next(tmp_path.glob("*.snapshot"))
    path.write_bytes(path.read_bytes().replace(snapshot.FORMAT, b"RQS1", 1))

    with pytest.raises(
        StorageError, match="a snapshot of version 1, and this program reads versions 2 and 3"
    ):
        snapshot.recover(tmp_path, node.machine.settings, now=5000.0)


def test_no_password_is_in_a_snapshot() -> None:
    node = LiveBroker(settings("b1", 1, "standard"), 1000.0)
    node.apply((int(InputKind.OPENED), 1000.0, 1, "0:mqtt", "127.0.0.1:1"))
    connect = Connect(client_id="c", user_name="ann", password=b"open sesame")
    node.apply((int(InputKind.RECEIVED), 1000.0, 1, encode(connect, Version.V5)))
    assert node.take().logins[0].password == b"open sesame"

    data = snapshot.dump(node)

    assert b"open sesame" not in data
    assert b"ann" in data
    restored = snapshot.load(data)
    mqtt = restored.mqtt(1)
    assert mqtt is not None
    assert mqtt.connect.password is None
    assert mqtt.connect.user_name == "ann"
