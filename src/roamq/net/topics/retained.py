"""Retained messages: the last event of each topic whose publisher asked to keep it (section 3.3.1.3).

Every broker sees every event of a flooded network, so each keeps the same table. Two events for one topic that enter at
different brokers are ordered by (time, origin, sequence), which all brokers see alike.

Topics are kept in a trie of their levels: a search looks only where its filter can match. A search may take long all
the same (`#` matches everything), so it can be interrupted and goes on later (`Search`).
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from roamq.core.events import BrokerId, ClientId, Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.core.topics import Levels
from roamq.net.ops.settings import Quotas
from roamq.net.topics.expiries import Expiries

_Order = tuple[float, str, int]

CLEARED_BYTES: Final = 400
"""The bytes that a remembered cleared topic costs, besides its name."""
CLEARED_SHARE: Final = 16
"""Cleared topics take at most the bytes that retained messages may take, divided by this number."""
THE_BROKER: Final = ClientId("\0")
"""The publisher of events below `$SYS`, where clients may not publish; no client has this name ([MQTT-1.5.4-2])."""
EXPIRED_AT_ONCE: Final = 64
"""The number of expired events that are removed when another event comes: many that expire together do not block the
broker."""


class TopicNode:
    """One level of the trie: the event of the topic that ends here, if one does, and the levels below."""

    __slots__ = ("below", "event", "number")

    def __init__(self) -> None:
        self.below: dict[str, TopicNode] = {}
        self.event: Event | None = None
        self.number = 0
        """The number of events retained up to this one."""


class Search:
    """A search for the events that a filter matches, as plain data: it may be stored, and goes on where it stopped.

    The search finds events that were retained when it began. A later event has reached the subscriber by itself.
    """

    __slots__ = ("_root", "filter", "number", "open")

    def __init__(self, filter: Filter, root: TopicNode, number: int) -> None:
        self.filter = filter
        self.number = number
        self._root = root
        self.open: list[tuple[list[TopicNode], int]] = [([root], 0)] if filter.satisfiable else []
        """Nodes at which the search still has to look, with the level of the filter that applies below them."""

    @property
    def is_over(self) -> bool:
        return not self.open

    def go_on(self, now: Seconds, steps: int) -> tuple[list[Event], int]:
        """Look at about `steps` nodes at most. Returns events that match, and the number of steps left."""
        levels, found = self.filter.levels, []
        while self.open and steps > 0:
            steps -= 1
            nodes, depth = self.open[-1]
            node = nodes.pop()
            if not nodes:
                self.open.pop()
            event = node.event
            ends_here = depth == len(levels) or levels[depth] == "#"
            if ends_here and event is not None and self._is_meant(event, node.number, now):
                found.append(event)
            if depth < len(levels) and node.below:
                steps -= self._descend(node, depth, levels) // 256
        return found, steps

    def _descend(self, node: TopicNode, depth: int, levels: Levels) -> int:
        """Note the nodes below that may match. Returns the number of nodes that were looked at."""
        level = levels[depth]
        if level not in ("+", "#"):
            found = node.below.get(level)
            if found is not None:
                self.open.append(([found], depth + 1))
            return 1
        following = depth if level == "#" else depth + 1
        below = list(node.below.values())
        if node is self._root:  # [MQTT-4.7.2-1]
            below = [child for name, child in node.below.items() if name[:1] != "$"]
        if below:
            self.open.append((below, following))
        return len(node.below)

    def _is_meant(self, event: Event, number: int, now: Seconds) -> bool:
        return number <= self.number and not event.expired(now) and self.filter.accepts(event)


class RetainedMessages:
    """Topic -> event, bounded in number and bytes, also for each publisher: an event that does not fit is not
    retained."""

    def __init__(
        self,
        count_max: int,
        bytes_max: int,
        count_per_client_max: int | None = None,
        bytes_per_client_max: int | None = None,
    ) -> None:
        self.bytes = 0
        self.refused = 0
        """The number of events that did not fit."""
        self._root = TopicNode()
        self._cleared: dict[str, _Order] = {}
        """Topic -> the order of the event that cleared it: an older event that comes late does not bring the topic
        back."""
        self._clearings: deque[tuple[str, _Order]] = deque()
        """The cleared topics in turn: the first is forgotten first. A topic may have been cleared again since."""
        self._cleared_bytes = 0
        self.set_bounds(count_max, bytes_max, count_per_client_max, bytes_per_client_max)
        self._count = 0
        self._number = 0
        self._counts: Counter[ClientId | None] = Counter()
        self._sizes: Counter[ClientId | None] = Counter()
        self._expiries: Expiries | None = None
        """The expiry times; None: still to be made from the events that are there."""

    def __len__(self) -> int:
        return self._count

    @property
    def cleared_bytes(self) -> int:
        """The bytes that the remembered cleared topics cost."""
        return self._cleared_bytes

    def set_bounds(
        self,
        count_max: int,
        bytes_max: int,
        count_per_client_max: int | None = None,
        bytes_per_client_max: int | None = None,
    ) -> None:
        """Set the bounds for events that come; events that are there already stay."""
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._count_per_client_max = count_max if count_per_client_max is None else count_per_client_max
        self._bytes_per_client_max = bytes_max if bytes_per_client_max is None else bytes_per_client_max

    def in_turn(self, event: Event) -> Event:
        """The event as it enters the network here: later than the last known event of its topic, whatever clocks say.

        A broker whose clock is ahead would otherwise have the last word until the other clocks have caught up.
        """
        last = self._last(event.topic)
        if last is None or last < (event.published_at, *event.id):
            return event
        return replace(event, published_at=last[0] + 1e-6)

    def _last(self, topic: str) -> _Order | None:
        """The order of the last event of a topic; that may be the event that cleared it."""
        before = self._find(topic)
        return (before.published_at, *before.id) if before is not None else self._cleared.get(topic)

    def topics(self) -> list[str]:
        """The topics that have a retained event, or are known to be cleared."""
        return [*(event.topic for event in self.events()), *self._cleared]

    def last_of(self, topic: str) -> Event | None:
        """The retained event of a topic, or an event like the one that cleared it."""
        before = self._find(topic)
        if before is not None or topic not in self._cleared:
            return before
        published_at, origin, sequence = self._cleared[topic]
        event_id = EventId(BrokerId(origin), sequence)
        return Event(id=event_id, topic=topic, payload=b"", published_at=published_at, retain=True)

    def observe(self, event: Event) -> None:
        """An event passed: retain it, or clear its topic if it is empty ([MQTT-3.3.1-6])."""
        if not event.retain:
            return
        self._drop_expired(event.published_at)
        topic = event.topic
        order = (event.published_at, *event.id)
        last = self._last(topic)
        if last is not None and last >= order:
            return
        if self._find(topic) is not None:
            self._remove(topic)
        self._cleared.pop(topic, None)
        if not event.payload:
            self._note_cleared(topic, order)
        elif self._fits(event):
            self._insert(event)
        else:
            self.refused += 1

    def clear(self) -> None:
        """Forget everything."""
        for event in list(self.events()):
            self._remove(event.topic)
        self._cleared.clear()
        self._clearings.clear()
        self._cleared_bytes = 0

    def events(self) -> Iterator[Event]:
        """All retained events."""
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            nodes.extend(node.below.values())
            if node.event is not None:
                yield node.event

    def may_match(self, filter: Filter) -> bool:
        """Whether a search may find an event, by the first level of the filter."""
        first = filter.levels[0]
        return first in ("+", "#") or first in self._root.below

    def search(self, filter: Filter) -> Search:
        """Begin a search for the events that the filter matches."""
        return Search(filter, self._root, self._number)

    def matching(self, filter: Filter, now: Seconds) -> Iterator[Event]:
        """All events that the filter matches."""
        search = self.search(filter)
        while not search.is_over:
            yield from search.go_on(now, 1000)[0]

    def _fits(self, event: Event) -> bool:
        owner, size = _owner(event), event.cost_bytes
        if owner == THE_BROKER:
            return True  # the broker's figures are few, and neither wait for room nor take that of clients
        return (
            self._count - self._counts[THE_BROKER] < self._count_max
            and self.bytes - self._sizes[THE_BROKER] + size <= self._bytes_max
            and self._counts[owner] < self._count_per_client_max
            and self._sizes[owner] + size <= self._bytes_per_client_max
        )

    def _note_cleared(self, topic: str, order: _Order) -> None:
        self._cleared[topic] = order
        self._clearings.append((topic, order))
        self._cleared_bytes += CLEARED_BYTES + len(topic)
        bytes_max = self._bytes_max // CLEARED_SHARE
        while len(self._clearings) > self._count_max or self._cleared_bytes > bytes_max:
            first, of = self._clearings.popleft()
            self._cleared_bytes -= CLEARED_BYTES + len(first)
            if self._cleared.get(first) == of:
                del self._cleared[first]

    def _insert(self, event: Event) -> None:
        node = self._root
        for level in event.topic.split("/"):
            child = node.below.get(level)
            if child is None:
                child = node.below[level] = TopicNode()
            node = child
        expiries = self._known_expiries()
        self._number += 1
        node.event, node.number = event, self._number
        self._count += 1
        self.bytes += event.cost_bytes
        owner = _owner(event)
        self._counts[owner] += 1
        self._sizes[owner] += event.cost_bytes
        expiries.add(event)

    def _find(self, topic: str) -> Event | None:
        node: TopicNode | None = self._root
        for level in topic.split("/"):
            node = node.below.get(level) if node is not None else None
        return None if node is None else node.event

    def _remove(self, topic: str) -> None:
        """Take the topic's event away, and the levels that lead to no other event."""
        path, node = [], self._root
        for level in topic.split("/"):
            path.append((node, level))
            node = node.below[level]
        event, node.event = node.event, None
        assert event is not None
        if self._expiries is not None:
            self._expiries.remove(event)
        while path and node.event is None and not node.below:
            node, level = path.pop()
            del node.below[level]
        self._count -= 1
        self.bytes -= event.cost_bytes
        owner = _owner(event)
        self._counts[owner] -= 1
        self._sizes[owner] -= event.cost_bytes
        if not self._counts[owner]:
            del self._counts[owner], self._sizes[owner]

    def _drop_expired(self, now: Seconds) -> None:
        expiries, left = self._known_expiries(), EXPIRED_AT_ONCE
        while left and (topics := expiries.due(now, left)):
            left -= len(topics)
            for topic in topics:
                self._remove(topic)

    def _known_expiries(self) -> Expiries:
        if self._expiries is None:
            self._expiries = Expiries(self.events())
            self._move_figures()
        return self._expiries

    def _move_figures(self) -> None:
        """Count the broker's figures as the broker's: an earlier release counted them as those of an unknown
        publisher."""
        figures = [event for event in self.events() if _owner(event) == THE_BROKER]
        uncounted = len(figures) - self._counts[THE_BROKER]
        if uncounted > 0:
            size = sum(event.cost_bytes for event in figures) - self._sizes[THE_BROKER]
            for table, moved in ((self._counts, uncounted), (self._sizes, size)):
                table[None] -= moved
                table[THE_BROKER] += moved
            if not self._counts[None]:
                del self._counts[None], self._sizes[None]


def _owner(event: Event) -> ClientId | None:
    """The client, or the broker, whose share of the table the event takes."""
    return THE_BROKER if event.topic.startswith("$SYS/") else event.publisher


def retained_bounds(quotas: Quotas) -> tuple[int, int, int, int]:
    """The bounds of `quotas`, as `RetainedMessages` takes them."""
    return (
        quotas.retained_max,
        quotas.retained_bytes_max,
        quotas.retained_per_client_max,
        quotas.retained_bytes_per_client_max,
    )
