"""The engine: a heap of callbacks in virtual time.

Written here because the general engines pay for generators and event objects on every step; this one is a
heap of tuples (benchmarks/engine.py measures it against SimPy). Equal times run in order of priority, then in
order of scheduling, so a run is the same on every machine.
"""

import heapq
from collections.abc import Callable
from typing import Any

Action = Callable[..., Any]


class Engine:
    """Virtual time. `at` and `after` schedule; `run` executes in order of (time, priority, counter)."""

    __slots__ = ("_counter", "_heap", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, int, Action, tuple[Any, ...]]] = []
        self._counter = 0

    def at(self, time: float, action: Action, *args: Any, priority: int = 0) -> int:
        """Run `action(*args)` at `time`; returns a ticket for `cancel`-by-check schemes."""
        assert time >= self.now, f"cannot schedule at {time}, it is {self.now}"
        self._counter = counter = self._counter + 1
        heapq.heappush(self._heap, (time, priority, counter, action, args))
        return counter

    def after(self, delay: float, action: Action, *args: Any, priority: int = 0) -> int:
        return self.at(self.now + delay, action, *args, priority=priority)

    def run(self, until: float = float("inf")) -> int:
        """Execute everything up to and including `until`; returns how many actions ran."""
        heap = self._heap
        pop = heapq.heappop
        executed = 0
        while heap and heap[0][0] <= until:
            self.now, _, _, action, args = pop(heap)
            action(*args)
            executed += 1
        if until != float("inf"):
            self.now = max(self.now, until)
        return executed

    def next_time(self) -> float:
        """When the next action is due: who advances `now` by itself must stay before this."""
        return self._heap[0][0] if self._heap else float("inf")

    def pending(self) -> int:
        return len(self._heap)
