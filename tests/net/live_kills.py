"""`python -m tests.net.kills --live [--kills 200] [--seed 0]`: broker processes are killed while a client moves.

A publisher and a subscriber of QoS 2 are served by three brokers on loopback. Again and again the subscriber moves, and
one broker, two or all of them are killed at a moment that nobody has chosen, and started again. CONNACK waits for
brokers that are down, so that nobody is made to begin anew: every message must come exactly once and in order. A ride
that fails prints what the brokers recorded of the messages concerned, and keeps its folder.
"""

import asyncio
import contextlib
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

import pyarrow.dataset

from roamq.net.ops.local import local_network
from tests.net.live import BrokerProcesses, PlainClient, write_network
from tests.support.waiting import eventually

PATIENCE_S: Final = 120.0
"""How long CONNACK waits for a broker that is down; a broker is back long before."""
ROUNDS: Final = 8
"""Kills of one ride, each of one broker or more."""
UNDER_WAY_MAX: Final = 64
"""Messages that the publisher has under way."""


class LiveRide:
    """One client moves, another publishes, processes fall."""

    def __init__(self, folder: Path, seed: int, scheme: str, durability: str) -> None:
        self.kills = 0
        self.folder = folder
        self.sent: list[bytes] = []
        self._chance = random.Random(seed)
        text = local_network(3, scheme=scheme, durability=durability, records=folder / "records", steps=True)
        patient = f"[network]\nhandoff_timeout_s = {PATIENCE_S}\n"
        self._brokers = BrokerProcesses(folder, 1)
        self._brokers.network = write_network(
            folder,
            text.replace("[network]\n", patient) + f"\n[bounds]\nconnect_timeout_s = {2 * PATIENCE_S}\n",
        )
        self._names = list(self._brokers.network.brokers)
        self.mover, self.publisher = PlainClient("mover"), PlainClient("publisher")
        self._anew: list[str] = []
        """Clients that were told that they have no session."""

    async def run(self) -> None:
        with self._brokers:
            await asyncio.to_thread(self._brokers.start)
            await eventually(
                lambda: not any(self._brokers.health(name)["links_down"] for name in self._names)
            )
            await self.mover.connect(self._port(self._chance.choice(self._names)))
            await self.mover.subscribe("t/#", 2)
            await self.publisher.connect(self._port(self._names[0]))
            publishing = asyncio.create_task(self._publish())
            try:
                for _ in range(ROUNDS):
                    await self._round()
            finally:
                publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
            await self._come_back(self.mover)
            await self._come_back(self.publisher, self._names[0])
            with contextlib.suppress(AssertionError):  # `fault` says what is missing
                await eventually(lambda: not self.publisher.unacknowledged)
                await eventually(lambda: len(self.mover.received) >= len(self.sent))
            await asyncio.sleep(1.0)  # for what should not come
            for client in (self.mover, self.publisher):
                client.drop()

    async def _round(self) -> None:
        """A move, a kill somewhere in it, and everybody comes back."""
        chance = self._chance
        await asyncio.sleep(chance.random() * 0.3)
        moving = asyncio.create_task(self._come_back(self.mover, chance.choice(self._names), moves=True))
        await asyncio.sleep(chance.random() ** 3 * 0.2)
        fallen = chance.sample(self._names, chance.choice([1, 1, 1, 2, 3]))
        for name in fallen:
            self._brokers.processes[name].kill()
        self.kills += len(fallen)
        for name in fallen:
            await asyncio.to_thread(self._brokers.processes[name].wait)
        await asyncio.to_thread(self._brokers.start, *fallen)
        await moving
        await self._come_back(self.publisher, self._names[0])
        await self._come_back(self.mover)

    async def _come_back(self, client: PlainClient, at: str | None = None, *, moves: bool = False) -> None:
        """Connect, wherever a broker answers, if the client is not connected; `moves`: even if it is."""
        while moves or client.closed:
            with contextlib.suppress(OSError, AssertionError):
                connack = await client.connect(self._port(at or self._chance.choice(self._names)))
                moves = False
                if not connack.session_present:
                    self._anew.append(client.name)
            if moves or client.closed:
                await asyncio.sleep(0.05)

    async def _publish(self) -> None:
        while True:
            if (
                self.publisher.is_open
                and not self.publisher.closed
                and len(self.publisher.unacknowledged) < UNDER_WAY_MAX
            ):
                self.sent.append(b"%d" % len(self.sent))
                self.publisher.publish("t/x", self.sent[-1], 2)
            await asyncio.sleep(self._chance.random() * 0.01)

    def _port(self, name: str) -> int:
        return self._brokers.port(name)

    def fault(self) -> str | None:
        """What came wrong, with the records of it."""
        got = [payload for _, payload, *_ in self.mover.received]
        if got == self.sent and not self._anew:
            return None
        twice = [payload for payload, count in Counter(got).items() if count > 1]
        lost = [payload for payload in self.sent if payload not in set(got)]
        told = [
            f"sent {len(self.sent)}, got {len(got)}, twice {twice}, lost {lost}, "
            f"in order {got == sorted(got, key=int)}, begun anew {self._anew}, folder {self.folder}"
        ]
        rows = pyarrow.dataset.dataset(self.folder / "records", format="parquet").to_table().to_pylist()
        rows.sort(key=lambda row: row["time"])
        published = [row for row in rows if row["kind"] == "published" and row["topic"] == "t/x"]
        for payload in (*twice, *lost)[:10]:
            for event in published[int(payload) : int(payload) + 1]:
                name = (event["origin"], event["sequence"])
                told += [f"  {payload!r}: {row}" for row in rows if (row["origin"], row["sequence"]) == name]
        return "\n".join(told)


def ride(seed: int, scheme: str) -> tuple[int, str | None]:
    """How many processes were killed, and what went wrong; the folder of a ride that went well is removed."""
    durability = "disk" if seed % 4 == 3 else "process"
    with tempfile.TemporaryDirectory(prefix="roamq-kills-", ignore_cleanup_errors=True) as scratch:
        made = LiveRide(Path(scratch), seed, scheme, durability)
        asyncio.run(made.run())
        found = made.fault()
        if found is not None:
            kept = Path(tempfile.mkdtemp(prefix="roamq-kills-kept-"))
            Path(scratch).rename(kept / "ride")
            found += f"\nits folder is kept as {kept / 'ride'}"
        return made.kills, found
