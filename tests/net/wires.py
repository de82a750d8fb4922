"""Brokers in this process whose links run over wires that a test can cut and mend."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import msgspec

from roamq.config import to_toml
from roamq.core.events import BrokerId
from roamq.fieldtest.brokers import Relay
from roamq.net.ops.configuration import NetworkConfig
from roamq.net.ops.keys import make_keys
from roamq.net.ops.local import free_ports, local_network
from roamq.net.ops.options import ServerOptions
from roamq.net.server import Server
from tests.net.live import port_of, write_network
from tests.support.waiting import eventually

RING = (("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b1", "b4"))


class WiredBrokers:
    """A network of brokers b1, b2, ..., each of which finds its neighbours at the ends of wires."""

    def __init__(
        self,
        folder: Path,
        brokers: int,
        *,
        links: Iterable[tuple[str, str]] | None = None,
        keys: bool = False,
        network: str = "",
        **options: Any,
    ) -> None:
        """`links`: each with each unless given. `keys`: TLS between brokers. `network`: TOML for that table."""
        text = local_network(brokers, **options)
        lines = text.splitlines()
        if keys:
            lines = ['keys = "keys"' if line.startswith("secret = ") else line for line in lines]
        if links is not None:
            lines.insert(1, f"links = {to_toml([list(link) for link in links])}")
        self.network: NetworkConfig = write_network(
            folder, "\n".join([lines[0], *network.splitlines(), *lines[1:]])
        )
        if keys:
            make_keys(self.network, folder / "keys")
        self.servers: dict[str, Server] = {}
        self.wires: dict[tuple[str, str], Relay] = {}
        ends = [ends for a, b in self.network.links for ends in ((a, b), (b, a))]
        free = free_ports(len(ends), but=self.network.ports)
        for (caller, called), port in zip(ends, free, strict=True):
            self.wires[caller, called] = Relay(self.network.brokers[called].link_port, port)

    def options_of(self, name: str) -> ServerOptions:
        """The same network as one broker sees it: its neighbours are at the ends of its wires."""
        options = self.network.server_options(name)
        peers = {peer: ("127.0.0.1", self.wires[name, peer].port) for peer in options.links.peers}
        return msgspec.structs.replace(options, links=msgspec.structs.replace(options.links, peers=peers))

    async def start(self, *names: str) -> None:
        for wire in self.wires.values():
            await wire.up()
        for name in names or self.network.brokers:
            server = Server(self.options_of(name))
            await server.start()
            self.servers[name] = server
        for name in self.servers:
            peers = self.options_of(name).links.peers.keys() & self.servers.keys()
            await eventually(lambda name=name, peers=peers: self.servers[name].links.up.keys() >= peers)

    async def stop(self, *names: str) -> None:
        """Stop some brokers, or all: then the wires are cut before, so that no call is half made when the test ends."""
        if not names:
            for wire in self.wires.values():
                await wire.down()
        for name in names or list(self.servers):
            await self.servers.pop(name).stop()

    async def cut(self, a: str, b: str) -> None:
        for ends in ((a, b), (b, a)):
            await self.wires[ends].down()

    async def mend(self, a: str, b: str) -> None:
        for ends in ((a, b), (b, a)):
            await self.wires[ends].up()

    def port(self, name: str) -> int:
        return port_of(self.network, name)

    def through(self, a: str, b: str) -> tuple[str, ...] | None:
        """Who carries the link between two brokers, as the first sees it; None while it is down."""
        link = self.servers[a].links.up.get(BrokerId(b))
        return None if link is None else link.through

    async def until_through(self, a: str, b: str, *carriers: str) -> None:
        """Wait until both ends say so."""
        await eventually(
            lambda: self.through(a, b) == carriers and self.through(b, a) == carriers[::-1],
            f"the link of {a} with {b} through {carriers}, not {self.through(a, b)}",
        )


@contextlib.asynccontextmanager
async def wired(folder: Path, brokers: int, **options: Any) -> AsyncIterator[WiredBrokers]:
    site = WiredBrokers(folder, brokers, **options)
    try:
        await site.start()
        yield site
    finally:
        await site.stop()
