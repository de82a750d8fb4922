"""What every node of the network does, whether it is a broker or not ([DRIP] sections IV and V-A).

A node reacts to the messages that it receives and to its timers, and asks its host for everything else. While it is a
broker it holds a `broker.MobileBroker`, which does what only brokers do.
Assumes: synchronized clocks, and a delay in direct ratio to the distance ([DRIP] section III).
Departs: docs/drip.md, choices 0090 (values the paper does not name), 0091 (election), 0092 (routes and hand-overs).
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, TypeVar

from roamq.core.events import Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.core.records import Record
from roamq.manet.protocol.broker import MobileBroker
from roamq.manet.protocol.election import Election
from roamq.manet.protocol.messages import (
    Beacon,
    Body,
    BridgeStatus,
    BrokerCandidate,
    Candidates,
    EventPublication,
    Interest,
    Message,
    NeighborHello,
    NodeId,
    Notification,
    Packet,
    Quit,
    Register,
)
from roamq.manet.protocol.nearest import NearestBrokers
from roamq.manet.protocol.ports import NodeHost, Parameters
from roamq.manet.protocol.spreading import Spreading
from roamq.manet.protocol.subscriptions import name_of

REMEMBERED = 256
"""How many notifications and how many received events a node remembers, so that it takes none of them twice."""

MAX_HOPS = 32

K = TypeVar("K")


class MobileNode:
    """One mobile node. `candidate` has its id and its fitness as a broker; `filters` are its subscriptions."""

    def __init__(
        self,
        candidate: BrokerCandidate,
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
        self.neighbors: dict[NodeId, tuple[NeighborHello, Seconds]] = {}
        self.local_broker: NodeId | None = None
        self.region: str | None = None
        self.broker: MobileBroker | None = None
        self.election: Election | None = None
        self._terms = 0
        self._registrations = 0
        self._orphaned_at: Seconds = 0.0
        self._gossip_due = False
        self._unpublished: list[Event] = []
        self._waiting: list[Packet] = []
        self._floods: dict[tuple[NodeId, int], None] = {}
        self._received: dict[EventId, None] = {}

    def receive(self, sender: NodeId, message: Message) -> None:
        """A message of the neighbor `sender` has arrived: the handler of its type takes it."""
        HANDLERS[message.__class__](self, sender, message)

    # ---- bootstrapping and mobility adaption (section IV) -------------------------------------------------

    def start(self) -> None:
        """The node takes part in the first election, because there are no brokers yet, and says hello."""
        self.stand_for_election(seats=self.parameters.k)
        self.host.set_timer("hello", 0.0)
        if self.filters:
            self.host.set_timer("register", self.parameters.bootstrap_s)

    def join(self) -> None:
        """The node comes to a network that is running: it says hello, and waits to hear of a broker.

        If it hears of none for `orphan_s`, it stands for election with the others that have none.
        """
        self._orphaned_at = self.host.now()
        self.host.set_timer("hello", 0.0)
        if self.filters:
            self.host.set_timer("register", self.parameters.register_s)

    def stand_for_election(self, seats: int) -> None:
        """Take part in an election of `seats` brokers, which ends after `bootstrap_s`."""
        self.election = Election(self.candidate, seats)
        self.host.set_timer("elected", self.parameters.bootstrap_s)
        self._gossip()

    def on_hello(self, sender: NodeId, hello: NeighborHello) -> None:
        """The node knows its neighbors by what each of them said last."""
        self.neighbors[sender] = (hello, self.host.now())

    def on_candidates(self, sender: NodeId, message: Candidates) -> None:
        """A node without any broker joins the election that it hears of; a node with a broker ignores it."""
        if self.election is None and self.broker is None and not self.nearest.brokers:
            self.stand_for_election(seats=1)
        if self.election is not None and self.election.hear(message.best):
            self._gossip()

    def elected(self) -> None:
        """The election is over. The node becomes a broker if it is among the best that it has heard of."""
        election, self.election = self.election, None
        if election is None or not election.won_by(self.me) or self.broker is not None:
            return
        if election.seats < self.parameters.k and self.nearest.brokers:
            return  # the node has heard a broker meanwhile, so it need not stand in for one
        self._terms += 1
        self.broker = MobileBroker(self, region=f"{self.me}.{self._terms}", spreading=self.new_spreading())
        self.host.record(Record("role", self.host.now(), broker=name_of(self.me), detail="elected"))
        self.broker.broadcast_existence()

    def on_beacon(self, sender: NodeId, beacon: Beacon) -> None:
        """Keep and forward the beacon if its broker is among the l nearest; attach to the nearest of them."""
        if self.nearest.hear(beacon, sender, self.host.now()):
            self.host.broadcast(beacon)
            self.attach()
            if self._waiting:
                self._send_waiting(beacon.broker)

    def attach(self) -> None:
        """If another broker is the nearest now, quit at the previous local broker and register at the new one."""
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
        """Submit the subscriptions to the local broker, with the ids of the nearest brokers at this moment."""
        self._registrations += 1
        nearest = (self.me,) if self.broker is not None else self.nearest.in_order()
        interest = Interest(self.me, self._registrations, self.filters, nearest, self.host.now())
        registration = Register(interest, frozenset(self._received))
        if self.broker is not None:
            self.broker.receive(registration, (self.me,))
        elif self.local_broker is not None:
            if previous != self.local_broker:
                self._record_attachment(previous)
            self.send(self.local_broker, registration)

    def subscribe(self, *filters: Filter) -> None:
        """From now on the node wants these events, and no others; without filters it wants none any more.

        The local broker hears of it at once. Should that message be lost, the next registration repeats it; what was
        taken back ends after `interest_ttl_s` at the latest.
        """
        self.filters = filters
        if filters:
            self.host.set_timer("register", self.parameters.register_s)
        if self.local_broker is not None:
            self.register(previous=self.local_broker)

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
        elif key == "register" and self.filters:
            self.host.set_timer("register", self.parameters.register_s)
            if self.local_broker is not None:
                self.register(previous=self.local_broker)
        elif self.broker is not None:
            self.broker.on_timer(key)

    def _every_hello(self) -> None:
        """Say hello to the neighbors, forget neighbors and brokers that have gone silent, report as a bridge."""
        now = self.host.now()
        self.host.broadcast(NeighborHello(self.local_broker, self.nearest.delays()))
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
        """Repeat the best candidates in a quarter of a second, together with those heard until then."""
        if not self._gossip_due:
            self._gossip_due = True
            self.host.set_timer("gossip", 0.25)

    # ---- bridges (section V-B1) ---------------------------------------------------------------------------

    def report_bridge(self) -> None:
        """Tell the local broker if this node is a bridge to another region.

        It is Bri(M, N) if 1) it is no broker, 2) M and N are its two nearest brokers,
        and 3) the local broker of a neighbor is N.
        """
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
        """Send the event to the local broker. If there is none, or no way to it, the event waits at this node."""
        if self.broker is not None:
            self.broker.receive(EventPublication(event), (self.me,))
        elif self.local_broker is None:
            self._unpublished.append(event)
        else:
            self.send(self.local_broker, EventPublication(event))

    def _publish_again(self) -> None:
        unpublished, self._unpublished = self._unpublished, []
        for event in unpublished:
            self.publish(event)

    def on_notification(self, sender: NodeId, notification: Notification) -> None:
        """Repeat a notification of the own region once, and take the events that this node subscribed to."""
        if notification.broker != self.local_broker or not self.first_time(notification):
            return
        self.host.broadcast(notification)
        for event in notification.events:
            self.take(event)

    def first_time(self, notification: Notification) -> bool:
        """Remember the notification; False if this node knew it."""
        return _add(self._floods, (notification.broker, notification.sequence))

    def take(self, event: Event) -> None:
        """Deliver the event if this node subscribed to it, did not publish it, and has not received it before."""
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

    # ---- packets: back along the way that a broker's beacons came (section IV-B) --------------------------

    def send(self, target: NodeId, body: Body, ahead: tuple[NodeId, ...] = ()) -> None:
        """Send the body to the broker `target`, first over the hops in `ahead`, if there are any."""
        expires_at = self.host.now() + self.parameters.patience_s
        self._forward(Packet(target, body, (self.me,), ahead, expires_at))

    def on_packet(self, sender: NodeId, packet: Packet) -> None:
        """Hand a packet for this node to its broker, and forward any other packet."""
        ahead = packet.ahead[1:]  # the first hop ahead was this node
        if packet.target != self.me or ahead:
            path = (*packet.path, self.me)
            self._forward(
                Packet(
                    packet.target,
                    packet.body,
                    path,
                    ahead,
                    packet.expires_at,
                    packet.encoded_body,
                )
            )
        elif self.broker is not None:
            self.broker.receive(packet.body, packet.path)
        elif isinstance(packet.body, EventPublication):
            self.publish(packet.body.event)  # this node has resigned: its own local broker takes the event

    def on_link_failure(self, to: NodeId, packet: Packet) -> None:
        """The next hop has gone, so look for another one.

        A packet with hops ahead skips to the last of them that is a neighbor; if none is, the packet is lost.
        """
        self.neighbors.pop(to, None)
        near = [place for place, hop in enumerate(packet.ahead) if hop in self.neighbors]
        if near or not packet.ahead:
            self._forward(replace(packet, ahead=packet.ahead[near[-1] :] if near else ()))
        elif self.broker is not None:
            self.broker.on_route_lost(packet)

    def _forward(self, packet: Packet) -> None:
        """Send the packet to its next hop. `packet.path` ends with this node.

        Without a next hop, an event waits here until it can be published, a registration or a Quit until the next
        beacon of its target; other bodies are lost, and their sender tries again.
        """
        if len(packet.path) > MAX_HOPS or packet.expires_at <= self.host.now():
            return
        to = packet.ahead[0] if packet.ahead else self._next_hop(packet)
        if to is not None:
            self.host.unicast(to, packet)
        elif isinstance(packet.body, EventPublication):
            self._unpublished.append(packet.body.event)
        elif isinstance(packet.body, Register | Quit):
            self._waiting.append(packet)

    def _next_hop(self, packet: Packet) -> NodeId | None:
        """The neighbor that the target's last beacon came from; if it has gone, the neighbor nearest to the target."""
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
        """A beacon of this broker has arrived: the packets that wait for a way to it can go."""
        ready = [packet for packet in self._waiting if packet.target == broker]
        if ready:
            self._waiting = [packet for packet in self._waiting if packet.target != broker]
            for packet in ready:
                self._forward(packet)


HANDLERS: dict[type[Message], Callable[[MobileNode, NodeId, Any], None]] = {
    NeighborHello: MobileNode.on_hello,
    Candidates: MobileNode.on_candidates,
    Beacon: MobileNode.on_beacon,
    Notification: MobileNode.on_notification,
    Packet: MobileNode.on_packet,
}
"""What a node does with each type of message."""


def _add(remembered: dict[K, None], key: K) -> bool:
    """Remember the key, and forget the oldest if there are more than `REMEMBERED`; False if the key was known."""
    if key in remembered:
        return False
    remembered[key] = None
    if len(remembered) > REMEMBERED:
        del remembered[next(iter(remembered))]
    return True
