"""The messages of pro-active caching ([PRO] section 4.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.reading import AheadRows


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
    """Last broker -> neighbor: the client is gone, store the events that it has not read (case 2).

    `epoch` is the control attribute; `digest` names the subscriptions, so that the neighbor does not activate an
    outdated copy.
    """

    client: ClientId
    epoch: Epoch
    digest: str
    position: Mapping[BrokerId, int]
    session: object | None = None
    ahead: AheadRows = ()
    """The events that the client has read above the position."""


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
    """Last broker -> neighbor: events that the copy may have missed before it was active. `last`: nothing follows."""

    kind: ClassVar[str] = "stored_event"
    carries: ClassVar[str] = "events"
    priced_as: ClassVar[str] = "forward"
    client: ClientId
    epoch: Epoch
    events: tuple[Event, ...]
    last: bool = False
    late: tuple[BrokerId, ...] = ()
    """In the last message: origins of which the last broker may still get events, and send them as `LateEvents`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deactivate(Message):
    """Broker that had control -> neighbor: stop storing, keep the subscriptions for `successor` (cases 3 and 4)."""

    client: ClientId
    epoch: Epoch
    successor: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Message):
    """Broker that had control -> neighbor: forget the client (cases 4, 6, 8). `for_good`: even if another one has
    control."""

    client: ClientId
    epoch: Epoch
    for_good: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedHere(Message):
    """New broker -> last broker: I serve the client from the copy that you activated under `taken` (case 4)."""

    client: ClientId
    epoch: Epoch
    taken: Epoch
    takes_late: bool = False
    """Whether the new broker knows `LateEvents`, which brokers of the release before do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesLeft(Message):
    """Last broker -> new broker: these of your neighbors hold passive copies, which are yours now (case 4)."""

    client: ClientId
    epoch: Epoch
    at: tuple[BrokerId, ...]
