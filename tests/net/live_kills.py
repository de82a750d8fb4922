"""`python -m tests.net.kills --live [--kills 200] [--minutes 8] [--seed 0]`: broker processes are killed in a ride.

A publisher and a subscriber of QoS 2 are served by three brokers on loopback. Again and again the subscriber moves, and
one broker, two or all of them are killed at a moment that nobody has chosen, and started again. CONNACK waits for
brokers that are down, so that nobody is made to begin anew: every message must come exactly once and in order. A ride
that fails prints what happened in it, and what the brokers recorded of the messages concerned, and keeps its folder.
A ride that takes longer than `RIDE_S_MAX` fails as well, and says who waits for what.
"""

import asyncio
import contextlib
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
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
RIDE_S_MAX: Final = 400.0
"""A ride takes half a minute; on a machine where ten programs want two cores, some two minutes."""
TOLD_MAX: Final = 60
"""How much of what happened a ride that fails prints, from the end."""


DURABILITIES: Final = ("process", "disk")


@dataclass
class Outcome:
    """What came of a ride."""

    kills: int
    messages: int
    fault: str | None
    falls: Counter[int] = field(default_factory=Counter)
    """How many brokers fell at once -> how often."""


class LiveRide:
    """One client moves, another publishes, processes fall."""

    def __init__(self, folder: Path, seed: int, scheme: str, durability: str) -> None:
        self.kills = 0
        self.falls: Counter[int] = Counter()
        """How many brokers fell at once -> how often."""
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
        self._began = time.monotonic()
        self._happened: list[str] = []
        self._under_way: dict[str, float] = {}
        """What somebody waits for -> since when."""
        self._starting: asyncio.Future[None] | None = None
        self._hang: str | None = None

    async def run(self, limit_s: float = RIDE_S_MAX) -> None:
        with self._brokers:
            await self._start(*self._names)
            try:
                async with asyncio.timeout(limit_s):
                    await self._run()
            except TimeoutError:
                if self._starting is not None:
                    with contextlib.suppress(
                        AssertionError
                    ):  # processes that start now would outlive the ride
                        await self._starting
                self._hang = f"not done after {limit_s:g} s\n" + await asyncio.to_thread(self._waiting)
            for client in (self.mover, self.publisher):
                client.drop()

    async def _run(self) -> None:
        with self._waits_for("the links"):
            await eventually(
                lambda: not any(self._brokers.health(name)["links_down"] for name in self._names)
            )
        await self._come_back(self.mover, first=True)
        with self._waits_for("the mover's SUBACK"):
            await self.mover.subscribe("t/#", 2)
        await self._come_back(self.publisher, self._names[0], first=True)
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
            with self._waits_for("acknowledgements for the publisher"):
                await eventually(lambda: not self.publisher.unacknowledged)
            with self._waits_for("messages for the mover"):
                await eventually(lambda: len(self.mover.received) >= len(self.sent))
        await asyncio.sleep(1.0)  # for what should not come

    async def _round(self) -> None:
        """A move, a kill somewhere in it, and everybody comes back."""
        chance = self._chance
        await asyncio.sleep(chance.random() * 0.3)
        moving = asyncio.create_task(self._come_back(self.mover, chance.choice(self._names), moves=True))
        await asyncio.sleep(chance.random() ** 3 * 0.2)
        fallen = chance.sample(self._names, chance.choice([1, 1, 1, 2, 3]))
        for name in fallen:
            self._brokers.processes[name].kill()
        self._note(f"{', '.join(fallen)}: killed")
        self.kills += len(fallen)
        self.falls[len(fallen)] += 1
        for name in fallen:
            with self._waits_for(f"the end of {name}"):
                await asyncio.to_thread(self._brokers.processes[name].wait)
        await self._start(*fallen)
        await moving
        await self._come_back(self.publisher, self._names[0])
        await self._come_back(self.mover)

    async def _start(self, *names: str) -> None:
        with self._waits_for(f"the start of {', '.join(names)}"):
            self._starting = asyncio.ensure_future(asyncio.to_thread(self._brokers.start, *names))
            await asyncio.shield(self._starting)
        self._note(f"{', '.join(names)}: started")

    async def _come_back(
        self, client: PlainClient, at: str | None = None, *, moves: bool = False, first: bool = False
    ) -> None:
        """Connect, wherever a broker answers, if the client is not connected; `moves`: even if it is; `first`: there
        is no session yet."""
        while moves or client.closed:
            broker = at or self._chance.choice(self._names)
            try:
                with self._waits_for(f"{client.name}: CONNACK of {broker}"):
                    connack = await client.connect(self._port(broker))
            except (OSError, AssertionError) as error:
                self._note(f"{client.name} at {broker}: {error}")
            else:
                moves = False
                present = "with" if connack.session_present else "without"
                self._note(f"{client.name} at {broker}: {connack.reason.name}, {present} a session")
                if not connack.session_present and not first:
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

    # --- what happens ------------------------------------------------------------------------------------------

    def _note(self, what: str) -> None:
        self._happened.append(
            f"  {time.monotonic() - self._began:8.3f} s, {len(self.sent)} sent, {len(self.mover.received)} came: {what}"
        )

    @contextlib.contextmanager
    def _waits_for(self, what: str) -> Iterator[None]:
        self._under_way[what] = time.monotonic()
        try:
            yield
        except asyncio.CancelledError:
            raise  # a ride that is cut says what was under way
        except BaseException:
            del self._under_way[what]
            raise
        del self._under_way[what]

    def _waiting(self) -> str:
        """Who waits for what: clients, messages, brokers."""
        now = time.monotonic()
        told = [f"  waits for {what}, for {now - since:.1f} s" for what, since in self._under_way.items()]
        if self.publisher.unacknowledged:
            packet, received = next(iter(self.publisher.unacknowledged.values()))
            answer = "PUBCOMP" if received else "PUBREC"
            told.append(
                f"  publisher: {len(self.publisher.unacknowledged)} under way; {packet.payload!r} waits for {answer}"
            )
        got = {payload for _, payload, *_ in self.mover.received}
        missing = [payload for payload in self.sent if payload not in got]
        if missing:
            told.append(f"  mover: {len(missing)} have not come, the first is {missing[0]!r}")
        for name in self._names:
            process = self._brokers.processes.get(name)
            if process is None or process.poll() is not None:
                told.append(f"  {name}: does not run")
                continue
            try:
                told.append(f"  {name}: {self._brokers.health(name)}")
            except OSError as error:
                told.append(f"  {name}: runs, and does not answer: {error}")
        return "\n".join(told)

    def fault(self) -> str | None:
        """What came wrong, with the records of it."""
        got = [payload for _, payload, *_ in self.mover.received]
        if got == self.sent and not self._anew and self._hang is None:
            return None
        twice = [payload for payload, count in Counter(got).items() if count > 1]
        lost = [payload for payload in self.sent if payload not in set(got)]
        told = [
            f"sent {len(self.sent)}, got {len(got)}, twice {twice}, lost {lost}, "
            f"in order {got == sorted(got, key=int)}, begun anew {self._anew}, folder {self.folder}"
        ]
        told += [] if self._hang is None else [self._hang]
        told += self._happened[-TOLD_MAX:]
        if not (self.folder / "records").is_dir():
            return "\n".join(told)
        rows = pyarrow.dataset.dataset(self.folder / "records", format="parquet").to_table().to_pylist()
        rows.sort(key=lambda row: row["time_s"])
        published = [row for row in rows if row["kind"] == "published" and row["detail"] == "t/x"]
        for payload in (*twice, *lost)[:10]:
            for event in published[int(payload) : int(payload) + 1]:
                name = (event["origin"], event["sequence"])
                told += [f"  {payload!r}: {row}" for row in rows if (row["origin"], row["sequence"]) == name]
        return "\n".join(told)


def ride(seed: int, scheme: str, durability: str | None = None) -> Outcome:
    """Ride once; the folder of a ride that went well is removed."""
    with tempfile.TemporaryDirectory(prefix="roamq-kills-", ignore_cleanup_errors=True) as scratch:
        made = LiveRide(Path(scratch), seed, scheme, durability or DURABILITIES[seed % len(DURABILITIES)])
        asyncio.run(made.run())
        found = made.fault()
        if found is not None:
            kept = Path(tempfile.mkdtemp(prefix="roamq-kills-kept-"))
            Path(scratch).rename(kept / "ride")
            found += f"\nits folder is kept as {kept / 'ride'}"
        return Outcome(made.kills, len(made.sent), found, made.falls)
