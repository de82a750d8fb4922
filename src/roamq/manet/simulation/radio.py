"""The radio between nodes: its interface, and a radio without contention.

A radio delivers a broadcast to every node in range and a unicast to one neighbor, and counts the transmissions. In
the contention-free radio a message arrives after a time in direct ratio to the distance ([DRIP] section III,
assumption c), whatever its size. In `contention.ContendedRadio` transmissions also take time and collide.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from roamq.manet.protocol.codec import size_of
from roamq.manet.protocol.messages import Beacon, Message, NeighborHello, NodeId, Packet
from roamq.manet.simulation.field import Field
from roamq.sim.engine import Engine

Receive = Callable[[NodeId, NodeId, Message], None]
"""Called with the receiver, the sender and the message."""

Discards = Callable[[Beacon, float], bool]
"""Would a node discard this beacon, if it took so many seconds to arrive?"""

LinkFailure = Callable[[NodeId, NodeId, Packet], None]
"""Called with the sender, the neighbor that the radio could not reach, and the packet."""


class Radio(Protocol):
    sent: dict[str, tuple[int, int]]
    """For each kind of message, the transmissions and their bytes since the network last cleared this."""

    def broadcast(self, sender: NodeId, message: Message) -> None: ...
    def unicast(self, sender: NodeId, to: NodeId, packet: Packet) -> None: ...


class ContentionFreeRadio:
    """A radio that loses nothing within the range. A unicast to a node out of range fails at once."""

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
        count_transmission(self.sent, message.kind, size_of(message))
        at, now, receive = self._engine.at, self._engine.now, self._receive
        neighbors = self._field.neighbors(sender)
        if isinstance(message, NeighborHello):
            # Nothing depends on how long a hello takes: it arrives at once, which saves a heap entry for each neighbor.
            for neighbor in neighbors:
                receive(neighbor, sender, message)
        elif isinstance(message, Beacon):
            # A node that would discard this copy now would also discard it when it arrives, milliseconds later: until
            # then it can only hear of nearer brokers and newer beacons. So most copies need no heap entry.
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
        count_transmission(self.sent, packet.kind, size_of(packet))
        self._engine.after(delay, self._receive, to, sender, packet)


def count_transmission(sent: dict[str, tuple[int, int]], kind: str, size_bytes: int) -> None:
    count, size = sent.get(kind, (0, 0))
    sent[kind] = (count + 1, size + size_bytes)
