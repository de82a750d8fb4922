"""One broker as two processes behind one port: clients land at either, and notice nothing."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.core.errors import ConfigError
from roamq.net.clients.mqtt.codec import Disconnect, ReasonCode
from roamq.net.ops import processes as ops
from roamq.net.ops.configuration import load_network, parse_network
from roamq.net.ops.local import local_network
from tests.net.live import BrokerProcesses, PlainClient
from tests.support.waiting import eventually, wait_until

NAMES = ("b1", "b1.2")


def start(processes: BrokerProcesses) -> None:
    # A client of a process that fell waits for it: for however long a busy machine takes to start it again.
    text = processes.path.read_text().replace("[network]", "[network]\nhandoff_timeout_s = 50.0")
    processes.path.write_text(text)
    processes.start("b1")
    for name in NAMES:
        processes.processes[name] = processes.processes["b1"]
        wait_until(lambda name=name: answers(processes, name), f"{name} and its link")


def answers(processes: BrokerProcesses, name: str) -> bool:
    try:
        return not processes.health(name)["links_down"]
    except OSError:
        return False


def connections(processes: BrokerProcesses) -> Counter[str]:
    return Counter({name: processes.health(name)["connections"] for name in NAMES})


async def connected(client: PlainClient, port: int) -> None:
    """Connect, and again if the process falls at that moment."""
    while True:
        try:
            connack = await client.connect(port)
        except (OSError, AssertionError):
            await asyncio.sleep(0.05)
            continue
        if not connack.reason.failed:
            return
        client.drop()
        await asyncio.sleep(0.05)


async def kept_connected(client: PlainClient, port: int) -> None:
    while True:
        await eventually(lambda: client.closed)
        await connected(client, port)


@pytest.mark.live
def test_a_process_that_is_killed_costs_no_message_and_comes_back(tmp_path: Path) -> None:
    async def scenario(processes: BrokerProcesses) -> None:
        port = processes.port("b1")
        readers = [PlainClient(f"reader-{number}") for number in range(8)]
        writers = [PlainClient(f"writer-{number}") for number in range(4)]
        clients = [*readers, *writers]
        for client in clients:
            await connected(client, port)
        while (
            min(connections(processes).values()) == 0
        ):  # the system chooses; a new connection may land elsewhere
            for client in clients:
                await connected(client, port)
        for reader in readers:
            await reader.subscribe("t/#", 2)
        keepers = [asyncio.create_task(kept_connected(client, port)) for client in clients]
        before = processes.health("b1.2")["pid"]

        for number in range(60):
            for writer in writers:
                # What is not acknowledged goes first on a new connection.
                await eventually(lambda writer=writer: writer.is_open)
                writer.publish(f"t/{writer.name}", b"%s %d" % (writer.name.encode(), number), 2)
            if number == 20:
                os.kill(before, signal.SIGKILL)
            await asyncio.sleep(0.005)

        expected = {b"%s %d" % (writer.name.encode(), number) for writer in writers for number in range(60)}
        await eventually(lambda: all(not writer.unacknowledged for writer in writers))
        await eventually(lambda: all({payload for _, payload, *_ in r.received} >= expected for r in readers))
        for reader in readers:
            counted = Counter(payload for _, payload, *_ in reader.received)
            assert max(counted.values()) == 1, f"{reader.name} got a message twice"
            for writer in writers:
                mine = [p for topic, p, *_ in reader.received if topic == f"t/{writer.name}"]
                assert mine == sorted(mine, key=lambda payload: int(payload.split()[1])), reader.name
        await eventually(lambda: answers(processes, "b1.2"))
        assert processes.health("b1.2")["pid"] != before
        for keeper in keepers:
            keeper.cancel()
        for client in clients:
            client.drop()

    with BrokerProcesses(tmp_path, 1, scheme="standard", durability="process", processes=2) as processes:
        start(processes)
        asyncio.run(scenario(processes))


@pytest.mark.live
def test_a_client_that_connects_again_takes_its_session_over_whatever_process_it_lands_at(
    tmp_path: Path,
) -> None:
    async def scenario(processes: BrokerProcesses) -> None:
        port = processes.port("b1")
        first = PlainClient("c")
        await first.connect(port)
        await first.subscribe("t", 1)
        at = connections(processes)
        attempts = []
        while connections(processes) == at:  # until the second connection is at the other process
            attempts.append(PlainClient("c"))
            assert (await attempts[-1].connect(port)).session_present
            await eventually(lambda: sum(connections(processes).values()) == 1)
        await eventually(lambda: first.closed)

        assert isinstance(first.closed_because, Disconnect)
        assert first.closed_because.reason is ReasonCode.SESSION_TAKEN_OVER
        attempts[-1].publish("t", b"once", 1)
        await eventually(lambda: len(attempts[-1].received) == 1)
        for client in attempts:
            client.drop()

    with BrokerProcesses(tmp_path, 1, scheme="standard", durability="memory", processes=2) as processes:
        start(processes)
        asyncio.run(scenario(processes))


def test_a_broker_of_several_processes_is_as_many_brokers() -> None:
    network = parse_network(local_network(2, scheme="standard", processes=3))

    assert list(network.brokers) == ["b1", "b1.2", "b1.3", "b2", "b2.2", "b2.3"]
    options = network.server_options("b1.2")
    assert options.links.mates == ("b1", "b1.3")
    assert options.links.peers == {}
    assert network.server_options("b1").links.peers.keys() == {"b2"}
    assert options.listeners == network.server_options("b1").listeners
    assert options.metrics_port == (network.brokers["b1"].metrics_port or 0) + 1
    assert ("b1", "b2") in network.links
    assert ("b1.2", "b2") not in network.links


def test_names_of_processes_belong_to_them() -> None:
    text = local_network(1, scheme="standard", processes=2) + '[brokers."b1.2"]\nlink_port = 7\n'

    with pytest.raises(ConfigError, match="is the name of a process of 'b1'"):
        parse_network(text)


def test_all_brokers_must_know_how_many_processes_each_has(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(local_network(2, scheme="standard"))

    answer = CliRunner().invoke(cli, ["serve", str(path), "--broker", "b1", "--processes", "2"])

    assert answer.exit_code == 2
    assert "write `processes = 2` into the file of all" in answer.output
    path.write_text(local_network(1, scheme="standard"))
    assert list(load_network(path, processes=2).brokers) == ["b1", "b1.2"]


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    secret = ops.enter(folder)
    assert ops.enter(folder) == secret
    assert folder.stat().st_mode & 0o077 == 0

    folder.chmod(0o755)

    with pytest.raises(ConfigError, match="is not a folder of this user alone"):
        ops.enter(folder)
