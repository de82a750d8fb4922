"""The subscriptions a broker has collected: those of its region and those it learned from other brokers.

Brokers "exchange their subscriptions when they can communicate" ([DRIP] section V-B2). Every change gets a
revision, so that a contact carries only what changed since the last one with the same peer.
"""

from collections.abc import Iterator
from enum import Enum

from roamq.core.events import Event
from roamq.core.matching import MatchIndex
from roamq.manet.messages import Interest, NodeId


class News(Enum):
    """What an interest told a table."""

    NOTHING = "nothing"
    MOVED = "moved"
    """The same conditions, near other brokers."""
    CONDITIONS = "conditions"
    """A new subscriber, or new conditions of a known one."""


class SubscriptionTable:
    """Interests by subscriber, the newest of each; insertion order is the order of revisions."""

    def __init__(self) -> None:
        self.revision = 0
        self._interests: dict[NodeId, tuple[int, Interest, NodeId | None]] = {}
        self._index: MatchIndex[NodeId] = MatchIndex()

    def learn(self, interest: Interest, source: NodeId | None = None) -> News:
        """`source` is the broker that told us, None for the subscriber itself."""
        known = self._interests.get(interest.subscriber)
        if known is not None and known[1].sequence >= interest.sequence:
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

    def news_for(self, peer: NodeId, revision: int) -> tuple[Interest, ...]:
        """What changed after `revision` and did not come from the peer itself, newest first."""
        changed = []
        for number, interest, source in reversed(self._interests.values()):
            if number <= revision:
                break
            if source != peer:
                changed.append(interest)
        return tuple(changed)

    def interested(self, event: Event) -> list[Interest]:
        """Who wants the event. A node needs no message about what it detected itself."""
        subscribers = self._index.match(event)
        return [self._interests[node][1] for node in subscribers if name_of(node) != event.publisher]

    def __iter__(self) -> Iterator[Interest]:
        return (interest for _, interest, _ in self._interests.values())

    def __len__(self) -> int:
        return len(self._interests)


def wants(interest: Interest, event: Event) -> bool:
    if event.publisher == name_of(interest.subscriber):
        return False
    return any(condition.matches(event) for condition in interest.filters)


def name_of(node: NodeId) -> str:
    """A node's name in events and records."""
    return f"n{node}"
