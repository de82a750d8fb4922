"""The messages of the home broker ([DIS] section 3.2.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Visiting(Message):
    """Visited broker -> home broker: the client is here, forward its events."""

    client: ClientId
    epoch: Epoch
    visited: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome(Message):
    """Home broker -> visited broker: the client's events follow; `session` is lent until the client leaves."""

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
    """Visited broker -> home broker: how far the client has read; `left`: the client is gone from here.

    `ahead` are events that the client acknowledged before earlier ones, which the position cannot tell.
    """

    client: ClientId
    epoch: Epoch
    position: Mapping[BrokerId, int]
    ahead: tuple[EventId, ...] = ()
    left: bool = False
    session: object | None = None
    """With `left`: the session that was lent, as the client left it."""
    brought: tuple[Event, ...] = ()
    """With `left`: events that only the visited broker gave the client, and that the client has not consumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall(Message):
    """Home broker -> visited broker: the client is elsewhere now, say how far it read and forget the client."""

    client: ClientId
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSubscription(Message):
    """Visited broker -> home broker: the client, which is here, subscribes (or unsubscribes, if not `wanted`)."""

    carries: ClassVar[str] = "filter"
    client: ClientId
    epoch: Epoch
    filter: Filter
    wanted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(Message):
    """Visited broker -> home broker: the client has gone for good."""

    client: ClientId
    epoch: Epoch
    """The epoch of the connection at the visited broker. A connection that the client has made elsewhere since goes
    on."""
    welcomed: bool
    """Whether the home broker had lent the session to the visited broker, which then has seen to its end."""
    reach: Mapping[BrokerId, int] = field(default_factory=dict)
    """Origin -> the last event that was forwarded to the visited broker: the home broker sees to later ones."""
