"""A broker reads what the release before wrote, and refuses by name what it cannot read, before it touches anything."""

import json
import pickle
import shutil
import struct
import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.core.errors import RemoteProtocolError
from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import Connect, Decoder, Packet, Properties, Publish, Version, encode
from roamq.net.durable import before, snapshot
from roamq.net.durable.graph import UnknownFormError
from roamq.net.durable.inputs import InputKind, JournalEntry, LiveBroker
from roamq.net.durable.journal import Journal, StorageError
from roamq.net.links import protocol
from roamq.net.ops.local import local_network
from tests.net.links.test_protocol import converse, session
from tests.support import stored_world

BEFORE = Path(__file__).parent / "before"
"""Written by the release before: `python -m tests.support.stored_world`, at commit 491b02d."""
HEADER = struct.Struct("<4sQI")


def copy_of(name: str, target: Path) -> Path:
    return Path(shutil.copytree(BEFORE / name, target / name))


class Restarted:
    """A broker that starts again from a folder."""

    def __init__(self, folder: Path) -> None:
        self.live = snapshot.recover(folder, stored_world.settings(), stored_world.BORN + 60).live
        self.now = max(self.live.time, stored_world.BORN + 60)
        self.feed(InputKind.RECOVERED)

    def feed(self, kind: InputKind, *details: object) -> dict[int, bytes]:
        self.now += 0.01
        entry: JournalEntry = (int(kind), self.now, *details)
        error = self.live.apply(entry)
        assert error is None, error
        return {number: b"".join(mqtt.take_output()) for number, mqtt in self.live.take().dirty.items()}

    def connect(self, name: str) -> list[Packet]:
        """What the client is sent when it comes back."""
        number = self.live.connections + 1
        self.feed(InputKind.OPENED, number, "0:mqtt", "127.0.0.1:1")
        connect = Connect(
            client_id=name, clean_start=False, properties=Properties(session_expiry_interval=1000)
        )
        self.feed(InputKind.RECEIVED, number, encode(connect, Version.V5))
        data = self.feed(InputKind.AUTHENTICATED, number, None, True).get(number, b"")
        return Decoder(Version.V5).feed(data)


def publications(packets: list[Packet]) -> list[tuple[str, bytes, int, bool]]:
    return [(p.topic, p.payload, p.packet_id, p.dup) for p in packets if isinstance(p, Publish)]


@pytest.mark.parametrize("folder", ["stopped", "killed"])
def test_what_the_release_before_stored_is_all_there(tmp_path: Path, folder: str) -> None:
    broker = Restarted(copy_of(folder, tmp_path))

    assert publications(broker.connect("away")) == [
        ("news/1", b"sent and not acknowledged", 1, True),
        ("news/2", b"stored", 2, False),
        ("alarms/fire", b"stored and retained", 3, False),
        ("news/3", b"stored later", 4, False),
        ("alarms/flood", b"retained later", 5, False),
    ]
    assert [(topic, dup) for topic, _, _, dup in publications(broker.connect("here"))] == [
        ("news/1", True),
        ("news/2", True),
        ("news/3", True),
    ]
    jobs = [publications(broker.connect(name)) for name in ("worker-1", "worker-2")]
    assert sorted(payload for found in jobs for _, payload, _, _ in found) == [b"for a worker"]
    status = broker.live.status()
    assert status.retained_messages == 2
    assert status.outbox_frames[BrokerId("south")] > 10, "news for the neighbour waits"
    left = broker.live.machine.broker.contexts["left"].session  # type: ignore[index]
    assert left.will.payload == b"gone"  # type: ignore[attr-defined]


def test_what_was_read_is_stored_again_in_the_form_of_today(tmp_path: Path) -> None:
    folder = copy_of("killed", tmp_path)
    live = snapshot.recover(folder, stored_world.settings(), stored_world.BORN + 60).live
    live.take()

    data = snapshot.dump(live)

    assert b"roamq." not in data, "no class is named by where it lives"
    assert b"Machine" not in data
    assert snapshot.dump(snapshot.load(data)) == data


def test_a_snapshot_of_the_release_before_can_run_nothing(tmp_path: Path) -> None:
    folder = copy_of("stopped", tmp_path)
    evil = pickle.dumps(print)
    path = folder / "00000002.snapshot"
    path.write_bytes(HEADER.pack(before.FORMAT, len(evil), zlib.crc32(evil)) + evil)

    with pytest.raises(StorageError, match=r"builtins\.print does not belong into a snapshot"):
        snapshot.recover(folder, stored_world.settings(), 0.0)


def test_a_snapshot_of_a_later_release_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    folder = copy_of("stopped", tmp_path)
    path = folder / "00000002.snapshot"
    path.write_bytes(b"RQS9" + path.read_bytes()[4:])
    files = {path: path.read_bytes() for path in folder.iterdir()}

    with pytest.raises(
        StorageError, match="a snapshot of version 9, and this program reads versions 2 and 3"
    ):
        snapshot.recover(folder, stored_world.settings(), 0.0)

    assert {path: path.read_bytes() for path in folder.iterdir()} == files


def test_inputs_of_a_later_release_are_refused_by_name(tmp_path: Path) -> None:
    folder = copy_of("killed", tmp_path)
    journal = Journal(folder, 2)
    journal.pending.append((200, 1.0))
    journal.close()

    with pytest.raises(StorageError, match="inputs of kind 200, which this program does not know"):
        snapshot.recover(folder, stored_world.settings(), 0.0)


def test_a_field_that_a_later_release_stores_is_refused_by_name() -> None:
    live = LiveBroker(stored_world.settings(), 1.0)
    live.machine.directory.later = {"more": 1}  # type: ignore[attr-defined]

    with pytest.raises(TypeError, match=r"directory\.later means nothing to this program"):
        snapshot.load(snapshot.dump(live))


def test_a_context_of_the_release_before_has_read_nothing_ahead(tmp_path: Path) -> None:
    """Its row is shorter; one of a later release is longer, and refused."""
    live = Restarted(copy_of("stopped", tmp_path)).live
    stored = snapshot._STORED.decode(snapshot.dump(live))
    rows = [row[1] for row in stored.objects if row[0] == "Context"]
    assert rows
    for row in rows:
        row.pop()

    contexts = snapshot._live(stored).machine.broker.contexts

    assert contexts and all(context.ahead == {} for context in contexts.values())
    for row in rows:
        row += [None, None]
    with pytest.raises(UnknownFormError, match="fields"):
        snapshot._live(stored)


# --- links -----------------------------------------------------------------------------------------------------------


def test_neighbours_of_two_releases_speak_the_newest_version_that_both_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newer = session("a", calls="b")
    greeting = newer.take_output()
    monkeypatch.setattr(protocol, "NEWEST", protocol.NEWEST + 5)
    newer = session("a", calls="b")
    assert newer.take_output() != greeting
    newer = session("a", calls="b")
    monkeypatch.setattr(protocol, "NEWEST", protocol.NEWEST - 5)

    older = session("b")
    converse(newer, older)

    assert (newer.phase, newer.version, older.version) == (older.phase, protocol.NEWEST, protocol.NEWEST)


def test_a_neighbour_of_the_release_before_knows_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    called = session("b")
    monkeypatch.setattr(protocol, "NEWEST", 0)  # its HELLO ends before that field
    caller = session("a", calls="b")
    monkeypatch.undo()

    converse(caller, called)

    assert called.version == protocol.OLDEST == 3


def test_neighbours_with_no_version_in_common_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    called = session("b")
    monkeypatch.setattr(protocol, "OLDEST", 7)
    monkeypatch.setattr(protocol, "NEWEST", 9)
    caller = session("a", calls="b")
    monkeypatch.undo()

    with pytest.raises(RemoteProtocolError, match="'a' speaks versions 7 to 9 of links, this broker 3 to"):
        called.receive(caller.take_output(), 1.0)


# --- roamq upgrade-check ---------------------------------------------------------------------------------------------


def config(folder: Path) -> Path:
    path = folder / "network.toml"
    text = (
        local_network(2, scheme="proactive", overlay="flooding").replace("b1", "north").replace("b2", "south")
    )
    path.write_text(text.replace('durability = "memory"', 'durability = "process"\nfolder = "data"'))
    return path


def test_upgrade_check_says_what_it_found_and_changes_nothing(tmp_path: Path) -> None:
    path = config(tmp_path)
    folder = Path(shutil.copytree(BEFORE / "killed", tmp_path / "data" / "north"))
    with (folder / "segment-00000002.journal").open("ab") as file:
        file.write(b"RQJ2torn")
    files = {path: path.read_bytes() for path in folder.iterdir()}

    answer = CliRunner().invoke(cli, ["upgrade-check", str(path), "--broker", "north", "--json"])

    found = json.loads(answer.output)
    assert answer.exit_code == 0, answer.output
    assert (found["readable"], found["release"], found["snapshot_version"]) == (True, "0.1.0", 2)
    assert (found["sessions"], found["inputs"]) == (6, 6)
    assert "replays the inputs by its own rules" in found["advice"][0]
    assert {path: path.read_bytes() for path in folder.iterdir()} == files


def test_upgrade_check_names_what_cannot_be_read(tmp_path: Path) -> None:
    path = config(tmp_path)
    folder = Path(shutil.copytree(BEFORE / "killed", tmp_path / "data" / "north"))
    stored = folder / "00000002.snapshot"
    stored.write_bytes(b"RQS9" + stored.read_bytes()[4:])

    answer = CliRunner().invoke(cli, ["upgrade-check", str(path), "--broker", "north"])

    assert answer.exit_code == 1
    assert "is a snapshot of version 9" in answer.output
