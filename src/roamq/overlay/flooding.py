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
from roamq.overlay.messages import EventsPassed
from roamq.overlay.topology import Topology


class Flooding(TreeUnicast):
    """The router of one broker in a flooded network."""

    def __init__(self, me: BrokerId, host: Host, topology: Topology) -> None:
        super().__init__(me, host, topology)
        self.frontier: dict[BrokerId, int] = {}
        self._toward: dict[BrokerId, tuple[BrokerId, ...]] = {}
        self.rewired()

    def subscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Every event comes here anyway."""

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Every event comes here anyway."""

    def advertise(self, filter: Filter) -> None:
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

    def receive(self, sender: BrokerId, message: Message) -> bool:
        assert isinstance(message, EventsPassed), (
            f"flooding has no such routing message, but {sender} sent {message}"
        )
        for origin, sequence in message.frontier.items():
            if origin in self._toward and sequence > self.frontier.get(origin, 0):
                self.frontier[origin] = sequence
        return True

    def doubt(self) -> None:
        """Every event goes everywhere anyway."""

    def restarted(self) -> None:
        """Every event goes everywhere anyway."""

    def count_on(self, number: int) -> None:
        """There are no numbers but those of events."""

    def in_step(self, neighbour: BrokerId) -> None:
        """Every event goes everywhere anyway."""

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """What went there before will not come again: no fence may wait for it."""
        passed = {
            origin: sequence
            for origin, sequence in self.frontier.items()
            if neighbour in self._toward.get(origin, ())
        }
        self.host.send(neighbour, EventsPassed(frontier=passed))

    def rewired(self) -> None:
        self._via.clear()
        children = self.topology.children
        self._toward = {origin: children(origin, self.me) for origin in self.topology.all_brokers}

    def broker_joined(self, broker: BrokerId, mark: str) -> None:
        """It gets every event from now on; how far the others have come it is told when the link is up."""
        self.rewired()

    def broker_departed(self, broker: BrokerId) -> None:
        self.rewired()

    def fence(self, peer: BrokerId) -> Mapping[BrokerId, int]:
        return dict(self.frontier)

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        """Our own events we have all seen, those of a life that we do not remember included."""
        frontier, me = self.frontier, self.me
        return all(frontier.get(origin, 0) >= sequence or origin == me for origin, sequence in fence.items())

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        """Every event comes here anyway."""
        return {}

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        return set()
