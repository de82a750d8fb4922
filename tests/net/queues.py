"""The queues of a fleet's links. Of many only a few have something in them, and a step looks at these alone."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from roamq.core.events import BrokerId

Ends = tuple[BrokerId, BrokerId]
"""From which broker a queue leads to which."""
T = TypeVar("T")


class Queues(Generic[T]):
    """One queue for each direction of each link, in the order in which they were begun."""

    def __init__(self) -> None:
        self.filled: list[Ends] = []
        """The queues that have something in them, in order."""
        self._filled_numbers: list[int] = []
        """The number of each of these."""
        self._queues: dict[Ends, tuple[int, deque[T]]] = {}
        """The number of each queue, and what is in it."""
        self._begun = 0

    def __iter__(self) -> Iterator[Ends]:
        return iter(self._queues)

    def __getitem__(self, ends: Ends) -> Sequence[T]:
        """What is in a queue, to be looked at alone."""
        return self._queues[ends][1] if ends in self._queues else ()

    def put(self, ends: Ends, more: Iterable[T]) -> None:
        """Put these behind what is in a queue, which begins if there is none."""
        if ends not in self._queues:
            self._begun += 1
            self._queues[ends] = (self._begun, deque())
        number, queue = self._queues[ends]
        was_empty = not queue
        queue.extend(more)
        if was_empty and queue:
            at = bisect_left(self._filled_numbers, number)
            self._filled_numbers.insert(at, number)
            self.filled.insert(at, ends)

    def take(self, ends: Ends) -> T:
        """Take the first out of a queue."""
        number, queue = self._queues[ends]
        first = queue.popleft()
        if not queue:
            self._is_empty(number)
        return first

    def clear(self, ends: Ends) -> None:
        """Nothing is left in a queue."""
        if self[ends]:
            number, queue = self._queues[ends]
            queue.clear()
            self._is_empty(number)

    def end(self, ends: Ends) -> None:
        """There is no such queue any more."""
        self.clear(ends)
        self._queues.pop(ends, None)

    def _is_empty(self, number: int) -> None:
        at = bisect_left(self._filled_numbers, number)
        del self._filled_numbers[at], self.filled[at]
