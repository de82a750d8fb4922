"""Commands that act on running brokers: all that are meant, no other, and what was not done is said."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roamq.cli.main import cli
from roamq.net.ops.local import local_network
from roamq.net.server import Server
from tests.net.live import running, write_network

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
