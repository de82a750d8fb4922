"""Shared subscriptions: of each group `$share/GROUP/FILTER`, one member in the whole network gets an event.

The broker where an event enters decides which broker's members are due and writes that into the event, so no two
brokers can disagree; that broker takes the next of its own members in turn. Brokers tell each other how many members
they serve. A group whose members are all away is given to a broker that keeps a session of one of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.core.messages import Message

GroupKey = str
"""`GROUP/FILTER`, with the selector if there is one: members of one group with one filter."""


def group_key(group: str, filter: Filter) -> GroupKey:
    return f"{group}/{filter}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Members(Message):
    """Broker -> all others: how many members of a group are connected here, and how many are away."""

    group: str
    filter: Filter
    connected: int
    away: int


class _Group:
    """One group with one filter, as far as this broker knows."""

    __slots__ = ("brokers", "filter", "local", "name", "turn")

    def __init__(self, name: str, filter: Filter) -> None:
        self.name = name
        self.filter = filter
        self.local: dict[ClientId, bool] = {}
        """Members whose session is here, and whether they are connected."""
        self.brokers: dict[BrokerId, tuple[int, int]] = {}
        """Broker -> members connected and away."""
        self.turn = 0


class SharedGroups:
    """All groups of the network, seen from one broker."""

    def __init__(self, me: BrokerId) -> None:
        self.me = me
        self.groups: dict[GroupKey, _Group] = {}
        self._index: MatchIndex[GroupKey] = MatchIndex()

    def __len__(self) -> int:
        return len(self.groups)

    # --- membership ---------------------------------------------------------------------------------------

    def set_member(
        self, group: str, filter: Filter, client: ClientId, connected: bool | None
    ) -> Members | None:
        """A client joins, connects, is away, or leaves (None); gives what the others are to be told."""
        found = self._group(group, filter)
        before = found.local.get(client)
        if before is connected:
            return None
        if connected is None:
            del found.local[client]
        else:
            found.local[client] = connected
        here = sum(found.local.values())
        news = Members(group=group, filter=filter, connected=here, away=len(found.local) - here)
        self.learn(self.me, news)
        return news

    def learn(self, broker: BrokerId, news: Members) -> None:
        found = self._group(news.group, news.filter)
        if news.connected or news.away:
            found.brokers[broker] = (news.connected, news.away)
        else:
            found.brokers.pop(broker, None)
        if not found.brokers:
            key = group_key(news.group, news.filter)
            del self.groups[key]
            self._index.remove(key, news.filter)

    def _group(self, group: str, filter: Filter) -> _Group:
        key = group_key(group, filter)
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = _Group(group, filter)
            self._index.add(key, filter)
        return found

    # --- whose turn it is ---------------------------------------------------------------------------------

    def assign(self, event: Event) -> Mapping[GroupKey, BrokerId] | None:
        """For an event that enters here: group -> the broker whose member is due, in turn by their number."""
        if not self.groups:
            return None
        assigned = {}
        for key in self._index.match(event):
            group = self.groups[key]
            column = 0 if any(connected for connected, _ in group.brokers.values()) else 1
            weights = [(broker, counts[column]) for broker, counts in sorted(group.brokers.items())]
            turn = group.turn % max(1, sum(weight for _, weight in weights))
            group.turn += 1
            for broker, weight in weights:
                if turn < weight:
                    assigned[key] = broker
                    break
                turn -= weight
        return assigned or None

    def due(self, event: Event) -> Iterator[ClientId]:
        """The members here that get this event: one of each group that it was assigned to us for."""
        for key, broker in (event.assigned or {}).items():
            group = self.groups.get(key)
            if broker != self.me or group is None or not group.local:
                continue
            connected = [client for client, is_here in group.local.items() if is_here]
            members = connected or list(group.local)
            yield members[event.id.sequence % len(members)]
