"""Asks a neighbour that has forgotten everything for all that a broker wants of it, one filter after the other."""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from roamq.core.filters import Filter
from roamq.core.messages import Message, MessageSource

if TYPE_CHECKING:
    from roamq.overlay.interest import ByInterest


class Questions(MessageSource):
    """The messages that ask a neighbour for filters, each of its origins."""

    __slots__ = ("_filters", "_router")

    def __init__(self, router: "ByInterest", filters: Iterable[tuple[Filter, int]]) -> None:
        self._router = router
        self._filters = deque(filters)

    def next_message(self) -> Message | None:
        return self._router.question(*self._filters.popleft()) if self._filters else None
