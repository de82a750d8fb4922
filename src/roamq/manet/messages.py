"""Everything that travels over the air, as frozen values; each says who sends it to whom.

Three ways of travelling: one hop (`Hello`, `Candidates`), flooded (`Beacon` through the network, `Notification`
through one region) and hop by hop inside a `Packet`. Sizes are what a compact binary form would take: they
matter to the contended channel and to the bytes column of the traffic records, to nothing else.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from roamq.core.events import Event, EventId, Seconds
from roamq.core.filters import Filter

NodeId = int
"""Each node has a unique identifier ([DRIP] section III, assumption a)."""

RegionId = str
"""Chosen by the broker: its node id and how many times it has become a broker, hence unique."""

HEADER_BYTES = 24
ID_BYTES = 4
STAMP_BYTES = 8
FILTER_BYTES = 16


class Role(Enum):
    """Why a broker holds a copy of an event."""

    SOURCE = "source"
    CARRIER = "carrier"
    DESTINATION = "destination"
    EPIDEMIC = "epidemic"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and what it would be chosen by: its detecting ability, or a draw in the random selection."""

    fitness: float
    node: NodeId

    @property
    def rank(self) -> tuple[float, NodeId]:
        """Larger is better; equal fitness is settled by the id, so that all nodes agree."""
        return (self.fitness, self.node)


@dataclass(frozen=True, slots=True)
class Hello:
    """A node to its neighbors: I am here, this is my local broker, and these are my delays to the nearest brokers."""

    kind: ClassVar[str] = "hello"
    local_broker: NodeId | None
    delays: dict[NodeId, Seconds]

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + (ID_BYTES + STAMP_BYTES) * len(self.delays)


@dataclass(frozen=True, slots=True)
class Candidates:
    """A node to its neighbors during an election: the best candidates I have heard of."""

    kind: ClassVar[str] = "election"
    best: tuple[Candidate, ...]

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + (ID_BYTES + STAMP_BYTES) * len(self.best)


@dataclass(frozen=True, slots=True)
class Beacon:
    """A broker to everybody who counts it among the nearest: node id, region id, sequence number, source time-stamp.

    The delay time-stamp of [DRIP] section IV-B is the receiver's clock at arrival, so it is not carried.
    """

    kind: ClassVar[str] = "beacon"
    broker: NodeId
    region: RegionId
    sequence: int
    sent_at: Seconds

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + 2 * ID_BYTES + 2 * STAMP_BYTES


@dataclass(frozen=True, slots=True)
class Notification:
    """A broker to the nodes of its region: events some of you subscribed to. Flooded, each node repeats it once."""

    kind: ClassVar[str] = "notify"
    broker: NodeId
    sequence: int
    events: tuple[Event, ...]

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + STAMP_BYTES + sum(event.size_bytes for event in self.events)


@dataclass(frozen=True, slots=True)
class Interest:
    """One subscriber as brokers know it: its conditions, its id and the ids of its nearest brokers, nearest first.

    `sequence` is counted by the subscriber, so the newer of two is known wherever they meet.
    """

    subscriber: NodeId
    sequence: int
    filters: tuple[Filter, ...]
    nearest: tuple[NodeId, ...]
    size_bytes: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        size = 2 * ID_BYTES + FILTER_BYTES * len(self.filters) + ID_BYTES * len(self.nearest)
        object.__setattr__(self, "size_bytes", size)  # the way into a frozen value


@dataclass(frozen=True, slots=True)
class Register:
    """A node to its new local broker, with the copy of its subscriptions and what it already received."""

    kind: ClassVar[str] = "register"
    interest: Interest
    received: frozenset[EventId]

    @property
    def size_bytes(self) -> int:
        return self.interest.size_bytes + 2 * ID_BYTES * len(self.received)


@dataclass(frozen=True, slots=True)
class Quit:
    """A node to its previous local broker: delete my subscriptions."""

    kind: ClassVar[str] = "quit"
    subscriber: NodeId
    sequence: int
    size_bytes: ClassVar[int] = 2 * ID_BYTES


@dataclass(frozen=True, slots=True)
class Publish:
    """A node to its local broker: an event I detected, with the time it was published."""

    kind: ClassVar[str] = "publish"
    event: Event

    @property
    def size_bytes(self) -> int:
        return self.event.size_bytes


@dataclass(frozen=True, slots=True)
class BridgeStatus:
    """A bridge Bri(P, Q) to its local broker P: through me and my neighbor `foreign` you reach Q."""

    kind: ClassVar[str] = "bridge"
    peer: NodeId
    foreign: NodeId
    delay_s: Seconds
    """From P to the bridge and on to Q: how near the two brokers are."""
    size_bytes: ClassVar[int] = 3 * ID_BYTES + STAMP_BYTES


@dataclass(frozen=True, slots=True)
class Alive:
    """That a broker with this fitness was alive at `seen_at`."""

    candidate: Candidate
    seen_at: Seconds


@dataclass(frozen=True, slots=True)
class Greeting:
    """Broker P to broker Q, opening a contact: subscriptions you lack, brokers I know of, and events I hold for you."""

    kind: ClassVar[str] = "contact"
    contact: int
    revision: int
    """Counts the changes of P's subscription table; Q's reply says that it has them up to here."""
    interests: tuple[Interest, ...]
    brokers: tuple[Alive, ...]
    offers: tuple[tuple[EventId, Role], ...]

    @property
    def size_bytes(self) -> int:
        listed = 2 * STAMP_BYTES * len(self.brokers) + 2 * ID_BYTES * len(self.offers)
        return STAMP_BYTES + listed + sum(interest.size_bytes for interest in self.interests)


@dataclass(frozen=True, slots=True)
class Reply:
    """Q to P: your subscriptions are in, and of the events you offered I want these."""

    kind: ClassVar[str] = "contact"
    contact: int
    revision: int
    wanted: tuple[EventId, ...]

    @property
    def size_bytes(self) -> int:
        return STAMP_BYTES + 2 * ID_BYTES * len(self.wanted)


@dataclass(frozen=True, slots=True)
class Handover:
    """P to Q: the wanted events; a carrier also learns the destinations it should find."""

    kind: ClassVar[str] = "event"
    contact: int
    copies: tuple[tuple[Event, Role, frozenset[NodeId]], ...]

    @property
    def size_bytes(self) -> int:
        return STAMP_BYTES + sum(event.size_bytes + ID_BYTES * len(found) for event, _, found in self.copies)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Q to P: the events arrived, the contact is over."""

    kind: ClassVar[str] = "contact"
    contact: int
    size_bytes: ClassVar[int] = STAMP_BYTES


Body = Register | Quit | Publish | BridgeStatus | Greeting | Reply | Handover | Receipt


@dataclass(frozen=True, slots=True)
class Packet:
    """Hop by hop from `path[0]` to the broker `target`.

    `ahead` is a source route to use up first (the way to a bridge and over it, or a reply's way back); after it
    each node sends on along the reverse path of the target's beacons. `path` is the way so far: a reply takes it
    backwards.
    """

    target: NodeId
    body: Body
    path: tuple[NodeId, ...]
    ahead: tuple[NodeId, ...]
    expires_at: Seconds
    body_bytes: int
    """The size of the body, which is the same at every hop."""

    @property
    def kind(self) -> str:
        return self.body.kind

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + ID_BYTES * (len(self.path) + len(self.ahead)) + self.body_bytes


Message = Hello | Candidates | Beacon | Notification | Packet
