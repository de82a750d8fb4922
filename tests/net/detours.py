"""Rides of live brokers whose links are cut and mended while clients roam: what was acknowledged comes once, in order.

At every moment the wires that are whole connect all brokers, and nothing waits for a wire to be mended: what goes
between two brokers whose wire is cut goes around. `python -m tests.net.detours --rides 50` rides more often.
"""

import argparse
import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.net.live import PlainClient
from tests.net.wires import RING, WiredBrokers, wired
from tests.support.waiting import POLL_S, eventually

WINDOW = 10
"""Messages of a publisher that are not acknowledged yet."""
SCHEMES = ("standard", "proactive")
GRAPHS: dict[str, Sequence[tuple[str, str]]] = {
    "triangle": tuple(itertools.combinations(("b1", "b2", "b3"), 2)),
    "ring": RING,
    "mesh": tuple(itertools.combinations(("b1", "b2", "b3", "b4"), 2)),
}


@dataclass
class Ride:
    """What happened."""

    name: str
    published: int = 0
    delivered: int = 0
    moves: int = 0
    cuts: int = 0
    detours: int = 0
    """Cut wires whose link ran through others before they were mended."""
    violations: list[str] = field(default_factory=list)


class Rider:
    """Cuts, mends and moves by a seed."""

    def __init__(self, site: WiredBrokers, seed: int, ride: Ride) -> None:
        self.site = site
        self.random = random.Random(seed)
        self.ride = ride
        self.names = list(site.network.brokers)
        self.whole = {tuple(sorted(link)) for link in site.network.links}
        self.cut: set[tuple[str, ...]] = set()
        self.readers = [PlainClient(f"reader-{qos}-{number}") for qos in (1, 2) for number in range(2)]
        self.writers = [PlainClient(f"writer-{qos}-{number}") for qos in (1, 2) for number in range(2)]
        self.stopping = False

    async def ride_on(self, steps: int) -> None:
        for reader in self.readers:
            await reader.connect(self.port())
            await reader.subscribe(*wanted_by(reader))
        for number, writer in enumerate(self.writers):
            await writer.connect(self.site.port(self.names[number % len(self.names)]))
        writing = [asyncio.ensure_future(self.write(writer)) for writer in self.writers]
        for _ in range(steps):
            await self.step()
        self.stopping = True
        await asyncio.gather(*writing)
        await self.check()

    def port(self) -> int:
        return self.site.port(self.random.choice(self.names))

    async def write(self, writer: PlainClient) -> None:
        qos, number = qos_of(writer), 0
        while not self.stopping or writer.unacknowledged:
            while not self.stopping and len(writer.unacknowledged) < WINDOW:
                writer.publish(topic_of(writer), b"%s %d" % (writer.name.encode(), number), qos)
                number += 1
            await asyncio.sleep(POLL_S)
        self.ride.published += len(writer.acknowledged)

    async def step(self) -> None:
        kind = self.random.choice(["cut", "cut", "mend", "move", "move", "move", "wait"])
        spare = [link for link in sorted(self.whole) if self.is_connected(self.whole - {link})]
        if kind == "cut" and spare:
            await self.cut_one(self.random.choice(spare))
        elif kind == "mend" and self.cut:
            await self.mend_one(self.random.choice(sorted(self.cut)))
        elif kind == "move":
            await self.move(self.random.choice(self.readers))
        else:
            await self.flow()

    async def cut_one(self, link: tuple[str, ...]) -> None:
        self.whole.discard(link)
        self.cut.add(link)
        self.ride.cuts += 1
        a, b = link
        await self.site.cut(a, b)

    async def mend_one(self, link: tuple[str, ...]) -> None:
        a, b = link
        if self.site.through(a, b):
            self.ride.detours += 1
        self.cut.discard(link)
        self.whole.add(link)
        await self.site.mend(a, b)

    async def move(self, client: PlainClient) -> None:
        await client.connect(self.port())
        self.ride.moves += 1
        if not client.session_present:
            self.ride.violations.append(f"{client.name} came without its session")

    async def flow(self) -> None:
        """Every reader gets some more messages, whatever is cut."""
        wanted = {reader: len(reader.received) + 20 for reader in self.readers}
        await eventually(
            lambda: all(len(reader.received) >= count for reader, count in wanted.items()),
            f"the traffic with {sorted(self.cut)} cut",
        )

    def is_connected(self, links: set[tuple[str, ...]]) -> bool:
        reached = {self.names[0]}
        while more := {one for link in links if reached & set(link) for one in link} - reached:
            reached |= more
        return len(reached) == len(self.names)

    async def check(self) -> None:
        for reader in self.readers:
            for writer in self.writers:
                if qos_of(writer) < qos_of(reader):
                    continue
                await eventually(
                    lambda reader=reader, writer=writer: set(writer.acknowledged) <= set(firsts(reader)),
                    f"what {writer.name} published and {reader.name} wants, with {sorted(self.cut)} cut",
                )
                got = [int(one.split()[1]) for one in firsts(reader, topic_of(writer))]
                self.ride.delivered += len(got)
                if got != sorted(set(got)):
                    wrong = next(b for a, b in itertools.pairwise(got) if b <= a)
                    self.ride.violations.append(
                        f"{reader.name}: {wrong} of {writer.name} came twice or out of order"
                    )


def qos_of(client: PlainClient) -> int:
    return int(client.name.split("-")[1])


def topic_of(writer: PlainClient) -> str:
    return f"t/{qos_of(writer)}/{writer.name}"


def wanted_by(reader: PlainClient) -> tuple[str, int]:
    """All at QoS 1, or what is published at QoS 2."""
    return ("t/#", 1) if qos_of(reader) == 1 else ("t/2/#", 2)


def firsts(reader: PlainClient, topic: str | None = None) -> list[bytes]:
    """What a client received, without what it was told to be a repetition and had already."""
    found: list[bytes] = []
    seen: set[bytes] = set()
    for on, payload, _, dup in reader.received:
        if (topic is None or on == topic) and not (dup and payload in seen):
            found.append(payload)
            seen.add(payload)
    return found


async def ride(folder: Path, graph: str, seed: int, *, keys: bool, steps: int = 30) -> Ride:
    links = GRAPHS[graph]
    brokers = len({name for link in links for name in link})
    scheme = SCHEMES[seed % len(SCHEMES)]
    happened = Ride(f"{graph} {'keys' if keys else 'secret'} {scheme} --seed {seed}")
    times = "detour_after_s = 0.1\nhandoff_timeout_s = 8.0"
    async with wired(folder, brokers, links=links, keys=keys, network=times, scheme=scheme) as site:
        await Rider(site, seed, happened).ride_on(steps)
    return happened


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rides", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    total = Ride("all")
    began = time.monotonic()
    for seed in range(arguments.seed, arguments.seed + arguments.rides):
        graph = list(GRAPHS)[seed % len(GRAPHS)]
        with tempfile.TemporaryDirectory() as folder:
            one = asyncio.run(ride(Path(folder), graph, seed, keys=seed % 4 > 1, steps=arguments.steps))
        print(one, flush=True)  # noqa: T201 - a command
        for name in ("published", "delivered", "moves", "cuts", "detours"):
            setattr(total, name, getattr(total, name) + getattr(one, name))
        total.violations += [f"{one.name}: {violation}" for violation in one.violations]
    print(total, f"{time.monotonic() - began:.0f} s")  # noqa: T201 - a command
    raise SystemExit(1 if total.violations else 0)


if __name__ == "__main__":
    main()
