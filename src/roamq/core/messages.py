"""Every message between brokers.

A message is a value: frozen, slotted, keyword-only. Its traffic kind (`records.MULTICAST`, `records.UNICAST`), how
many messages of the paper it stands for and what it weighs are said here once; bytes on a wire belong to `net`.
An `Event` travels as itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter

HEADER_BYTES = 40
"""What a message without content weighs: addresses, kind and client id."""

EVENT_ID_BYTES = 12
"""What the id of an event weighs: its origin and its number."""


@lru_cache(maxsize=4096)
def filter_bytes(filter: Filter) -> int:
    """What a filter weighs: its text."""
    return len(str(filter))


Carried = Event | Filter | EventId | BrokerId


def weight(carried: Carried) -> int:
    """What a thing that messages carry weighs, in bytes."""
    if isinstance(carried, Event):
        return carried.size_bytes
    if isinstance(carried, Filter):
        return filter_bytes(carried)
    return EVENT_ID_BYTES if isinstance(carried, EventId) else len(carried)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Base: one control message of header size, and what it carries."""

    kind: ClassVar[str] = "control"
    carries: ClassVar[str] = ""
    """The field by which it is counted and weighed: a filter, an event, or several of them; ids; names."""

    @property
    def carried(self) -> tuple[Carried, ...]:
        if not self.carries:
            return ()
        value = getattr(self, self.carries)
        return value if isinstance(value, tuple) else (value,)

    @property
    def units(self) -> int:
        """How many messages of the paper this one stands for: a batch of n events is n messages, as the papers
        forward event by event, and so are n subscriptions ([DIS] section 4). A closing word alone is one."""
        carried = getattr(self, self.carries) if self.carries else None
        if carried.__class__ is not tuple:
            return 1
        return max(1, sum(isinstance(one, Event | Filter) for one in carried))

    @property
    def size_bytes(self) -> int:
        carried: Any = getattr(self, self.carries) if self.carries else ()
        if carried.__class__ is not tuple:
            return HEADER_BYTES + weight(carried)
        return HEADER_BYTES + sum(map(weight, carried))

    @property
    def traffic_kind(self) -> str:
        """Under what it is counted. What could bring events and brings none is a closing word."""
        return "closing" if self.carries == "events" and not self.carried else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed(Message):
    """Any broker -> any broker, hop by hop along the overlay: `message` is for `to`."""

    to: BrokerId
    sender: BrokerId
    message: Message

    @property
    def units(self) -> int:
        return self.message.units

    @property
    def size_bytes(self) -> int:
        return self.message.size_bytes

    @property
    def traffic_kind(self) -> str:
        return self.message.traffic_kind


# --- the overlay ([DIS] section 2) -----------------------------------------------------------------------


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
class Afresh(Message):
    """Broker -> neighbour: forget what I wanted and advertised before; all of it follows."""

    kind: ClassVar[str] = "advertise"


# --- handing a context over ([DIS] section 3.1) ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest(Message):
    """New broker -> old broker: the client is here, send its subscriptions (step 2).

    `of`, where the old broker had pushed the context on: which context it was, for the broker that has the copy.
    """

    client: ClientId
    epoch: Epoch
    new_broker: BrokerId
    of: Epoch | None = None
    after: Epoch | None = None
    """The connection it was pointed on to: it is pointed on to later ones only, so it does not go round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriptions(Message):
    """Old broker -> new broker: what the client has subscribed to (step 2)."""

    kind: ClassVar[str] = "context"
    carries: ClassVar[str] = "filters"
    client: ClientId
    epoch: Epoch
    filters: tuple[Filter, ...]
    session: object | None = None
    ids_follow: bool = False
    """Whether `StoredIds` comes next ([DIS] section 3.2.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoContext(Message):
    """Old broker -> new broker: nothing is kept for this client here.

    `newer`: the context went to a later connection of the client than the one that asks.
    """

    client: ClientId
    epoch: Epoch
    newer: Epoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLeft(Message):
    """Broker that steps aside -> the later connection `epoch`: what the world's protocol began for the client here."""

    client: ClientId
    epoch: Epoch
    session: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Message):
    """New broker -> old broker: I have subscribed, you may unsubscribe (step 3).

    `fence` says what the new broker had seen when it subscribed; the old one holds the context until it has
    seen as much (see overlay.base.Router.passed). It comes without a request before it if the client brought its
    subscriptions along ([DIS] section 3.2.4); `of` is then as in `ContextRequest`.
    """

    client: ClientId
    epoch: Epoch
    new_broker: BrokerId
    fence: Mapping[BrokerId, int]
    of: Epoch | None = None
    after: Epoch | None = None
    """The connection it was pointed on to: it is pointed on to later ones only, so it does not go round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvents(Message):
    """Old broker -> new broker: what was stored for the client (step 5). `last`: nothing follows."""

    kind: ClassVar[str] = "stored_event"
    carries: ClassVar[str] = "events"
    client: ClientId
    epoch: Epoch
    events: tuple[Event, ...]
    position: Mapping[BrokerId, int]
    last: bool = True
    session: object | None = None
    """What `Subscriptions` would have brought, had it been sent."""


# --- prefetching ([DIS] section 3.2.1) -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch(Message):
    """Old broker -> predicted broker: the client may come to you, subscribe for it (step 2, pushed).

    `epoch` is that of the context that is copied; `targets` are all brokers that get a copy.
    """

    kind: ClassVar[str] = "context"
    carries: ClassVar[str] = "filters"
    client: ClientId
    epoch: Epoch
    filters: tuple[Filter, ...]
    targets: tuple[BrokerId, ...]
    session: object | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetched(Message):
    """Old broker -> predicted broker that asks: the copy of `of` that I pushed to you is what you ask for."""

    client: ClientId
    epoch: Epoch
    of: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard(Message):
    """The client came to `new_broker`: forget what was prefetched of its context `epoch`."""

    client: ClientId
    epoch: Epoch
    new_broker: BrokerId


# --- logging ([DIS] section 3.2.2) -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIds(Message):
    """Old broker -> new broker: the ids of what is stored for the client, in order."""

    kind: ClassVar[str] = "event_ids"
    carries: ClassVar[str] = "ids"
    client: ClientId
    epoch: Epoch
    ids: tuple[EventId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedIds(Message):
    """New broker -> old broker: these are in my log, do not send them."""

    kind: ClassVar[str] = "event_ids"
    carries: ClassVar[str] = "ids"
    client: ClientId
    epoch: Epoch
    new_broker: BrokerId
    ids: tuple[EventId, ...]


# --- home broker ([DIS] section 3.2.3) -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Visiting(Message):
    """Visited broker -> home broker: the client is here, forward its events."""

    client: ClientId
    epoch: Epoch
    visited: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome(Message):
    """Home broker -> visited broker: its events follow; `session` is lent until the client leaves."""

    client: ClientId
    epoch: Epoch
    session: object | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(Message):
    """Home broker -> visited broker: an event for the client."""

    kind: ClassVar[str] = "forward"
    carries: ClassVar[str] = "event"
    client: ClientId
    epoch: Epoch
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed(Message):
    """Visited broker -> home broker: how far the client has read; `left`: and it is gone from here.

    `ahead` are events it acknowledged before earlier ones, which the position cannot tell.
    """

    client: ClientId
    epoch: Epoch
    position: Mapping[BrokerId, int]
    ahead: tuple[EventId, ...] = ()
    left: bool = False
    session: object | None = None
    """With `left`: what was lent, as the client left it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall(Message):
    """Home broker -> visited broker: the client is elsewhere now, say how far it read and forget it."""

    client: ClientId
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSubscription(Message):
    """Visited broker -> home broker: the client subscribes (or not, if not `wanted`) from where it is."""

    carries: ClassVar[str] = "filter"
    client: ClientId
    epoch: Epoch
    filter: Filter
    wanted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(Message):
    """Visited broker -> home broker: the client has gone for good."""

    client: ClientId


# --- pro-active caching ([PRO] section 4.1) --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PassiveCopy(Message):
    """Serving broker -> neighbor: keep these subscriptions, the client may come to you (cases 1, 7)."""

    kind: ClassVar[str] = "context"
    carries: ClassVar[str] = "filters"
    client: ClientId
    epoch: Epoch
    filters: tuple[Filter, ...]
    session: object | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activate(Message):
    """Last broker -> neighbor: the client is gone, store what it has not read (case 2).

    `epoch` is the control attribute; `digest` names the subscriptions, so that an outdated copy is not
    activated.
    """

    client: ClientId
    epoch: Epoch
    digest: str
    position: Mapping[BrokerId, int]
    session: object | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated(Message):
    """Neighbor -> last broker: the copy stores from `fence` on (the acknowledgement of case 2)."""

    client: ClientId
    epoch: Epoch
    fence: Mapping[BrokerId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest(Message):
    """Neighbor -> last broker: there is no such copy here, send it before the client arrives."""

    client: ClientId
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded(Message):
    """Last broker -> neighbor: what the copy may have missed while it was activated. `last`: nothing follows."""

    kind: ClassVar[str] = "stored_event"
    carries: ClassVar[str] = "events"
    client: ClientId
    epoch: Epoch
    events: tuple[Event, ...]
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deactivate(Message):
    """Who had control -> neighbor: stop storing, keep the subscriptions for `heir` (cases 3 and 4)."""

    client: ClientId
    epoch: Epoch
    heir: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Message):
    """Who had control -> neighbor: forget the client (cases 4, 6, 8). `for_good`: whoever has control now."""

    client: ClientId
    epoch: Epoch
    for_good: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedHere(Message):
    """New broker -> last broker: I serve the client from the copy that you activated under `taken` (case 4)."""

    client: ClientId
    epoch: Epoch
    taken: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesLeft(Message):
    """Last broker -> new broker: these of your neighbors hold passive copies, which are yours now (case 4)."""

    client: ClientId
    epoch: Epoch
    at: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborList(Message):
    """Broker -> its neighbors: these are my neighbors now (section 4.1, case 4)."""

    carries: ClassVar[str] = "neighbors"
    neighbors: tuple[BrokerId, ...]


def kind_of(message: "Message | Event") -> str:
    """The traffic kind under which a message is counted."""
    return "event" if isinstance(message, Event) else message.traffic_kind
