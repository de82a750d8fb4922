"""A link between two brokers: reliable and FIFO, as the papers assume.

Under a lossy link lies a retransmitting layer: a loss costs a retransmission time-out and one more traversal, a
duplicate costs a traversal and is thrown away. While a link is cut or its far end is down, messages wait at the sender
and follow in order.

Where frames are short (`frame_bytes`), a long message for a broker farther away goes frame by frame: brokers on its way
pass each frame on as it comes, and only the addressee waits for the last. A message of n stored events thus takes the
time of n messages one behind the other, not n messages' time at every hop.
"""

import random
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from roamq.core.events import BrokerId, Event
from roamq.core.messages import HEADER_BYTES, Message, Routed
from roamq.sim.options import LinkOptions

if TYPE_CHECKING:
    from roamq.sim.network import Network, SimHost


class Piece(NamedTuple):
    """A piece of a message on its way. The last piece brings the message."""

    message: Routed
    size_bytes: int
    is_first: bool
    is_last: bool


class Link:
    """One direction of a link between two brokers."""

    def __init__(
        self,
        network: "Network",
        source: BrokerId,
        target: "SimHost",
        options: LinkOptions,
        rng: random.Random,
    ) -> None:
        self.engine = network.engine
        self.recorder = network.recorder
        self.source = source
        self.target = target
        self.options = options
        self.rng = rng
        self.cut = False
        self.waiting: deque[Message | Event | Piece] = deque()
        self._free_at = 0.0
        self._last_arrival = 0.0
        self._plain = options.is_plain
        self._delay_s = options.delay_s

    def send(self, message: Message | Event) -> None:
        engine = self.engine
        now = engine.now
        self._count(message)
        if self._plain:
            engine.after(self._delay_s, self.arrive, message)
            return
        size = HEADER_BYTES + message.size_bytes
        if 0 < self.options.frame_bytes < size and isinstance(message, Routed):
            for frame in frames_of(message, size, self.options.frame_bytes):
                engine.at(self._arrival(now, frame.size_bytes), self.arrive, frame)
        else:
            engine.at(self._arrival(now, size), self.arrive, message)

    def pass_on(self, frame: Piece) -> None:
        """Sends a frame on that came to the broker at this end."""
        if frame.is_first:
            self._count(frame.message)
        self.engine.at(self._arrival(self.engine.now, frame.size_bytes), self.arrive, frame)

    def _count(self, message: Message | Event) -> None:
        now = self.engine.now
        if isinstance(message, Event):
            self.recorder.traffic(now, "event", 1, 1, message.size_bytes)
        else:
            units = message.units
            first = not isinstance(message, Routed) or message.sender == self.source
            self.recorder.traffic(now, message.traffic_kind, units if first else 0, units, message.size_bytes)

    def _arrival(self, now: float, size: int) -> float:
        """Returns when a message arrives: after the messages before it, its own bits, and its retransmissions."""
        options = self.options
        start = max(now, self._free_at)
        traversals = 1
        while options.loss and self.rng.random() < options.loss:
            start += options.retransmit_s
            traversals += 1
        if options.duplication and self.rng.random() < options.duplication:
            traversals += 1
        if traversals > 1:
            self.recorder.traffic(
                now, "retransmission", traversals - 1, traversals - 1, size * (traversals - 1)
            )
        if options.bandwidth_bps:
            start += size * 8 / options.bandwidth_bps
            self._free_at = start
        jitter = self.rng.random() * options.jitter_s if options.jitter_s else 0.0
        self._last_arrival = max(self._last_arrival, start + options.delay_s + jitter)
        return self._last_arrival

    def arrive(self, message: Message | Event | Piece) -> None:
        target = self.target
        if self.cut or self.waiting or not target.alive:
            self.waiting.append(message)
        else:
            self._hand_in(message)

    def resume(self) -> None:
        """Hands in the waiting messages, in order: the link or its far end is back."""
        while self.waiting and not self.cut and self.target.alive:
            self._hand_in(self.waiting.popleft())

    def _hand_in(self, message: Message | Event | Piece) -> None:
        if not isinstance(message, Piece):
            self.target.receive(self.source, message)
        elif self._goes_on(message):
            self.target.link_towards(message.message.to).pass_on(message)
        elif message.is_last:
            self.target.receive(self.source, message.message)

    def _goes_on(self, frame: Piece) -> bool:
        """Whether the broker passes the frame on. One that takes time for its work waits for whole messages."""
        return frame.message.to != self.target.me and not self.target.takes_time


def frames_of(message: Routed, size: int, frame_bytes: int) -> Iterator[Piece]:
    """Cuts a message of `size` bytes into frames, all but the last of them full."""
    for begin in range(0, size, frame_bytes):
        end = min(begin + frame_bytes, size)
        yield Piece(message, end - begin, is_first=begin == 0, is_last=end == size)
