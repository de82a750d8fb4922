"""Brokers in the middle that are down: what others have for each other goes around them, over sockets."""

import asyncio
from pathlib import Path

import pytest

from roamq.net.links import detours
from tests.net.around import GRAPHS, processes_of, ride
from tests.net.live import BrokerProcesses, PlainClient
from tests.net.test_detours import payloads, reader_and_writer
from tests.net.wires import wired
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

FIVE = (("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5"), ("b1", "b5"))


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
def test_a_broker_in_the_middle_is_killed_and_its_neighbours_hear_each_other(
    tmp_path: Path, overlay: str
) -> None:
    """Of a ring of four one is killed: the two beside it publish for each other, and it comes back to all of it."""

    async def scenario(processes: BrokerProcesses) -> None:
        west, east = PlainClient("west"), PlainClient("east")
        for client, broker in ((west, "b1"), (east, "b3")):
            await client.connect(processes.port(broker))
            await client.subscribe("t/#", 1)
        for middle in ("b2", "b4"):  # one of the two carries the link
            before = (len(west.received), len(east.received))
            processes.kill(middle)
            publish(west, east, before[0] // 2, 20)
            await both_have(west, east, 40 + before[0])
            await asyncio.to_thread(processes.start, middle)
            publish(west, east, before[0] // 2 + 20, 20)
            await both_have(west, east, 80 + before[0])
            await eventually(lambda: not processes.health("b1")["links_down"], "the links of b1")
        for client in (west, east):
            for writer in (b"west", b"east"):
                got = [p for p in payloads(client) if p.startswith(writer)]
                assert got == [b"%s %d" % (writer, n) for n in range(80)]
            client.drop()

    with processes_of(tmp_path, GRAPHS["ring"], scheme="standard", overlay=overlay) as processes:
        processes.start()
        asyncio.run(scenario(processes))


def publish(west: PlainClient, east: PlainClient, first: int, count: int) -> None:
    for number in range(first, first + count):
        for client in (west, east):
            client.publish(f"t/{client.name}", b"%s %d" % (client.name.encode(), number), 1)


async def both_have(west: PlainClient, east: PlainClient, count: int) -> None:
    await eventually(lambda: len(west.received) == len(east.received) == count, f"{count} messages each")


@pytest.mark.parametrize("keys", [False, True], ids=["secret", "keys"])
def test_the_shorter_way_is_taken_again_when_the_broker_on_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: bool
) -> None:
    monkeypatch.setattr(detours, "BETTER_AFTER_S", 0.2)

    async def scenario() -> None:
        async with wired(tmp_path, 5, links=FIVE, keys=keys, scheme="standard") as site:
            reader, writer = await reader_and_writer(site, "b3", "b1", 1)
            await site.until_through("b1", "b3", "b2")
            await site.stop("b2")
            await site.until_through("b1", "b3", "b5", "b4")
            writer.publish("t", b"around", 1)
            await eventually(lambda: payloads(reader) == [b"around"])
            assert "links_detoured" not in site.servers["b1"].health(), "they cannot call each other"
            await site.start("b2")
            await site.until_through("b1", "b3", "b2")
            writer.publish("t", b"shorter", 1)
            await eventually(lambda: payloads(reader) == [b"around", b"shorter"])

    asyncio.run(scenario())


@pytest.mark.parametrize(("graph", "seed"), [("ring", 0), ("ladder", 3)])
def test_nothing_is_lost_doubled_or_reordered_while_brokers_are_dead_and_clients_roam(
    tmp_path: Path, graph: str, seed: int
) -> None:
    happened = asyncio.run(ride(tmp_path, graph, seed, steps=6))

    assert happened.violations == [], happened
    assert happened.kills and happened.delivered, happened
