"""What contexts leave behind when they close: a long queue, thousands of filters.

Where others wait while a broker works, that is forgotten in steps of a few milliseconds, each when a timer rings.
Meanwhile what is stored is counted, and nothing more is stored for a context that is closed.
"""

from typing import TYPE_CHECKING, Final

from roamq.core.context import Context
from roamq.core.filters import Filter
from roamq.core.ports import TimerKey

if TYPE_CHECKING:
    from roamq.broker.contexts import Contexts

EVENTS_AT_ONCE: Final = 1000
FILTERS_AT_ONCE: Final = 500
"""So many stored events, or filters, are forgotten in one step, which takes some two milliseconds."""
RELEASE_TIMER: Final[TimerKey] = ("release",)
"""The timer for the next step."""


class Discards:
    """Contexts that ended at one broker and whose stored events it still has to release, some at a time."""

    def __init__(self, contexts: "Contexts") -> None:
        self._contexts = contexts
        self._stored: list[Context] = []
        """What was stored in contexts that are empty now."""
        self._watched: list[tuple[Context, bool, list[Filter]]] = []
        """Contexts that are closed, whether their clients have moved, and their filters that are in the index."""
        self.closed: dict[Context, None] = {}
        """The contexts of `_watched`: the index finds them, and nobody wants to."""

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
        """The timer rings: forget some more."""
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
