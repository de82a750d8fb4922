"""Shared subscriptions: of each group `$share/GROUP/FILTER`, one member in the whole network gets an event.

A place in a group is a filter of the member's context, so it moves wherever the context moves. Every broker knows the
members of every group. The broker where an event enters assigns the event to the member whose turn it is and writes the
member into the event, so no two brokers can disagree; the context of that member stores the event, at whatever broker
it is.

While the news of members travels, a broker may assign an event to a member that has left, or to no member. One broker
then hands the event on, as an event of its own for that group alone:

    assigned to a member whose place ended at this broker    this broker hands it on to another member
    from a broker that did not know the group                the broker that has the context of the oldest member
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

from roamq.core.context import Epoch
from roamq.core.events import ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.core.messages import Message

K = TypeVar("K")
V = TypeVar("V")

GroupKey = str
"""The text of the group's filter, `$share/GROUP/FILTER` with the selector if there is one."""
REMEMBERED_MAX = 10_000
"""The number of ended places, and of other entries of each kind, that a broker remembers."""
KEY_CHARACTERS_MAX = 256
"""The length above which a broker remembers a digest in place of the text of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace(Message):
    """Broker -> all others: what has become of a client's place in a shared group."""

    filter: Filter
    client: ClientId
    epoch: Epoch
    """The connection on which the client did so: brokers ignore news of an older one."""
    since: float
    """The time at which the client took the place."""
    connected: bool | None
    """The member is connected (True), is away (False), or has left the group (None)."""


class Group:
    """One group with one filter."""

    __slots__ = ("filter", "order", "places", "turn")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.places: dict[ClientId, GroupPlace] = {}
        self.order: tuple[ClientId, ...] = ()
        """The members that take turns: the connected ones, or all if none is connected; those without room only if no
        member has any."""
        self.turn = 0

    def changed(self, full: Collection[ClientId] = ()) -> None:
        """Find out which members take turns; `full` are members that have no room."""
        able = [client for client in self.places if client not in full] or list(self.places)
        present = sorted(client for client in able if self.places[client].connected)
        self.order = tuple(present or sorted(able))

    def next(self) -> ClientId:
        self.turn += 1
        return self.order[self.turn % len(self.order)]

    def oldest(self) -> ClientId:
        """The member that has been in the group longest."""
        return min(self.places.values(), key=lambda place: (place.since, place.client)).client


class SharedGroups:
    """All groups of the network, seen from one broker."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Group] = {}
        self._index: MatchIndex[GroupKey] = MatchIndex()
        self._ended: dict[tuple[GroupKey, ClientId], Epoch] = {}
        """Ended place -> the connection on which it ended: news of older connections may still be on its way."""
        self._ended_here: dict[tuple[GroupKey, ClientId], None] = {}
        """Places that ended at this broker: events for them may be on their way."""
        self._full: dict[tuple[GroupKey, ClientId], None] = {}
        """Members that have no room: their groups pass over them while another member has room."""
        self._handed_on: dict[tuple[GroupKey, EventId], None] = {}
        """Events that this broker has handed on: they may come here on more than one way."""

    def __len__(self) -> int:
        return len(self.groups)

    # --- members ------------------------------------------------------------------------------------------

    def learn(self, news: GroupPlace, *, is_here: bool = False) -> bool:
        """Note what has become of a place; False if it is no news. `is_here`: the place changed at this broker."""
        key, client = str(news.filter), news.client
        group = self.groups.get(key)
        known = None if group is None else group.places.get(client)
        mark = _mark(key, client)
        ended = self._ended.get(mark)
        if (known is not None and news.epoch < known.epoch) or (ended is not None and news.epoch < ended):
            return False
        if known == news or (known is None and news.connected is None):
            return False
        if group is None:
            group = self.groups[key] = Group(news.filter)
            self._index.add(key, news.filter)
        if news.connected is None:
            del group.places[client]
            _remember(self._ended, mark, news.epoch)
            if is_here:
                _remember(self._ended_here, mark, None)
            if not group.places:
                del self.groups[key]
                self._index.remove(key, news.filter)
        else:
            group.places[client] = news
            self._ended.pop(mark, None)
            self._ended_here.pop(mark, None)
        self._changed(key, group)
        return True

    def _changed(self, key: GroupKey, group: Group) -> None:
        full = self._full
        group.changed({client for client in group.places if _mark(key, client) in full} if full else ())

    def set_full(self, key: GroupKey, client: ClientId, *, is_full: bool) -> None:
        """A member has no room for more events, or has room again."""
        if is_full:
            _remember(self._full, _mark(key, client), None)
        else:
            self._full.pop(_mark(key, client), None)
        if (group := self.groups.get(key)) is not None:
            self._changed(key, group)

    def is_full_for(self, event: Event) -> bool:
        """Whether the event is for a group in which no member has room."""
        if not self._full:
            return False
        return any(
            all(_mark(key, client) in self._full for client in self.groups[key].places)
            for key in self.matching(event)
        )

    def note_ended_here(self, filter: Filter, client: ClientId) -> GroupPlace | None:
        """Another broker says that a place at this broker has ended. Returns the news of it, for all brokers.

        None if the client has taken the place again since.
        """
        key = _mark(str(filter), client)
        if self.place(filter, client) is not None:
            return None
        _remember(self._ended_here, key, None)
        epoch = self._ended.get(key)
        if epoch is None:
            return None
        return GroupPlace(filter=filter, client=client, epoch=epoch, since=0.0, connected=None)

    def place(self, filter: Filter, client: ClientId) -> GroupPlace | None:
        group = self.groups.get(str(filter))
        return None if group is None else group.places.get(client)

    def places_of(self, client: ClientId) -> list[GroupPlace]:
        return [group.places[client] for group in self.groups.values() if client in group.places]

    # --- whose turn it is ---------------------------------------------------------------------------------

    def matching(self, event: Event) -> tuple[GroupKey, ...]:
        return self._index.found(event)

    def assign(self, event: Event) -> Mapping[GroupKey, ClientId] | None:
        """The member of each group whose turn it is, for an event that enters at this broker."""
        assigned = {key: self.groups[key].next() for key in self.matching(event)}
        return assigned or None

    def next_member(self, key: GroupKey) -> ClientId | None:
        """The member whose turn it is, if the group has any."""
        group = self.groups.get(key)
        return None if group is None else group.next()

    def left_over(self, event: Event) -> Iterator[tuple[GroupKey, ClientId | None]]:
        """The groups in which no member gets an event from elsewhere unless a broker sees to it.

        With None, the place to which the event was assigned ended here; with a member, the broker of that member sees
        to it.
        """
        assigned = event.assigned or {}
        for key, client in assigned.items():
            if _mark(key, client) in self._ended_here and self.note_handed_on(key, event):
                yield key, None
        if not event.is_handed_on:
            for key in self.matching(event):
                if key not in assigned:
                    yield key, self.groups[key].oldest()

    def comes_too_late(self, event: Event, client: ClientId, is_forwarded: bool) -> Iterator[GroupKey]:
        """The groups in which the event was assigned to the client, but the client left before the event came.

        The caller hands the event on to another member of each of them, once, even if the event comes here a second
        time on another way. If the client's place was at another broker, that broker hands on events that pass there
        after the client left; this broker hands on events that the other one had forwarded to it before.
        """
        for key, member in (event.assigned or {}).items():
            has_left = _mark(key, client) in self._ended_here or is_forwarded
            if member == client and has_left and self.note_handed_on(key, event):
                yield key

    def note_handed_on(self, key: GroupKey, event: Event) -> bool:
        """Note that this broker hands an event on to another member; False if it has done so before."""
        mark = _mark(key, event.id)
        if mark in self._handed_on:
            return False
        _remember(self._handed_on, mark, None)
        return True

    def all_places(self) -> Iterator[GroupPlace]:
        for group in self.groups.values():
            yield from group.places.values()


def _mark(key: GroupKey, what: K) -> tuple[GroupKey, K]:
    """The key by which a broker remembers a client or an event in a group: short, since nobody is charged for it."""
    if len(key) > KEY_CHARACTERS_MAX:
        key = blake2b(key.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return key, what


def _remember(entries: dict[K, V], key: K, value: V) -> None:
    """Enter a value; if there are too many entries, remove the oldest."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > REMEMBERED_MAX:
        del entries[next(iter(entries))]
