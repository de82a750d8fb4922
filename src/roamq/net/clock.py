"""The time of a live broker: wall time, which other brokers share, without its jumps.

Deadlines must come even if somebody sets the wall clock, and inputs must never be older than those before them. So time
advances with a clock that nobody sets, and follows the wall clock slowly: at most 5% faster or slower.
"""

import time
from typing import Final

RATE_MAX: Final = 0.05


class SteadyClock:
    """A clock that starts at wall time, or later if the broker's past says so. It never goes back and never jumps."""

    def __init__(self, at_least: float = 0.0) -> None:
        steady = time.perf_counter()
        self._offset = max(time.time(), at_least) - steady
        self._last = at_least
        self._followed_at = steady

    def now(self) -> float:
        now = self._offset + time.perf_counter()
        if now < self._last:
            return self._last
        self._last = now
        return now

    def reading_at(self, wall_s: float | None) -> float | None:
        """The reading of this clock when wall time is `wall_s`, if nobody sets the wall clock until then."""
        return None if wall_s is None else wall_s - time.time() + self.now()

    def follow(self) -> float:
        """Bring this clock nearer to the wall clock, and return the seconds that the wall clock was ahead.

        The shell calls it about once a second.
        """
        steady = time.perf_counter()
        most = RATE_MAX * (steady - self._followed_at)
        self._followed_at = steady
        ahead = time.time() - (self._offset + steady)
        self._offset += max(-most, min(ahead, most))
        return ahead
