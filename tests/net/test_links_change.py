"""Links of the core that are added and removed while brokers run, where paths are direct: over sockets."""

import asyncio
import itertools
from collections.abc import Awaitable
from functools import partial
from pathlib import Path

import pytest

from roamq.config import to_toml
from roamq.net.server import Server
from tests.net.live import write_network
from tests.net.test_detours import payloads, reader_and_writer
from tests.net.wires import RING, WiredBrokers
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

DIRECT = 'paths = "direct"\ndetour_after_s = 0.1'


class Rewired(WiredBrokers):
    """Brokers whose file an operator edits; there is a wire for every link that it may name."""

    def __init__(self, folder: Path, *, keys: bool = False, network: str = DIRECT) -> None:
        mesh = tuple(itertools.combinations(("b1", "b2", "b3", "b4"), 2))
        super().__init__(folder, 4, links=mesh, keys=keys, network=network, scheme="standard")
        self.folder = folder
        self.file = folder / "network.toml"
        self.set_links(*RING)

    def set_links(self, *links: tuple[str, str]) -> None:
        lines = self.file.read_text().splitlines()
        place = next(at for at, line in enumerate(lines) if line.startswith("links = "))
        lines[place] = f"links = {to_toml([list(link) for link in links])}"
        self.network = write_network(self.folder, "\n".join(lines))

    async def start(self, *names: str) -> None:
        for wire in self.wires.values():
            await wire.up()
        for name in names or self.network.brokers:
            self.servers[name] = Server(self.options_of(name), partial(self.options_of, name))
            await self.servers[name].start()

    def reload(self, *names: str) -> list[bool]:
        return [self.servers[name].reload()["links_changed"] for name in names]


@pytest.mark.parametrize("keys", [False, True], ids=["secret", "keys"])
def test_a_link_is_added_and_another_removed_while_messages_flow(tmp_path: Path, keys: bool) -> None:
    async def scenario(site: Rewired) -> None:
        await site.start()
        reader, writer = await reader_and_writer(site, "b3", "b1", 2)
        await eventually(lambda: len(site.through("b1", "b3") or ()) == 1, "the link of b1 with b3")
        sent = itertools.count()

        async def publish_until(condition: Awaitable[None]) -> None:
            writer.publish("t", b"%d" % next(sent), 2)
            await condition
            for _ in range(5):
                writer.publish("t", b"%d" % next(sent), 2)

        site.set_links(*RING, ("b1", "b3"))
        assert site.reload("b1", "b3", "b2", "b4") == [True, True, False, False]
        await publish_until(site.until_through("b1", "b3"))
        site.set_links(("b1", "b3"), *(link for link in RING if link != ("b1", "b2")))
        assert site.reload("b2", "b1") == [True, True]
        await publish_until(site.until_through("b1", "b2", "b3"))
        assert "links_detoured" not in site.servers["b1"].health(), "they cannot call each other"
        site.set_links(*RING)
        assert site.reload("b1", "b3", "b2") == [True, True, True]
        await publish_until(site.until_through("b1", "b2"))
        await publish_until(eventually(lambda: len(site.through("b1", "b3") or ()) == 1))
        count = next(sent)
        await eventually(lambda: payloads(reader) == [b"%d" % number for number in range(count)])

    async def run() -> None:
        site = Rewired(tmp_path, keys=keys)
        try:
            await scenario(site)
        finally:
            await site.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("network", "links", "message"),
    [
        (DIRECT.replace("direct", "links"), (*RING, ("b1", "b3")), "events are routed from link to link"),
        ("detour_after_s = 0.1", RING[:3], "paths are direct, and with these links they would not be"),
        (DIRECT, RING[:2], "leaves 'b4' unconnected"),
    ],
)
def test_links_that_cannot_be_changed_are_refused_by_name_and_nothing_happens(
    tmp_path: Path, network: str, links: tuple[tuple[str, str], ...], message: str
) -> None:
    async def run() -> None:
        site = Rewired(tmp_path, network=network)
        try:
            await site.start("b1")
            before = site.servers["b1"].links.options
            with pytest.raises(Exception, match=message):
                site.set_links(*links)
                site.reload("b1")
            assert site.servers["b1"].links.options == before
        finally:
            await site.stop()

    asyncio.run(run())
