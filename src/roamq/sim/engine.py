"""The engine: a heap of callbacks in virtual time.

Written here because the general engines pay for generators and event objects on every step; this engine is a heap of
tuples (benchmarks/engine.py measures it against SimPy). Actions at equal times run in the order in which they were
scheduled, so a run is the same on every machine.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

Action = Callable[..., Any]

GC_THRESHOLDS: Final = (50_000, 20, 20)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Lets the garbage collector look seldom: counting frees most objects of a run, and the others live to its end."""
    before = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Engine:
    """Virtual time. `at` and `after` schedule; `run` executes in order of (time, counter)."""

    __slots__ = ("_heap", "_next", "now", "turn")

    def __init__(self) -> None:
        self.now = 0.0
        self.turn = 0
        """The number of the running action: what is scheduled in one turn was scheduled by one action, at one time."""
        self._heap: list[tuple[float, int, Action, tuple[Any, ...]]] = []
        self._next = count().__next__

    def at(self, time: float, action: Action, *args: Any) -> None:
        """Schedules `action(*args)` at `time`."""
        assert time >= self.now, f"cannot schedule at {time}, it is {self.now}"
        heappush(self._heap, (time, self._next(), action, args))

    def after(self, delay: float, action: Action, *args: Any) -> None:
        """Schedules `action(*args)` in `delay` seconds."""
        heappush(self._heap, (self.now + delay, self._next(), action, args))

    def run(self, until: float = float("inf")) -> int:
        """Executes all actions up to and including `until`; returns how many ran."""
        heap = self._heap
        before = self.turn
        while heap:
            entry = heappop(heap)
            time, _, action, args = entry
            if time > until:
                heappush(heap, entry)
                break
            self.now = time
            self.turn += 1
            action(*args)
        if until != float("inf"):
            self.now = max(self.now, until)
        executed = self.turn - before
        self.turn += 1
        return executed

    def next_time(self) -> float:
        """Returns when the next action is due: a caller that advances `now` by itself must stay before this."""
        return self._heap[0][0] if self._heap else float("inf")

    def pending(self) -> int:
        return len(self._heap)
