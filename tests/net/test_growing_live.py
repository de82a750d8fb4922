"""A network of three brokers grows to four and back, live: nothing is lost, doubled or stranded."""

import asyncio
import json
import logging
import urllib.request
from pathlib import Path

import pytest

from roamq.core.events import ClientId
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import free_ports, local_network
from roamq.net.server import Server
from tests.net.live import PlainClient, machine_of, write_network
from tests.net.test_new_lives import Site, payloads, publish
from tests.support.waiting import eventually

pytestmark = pytest.mark.live


def with_edge(tmp_path: Path, text: str, at: list[str], calls: list[str] | None = None) -> Site:
    """The network with a fourth broker in its file, as `roamq join` writes it."""
    mqtt, metrics = free_ports(2, but=write_network(tmp_path, text).ports)
    table = (
        f"[brokers.b4]\nat = {json.dumps(at)}\ncalls = {json.dumps(calls or at)}\n"
        f"metrics_port = {metrics}\nlisteners = [{{ port = {mqtt} }}]\n"
    )
    return Site(write_network(tmp_path, text + table))


def act(server: Server, path: str) -> dict[str, object]:
    """What an operator's program asks of a broker."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.options.metrics_port}{path}", method="POST")
    request.add_header("Authorization", f"Bearer {server.options.token}")
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own port on loopback
        details: dict[str, object] = json.load(answer)["details"]
        return details


async def has_left(server: Server) -> None:
    await eventually(lambda: server._stopping.is_set(), "the end of a broker that leaves")
    await server.stop()


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_three_brokers_become_four_and_three_again(tmp_path: Path, scheme: str, overlay: str) -> None:
    async def scenario() -> None:
        site = with_edge(tmp_path, local_network(3, scheme=scheme, overlay=overlay), ["b1", "b2"])
        await site.start("b1", "b2", "b3")
        away, follower = PlainClient("away"), PlainClient("follower")
        for client, at in ((away, "b1"), (follower, "b3")):
            await client.connect(site.port(at))
            await client.subscribe("t/#", 1)
        await away.disconnect()
        sent: list[bytes] = []

        async def tell(at: str) -> None:
            sent.append(b"%d" % len(sent))
            await publish(site, at, sent[-1])

        for turn in range(2):
            await tell("b1")
            joined = await asyncio.to_thread(act, site.servers["b3"], "/api/join/b4?at=b1,b2")
            assert joined["at"] == ["b1", "b2"]
            await tell("b2")
            await site.start("b4")
            edge = site.servers["b4"]
            await eventually(lambda edge=edge: not machine_of(edge).admission.is_stranger)
            await tell("b4")
            await follower.connect(site.port("b4"))
            assert follower.session_present
            await away.connect(site.port("b4"))
            assert away.session_present
            await tell("b3")
            await eventually(lambda: len(away.received) >= len(sent), "what was stored")
            await away.disconnect()
            await tell("b4")
            if turn:
                # The broker restarts from its folder, and so does one that it is linked with.
                await site.stop("b4", "b1")
                await site.start("b1", "b4")
                await follower.connect(site.port("b4"))
                await tell("b1")
                await tell("b4")
            versions = {server.health()["network_version"] for server in site.servers.values()}
            assert versions == {2 * turn + 1}
            edge = site.servers.pop("b4")
            await asyncio.to_thread(act, edge, "/api/leave")
            await tell("b2")
            await has_left(edge)
            assert not site.folder("b4").exists()
            await tell("b1")
            await follower.connect(site.port("b2"))
            assert follower.session_present
        await eventually(lambda: len(follower.received) >= len(sent), "what was published")
        await away.connect(site.port("b2"))
        assert away.session_present
        await eventually(lambda: len(away.received) >= len(sent), "what was stored")
        for client in (away, follower):
            await client.ping()
            assert sorted(set(payloads(client)), key=int) == sent
            assert [payload for _, payload, *_ in client.received].count(sent[-1]) == 1
            client.drop()
        for server in site.servers.values():
            await eventually(lambda server=server: server.status().stored_events == 0, "an empty store")
            assert "b4" not in machine_of(server).outboxes.frames
        await site.stop()

    asyncio.run(scenario())


def test_clients_of_a_broker_that_is_forgotten_begin_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = with_edge(tmp_path, local_network(3, scheme="standard"), ["b1"])
        await site.start("b1", "b2", "b3")
        await asyncio.to_thread(act, site.servers["b1"], "/api/join/b4?at=b1")
        await site.start("b4")
        await eventually(lambda: not machine_of(site.servers["b4"]).admission.is_stranger)
        client = PlainClient("car")
        await client.connect(site.port("b4"))
        await client.subscribe("t/#", 1)
        directory = machine_of(site.servers["b2"]).directory
        await eventually(lambda: directory.get(ClientId("car")) is not None)
        await site.stop("b4")
        lost = await asyncio.to_thread(act, site.servers["b2"], "/api/forget/b4")
        assert lost["clients"] == ["car"]
        await client.connect(site.port("b3"))
        assert not client.session_present
        await client.subscribe("t/#", 1)
        await publish(site, "b1", b"news")
        await eventually(lambda: payloads(client) == [b"news"])
        for server in site.servers.values():
            await eventually(lambda server=server: server.health()["network_version"] == 2)
            assert server.health()["links_down"] == []
        client.drop()
        await site.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/api/join/b2?at=b1", "first configuration"),
        ("/api/join/b4?at=b9", "no broker of the network"),
        ("/api/join/b4", "name a broker"),
        ("/api/forget/b1", "is asked itself"),
        ("/api/forget/b4", "no broker of the network"),
        ("/api/forget/b2", "'b2' is linked with this broker now, so it is not dead"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(tmp_path: Path, path: str, why: str) -> None:
    async def scenario() -> None:
        site = Site(write_network(tmp_path, local_network(2)))
        await site.start("b1", "b2")
        await eventually(lambda: not site.servers["b1"].health()["links_down"])
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(act, site.servers["b1"], path)
        assert why in json.load(refused.value)["error"]
        assert site.servers["b1"].health()["network_version"] == 0
        await site.stop()

    asyncio.run(scenario())


def test_a_file_that_links_a_broker_with_one_that_joined_later_is_refused(tmp_path: Path) -> None:
    text = local_network(2) + '[brokers.b3]\nat = ["b1"]\n[brokers.b4]\nat = ["b3"]\n'
    path = tmp_path / "network.toml"
    path.write_text(text)
    with pytest.raises(Exception, match=r"brokers.b4.at: 'b3' is no broker without `at`"):
        load_network(path)


def test_nobody_is_alarmed_by_a_broker_that_calls_two_and_leaves_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its link with the third is carried for ever, and its neighbours close theirs when it has left."""

    async def scenario() -> None:
        core = ["b1", "b2", "b3"]
        site = with_edge(tmp_path, local_network(3), core, calls=["b1", "b2"])
        await site.start(*core)
        await eventually(lambda: all(not server.health()["links_down"] for server in site.servers.values()))
        caplog.clear()
        await asyncio.to_thread(act, site.servers["b1"], "/api/join/b4?at=b1,b2,b3")
        await site.start("b4")
        edge = site.servers.pop("b4")
        await eventually(lambda: "b4" in site.servers["b3"].links.through, "a link that others carry")
        for server in (edge, *site.servers.values()):
            assert "links_detoured" not in server.health()
        await asyncio.to_thread(act, edge, "/api/leave")
        await has_left(edge)
        said = [
            r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING and "b4" in r.getMessage()
        ]
        assert [text for text in said if "through" in text or "refused" in text] == []
        await site.stop()

    asyncio.run(scenario())
