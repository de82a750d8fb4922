"""Sessions and stores that are nearly full, here or elsewhere: brokers refuse messages for them where they enter.

The upper eighth of a session's bound and of the store's is kept for messages on their way (`Room.reserve_bytes`). The
broker stores the first message from another broker that lands in it, and tells its origin not to take more for that
session: the origin answers such a PUBLISH of QoS 1 or 2 with 0x97 until the broker tells it that there is room again.
So a broker drops an acknowledged message only if the reserve does not take what one origin sends in the time of a round
trip.

A group passes over a member that has no room while another member has room.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from roamq.broker.contexts import Contexts
from roamq.core.context import Context
from roamq.core.events import BrokerId, ClientId, Event, Seconds
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.core.messages import Message
from roamq.net.host import LiveHost
from roamq.net.links.others import OtherBrokers
from roamq.net.topics.shared import SharedGroups

FULL_TIMER: Final = "full"
LOOK_S: Final = 0.5
"""Seconds after which a broker that told others looks whether there is room again."""
RENEW_S: Final = 10.0
LEASE_S: Final = 30.0
"""Seconds for which an origin goes by what it was told: a broker that is gone does not stop it for ever."""
FILTERS_MAX: Final = 1000
"""The number of filters that one origin hears of for one session or store; instead of more it hears of all topics."""
STORE: Final = ClientId("")
"""Stands for all clients of a broker: its store is nearly full."""
_EVERYTHING: Final = Filter("#")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom(Message):
    """Broker -> origin: take no message of QoS 1 or 2 for this session, or for this store, until there is room."""

    client: ClientId
    filters: tuple[Filter, ...] = ()
    """The filters by which messages would come for the session; none in a reminder."""
    lasts: bool = True
    """False: there is room again."""


class Crowded(NamedTuple):
    """The filters for which another broker has no room, and the time by which it must have reminded this one."""

    filters: dict[Filter, None]
    until: Seconds


class Told:
    """The origins that this broker told that one of its sessions, or its store, is nearly full."""

    __slots__ = ("at", "origins")

    def __init__(self, at: Seconds) -> None:
        self.at = at
        """The time at which this broker told them last."""
        self.origins: dict[BrokerId, dict[Filter, None]] = {}


class Fullness:
    """Tells origins of nearly full sessions and stores here, and knows of those at other brokers."""

    def __init__(
        self, host: LiveHost, contexts: Contexts, groups: SharedGroups, others: OtherBrokers
    ) -> None:
        self._host = host
        self._contexts = contexts
        self._groups = groups
        self._others = others
        self._told: dict[Context | None, Told] = {}
        """Nearly full context, or None for the store -> the origins that were told."""
        self.elsewhere: dict[tuple[BrokerId, ClientId], Crowded] = {}
        """Broker and client -> what that broker told this one of the client; `refuses` may say yes only while there is
        an entry."""
        self._index: MatchIndex[tuple[BrokerId, ClientId]] = MatchIndex()

    # --- here ---------------------------------------------------------------------------------------------

    def look(self, crowded: Iterable[tuple[Context | None, Event]]) -> None:
        """Events have come for contexts that are nearly full: tell the origins of the events."""
        for context, event in crowded:
            origin = event.id[0]
            told = self._told.get(context)
            if told is None:
                if not self._told:
                    self._host.set_timer((FULL_TIMER, ""), LOOK_S)
                told = self._told[context] = Told(self._host.time)
            known = told.origins.setdefault(origin, {})
            if not any(filter.matches(event) for filter in known):
                self._tell_of(context, event, origin, known)

    def _tell_of(
        self, context: Context | None, event: Event, origin: BrokerId, known: dict[Filter, None]
    ) -> None:
        filter = _asked_for(context, event)
        if filter is None or (origin == self._host.me and filter.group is None):
            return  # `Contexts.full_for` knows better
        if len(known) >= FILTERS_MAX:
            filter = _EVERYTHING
        known[filter] = None
        client = STORE if context is None else context.client
        self._tell(origin, NoRoom(client=client, filters=(filter,)))

    def _tell(self, origin: BrokerId, news: NoRoom) -> None:
        if origin == self._host.me:
            self.on_no_room(origin, news)
        else:
            self._others.tell(origin, news)

    def on_timer(self, _: ClientId) -> None:
        """Tell origins where there is room again, and remind those that were told long ago."""
        now = self._host.time
        for context, told in list(self._told.items()):
            client = STORE if context is None else context.client
            if self._contexts.room.has_room_again(context):
                del self._told[context]
                news = NoRoom(client=client, lasts=False)
            elif now - told.at >= RENEW_S:
                told.at = now
                news = NoRoom(client=client)
            else:
                continue
            for origin in told.origins:
                self._tell(origin, news)
        if self._told:
            self._host.set_timer((FULL_TIMER, ""), LOOK_S)

    # --- elsewhere ----------------------------------------------------------------------------------------

    def on_no_room(self, sender: BrokerId, message: NoRoom) -> None:
        key = (sender, message.client)
        known = self.elsewhere.get(key)
        if not message.lasts:
            self._forget(key)
            return
        if known is None and not message.filters:
            return  # a reminder of news that this broker has forgotten: it hears the news again when it matters
        filters = {} if known is None else known.filters
        for filter in message.filters:
            if filter not in filters:
                filters[filter] = None
                if filter.group is None:
                    self._index.add(key, filter)
                else:
                    self._groups.set_full(str(filter), message.client, is_full=True)
        self.elsewhere[key] = Crowded(filters, self._host.time + LEASE_S)

    def refuses(self, event: Event) -> bool:
        """Whether a subscriber has no room for an event that would enter at this broker."""
        now = self._host.time
        for key in [key for key, crowded in self.elsewhere.items() if crowded.until <= now]:
            self._forget(key)
        return any(True for _ in self._index.match(event)) or self._groups.is_full_for(event)

    def _forget(self, key: tuple[BrokerId, ClientId]) -> None:
        crowded = self.elsewhere.pop(key, None)
        for filter in () if crowded is None else crowded.filters:
            if filter.group is None:
                self._index.remove(key, filter)
            else:
                self._groups.set_full(str(filter), key[1], is_full=False)


def _asked_for(context: Context | None, event: Event) -> Filter | None:
    """A filter of the context by which the event came; for the store, the topic of the event."""
    if context is None:
        return Filter(event.topic)
    for filter in context.filters:
        if filter.group is None:
            if not event.is_handed_on and filter.matches(event):
                return filter
        elif (event.assigned or {}).get(str(filter)) == context.client:
            return filter
    return None
