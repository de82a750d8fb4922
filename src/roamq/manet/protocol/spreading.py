"""How events spread among brokers: the interface of such a strategy, and DRIP's multi-copy-multi-destination scheme.

Paper: [DRIP] section V-B2. The broker where an event is published is its source. The source gives copies to m nearby
brokers, the carriers. A carrier keeps its copy until it can talk to the destinations, which are the l nearest brokers
of every interested subscriber. A destination keeps its copy for the subscribers of its region and gives it to nobody.
Departs: the source fixes the destinations, from the subscriptions that it knows when the event is published
(docs/drip.md, choice 0093). The source, too, hands the event to the destinations that it meets.
With one destination for each subscriber, its own broker, the same scheme is Spray-and-Wait: m copies that wait.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from roamq.core.events import EventId, Seconds
from roamq.manet.protocol.messages import NodeId, Role
from roamq.manet.protocol.predictability import Predictabilities


class Spreading(Protocol):
    """Decides which of a broker's events go to which other broker. It sends nothing: the broker asks it."""

    @property
    def per_subscriber(self) -> int | None:
        """How many of a subscriber's nearest brokers are destinations of an event that it wants; None: all l."""

    @property
    def predictabilities(self) -> Predictabilities | None:
        """The predictabilities that brokers tell each other when they meet; None: this strategy needs none."""

    def met(self, peer: NodeId, theirs: Mapping[NodeId, float], me: NodeId, now: Seconds) -> None:
        """The broker `me` has met `peer`, which told its predictabilities."""

    def published(self, event: EventId, destinations: Iterable[NodeId]) -> None:
        """A node of this region published the event; `destinations` are the interested brokers other than this one."""

    def accepted(self, event: EventId, role: Role, destinations: Iterable[NodeId]) -> None:
        """Another broker handed the event to this one, which now has this role for it."""

    def has_work(self, peer: NodeId) -> bool:
        """Is there any event to offer to `peer`?"""

    def offers(self, peer: NodeId) -> list[tuple[EventId, Role]]:
        """The events to offer to `peer`, the oldest first, each with the role that the peer would have for it."""

    def destinations(self, event: EventId) -> frozenset[NodeId]:
        """The brokers that still need the event, for a carrier that gets a copy now."""

    def given(self, event: EventId, peer: NodeId, *, copied: bool) -> None:
        """`peer` has the event. `copied`: this broker gave it the copy just now; otherwise it had one already."""

    def unfinished(self, event: EventId) -> bool:
        """Would other brokers miss the event if this broker deleted it now?"""

    def discard(self, event: EventId) -> None:
        """The broker has deleted the event."""


class MultiCopyMultiDestination:
    """DRIP's scheme: copies for m carriers, and l destinations for each interested subscriber, or `per_subscriber`."""

    predictabilities = None

    def __init__(self, m: int, per_subscriber: int | None = None) -> None:
        self.m = m
        self.per_subscriber = per_subscriber
        self._to_find: dict[EventId, set[NodeId]] = {}
        self._copies_left: dict[EventId, int] = {}
        self._given: dict[EventId, set[NodeId]] = {}
        self._by_destination: dict[NodeId, dict[EventId, None]] = {}

    def met(self, peer: NodeId, theirs: Mapping[NodeId, float], me: NodeId, now: Seconds) -> None:
        """Does nothing: DRIP's brokers do not predict whom they will meet."""

    def published(self, event: EventId, destinations: Iterable[NodeId]) -> None:
        self._hold(event, destinations)
        if self._to_find.get(event):
            self._copies_left[event] = self.m

    def accepted(self, event: EventId, role: Role, destinations: Iterable[NodeId]) -> None:
        if role is Role.CARRIER:
            self._hold(event, destinations)

    def has_work(self, peer: NodeId) -> bool:
        if self._by_destination.get(peer):
            return True
        return any(peer not in self._given[event] for event in self._copies_left)

    def offers(self, peer: NodeId) -> list[tuple[EventId, Role]]:
        offered = dict.fromkeys(self._by_destination.get(peer, ()), Role.DESTINATION)
        for event in self._copies_left:
            if peer not in self._given[event]:
                offered[event] = Role.CARRIER
        return list(offered.items())

    def destinations(self, event: EventId) -> frozenset[NodeId]:
        return frozenset(self._to_find.get(event, ()))

    def given(self, event: EventId, peer: NodeId, *, copied: bool) -> None:
        if event not in self._to_find:
            return
        self._given[event].add(peer)
        if copied and event in self._copies_left:
            self._copies_left[event] -= 1
        self._to_find[event].discard(peer)
        self._by_destination.get(peer, {}).pop(event, None)
        if not self._to_find[event]:
            self.discard(event)  # every destination has the event, so nobody needs another copy
        elif self._copies_left.get(event) == 0:
            del self._copies_left[event]

    def unfinished(self, event: EventId) -> bool:
        return bool(self._to_find.get(event))

    def discard(self, event: EventId) -> None:
        for destination in self._to_find.pop(event, ()):
            self._by_destination[destination].pop(event, None)
        self._copies_left.pop(event, None)
        self._given.pop(event, None)

    def _hold(self, event: EventId, destinations: Iterable[NodeId]) -> None:
        self._to_find[event] = set(destinations)
        self._given[event] = set()
        for destination in sorted(self._to_find[event]):
            self._by_destination.setdefault(destination, {})[event] = None
