"""Commands that act on running brokers: all that are meant, no other, and what was not done is said."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roamq.cli.main import cli
from roamq.net.clients.passwords import hash_password
from roamq.net.ops.local import local_network
from roamq.net.server import Server
from tests.net.live import BrokerProcesses, PlainClient, python_path, running, write_network
from tests.support.waiting import eventually, wait_until

pytestmark = pytest.mark.live


async def said(*arguments: str) -> Result:
    """What a command says while brokers run in this process."""
    return await asyncio.to_thread(CliRunner().invoke, cli, arguments)


def test_a_broker_of_another_host_with_the_same_port_is_not_taken_for_one_of_this_host(
    tmp_path: Path,
) -> None:
    """`roamq init --site` gives brokers of different hosts the same ports: reload said that all had done it, and leave
    and drain acted on the broker that was there."""
    text = local_network(2, scheme="standard")
    ports = [line for line in text.splitlines() if line.startswith("metrics_port")]
    text = text.replace(ports[1], f'{ports[0]}\nhost = "127.0.0.2"')

    async def scenario() -> None:
        network = write_network(tmp_path, text)
        path = network.source.name
        async with running(network, "b1") as servers:
            done = await said("reload", path)
            assert done.exit_code == 0
            assert done.output.startswith("b1: 0 users, 1 rules\n")
            assert "not reloaded, no answer on this host: b2" in done.output
            assert "b2: 0 users" not in done.output
            for command in ("leave", "drain"):
                wrong = await said(command, path, "--broker", "b2")
                assert wrong.exit_code == 1
                assert "b2 does not answer on this host" in wrong.output
            assert servers["b1"].health()["status"] == "ok"

    asyncio.run(scenario())


def test_a_broker_that_refuses_a_reload_does_not_keep_it_from_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = write_network(tmp_path, local_network(2, scheme="standard"))
        stubborn = Server(network.server_options("b1"))
        await stubborn.start()
        try:
            async with running(network, "b2"):
                done = await said("reload", network.source.name)
        finally:
            await stubborn.stop()
        assert done.exit_code == 1
        assert "b2: 0 users, 1 rules" in done.output
        assert "roamq: b1: " in done.output and "was started without a file" in done.output

    asyncio.run(scenario())


def test_a_reload_reaches_all_processes_that_the_command_line_asked_for(tmp_path: Path) -> None:
    """The file says nothing of them: a user who was removed stayed at the second, and could come back."""
    users = f'[access]\nanonymous = "never"\n[access.users]\nann = "{hash_password(b"of ann")}"\n'
    text = local_network(1, scheme="standard", processes=2, extra=users).replace("processes = 2\n", "")

    async def scenario(brokers: BrokerProcesses) -> None:
        anns: list[PlainClient] = []
        while len(anns) < 2 or brokers.health("b1")["connections"] in (0, len(anns)):
            anns.append(PlainClient(f"c{len(anns)}"))
            await anns[-1].connect(brokers.port("b1"), user_name="ann", password=b"of ann")
        brokers.path.write_text("\n".join(x for x in text.splitlines() if not x.startswith("ann = ")))
        done = await said("reload", str(brokers.path))
        assert done.output == "b1: 0 users, 1 rules\nb1.2: 0 users, 1 rules\n"
        await eventually(lambda: all(ann.closed for ann in anns))

    with BrokerProcesses(tmp_path, 1) as brokers:
        brokers.network = write_network(tmp_path, text)
        serve = [sys.executable, "-m", "roamq.cli.main", "serve", str(brokers.path), "--broker", "b1"]
        brokers.processes["b1"] = subprocess.Popen(
            [*serve, "--processes", "2", "--log-level", "WARNING"],
            env={**os.environ, "PYTHONPATH": python_path()},
        )
        brokers.wait_until_up("b1")
        wait_until(lambda: not brokers.health("b1")["links_down"], "the second process")
        asyncio.run(scenario(brokers))
