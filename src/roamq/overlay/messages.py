"""The messages of the overlay: what brokers tell their neighbours about subscriptions ([DIS] section 2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.messages import HEADER_BYTES, Message, weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe(Message):
    """Broker -> neighbour: send me events that match. `mobile`: the message exists because a client moved."""

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
    """Whether the neighbour is to tell the sender again, too, what it wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingTold(Message):
    """Broker -> neighbour: I have told you all that I, and the brokers behind me, want of these origins."""

    kind: ClassVar[str] = "advertise"
    origins: bytes
    edges: tuple[str, ...] = ()
    """The marks of the edge brokers among these origins, as in `SubscribeFrom`."""

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + len(self.origins) + sum(map(len, self.edges))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsPassed(Message):
    """Broker -> neighbour behind it, under flooding: no more events of these origins up to these numbers come.

    If it has a `by`, that broker sends it to another one, to which it gave a partial fence."""

    kind: ClassVar[str] = "advertise"
    frontier: Mapping[BrokerId, int]
    ended: tuple[BrokerId, ...] = ()
    """Origins that departed, and from which nothing more comes at all."""
    unheard: tuple[BrokerId, ...] | None = ()
    """Origins of which the sender does not get all events itself yet; of all others it passes on everything above
    `frontier` from now on. None: the message says nothing about that."""
    to: BrokerId | None = None
    """The broker that the message is for, if it says which events `by` gets."""
    by: BrokerId | None = None
    """A broker that begins anew, and sent this message."""
    life: int = 0
    """The number of the life in which a broker that begins anew sent this message."""
    comes: tuple[tuple[BrokerId, int], ...] | None = None
    """Origins, and the numbers above which `by` gets all their events."""
    is_all: bool = False
    """Whether `by` also gets all events of all other origins."""

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
    """The edge brokers among the origins, by marks: one names one life of a broker in the network, from joining to
    leaving."""

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
    """`by` -> `targets`, behind all that `by` subscribed to: send `peer` an `Echo` behind the events you sent there."""

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
    """If `at` is `by` itself: the other brokers that the marker visits, as `by` knows the network."""
    knows_all: bool = False
    """If `at` is `by` itself: whether all its neighbours had told it which brokers there are before the marker."""


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
    """The brokers at which `peer` expects the marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLost(Message):
    """`by` -> every broker: a neighbour of `by` lost its store, and with it the markers that it was to pass on."""

    kind: ClassVar[str] = "marker"
    by: BrokerId


MarkerMessage = Marker | Echo | MarkAgain | StoreLost
"""The messages by which brokers learn whether others know of their subscriptions."""

InterestMessage = SubscribeFrom | UnsubscribeFrom | RoutingReset | RoutingTold
"""The messages between neighbours where events are routed by interest, besides those about markers."""

RoutingMessage = (
    Subscribe | Unsubscribe | Advertise | Unadvertise | InterestMessage | EventsPassed | MarkerMessage
)
"""The messages by which neighbours tell each other which brokers want, and which publish, what."""
