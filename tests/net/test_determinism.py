"""Equal inputs give an equal node: the whole of durability rests on it."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from roamq.net import snapshot
from roamq.net.node import Node
from roamq.schemes import scheme_names
from tests.support.live_world import LiveWorld, digest, replayed

SEEDS = range(4)


@pytest.mark.parametrize("scheme", sorted(scheme_names()))
@pytest.mark.parametrize("seed", SEEDS)
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


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_goes_on_from_a_snapshot_as_it_would_have_without_one(seed: int) -> None:
    world = LiveWorld(seed, "proactive")
    world.run(300)

    for name, before in world.nodes.items():
        half = len(before.journal) // 2
        node, sent = replayed(before.settings, before.born, before.journal[:half])
        restored: Node = pickle.loads(snapshot.dump(node))  # noqa: S301 - our own
        for entry in before.journal[half:]:
            restored.apply(entry)
            for peer, frames in restored.take().frames.items():
                sent.extend((peer, *frame) for frame in frames)
        assert sent == before.sent, f"LiveWorld({seed}, 'proactive'), {name}"


def test_the_digest_notices_a_difference() -> None:
    """A comparison that cannot fail would prove nothing."""
    world = LiveWorld(1, "standard")
    world.run(200)
    before = world.nodes["b1"]

    node, _ = replayed(before.settings, before.born, before.journal[:-20])

    assert digest(node) != digest(before.node)
