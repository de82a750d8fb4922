"""The shell: nodes, radio and field in virtual time. What is random is drawn from the run's seed."""

from collections.abc import Callable, Hashable, Sequence
from random import Random

from roamq.core.events import Event, Seconds
from roamq.core.filters import Filter
from roamq.core.records import Record
from roamq.manet.contention import Channel, ContendedRadio
from roamq.manet.field import Field
from roamq.manet.messages import (
    Beacon,
    Candidate,
    Hello,
    Message,
    NodeId,
    Notification,
    Packet,
)
from roamq.manet.node import Node
from roamq.manet.ports import Parameters
from roamq.manet.radio import ContentionFreeRadio, Radio
from roamq.manet.spreading import Spreading
from roamq.manet.subscriptions import name_of
from roamq.sim.engine import Engine

STEP_S = 0.5
"""How often the field looks who is near whom."""

TRAFFIC_BIN_S = 10.0


class NodeShell:
    """One node's host: its view of the network it runs in."""

    __slots__ = ("_id", "_network", "_sets", "_timers")

    def __init__(self, network: "Network", node: NodeId) -> None:
        self._network = network
        self._id = node
        self._timers: dict[Hashable, int] = {}
        self._sets = 0

    def now(self) -> Seconds:
        return self._network.engine.now

    def broadcast(self, message: Message) -> None:
        self._network.radio.broadcast(self._id, message)

    def unicast(self, to: NodeId, packet: Packet) -> None:
        self._network.radio.unicast(self._id, to, packet)

    def set_timer(self, key: Hashable, after: Seconds) -> None:
        """A timer set again before it fires is moved."""
        self._sets += 1
        self._timers[key] = self._sets
        self._network.engine.after(after, self._fire, key, self._sets)

    def _fire(self, key: Hashable, ticket: int) -> None:
        if self._timers.get(key) == ticket:
            del self._timers[key]
            if self._id not in self._network.absent:
                self._network.nodes[self._id].on_timer(key)

    def record(self, record: Record) -> None:
        self._network.records.append(record)


class Network:
    """A field of nodes. `records` grows as it runs; who drives it takes them from there."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        filters: Sequence[tuple[Filter, ...]],
        parameters: Parameters,
        field: Field,
        new_spreading: Callable[[], Spreading],
        random: Random,
        channel: Channel | None = None,
    ) -> None:
        self.engine = Engine()
        self.field = field
        self.parameters = parameters
        self.records: list[Record] = []
        self.absent: set[NodeId] = set()
        self.nodes = [
            Node(candidate, wanted, parameters, NodeShell(self, candidate.node), new_spreading)
            for candidate, wanted in zip(candidates, filters, strict=True)
        ]
        self.radio: Radio
        if channel is None:
            self.radio = ContentionFreeRadio(
                self.engine,
                field,
                self._receive,
                self._link_failure,
                [node.nearest.discards for node in self.nodes],
            )
        else:
            self.radio = ContendedRadio(
                self.engine, field, self._receive, self._link_failure, channel, random
            )
        for node in self.nodes:  # not all at the same instant, as no two devices are switched on
            self.engine.at(random.uniform(0.0, parameters.hello_s), node.start)
        self.engine.after(STEP_S, self._step)
        self.engine.after(TRAFFIC_BIN_S, self._count_traffic)

    def run(self, until: Seconds) -> None:
        self.engine.run(until)

    def publish(self, node: NodeId, event: Event, subscribers: int) -> None:
        """The node detects an event that so many others subscribed to."""
        if node in self.absent:
            return
        self.records.append(
            Record(
                "published",
                self.engine.now,
                client=name_of(node),
                origin=event.id.origin,
                sequence=event.id.sequence,
                count=subscribers,
            )
        )
        self._record_region(node, event)
        self.nodes[node].publish(event)

    def _record_region(self, node: NodeId, event: Event) -> None:
        """Where an event enters, and how many could have detected it there."""
        broker = self.nodes[node].local_broker
        if broker is not None:
            members = sum(other.local_broker == broker for other in self.nodes if other.me not in self.absent)
            self.records.append(
                Record(
                    "region",
                    self.engine.now,
                    broker=name_of(broker),
                    client=name_of(node),
                    origin=event.id.origin,
                    sequence=event.id.sequence,
                    count=members,
                )
            )

    def remove(self, node: NodeId) -> None:
        """The node vanishes with all it holds."""
        self.absent.add(node)
        self.field.remove(node)
        if self.nodes[node].broker is not None:
            self.records.append(Record("role", self.engine.now, broker=name_of(node), detail="vanished"))

    def brokers(self) -> list[Node]:
        return [node for node in self.nodes if node.broker is not None and node.me not in self.absent]

    def _receive(self, receiver: NodeId, sender: NodeId, message: Message) -> None:
        if receiver in self.absent:
            return
        node = self.nodes[receiver]
        if isinstance(message, Hello):
            node.neighbors[sender] = (message, self.engine.now)
        elif isinstance(message, Beacon):
            node.on_beacon(sender, message)
        elif isinstance(message, Packet):
            node.on_packet(message)
        elif isinstance(message, Notification):
            node.on_notification(message)
        else:
            node.on_candidates(message)

    def _link_failure(self, sender: NodeId, to: NodeId, packet: Packet) -> None:
        if sender not in self.absent:
            self.nodes[sender].on_link_failure(to, packet)

    def _step(self) -> None:
        self.field.step(self.engine.now)
        self.engine.after(STEP_S, self._step)

    def _count_traffic(self) -> None:
        for kind, (count, size) in sorted(self.radio.sent.items()):
            self.records.append(
                Record("traffic", self.engine.now, detail=kind, count=count, hops=count, bytes=size)
            )
        self.radio.sent.clear()
        self.engine.after(TRAFFIC_BIN_S, self._count_traffic)
