"""A broker that begins with an empty folder, or an old one, is a new life: nothing is lost, doubled or stranded."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.net.ops.configuration import NetworkConfig
from roamq.net.ops.local import local_network
from roamq.net.server import Server
from tests.net.live import PlainClient, port_of, write_network
from tests.support.waiting import eventually

pytestmark = pytest.mark.live


class Site:
    """The brokers of a network in this process, as an operator treats them."""

    def __init__(self, network: NetworkConfig) -> None:
        self.network = network
        self.servers: dict[str, Server] = {}

    async def start(self, *names: str) -> None:
        for name in names:
            server = Server(self.network.server_options(name))
            await server.start()
            self.servers[name] = server
        for server in self.servers.values():
            wanted = server.options.links.peers.keys() & self.servers.keys()
            await eventually(lambda server=server, wanted=wanted: server.links.up.keys() >= wanted)

    async def drain(self, name: str) -> None:
        """`roamq drain`"""
        server = self.servers[name]
        server.drain()

        def is_drained() -> bool:
            health = server.health()
            return not health["left"] and not health["unconfirmed"]

        await eventually(is_drained, f"the sessions of {name}")

    async def stop(self, *names: str) -> None:
        for name in names or list(self.servers):
            await self.servers.pop(name).stop()

    def folder(self, name: str) -> Path:
        folder = self.network.server_options(name).storage.folder
        assert folder is not None
        return folder

    def port(self, name: str) -> int:
        return port_of(self.network, name)


async def publish(site: Site, at: str, payload: bytes) -> None:
    """A message of a client that connects for it alone, acknowledged."""
    writer = PlainClient(f"writer {payload.decode()}", clean=True, expiry=0)
    await writer.connect(site.port(at))
    writer.publish("t/x", payload, 1)
    await eventually(lambda: writer.acknowledged == [payload])
    await writer.disconnect()


def payloads(client: PlainClient) -> list[bytes]:
    return [payload for _, payload, *_ in client.received]


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_every_broker_is_drained_emptied_and_restarted_in_turn(
    tmp_path: Path, scheme: str, overlay: str
) -> None:
    async def scenario() -> None:
        site = Site(write_network(tmp_path, local_network(3, scheme=scheme, overlay=overlay)))
        names = list(site.network.brokers)
        await site.start(*names)
        away, follower = PlainClient("away"), PlainClient("follower")
        for client in (away, follower):
            await client.connect(site.port("b1"))
            await client.subscribe("t/#", 1)
        await away.disconnect()
        sent = []
        for turn in range(2):
            for number, name in enumerate(names):
                await site.drain(name)
                if follower.closed:
                    await follower.connect(site.port(names[number - 1]))
                    assert follower.session_present
                sent.append(b"before %d %d" % (turn, number))
                await publish(site, names[number - 1], sent[-1])
                await site.stop(name)
                shutil.rmtree(site.folder(name))
                sent.append(b"without %d %d" % (turn, number))
                await publish(site, names[number - 2], sent[-1])
                await site.start(name)
                sent.append(b"after %d %d" % (turn, number))
                await publish(site, name, sent[-1])
        await eventually(lambda: len(follower.received) >= len(sent), "what was published")
        await away.connect(site.port("b2"))
        assert away.session_present
        await eventually(lambda: len(away.received) >= len(sent), "what was stored")
        for client in (away, follower):
            await client.ping()
            assert sorted(payloads(client)) == sorted(sent)
            client.drop()
        for server in site.servers.values():
            await eventually(lambda server=server: server.status().stored_events == 0, "an empty store")
        await site.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("differs", "before", "after"),
    [
        ("network.overlay", 'overlay = "interest"', 'overlay = "flooding"'),
        ("brokers, network.links", "[brokers.b2]", "[brokers.b3]\nlink_port = 9\n[brokers.b2]"),
    ],
    ids=["another overlay", "another list of brokers"],
)
def test_brokers_that_were_told_different_things_are_not_linked_and_say_so(
    tmp_path: Path, differs: str, before: str, after: str
) -> None:
    async def scenario() -> None:
        text = local_network(2)
        one = write_network(tmp_path, text)
        other_folder = tmp_path / "other"
        other_folder.mkdir()
        other = write_network(other_folder, text.replace(before, after))
        servers = [Server(one.server_options("b1")), Server(other.server_options("b2"))]
        for server in servers:
            await server.start()
        await eventually(lambda: any(server.links.refused for server in servers))
        told = [why for server in servers for why in server.health().get("links_refused", {}).values()]
        assert any(f"'b1' disagrees with 'b2' about {differs}; give all" in why for why in told)
        assert not any(server.links.up for server in servers)
        status = ["status", str(one.source.name)]
        shown = await asyncio.to_thread(CliRunner().invoke, cli, status)
        assert f"b2: link with b1 refused: 'b1' disagrees with 'b2' about {differs}" in shown.output
        as_json = await asyncio.to_thread(CliRunner().invoke, cli, [*status, "--json"])
        by_name = {answer["broker"]: answer["links_refused"] for answer in json.loads(as_json.output)}
        assert f"disagrees with 'b2' about {differs}" in by_name["b2"]["b1"]
        for server in servers:
            await server.stop()

    asyncio.run(scenario())


def test_a_broker_with_an_old_folder_learns_what_the_others_know(tmp_path: Path) -> None:
    """It uses no number again, gets what is wanted now, and forgets retained messages that were cleared since."""

    async def scenario() -> None:
        site = Site(write_network(tmp_path, local_network(3, scheme="standard")))
        await site.start("b1", "b2", "b3")
        reader, keeper = PlainClient("reader"), PlainClient("keeper")
        await keeper.connect(site.port("b2"))
        keeper.send_raw(b"\x31\x0a\x00\x04kept\x00old")
        await keeper.ping()
        await publish(site, "b1", b"1")
        await site.stop("b1")
        copy = tmp_path / "copy"
        shutil.copytree(site.folder("b1"), copy)
        await site.start("b1")
        await reader.connect(site.port("b3"))
        await reader.subscribe("t/#", 1)
        for number in range(2, 6):
            await publish(site, "b1", b"%d" % number)
        keeper.send_raw(b"\x31\x07\x00\x04kept\x00")
        await keeper.ping()
        await eventually(lambda: site.servers["b1"].status().retained_messages <= 10)
        await site.stop("b1")
        shutil.rmtree(site.folder("b1"))
        shutil.copytree(copy, site.folder("b1"))
        await site.start("b1")
        for number in range(6, 9):
            await publish(site, "b1", b"%d" % number)
        await eventually(lambda: len(reader.received) >= 7)
        await reader.ping()
        assert payloads(reader) == [b"%d" % number for number in range(2, 9)]
        late = PlainClient("late")
        await late.connect(site.port("b1"))
        await late.subscribe("kept", 1)
        await late.ping()
        assert late.received == []
        for client in (reader, keeper, late):
            client.drop()
        await site.stop()

    asyncio.run(scenario())
