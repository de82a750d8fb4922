"""A node: what every node of the network does, broker or not ([DRIP] sections IV and V-A).

Sans-IO: it reacts to what it hears and to its timers, and asks its host for everything else. Broker duties are
in `broker.Broker`, which a node holds while it is one.
Assumes: synchronized clocks, and a delay in direct ratio to the distance ([DRIP] section III).
Departs: docs/decisions/0090 (values the paper does not name), 0091 (election), 0092 (routes and hand-overs).
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TypeVar

from roamq.core.events import Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.core.records import Record
from roamq.manet.broker import Broker
from roamq.manet.election import Election
from roamq.manet.messages import (
    Beacon,
    Body,
    BridgeStatus,
    Candidate,
    Candidates,
    Hello,
    Interest,
    NodeId,
    Notification,
    Packet,
    Publish,
    Quit,
    Register,
)
from roamq.manet.nearest import NearestBrokers
from roamq.manet.ports import NodeHost, Parameters
from roamq.manet.spreading import Spreading
from roamq.manet.subscriptions import name_of

REMEMBERED = 256
"""How many floods and received events a node remembers, to take each once."""

MAX_HOPS = 32

K = TypeVar("K")


class Node:
    """One mobile node. `candidate` carries what brokers are chosen by; `filters` are its subscriptions."""

    def __init__(
        self,
        candidate: Candidate,
        filters: tuple[Filter, ...],
        parameters: Parameters,
        host: NodeHost,
        new_spreading: Callable[[], Spreading],
    ) -> None:
        self.me = candidate.node
        self.candidate = candidate
        self.filters = filters
        self.parameters = parameters
        self.host = host
        self.new_spreading = new_spreading
        self.nearest = NearestBrokers(parameters.l)
        self.neighbors: dict[NodeId, tuple[Hello, Seconds]] = {}
        self.local_broker: NodeId | None = None
        self.region: str | None = None
        self.broker: Broker | None = None
        self.election: Election | None = None
        self._terms = 0
        self._registrations = 0
        self._orphaned_at: Seconds = 0.0
        self._gossip_due = False
        self._unpublished: list[Event] = []
        self._waiting: list[Packet] = []
        self._floods: dict[tuple[NodeId, int], None] = {}
        self._received: dict[EventId, None] = {}

    # ---- bootstrapping and mobility adaption (section IV) -------------------------------------------------

    def start(self) -> None:
        """Initially there are no brokers: the node takes part in choosing them, and greets its neighbors."""
        self.stand_for_election(seats=self.parameters.k)
        self.host.set_timer("hello", 0.0)
        if self.filters:
            self.host.set_timer("register", self.parameters.bootstrap_s)

    def stand_for_election(self, seats: int) -> None:
        self.election = Election(self.candidate, seats)
        self.host.set_timer("elected", self.parameters.bootstrap_s)
        self._gossip()

    def on_candidates(self, message: Candidates) -> None:
        """Heard only by nodes without a broker: the others have no election to decide."""
        if self.election is None and self.broker is None and not self.nearest.brokers:
            self.stand_for_election(seats=1)
        if self.election is not None and self.election.hear(message.best):
            self._gossip()

    def elected(self) -> None:
        election, self.election = self.election, None
        if election is None or not election.won_by(self.me) or self.broker is not None:
            return
        if election.seats < self.parameters.k and self.nearest.brokers:
            return  # a stand-in is not needed any more: a broker was heard meanwhile
        self._terms += 1
        self.broker = Broker(self, region=f"{self.me}.{self._terms}", spreading=self.new_spreading())
        self.host.record(Record("role", self.host.now(), broker=name_of(self.me), detail="elected"))
        self.broker.broadcast_existence()

    def on_beacon(self, sender: NodeId, beacon: Beacon) -> None:
        """Keep the l nearest brokers, forward what was kept, discard the rest, attach to the nearest."""
        if self.nearest.hear(beacon, sender, self.host.now()):
            self.host.broadcast(beacon)
            self.attach()
            if self._waiting:
                self._send_waiting(beacon.broker)

    def attach(self) -> None:
        """The local broker is always the nearest one: Quit at the previous, register at the new."""
        nearest = self.nearest.local()
        region = self.nearest.brokers[nearest].region if nearest is not None else None
        if region == self.region:
            return
        previous, self.local_broker, self.region = self.local_broker, nearest, region
        if nearest is None:
            self._orphaned_at = self.host.now()
        if previous is not None and previous != self.me:
            self.send(previous, Quit(self.me, self._registrations))
        if nearest is not None:
            self.register(previous)
            self._publish_again()

    def register(self, previous: NodeId | None = None) -> None:
        """With the local copy of the subscriptions, and the nearest brokers of this moment."""
        self._registrations += 1
        nearest = (self.me,) if self.broker is not None else self.nearest.in_order()
        interest = Interest(self.me, self._registrations, self.filters, nearest)
        received = frozenset(self._received)
        if self.broker is not None:
            self.broker.on_register(interest, received)
        elif self.local_broker is not None:
            if previous != self.local_broker:
                self._record_attachment(previous)
            self.send(self.local_broker, Register(interest, received))

    def on_timer(self, key: Hashable) -> None:
        if key == "hello":
            self.host.set_timer("hello", self.parameters.hello_s)
            self._every_hello()
        elif key == "gossip":
            self._gossip_due = False
            if self.election is not None:
                self.host.broadcast(Candidates(self.election.best))
        elif key == "elected":
            self.elected()
        elif key == "register":
            self.host.set_timer("register", self.parameters.register_s)
            if self.local_broker is not None:
                self.register(previous=self.local_broker)
        elif self.broker is not None:
            self.broker.on_timer(key)

    def _every_hello(self) -> None:
        """Neighbor discovery, and with it everything that has gone silent is forgotten."""
        now = self.host.now()
        self.host.broadcast(Hello(self.local_broker, self.nearest.delays()))
        gone = now - self.parameters.neighbor_ttl_s
        for neighbor in [neighbor for neighbor, (_, heard_at) in self.neighbors.items() if heard_at < gone]:
            del self.neighbors[neighbor]
        if self.broker is not None:
            self.broker.still_here(now)
        self.nearest.forget_before(now - self.parameters.broker_ttl_s)
        self.attach()
        if self.nearest.brokers:
            self._publish_again()
            if self.broker is None and int(now / self.parameters.hello_s) % self._bridge_every() == 0:
                self.report_bridge()
        elif self.election is None and now - self._orphaned_at >= self.parameters.orphan_s:
            self.stand_for_election(seats=1)
        self._waiting = [packet for packet in self._waiting if packet.expires_at > now]

    def _bridge_every(self) -> int:
        return max(1, round(self.parameters.bridge_s / self.parameters.hello_s))

    def _gossip(self) -> None:
        """Candidates heard within a quarter of a second are repeated together."""
        if not self._gossip_due:
            self._gossip_due = True
            self.host.set_timer("gossip", 0.25)

    # ---- bridges (section V-B1) ---------------------------------------------------------------------------

    def report_bridge(self) -> None:
        """Bri(M, N): 1) a non-broker; 2) M and N are its two nearest brokers; 3) a neighbor's local broker is N."""
        order = self.nearest.in_order()
        if self.broker is not None or len(order) < 2:
            return
        local, second = order[:2]
        foreign = [
            (hello.delays.get(second, float("inf")), neighbor)
            for neighbor, (hello, _) in self.neighbors.items()
            if hello.local_broker == second
        ]
        if foreign:
            known = self.nearest.brokers
            delay_s = known[local].delay_s + known[second].delay_s
            self.send(local, BridgeStatus(second, min(foreign)[1], delay_s))

    # ---- publication and notification (section V-A) -------------------------------------------------------

    def publish(self, event: Event) -> None:
        """To the local broker; without one, or without a way to it, the event waits here."""
        if self.broker is not None:
            self.broker.on_publish(event)
        elif self.local_broker is None:
            self._unpublished.append(event)
        else:
            self.send(self.local_broker, Publish(event))

    def _publish_again(self) -> None:
        unpublished, self._unpublished = self._unpublished, []
        for event in unpublished:
            self.publish(event)

    def on_notification(self, notification: Notification) -> None:
        """Repeated once by the nodes of the region; a subscriber takes the events it asked for."""
        if notification.broker != self.local_broker or not self.first_time(notification):
            return
        self.host.broadcast(notification)
        for event in notification.events:
            self.take(event)

    def first_time(self, notification: Notification) -> bool:
        return _add(self._floods, (notification.broker, notification.sequence))

    def take(self, event: Event) -> None:
        is_wanted = any(condition.matches(event) for condition in self.filters)
        if not is_wanted or event.publisher == name_of(self.me) or not _add(self._received, event.id):
            return
        now = self.host.now()
        self.host.record(
            Record(
                "delivered",
                now,
                broker=name_of(self.local_broker) if self.local_broker is not None else None,
                client=name_of(self.me),
                origin=event.id.origin,
                sequence=event.id.sequence,
                detail="live",
                duration_s=now - event.published_at,
            )
        )

    def _record_attachment(self, previous: NodeId | None) -> None:
        local = name_of(self.local_broker) if self.local_broker is not None else None
        peer = name_of(previous) if previous is not None else None
        self.host.record(
            Record("connected", self.host.now(), broker=local, client=name_of(self.me), peer=peer)
        )

    # ---- packets: the reverse path of a broker's broadcasts (section IV-B) --------------------------------

    def send(self, target: NodeId, body: Body, ahead: tuple[NodeId, ...] = ()) -> None:
        expires_at = self.host.now() + self.parameters.patience_s
        self._forward(Packet(target, body, (self.me,), ahead, expires_at, body.size_bytes))

    def on_packet(self, packet: Packet) -> None:
        ahead = packet.ahead[1:]
        if packet.target != self.me or ahead:
            path = (*packet.path, self.me)
            self._forward(
                Packet(packet.target, packet.body, path, ahead, packet.expires_at, packet.body_bytes)
            )
        elif self.broker is not None:
            self.broker.on_packet(packet)
        elif isinstance(packet.body, Publish):
            self.publish(packet.body.event)  # no broker any more: on to its own local broker

    def on_link_failure(self, to: NodeId, packet: Packet) -> None:
        """The next hop has gone: a route to a broker is repaired here, a source route if a later hop is near."""
        self.neighbors.pop(to, None)
        near = [place for place, hop in enumerate(packet.ahead) if hop in self.neighbors]
        if near or not packet.ahead:
            self._forward(replace(packet, ahead=packet.ahead[near[-1] :] if near else ()))
        elif self.broker is not None:
            self.broker.on_route_lost(packet)

    def _forward(self, packet: Packet) -> None:
        """`packet.path` ends with this node."""
        if len(packet.path) > MAX_HOPS or packet.expires_at <= self.host.now():
            return
        to = packet.ahead[0] if packet.ahead else self._next_hop(packet)
        if to is not None:
            self.host.unicast(to, packet)
        elif isinstance(packet.body, Publish):
            self._unpublished.append(packet.body.event)
        elif isinstance(packet.body, Register | Quit):
            self._waiting.append(packet)

    def _next_hop(self, packet: Packet) -> NodeId | None:
        """Where the target's last broadcast came from; where that neighbor has gone, the neighbor nearest to it."""
        target, path = packet.target, packet.path
        known = self.nearest.brokers.get(target)
        if known is not None and known.via in self.neighbors and known.via not in path:
            return known.via
        ways = [
            (hello.delays[target], neighbor)
            for neighbor, (hello, _) in self.neighbors.items()
            if target in hello.delays and neighbor not in path
        ]
        return min(ways)[1] if ways else None

    def _send_waiting(self, broker: NodeId) -> None:
        ready = [packet for packet in self._waiting if packet.target == broker]
        if ready:
            self._waiting = [packet for packet in self._waiting if packet.target != broker]
            for packet in ready:
                self._forward(packet)


def _add(remembered: dict[K, None], key: K) -> bool:
    """Remember the key, and forget the oldest when there are too many; False if it was known."""
    if key in remembered:
        return False
    remembered[key] = None
    if len(remembered) > REMEMBERED:
        del remembered[next(iter(remembered))]
    return True
