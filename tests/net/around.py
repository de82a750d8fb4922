"""Rides of broker processes that are killed and stay dead for a while, where others are linked around them.

    python -m tests.net.around [--rides 20] [--seed 0]

Clients roam between the brokers that are up and publish there. Brokers in the middle are killed with SIGKILL, as many
as leave the others connected, and started again at some later step. While they are dead every reader gets what is
published at every broker that is up. At the end all are up: what was acknowledged came once and in order. It prints how
long the traffic stood still at most.
"""

import argparse
import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from roamq.config import to_toml
from tests.net.live import BrokerProcesses, PlainClient, write_network
from tests.net.traffic import WINDOW, Ride, Traffic, topic_of, wanted_by
from tests.net.wires import RING
from tests.support.waiting import eventually

SCHEMES = ("standard", "proactive")
OVERLAYS = ("interest", "flooding")
Links = Sequence[tuple[str, str]]
GRAPHS: dict[str, Links] = {
    "ring": RING,
    "ring with a diagonal": (*RING, ("b1", "b3")),
    "ladder": (
        ("b1", "b2"),
        ("b2", "b3"),
        ("b4", "b5"),
        ("b5", "b6"),
        ("b1", "b4"),
        ("b2", "b5"),
        ("b3", "b6"),
    ),
    "wheel": (*itertools.pairwise(("b1", "b2", "b3", "b4", "b1")), *(("b5", f"b{n}") for n in range(1, 5))),
}


def names_in(links: Links) -> list[str]:
    return sorted({name for link in links for name in link})


def is_connected(links: Links, without: Collection[str]) -> bool:
    """Whether the brokers that are left reach each other."""
    left = {name for name in names_in(links) if name not in without}
    reached = {min(left)}
    while more := {o for a, b in links for n, o in ((a, b), (b, a)) if n in reached and o in left} - reached:
        reached |= more
    return reached == left


def processes_of(folder: Path, links: Links, network: str = "", **options: str) -> BrokerProcesses:
    """Broker processes that are connected like this; `network` is TOML for that table."""
    processes = BrokerProcesses(folder, len(names_in(links)), **options)
    pairs = f"links = {to_toml([list(link) for link in links])}"
    text = processes.path.read_text().replace("[network]\n", f"[network]\n{pairs}\n{network}\n", 1)
    processes.network = write_network(folder, text)
    return processes


@dataclass
class KillRide(Ride):
    """What happened, with brokers that were killed."""

    kills: int = 0
    stood_still_s: float = 0.0
    """The longest time from a kill to when all readers had news from all writers."""


class Rider:
    """Kills, starts and moves by a seed."""

    def __init__(self, processes: BrokerProcesses, links: Links, seed: int, ride: KillRide) -> None:
        self.processes, self.links, self.ride = processes, links, ride
        self.random = random.Random(seed)
        self.names = names_in(links)
        self.dead: set[str] = set()
        self.traffic = Traffic(ride, of_each=1)
        self.at: dict[PlainClient, str] = {}

    async def ride_on(self, steps: int) -> None:
        await self.until_linked()
        for reader in self.traffic.readers:
            await self.connect(reader)
            await reader.subscribe(*wanted_by(reader))
        for writer in self.traffic.writers:
            await self.connect(writer)
        self.traffic.begin()
        await self.flow()
        for number in range(steps):
            await self.step(None if number else "kill")
        await self.start_all()
        await self.traffic.end()
        for client in (*self.traffic.readers, *self.traffic.writers):
            client.drop()

    @property
    def up(self) -> list[str]:
        return [name for name in self.names if name not in self.dead]

    async def until_linked(self) -> None:
        def are_linked() -> bool:
            found = {name: self.processes.health(name) for name in self.up}
            return all(set(health["links_down"]) <= self.dead for health in found.values())

        await eventually(are_linked, f"the links of {self.up}")

    async def connect(self, client: PlainClient) -> None:
        self.at[client] = self.random.choice(self.up)
        await client.connect(self.processes.port(self.at[client]))

    async def step(self, kind: str | None = None) -> None:
        kind = kind or self.random.choice(["kill", "kill", "start", "move", "move", "move"])
        free = [name for name in self.up if name not in {self.at[writer] for writer in self.traffic.writers}]
        spare = [name for name in free if is_connected(self.links, {*self.dead, name})]
        if kind == "kill" and spare:
            victim = self.random.choice(spare)
            while self.at_home(victim):
                await self.move(self.at_home(victim)[0])
            await self.kill(victim)
        elif kind == "start" and self.dead:
            await self.start(self.random.choice(sorted(self.dead)))
        else:
            await self.move(self.random.choice(self.traffic.readers))

    def at_home(self, name: str) -> list[PlainClient]:
        return [reader for reader in self.traffic.readers if self.at[reader] == name]

    async def kill(self, name: str) -> None:
        self.dead.add(name)
        self.ride.kills += 1
        await asyncio.to_thread(self.processes.kill, name)
        began = time.monotonic()
        await self.flow()
        self.ride.stood_still_s = max(self.ride.stood_still_s, time.monotonic() - began)

    async def start(self, name: str) -> None:
        await asyncio.to_thread(self.processes.start, name)
        self.dead.discard(name)

    async def start_all(self) -> None:
        for name in sorted(self.dead):
            await self.start(name)

    async def move(self, client: PlainClient) -> None:
        await self.connect(client)
        self.traffic.note_move(client)
        await self.flow()

    async def flow(self) -> None:
        """Every reader gets something from every writer whose messages it wants that is not acknowledged yet now."""
        for reader, writer in self.traffic.owed():
            newest = len(writer.acknowledged) + WINDOW
            await eventually(
                lambda reader=reader, writer=writer, newest=newest: last_of(reader, writer) >= newest,
                f"traffic from {writer.name} at {self.at[writer]} to {reader.name} at {self.at[reader]}, while "
                f"{sorted(self.dead)} are dead",
            )


def last_of(reader: PlainClient, writer: PlainClient) -> int:
    """The number of the last message that came from a writer."""
    topic = topic_of(writer)
    mine = (payload for on, payload, *_ in reversed(reader.received) if on == topic)
    return next((int(payload.split()[1]) for payload in mine), -1)


async def ride(folder: Path, graph: str, seed: int, steps: int = 10) -> KillRide:
    links = GRAPHS[graph]
    scheme = SCHEMES[seed % len(SCHEMES)]
    overlay = OVERLAYS[seed // 2 % len(OVERLAYS)]
    happened = KillRide(f"{graph}, {scheme}, {overlay} --seed {seed}")
    with processes_of(folder, links, "handoff_timeout_s = 60.0", scheme=scheme, overlay=overlay) as processes:
        await asyncio.to_thread(processes.start)
        await Rider(processes, links, seed, happened).ride_on(steps)
    return happened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rides", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    total = KillRide("all")
    began = time.monotonic()
    for seed in range(arguments.seed, arguments.seed + arguments.rides):
        graph = list(GRAPHS)[seed % len(GRAPHS)]
        with tempfile.TemporaryDirectory() as folder:
            one = asyncio.run(ride(Path(folder), graph, seed, arguments.steps))
        print(one, flush=True)  # noqa: T201 - a command
        for name in ("published", "delivered", "moves", "kills"):
            setattr(total, name, getattr(total, name) + getattr(one, name))
        total.stood_still_s = max(total.stood_still_s, one.stood_still_s)
        total.violations += [f"{one.name}: {violation}" for violation in one.violations]
    print(total, f"{time.monotonic() - began:.0f} s")  # noqa: T201 - a command
    raise SystemExit(1 if total.violations else 0)


if __name__ == "__main__":
    main()
