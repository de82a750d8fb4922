"""A host that performs nothing and remembers everything, and makers of the small values tests need."""

from collections.abc import Callable, Hashable
from typing import Any

from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.records import Record
from roamq.manet.protocol.messages import Beacon, Body, BrokerCandidate, Message, NodeId, Packet
from roamq.manet.protocol.node import MobileNode
from roamq.manet.protocol.ports import Parameters
from roamq.manet.protocol.spreading import MultiCopyMultiDestination, Spreading


class RecordingHost:
    def __init__(self) -> None:
        self.time = 100.0
        self.effects: list[tuple[Any, ...]] = []
        self.records: list[Record] = []
        self.timers: list[tuple[Hashable, float]] = []

    def now(self) -> float:
        return self.time

    def broadcast(self, message: Message) -> None:
        self.effects.append(("broadcast", message))

    def unicast(self, to: NodeId, packet: Packet) -> None:
        self.effects.append(("unicast", to, packet.target, packet.body))

    def set_timer(self, key: Hashable, after: float) -> None:
        self.timers.append((key, after))

    def record(self, record: Record) -> None:
        self.records.append(record)

    def sent(self) -> list[tuple[NodeId, NodeId, Body]]:
        """The unicasts so far: next hop, target, body."""
        return [
            (to, target, body) for kind, to, target, body in (e for e in self.effects if e[0] == "unicast")
        ]

    def said(self) -> list[Message]:
        """The broadcasts so far."""
        return [effect[1] for effect in self.effects if effect[0] == "broadcast"]

    def forget(self) -> None:
        self.effects.clear()


WANTED = Filter.parse("number", "value BETWEEN 10 AND 20")


def node(
    me: NodeId = 0,
    *,
    filters: tuple[Filter, ...] = (),
    k: int = 10,
    l: int = 3,  # noqa: E741 - the paper's name
    m: int = 2,
    new_spreading: Callable[[], Spreading] | None = None,
) -> MobileNode:
    return MobileNode(
        BrokerCandidate(1.0, me),
        filters,
        Parameters(k=k, l=l, m=m),
        RecordingHost(),
        new_spreading or (lambda: MultiCopyMultiDestination(m)),
    )


def host_of(node: MobileNode) -> RecordingHost:
    assert isinstance(node.host, RecordingHost)
    return node.host


def beacon(broker: NodeId, *, delay: float, sequence: int = 1, at: float = 100.0, term: int = 1) -> Beacon:
    """One that takes `delay` to arrive at time `at`."""
    return Beacon(broker, f"{broker}.{term}", sequence, at - delay)


def event(value: int, sequence: int = 1, *, origin: str = "n9", at: float = 90.0) -> Event:
    return Event(
        id=EventId(BrokerId(origin), sequence),
        topic="number",
        attributes={"value": value},
        published_at=at,
        publisher=ClientId(origin),
    )
