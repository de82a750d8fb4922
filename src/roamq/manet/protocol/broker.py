"""What a node does in addition while it is a broker ([DRIP] section V).

It keeps its region alive by beacons, knows the subscribers of the region, stores events and notifies them, and
exchanges subscriptions and events with other brokers. A broker "can contact only one broker node at a time" (section
V-C). A contact is four messages: the greeting carries subscriptions and offers events, the reply names the events that
the peer wants, the hand-over brings these, and the receipt ends the contact. If one of the messages is lost, the broker
offers the events again at the next contact.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roamq.core.events import Event, EventId, Seconds
from roamq.core.records import Record
from roamq.manet.protocol.buffer import HeldEvents
from roamq.manet.protocol.contacts import ContactRoute, Contacts
from roamq.manet.protocol.messages import (
    Alive,
    Beacon,
    Body,
    BridgeStatus,
    EventCopies,
    EventPublication,
    Greeting,
    Interest,
    Introduction,
    IntroductionReply,
    NodeId,
    Notification,
    Packet,
    Quit,
    Receipt,
    Register,
    Reply,
    Role,
)
from roamq.manet.protocol.nearest import KnownBroker
from roamq.manet.protocol.spreading import Spreading
from roamq.manet.protocol.subscriptions import News, SubscriptionTable, name_of, wants

if TYPE_CHECKING:
    from roamq.manet.protocol.node import MobileNode


@dataclass(slots=True)
class Contact:
    """The contact that this broker has opened and not finished. A broker has at most one."""

    number: int
    peer: NodeId
    route: ContactRoute
    revision: int
    offered: dict[EventId, Role]
    handed: tuple[EventId, ...] = ()


class MobileBroker:
    """The broker of one region. It sends through its node, which drops it when it resigns."""

    def __init__(self, node: "MobileNode", region: str, spreading: Spreading) -> None:
        self.node = node
        self.me = node.me
        self.region = region
        self.parameters = node.parameters
        self.host = node.host
        self.spreading = spreading
        self.members: dict[NodeId, tuple[Interest, Seconds]] = {}
        self.table = SubscriptionTable(node.parameters.interest_ttl_s)
        self.buffer = HeldEvents(node.parameters.buffer_events)
        self.contacts = Contacts(node.parameters)
        self.brokers: dict[NodeId, Alive] = {}
        self.contact: Contact | None = None
        self._contacts = 0
        self._beacons = 0
        self._notifications = 0

    def receive(self, body: Body, path: tuple[NodeId, ...]) -> None:
        """A packet's body has arrived, by this path from its sender: the handler of its type takes it."""
        HANDLERS[body.__class__](self, body, path)

    # ---- the region ---------------------------------------------------------------------------------------

    def broadcast_existence(self) -> None:
        """Broadcast a beacon, now and again after every `beacon_s`."""
        self._beacons += 1
        now = self.host.now()
        self.still_here(now)
        self.node.attach()
        self.host.broadcast(Beacon(self.me, self.region, self._beacons, now))
        self.host.set_timer(("beacon", self.region), self.parameters.beacon_s)

    def still_here(self, now: Seconds) -> None:
        """Enters the broker as its own nearest broker, at delay zero."""
        nearest = self.node.nearest
        known = nearest.brokers.get(self.me)
        if known is None:
            nearest.keep(self.me, KnownBroker(self.region, self._beacons, 0.0, self.me, now))
        else:
            known.heard_at, known.sequence = now, self._beacons

    def on_timer(self, key: Hashable) -> None:
        if key == ("beacon", self.region):
            self._forget_silent()
            self.broadcast_existence()
            self.contact_next()
        elif self.contact is not None and key == ("contact", self.region, self.contact.number):
            self._contact_failed()

    def _forget_silent(self) -> None:
        """Forget members that have not registered for three periods, and subscriptions after `interest_ttl_s`."""
        now = self.host.now()
        silent = now - 3 * self.parameters.register_s
        for member in [member for member, (_, heard_at) in self.members.items() if heard_at < silent]:
            del self.members[member]
        for subscriber in self.table.forget_silent(now):
            self.buffer.add_subscriber(subscriber, [])

    # ---- subscription, publication, notification (section V-A) --------------------------------------------

    def on_register(self, registration: Register, path: tuple[NodeId, ...]) -> None:
        """Take the node in as a member, and notify it of the stored events that it wants and has not received."""
        interest, received = registration.interest, registration.received
        known = self.members.get(interest.subscriber)
        if not interest.filters:
            if known is not None and known[0].sequence < interest.sequence:
                del self.members[interest.subscriber]
            if self.table.knows(interest.subscriber):
                self._learn(interest)  # it takes back what it wanted, and other brokers must hear of that
            return
        self._learn(interest)
        if known is None or known[0].sequence < interest.sequence:
            self.members[interest.subscriber] = (interest, self.host.now())
        missed = [event for event in self.buffer.wanted_by(interest.subscriber) if event.id not in received]
        if missed:
            self.notify(missed)

    def on_quit(self, quitting: Quit, path: tuple[NodeId, ...]) -> None:
        """Delete the subscriber's membership, unless it has registered again since it sent the Quit."""
        known = self.members.get(quitting.subscriber)
        if known is not None and known[0].sequence <= quitting.sequence:
            del self.members[quitting.subscriber]

    def on_publication(self, publication: EventPublication, path: tuple[NodeId, ...]) -> None:
        """A node of this region published an event: store it, and find out which brokers it has to go to."""
        event = publication.event
        if self.buffer.met(event.id):
            return
        interested = self.table.interested(event)
        elsewhere = [interest for interest in interested if interest.subscriber not in self.members]
        each = self.spreading.per_subscriber
        destinations = {broker for interest in elsewhere for broker in interest.nearest[:each]} - {self.me}
        self.spreading.published(event.id, destinations)
        self._store(event, Role.SOURCE, interested, given_by=None)
        self.contact_next()

    def _store(self, event: Event, role: Role, interested: list[Interest], given_by: NodeId | None) -> None:
        subscribers = {interest.subscriber for interest in interested}
        self.host.record(
            Record(
                "copied",
                self.host.now(),
                broker=name_of(self.me),
                origin=event.id.origin,
                sequence=event.id.sequence,
                peer=None if given_by is None else name_of(given_by),
                detail=role.value,
            )
        )
        for deleted in self.buffer.add(event, subscribers):
            self.spreading.discard(deleted)
        if not subscribers.isdisjoint(self.members):
            self.notify([event])

    def notify(self, events: list[Event]) -> None:
        """Flood the events in this region. Nodes of other regions do not repeat the flood."""
        self._notifications += 1
        notification = Notification(self.me, self._notifications, tuple(events))
        self.node.first_time(notification)
        self.host.broadcast(notification)
        for event in events:
            self.node.take(event)

    def _learn(self, interest: Interest, source: NodeId | None = None) -> None:
        if self.table.learn(interest, self.host.now(), source) is News.CONDITIONS:
            wanted = [event for event in self.buffer.events() if wants(interest, event)]
            self.buffer.add_subscriber(interest.subscriber, wanted)

    # ---- cooperation among brokers (section V-B) ----------------------------------------------------------

    def on_bridge_status(self, status: BridgeStatus, path: tuple[NodeId, ...]) -> None:
        self.contacts.bridge_reported(status, path, self.host.now())
        self.contact_next()

    def contact_next(self) -> None:
        """Open a contact with the nearest reachable broker that lacks events or subscriptions of this one."""
        if self.contact is not None:
            return
        now = self.host.now()
        for route in self.contacts.reachable(self.node.neighbors, now):
            chances = self.spreading.predictabilities
            is_due = chances is not None and chances.exchange_due(route.peer, now)
            has_events = self.spreading.has_work(route.peer)
            if is_due or has_events or self.contacts.gossip_due(route.peer, self.table.revision, now):
                self._open_contact(route, now)
                return

    def _open_contact(self, route: ContactRoute, now: Seconds) -> None:
        self._contacts += 1
        self._hear_of([Alive(self.node.candidate, now)])
        offers = self.spreading.offers(route.peer)
        news = self.table.news_for(route.peer, self.contacts.acknowledged(route.peer))
        contact = Contact(self._contacts, route.peer, route, self.table.revision, dict(offers))
        self.contact = contact
        greeting = Greeting(
            contact.number, contact.revision, news, tuple(self.brokers.values()), tuple(offers)
        )
        self.host.set_timer(("contact", self.region, contact.number), self.parameters.contact_timeout_s)
        chances = self.spreading.predictabilities
        body = greeting if chances is None else Introduction(greeting, chances.told(now))
        self.node.send(route.peer, body, ahead=route.hops)

    def on_greeting(self, greeting: Greeting, path: tuple[NodeId, ...]) -> None:
        self.node.send(path[0], self._answer(greeting, path), ahead=path[::-1])
        self._hear_of(greeting.brokers)

    def on_introduction(self, introduction: Introduction, path: tuple[NodeId, ...]) -> None:
        """A greeting of a broker that predicts whom it will meet; a broker that does not takes it as a greeting."""
        chances, now, greeting = self.spreading.predictabilities, self.host.now(), introduction.greeting
        if chances is None:
            self.on_greeting(greeting, path)
            return
        answer = IntroductionReply(self._answer(greeting, path), chances.told(now))
        self.spreading.met(path[0], introduction.predictabilities, self.me, now)
        self.node.send(path[0], answer, ahead=path[::-1])
        self._hear_of(greeting.brokers)

    def on_introduction_reply(self, answer: IntroductionReply, path: tuple[NodeId, ...]) -> None:
        if self.contact is not None and answer.reply.contact == self.contact.number:
            self.spreading.met(self.contact.peer, answer.predictabilities, self.me, self.host.now())
        self.on_reply(answer.reply, path)

    def _answer(self, greeting: Greeting, path: tuple[NodeId, ...]) -> Reply:
        """Learn the subscriptions, and say which of the offered events this broker wants."""
        for interest in reversed(greeting.interests):
            self._learn(interest, source=path[0])
        wanted = tuple(event for event, _ in greeting.offers if not self.buffer.met(event))
        return Reply(greeting.contact, greeting.revision, wanted)

    def on_reply(self, reply: Reply, path: tuple[NodeId, ...]) -> None:
        contact = self.contact
        if contact is None or reply.contact != contact.number:
            return
        self.contacts.talked(contact.peer, reply.revision, self.host.now())
        wanted = set(reply.wanted)
        for offered in contact.offered:
            if offered not in wanted:
                self.spreading.given(offered, contact.peer, copied=False)
        copies = []
        for event_id in reply.wanted:
            event = self.buffer.get(event_id)
            if event is not None:
                found = self.spreading.destinations(event_id) - {contact.peer, self.me}
                copies.append((event, contact.offered[event_id], found))
        if not copies:
            self._contact_over()
            return
        contact.handed = tuple(event.id for event, _, _ in copies)
        self.host.set_timer(("contact", self.region, contact.number), self.parameters.contact_timeout_s)
        self.node.send(contact.peer, EventCopies(contact.number, tuple(copies)), ahead=contact.route.hops)

    def on_event_copies(self, handover: EventCopies, path: tuple[NodeId, ...]) -> None:
        for event, role, found in handover.copies:
            if not self.buffer.met(event.id):
                self.spreading.accepted(event.id, role, found)
                self._store(event, role, self.table.interested(event), given_by=path[0])
        self.node.send(path[0], Receipt(handover.contact), ahead=path[::-1])
        self.contact_next()

    def on_receipt(self, receipt: Receipt, path: tuple[NodeId, ...]) -> None:
        contact = self.contact
        if contact is not None and contact.number == receipt.contact:
            for event in contact.handed:
                self.spreading.given(event, contact.peer, copied=True)
            self._contact_over()

    def _contact_over(self) -> None:
        self.contact = None
        self.contact_next()

    def _contact_failed(self) -> None:
        assert self.contact is not None
        self.contacts.route_failed(self.contact.route, self.host.now())
        self._contact_over()

    def on_route_lost(self, packet: Packet) -> None:
        """A packet of this node could not be sent. If it belongs to the open contact, the contact fails at once."""
        contact = self.contact
        if (
            contact is not None
            and packet.target == contact.peer
            and isinstance(packet.body, Greeting | Introduction | EventCopies)
        ):
            self._contact_failed()

    # ---- too many brokers (docs/drip.md, choice 0091) ------------------------------------------------------

    def _hear_of(self, alive: Iterable[Alive]) -> None:
        """Learn which brokers are alive. A broker that knows k better ones is not among the top k, and resigns."""
        for other in alive:
            known = self.brokers.get(other.candidate.node)
            if known is None or known.seen_at < other.seen_at:
                self.brokers[other.candidate.node] = other
        silent = self.host.now() - self.parameters.roster_ttl_s
        for gone in [node for node, other in self.brokers.items() if other.seen_at < silent]:
            del self.brokers[gone]
        mine = self.node.candidate.rank
        if sum(other.candidate.rank > mine for other in self.brokers.values()) >= self.parameters.k:
            self.resign()

    def resign(self) -> None:
        """Stop being a broker: the node joins another region and publishes there what still has to spread."""
        node = self.node
        node.broker = None
        node.nearest.forget(self.me)
        self.host.record(Record("role", self.host.now(), broker=name_of(self.me), detail="resigned"))
        node.attach()
        for event in self.buffer.events():
            if self.spreading.unfinished(event.id):
                node.publish(event)


HANDLERS: dict[type[Body], Callable[[MobileBroker, Any, tuple[NodeId, ...]], None]] = {
    Register: MobileBroker.on_register,
    Quit: MobileBroker.on_quit,
    EventPublication: MobileBroker.on_publication,
    BridgeStatus: MobileBroker.on_bridge_status,
    Greeting: MobileBroker.on_greeting,
    Reply: MobileBroker.on_reply,
    EventCopies: MobileBroker.on_event_copies,
    Receipt: MobileBroker.on_receipt,
    Introduction: MobileBroker.on_introduction,
    IntroductionReply: MobileBroker.on_introduction_reply,
}
"""What a broker does with each type of body."""
