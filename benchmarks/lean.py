"""What connected clients cost: memory, the rate at which they come, and processor time while they are idle.

    python -m benchmarks lean [--clients 5000] [--rounds 1]

Clients of one process connect to a broker and subscribe to two filters each, a bounded number of them at once. Memory
is what the broker's process grew by (RSS), for each client; our broker writes no records, whose buffers have nothing to
do with the number of clients. Processor time for each client stands beside the rate, because other programs disturb it
less. Mosquitto and NATS take turns with us where they are installed.

The clients are a program as well: `clients` is what part of a core they used while they came. Where that is nearly all
of one, the rate is theirs and not the broker's, and the processor time of the brokers is what tells them apart.
"""

import argparse
import asyncio
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from roamq.net.bench.brokers import MOSQUITTO, NATS, BenchBroker, Running, UnavailableError, running
from roamq.net.bench.load import CONNACK, connect_packet, subscribe_packet
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import local_network

AT_ONCE: Final = 100
"""Clients that wait for an answer at the same time: fewer than any broker's backlog."""
IDLE_S: Final = 3.0
SPARE_FILES: Final = 200
"""Open files that the process needs beside its clients."""
SUBACKS: Final = 2 * len(b"\x90\x03\x00\x01\x00")
WARM: Final = 200
"""Clients that come and go before anything is measured: code is loaded, and tables have grown."""


def _roamq(folder: Path) -> tuple[list[str], int]:
    path = folder / "network.toml"
    path.write_text(local_network(1, durability="memory"))
    listener = load_network(path).brokers["b1"].listeners[0]
    command = [sys.executable, "-m", "roamq", "serve", str(path), "--broker", "b1"]
    return [*command, "--log-level", "WARNING"], listener.port


ROAMQ: Final = BenchBroker("roamq", _roamq)


class LeanResult(NamedTuple):
    """What one broker's clients cost, once."""

    broker: str
    bytes_each: float
    rate: float
    """Clients that connected and subscribed in a second."""
    cpu_us_each: float
    clients_busy: float
    """What part of a core the clients used meanwhile."""
    idle_cpu: float
    """What part of a core the broker used while nobody said anything."""


def rss_bytes(broker: Running) -> int:
    """Memory of the broker's process."""
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


class Clients:
    """Connections that have two subscriptions each."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def come(self, prefix: str, count: int) -> None:
        """So many clients connect and subscribe."""
        places = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._one(f"{prefix}-{number}", places) for number in range(count)))

    async def _one(self, name: str, places: asyncio.Semaphore) -> None:
        async with places:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writers.append(writer)
            writer.write(connect_packet(name))
            answer = await reader.readexactly(len(CONNACK))
            if answer != CONNACK:
                raise SystemExit(f"lean: client {name} was refused: {answer.hex()}")
            writer.write(
                subscribe_packet(f"clients/{name}/#", 0) + subscribe_packet(f"regions/{name[-1]}/+/news", 0)
            )
            await reader.readexactly(SUBACKS)

    async def go(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.close()
        for writer in writers:
            with suppress(OSError):
                await writer.wait_closed()


async def measured(candidate: BenchBroker, broker: Running, clients: int) -> LeanResult:
    """Measure one broker."""
    guests = Clients(broker.port)
    await guests.come("warm", WARM)
    await guests.go()
    memory, cpu_s, began = rss_bytes(broker), broker.cpu_s(), time.perf_counter()
    clients_cpu_s = time.process_time()
    await guests.come("client", clients)
    took_s = time.perf_counter() - began
    busy = (time.process_time() - clients_cpu_s) / took_s
    cpu_each = (broker.cpu_s() - cpu_s) / clients
    bytes_each = (rss_bytes(broker) - memory) / clients
    cpu_s, began = broker.cpu_s(), time.perf_counter()
    await asyncio.sleep(IDLE_S)
    idle = (broker.cpu_s() - cpu_s) / (time.perf_counter() - began)
    await guests.go()
    return LeanResult(candidate.name, bytes_each, clients / took_s, cpu_each * 1e6, busy, idle)


def allow_files(count: int) -> None:
    """Let this process, and those that it starts, have so many open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SystemExit(f"lean: {count} open files are needed, and {hard} allowed; ask for fewer --clients")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def compare(candidates: Sequence[BenchBroker], clients: int, rounds: int) -> list[LeanResult]:
    """Every broker, a new process in each round; medians. One that is not installed is named and left out."""
    found: dict[str, list[LeanResult]] = {}
    for _ in range(rounds):
        for candidate in candidates:
            with tempfile.TemporaryDirectory(prefix="roamq-lean-") as folder:
                try:
                    with running(candidate, Path(folder)) as broker:
                        result = asyncio.run(measured(candidate, broker, clients))
                except UnavailableError as error:
                    print(f"left out: {error}", flush=True)
                    candidates = [one for one in candidates if one is not candidate]
                    continue
            found.setdefault(candidate.name, []).append(result)
    return [
        LeanResult(name, *(statistics.median(column) for column in list(zip(*results, strict=True))[1:]))
        for name, results in found.items()
    ]


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks lean")
    parser.add_argument("--clients", type=int, default=5000, help="default: 5000")
    parser.add_argument("--rounds", type=int, default=1, help="default: 1")
    options = parser.parse_args(argv)
    if not sys.platform.startswith("linux"):
        print("left out: memory of another process is read from /proc, which only Linux has")
        return {}
    allow_files(options.clients + WARM + SPARE_FILES)
    print(f"{options.clients:,} clients, two subscriptions each")
    results: dict[str, object] = {}
    found = compare((ROAMQ, MOSQUITTO, NATS), options.clients, options.rounds)
    for result in found:
        results[result.broker] = result._asdict()
        print(
            f"{result.broker:<16} {result.bytes_each / 1024:6.1f} KiB/client  {result.rate:7,.0f} clients/s  "
            f"{result.cpu_us_each:7,.0f} us/client  clients {result.clients_busy:4.0%}  idle {result.idle_cpu:6.2%} of "
            "a core",
            flush=True,
        )
    ours = next((result for result in found if result.broker == ROAMQ.name), None)
    for other in found if ours is not None else ():
        if other is not ours and ours is not None:
            results[f"beside {other.broker}"] = {
                "rate": ours.rate / other.rate,
                "processor time": ours.cpu_us_each / other.cpu_us_each,
            }
            print(
                f"roamq: {ours.rate / other.rate:.2f} of the rate of {other.broker}, and "
                f"{ours.cpu_us_each / other.cpu_us_each:.1f} times its processor time for a client"
            )
    return results
