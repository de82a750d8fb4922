"""How long events stand still when the connection between two brokers is cut, and until it is used again when mended.

    python -m tests.net.outages [--times 3] [--only closed]

`closed`: brokers of this process, whose connection ends and is refused from then on. `vanished`: brokers in network
namespaces of their own (Linux, root), joined by a wire for each link, whose packets vanish: nobody is told. One client
publishes 50 messages a second at QoS 1 at the first broker, another one receives them at the second; a cut ends the
command with an error if one of them is lost, comes twice or out of order.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from roamq.net.ops.keys import make_keys
from tests.net.live import PlainClient, python_path, write_network
from tests.net.wires import RING, wired
from tests.support.waiting import eventually, wait_until

EVERY_S = 0.02
TRIANGLE = (("b1", "b2"), ("b2", "b3"), ("b1", "b3"))
Links = Sequence[tuple[str, str]]


class Outage(NamedTuple):
    stood_still_s: float
    """From the cut to the first event that was published after it."""
    direct_again_s: float
    """From the mending to the first direct connection."""


class Site(NamedTuple):
    """Brokers that are running, and the connection of the first two."""

    port: Callable[[str], tuple[str, int]]
    cut: Callable[[], object]
    mend: Callable[[], object]
    is_direct: Callable[[], bool]


async def outage(site: Site, times: int) -> list[Outage]:
    reader, writer = PlainClient("reader"), PlainClient("writer")
    for client, broker in ((reader, "b2"), (writer, "b1")):
        host, port = site.port(broker)
        await client.connect(port, host=host)
    await reader.subscribe("t", 1)
    sent = itertools.count()
    last = 0

    async def publish() -> None:
        nonlocal last
        while True:
            last = next(sent)
            writer.publish("t", b"%d" % last, 1)
            await asyncio.sleep(EVERY_S)

    def numbers() -> list[int]:
        return [int(payload) for _, payload, *_ in reader.received]

    publishing = asyncio.ensure_future(publish())
    found = []
    for _ in range(times):
        await eventually(site.is_direct, "the direct connection")
        count = len(reader.received) + 100
        await eventually(lambda count=count: len(reader.received) >= count)
        await asyncio.to_thread(site.cut)
        began, before = time.monotonic(), last
        await eventually(lambda before=before: numbers()[-1] > before, "the first event by the detour")
        stood_still_s = time.monotonic() - began
        await asyncio.to_thread(site.mend)
        began = time.monotonic()
        await eventually(site.is_direct, "the direct connection")
        found.append(Outage(stood_still_s, time.monotonic() - began))
    publishing.cancel()
    await eventually(lambda: len(writer.acknowledged) == last + 1 and len(numbers()) >= last + 1)
    assert numbers() == list(range(last + 1)), "lost, doubled or out of order"
    for client in (reader, writer):
        client.drop()
    return found


@contextlib.asynccontextmanager
async def closed(folder: Path, links: Links, *, keys: bool) -> AsyncIterator[Site]:
    """Brokers of this process."""
    brokers = len({name for link in links for name in link})
    async with wired(folder, brokers, links=links, keys=keys, scheme="standard") as brokers_here:
        loop = asyncio.get_running_loop()

        def do(act: str) -> None:
            asyncio.run_coroutine_threadsafe(getattr(brokers_here, act)("b1", "b2"), loop).result()

        yield Site(
            lambda name: ("127.0.0.1", brokers_here.port(name)),
            lambda: do("cut"),
            lambda: do("mend"),
            lambda: brokers_here.through("b1", "b2") == brokers_here.through("b2", "b1") == (),
        )


def run(*words: str) -> None:
    subprocess.run(words, check=True)


class Hosts:
    """Network namespaces with a wire for each link: what another host is reached by, if at all."""

    def __init__(self, names: Sequence[str], links: Links) -> None:
        self.names = list(names)
        self.links = links
        self._spaces = {name: f"roamq-{os.getpid()}-{name}" for name in names}

    def address(self, name: str) -> str:
        return f"10.77.0.{self.names.index(name) + 1}"

    def door(self, name: str) -> str:
        """Where clients outside reach it."""
        return f"10.78.{self.names.index(name) + 1}.2"

    def inside(self, name: str, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self._spaces[name], *words]

    def __enter__(self) -> "Hosts":
        for number, (name, space) in enumerate(self._spaces.items(), 1):
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
            run("ip", "-n", space, "address", "add", f"{self.address(name)}/32", "dev", "lo")
            outside = f"rq{os.getpid()}{number}"
            run("ip", "link", "add", outside, "type", "veth", "peer", "name", "clients", "netns", space)
            run("ip", "address", "add", f"10.78.{number}.1/30", "dev", outside)
            run("ip", "link", "set", outside, "up")
            run("ip", "-n", space, "address", "add", f"{self.door(name)}/30", "dev", "clients")
            run("ip", "-n", space, "link", "set", "clients", "up")
        for a, b in self.links:
            ends = (f"to-{b}", "netns", self._spaces[a]), (f"to-{a}", "netns", self._spaces[b])
            run("ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1])
            self.mend(a, b)
        return self

    def __exit__(self, *_: object) -> None:
        for space in self._spaces.values():
            run("ip", "netns", "delete", space)  # and with it the ends of its wires

    def cut(self, a: str, b: str) -> None:
        run("ip", "-n", self._spaces[a], "link", "set", f"to-{b}", "down")

    def mend(self, a: str, b: str) -> None:
        for one, other in ((a, b), (b, a)):
            run("ip", "-n", self._spaces[one], "link", "set", f"to-{other}", "up")
            route = (f"{self.address(other)}/32", "dev", f"to-{other}", "src", self.address(one))
            run("ip", "-n", self._spaces[one], "route", "replace", *route)


@contextlib.asynccontextmanager
async def vanished(folder: Path, links: Links) -> AsyncIterator[Site]:
    """Brokers on hosts of their own, with keys."""
    names = sorted({name for link in links for name in link})
    with Hosts(names, links) as hosts, brokers_on(hosts, folder) as logs:

        def is_direct() -> bool:
            told = [line for line in logs["b1"].read_text().splitlines() if "link with b2 is" in line]
            return bool(told) and told[-1].endswith("link with b2 is up")

        yield Site(
            lambda name: (hosts.door(name), 1883),
            lambda: hosts.cut("b1", "b2"),
            lambda: hosts.mend("b1", "b2"),
            is_direct,
        )


@contextlib.contextmanager
def brokers_on(hosts: Hosts, folder: Path) -> Iterator[dict[str, Path]]:
    """A broker on each host; gives their logs."""
    text = f'[network]\nscheme = "standard"\nkeys = "keys"\nlinks = {[list(link) for link in hosts.links]}\n'
    text += '[storage]\nfolder = "data"\n[access]\nanonymous = "always"\n'
    for name in hosts.names:
        listener = '{ kind = "mqtt", host = "0.0.0.0", port = 1883 }'
        text += (
            f'[brokers.{name}]\nhost = "{hosts.address(name)}"\nlink_port = 7000\nlisteners = [{listener}]\n'
        )
    network = write_network(folder, text.replace("'", '"'))
    make_keys(network, folder / "keys")
    logs = {name: folder / f"{name}.log" for name in hosts.names}
    processes = []
    try:
        for name, log in logs.items():
            serve = [sys.executable, "-m", "roamq", "serve", str(folder / "network.toml"), "--broker", name]
            with log.open("wb") as out:
                environment = {**os.environ, "PYTHONPATH": python_path()}
                command = hosts.inside(name, *serve)
                processes.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
        neighbours = [(one, other) for a, b in hosts.links for one, other in ((a, b), (b, a))]
        for one, other in neighbours:
            wait_until(lambda one=one, other=other: f"link with {other} is up" in logs[one].read_text())
        yield logs
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


async def measure(kind: str, links: Links, times: int, *, keys: bool) -> list[Outage]:
    with tempfile.TemporaryDirectory() as name:
        site = vanished(Path(name), links) if kind == "vanished" else closed(Path(name), links, keys=keys)
        async with site as brokers:
            return await outage(brokers, times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=["closed", "vanished"])
    options = parser.parse_args()
    cases = [("closed", False), ("closed", True)] + ([("vanished", True)] if os.geteuid() == 0 else [])
    print(f"{'cut':<10}{'links':<8}{'carriers':>8}{'stood still':>24}{'direct again':>24}")  # noqa: T201
    for (kind, keys), links in itertools.product(cases, (TRIANGLE, RING)):
        if options.only not in (None, kind):
            continue
        found = asyncio.run(measure(kind, links, options.times, keys=keys))
        shown = [
            f"{statistics.median(one):.2f} s, at most {max(one):.2f} s" for one in zip(*found, strict=True)
        ]
        carriers = 1 if links is TRIANGLE else 2
        proof = "keys" if keys else "secret"
        print(f"{kind:<10}{proof:<8}{carriers:>8}{shown[0]:>24}{shown[1]:>24}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
