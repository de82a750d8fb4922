"""Brokers of the first configuration leave for good, live: nothing is lost, doubled or stranded."""

import asyncio
import json
import shutil
import urllib.error
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roamq.cli import asking
from roamq.cli.main import cli
from roamq.config import to_toml
from roamq.core.errors import ConfigError
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import local_network
from tests.net.around import GRAPHS, Links, processes_of
from tests.net.live import BrokerProcesses, PlainClient, machine_of, write_network
from tests.net.test_growing_live import act, has_left
from tests.net.test_new_lives import Site, payloads, publish
from tests.support.waiting import WAIT_S, eventually

pytestmark = pytest.mark.live


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_four_brokers_become_two_while_clients_stay(tmp_path: Path, scheme: str, overlay: str) -> None:
    async def scenario() -> None:
        site = Site(write_network(tmp_path, local_network(4, scheme=scheme, overlay=overlay)))
        await site.start("b1", "b2", "b3", "b4")
        away, follower = PlainClient("away"), PlainClient("follower")
        for client in (away, follower):
            await client.connect(site.port("b1"))
            await client.subscribe("t/#", 1)
        await away.disconnect()
        sent: list[bytes] = []

        async def tell(at: str) -> None:
            sent.append(b"%d" % len(sent))
            await publish(site, at, sent[-1])

        for turn, (goes, stays) in enumerate((("b1", "b2"), ("b4", "b3"))):
            await tell(goes)
            leaving = site.servers.pop(goes)
            await asyncio.to_thread(act, leaving, "/api/leave")
            if follower.closed or turn == 0:
                await follower.connect(site.port(stays))
                assert follower.session_present
            await tell(stays)
            await has_left(leaving)
            assert not site.folder(goes).exists()
            for server in site.servers.values():
                await eventually(lambda s=server, v=turn + 1: s.health()["network_version"] == v)
                await eventually(lambda s=server: not s.health()["links_down"], "links with those that stay")
                assert goes not in machine_of(server).outboxes.frames
            await tell("b3")
            # One restarts from its folder, and one begins anew: it is told who has left.
            await site.stop("b3")
            await site.start("b3")
            await site.drain("b2")
            await site.stop("b2")
            shutil.rmtree(site.folder("b2"))
            await site.start("b2")
            await eventually(lambda v=turn + 1: site.servers["b2"].health()["network_version"] == v)
            await follower.connect(site.port("b2"))
            assert follower.session_present
            await tell("b2")
        await eventually(lambda: len(follower.received) >= len(sent), "what was published")
        await away.connect(site.port("b3"))
        assert away.session_present
        await eventually(lambda: len(away.received) >= len(sent), "what was stored")
        for client in (away, follower):
            await client.ping()
            assert payloads(client) == sent
            client.drop()
        await site.stop()

    asyncio.run(scenario())


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def test_a_broker_of_a_ring_leaves_by_the_command_and_the_file_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its neighbours reach each other the other way round; who starts it again is told that it is gone."""
    monkeypatch.setattr(asking, "TIMEOUT_S", WAIT_S)  # brokers on a busy machine answer late

    async def scenario(processes: BrokerProcesses) -> None:
        path = str(processes.path)
        west, east = PlainClient("west"), PlainClient("east")
        for client, broker in ((west, "b1"), (east, "b3")):
            await client.connect(processes.port(broker))
            await client.subscribe("t", 1)
        await eventually(lambda: not any(processes.health(f"b{n}")["links_down"] for n in range(1, 5)))
        left = await asyncio.to_thread(command, "leave", path, "--broker", "b2")
        assert left.exit_code == 0, left.output
        assert "says `gone = true` now" in left.output
        assert await asyncio.to_thread(processes.processes["b2"].wait, WAIT_S) == 0
        west.publish("t", b"from b1", 1)
        await eventually(lambda: payloads(east) == payloads(west) == [b"from b1"])

        assert [name for name, table in load_network(processes.path).brokers.items() if table.gone] == ["b2"]
        with pytest.raises(ConfigError, match="'b2' has left the network"):
            load_network(processes.path).server_options("b2")
        shown = await asyncio.to_thread(command, "status", path)
        assert shown.exit_code == 0 and "b2" not in shown.output, shown.output
        processes.kill("b4")
        await asyncio.to_thread(processes.start, "b4")
        east.publish("t", b"from b3", 1)
        await eventually(lambda: payloads(east) == payloads(west) == [b"from b1", b"from b3"])
        refused = await asyncio.to_thread(command, "leave", path, "--broker", "b4")
        assert refused.exit_code != 0
        assert "'b1' and 'b3' reach each other through 'b4' alone" in refused.output
        for client in (west, east):
            client.drop()

    with processes_of(tmp_path, GRAPHS["ring"], scheme="standard") as processes:
        processes.start()
        asyncio.run(scenario(processes))


LINE: Links = (("b1", "b2"), ("b2", "b3"))


@pytest.mark.parametrize(
    ("links", "more", "path", "why"),
    [
        (LINE, "", "/api/leave", "what 'b1' and 'b3' have for each other goes through 'b2': link 'b1' with"),
        (LINE, 'paths = "direct"', "/api/leave", "'b1' and 'b3' reach each other through 'b2' alone"),
        (LINE, 'scheme = "durable"', "/api/leave", "brokers cannot leave"),
        (LINE, 'overlay = "hierarchy"', "/api/forget/b3", "every broker keeps its place"),
        (LINE, "", "/api/forget/b2", "is asked itself"),
    ],
)
def test_what_others_need_does_not_leave_and_says_for_whom(
    tmp_path: Path, links: Links, more: str, path: str, why: str
) -> None:
    async def scenario() -> None:
        lines = local_network(3, scheme="standard").splitlines()
        field = more.partition(" = ")[0]
        kept = [line for line in lines if not field or not line.startswith(f"{field} = ")]
        kept[1:1] = [f"links = {to_toml([list(link) for link in links])}", more]
        site = Site(write_network(tmp_path, "\n".join(kept)))
        await site.start("b1", "b2", "b3")
        asked = site.servers["b2"]
        await eventually(lambda: not asked.health()["links_down"])
        known = asked.links.detours
        if "alone" in why:
            await eventually(known.apart_without_me, "word of who is linked with whom")
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(act, asked, path)
        assert why in json.load(refused.value)["error"]
        assert asked.health()["network_version"] == 0
        await site.stop()

    asyncio.run(scenario())
