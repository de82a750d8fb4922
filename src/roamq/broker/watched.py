"""What the contexts of one broker watch for: their filters in the match index, and their places in shared groups.

A context says what its client has subscribed to; `WatchedFilters` finds the contexts that an event is for. A passive
copy watches for nothing.
"""

from collections.abc import Container, Iterable
from typing import Protocol

from roamq.core.context import Context
from roamq.core.events import ClientId, Event
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.overlay.base import Router


class Meaning(Protocol):
    """Says what a client's subscriptions mean at this broker, where that depends on the place."""

    def meant(self, context: Context, filters: Iterable[Filter]) -> list[Filter]:
        """The filters that the broker must watch for because of these subscriptions of the context."""


class WatchedFilters:
    """Finds the contexts that want an event. The router hears of every filter that comes or goes."""

    def __init__(self, router: Router, closed: Container[Context], meaning: Meaning | None = None) -> None:
        self.router = router
        self.meaning = meaning
        self.index: MatchIndex[Context] = MatchIndex()
        self._closed = closed
        """Contexts that are still in the index and want nothing any more."""
        self._places: dict[tuple[str, ClientId], list[Context]] = {}
        """A shared group's filter, as text, and a member -> the contexts here that hold the member's place."""

    def matching(self, event: Event) -> tuple[Context, ...]:
        """The contexts whose filters match, but for those of shared groups."""
        matches = self.index.results.get(event.match_key)
        if matches is None:
            closed = self._closed
            matches = tuple(context for context in self.index.match(event) if context not in closed)
            self.index.remember(event, matches)
        return matches

    def with_members(self, event: Event, matches: tuple[Context, ...]) -> tuple[Context, ...]:
        """The contexts that match, and those of the members that the event was assigned to; each once."""
        assert event.assigned is not None
        found = dict.fromkeys(() if event.is_handed_on else matches)
        for place in event.assigned.items():
            found.update(dict.fromkeys(self._places.get(place, ())))
        return tuple(found)

    def forget_matches(self) -> None:
        """Forget remembered matches: a context has closed that is still in the index."""
        self.index.results.clear()

    def watch(self, context: Context, filters: Iterable[Filter], *, mobile: bool) -> None:
        """The context wants events of these filters; `mobile`: because its client has moved."""
        for filter in filters if self.meaning is None else self._meant(self.meaning, context, filters):
            self.router.subscribe(filter, mobile=mobile)
            if filter.group is None:
                self.index.add(context, filter)
            else:
                self._places.setdefault((str(filter), context.client), []).append(context)

    def unwatch(self, context: Context, filters: Iterable[Filter], *, mobile: bool) -> None:
        """The context wants events of these filters no longer."""
        for filter in filters if self.meaning is None else self._meant(self.meaning, context, filters):
            if filter.group is None:
                self.index.remove(context, filter)
            else:
                place = (str(filter), context.client)
                self._places[place].remove(context)
                if not self._places[place]:
                    del self._places[place]
            self.router.unsubscribe(filter, mobile=mobile)

    def _meant(self, meaning: Meaning, context: Context, filters: Iterable[Filter]) -> list[Filter]:
        """The filters that this broker must watch for; those of shared groups mean the same everywhere."""
        filters = list(filters)
        own = [filter for filter in filters if filter.group is None]
        return [
            *meaning.meant(context, own),
            *(filter for filter in filters if filter.group is not None),
        ]
