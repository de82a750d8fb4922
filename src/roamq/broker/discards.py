"""Forgets what contexts leave behind when they close: a long queue, thousands of filters.

Where clients and brokers wait while a broker works, it forgets these in steps of a few milliseconds, each when a timer
rings. Until then the events count as stored, but nothing more is stored for a context that is closed.
"""

from typing import TYPE_CHECKING, Final

from roamq.core.context import Context
from roamq.core.filters import Filter
from roamq.core.ports import TimerKey

if TYPE_CHECKING:
    from roamq.broker.contexts import Contexts

EVENTS_AT_ONCE: Final = 1000
FILTERS_AT_ONCE: Final = 500
"""How many stored events, or filters, one step forgets; it takes some two milliseconds."""
RELEASE_TIMER: Final[TimerKey] = ("release",)
"""The timer for the next step."""


class Discards:
    """Contexts that ended at one broker and whose stored events it still has to release, some at a time."""

    def __init__(self, contexts: "Contexts") -> None:
        self._contexts = contexts
        self._stored: list[Context] = []
        """Contexts that hold what was stored in others, which are empty now."""
        self._watched: list[tuple[Context, bool, list[Filter]]] = []
        """Closed contexts, each with whether its client has moved, and its filters that are still in the index."""
        self.closed: dict[Context, None] = {}
        """The contexts of `_watched`: the index still finds them, and they must not get events."""

    def empty(self, context: Context) -> None:
        """Forget what is stored for the client."""
        if self._contexts.works_in_slices and len(context.stored) > EVENTS_AT_ONCE:
            self._stored.append(context.split_off())
            self._set_timer()
        context.take_all()

    def unwatch(self, context: Context, *, mobile: bool) -> None:
        """The context closes: forget its filters."""
        contexts, filters = self._contexts, context.filters
        if (
            not contexts.works_in_slices
            or len(filters) <= FILTERS_AT_ONCE
            or contexts.watched.meaning is not None
        ):
            contexts.watched.unwatch(context, filters, mobile=mobile)
            return
        contexts.watched.unwatch(context, [one for one in filters if one.group is not None], mobile=mobile)
        self._watched.append((context, mobile, [one for one in filters if one.group is None]))
        self.closed[context] = None
        contexts.watched.forget_matches()
        self._set_timer()

    def go_on(self) -> None:
        """The timer rings: forget some more events or filters."""
        if self._stored:
            self._stored[0].release_some(EVENTS_AT_ONCE)
            if not self._stored[0].stored:
                del self._stored[0]
        elif self._watched:
            context, mobile, filters = self._watched[0]
            self._contexts.watched.unwatch(context, filters[-FILTERS_AT_ONCE:], mobile=mobile)
            del filters[-FILTERS_AT_ONCE:]
            if not filters:
                del self._watched[0], self.closed[context]
        if self._stored or self._watched:
            self._set_timer()

    def _set_timer(self) -> None:
        self._contexts.host.set_timer(RELEASE_TIMER, 0.0)
