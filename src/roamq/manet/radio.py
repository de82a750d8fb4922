"""The air between nodes: a contention-free radio and one whose transmissions take time and collide.

Both deliver a broadcast to everybody in range and a unicast to one neighbor, and both count what was sent. In
the contention-free radio a message takes time in direct ratio to the distance ([DRIP] section III, assumption
c) and nothing else. `contention.ContendedRadio` adds the channel.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from roamq.manet.field import Field
from roamq.manet.messages import Beacon, Hello, Message, NodeId, Packet
from roamq.sim.engine import Engine

Receive = Callable[[NodeId, NodeId, Message], None]
"""receiver, sender, message"""

Discards = Callable[[Beacon, float], bool]
"""Would a node discard this broadcast, if it took so long to arrive?"""

LinkFailure = Callable[[NodeId, NodeId, Packet], None]
"""sender, the neighbor that was not reached, the packet"""


class Radio(Protocol):
    sent: dict[str, tuple[int, int]]
    """Transmissions and bytes by kind of message, since somebody last cleared it."""

    def broadcast(self, sender: NodeId, message: Message) -> None: ...
    def unicast(self, sender: NodeId, to: NodeId, packet: Packet) -> None: ...


class ContentionFreeRadio:
    """Nothing is lost in range; out of range a unicast fails at once, as a missing acknowledgement would tell."""

    def __init__(
        self,
        engine: Engine,
        field: Field,
        receive: Receive,
        link_failure: LinkFailure,
        discards: Sequence[Discards],
    ) -> None:
        self._engine = engine
        self._field = field
        self._receive = receive
        self._link_failure = link_failure
        self._discards = discards
        self.sent: dict[str, tuple[int, int]] = {}

    def broadcast(self, sender: NodeId, message: Message) -> None:
        count_transmission(self.sent, message)
        at, now, receive = self._engine.at, self._engine.now, self._receive
        neighbors = self._field.neighbors(sender)
        if isinstance(message, Hello):
            # A hello carries no time-stamp: all neighbors take it at once, which saves a heap entry for each.
            for neighbor in neighbors:
                receive(neighbor, sender, message)
        elif isinstance(message, Beacon):
            # A node that discards a copy now will also do so when it arrives, milliseconds later, for by then
            # it has only heard nearer and newer ones: most copies of a flood need no heap entry.
            so_far, discards = now - message.sent_at, self._discards
            for neighbor, delay in neighbors.items():
                if not discards[neighbor](message, so_far + delay):
                    at(now + delay, receive, neighbor, sender, message)
        else:
            for neighbor, delay in neighbors.items():
                at(now + delay, receive, neighbor, sender, message)

    def unicast(self, sender: NodeId, to: NodeId, packet: Packet) -> None:
        delay = self._field.neighbors(sender).get(to)
        if delay is None:
            self._link_failure(sender, to, packet)
            return
        count_transmission(self.sent, packet)
        self._engine.after(delay, self._receive, to, sender, packet)


def count_transmission(sent: dict[str, tuple[int, int]], message: Message) -> None:
    count, size = sent.get(message.kind, (0, 0))
    sent[message.kind] = (count + 1, size + message.size_bytes)
