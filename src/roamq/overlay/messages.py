"""The messages of the overlay: what brokers tell their neighbours about subscriptions ([DIS] section 2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.messages import HEADER_BYTES, Message, weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe(Message):
    """Broker -> neighbour: send me events that match. `mobile`: it exists because a client moved."""

    carries: ClassVar[str] = "filter"
    filter: Filter
    mobile: bool = False

    @property
    def traffic_kind(self) -> str:
        return "mobile_subscribe" if self.mobile else "subscribe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe(Message):
    """Broker -> neighbour: one subscription less to this filter."""

    carries: ClassVar[str] = "filter"
    filter: Filter
    mobile: bool = False

    @property
    def traffic_kind(self) -> str:
        return "mobile_unsubscribe" if self.mobile else "unsubscribe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertise(Message):
    """Broker -> parent: somebody here will publish events that match."""

    kind: ClassVar[str] = "advertise"
    carries: ClassVar[str] = "filter"
    filter: Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class Unadvertise(Message):
    """Broker -> parent: one advertisement less of this filter."""

    kind: ClassVar[str] = "advertise"
    carries: ClassVar[str] = "filter"
    filter: Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingReset(Message):
    """Broker -> neighbour: what I subscribed to and advertised is in doubt; what holds now follows."""

    kind: ClassVar[str] = "advertise"
    asks: bool = True
    """Whether the neighbour is to do the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingTold(Message):
    """Broker -> neighbour: of these origins you have been told all that I and those behind me want."""

    kind: ClassVar[str] = "advertise"
    origins: bytes
    edges: tuple[str, ...] = ()
    """Of edge brokers the marks, as in `SubscribeFrom`."""

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + len(self.origins) + sum(map(len, self.edges))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsPassed(Message):
    """Broker -> neighbour behind it, where events are flooded: of these origins nothing up to these numbers comes.

    Or, if it has a `by`, from that broker to another one that it has given a fence."""

    kind: ClassVar[str] = "advertise"
    frontier: Mapping[BrokerId, int]
    ended: tuple[BrokerId, ...] = ()
    """Origins that departed, and of which nothing more comes at all."""
    unheard: tuple[BrokerId, ...] | None = ()
    """Everything above `frontier` comes from the sender from now on, but for these origins: it does not get all of them
    itself yet. None: the message says nothing about that."""
    to: BrokerId | None = None
    """Whom it is for, if it is about what `by` gets."""
    by: BrokerId | None = None
    """A broker that begins anew."""
    life: int = 0
    """Which of its lives."""
    comes: tuple[tuple[BrokerId, int], ...] | None = None
    """Of these origins `by` gets all events above these numbers."""
    is_all: bool = False
    """And of all others, whatever is published."""

    @property
    def size_bytes(self) -> int:
        named = [*self.frontier, *self.ended, *(self.unheard or ()), *(one for one, _ in self.comes or ())]
        return HEADER_BYTES + sum(len(origin) + 8 for origin in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantMessage(Message):
    """Broker -> neighbour: about events of these origins that match (`overlay/interest.py`).

    `origins` is a bit map over the names of the brokers of the core in alphabetical order, the lowest bit first.
    """

    carries: ClassVar[str] = "filter"
    verb: ClassVar[str]
    filter: Filter
    origins: bytes
    mobile: bool = False
    edges: tuple[str, ...] = ()
    """And of these edge brokers. A mark names one life of such a broker in the network, from joining to leaving."""

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + weight(self.filter) + len(self.origins) + sum(map(len, self.edges))

    @property
    def traffic_kind(self) -> str:
        return f"mobile_{self.verb}" if self.mobile else self.verb


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeFrom(WantMessage):
    """Broker -> neighbour: send me such events."""

    verb: ClassVar[str] = "subscribe"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeFrom(WantMessage):
    """Broker -> neighbour: send me no such events any more because of this filter."""

    verb: ClassVar[str] = "unsubscribe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker(Message):
    """`by` -> `targets`, behind all that `by` subscribed to: tell `peer`, behind the events it gets from you."""

    kind: ClassVar[str] = "marker"
    by: BrokerId
    number: int
    peer: BrokerId
    targets: tuple[BrokerId, ...]

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + sum(map(len, self.targets))


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo(Message):
    """`at` -> `to`: the marker `number` of the broker `by` was at `at`."""

    kind: ClassVar[str] = "marker"
    to: BrokerId
    by: BrokerId
    number: int
    at: BrokerId
    visited: tuple[BrokerId, ...] | None = None
    """If `at` is `by` itself: where else the marker went, as `by` knows the network."""
    knows_all: bool = False
    """And whether all neighbours of `by` had told it which brokers there are when it sent the marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkAgain(Message):
    """`peer` -> `to`: your marker `number` may never come here; send another.

    A broker lost its store, and perhaps the marker with it, or the fence was meant for another broker.
    """

    kind: ClassVar[str] = "marker"
    to: BrokerId
    peer: BrokerId
    number: int
    at: tuple[BrokerId, ...] = ()
    """Where `peer` waits for the marker to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLost(Message):
    """`by` -> every broker: a neighbour of `by` lost its store, and with it the markers that it was to pass on."""

    kind: ClassVar[str] = "marker"
    by: BrokerId


MarkerMessage = Marker | Echo | MarkAgain | StoreLost
"""What brokers send to learn whether others know of their subscriptions."""

InterestMessage = SubscribeFrom | UnsubscribeFrom | RoutingReset | RoutingTold
"""What brokers tell their neighbours where events are routed by interest, besides markers."""

RoutingMessage = (
    Subscribe | Unsubscribe | Advertise | Unadvertise | InterestMessage | EventsPassed | MarkerMessage
)
"""What neighbours tell each other about who wants and who publishes what."""
