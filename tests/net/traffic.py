"""What readers and writers say to each other in a ride of live brokers, and whether all of it came once, in order."""

import asyncio
import itertools
from dataclasses import dataclass, field

from tests.net.live import PlainClient
from tests.support.waiting import POLL_S, eventually

WINDOW = 10
"""Messages of a publisher that are not acknowledged yet."""


@dataclass
class Ride:
    """What happened."""

    name: str
    published: int = 0
    delivered: int = 0
    moves: int = 0
    violations: list[str] = field(default_factory=list)


class Traffic:
    """Readers and writers of QoS 1 and 2, so many of each."""

    def __init__(self, ride: Ride, of_each: int) -> None:
        self.ride = ride
        self.readers, self.writers = (
            [PlainClient(f"{kind}-{qos}-{number}") for qos in (1, 2) for number in range(of_each)]
            for kind in ("reader", "writer")
        )
        self._stopping = False
        self._writing: list[asyncio.Future[None]] = []

    def begin(self) -> None:
        """All writers are connected: they write until the end."""
        self._writing = [asyncio.ensure_future(self._write(writer)) for writer in self.writers]

    async def end(self, when: str = "") -> None:
        """Nothing more is written; what was acknowledged must have come. `when`: what a failure says besides."""
        self._stopping = True
        await asyncio.gather(*self._writing)
        for reader, writer in self.owed():
            await eventually(
                lambda reader=reader, writer=writer: set(writer.acknowledged) <= set(firsts(reader)),
                f"what {writer.name} published and {reader.name} wants{when}",
            )
            got = [int(one.split()[1]) for one in firsts(reader, topic_of(writer))]
            self.ride.delivered += len(got)
            if got != sorted(set(got)):
                wrong = next(b for a, b in itertools.pairwise(got) if b <= a)
                self.ride.violations.append(
                    f"{reader.name}: {wrong} of {writer.name} came twice or out of order"
                )

    def owed(self) -> list[tuple[PlainClient, PlainClient]]:
        """A reader of QoS 2 wants what is published with it."""
        pairs = itertools.product(self.readers, self.writers)
        return [(reader, writer) for reader, writer in pairs if qos_of(writer) >= qos_of(reader)]

    def note_move(self, client: PlainClient) -> None:
        """The client is connected at another broker."""
        self.ride.moves += 1
        if not client.session_present:
            self.ride.violations.append(f"{client.name} came without its session")

    async def _write(self, writer: PlainClient) -> None:
        qos, number = qos_of(writer), 0
        while not self._stopping or writer.unacknowledged:
            while not self._stopping and len(writer.unacknowledged) < WINDOW:
                writer.publish(topic_of(writer), b"%s %d" % (writer.name.encode(), number), qos)
                number += 1
            await asyncio.sleep(POLL_S)
        self.ride.published += len(writer.acknowledged)


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
