"""What an overlay promises: events of one origin reach every interested broker once, in order."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from roamq.core.events import BrokerId, Event
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.ports import Host
from roamq.overlay.topology import Topology


class Router(Protocol):
    """Routing between brokers; it knows filters and links, and nothing of clients that move."""

    def subscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Somebody here wants events that match. Counted: as many `unsubscribe` calls end it."""

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None: ...

    def advertise(self, filter: Filter) -> None:
        """Somebody here will publish events that match."""

    def publish(self, event: Event) -> None:
        """An event enters here: pass it on to whom it concerns."""

    def receive_event(self, sender: BrokerId, event: Event) -> bool:
        """An event came from a neighbour: pass it on. False if it was here before."""

    def receive(self, sender: BrokerId, message: Message) -> bool:
        """A routing message came from a neighbour. True: a fence that had not `passed` may have passed now."""

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """A neighbour restarted without its store: it knows neither what it was told nor what it had said."""

    def doubt(self) -> None:
        """This broker knows that it has forgotten what it was told: it begins anew, or from an old store."""

    def restarted(self) -> None:
        """This broker goes on from a store that may be old: each neighbour says whether it is (`in_step`)."""

    def count_on(self, number: int) -> None:
        """Numbers up to this one may have been used in a life that the store does not remember."""

    def in_step(self, neighbour: BrokerId) -> None:
        """The store holds all that this neighbour was ever told and had said."""

    def broker_joined(self, broker: BrokerId, mark: str) -> None:
        """The topology has a new edge broker, or it is this one; `mark` names this life of it in the network.

        A neighbour that it has now begins anew (`neighbour_forgot` follows when the link is up)."""

    def broker_departed(self, broker: BrokerId) -> None:
        """A broker is gone from the topology: nothing is kept for it, and nobody waits for it any more."""

    def is_departed(self, broker: BrokerId) -> bool:
        """Whether the broker is gone for good."""

    def rewired(self) -> None:
        """The router was given its state again, and the topology is as it was then."""

    def unicast(self, to: BrokerId, message: Message) -> None:
        """Send a message to any broker, along the links that events use; to one that departed nothing is sent."""

    def brokers(self) -> tuple[BrokerId, ...]:
        """All brokers of the network, as this one knows it."""

    def pair_through(self, broker: BrokerId) -> tuple[BrokerId, BrokerId] | None:
        """Two brokers between which events or messages go through a third one; None if there are none."""

    def next_hop(self, to: BrokerId) -> BrokerId:
        """The neighbour on the way to `to`."""

    def distance(self, a: BrokerId, b: BrokerId) -> int:
        """How many links lie between two brokers."""

    def fence(self, peer: BrokerId, filters: Iterable[Filter] | None = None) -> Mapping[BrokerId, int]:
        """What the broker `peer` is to wait for (`passed`) because of what this one has subscribed to and seen.

        Events that match none of `filters` need not be waited for, if these are given.

        The message that brings the fence to `peer` is sent by `unicast` right after this.
        """

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        """Has this broker seen every event that it wants and that the broker of `fence` had seen, or will never see?

        This is the ordering condition of [DIS] section 3.1, step 3. Where unicast and events share one path it
        holds as soon as the message that carries the fence arrives; under flooding it is compared origin by origin,
        and under routing by interest markers say when it holds. It may become true with an event, or when `receive`
        says so.
        """

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        """The origins of which a fence has not `passed`: of all others nothing comes here that the fence speaks of.

        It may name more origins than it must, and none if the fence has passed. A name that `stands_for_unknown` means
        brokers that this one has not heard of.
        """

    def joined_later(self) -> frozenset[BrokerId]:
        """The edge brokers that this one has heard of, those that departed included."""

    def may_miss(self, origin: BrokerId) -> bool:
        """Whether events of an origin may have gone past this broker, because it begins anew."""

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        """A fence for this broker itself: it has `passed` when every broker where something that matches may be
        published knows of all subscriptions made here.

        `anew`: and when all has come that others had sent here before they knew of messages sent before this call.
        """

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        """The brokers that a fence of `confirm` still waits for."""


class TreeUnicast:
    """Unicast hop by hop along the overlay's links, which is how every overlay here does it."""

    def __init__(self, me: BrokerId, host: Host, topology: Topology) -> None:
        self.me = me
        self.host = host
        self.topology = topology
        self._via: dict[BrokerId, BrokerId] = {}
        """Broker -> the neighbour on the way there, once somebody has asked."""

    def next_hop(self, to: BrokerId) -> BrokerId:
        via = self._via.get(to)
        if via is None:
            via = self._via[to] = self.topology.next_hop(self.me, to)
        return via

    def pair_through(self, broker: BrokerId) -> tuple[BrokerId, BrokerId] | None:
        return self.topology.pair_through(broker, self.topology)

    def distance(self, a: BrokerId, b: BrokerId) -> int:
        return self.topology.distance(a, b)

    def unicast(self, to: BrokerId, message: Message) -> None:
        assert to != self.me, f"{self.me} sends {message} to itself"
        if not self.is_departed(to):
            self.host.unicast(to, self.next_hop(to), message)

    def brokers(self) -> tuple[BrokerId, ...]:
        return self.topology.brokers

    def is_departed(self, broker: BrokerId) -> bool:
        return broker in self.topology.departed

    def joined_later(self) -> frozenset[BrokerId]:
        return frozenset(self.topology.attached)

    def may_miss(self, origin: BrokerId) -> bool:
        """Only where events are flooded does a broker that begins anew not know which of them went past it."""
        return False
