"""Listening sockets: how many connections a turn of the event loop takes."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from roamq.net.clients.doors import AT_ONCE
from roamq.net.ops.local import local_network
from tests.net.live import port_of, running, write_network

uvloop = pytest.importorskip("uvloop")

CLIENTS = 12 * AT_ONCE
Run = Callable[[Coroutine[Any, Any, int]], int]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_clients_that_come_together_share_turns(run: Run, tmp_path: Path) -> None:
    network = write_network(tmp_path, local_network(1, durability="memory"))

    async def turns() -> int:
        async with running(network) as servers:
            # The kernel lets them connect before the broker has taken them.
            guests = [socket.create_connection(("127.0.0.1", port_of(network, "b1"))) for _ in range(CLIENTS)]
            clients, count = servers["b1"].shell.clients, 0
            while len(clients) < CLIENTS:
                await asyncio.sleep(0)
                count += 1
                assert count <= 2 * CLIENTS, f"{len(clients)} of {CLIENTS} were taken"
            for guest in guests:
                guest.close()
            return count

    assert run(turns()) <= CLIENTS // AT_ONCE + 2


def test_a_broker_that_stopped_listens_no_more(tmp_path: Path) -> None:
    network = write_network(tmp_path, local_network(1, durability="memory"))

    async def serve() -> int:
        async with running(network):
            return 0

    uvloop.run(serve())

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(network, "b1")))
