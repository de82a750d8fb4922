"""The subscriptions that a broker knows, from the nodes of its region and from other brokers.

Brokers "exchange their subscriptions when they can communicate" ([DRIP] section V-B2). The table numbers its changes
(the revision), so that a broker tells a peer only what has changed since it told this peer last.

A subscriber that vanishes must not stay a destination for ever, so an interest holds for `interest_ttl_s` from when its
subscriber registered it. Clocks are synchronized, so that all brokers forget it at the same time and none brings it
back to another one. What a subscriber takes back is an interest without filters; it ends the same way.
"""

from collections.abc import Iterator
from enum import Enum

from roamq.core.events import Event, Seconds
from roamq.core.matching import MatchIndex
from roamq.manet.protocol.messages import Interest, NodeId


class News(Enum):
    """What a table learned from an interest."""

    NOTHING = "nothing"
    MOVED = "moved"
    """The subscriber has the same filters as before, but other nearest brokers."""
    CONDITIONS = "conditions"
    """The subscriber is new, or has other filters than before."""


class SubscriptionTable:
    """The newest interest of each subscriber. They stand in the order of their revisions."""

    def __init__(self, ttl_s: Seconds) -> None:
        self.ttl_s = ttl_s
        self.revision = 0
        self._interests: dict[NodeId, tuple[int, Interest, NodeId | None]] = {}
        self._index: MatchIndex[NodeId] = MatchIndex()

    def learn(self, interest: Interest, now: Seconds, source: NodeId | None = None) -> News:
        """Put the interest in if it is newer. `source` is the broker that told it; None: the subscriber itself did."""
        known = self._interests.get(interest.subscriber)
        if self._is_over(interest, now) or (known is not None and known[1].sequence >= interest.sequence):
            return News.NOTHING
        self.revision += 1
        self._interests.pop(interest.subscriber, None)  # to the end: the newest revision comes last
        self._interests[interest.subscriber] = (self.revision, interest, source)
        if known is not None and known[1].filters == interest.filters:
            return News.MOVED
        for condition in known[1].filters if known is not None else ():
            self._index.remove(interest.subscriber, condition)
        for condition in interest.filters:
            self._index.add(interest.subscriber, condition)
        return News.CONDITIONS

    def forget_silent(self, now: Seconds) -> list[NodeId]:
        """Forget the interests that their subscribers have not registered again in time; returns the subscribers."""
        silent = [node for node, (_, known, _) in self._interests.items() if self._is_over(known, now)]
        for node in silent:
            _, interest, _ = self._interests.pop(node)
            for condition in interest.filters:
                self._index.remove(node, condition)
        return silent

    def _is_over(self, interest: Interest, now: Seconds) -> bool:
        return interest.registered_at + self.ttl_s < now

    def news_for(self, peer: NodeId, revision: int) -> tuple[Interest, ...]:
        """The interests that changed after `revision`, the newest first, without those that the peer itself told."""
        changed = []
        for number, interest, source in reversed(self._interests.values()):
            if number <= revision:
                break
            if source != peer:
                changed.append(interest)
        return tuple(changed)

    def knows(self, subscriber: NodeId) -> bool:
        return subscriber in self._interests

    def interested(self, event: Event) -> list[Interest]:
        """The interests that match the event. The publisher's own is left out: it knows the event."""
        subscribers = self._index.match(event)
        return [self._interests[node][1] for node in subscribers if name_of(node) != event.publisher]

    def __iter__(self) -> Iterator[Interest]:
        return (interest for _, interest, _ in self._interests.values())

    def __len__(self) -> int:
        return len(self._interests)


def wants(interest: Interest, event: Event) -> bool:
    """Does the subscriber want the event? It does not if it published the event itself."""
    if event.publisher == name_of(interest.subscriber):
        return False
    return any(condition.matches(event) for condition in interest.filters)


def name_of(node: NodeId) -> str:
    """The name of a node in events and records."""
    return f"n{node}"
