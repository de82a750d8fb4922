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
        """Ask for events that match, for somebody at this broker. It takes as many `unsubscribe` calls to end that."""

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None: ...

    def advertise(self, filter: Filter) -> None:
        """Somebody here will publish events that match."""

    def publish(self, event: Event) -> None:
        """Pass an event that enters the network here on to the neighbours that it concerns."""

    def receive_event(self, sender: BrokerId, event: Event) -> bool:
        """Pass an event that came from a neighbour on to others. False if it was here before."""

    def receive(self, sender: BrokerId, message: Message) -> bool:
        """A routing message came from a neighbour. True: a fence that had not `passed` may have passed now."""

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """A neighbour restarted without its store: it knows neither what this broker told it nor what it said."""

    def doubt(self) -> None:
        """This broker has forgotten what its neighbours told it, and knows that: it has no store, or an old one."""

    def restarted(self) -> None:
        """This broker restarted from a store that may be old. `in_step` follows for neighbours that say it is not."""

    def count_on(self, number: int) -> None:
        """An earlier life of this broker, which the store does not remember, may have used numbers up to this one."""

    def in_step(self, neighbour: BrokerId) -> None:
        """The store of this broker holds all that it ever told this neighbour, and all that the neighbour told it."""

    def broker_joined(self, broker: BrokerId, mark: str) -> None:
        """An edge broker joined the topology: another one, or this one. `mark` names its present life in the network.

        If the new broker is a neighbour it begins anew: `neighbour_forgot` follows when the link to it is up."""

    def broker_departed(self, broker: BrokerId) -> None:
        """A broker departed from the topology: this broker keeps nothing for it, and waits for it no more."""

    def is_departed(self, broker: BrokerId) -> bool:
        """Whether the broker is gone for good."""

    def rewired(self) -> None:
        """The router's state and its topology were restored from a snapshot: compute again what follows from them."""

    def unicast(self, to: BrokerId, message: Message) -> None:
        """Send a message to any broker, along the links that events use; a broker that departed is sent nothing."""

    def brokers(self) -> tuple[BrokerId, ...]:
        """All brokers of the network, as this broker knows it."""

    def pair_through(self, broker: BrokerId) -> tuple[BrokerId, BrokerId] | None:
        """Two brokers whose events or messages for each other go through `broker`; None if there are no such two."""

    def next_hop(self, to: BrokerId) -> BrokerId:
        """The neighbour on the way to `to`."""

    def distance(self, a: BrokerId, b: BrokerId) -> int:
        """How many links lie between two brokers."""

    def fence(self, peer: BrokerId, filters: Iterable[Filter] | None = None) -> Mapping[BrokerId, int]:
        """A fence that the broker `peer` waits for (`passed`), made of what this broker has subscribed to and seen.

        If `filters` are given, `peer` need not wait for events that match none of them.

        The caller sends `peer` the message with the fence right after this call, by `unicast`.
        """

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        """Has this broker seen every event that it wants and that the maker of `fence` had seen, or will never see?

        This is the ordering condition of [DIS] section 3.1, step 3. Where unicast and events share one path it
        holds as soon as the message that carries the fence arrives; under flooding it is compared origin by origin,
        and under routing by interest markers say when it holds. The answer may become True when an event comes, or
        when `receive` returns True.
        """

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        """The origins for which a fence has not `passed`. Of all others, the events that the fence is about have come.

        The answer may name more origins than it must, and names none if the fence has passed. A name that
        `stands_for_unknown` means brokers that this one has not heard of.
        """

    def joined_later(self) -> frozenset[BrokerId]:
        """The edge brokers that this broker has heard of, those that departed included."""

    def may_miss(self, origin: BrokerId) -> bool:
        """Whether events of an origin may have gone past this broker, because this broker begins anew."""

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        """A fence for this broker itself: it has `passed` when every broker where something that matches may be
        published knows of all subscriptions made here.

        `anew`: the fence also waits for everything that other brokers send here before they get the messages that this
        broker sent before this call.
        """

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        """The brokers that a fence of `confirm` still waits for."""


class TreeUnicast:
    """Unicast hop by hop along the overlay's links: every overlay here sends messages to other brokers that way."""

    def __init__(self, me: BrokerId, host: Host, topology: Topology) -> None:
        self.me = me
        self.host = host
        self.topology = topology
        self._via: dict[BrokerId, BrokerId] = {}
        """Broker -> the neighbour on the way to it, remembered from the first question on."""

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
        """False in a hierarchy; the other overlays, which brokers may join, have answers of their own."""
        return False
