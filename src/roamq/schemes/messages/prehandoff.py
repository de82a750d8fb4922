"""The messages of location-based pre-handoff ([PRE] section 4, Fig. 3), and eight more that make it exact and quick.

The paper's `Register` is no message between brokers: it is the client's connection and its location, which are inputs
of the broker. `Preforwarded`, `Prestored`, `Replaced` and `Handed` are ours (docs/decisions/0080), and so are `WasAway`
(0083), `AskExpected` and `StillExpected` (0085), and `LastRead` (0260).
Every message but `WasAway` names the connection that it is about (`epoch`) and the pre-handoff (`attempt`, counted by
ESi), so that the receiver knows a message that comes too late.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import HEADER_BYTES, Message, weight
from roamq.core.reading import AheadRows


@dataclass(frozen=True, slots=True, kw_only=True)
class PrehandoffMessage(Message):
    """Base of the messages about the virtual consumer of `client`, which is connected under `epoch` at the server that
    asked."""

    client: ClientId
    epoch: Epoch
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrehandoffRequest(PrehandoffMessage):
    """ESi -> ESe, Pre_handoffRequest: the client is in a border cell next to you (A1, a.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnablePrehandoff(PrehandoffMessage):
    """ESe -> ESi, Enable_prehandoff: send the subscriptions (A2, I.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preforward(PrehandoffMessage):
    """ESi -> ESe: SSUBQ, the subscriptions of the client (A1, a.2), and the client's speed, where ESi knows it."""

    kind: ClassVar[str] = "context"
    carries: ClassVar[str] = "filters"
    filters: tuple[Filter, ...]
    session: object | None = None
    speed_mps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreSubforward(PrehandoffMessage):
    """ESi -> ESe, Pre_Subforward: the client subscribed since (A1, b), or unsubscribed if not `wanted`."""

    kind: ClassVar[str] = "context"
    carries: ClassVar[str] = "filter"
    filter: Filter
    wanted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelPreforward(PrehandoffMessage):
    """ESi -> ESe, Cancel_Preforward: the client will not come, or has gone elsewhere (A1, else)."""


# --- ours --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Preforwarded(PrehandoffMessage):
    """ESe -> ESi: I have subscribed, and had seen `fence` then. `changes`: the number of sets of subscriptions so
    far."""

    fence: Mapping[BrokerId, int]
    changes: int
    takes_last_read: bool = False
    """Whether ESe knows `LastRead`, which servers of the release before do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prestored(PrehandoffMessage):
    """ESi -> ESe: the events that the client had not consumed when ESi had seen what ESe had seen when it
    subscribed."""

    kind: ClassVar[str] = "stored_event"
    carries: ClassVar[str] = "events"
    events: tuple[Event, ...]
    position: Mapping[BrokerId, int]
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced(PrehandoffMessage):
    """ESj -> ESi: the client is here under `successor`, in place of its virtual consumer.

    `whole`: the virtual consumer has all events. `asks`: the client did not show how far it had read. `digest` names
    the subscriptions of the virtual consumer, so that ESi can tell whether the virtual consumer knows all of them.
    """

    successor: Epoch
    whole: bool
    asks: bool
    digest: str
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed(PrehandoffMessage):
    """ESi -> ESj, which asks: of the events up to `reach`, the client has consumed all but those `held`.

    `fence` is what ESi has seen: some of it may still be on its way to ESj.
    """

    carries: ClassVar[str] = "held"
    successor: Epoch
    fence: Mapping[BrokerId, int]
    position: Mapping[BrokerId, int]
    reach: Mapping[BrokerId, int]
    held: tuple[EventId, ...]
    ahead: AheadRows = ()
    """The events that the client has read above the position: some of them may be above `reach`."""
    session: object | None = None
    """The session as the client left it: the one that `Preforward` brought is older."""
    unread: tuple[Event, ...] | None = None
    """The events of `held` themselves, where hand-overs do not wait for a broker that is out of reach: then ESj need
    not wait until it has seen what ESi had seen."""

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + sum(map(weight, self.held)) + sum(map(weight, self.unread or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRead(PrehandoffMessage):
    """ESi -> ESe, unasked: the connection `epoch` has ended, and the client had read what `Handed` would say.

    `changes` names the set of subscriptions; the other fields mean the same as in `Handed`.
    """

    carries: ClassVar[str] = "held"
    changes: int
    fence: Mapping[BrokerId, int]
    position: Mapping[BrokerId, int]
    reach: Mapping[BrokerId, int]
    held: tuple[EventId, ...]
    ahead: AheadRows = ()
    session: object | None = None
    unread: tuple[Event, ...] | None = None

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + sum(map(weight, self.held)) + sum(map(weight, self.unread or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskExpected(PrehandoffMessage):
    """ESe -> ESi: I have heard nothing of this client for a lease; shall I still expect it?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StillExpected(PrehandoffMessage):
    """ESi -> ESe: yes, still expect the client. ESi says no with `CancelPreforward`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasAway(Message):
    """ESi -> ESj: the client that is connected to you under `successor` was switched off before, so nobody saw how it
    came."""

    client: ClientId
    successor: Epoch
