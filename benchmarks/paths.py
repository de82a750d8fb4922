"""What direct paths cost: bytes on the wires, and processor time for each delivery, against paths along the links.

    python -m benchmarks paths [--sizes 3 6 12] [--rounds 1]

Broker processes on a random graph with cycles (that of `benchmarks interest`), with links along which events are routed
(`paths = "links"`) or each linked with each and the others carrying (`paths = "direct"`), under flooding and under
routing by interest; all take turns in one run. At every broker one client publishes and one subscribes, at QoS 1: to
the site of the next broker, or to all. Every connection between two brokers runs through a relay that counts its bytes.

`wire bytes`: on all wires together for each publication; `busiest`: on the busiest wire. `us`: processor time of all
brokers together for each delivery. Both count what brokers say to each other besides, and acknowledgements.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.interest import graph
from roamq.config import to_toml
from roamq.fieldtest.brokers import Relay
from roamq.net.bench.brokers import Running
from roamq.net.device import Device
from roamq.net.ops.configuration import NetworkConfig, load_network
from roamq.net.ops.local import free_ports, local_network

PAYLOAD: Final = bytes(200)
PUBLICATIONS: Final = {"next site": 4000, "all": 1500}
WINDOW: Final = 20
SETTLE_S: Final = 120.0
VARIANTS: Final = tuple(itertools.product(("flooding", "interest"), ("links", "direct")))


class CountingRelay(Relay):
    """A wire between two brokers, and how many bytes have crossed it."""

    bytes = 0

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while data := await reader.read(65536):
                self.bytes += len(data)
                writer.write(data)
                await writer.drain()
        writer.close()


class Client(asyncio.Protocol):
    """One MQTT client on one connection."""

    def __init__(self, name: str) -> None:
        self.received = 0
        self.device = Device(name, self._take)
        self.transport: asyncio.Transport

    def _take(self, message: object) -> None:
        self.received += 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.transport.write(self.device.connect())

    def data_received(self, data: bytes) -> None:
        if answer := self.device.hear(data):
            self.transport.write(answer)

    def publish(self, topic: str) -> None:
        self.transport.write(self.device.publish(topic, PAYLOAD, 1))


class Cost(NamedTuple):
    wire_bytes: float
    busiest_bytes: float
    cpu_us: float
    deliveries: int


@contextlib.asynccontextmanager
async def brokers(
    folder: Path, size: int, overlay: str, paths: str
) -> AsyncIterator[tuple[NetworkConfig, list[Running], list[CountingRelay]]]:
    """Processes with a relay on every connection: each has a file that says where its neighbours are."""
    _, links = graph(size)
    names = {f"b{number:02}": f"b{number + 1}" for number in range(size)}
    pairs = [[names[a], names[b]] for a, b in links]
    text = local_network(size, scheme="standard", overlay=overlay, durability="memory")
    network = f'[network]\npaths = "{paths}"\nlinks = {to_toml(pairs)}'
    path = folder / "network.toml"
    path.write_text(text.replace("[network]", network, 1))
    found = load_network(path)
    used = {table.link_port for table in found.brokers.values()}
    relays: list[CountingRelay] = []
    wires: dict[tuple[str, str], int] = {}
    for a, b in pairs:
        (port,) = free_ports(1, but=used | set(wires.values()))
        caller, called = sorted((a, b))
        wires[caller, called] = port
        relays.append(CountingRelay(found.brokers[called].link_port, port))
        (back,) = free_ports(1, but=used | set(wires.values()))
        wires[called, caller] = back
        relays.append(CountingRelay(found.brokers[caller].link_port, back))
    for relay in relays:
        await relay.up()
    started: list[Running] = []
    try:
        for name in found.brokers:
            mine = path.read_text()
            for (caller, called), port in wires.items():
                if caller == name:
                    real = found.brokers[called].link_port
                    mine = mine.replace(f"link_port = {real}\n", f"link_port = {port}\n")
            file = folder / f"{name}.toml"
            file.write_text(mine)
            command = [sys.executable, "-m", "roamq", "serve", str(file), "--broker", name]
            process = subprocess.Popen([*command, "--log-level", "ERROR"])
            started.append(Running(found.brokers[name].listeners[0].port, process))
        yield found, started, relays
    finally:
        for broker in started:
            broker.process.terminate()
        for broker in started:
            broker.process.wait()
        for relay in relays:
            await relay.down()


async def connected(found: NetworkConfig, name: str, client: str) -> Client:
    """A client that is let in; the broker may be starting still."""
    port = found.brokers[name].listeners[0].port
    made = Client(client)
    async with asyncio.timeout(SETTLE_S):
        while True:
            try:
                await asyncio.get_running_loop().create_connection(lambda: made, "127.0.0.1", port)
                break
            except OSError:
                await asyncio.sleep(0.2)
        while not made.device.is_open:
            await asyncio.sleep(0.02)
    return made


def _is_linked(found: NetworkConfig, name: str) -> bool:
    url = f"http://127.0.0.1:{found.brokers[name].metrics_port}/health"
    try:
        with urllib.request.urlopen(url, timeout=SETTLE_S) as answer:
            return not json.load(answer)["links_down"]
    except OSError:
        return False  # it is starting


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SETTLE_S):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.1)


async def cost(size: int, overlay: str, paths: str, wants: str) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        async with brokers(Path(folder), size, overlay, paths) as (found, running, relays):
            names = list(found.brokers)
            await _until(lambda: all(_is_linked(found, name) for name in names))
            readers = [await connected(found, name, f"reader {name}") for name in names]
            writers = [await connected(found, name, f"writer {name}") for name in names]
            for reader, after in zip(readers, [*names[1:], names[0]], strict=True):
                wanted = "site/#" if wants == "all" else f"site/{after}"
                reader.transport.write(reader.device.subscribe(wanted, 1))
            await _until(lambda: all(reader.device.is_subscribed for reader in readers))
            each = size if wants == "all" else 1
            await _flow(names, writers, readers, 5 * size, 5 * size * each)  # what is done once is done
            bytes_before = [relay.bytes for relay in relays]
            cpu_before = sum(broker.cpu_s() for broker in running)
            count = PUBLICATIONS[wants]
            expected = sum(reader.received for reader in readers) + count * each
            await _flow(names, writers, readers, count, expected)
            cpu_s = sum(broker.cpu_s() for broker in running) - cpu_before
            crossed = [relay.bytes - before for relay, before in zip(relays, bytes_before, strict=True)]
            for client in (*readers, *writers):
                client.transport.abort()
            wires = [there + back for there, back in zip(crossed[::2], crossed[1::2], strict=True)]
            deliveries = count * each
            return Cost(sum(wires) / count, max(wires) / count, cpu_s / deliveries * 1e6, deliveries)


async def _flow(
    names: list[str], writers: list[Client], readers: list[Client], count: int, expected: int
) -> None:
    """Publish so many, in turns, no faster than they are acknowledged, until all readers have all."""
    async with asyncio.timeout(SETTLE_S):
        for number in range(count):
            writer, name = writers[number % len(writers)], names[number % len(names)]
            while len(writer.device.unfinished) >= WINDOW:
                await asyncio.sleep(0.001)
            writer.publish(f"site/{name}")
            if number % len(writers) == 0:
                await asyncio.sleep(0)
        while sum(reader.received for reader in readers) < expected:
            await asyncio.sleep(0.01)


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks paths", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[3, 6, 12], help="numbers of brokers")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args(argv)
    results: dict[str, object] = {}
    print(
        "| brokers | wires | wants | overlay | paths | wire bytes | busiest | us | us of flooding on links |"
    )
    print("| ---: | ---: | --- | --- | --- | ---: | ---: | ---: | ---: |")
    for size, wants in itertools.product(options.sizes, PUBLICATIONS):
        found: dict[tuple[str, str], list[Cost]] = {variant: [] for variant in VARIANTS}
        for _ in range(options.rounds):
            for variant in VARIANTS:
                found[variant].append(asyncio.run(cost(size, *variant, wants)))
        base = statistics.median(one.cpu_us for one in found["flooding", "links"])
        for (overlay, paths), costs in found.items():
            wire, busiest, cpu_us = (
                statistics.median(column) for column in list(zip(*costs, strict=True))[:3]
            )
            print(
                f"| {size} | {len(graph(size)[1])} | {wants} | {overlay} | {paths} | {wire:,.0f} | {busiest:,.0f} "
                f"| {cpu_us:.0f} | {cpu_us / base:.2f} |",
                flush=True,
            )
            results[f"{size}/{wants}/{overlay}/{paths}"] = {"wire": wire, "busiest": busiest, "us": cpu_us}
    return results
