"""Flooding: every event to every broker ([PRO] section 3).

The graph may have cycles. An event follows the shortest-path tree of its origin, which every broker computes
alike, so it crosses each broker once; links are FIFO, hence the events of one origin arrive in sequence, and the
last sequence seen per origin (the *frontier*) is all that must be remembered.
"""

from collections.abc import Mapping

from roamq.core.events import BrokerId, Event
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.ports import Host
from roamq.overlay.base import TreeUnicast
from roamq.overlay.topology import Topology


class Flooding(TreeUnicast):
    """The router of one broker in a flooded network."""

    def __init__(self, me: BrokerId, host: Host, topology: Topology) -> None:
        super().__init__(me, host, topology)
        self.frontier: dict[BrokerId, int] = {}
        self._toward = {origin: topology.children(origin, me) for origin in topology.brokers}

    def subscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Every event comes here anyway."""

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Every event comes here anyway."""

    def advertise(self, filter: Filter) -> None:
        """Every event goes everywhere anyway."""

    def unadvertise(self, filter: Filter) -> None:
        """Every event goes everywhere anyway."""

    def publish(self, event: Event) -> None:
        """Our own events come in sequence: nothing to look up."""
        me = self.me
        self.frontier[me] = event.id[1]
        self.host.pass_on(self._toward[me], event)

    def receive_event(self, sender: BrokerId, event: Event) -> bool:
        origin, sequence = event.id
        if sequence <= self.frontier.get(origin, 0):
            return False
        self.frontier[origin] = sequence
        self.host.pass_on(self._toward[origin], event)
        return True

    def receive(self, sender: BrokerId, message: Message) -> None:
        raise AssertionError(f"flooding has no routing messages, but {sender} sent {message}")

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """It was told nothing."""

    def fence(self) -> Mapping[BrokerId, int]:
        return dict(self.frontier)

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        frontier = self.frontier
        return all(frontier.get(origin, 0) >= sequence for origin, sequence in fence.items())
