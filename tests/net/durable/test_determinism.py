"""Equal inputs give an equal node: the whole of durability rests on it."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roamq.net.durable import snapshot
from roamq.net.durable.inputs import JournalEntry, LiveBroker
from roamq.schemes.table import scheme_names
from tests.support.few import few
from tests.support.live_world import LiveWorld, digest, replayed

SEEDS = range(4)


@pytest.mark.parametrize("scheme", sorted(scheme_names()))
@pytest.mark.parametrize("seed", few(SEEDS))
def test_replaying_a_journal_gives_the_same_node_and_the_same_frames(scheme: str, seed: int) -> None:
    world = LiveWorld(seed, scheme)
    world.run(400)
    world.settle()

    for name, before in world.nodes.items():
        node, sent = replayed(before.settings, before.born, before.journal)
        where = f"LiveWorld({seed}, {scheme!r}), {name}"
        assert before.failures == [], where
        assert sent == before.sent, where
        assert digest(node) == digest(before.node), where


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
@pytest.mark.slow
def test_another_process_hashes_differently_and_replays_alike(tmp_path: Path, scheme: str) -> None:
    """Sets iterate in an order that depends on the process; nothing that leaves a node may."""
    world = LiveWorld(7, scheme)
    world.run(600)
    world.settle()

    expected, paths = "", []
    for name, before in world.nodes.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(pickle.dumps((before.settings, before.born, before.journal)))
        expected += f"{digest(before.node)} {digest(before.sent)}\n"
    command = [sys.executable, "-m", "tests.support.live_world", *map(str, paths)]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert answer.stdout == expected, f"PYTHONHASHSEED={hash_seed}"


@pytest.mark.parametrize("scheme", sorted(scheme_names()))
@pytest.mark.parametrize("seed", few(SEEDS))
def test_a_node_goes_on_from_a_snapshot_as_it_would_have_without_one(scheme: str, seed: int) -> None:
    """State -> bytes -> state is the same machine: the same inputs cause the same frames, packets and records."""
    world = LiveWorld(seed, scheme)
    world.run(300)

    for name, before in world.nodes.items():
        where = f"LiveWorld({seed}, {scheme!r}), {name}"
        for half in (len(before.journal) // 3, len(before.journal) // 2):
            node, _ = replayed(before.settings, before.born, before.journal[:half])
            stored = snapshot.dump(node)
            restored = snapshot.load(stored)
            assert snapshot.dump(restored) == stored, where
            for entry in before.journal[half:]:
                expected = _effects(node, entry)
                assert _effects(restored, entry) == expected, where
            assert snapshot.dump(restored) == snapshot.dump(node), where


def _effects(node: LiveBroker, entry: JournalEntry) -> tuple[Any, ...]:
    """All that leaves a node because of an input."""
    error = node.apply(entry)
    out = node.take()
    written = [(number, b"".join(mqtt.take_output())) for number, mqtt in out.dirty.items()]
    return (repr(error), written, out.frames, out.closing, out.timers, out.records, out.notices, out.logins)


@pytest.mark.parametrize("overlay", ["hierarchy", "interest"])
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_every_overlay_is_stored(overlay: str, seed: int) -> None:
    world = LiveWorld(seed, "standard", overlay=overlay)
    world.run(300)

    for name, before in world.nodes.items():
        half = len(before.journal) // 2
        node, _ = replayed(before.settings, before.born, before.journal[:half])
        restored = snapshot.load(snapshot.dump(node))
        for entry in before.journal[half:]:
            expected = _effects(node, entry)
            assert _effects(restored, entry) == expected, f"LiveWorld({seed}, overlay={overlay!r}), {name}"


def test_the_digest_notices_a_difference() -> None:
    """A comparison that cannot fail would prove nothing."""
    world = LiveWorld(1, "standard")
    world.run(200)
    before = world.nodes["b1"]

    node, _ = replayed(before.settings, before.born, before.journal[:-20])

    assert digest(node) != digest(before.node)
