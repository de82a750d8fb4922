"""Links that others carry while the direct connection is down: over sockets."""

import asyncio
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.core.events import BrokerId
from roamq.net.links import detours
from roamq.net.links.detours import PIPE_BYTES, PipeEnd
from tests.net.detours import ride
from tests.net.live import PlainClient
from tests.net.wires import RING, WiredBrokers, wired
from tests.support.waiting import WAIT_S, eventually

pytestmark = pytest.mark.live

SOON = "detour_after_s = 0.1"
READ_BYTES_MAX = 256 * 1024
"""What an event loop reads at once."""


async def reader_and_writer(
    site: WiredBrokers, at: str, to: str, qos: int
) -> tuple[PlainClient, PlainClient]:
    reader, writer = PlainClient("reader"), PlainClient("writer")
    await reader.connect(site.port(at))
    await reader.subscribe("t", qos)
    await writer.connect(site.port(to))
    return reader, writer


def payloads(client: PlainClient) -> list[bytes]:
    return [payload for _, payload, *_ in client.received]


@pytest.mark.parametrize("keys", [False, True], ids=["secret", "keys"])
def test_a_third_broker_carries_a_link_that_is_cut_and_gives_it_back(tmp_path: Path, keys: bool) -> None:
    async def scenario() -> None:
        async with wired(tmp_path, 3, keys=keys, network=SOON, scheme="standard") as site:
            reader, writer = await reader_and_writer(site, "b3", "b1", 2)
            sent = [b"%d" % number for number in range(30)]
            for payload in sent[:10]:
                writer.publish("t", payload, 2)
            await site.cut("b1", "b3")
            for payload in sent[10:20]:
                writer.publish("t", payload, 2)
            await site.until_through("b1", "b3", "b2")
            await eventually(lambda: payloads(reader) == sent[:20])
            assert site.servers["b2"].links.carried == [("b1", "b3")]
            assert site.through("b1", "b2") == site.through("b2", "b3") == ()
            if not keys:
                await look(site, tmp_path)

            await site.mend("b1", "b3")
            await site.until_through("b1", "b3")
            for payload in sent[20:]:
                writer.publish("t", payload, 2)
            await eventually(lambda: payloads(reader) == sent)
            await eventually(lambda: not site.servers["b2"].links.carried)

    asyncio.run(scenario())


async def look(site: WiredBrokers, folder: Path) -> None:
    """What operators see of the link of b1 and b3 through b2."""
    b1, b2 = site.servers["b1"].health(), site.servers["b2"].health()
    assert (b1["links_down"], b1["links_through"]) == ([], {"b3": ["b2"]})
    assert "links_through" not in b2
    assert b2["links_carried"] == [("b1", "b3")]
    said = [f"{a}: warning: the link with {b} runs through b2" for a, b in (("b1", "b3"), ("b3", "b1"))]
    async with asyncio.timeout(WAIT_S):
        while True:  # alarms are looked at once a second
            shown = await asyncio.to_thread(CliRunner().invoke, cli, ["status", str(folder / "network.toml")])
            assert shown.exit_code == 0, shown.output
            if all(line in shown.output for line in said):
                break
    port = site.network.brokers["b1"].metrics_port
    with await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{port}/metrics") as answer:
        metrics = answer.read().decode()
    assert 'roamq_link_carriers{peer="b3"} 1.0' in metrics
    assert 'roamq_link_carriers{peer="b2"} 0.0' in metrics
    assert 'roamq_link_up{peer="b3"} 1.0' in metrics


@pytest.mark.parametrize("keys", [False, True], ids=["secret", "keys"])
def test_in_a_ring_two_brokers_carry_the_link_between_the_others(tmp_path: Path, keys: bool) -> None:
    async def scenario() -> None:
        async with wired(tmp_path, 4, links=RING, keys=keys, network=SOON, scheme="standard") as site:
            reader, writer = await reader_and_writer(site, "b2", "b1", 1)
            await site.cut("b1", "b2")
            writer.publish("t", b"around", 1)
            await site.until_through("b1", "b2", "b4", "b3")
            await eventually(lambda: payloads(reader) == [b"around"])

    asyncio.run(scenario())


def test_when_who_carries_a_link_stops_another_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with wired(tmp_path, 4, network=SOON, scheme="standard") as site:
            reader, writer = await reader_and_writer(site, "b2", "b1", 1)
            await site.cut("b1", "b2")
            await eventually(lambda: site.through("b1", "b2"))
            (carrier,) = site.through("b1", "b2") or ()
            (other,) = {"b3", "b4"} - {carrier}
            await site.stop(carrier)
            await site.until_through("b1", "b2", other)
            writer.publish("t", b"around", 1)
            await eventually(lambda: payloads(reader) == [b"around"])

    asyncio.run(scenario())


def test_nobody_is_asked_for_a_broker_that_is_down(tmp_path: Path) -> None:
    """Whoever could have carried the link has lost its own, and has said so."""

    async def scenario() -> None:
        async with wired(tmp_path, 3, network=SOON, scheme="standard") as site:
            links = site.servers["b1"].links
            await site.stop("b3")
            await eventually(lambda: "b3" not in links.up and links.detours.way(BrokerId("b3")) is None)
            assert site.through("b1", "b2") == ()
            await site.start("b3")
            await site.until_through("b1", "b3")

    asyncio.run(scenario())


def test_a_broker_that_carries_too_much_or_nothing_refuses_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(detours, "CARRIED_MAX", 0)
        caplog.set_level("INFO", "roamq.links")
        async with wired(tmp_path, 3, network=SOON, scheme="standard") as site:
            await site.cut("b1", "b3")
            await eventually(lambda: "no detour to b3 through b2: b2 carries 0 links" in caplog.text)
            assert site.through("b1", "b3") is None
            assert site.through("b1", "b2") == ()
            monkeypatch.setattr(detours, "CARRIED_MAX", 1)
            await site.until_through("b1", "b3", "b2")

    asyncio.run(scenario())


def test_without_detours_a_link_that_is_cut_is_down(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with wired(tmp_path, 3, network="detours = false", scheme="standard") as site:
            reader, writer = await reader_and_writer(site, "b3", "b1", 1)
            await site.cut("b1", "b3")
            await eventually(lambda: site.through("b1", "b3") is None)
            assert site.servers["b1"].links.detours.way(BrokerId("b3")) is None
            writer.publish("t", b"waits", 1)
            await eventually(lambda: writer.acknowledged == [b"waits"])
            await site.mend("b1", "b3")
            await eventually(lambda: payloads(reader) == [b"waits"])

    asyncio.run(scenario())


def test_who_carries_a_link_keeps_no_more_of_it_than_a_bound() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        near, far = PipeEnd(), PipeEnd()
        near.other, far.other = far, near
        reading, ended = asyncio.Event(), asyncio.Event()
        came = bytearray()

        async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reading.wait()
            while data := await reader.read(65536):
                came.extend(data)
            writer.close()
            await writer.wait_closed()
            ended.set()

        sink = await asyncio.start_server(taken, "127.0.0.1", 0, limit=1024)
        door = await loop.create_server(lambda: near, "127.0.0.1", 0)
        await loop.create_connection(lambda: far, *sink.sockets[0].getsockname())
        _, source = await asyncio.open_connection(*door.sockets[0].getsockname())
        sent = bytes(range(256)) * 4096 * 20
        source.write(sent)
        await eventually(lambda: not near.transport.is_reading(), "the end of reading")
        assert far.transport.get_write_buffer_size() <= PIPE_BYTES + READ_BYTES_MAX
        assert source.transport.get_write_buffer_size() > 0, "the rest is still with who sends it"
        reading.set()
        async with asyncio.timeout(WAIT_S):
            await source.drain()
            source.close()
            await source.wait_closed()
            await ended.wait()
        assert bytes(came) == sent
        sink.close()
        door.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("graph", "keys", "seed"), [("triangle", False, 1), ("ring", True, 2), ("mesh", False, 3)]
)
def test_nothing_is_lost_doubled_or_reordered_while_links_are_cut_and_clients_roam(
    tmp_path: Path, graph: str, keys: bool, seed: int
) -> None:
    happened = asyncio.run(ride(tmp_path, graph, seed, keys=keys, steps=12))

    assert happened.violations == [], happened
    assert happened.cuts and happened.moves and happened.delivered, happened
