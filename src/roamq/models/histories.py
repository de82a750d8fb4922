"""What one subscriber did in one run, and what follows from it alone: periods, waits, pace, and events that waited.

A *waiting* event was published before the connection over which it arrived began, or while its client was away. All
others found their client connected. The way in which a broker delivered an event is not asked for, so runs of any kind
and scheme are read alike.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Spans:
    """Periods whose beginning was seen; `whole` says which were seen to end."""

    lengths_s: Floats
    whole: Bools

    def joined(self, other: "Spans") -> "Spans":
        return Spans(
            np.concatenate([self.lengths_s, other.lengths_s]), np.concatenate([self.whole, other.whole])
        )


NO_SPANS = Spans(np.empty(0), np.empty(0, dtype=bool))


@dataclass(frozen=True, kw_only=True)
class ClientHistory:
    """One subscriber in one run; all times in seconds from the same instant, ascending."""

    connects_s: Floats
    disconnects_s: Floats
    deliveries_s: Floats
    """When events were delivered to it."""
    delays_s: Floats
    """From publication to delivery, of the same events."""
    begin_s: float
    """Events published, and periods that begin, from here on count."""
    until_s: float
    """Events published up to here count, and observation of connections ends."""

    @cached_property
    def periods(self) -> tuple[Spans, Spans]:
        """The lengths of the client's connected periods, and of its disconnected ones.

        Those count that begin in the time that counts. One that is under way at its end is cut there: what clients do
        after it, such as to connect once more for what is still owed to them, tells nothing of their periods.
        """
        times = np.concatenate([self.connects_s, self.disconnects_s])
        is_on = np.arange(times.size) < self.connects_s.size
        order = np.argsort(times, kind="stable")
        times, is_on = times[order], is_on[order]
        # A second word of the same state: the period is under way.
        changes = np.ones(times.size, dtype=bool)
        changes[1:] = is_on[1:] != is_on[:-1]
        times, is_on = times[changes], is_on[changes]
        ends = np.append(times[1:], np.inf) if times.size else times
        whole = ends <= self.until_s
        lengths = np.minimum(ends, self.until_s) - times
        lasting = (times >= self.begin_s) & (lengths > 0)
        return (
            Spans(lengths[is_on & lasting], whole[is_on & lasting]),
            Spans(lengths[~is_on & lasting], whole[~is_on & lasting]),
        )

    @cached_property
    def births_s(self) -> Floats:
        return self.deliveries_s - self.delays_s

    @cached_property
    def counted(self) -> Bools:
        """Whether each event was published in the time that counts."""
        return (self.births_s >= self.begin_s) & (self.births_s <= self.until_s)

    @cached_property
    def waiting(self) -> Bools:
        """Whether each event was published before the connection over which it came, or while its client was away."""
        gone = np.sort(self.disconnects_s)
        left = np.concatenate([[-np.inf], gone])[np.searchsorted(gone, self.births_s, side="right")]
        before = np.searchsorted(self._starts, self.births_s, side="right")
        return self._awaited | (left > np.concatenate([[-np.inf], self._starts])[before])

    @cached_property
    def overdue(self) -> Bools:
        """Whether each event waited although its client was connected for a whole period meanwhile."""
        starts = np.concatenate([[-np.inf], self._starts])
        return self.waiting & (self.births_s < starts[np.maximum(self._connection, 0)])

    @property
    def events(self) -> int:
        return int(self.counted.sum())

    @cached_property
    def live_delays_s(self) -> Floats:
        """Delays of events that found their client connected."""
        return self.delays_s[self.counted & ~self.waiting]

    @cached_property
    def handoffs_s(self) -> Floats:
        """From a reconnection to the first event that waited for it, where one did."""
        waited = np.flatnonzero(self._awaited)
        _, first = np.unique(self._connection[waited], return_index=True)
        return self.deliveries_s[waited[first]] - self._connected_at[waited[first]]

    @cached_property
    def gaps_s(self) -> Floats:
        """Between events that waited for the same reconnection, one right after the other."""
        waited = np.flatnonzero(self._awaited)
        same = np.diff(self._connection[waited]) == 0
        return np.asarray(np.diff(self.deliveries_s[waited])[same], dtype=np.float64)

    def present(self) -> tuple[Floats, Floats]:
        """(numbers, seconds): how many of its events were under way or waiting, and for how long."""
        births, ends = self.births_s, self.deliveries_s
        times = np.clip(np.concatenate([births, ends]), self.begin_s, self.until_s)
        steps = np.concatenate([np.ones(births.size), -np.ones(ends.size)])
        order = np.argsort(times, kind="stable")
        numbers = np.concatenate([[0.0], np.cumsum(steps[order])])
        edges = np.concatenate([[self.begin_s], times[order], [self.until_s]])
        return numbers, np.diff(edges)

    @cached_property
    def _awaited(self) -> Bools:
        """Whether each event was published before the reconnection after which it came."""
        return (self.births_s < self._connected_at) & (self._connection > 0)

    @cached_property
    def _starts(self) -> Floats:
        return np.sort(self.connects_s)

    @cached_property
    def _connection(self) -> NDArray[np.intp]:
        """The number of the connection over which each event came; -1 before the first."""
        return np.searchsorted(self._starts, self.deliveries_s, side="right") - 1

    @cached_property
    def _connected_at(self) -> Floats:
        if not self._starts.size:
            return np.full(self.deliveries_s.size, -np.inf)
        return np.where(self._connection >= 0, self._starts[np.maximum(self._connection, 0)], -np.inf)
