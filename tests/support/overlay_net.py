"""Routers joined by FIFO links, delivered one message at a time in an order that a test chooses."""

import random
from collections import deque
from collections.abc import Callable

from roamq.core.events import BrokerId, Event
from roamq.core.messages import Message, Routed
from roamq.overlay.base import Router
from roamq.overlay.topology import Topology
from tests.support.recording_host import RecordingHost


class _LinkHost(RecordingHost):
    def __init__(self, net: "OverlayNet", me: BrokerId) -> None:
        super().__init__(me=me)
        self.net = net

    def send(self, to: BrokerId, message: Message | Event) -> None:
        self.net.links[self.me, to].append(message)
        self.net.crossings.append((self.me, to, message))


class OverlayNet:
    """All routers of a topology; `arrived[b]` is what reached broker b, in order."""

    def __init__(
        self, topology: Topology, make: Callable[[BrokerId, RecordingHost, Topology], Router], seed: int = 0
    ) -> None:
        self.topology = topology
        self.rng = random.Random(seed)
        self.crossings: list[tuple[BrokerId, BrokerId, Message | Event]] = []
        self.links: dict[tuple[BrokerId, BrokerId], deque[Message | Event]] = {}
        for a, b in topology.links:
            self.links[a, b] = deque()
            self.links[b, a] = deque()
        self._make = make
        self.routers = {b: make(b, _LinkHost(self, b), topology) for b in topology.brokers}
        self.arrived: dict[BrokerId, list[Event]] = {b: [] for b in topology.brokers}
        self.told: dict[BrokerId, list[Message]] = {b: [] for b in topology.brokers}
        """What was sent to a broker by unicast."""

    def publish(self, at: BrokerId, event: Event) -> None:
        self.arrived[at].append(event)
        self.routers[at].publish(event)

    def step(self) -> bool:
        """Deliver the first message of a link chosen at random; False if nothing is on its way."""
        busy = [pair for pair, queue in self.links.items() if queue]
        if not busy:
            return False
        self._deliver(*self.rng.choice(busy))
        return True

    def let_out(self, broker: BrokerId) -> None:
        """Deliver all that a broker has sent: it stops in order, taking nothing in any more."""
        for neighbour in self.topology.neighbours[broker]:
            while self.links[broker, neighbour]:
                self._deliver(broker, neighbour)

    def _deliver(self, source: BrokerId, target: BrokerId) -> None:
        message = self.links[source, target].popleft()
        if isinstance(message, Event):
            if self.routers[target].receive_event(source, message):
                self.arrived[target].append(message)
        elif not isinstance(message, Routed):
            self.routers[target].receive(source, message)
        elif message.to == target:
            self.told[target].append(message.message)
        else:
            self.links[target, self.routers[target].next_hop(message.to)].append(message)

    def lose_store(self, broker: BrokerId) -> None:
        """A broker forgets everything; what its neighbours have sent, and it has not taken in, reaches its new life."""
        self.routers[broker] = self._make(broker, _LinkHost(self, broker), self.topology)
        self.routers[broker].doubt()
        for neighbour in self.topology.neighbours[broker]:
            self.links[broker, neighbour].clear()
            self.routers[neighbour].neighbour_forgot(broker)
            self.routers[broker].neighbour_forgot(neighbour)  # it cannot know that only it forgot

    def settle(self) -> None:
        while self.step():
            pass
