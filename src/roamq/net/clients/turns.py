"""Turns: bytes that a client has sent beyond a slice are read in slices, one client after the other.

A read may bring thousands of packets, and a client that sends without a pause would make all others wait for them. So a
read is cut into slices that take about a millisecond, however small or heavy the packets are. Connections with more to
read take turns, and after a few milliseconds of turns the event loop looks at all sockets again. A client that sends
little never waits for its turn.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

ROUND_S: Final = 0.003
"""Seconds that connections take turns before the loop looks at the sockets again."""
SLICE_S: Final = 0.001
"""Seconds that a slice should take."""
SLICE_BYTES: Final = 2048
SLICE_BYTES_MIN: Final = 64
SLICE_BYTES_MAX: Final = 64 * 1024


class Turn(Protocol):
    """A connection with more to read."""

    def take_turn(self) -> bool:
        """Handle one slice. Return whether more may be handled now."""

    def abort(self) -> None:
        """Close the connection: a slice failed, and nobody knows how much of it was done."""


class Turns:
    """The connections of a broker that have more to read, in their order; the one whose turn it is comes first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: deque[Turn] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, connection: Turn) -> None:
        """Queue a connection that has more to read and is not in the queue."""
        self._queue.append(connection)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._round)

    def _round(self) -> None:
        end = time.perf_counter() + ROUND_S
        try:
            while self._queue:
                self._take_turn(self._queue[0])
                if time.perf_counter() >= end:
                    break
        finally:  # the other connections go on, even if this one failed
            self._is_scheduled = bool(self._queue)
            if self._queue:
                self._loop.call_soon(self._round)

    def _take_turn(self, connection: Turn) -> None:
        has_more = False
        try:
            has_more = connection.take_turn()
        except Exception:
            connection.abort()
            raise  # the loop logs it
        finally:
            self._queue.popleft()
            if has_more:
                self._queue.append(connection)


class Slices:
    """The bytes of a connection's reads that are not handled yet, and the size of its slices."""

    __slots__ = ("_at", "_data", "size", "waits")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self.size = SLICE_BYTES
        self.waits = False
        """Whether some bytes are not handled."""

    def __len__(self) -> int:
        return len(self._data) - self._at

    def add(self, data: bytes) -> None:
        """Add bytes that have come."""
        self._data = self._data[self._at :] + data if self.waits else data
        self._at = 0
        self.waits = bool(self._data)

    def handle(self, data: bytes, act: Callable[[bytes], None]) -> int:
        """Handle a slice. Return the size of the next slice, by the time that this one took."""
        began = time.perf_counter()
        act(data)
        took = time.perf_counter() - began
        size = self.size
        if took > SLICE_S:
            return max(SLICE_BYTES_MIN, size // 2)
        if len(data) >= size and took < SLICE_S / 2 and size < SLICE_BYTES_MAX:
            return size * 2
        return size

    def next(self) -> bytes:
        data = self._data[self._at : self._at + self.size]
        self._at += len(data)
        if self._at >= len(self._data):
            self.clear()
        return data

    def clear(self) -> None:
        self._data = b""
        self._at = 0
        self.waits = False


NOTHING_WAITS: Final = Slices()
"""The slices of all connections that have sent little at a time, as most do. Nobody adds to it."""
