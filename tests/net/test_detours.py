"""Links that others carry while the direct connection is down: over sockets."""

import asyncio
from pathlib import Path

import pytest

from tests.net.live import PlainClient
from tests.net.wires import RING, WiredBrokers, wired
from tests.support.waiting import eventually

pytestmark = pytest.mark.live


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
        async with wired(tmp_path, 3, keys=keys, scheme="standard") as site:
            reader, writer = await reader_and_writer(site, "b3", "b1", 2)
            sent = [b"%d" % number for number in range(30)]
            for payload in sent[:10]:
                writer.publish("t", payload, 2)
            await site.cut("b1", "b3")
            for payload in sent[10:20]:
                writer.publish("t", payload, 2)
            await site.until_through("b1", "b3", "b2")
            await eventually(lambda: payloads(reader) == sent[:20])
            assert site.servers["b2"].links.detours.carried == [("b1", "b3")]
            assert site.through("b1", "b2") == site.through("b2", "b3") == ()

            await site.mend("b1", "b3")
            await site.until_through("b1", "b3")
            for payload in sent[20:]:
                writer.publish("t", payload, 2)
            await eventually(lambda: payloads(reader) == sent)
            await eventually(lambda: not site.servers["b2"].links.detours.carried)

    asyncio.run(scenario())


@pytest.mark.parametrize("keys", [False, True], ids=["secret", "keys"])
def test_in_a_ring_two_brokers_carry_the_link_between_the_others(tmp_path: Path, keys: bool) -> None:
    async def scenario() -> None:
        async with wired(tmp_path, 4, links=RING, keys=keys, scheme="standard") as site:
            reader, writer = await reader_and_writer(site, "b2", "b1", 1)
            await site.cut("b1", "b2")
            writer.publish("t", b"around", 1)
            await site.until_through("b1", "b2", "b4", "b3")
            await eventually(lambda: payloads(reader) == [b"around"])

    asyncio.run(scenario())
