"""Messages that a broker need not keep for a neighbour that is cut off: it can tell them again when that one is back.

    subscriptions       the broker tells all that are valid then, as a whole (`ByInterest.tell_again`)
    news                of sessions and places in shared groups: its sender calls its roll (`Tables.call_roll`)
    the latest          of markers and the like stands for those before it: it waits apart, and follows the rest
    questions           the asking broker has gone on without an answer

Everything else is kept: the messages of exchanges, for each of which somebody waits. Messages to a broker that begins
anew, or has missed something, are kept as well but do not count, or telling that broker might cut it off again.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from roamq.core.events import BrokerId
from roamq.core.messages import Message, Routed
from roamq.net.clients.visitors import ConfirmVisitor, VisitorConfirmed
from roamq.net.links.members import Farewell
from roamq.net.topics.directory import Ended, Known, Serving, WhoServes
from roamq.net.topics.fullness import NoRoom
from roamq.net.topics.shared import GroupPlace
from roamq.net.topics.tables import TablesTold, TablesWanted
from roamq.overlay.messages import (
    Echo,
    MarkAgain,
    Marker,
    RoutingTold,
    StoreLost,
    SubscribeFrom,
    UnsubscribeFrom,
)
from roamq.schemes.messages.classes import Classed
from roamq.schemes.messages.neighbors import NeighborList


class LeftOut(NamedTuple):
    """A message that a broker need not keep for a neighbour that is cut off, and what the broker does instead."""

    news: tuple[BrokerId, BrokerId] | None = None
    """The sender and the receiver of news: the sender calls its roll for the receiver."""
    latest: str | None = None
    """A name for the series of which this message is the latest."""
    by: BrokerId | None = None
    """The sender of a marker. The marker must not come before messages that its sender sent before it."""
    is_kept: bool = False
    """Whether the message is kept nevertheless."""
    is_free: bool = False
    """Whether the message does not count against the bound."""


_SUBSCRIPTIONS: Final = frozenset((SubscribeFrom, UnsubscribeFrom, RoutingTold))
_NEWS: Final = frozenset((Serving, Ended, GroupPlace))
_QUESTIONS: Final = frozenset((WhoServes, Known, ConfirmVisitor, VisitorConfirmed))
_NOTHING: Final = LeftOut()
_TABLES: Final = LeftOut(is_kept=True, is_free=True)

_LATEST: Final[dict[type[Message], Callable[[Any], LeftOut]]] = {
    Marker: lambda m: LeftOut(latest=f"marker {m.by} {m.peer} {' '.join(sorted(m.targets))}", by=m.by),
    Echo: lambda m: LeftOut(latest=f"echo {m.to} {m.by} {m.at}"),
    MarkAgain: lambda m: LeftOut(latest=f"again {m.to} {m.peer} {' '.join(sorted(m.at))}"),
    StoreLost: lambda m: LeftOut(latest=f"lost {m.by}"),
}


def left_out(message: Message) -> LeftOut | None:
    """What this broker does with a message for a neighbour that is cut off; None: it keeps the message like any
    other."""
    kind = message.__class__
    if kind is Routed:
        assert isinstance(message, Routed)
        return _routed(message, message.message)
    if kind in _SUBSCRIPTIONS:
        return _NOTHING
    latest = _LATEST.get(kind)
    return None if latest is None else latest(message)


def _routed(message: Routed, inner: Message) -> LeftOut | None:
    kind = inner.__class__
    if kind in _NEWS:
        return LeftOut(news=(message.sender, message.to))
    if isinstance(inner, TablesTold) and inner.roll is not None:
        return LeftOut(news=(message.sender, message.to), is_free=True)
    if kind is TablesTold or kind is TablesWanted:
        return _TABLES
    if kind in _QUESTIONS:
        return _NOTHING
    way = f"{message.sender} {message.to}"
    if isinstance(inner, NoRoom):
        filters = " ".join(map(str, inner.filters))
        return LeftOut(latest=f"room {way} {inner.lasts} {inner.client} {filters}")
    if kind is Farewell:
        return LeftOut(latest=f"farewell {way}")
    if kind is NeighborList:
        return LeftOut(latest=f"neighbors {way}")
    if isinstance(inner, Classed) and inner.message.__class__ is NeighborList:
        return LeftOut(latest=f"neighbors {way} {inner.scheme}")
    return None
