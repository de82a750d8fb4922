"""The simulated network: nodes, their radio and the field they move on, in virtual time.

All randomness comes from the generator that the network is given, so a seed determines a run.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from random import Random

from roamq.core.events import Event, Seconds
from roamq.core.filters import Filter
from roamq.core.records import Record
from roamq.manet.protocol.messages import BrokerCandidate, Message, NodeId, Packet
from roamq.manet.protocol.node import MobileNode
from roamq.manet.protocol.ports import Parameters
from roamq.manet.protocol.spreading import Spreading
from roamq.manet.protocol.subscriptions import name_of
from roamq.manet.simulation.contention import Channel, ContendedRadio
from roamq.manet.simulation.field import Field
from roamq.manet.simulation.radio import ContentionFreeRadio, Radio
from roamq.sim.engine import Engine

STEP_S = 0.5
"""How often the network works out anew which nodes are in range of each other."""

TRAFFIC_BIN_S = 10.0


class NodeShell:
    """The host of one node (`ports.NodeHost`), by which the node acts on the simulated network."""

    __slots__ = ("_id", "_network", "_sets", "_timers")

    def __init__(self, network: "AdHocNetwork", node: NodeId) -> None:
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
        """Start the timer. If it is running already, it is started anew."""
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


class AdHocNetwork:
    """Nodes on a field, connected by a radio. `records` grows while the network runs.

    `presence` has for each node the times from when and until when it is there; without it, all are there always.
    """

    def __init__(
        self,
        candidates: Sequence[BrokerCandidate],
        filters: Sequence[tuple[Filter, ...]],
        parameters: Parameters,
        field: Field,
        new_spreading: Callable[[], Spreading],
        random: Random,
        channel: Channel | None = None,
        presence: Sequence[tuple[Seconds, Seconds]] = (),
    ) -> None:
        self.engine = Engine()
        self.field = field
        self.parameters = parameters
        self.records: list[Record] = []
        self.absent: set[NodeId] = set()
        self.nodes = [
            MobileNode(candidate, wanted, parameters, NodeShell(self, candidate.node), new_spreading)
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
        for node in self.nodes:  # people do not switch on their devices at the same instant
            begins, ends = presence[node.me] if presence else (0.0, math.inf)
            switched_on = begins + random.uniform(0.0, parameters.hello_s)
            if begins > 0.0:
                self.absent.add(node.me)
                self.field.remove(node.me)
                self.engine.at(switched_on, self._appear, node)
            else:
                self.engine.at(switched_on, node.start)
            if ends < math.inf:
                self.engine.at(max(ends, switched_on), self.remove, node.me)
        self.engine.after(STEP_S, self._step)
        self.engine.after(TRAFFIC_BIN_S, self._count_traffic)

    def run(self, until: Seconds) -> None:
        self.engine.run(until)

    def publish(self, node: NodeId, event: Event, subscribers: int) -> None:
        """The node detects an event, to which `subscribers` other nodes have subscribed."""
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
        """Record in whose region the event was published, and how many nodes the region has."""
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
        """The node vanishes, with all events and subscriptions that it holds."""
        self.absent.add(node)
        self.field.remove(node)
        if self.nodes[node].broker is not None:
            self.records.append(Record("role", self.engine.now, broker=name_of(node), detail="vanished"))

    def _appear(self, node: MobileNode) -> None:
        """A node that was absent comes; during the first election it takes part in it, and later joins the others."""
        self.absent.discard(node.me)
        self.field.restore(node.me)
        if self.engine.now < self.parameters.bootstrap_s:
            node.start()
        else:
            node.join()

    def brokers(self) -> list[MobileNode]:
        """The nodes that are brokers now."""
        return [node for node in self.nodes if node.broker is not None and node.me not in self.absent]

    def _receive(self, receiver: NodeId, sender: NodeId, message: Message) -> None:
        if receiver not in self.absent:
            self.nodes[receiver].receive(sender, message)

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
