"""Who is linked directly with whom, as brokers tell each other; and the way around a link that is down.

Each broker numbers what it says of its own links and tells its neighbours. What is news goes on to those that are not
linked with the broker it is about: so a change reaches all brokers in reach, and where each is linked with each nobody
passes anything on. A broker that is down goes on being linked in its own last words and in nobody else's, so that no
way leads to it. Brokers that joined later (`edges`) are at the ends of ways alone.
"""

from collections import deque
from collections.abc import Collection, Iterable
from zlib import crc32

from roamq.core.events import BrokerId
from roamq.net.links.protocol import CARRIERS_MAX, LinkedWith

Path = tuple[BrokerId, ...]
"""The brokers that carry a link, in order from the one that calls."""


class LinkMap:
    """What one broker knows of all links that are up."""

    def __init__(self, me: BrokerId) -> None:
        self._me = me
        self._known: dict[BrokerId, LinkedWith] = {}

    @property
    def entries(self) -> list[LinkedWith]:
        """Everything, for a neighbour whose link has just come up."""
        return list(self._known.values())

    def say(
        self, linked: Iterable[BrokerId], number: int, edges: Iterable[BrokerId] = ()
    ) -> LinkedWith | None:
        """This broker can carry links to `linked` and to `edges`; gives what others are to be told, if that is news.
        `number` is above those of earlier lives, if the clock is right."""
        now = (tuple(sorted(linked)), tuple(sorted(edges)))
        mine = self._known.get(self._me)
        if mine is not None and (mine.linked, mine.edges) == now:
            return None
        return self._renew(*now, number)

    def learn(self, entries: Iterable[LinkedWith], brokers: Collection[BrokerId]) -> list[LinkedWith]:
        """What a neighbour has told; gives what is news here and goes on to the others. Only `brokers` are of the
        network, but for those that joined later: of some of these this broker may not have heard."""
        news: list[LinkedWith] = []
        for entry in entries:
            known = self._known.get(entry.broker)
            if entry.broker not in brokers or not set(entry.linked).issubset(brokers):
                continue  # of a broker that has departed, or that this one has not heard of yet
            if known is not None and entry.number <= known.number:
                continue
            if entry.broker == self._me:
                # An earlier life said it, with a clock that was ahead: the last word is this life's.
                linked, edges = ((), ()) if known is None else (known.linked, known.edges)
                news.append(self._renew(linked, edges, entry.number + 1))
            else:
                self._known[entry.broker] = entry
                news.append(entry)
        return news

    def news_for(self, neighbour: BrokerId, news: Iterable[LinkedWith]) -> list[LinkedWith]:
        """What of the news a neighbour has not been told, or will not be, by the brokers that it is about."""
        return [
            entry
            for entry in news
            if entry.broker == self._me
            or (entry.broker != neighbour and neighbour not in (*entry.linked, *entry.edges))
        ]

    def way(self, to: BrokerId, by: Collection[BrokerId], avoid: Collection[Path] = ()) -> Path | None:
        """The brokers that could carry a link with `to`, the first of them one of `by`; as few as there are, and not by
        a way to `avoid`."""
        # Of ways of one length each pair of brokers prefers another, so that one broker does not carry all.
        firsts = sorted(by, key=lambda one: crc32(f"{self._me} {to} {one}".encode()))
        return self._search(to, firsts, {self._me, to}, avoid)

    def is_reached(self, edge: BrokerId, by: Collection[BrokerId]) -> bool:
        """Whether a broker that can call these could have a link with an edge broker carried."""
        return self._search(edge, sorted(by), {edge}) is not None

    def _search(
        self, to: BrokerId, firsts: Iterable[BrokerId], seen: set[BrokerId], avoid: Collection[Path] = ()
    ) -> Path | None:
        reached: deque[Path] = deque((one,) for one in firsts if one not in seen)
        while reached:
            path = reached.popleft()
            entry = self._known.get(path[-1])
            if entry is None:
                continue
            if (to in entry.linked or to in entry.edges) and path not in avoid:
                return path
            if path[-1] in seen or len(path) == CARRIERS_MAX:
                continue
            seen.add(path[-1])
            reached.extend((*path, one) for one in entry.linked if one not in seen)
        return None

    def apart_without_me(self, brokers: Collection[BrokerId]) -> tuple[BrokerId, BrokerId] | None:
        """Two of these brokers that are connected through this one alone; None if there are none."""
        first, *others = sorted(brokers) or [self._me]
        seen = {self._me, first}
        reached = deque([first])
        while reached:
            entry = self._known.get(reached.popleft())
            for one in entry.linked if entry is not None else ():
                if one not in seen:
                    seen.add(one)
                    reached.append(one)
        return next(((first, other) for other in others if other not in seen), None)

    def _renew(self, linked: tuple[BrokerId, ...], edges: tuple[BrokerId, ...], number: int) -> LinkedWith:
        mine = self._known.get(self._me)
        said = LinkedWith(self._me, max(number, 0 if mine is None else mine.number + 1), linked, edges)
        self._known[self._me] = said
        return said
