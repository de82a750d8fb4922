"""The tables that all brokers have - who is where, who shares what, what is retained - for a neighbour that has not.

The neighbours of a broker that begins anew, with an empty folder or an old one, tell it these tables. The broker merges
the entries by what is newer, so it may hear them several times and in any order.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeVar

from roamq.broker.broker import Broker
from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import Message, MessageSource, Routed
from roamq.core.ports import Host
from roamq.net.links.others import OtherBrokers
from roamq.net.links.outboxes import EVERYTHING
from roamq.net.topics.directory import Directory
from roamq.net.topics.retained import RetainedMessages, Search
from roamq.net.topics.shared import GroupPlace, SharedGroups

T = TypeVar("T")

SLICE: Final = 200
"""The number of entries that one message has at most."""
TOLD_TIMER: Final = "told"
"""The timer of a broker that has heard only from neighbours which begin anew as well."""
TOLD_AFTER_S: Final = 5.0
"""Seconds that a broker waits for a neighbour that knows more; the others may be down, or the network may be young."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesWanted(Message):
    """Broker that begins anew -> neighbour: tell me the tables.

    Or, from a broker that has cut a neighbour off: call your roll for the brokers `roll_for`, and tell me when you
    have.
    """

    roll_for: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesTold(Message):
    """Broker -> neighbour that begins anew: a part of the tables."""

    connections: tuple[Any, ...] = ()
    """Rows of client, epoch of its newest connection, home and user."""
    places: tuple[GroupPlace, ...] = ()
    retained: tuple[Event, ...] = ()
    ended: tuple[Any, ...] = ()
    """Pairs of client and epoch, of sessions that are over."""
    is_all: bool = False
    """Whether this was the last part."""
    is_anew: bool = False
    """Whether the sender begins anew itself, and has not been told: it may know little, and tells again when it knows
    more."""
    roll: Epoch | None = None
    """In a part of a roll call: the moment up to which the sender speaks for its own sessions and places."""
    since: float = 0.0
    """The time at which the life of the sender began: it knows nothing of what was before."""
    part: int = 0
    """The number of the part, from 1 on."""


class RetainedForOne(MessageSource):
    """The events that are retained now, for one broker; later events reach that broker by themselves."""

    __slots__ = ("_host", "_me", "_search", "_to")

    def __init__(self, host: Host, me: BrokerId, to: BrokerId, search: Search) -> None:
        self._host = host
        self._me = me
        self._to = to
        self._search = search

    def next_message(self) -> Message | None:
        if self._search.is_over:
            return None
        events, _ = self._search.go_on(self._host.now(), SLICE)
        if not events and self._search.is_over:
            return None
        return Routed(to=self._to, sender=self._me, message=TablesTold(retained=tuple(events)))


class Tables:
    """The tables of one broker that all brokers have."""

    def __init__(
        self,
        broker: Broker,
        directory: Directory,
        groups: SharedGroups,
        retained: RetainedMessages,
        others: OtherBrokers,
        since: float = 0.0,
    ) -> None:
        self._broker = broker
        self._directory = directory
        self._groups = groups
        self._retained = retained
        self._others = others
        self.is_told = False
        """Whether this broker has been told in this life: by a neighbour that was told itself; or, in the core, by all
        other brokers of the core; or no neighbour that was told has come for a while."""
        self._told_by: set[BrokerId] = set()
        """Neighbours that have told all that they know, and were not told themselves."""
        self._to_tell: set[BrokerId] = set()
        """Neighbours that this broker told before it was told itself: it tells them again when it knows more."""
        self.since = since
        """The time at which this life began, or at which this broker forgot something."""

    def tell(self, neighbour: BrokerId) -> None:
        """Tell the tables to a neighbour that has forgotten them."""
        for connections in _slices((client, *entry) for client, entry in self._directory.items()):
            self._others.tell(neighbour, TablesTold(connections=connections))
        for places in _slices(self._groups.all_places()):
            self._others.tell(neighbour, TablesTold(places=places))
        self._broker.host.send_each(
            self._broker.router.next_hop(neighbour),
            RetainedForOne(self._broker.host, self._broker.me, neighbour, self._retained.search(Filter("#"))),
        )
        self._others.tell(neighbour, TablesTold(is_all=True, is_anew=self._is_anew))
        if self._is_anew:
            self._to_tell.add(neighbour)

    def tell_retained(self, topics: Collection[str]) -> None:
        """Tell all brokers what is retained, or was cleared, of topics of which some broker has missed an event."""
        if EVERYTHING in topics:
            topics = self._retained.topics()
        found = (event for topic in topics if (event := self._retained.last_of(topic)) is not None)
        for retained in _slices(found):
            self._others.tell_all(TablesTold(retained=retained))

    def tell_own(self, newcomer: BrokerId) -> None:
        """Tell a newcomer what this broker told all others before, perhaps without knowing of the newcomer."""
        me, tell = self._broker.me, self._others.tell
        rows = ((client, *entry) for client, entry in self._directory.items() if entry.epoch.broker == me)
        for connections in _slices(rows):
            tell(newcomer, TablesTold(connections=connections))
        for ended in _slices(pair for pair in self._directory.ended() if pair[1].broker == me):
            tell(newcomer, TablesTold(ended=ended))
        for places in _slices(place for place in self._groups.all_places() if place.epoch.broker == me):
            tell(newcomer, TablesTold(places=places))

    def call_roll(self, to: BrokerId) -> None:
        """Tell a broker that has missed news which sessions are here, and which places in groups. All others that it
        believes to be here are not here any more (`roll_calls.py`)."""
        me, roll = self._broker.me, self._broker.contexts.new_epoch()
        rows = ((client, *entry) for client, entry in self._directory.items() if entry.epoch.broker == me)
        ours = (place for place in self._groups.all_places() if place.epoch.broker == me)
        parts = [TablesTold(connections=connections) for connections in _slices(rows)]
        parts += [TablesTold(places=places) for places in _slices(ours)]
        parts.append(TablesTold(is_all=True))
        for number, part in enumerate(parts, 1):
            self._others.tell(to, replace(part, roll=roll, since=self.since, part=number))

    def ask(self, neighbour: BrokerId) -> None:
        self._others.tell(neighbour, TablesWanted())

    def on_wanted(self, sender: BrokerId, message: TablesWanted) -> None:
        if not message.roll_for:
            self.tell(sender)
            return
        for broker in message.roll_for:
            if broker != self._broker.me:
                self.call_roll(broker)
        self._others.tell(sender, TablesTold(is_all=True, is_anew=self._is_anew))

    def on_told(self, sender: BrokerId, message: TablesTold) -> None:
        """Learn all but the connections, which `Sessions.hear` learns."""
        for client, epoch in message.ended:
            self._directory.forget(ClientId(client), epoch)
        for place in message.places:
            self._groups.learn(place)
        for event in message.retained:
            self._retained.observe(event)
        if not self.is_told and message.is_all and message.roll is None:
            self._told_all(sender, message.is_anew)

    def _told_all(self, neighbour: BrokerId, is_anew: bool) -> None:
        if is_anew:
            self._told_by.add(neighbour)
            self._broker.host.set_timer((TOLD_TIMER,), TOLD_AFTER_S)
        if not is_anew or (self._others.is_core and self._others.neighbours_of_core <= self._told_by):
            self.count_as_told()

    @property
    def _is_anew(self) -> bool:
        """Whether others may know what this broker has not been told; a broker that is the whole core knows all."""
        return not self.is_told and bool(self._others.neighbours_of_core)

    def count_as_told(self) -> None:
        """This broker counts as told: tell again the neighbours that it told while it knew less."""
        if not self.is_told:
            self.is_told = True
            self._broker.host.cancel_timer((TOLD_TIMER,))
            for neighbour in sorted(self._to_tell):
                if not self._broker.router.is_departed(neighbour):
                    self.tell(neighbour)
            self._to_tell.clear()


def _slices(entries: Iterator[T]) -> Iterator[tuple[T, ...]]:
    while found := tuple(islice(entries, SLICE)):
        yield found
