"""The brokers of a scenario as processes on loopback, with links that can be cut and processes that can be killed.

Every link between two brokers runs through a small relay of ours: to cut the link, the relay is closed.
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

    def __init__(self, target: int, port: int, delay_s: float = 0.0) -> None:
        self.target = target
        self.port = port
        self.delay_s = delay_s
        """Seconds that every byte is under way; without a relay, loopback takes no time."""
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
        if self._server is None:  # the link was cut meanwhile
            for end in (writer, far_writer):
                end.transport.abort()
            return
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        arriving = asyncio.create_task(self._arrive(under_way, writer)) if self.delay_s else None
        with suppress(OSError, asyncio.IncompleteReadError):
            while data := await reader.read(65536):
                if arriving is not None:
                    under_way.put_nowait((asyncio.get_running_loop().time() + self.delay_s, data))
                else:
                    writer.write(data)
                    await writer.drain()
        if arriving is not None:
            arriving.cancel()
        writer.transport.abort()

    async def _arrive(
        self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        """Passes bytes on in their order, each when it has been under way for long enough."""
        with suppress(OSError):
            while True:
                due, data = await under_way.get()
                await asyncio.sleep(due - asyncio.get_running_loop().time())
                writer.write(data)
                await writer.drain()


class BrokerProcesses:
    """Runs `roamq serve` once per broker of the topology."""

    def __init__(
        self,
        topology: Topology,
        folder: Path,
        *,
        scheme: str,
        options: Mapping[str, Any],
        durability: str,
        console_token: str | None = None,
        link_delay_s: float = 0.0,
    ) -> None:
        self.topology = topology
        self.folder = folder
        self.names = [str(broker) for broker in topology.brokers]
        text = local_network(
            len(topology.brokers),
            scheme=scheme,
            durability=durability,
            records=folder / "records",
            scheme_options=dict(options),
            console_token=console_token,
            names=self.names,
        )
        self._console_token = console_token
        links = [[str(a), str(b)] for a, b in topology.links]
        # The simulation routes along the links, too.
        self._text = text.replace("[network]\n", f'[network]\npaths = "links"\nlinks = {to_toml(links)}\n', 1)
        self.ports = {name: int(port) for name, port in self._all(r'kind = "mqtt", port = (\d+)').items()}
        self._link_ports = {name: int(port) for name, port in self._all(r"link_port = (\d+)").items()}
        ends = [(a, b) for a, b in links] + [(b, a) for a, b in links]
        taken = {int(port) for port in re.findall(r"port = (\d+)", self._text)}
        free = free_ports(len(ends), but=taken)
        self.relays = {
            (a, b): Relay(self._link_ports[b], port, link_delay_s)
            for (a, b), port in zip(ends, free, strict=True)
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def metrics_ports(self) -> dict[str, int]:
        """Broker -> the port at which it answers operators' programs."""
        return {name: int(port) for name, port in self._all(r"metrics_port = (\d+)").items()}

    @property
    def console_url(self) -> str:
        """Returns the address of the first broker's console, with the token that opens it."""
        port = next(iter(self.metrics_ports.values()))
        return f"http://127.0.0.1:{port}/console?token={self._console_token}"

    def _all(self, pattern: str) -> dict[str, str]:
        found = {}
        for section in self._text.split("[brokers.")[1:]:
            match = re.search(pattern, section)
            assert match is not None
            found[section.partition("]")[0].strip('"')] = match.group(1)
        return found

    def _config_of(self, name: str) -> Path:
        """Writes the network as one broker sees it: the link ports of its neighbours are those of our relays."""
        text = self._text
        for (a, b), relay in self.relays.items():
            if a == name:
                text = text.replace(f"link_port = {self._link_ports[b]}\n", f"link_port = {relay.port}\n")
        path = self.folder / name / "network.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    async def start(self) -> None:
        for relay in self.relays.values():
            await relay.up()
        for name in self.names:
            self._spawn(name)
        await asyncio.gather(*(self._listening(name) for name in self.names))

    def _spawn(self, name: str) -> None:
        command = serve_command(self._config_of(name), name)
        with (self.folder / name / "log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    async def _listening(self, name: str) -> None:
        deadline = asyncio.get_running_loop().time() + START_S_MAX
        while asyncio.get_running_loop().time() < deadline:
            if self.processes[name].poll() is not None:
                said = (self.folder / name / "log").read_text(errors="replace").strip().splitlines()[-1:]
                raise RoamqError(f"broker {name} ended as it started: {''.join(said)}")
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.ports[name])
                writer.close()
                return
            await asyncio.sleep(0.05)
        raise RoamqError(f"broker {name} does not listen after {START_S_MAX:.0f} s")

    def kill(self, broker: str) -> None:
        process = self.processes[broker]
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _end(process)

    async def restart(self, broker: str) -> None:
        self._spawn(broker)
        await self._listening(broker)

    async def cut(self, a: str, b: str) -> None:
        for pair in ((a, b), (b, a)):
            await self.relays[pair].down()

    async def mend(self, a: str, b: str) -> None:
        for pair in ((a, b), (b, a)):
            await self.relays[pair].up()

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
    """Waits until the process has ended, and closes its pipe."""
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
