"""Which brokers are linked directly, as brokers tell each other; and the way around a link that is down.

Each broker numbers its statements about its own links and tells its neighbours. A broker passes a new statement on to
neighbours that are not linked with the broker that it is about: so a change reaches all brokers in reach, and where all
are linked with all nobody passes anything on. A broker that is down still counts as linked in its own last statement
and in nobody else's, so that no way leads to it. Brokers that joined later (`edges`) are only at the ends of ways.
"""

from collections import deque
from collections.abc import Collection, Iterable
from zlib import crc32

from roamq.core.events import BrokerId
from roamq.net.links.protocol import CARRIERS_MAX, LinkedWith

Path = tuple[BrokerId, ...]
"""The brokers that carry a link, in order from the calling broker."""


class LinkMap:
    """The links of all brokers that one broker knows to be up."""

    def __init__(self, me: BrokerId) -> None:
        self._me = me
        self._known: dict[BrokerId, LinkedWith] = {}

    @property
    def entries(self) -> list[LinkedWith]:
        """All statements, for a neighbour whose link has just come up."""
        return list(self._known.values())

    def say(
        self, linked: Iterable[BrokerId], number: int, edges: Iterable[BrokerId] = ()
    ) -> LinkedWith | None:
        """State that this broker can carry links to `linked` and to `edges`. Return the statement for others, if it is
        new.

        `number` is above the numbers of earlier lives, if the clock is right.
        """
        now = (tuple(sorted(linked)), tuple(sorted(edges)))
        mine = self._known.get(self._me)
        if mine is not None and (mine.linked, mine.edges) == now:
            return None
        return self._renew(*now, number)

    def learn(self, entries: Iterable[LinkedWith], brokers: Collection[BrokerId]) -> list[LinkedWith]:
        """Take what a neighbour has told. Return the statements that are new here and go on to the others.

        Only `brokers` are of the network, and those that joined later, of which this broker may not know all.
        """
        news: list[LinkedWith] = []
        for entry in entries:
            known = self._known.get(entry.broker)
            if entry.broker not in brokers or not set(entry.linked).issubset(brokers):
                continue  # about a broker that has departed, or that this one does not know yet
            if known is not None and entry.number <= known.number:
                continue
            if entry.broker == self._me:
                # An earlier life stated this, with a clock that was ahead: the last word is this life's.
                linked, edges = ((), ()) if known is None else (known.linked, known.edges)
                news.append(self._renew(linked, edges, entry.number + 1))
            else:
                self._known[entry.broker] = entry
                news.append(entry)
        return news

    def news_for(self, neighbour: BrokerId, news: Iterable[LinkedWith]) -> list[LinkedWith]:
        """The news that a neighbour has not been told, and will not be told by the brokers that it is about."""
        return [
            entry
            for entry in news
            if entry.broker == self._me
            or (entry.broker != neighbour and neighbour not in (*entry.linked, *entry.edges))
        ]

    def way(self, to: BrokerId, by: Collection[BrokerId], avoid: Collection[Path] = ()) -> Path | None:
        """The fewest brokers that could carry a link with `to`: the first is one of `by`, and the way is not one to
        `avoid`. None if there is no such way."""
        # Among ways of one length each pair of brokers prefers another one, so that one broker does not carry all
        # links.
        firsts = sorted(by, key=lambda one: crc32(f"{self._me} {to} {one}".encode()))
        return self._search(to, firsts, {self._me, to}, avoid)

    def is_reached(self, edge: BrokerId, by: Collection[BrokerId]) -> bool:
        """Whether a broker that can call `by` could have a link with an edge broker carried."""
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
        """Two of these brokers that are connected through this broker alone; None if there are none."""
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
