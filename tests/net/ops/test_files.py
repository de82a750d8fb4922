"""A system that lets a broker open few files: whoever is in is served, others are refused, nobody waits for ever."""

import asyncio
import logging
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from roamq.net.ops.files import OWN_FILES, within_files
from roamq.net.ops.local import local_network
from roamq.net.ops.options import Bounds
from tests.net.live import PlainClient, port_of, python_path, write_network
from tests.support.waiting import WAIT_S, eventually

FEW = OWN_FILES + 20


@pytest.mark.parametrize(
    ("limits", "asked", "room"),
    [
        ((1024, 4096), (1128, 4096), 1000),
        ((4096, 4096), None, 1000),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None, 1000),
        ((1024, resource.RLIM_INFINITY), (1128, resource.RLIM_INFINITY), 1000),
        ((256, 628), (628, 628), 500),
        ((64, 64), (64, 64), 1),
    ],
)
def test_a_broker_asks_for_as_many_files_as_it_needs(
    limits: tuple[int, int],
    asked: tuple[int, int] | None,
    room: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: found.append(wanted))

    bounds = within_files(Bounds(connections_max=1000))

    assert found == ([] if asked is None else [asked])
    assert bounds.connections_max == room
    assert ("LimitNOFILE" in caplog.text) == (room < 1000)


@pytest.mark.live
def test_strangers_that_take_all_connections_keep_nobody_waiting(tmp_path: Path) -> None:
    """Three times as many as there are files."""
    network = write_network(tmp_path, local_network(1, scheme="standard"))
    port = port_of(network, "b1")
    serve = [
        sys.executable,
        "-m",
        "roamq.cli.main",
        "serve",
        str(tmp_path / "network.toml"),
        "--broker",
        "b1",
    ]

    async def scenario() -> None:
        client = PlainClient("c")
        await eventually(lambda: _is_listening(port))
        await client.connect(port)
        await client.subscribe("t", 1)
        strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3 * FEW)]
        async with asyncio.timeout(WAIT_S):
            ended = [asyncio.ensure_future(reader.read(1)) for reader, _ in strangers]
            while sum(one.done() for one in ended) < 2 * FEW:
                await asyncio.sleep(0.05)
        client.publish("t", b"x", 1)
        await eventually(lambda: [payload for _, payload, *_ in client.received] == [b"x"])
        for one in ended:
            one.cancel()
        for _, writer in strangers:
            writer.transport.abort()
        await eventually(lambda: _is_listening(port))
        client.drop()

    said = tmp_path / "said"
    with (
        said.open("w") as log,
        subprocess.Popen(
            ["bash", "-c", 'ulimit -n "$0"; exec "$@"', str(FEW), *serve],
            stderr=log,
            env={**os.environ, "PYTHONPATH": python_path()},
        ) as broker,
    ):
        try:
            asyncio.run(scenario())
        finally:
            broker.terminate()
    assert "there are files for 20" in said.read_text()
    assert "Traceback" not in said.read_text()


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
