"""Live brokers behind a round-robin: each connection lands at the next of them; their links have a delay.

The brokers run in a thread of their own, so that clients may block, as those of other libraries do. `TurnedLine` is a
client that a test holds packet by packet.
"""

import asyncio
import contextlib
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import cycle
from pathlib import Path

import pytest
from msgspec.structs import replace

from roamq.net.clients import admission
from roamq.net.clients.mqtt.codec import Connect, Packet, Pingreq, Pingresp, Properties, Version, Will
from roamq.net.ops.local import local_network
from roamq.net.server import Server
from tests.net.live import machine_of, port_of, write_network
from tests.net.network import Line
from tests.support.waiting import WAIT_S, eventually


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            if delay:
                loop.call_later(delay, writer.write, data)
            else:
                writer.write(data)
    loop.call_later(delay, writer.close)  # after all that was read


@contextlib.asynccontextmanager
async def forwarder(ports: Iterable[int], delay: float = 0.0) -> AsyncIterator[int]:
    """A port whose n-th connection goes to the n-th of `ports`, again and again; bytes take `delay` seconds."""
    turns, tasks, writers = cycle(ports), list[asyncio.Task[None]](), list[asyncio.StreamWriter]()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, to = await asyncio.open_connection("127.0.0.1", next(turns))
        except OSError:
            writer.close()
            return
        writers.extend((writer, to))
        for one in (pump(reader, to, delay), pump(there, writer, delay)):
            tasks.append(asyncio.get_running_loop().create_task(one))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def round_robin(
    folder: Path,
    brokers: int,
    scheme: str,
    delay: float,
    kind: str = "mqtt",
    overlay: str = "interest",
) -> AsyncIterator[tuple[int, list[Server]]]:
    """The port in front of brokers whose links have a delay, and the brokers."""
    text = local_network(brokers, scheme=scheme, durability="memory", overlay=overlay)
    if overlay == "hierarchy":  # it needs a tree: here the first broker is the root of the others
        tree = [["b1", f"b{number}"] for number in range(2, brokers + 1)]
        text = text.replace("[network]", f"[network]\nlinks = {tree}")
    network = write_network(folder, text)
    servers: list[Server] = []
    async with contextlib.AsyncExitStack() as stack:
        links = {
            name: await stack.enter_async_context(forwarder([entry.link_port], delay))
            for name, entry in network.brokers.items()
        }
        for name in network.brokers:
            options = network.server_options(name)
            peers = {peer: ("127.0.0.1", links[peer]) for peer in options.links.peers}
            server = Server(replace(options, links=replace(options.links, peers=peers)))
            await server.start()
            stack.push_async_callback(server.stop)
            servers.append(server)
        for server in servers:
            wanted = server.options.links.peers.keys()
            await eventually(lambda server=server, wanted=wanted: server.links.up.keys() >= wanted)
        ports = [port_of(network, name, kind) for name in network.brokers]
        yield await stack.enter_async_context(forwarder(ports)), servers


class Turns:
    """`round_robin` in a thread. A broker that is slow because the machine is busy does not count as out of reach."""

    def __init__(
        self,
        folder: Path,
        brokers: int = 3,
        scheme: str = "proactive",
        delay: float = 0.0,
        kind: str = "mqtt",
        overlay: str = "interest",
    ) -> None:
        self.port = 0
        self._servers: list[Server] = []
        self._network = round_robin(folder, brokers, scheme, delay, kind, overlay)
        self._patience = pytest.MonkeyPatch()
        self._stop, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "Turns":
        self._patience.setattr(admission, "SEARCH_S_MAX", WAIT_S)
        self._thread.start()
        assert self._ready.wait(WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        self._patience.undo()
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        async with self._network as (self.port, self._servers):
            self._ready.set()
            await asyncio.to_thread(self._stop.wait)

    @property
    def is_quiet(self) -> bool:
        """Whether each broker has heard all that the others had to say."""
        outboxes = [machine_of(server).outboxes for server in self._servers]
        return not any(frames for one in outboxes for frames in one.frames.values())

    @property
    def failures(self) -> list[str]:
        return [f"{server.shell.counts}" for server in self._servers if server.shell.counts.get("failed")]

    def connect(self, client: str, **how: object) -> "TurnedLine":
        return TurnedLine.open(self.port, client, **how)  # type: ignore[arg-type]


class TurnedLine(Line):
    """A connection over a socket that is read when the test looks."""

    def __init__(self, port: int, version: Version) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        super().__init__("?", version, self._send_all, self.socket.close)

    @classmethod
    def open(
        cls,
        port: int,
        client: str,
        *,
        clean: bool = False,
        expiry: int | None = 1000,
        will: Will | None = None,
        version: Version = Version.V5,
        answers: bool = True,
        keep_alive: int = 0,
        properties: Properties | None = None,
        wait: float | None = WAIT_S,
    ) -> "TurnedLine":
        """Connect, and wait for CONNACK unless `wait` is None."""
        line = cls(port, version)
        line.answers = answers
        said = properties or Properties()
        if version is Version.V5:
            said = replace(said, session_expiry_interval=expiry)
        line.send(
            Connect(
                version=version,
                client_id=client,
                clean_start=clean,
                keep_alive=keep_alive,
                will=will,
                properties=said,
            )
        )
        if wait is not None:
            line.wait(lambda: line.connack is not None or line.is_closed, "CONNACK")
        return line

    def _send_all(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            self.is_closed = True
            self.socket.close()

    def send_raw(self, data: bytes) -> None:
        self._send_all(data)

    def look(self, wait_s: float = 0.0) -> bool:
        """Read what has come; False if nothing came in `wait_s`."""
        if self.is_closed or not select.select([self.socket], [], [], wait_s)[0]:
            return False
        try:
            data = self.socket.recv(65536)
        except OSError:
            data = b""
        if data:
            self.hear(data)
        else:
            self.is_closed = True
            self.socket.close()
        return True

    def wait(self, condition: Callable[[], object], what: str = "it") -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come: {self.packets}"
            assert not self.is_closed, f"closed before {what} came: {self.packets}"
            self.look(0.05)

    def wait_for(self, kind: type[Packet], count: int = 1) -> Packet:
        """The `count`-th packet of a kind."""
        found: list[Packet] = []

        def has_come() -> bool:
            found[:] = [packet for packet in self.packets if isinstance(packet, kind)]
            return len(found) >= count

        self.wait(has_come, f"{kind} number {count}")
        return found[count - 1]

    def ping(self) -> None:
        """All that the broker had sent before is here now, unless the connection is closed."""
        if self.is_closed:
            return
        before = sum(isinstance(packet, Pingresp) for packet in self.packets)
        self.send(Pingreq())
        deadline = time.monotonic() + WAIT_S
        while not self.is_closed and sum(isinstance(p, Pingresp) for p in self.packets) <= before:
            assert time.monotonic() < deadline, "no PINGRESP"
            self.look(0.05)


def come_to_rest(turns: Turns, lines: Iterable[TurnedLine]) -> None:
    """Wait until nothing is under way: between the brokers, and between them and the clients."""
    lines = list(lines)
    seen = -1
    deadline = time.monotonic() + WAIT_S
    while True:
        for line in lines:
            line.ping()
        heard = sum(not isinstance(packet, Pingresp) for line in lines for packet in line.packets)
        if turns.is_quiet and heard == seen:
            return
        seen = heard if turns.is_quiet else -1
        assert time.monotonic() < deadline, "the network does not come to rest"
        time.sleep(0.005)
