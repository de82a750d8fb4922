"""Flooding: every event to every broker ([PRO] section 3).

The graph may have cycles. An event follows the shortest-path tree of its origin, which every broker computes
alike, so it crosses each broker once; links are FIFO, hence the events of one origin arrive in sequence, and the
last sequence seen per origin (the *frontier*) is all that must be remembered.

A fence waits until the frontier has come so far. What a broker saw in an earlier life does not come again, so its
frontier is also moved by word from the broker before it in the origin's tree (`EventsPassed`), and it passes the word
on. The word begins where nobody knows of anything older: at an origin that begins anew, and, for an origin that
departed, at the brokers that were linked with it.
"""

from collections.abc import Collection, Mapping

from roamq.core.events import BrokerId, Event
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.ports import Host
from roamq.overlay.base import TreeUnicast
from roamq.overlay.messages import EventsPassed
from roamq.overlay.topology import Topology


class Flooding(TreeUnicast):
    """The router of one broker in a flooded network."""

    def __init__(self, me: BrokerId, host: Host, topology: Topology, *, first_number: int = 0) -> None:
        super().__init__(me, host, topology)
        self.frontier: dict[BrokerId, int] = {}
        if first_number:
            self.frontier[me] = first_number  # of earlier lives of this broker nothing more comes
        self.ended: set[BrokerId] = set()
        """Origins that departed, and of which nothing more comes here."""
        self._counted_on = first_number
        """Up to here, numbers of this broker's events may have been used in a life that the store does not remember."""
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
        frontier, departed = self.frontier, self.topology.departed
        passed = {
            origin: sequence
            for origin, sequence in message.frontier.items()
            if origin in self._toward and sequence > frontier.get(origin, 0)
        }
        frontier.update(passed)
        ended = departed.intersection(message.ended) - self.ended
        self.ended |= ended
        self._say_passed(passed, ended)
        return True

    def _say_passed(self, passed: Mapping[BrokerId, int], ended: Collection[BrokerId] = ()) -> None:
        """Those behind this broker may not have seen what it will never see, either."""
        behind = dict.fromkeys(n for origin in (*passed, *ended) for n in self._toward[origin])
        for neighbour in behind:
            self._say_passed_to(neighbour, passed, ended)

    def _say_passed_to(
        self, neighbour: BrokerId, passed: Mapping[BrokerId, int], ended: Collection[BrokerId]
    ) -> None:
        toward = self._toward
        there = {o: sequence for o, sequence in passed.items() if neighbour in toward.get(o, ())}
        over = tuple(sorted(o for o in ended if neighbour in toward.get(o, ())))
        self.host.send(neighbour, EventsPassed(frontier=there, ended=over))

    def doubt(self) -> None:
        """Every event goes everywhere anyway; of a life that the store does not remember nothing more comes."""
        if self._counted_on > self.frontier.get(self.me, 0):
            self.frontier[self.me] = self._counted_on
            self._say_passed({self.me: self._counted_on})

    def restarted(self) -> None:
        """Every event goes everywhere anyway."""

    def count_on(self, number: int) -> None:
        """There are no numbers but those of events."""
        self._counted_on = number

    def in_step(self, neighbour: BrokerId) -> None:
        """Every event goes everywhere anyway."""

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """What went there before will not come again: no fence may wait for it."""
        self._say_passed_to(neighbour, self.frontier, self.ended)

    def rewired(self) -> None:
        self._via.clear()
        children = self.topology.children
        self._toward = {origin: children(origin, self.me) for origin in self.topology.all_brokers}

    def broker_joined(self, broker: BrokerId, mark: str) -> None:
        """It gets every event from now on; how far the others have come it is told when the link is up."""
        self.ended.discard(broker)
        self.rewired()

    def broker_departed(self, broker: BrokerId) -> None:
        """Who was linked with it has all that it sent, or will never have it."""
        self.rewired()
        if self.topology.tree(broker)[self.me] == broker:
            self.ended.add(broker)
            self._say_passed({}, (broker,))

    def fence(self, peer: BrokerId) -> Mapping[BrokerId, int]:
        """What has been seen here. Of its own events a broker that begins anew has seen none: nobody waits for them."""
        fence = dict(self.frontier)
        if fence.get(self.me) == self._counted_on:
            fence.pop(self.me, None)
        return fence

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        """Our own events we have all seen, those of a life that we do not remember included."""
        frontier, me, ended = self.frontier, self.me, self.ended
        return all(
            frontier.get(origin, 0) >= sequence or origin == me or origin in ended
            for origin, sequence in fence.items()
        )

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        return frozenset(origin for origin, sequence in fence.items() if not self.passed({origin: sequence}))

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        """Every event comes here anyway."""
        return {}

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        return set()
