"""How long events stand still when the connection between two brokers is cut, and until it is used again when mended.

    python -m tests.net.outages [--times 3] [--only closed]

`closed`: brokers of this process, whose connection ends and is refused from then on. `vanished`: brokers on hosts of
their own (`tests/support/namespaces.py`; only root can), whose packets vanish: nobody is told. One client
publishes 50 messages a second at QoS 1 at the first broker, another one receives them at the second; a cut ends the
command with an error if one of them is lost, comes twice or out of order.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from roamq.config import to_toml
from roamq.net.ops.keys import make_keys
from tests.net.live import PlainClient, python_path, write_network
from tests.net.wires import RING, wired
from tests.support.namespaces import Hosts, why_there_can_be_none
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


@contextlib.contextmanager
def brokers_on(hosts: Hosts, names: Sequence[str], links: Links, folder: Path) -> Iterator[dict[str, Path]]:
    """A broker on each host; gives their logs."""
    text = (
        f'[network]\nscheme = "standard"\nkeys = "keys"\nlinks = {to_toml([list(link) for link in links])}\n'
    )
    text += '[storage]\nfolder = "data"\n[access]\nanonymous = "always"\n'
    for name in names:
        listener = '{ kind = "mqtt", host = "0.0.0.0", port = 1883 }'
        text += (
            f'[brokers.{name}]\nhost = "{hosts.address(name)}"\nlink_port = 7000\nlisteners = [{listener}]\n'
        )
    make_keys(write_network(folder, text), folder / "keys")
    logs = {name: folder / f"{name}.log" for name in names}
    environment = {**os.environ, "PYTHONPATH": python_path()}
    processes = []
    try:
        for name, log in logs.items():
            serve = [sys.executable, "-m", "roamq", "serve", str(folder / "network.toml"), "--broker", name]
            with log.open("wb") as out:
                processes.append(hosts.popen(name, serve, env=environment, stdout=out, stderr=out))
        for one, other in (ends for a, b in links for ends in ((a, b), (b, a))):
            wait_until(lambda one=one, other=other: f"link with {other} is up" in logs[one].read_text())
        yield logs
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def vanished(folder: Path, links: Links, times: int) -> list[Outage]:
    """Brokers on hosts of their own, with keys; the clients are on another one, which reaches them all."""
    names = sorted({name for link in links for name in link})
    with Hosts([*names, "devices"]) as hosts, brokers_on(hosts, names, links, folder) as logs:

        def is_direct() -> bool:
            told = [line for line in logs["b1"].read_text().splitlines() if "link with b2 is" in line]
            return bool(told) and told[-1].endswith("link with b2 is up")

        site = Site(
            lambda name: (hosts.address(name), 1883),
            lambda: hosts.part(["b1"], ["b2"]),
            hosts.heal,
            is_direct,
        )
        return hosts.on("devices", lambda: asyncio.run(outage(site, times)))


def measure(kind: str, links: Links, times: int, *, keys: bool) -> list[Outage]:
    async def in_this_process() -> list[Outage]:
        async with closed(Path(folder), links, keys=keys) as site:
            return await outage(site, times)

    with tempfile.TemporaryDirectory() as folder:
        return vanished(Path(folder), links, times) if kind == "vanished" else asyncio.run(in_this_process())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=["closed", "vanished"])
    options = parser.parse_args()
    cases = [("closed", False), ("closed", True)] + ([] if why_there_can_be_none() else [("vanished", True)])
    print(f"{'cut':<10}{'links':<8}{'carriers':>8}{'stood still':>24}{'direct again':>24}")  # noqa: T201
    for (kind, keys), links in itertools.product(cases, (TRIANGLE, RING)):
        if options.only not in (None, kind):
            continue
        found = measure(kind, links, options.times, keys=keys)
        shown = [
            f"{statistics.median(one):.2f} s, at most {max(one):.2f} s" for one in zip(*found, strict=True)
        ]
        carriers = 1 if links is TRIANGLE else 2
        proof = "keys" if keys else "secret"
        print(f"{kind:<10}{proof:<8}{carriers:>8}{shown[0]:>24}{shown[1]:>24}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
