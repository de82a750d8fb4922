"""A link between two brokers: reliable and FIFO, as the papers assume.

Under a lossy link lies a retransmitting layer: a loss costs a retransmission time-out and one more traversal, a
duplicate costs a traversal and is thrown away. While a link is cut or its far end is down, messages wait at the sender
and follow in order.
"""

import random
from collections import deque
from typing import TYPE_CHECKING

from roamq.core.events import BrokerId, Event
from roamq.core.messages import HEADER_BYTES, Message, Routed
from roamq.sim.options import LinkOptions

if TYPE_CHECKING:
    from roamq.sim.network import Network, SimHost


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
        self.waiting: deque[Message | Event] = deque()
        self._free_at = 0.0
        self._last_arrival = 0.0
        self._plain = options.is_plain
        self._delay_s = options.delay_s

    def send(self, message: Message | Event) -> None:
        engine = self.engine
        now = engine.now
        if isinstance(message, Event):
            self.recorder.traffic(now, "event", 1, 1, message.size_bytes)
        else:
            units = message.units
            first = not isinstance(message, Routed) or message.sender == self.source
            self.recorder.traffic(now, message.traffic_kind, units if first else 0, units, message.size_bytes)
        if self._plain:
            engine.after(self._delay_s, self.arrive, message)
        else:
            engine.at(self._arrival(now, HEADER_BYTES + message.size_bytes), self.arrive, message)

    def _arrival(self, now: float, size: int) -> float:
        """When a message gets there: after those before it, its own bits, and its retransmissions."""
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

    def arrive(self, message: Message | Event) -> None:
        target = self.target
        if self.cut or self.waiting or not target.alive:
            self.waiting.append(message)
        else:
            target.receive(self.source, message)

    def resume(self) -> None:
        """The link or its far end is back: what waited follows, in order."""
        while self.waiting and not self.cut and self.target.alive:
            self.target.receive(self.source, self.waiting.popleft())
