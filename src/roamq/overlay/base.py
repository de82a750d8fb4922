"""What an overlay promises: events of one origin reach every interested broker once, in order."""

from collections.abc import Callable, Mapping
from typing import Protocol

from roamq.core.events import BrokerId, Event
from roamq.core.filters import Filter
from roamq.core.messages import Message, Routed
from roamq.core.ports import Host
from roamq.overlay.topology import Topology


class Router(Protocol):
    """Routing between brokers; it knows filters and links, and nothing of clients that move."""

    def subscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Somebody here wants events that match. Counted: as many `unsubscribe` calls end it."""

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None: ...

    def advertise(self, filter: Filter) -> None:
        """Somebody here will publish events that match."""

    def unadvertise(self, filter: Filter) -> None: ...

    def publish(self, event: Event) -> None:
        """An event enters here: pass it on to whom it concerns."""

    def receive_event(self, sender: BrokerId, event: Event) -> bool:
        """An event came from a neighbour: pass it on. False if it was here before."""

    def receive(self, sender: BrokerId, message: Message) -> None:
        """A routing message came from a neighbour."""

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """A neighbour began anew and knows nothing of what it was told, nor of what it had said."""

    def unicast(self, to: BrokerId, message: Message) -> None:
        """Send a message to any broker, along the links that events use."""

    def next_hop(self, to: BrokerId) -> BrokerId:
        """The neighbour on the way to `to`."""

    def distance(self, a: BrokerId, b: BrokerId) -> int:
        """How many links lie between two brokers."""

    def fence(self) -> Mapping[BrokerId, int]:
        """What has been seen here up to now, to be compared elsewhere with `passed`."""

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        """Has this broker seen every event that concerned it and that the broker of `fence` had seen?

        This is the ordering condition of [DIS] section 3.1, step 3. Where unicast and events share one path it
        holds as soon as the message that carries the fence arrives; elsewhere it is compared origin by origin.
        """


class TreeUnicast:
    """Unicast hop by hop along the overlay's links, which is how every overlay here does it."""

    def __init__(self, me: BrokerId, host: Host, topology: Topology) -> None:
        self.me = me
        self.host = host
        self.topology = topology
        self.bring: Callable[[BrokerId, Message], None] | None = None
        """How the host takes a unicast message all the way at once, if it can."""

    def next_hop(self, to: BrokerId) -> BrokerId:
        return self.topology.next_hop(self.me, to)

    def distance(self, a: BrokerId, b: BrokerId) -> int:
        return self.topology.distance(a, b)

    def unicast(self, to: BrokerId, message: Message) -> None:
        assert to != self.me, f"{self.me} sends {message} to itself"
        if self.bring is not None:
            self.bring(to, message)
        else:
            self.host.send(self.next_hop(to), Routed(to=to, sender=self.me, message=message))
