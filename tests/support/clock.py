"""A clock that a test moves, so that deadlines of hours come at once and none comes by accident."""

import asyncio
import time

import pytest


class Clock:
    """Replaces wall time, which stands still between moves, and puts the event loop's own clock forward with it.

    The loop's clock also goes on by itself: what polls with `asyncio.sleep` still wakes up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, patch: pytest.MonkeyPatch) -> None:
        self._wall_s = float(int(time.time()))
        self._ahead_s = 0.0
        self._loop_time = loop.time
        steady_s = time.perf_counter()
        patch.setattr(time, "time", lambda: self._wall_s)
        patch.setattr(time, "perf_counter", lambda: steady_s + self._ahead_s)
        patch.setattr(loop, "time", lambda: self._loop_time() + self._ahead_s)

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock forward or back; no time passes by it."""
        self._wall_s += seconds

    def advance(self, seconds: float) -> None:
        self._wall_s += seconds
        self._ahead_s += seconds
