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
from dataclasses import dataclass
from pathlib import Path

from tests.net.live import PlainClient
from tests.net.traffic import Ride, Traffic, wanted_by
from tests.net.wires import RING, WiredBrokers, wired
from tests.support.waiting import eventually

SCHEMES = ("standard", "proactive")
GRAPHS: dict[str, Sequence[tuple[str, str]]] = {
    "triangle": tuple(itertools.combinations(("b1", "b2", "b3"), 2)),
    "ring": RING,
    "mesh": tuple(itertools.combinations(("b1", "b2", "b3", "b4"), 2)),
}


@dataclass
class CutRide(Ride):
    """What happened, with wires that were cut."""

    cuts: int = 0
    detours: int = 0
    """Cut wires whose link ran through others before they were mended."""


class Rider:
    """Cuts, mends and moves by a seed."""

    def __init__(self, site: WiredBrokers, seed: int, ride: CutRide) -> None:
        self.site = site
        self.random = random.Random(seed)
        self.ride = ride
        self.names = list(site.network.brokers)
        self.whole = {tuple(sorted(link)) for link in site.network.links}
        self.cut: set[tuple[str, ...]] = set()
        self.traffic = Traffic(ride, of_each=2)

    async def ride_on(self, steps: int) -> None:
        for reader in self.traffic.readers:
            await reader.connect(self.port())
            await reader.subscribe(*wanted_by(reader))
        for number, writer in enumerate(self.traffic.writers):
            await writer.connect(self.site.port(self.names[number % len(self.names)]))
        self.traffic.begin()
        for _ in range(steps):
            await self.step()
        await self.traffic.end(f", with {sorted(self.cut)} cut")

    def port(self) -> int:
        return self.site.port(self.random.choice(self.names))

    async def step(self) -> None:
        kind = self.random.choice(["cut", "cut", "mend", "move", "move", "move", "wait"])
        spare = [link for link in sorted(self.whole) if self.is_connected(self.whole - {link})]
        if kind == "cut" and spare:
            await self.cut_one(self.random.choice(spare))
        elif kind == "mend" and self.cut:
            await self.mend_one(self.random.choice(sorted(self.cut)))
        elif kind == "move":
            await self.move(self.random.choice(self.traffic.readers))
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
        self.traffic.note_move(client)

    async def flow(self) -> None:
        """Every reader gets some more messages, whatever is cut."""
        wanted = {reader: len(reader.received) + 20 for reader in self.traffic.readers}
        await eventually(
            lambda: all(len(reader.received) >= count for reader, count in wanted.items()),
            f"the traffic with {sorted(self.cut)} cut",
        )

    def is_connected(self, links: set[tuple[str, ...]]) -> bool:
        reached = {self.names[0]}
        while more := {one for link in links if reached & set(link) for one in link} - reached:
            reached |= more
        return len(reached) == len(self.names)


async def ride(folder: Path, graph: str, seed: int, *, keys: bool, steps: int = 30) -> CutRide:
    links = GRAPHS[graph]
    brokers = len({name for link in links for name in link})
    scheme = SCHEMES[seed % len(SCHEMES)]
    happened = CutRide(f"{graph} {'keys' if keys else 'secret'} {scheme} --seed {seed}")
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
    total = CutRide("all")
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
