"""The messages of the standard hand-over ([DIS] section 3.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.reading import AheadRows


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest(Message):
    """New broker -> old broker: the client is here, send its subscriptions (step 2).

    `of`, where the old broker had pushed the context on: the epoch of that context, for the broker that has the copy.
    """

    client: ClientId
    epoch: Epoch
    new_broker: BrokerId
    of: Epoch | None = None
    after: Epoch | None = None
    """The connection to which the claim was redirected. Brokers redirect it to later ones only, so it never goes
    round."""
    takes_late: bool = False
    """Whether the new broker knows `LateEvents`, which brokers of the release before do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriptions(Message):
    """Old broker -> new broker: the filters to which the client has subscribed (step 2)."""

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
    """Old broker -> new broker: I keep nothing for this client.

    `newer`: the context went to a later connection of the client than the one that asks.
    """

    client: ClientId
    epoch: Epoch
    newer: Epoch | None = None
    forgot: bool = False
    """Whether the old broker may have known in an earlier life where the context is."""
    is_given: bool = False
    """Whether the context went to the connection that asks, because its claim came by another way, too."""
    awaits: bool = False
    """Whether the later connection waits for the context itself: nobody knows that the context went there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoHolds(Message):
    """New broker -> every other, when the old one has forgotten: where is the client's context that `epoch` claims?"""

    client: ClientId
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding(Message):
    """The answer to `WhoHolds`: the broker to ask for the context (`at`), or the later connection to which it went
    (`newer`)."""

    client: ClientId
    epoch: Epoch
    at: BrokerId | None = None
    newer: Epoch | None = None
    of: Epoch | None = None
    """The epoch of the context at that broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialSession(Message):
    """Broker that steps aside -> broker of the later connection `epoch`: the session state that began here without
    the client's context."""

    client: ClientId
    epoch: Epoch
    session: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Message):
    """New broker -> old broker: I have subscribed, you may unsubscribe (step 3).

    `fence` says what the new broker had seen when it subscribed; the old one holds the context until it has seen as
    much (see overlay.base.Router.passed). No request comes before the release if the client brought its subscriptions
    along ([DIS] section 3.2.4); `of` is then as in `ContextRequest`.
    """

    client: ClientId
    epoch: Epoch
    new_broker: BrokerId
    fence: Mapping[BrokerId, int]
    of: Epoch | None = None
    after: Epoch | None = None
    """The connection to which the claim was redirected. Brokers redirect it to later ones only, so it never goes
    round."""
    takes_late: bool = False
    """Whether the new broker knows `LateEvents`, which brokers of the release before do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvents(Message):
    """Old broker -> new broker: the events stored for the client (step 5). `last`: nothing follows."""

    kind: ClassVar[str] = "stored_event"
    carries: ClassVar[str] = "events"
    priced_as: ClassVar[str] = "transfer"
    client: ClientId
    epoch: Epoch
    events: tuple[Event, ...]
    position: Mapping[BrokerId, int]
    last: bool = True
    session: object | None = None
    """The session state, if no `Subscriptions` brought it before."""
    ahead: AheadRows = ()
    """The events that the client has read above the position."""
    late: tuple[BrokerId, ...] = ()
    """Origins of which the old broker may still get events, and send them as `LateEvents`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateEvents(Message):
    """Old broker -> new broker, after `StoredEvents`: late events, and the origins of which no more come."""

    kind: ClassVar[str] = "stored_event"
    carries: ClassVar[str] = "events"
    priced_as: ClassVar[str] = "transfer"
    client: ClientId
    epoch: Epoch
    events: tuple[Event, ...]
    origins: tuple[BrokerId, ...] | None = None
    """The origins of which no more late events come. None: nothing comes at all; the old broker owes nothing, or has
    forgotten what it owed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLate(Message):
    """New broker -> old broker: do you still owe this client events?"""

    client: ClientId
    epoch: Epoch
    origins: tuple[BrokerId, ...] = ()
    """Brokers that joined later and that the old broker did not name: does it owe events of these origins, too?"""


HAND_OVER_MESSAGES: Final[frozenset[type[Message]]] = frozenset(
    {
        ContextRequest,
        Subscriptions,
        NoContext,
        WhoHolds,
        Holding,
        PartialSession,
        Release,
        StoredEvents,
        LateEvents,
        AskLate,
    }
)
"""All messages of the hand-over: schemes that share a broker share the hand-over."""
