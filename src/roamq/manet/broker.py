"""A node's duties while it is a broker: its region, its subscribers, its events, and its contacts ([DRIP] section V).

A broker "can contact only one broker node at a time" (section V-C): a contact is a greeting that carries
subscriptions and offers events, a reply that says which are wanted, a hand-over and a receipt. What gets lost on
the way is offered again at the next contact.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roamq.core.events import Event, EventId, Seconds
from roamq.core.records import Record
from roamq.manet.buffer import EventBuffer
from roamq.manet.contacts import Contacts, Route
from roamq.manet.messages import (
    Alive,
    Beacon,
    BridgeStatus,
    Greeting,
    Handover,
    Interest,
    NodeId,
    Notification,
    Packet,
    Publish,
    Quit,
    Receipt,
    Register,
    Reply,
    Role,
)
from roamq.manet.nearest import KnownBroker
from roamq.manet.spreading import Spreading
from roamq.manet.subscriptions import News, SubscriptionTable, name_of, wants

if TYPE_CHECKING:
    from roamq.manet.node import Node


@dataclass(slots=True)
class Contact:
    """The one contact this broker has opened and not finished."""

    number: int
    peer: NodeId
    route: Route
    revision: int
    offered: dict[EventId, Role]
    handed: tuple[EventId, ...] = ()


class Broker:
    """The broker of one region. It acts through its node, and is dropped when the node resigns."""

    def __init__(self, node: "Node", region: str, spreading: Spreading) -> None:
        self.node = node
        self.me = node.me
        self.region = region
        self.parameters = node.parameters
        self.host = node.host
        self.spreading = spreading
        self.members: dict[NodeId, tuple[Interest, Seconds]] = {}
        self.table = SubscriptionTable()
        self.buffer = EventBuffer(node.parameters.buffer_events)
        self.contacts = Contacts(node.parameters)
        self.brokers: dict[NodeId, Alive] = {}
        self.contact: Contact | None = None
        self._contacts = 0
        self._beacons = 0
        self._notifications = 0

    # ---- the region ---------------------------------------------------------------------------------------

    def broadcast_existence(self) -> None:
        """Periodically, at a low frequency: node id, region id, sequence number, source time-stamp."""
        self._beacons += 1
        now = self.host.now()
        self.still_here(now)
        self.node.attach()
        self.host.broadcast(Beacon(self.me, self.region, self._beacons, now))
        self.host.set_timer(("beacon", self.region), self.parameters.beacon_s)

    def still_here(self, now: Seconds) -> None:
        """The nearest broker of a broker is itself, at no distance."""
        nearest = self.node.nearest
        known = nearest.brokers.get(self.me)
        if known is None:
            nearest.keep(self.me, KnownBroker(self.region, self._beacons, 0.0, self.me, now))
        else:
            known.heard_at, known.sequence = now, self._beacons

    def on_timer(self, key: Hashable) -> None:
        if key == ("beacon", self.region):
            self._forget_silent_members()
            self.broadcast_existence()
            self.contact_next()
        elif self.contact is not None and key == ("contact", self.region, self.contact.number):
            self._contact_failed()

    def _forget_silent_members(self) -> None:
        """A subscriber that vanished without a Quit stops submitting its subscriptions."""
        silent = self.host.now() - 3 * self.parameters.register_s
        for member in [member for member, (_, heard_at) in self.members.items() if heard_at < silent]:
            del self.members[member]

    # ---- subscription, publication, notification (section V-A) --------------------------------------------

    def on_packet(self, packet: Packet) -> None:
        match packet.body:
            case Register(interest, received):
                self.on_register(interest, received)
            case Quit(subscriber, sequence):
                self.on_quit(subscriber, sequence)
            case Publish(event):
                self.on_publish(event)
            case BridgeStatus() as status:
                self.contacts.bridge_reported(status, packet.path, self.host.now())
                self.contact_next()
            case Greeting() as greeting:
                self.on_greeting(greeting, packet.path)
            case Reply() as reply:
                self.on_reply(reply)
            case Handover() as handover:
                self.on_handover(handover, packet.path)
            case Receipt(contact):
                self.on_receipt(contact)

    def on_register(self, interest: Interest, received: frozenset[EventId]) -> None:
        if not interest.filters:
            return
        self._learn(interest)
        known = self.members.get(interest.subscriber)
        if known is None or known[0].sequence < interest.sequence:
            self.members[interest.subscriber] = (interest, self.host.now())
        missed = [event for event in self.buffer.wanted_by(interest.subscriber) if event.id not in received]
        if missed:
            self.notify(missed)

    def on_quit(self, subscriber: NodeId, sequence: int) -> None:
        """Unless the subscriber has registered again since it sent the Quit."""
        known = self.members.get(subscriber)
        if known is not None and known[0].sequence <= sequence:
            del self.members[subscriber]

    def on_publish(self, event: Event) -> None:
        if self.buffer.met(event.id):
            return
        interested = self.table.interested(event)
        elsewhere = [interest for interest in interested if interest.subscriber not in self.members]
        destinations = {broker for interest in elsewhere for broker in interest.nearest} - {self.me}
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
        """Flood the events in this region, and only there."""
        self._notifications += 1
        notification = Notification(self.me, self._notifications, tuple(events))
        self.node.first_time(notification)
        self.host.broadcast(notification)
        for event in events:
            self.node.take(event)

    def _learn(self, interest: Interest, source: NodeId | None = None) -> None:
        if self.table.learn(interest, source) is News.CONDITIONS:
            wanted = [event for event in self.buffer.events() if wants(interest, event)]
            self.buffer.add_subscriber(interest.subscriber, wanted)

    # ---- cooperation among brokers (section V-B) ----------------------------------------------------------

    def contact_next(self) -> None:
        """Open a contact with the nearest broker that can be reached and that there is something to tell."""
        if self.contact is not None:
            return
        now = self.host.now()
        for route in self.contacts.reachable(self.node.neighbors, now):
            has_events = self.spreading.has_work(route.peer)
            if has_events or self.contacts.gossip_due(route.peer, self.table.revision, now):
                self._open_contact(route, now)
                return

    def _open_contact(self, route: Route, now: Seconds) -> None:
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
        self.node.send(route.peer, greeting, ahead=route.hops)

    def on_greeting(self, greeting: Greeting, path: tuple[NodeId, ...]) -> None:
        for interest in reversed(greeting.interests):
            self._learn(interest, source=path[0])
        wanted = tuple(event for event, _ in greeting.offers if not self.buffer.met(event))
        reply = Reply(greeting.contact, greeting.revision, wanted)
        self.node.send(path[0], reply, ahead=path[::-1])
        self._hear_of(greeting.brokers)

    def on_reply(self, reply: Reply) -> None:
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
        self.node.send(contact.peer, Handover(contact.number, tuple(copies)), ahead=contact.route.hops)

    def on_handover(self, handover: Handover, path: tuple[NodeId, ...]) -> None:
        for event, role, found in handover.copies:
            if not self.buffer.met(event.id):
                self.spreading.accepted(event.id, role, found)
                self._store(event, role, self.table.interested(event), given_by=path[0])
        self.node.send(path[0], Receipt(handover.contact), ahead=path[::-1])
        self.contact_next()

    def on_receipt(self, number: int) -> None:
        contact = self.contact
        if contact is not None and contact.number == number:
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
        """The first hop of a contact has gone: no need to wait for the time-out."""
        contact = self.contact
        if (
            contact is not None
            and packet.target == contact.peer
            and isinstance(packet.body, Greeting | Handover)
        ):
            self._contact_failed()

    # ---- too many brokers (docs/decisions/0091) -----------------------------------------------------------

    def _hear_of(self, alive: Iterable[Alive]) -> None:
        """S_B is the top k of the network: who knows k better ones that are alive steps back."""
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
        """The node joins another region and publishes there what it still had to spread."""
        node = self.node
        node.broker = None
        node.nearest.forget(self.me)
        self.host.record(Record("role", self.host.now(), broker=name_of(self.me), detail="resigned"))
        node.attach()
        for event in self.buffer.events():
            if self.spreading.unfinished(event.id):
                node.publish(event)
