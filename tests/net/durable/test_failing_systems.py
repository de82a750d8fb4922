"""A system that fails a running broker process: a full disk, a disk that can be read alone, EIO, no more processes.

The failures are real where the machine lets a test make them: small file systems are mounted, and `strace` makes calls
of a running process fail. A test that may not do so is skipped and says why.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roamq.net.ops.local import local_network
from tests.net.live import BrokerProcesses, PlainClient, python_path, write_network
from tests.support.waiting import WAIT_S, eventually

pytestmark = pytest.mark.live


def mount(folder: Path, options: str) -> None:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB where brokers keep their data."""
    if shutil.which("mount") is None:
        pytest.skip("there is no command mount")
    folder = tmp_path / "data"
    mount(folder, "size=8m")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def failing(process: int, calls: str, error: str, file: Path | None = None) -> Iterator[None]:
    """Let system calls of a running process fail; `file`: those alone that are about it."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
    inject += [] if file is None else ["-P", str(file)]
    with subprocess.Popen(
        ["strace", "-f", "-o", os.devnull, *inject, "-p", str(process)], stderr=subprocess.PIPE, text=True
    ) as strace:
        assert strace.stderr is not None
        said = strace.stderr.readline()
        try:
            if "attached" not in said:
                pytest.skip(f"strace may not attach to a process here: {said.strip()}")
            yield
        finally:
            strace.terminate()


def health(brokers: BrokerProcesses) -> dict[str, Any]:
    try:
        return brokers.health("b1")
    except urllib.error.HTTPError as error:
        found: dict[str, Any] = json.load(error)
        return found


def says(brokers: BrokerProcesses, status: str, reason: str) -> Callable[[], bool]:
    def look() -> bool:
        found = health(brokers)
        return found["status"] == status and reason in found.get("reason", found.get("snapshot", ""))

    return look


async def published(client: PlainClient, count: int, size: int = 1000) -> None:
    """Publish to itself and wait until all is acknowledged and has come."""
    first = len(client.acknowledged)
    sent = {b"%d, %d " % (first, number) + bytes(size) for number in range(count)}
    for payload in sent:
        client.publish("t", payload, 1)
    await eventually(lambda: sent <= set(client.acknowledged))
    await eventually(lambda: sent <= {payload for _, payload, *_ in client.received})


async def connected(brokers: BrokerProcesses) -> PlainClient:
    client = PlainClient("c")
    await client.connect(brokers.port("b1"))
    await client.subscribe("t", 1)
    return client


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_a_full_disk_delays_acknowledgements_and_loses_none(
    tmp_path: Path, small_disk: Path, durability: str
) -> None:
    async def scenario() -> None:
        client = await connected(brokers)
        await published(client, 10)
        ballast = small_disk / "ballast"
        free = shutil.disk_usage(small_disk).free
        ballast.write_bytes(bytes(max(0, free - 100_000)))
        sent = [b"<%d>" % number + bytes(2000) for number in range(200)]
        for payload in sent:
            client.publish("t", payload, 1)
        await eventually(says(brokers, "stalled", "No space left"))
        assert len(client.acknowledged) < 210
        ballast.unlink()
        await eventually(lambda: len(client.acknowledged) == 210)
        await eventually(lambda: len(client.received) == 210)
        assert health(brokers)["status"] == "ok"
        brokers.kill("b1")
        await asyncio.to_thread(brokers.start, "b1")
        assert (await client.connect(brokers.port("b1"))).session_present
        await published(client, 10)
        client.drop()

    with BrokerProcesses(tmp_path, 1, scheme="standard", durability=durability) as brokers:
        brokers.start()
        asyncio.run(scenario())


def test_a_broker_on_a_read_only_disk_says_so_and_ends(tmp_path: Path, small_disk: Path) -> None:

    def remount(how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(small_disk)], check=True)

    async def scenario() -> None:
        client = await connected(brokers)
        await published(client, 10)
        brokers.kill("b1")
        remount("ro")
        done = await asyncio.to_thread(serve_once, tmp_path)
        assert done.returncode != 0
        assert "Read-only file system" in done.stderr
        assert "Traceback" not in done.stderr and "unexpected" not in done.stderr
        remount("rw")
        await asyncio.to_thread(brokers.start, "b1")
        assert (await client.connect(brokers.port("b1"))).session_present
        await published(client, 10)
        client.drop()

    with BrokerProcesses(tmp_path, 1, scheme="standard") as brokers:
        brokers.start()
        asyncio.run(scenario())


def serve_once(folder: Path) -> "subprocess.CompletedProcess[str]":
    """A broker that cannot start, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "roamq.cli.main", "serve", str(folder / "network.toml"), "--broker", "b1"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, "PYTHONPATH": python_path()},
    )


@pytest.mark.parametrize(("durability", "call"), [("process", "write"), ("disk", "fdatasync")])
def test_eio_stalls_a_broker_which_acknowledges_nothing(tmp_path: Path, durability: str, call: str) -> None:
    """A write that fails is tried again; what a failed sync has left on the disk is unknown, and stays so."""

    async def scenario() -> None:
        client = await connected(brokers)
        await published(client, 5)
        journal = tmp_path / "data" / "b1" / "segment-00000001.journal"
        with failing(brokers.processes["b1"].pid, call, "EIO", journal):
            client.publish("t", b"under way", 1)
            await eventually(lambda: stalls(brokers))
            assert client.unacknowledged
        if call == "write":
            await eventually(lambda: not client.unacknowledged)
            assert health(brokers)["status"] == "ok"
        else:
            assert "Input/output error" in health(brokers)["reason"]
            brokers.kill("b1")
            await asyncio.to_thread(brokers.start, "b1")
            await client.connect(brokers.port("b1"))
            assert client.session_present
        await published(client, 5)
        client.drop()

    with BrokerProcesses(tmp_path, 1, scheme="standard", durability=durability) as brokers:
        brokers.start()
        asyncio.run(scenario())


def stalls(brokers: BrokerProcesses) -> bool:
    """Whether the broker says so; its answer may need a call that fails."""
    try:
        return bool(health(brokers)["status"] == "stalled")
    except OSError:
        return False


def test_a_system_without_processes_or_threads_makes_a_broker_degraded_which_serves_on(
    tmp_path: Path,
) -> None:
    """The bound on processes counts threads as well: both fail."""
    text = local_network(1, scheme="standard").replace(
        'folder = "data"', 'folder = "data"\nsnapshot_bytes = 1000000'
    )

    async def scenario() -> None:
        client = await connected(brokers)
        with failing(brokers.processes["b1"].pid, "clone,clone3,fork,vfork", "EAGAIN"):
            await published(client, 30, 50_000)
            await eventually(says(brokers, "degraded", ""))
            assert health(brokers)["snapshot"]
            await published(client, 5)
        await eventually(lambda: health(brokers)["status"] == "ok")
        await published(client, 5)
        client.drop()

    with BrokerProcesses(tmp_path, 1) as brokers:
        brokers.network = write_network(tmp_path, text)
        brokers.start()
        asyncio.run(scenario())
