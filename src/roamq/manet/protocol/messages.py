"""Every message that nodes send over the air, as a frozen value; its docstring names the sender and the receiver.

A message travels in one of three ways. `NeighborHello` and `Candidates` go to the sender's neighbors and no
further. Nodes flood a `Beacon` through the network and a `Notification` through one region. A `Packet` goes hop by
hop to one broker, and carries one of the bodies. `codec` turns messages into bytes.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from msgspec import Raw

from roamq.core.events import Event, EventId, Seconds
from roamq.core.filters import Filter

NodeId = int
"""Each node has a unique identifier ([DRIP] section III, assumption a)."""

RegionId = str
"""A broker names its region by its own id and by how often it has become a broker: no two regions share a name."""


class Role(Enum):
    """Why a broker holds a copy of an event."""

    SOURCE = "source"
    CARRIER = "carrier"
    DESTINATION = "destination"
    EPIDEMIC = "epidemic"


@dataclass(frozen=True, slots=True)
class BrokerCandidate:
    """A node that could be a broker. `fitness` is its detecting ability, or a random number in the random selection."""

    fitness: float
    node: NodeId

    @property
    def rank(self) -> tuple[float, NodeId]:
        """The candidate with the larger rank is the better one; the id breaks ties, so that all nodes agree."""
        return (self.fitness, self.node)


@dataclass(frozen=True, slots=True)
class NeighborHello:
    """A node to its neighbors: I am here, this is my local broker, and these are the delays to my nearest brokers."""

    kind: ClassVar[str] = "hello"
    local_broker: NodeId | None
    delays: dict[NodeId, Seconds]


@dataclass(frozen=True, slots=True)
class Candidates:
    """A node to its neighbors during an election: the best candidates I have heard of."""

    kind: ClassVar[str] = "election"
    best: tuple[BrokerCandidate, ...]


@dataclass(frozen=True, slots=True)
class Beacon:
    """A broker to every node that has it among its l nearest brokers: I exist, and I sent this at `sent_at`.

    The paper calls it the existing information message ([DRIP] section IV-B). Its delay time-stamp is the
    receiver's clock when the message arrives, so the message does not carry it.
    """

    kind: ClassVar[str] = "beacon"
    broker: NodeId
    region: RegionId
    sequence: int
    sent_at: Seconds


@dataclass(frozen=True, slots=True)
class Notification:
    """A broker to the nodes of its region: some of you subscribed to these events. Each node repeats it once."""

    kind: ClassVar[str] = "notify"
    broker: NodeId
    sequence: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Interest:
    """The subscriptions of one node, with the ids of its nearest brokers, the nearest first.

    The subscriber counts `sequence` up whenever it registers, so a broker that knows two interests of one
    subscriber can tell which is newer. Without filters the interest takes back what the subscriber wanted before.
    """

    subscriber: NodeId
    sequence: int
    filters: tuple[Filter, ...]
    nearest: tuple[NodeId, ...]
    registered_at: Seconds
    """When the subscriber registered. Every broker forgets the interest `interest_ttl_s` later, whoever told it."""
    encoded: Raw | None = field(default=None, init=False, compare=False, repr=False)
    """The interest as bytes. The codec keeps them here after it has made them once."""


@dataclass(frozen=True, slots=True)
class Register:
    """A node to its local broker: these are my subscriptions, and I have already received these events."""

    kind: ClassVar[str] = "register"
    interest: Interest
    received: frozenset[EventId]


@dataclass(frozen=True, slots=True)
class Quit:
    """A node to its previous local broker: delete my subscriptions."""

    kind: ClassVar[str] = "quit"
    subscriber: NodeId
    sequence: int


@dataclass(frozen=True, slots=True)
class EventPublication:
    """A node to its local broker: I detected this event. The event says when it was published."""

    kind: ClassVar[str] = "publish"
    event: Event


@dataclass(frozen=True, slots=True)
class BridgeStatus:
    """A bridge Bri(P, Q) to its local broker P: through me and my neighbor `foreign` you reach Q."""

    kind: ClassVar[str] = "bridge"
    peer: NodeId
    foreign: NodeId
    delay_s: Seconds
    """The delay from P to the bridge and from there to Q: it tells P how near Q is."""


@dataclass(frozen=True, slots=True)
class Alive:
    """News of a broker: `candidate` was a broker, and alive, at `seen_at`."""

    candidate: BrokerCandidate
    seen_at: Seconds


@dataclass(frozen=True, slots=True)
class Greeting:
    """Broker P opens a contact with broker Q: subscriptions that you lack, brokers that I know, events that I offer."""

    kind: ClassVar[str] = "contact"
    contact: int
    revision: int
    """How often P's subscription table has changed. Q repeats the number to confirm that it has all these changes."""
    interests: tuple[Interest, ...]
    brokers: tuple[Alive, ...]
    offers: tuple[tuple[EventId, Role], ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """Q to P: I have learned your subscriptions, and I want these of the events that you offered."""

    kind: ClassVar[str] = "contact"
    contact: int
    revision: int
    wanted: tuple[EventId, ...]


@dataclass(frozen=True, slots=True)
class EventCopies:
    """P to Q: the events that Q wants, each with Q's role and the destinations that Q should find as a carrier."""

    kind: ClassVar[str] = "event"
    contact: int
    copies: tuple[tuple[Event, Role, frozenset[NodeId]], ...]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Q to P: I have the events, and the contact is over."""

    kind: ClassVar[str] = "contact"
    contact: int


@dataclass(frozen=True, slots=True)
class Introduction:
    """P's greeting to Q where brokers predict whom they will meet: with P's delivery predictabilities (PRoPHET)."""

    kind: ClassVar[str] = "contact"
    greeting: Greeting
    predictabilities: dict[NodeId, float]


@dataclass(frozen=True, slots=True)
class IntroductionReply:
    """Q's reply to an introduction, with Q's delivery predictabilities."""

    kind: ClassVar[str] = "contact"
    reply: Reply
    predictabilities: dict[NodeId, float]


Body = (
    Register
    | Quit
    | EventPublication
    | BridgeStatus
    | Greeting
    | Reply
    | EventCopies
    | Receipt
    | Introduction
    | IntroductionReply
)


@dataclass(frozen=True, slots=True)
class Packet:
    """A body on its way, hop by hop, from the node `path[0]` to the broker `target`.

    `path` lists the nodes that the packet has passed; a reply takes them backwards. `ahead` lists the next hops, as
    far as the sender chose them (to a bridge and over it, or back along a path). When `ahead` is used up, each node
    sends the packet to the neighbor from which it last heard the target's beacon.
    """

    target: NodeId
    body: Body
    path: tuple[NodeId, ...]
    ahead: tuple[NodeId, ...]
    expires_at: Seconds
    encoded_body: bytes | None = field(default=None, compare=False, repr=False)
    """The body as bytes. The codec keeps them here after it has made them once; every hop sends the same."""

    @property
    def kind(self) -> str:
        return self.body.kind


Message = NeighborHello | Candidates | Beacon | Notification | Packet
