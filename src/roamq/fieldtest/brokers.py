"""The brokers of a scenario as processes on loopback, with links that can be cut and processes that can be killed.

Every link between two brokers runs through a small relay of ours, so that cutting it is closing the relay.
"""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from roamq.config import to_toml
from roamq.core.errors import RoamqError
from roamq.net.ops.local import free_ports, local_network, serve_command
from roamq.overlay.topology import Topology

START_S_MAX = 60.0


class Relay:
    """Passes bytes between two brokers while it is up."""

    def __init__(self, target: int, port: int) -> None:
        self.target = target
        self.port = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[Any]] = set()

    async def up(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def down(self) -> None:
        """Cut the link: bytes under way are lost, and no new connection is accepted."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        self._writers.clear()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing = asyncio.current_task()
        assert passing is not None
        self._passing.add(passing)
        passing.add_done_callback(self._passing.discard)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        if self._server is None:  # cut meanwhile
            for end in (writer, far_writer):
                end.transport.abort()
            return
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class BrokerProcesses:
    """`roamq serve` once per broker of the topology."""

    def __init__(
        self,
        topology: Topology,
        folder: Path,
        *,
        scheme: str,
        options: Mapping[str, Any],
        durability: str,
        console_token: str | None = None,
    ) -> None:
        self.topology = topology
        self.folder = folder
        self.names = {f"b{number}": broker for number, broker in enumerate(topology.brokers, 1)}
        self.short = {broker: short for short, broker in self.names.items()}
        text = local_network(
            len(topology.brokers),
            scheme=scheme,
            durability=durability,
            records=folder / "records",
            scheme_options=dict(options),
            console_token=console_token,
        )
        self._console_token = console_token
        links = [[self.short[a], self.short[b]] for a, b in topology.links]
        # The simulation sends along the links, too.
        self._text = text.replace("[network]\n", f'[network]\npaths = "links"\nlinks = {to_toml(links)}\n', 1)
        self.ports = {short: int(port) for short, port in self._all(r'kind = "mqtt", port = (\d+)').items()}
        self._link_ports = {short: int(port) for short, port in self._all(r"link_port = (\d+)").items()}
        ends = [(a, b) for a, b in links] + [(b, a) for a, b in links]
        taken = {int(port) for port in re.findall(r"port = (\d+)", self._text)}
        free = free_ports(len(ends), but=taken)
        self.relays = {
            (a, b): Relay(self._link_ports[b], port) for (a, b), port in zip(ends, free, strict=True)
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def console_url(self) -> str:
        """Where the first broker's console is, with the token that opens it."""
        port = next(iter(self._all(r"metrics_port = (\d+)").values()))
        return f"http://127.0.0.1:{port}/console?token={self._console_token}"

    def _all(self, pattern: str) -> dict[str, str]:
        found = {}
        for section in self._text.split("[brokers.")[1:]:
            match = re.search(pattern, section)
            assert match is not None
            found[section.partition("]")[0]] = match.group(1)
        return found

    def _config_of(self, short: str) -> Path:
        """The same network as seen by one broker: its neighbours' link ports are our relays'."""
        text = self._text
        for (a, b), relay in self.relays.items():
            if a == short:
                text = text.replace(f"link_port = {self._link_ports[b]}\n", f"link_port = {relay.port}\n")
        path = self.folder / short / "network.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    async def start(self) -> None:
        for relay in self.relays.values():
            await relay.up()
        for short in self.names:
            self._spawn(short)
        await asyncio.gather(*(self._listening(short) for short in self.names))

    def _spawn(self, short: str) -> None:
        command = serve_command(self._config_of(short), short)
        with (self.folder / short / "log").open("ab") as log:
            self.processes[short] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    async def _listening(self, short: str) -> None:
        deadline = asyncio.get_running_loop().time() + START_S_MAX
        while asyncio.get_running_loop().time() < deadline:
            if self.processes[short].poll() is not None:
                said = (self.folder / short / "log").read_text(errors="replace").strip().splitlines()[-1:]
                raise RoamqError(f"broker {short} ended as it started: {''.join(said)}")
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.ports[short])
                writer.close()
                return
            await asyncio.sleep(0.05)
        raise RoamqError(f"broker {short} does not listen after {START_S_MAX:.0f} s")

    def kill(self, broker: str) -> None:
        process = self.processes[self.short[broker]]  # type: ignore[index]
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _end(process)

    async def restart(self, broker: str) -> None:
        short = self.short[broker]  # type: ignore[index]
        self._spawn(short)
        await self._listening(short)

    async def cut(self, a: str, b: str) -> None:
        for pair in self._pair(a, b):
            await self.relays[pair].down()

    async def mend(self, a: str, b: str) -> None:
        for pair in self._pair(a, b):
            await self.relays[pair].up()

    def _pair(self, a: str, b: str) -> list[tuple[str, str]]:
        x, y = self.short[a], self.short[b]  # type: ignore[index]
        return [(x, y), (y, x)]

    async def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, 10)
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            _end(process)
        for relay in self.relays.values():
            await relay.down()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The process ends, or has ended."""
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
