"""A whole live network in virtual time: real machines, real MQTT bytes, and an adversary for a network.

Every step delivers one thing that is under way, chosen by a seed: a frame on a link, bytes to a broker, bytes to a
client, a timer that is due. Connections break with whatever is on them; links and processes fail and come back.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from random import Random
from typing import Any

from roamq.core.events import BrokerId
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.net.clients.mqtt.codec import Version, Will
from roamq.net.device import Device, ReceivedMessage
from roamq.net.machine import Machine
from roamq.net.ops.settings import Settings
from roamq.net.outputs import Outputs
from tests.net.queues import Ends, Queues

Choice = tuple[Callable[..., None], Sequence[tuple[Any, ...]]]
"""Something that may happen: a method, and all that it may be called with."""


class FleetClient:
    """A device in the adversary's network."""

    def __init__(
        self,
        fleet: "Fleet",
        name: str,
        version: Version = Version.V5,
        *,
        shows_ticket: bool = False,
        user: str | None = None,
        will: Will | None = None,
    ) -> None:
        self.fleet = fleet
        self.device = Device(
            name, self._take, version=version, shows_ticket=shows_ticket, user=user, will=will
        )
        self.at: BrokerId | None = None
        self.number = 0
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()
        self.received: list[tuple[bytes, int, bool]] = []
        """Payload, QoS and DUP of what came, QoS 2 repetitions left out."""
        self.may_be_refused = False
        self.session_lost_at: int | None = None
        """How much had come when it was first told that its session was not there."""

    @property
    def present(self) -> list[bool]:
        return self.device.present

    def _take(self, message: ReceivedMessage) -> None:
        self.received.append((message.payload, message.qos, message.dup))

    def connect(
        self, at: str, *, clean: bool = False, previous: str | None = None, cell: str | None = None
    ) -> None:
        self.vanish()
        self.fleet.connections += 1
        self.number = self.fleet.connections
        self.at = BrokerId(at)
        self.fleet.machines[self.at].opened(self.number, self.fleet.clock(self.at), "test", "client")
        self.fleet.owners[self.at, self.number] = self
        self._say(self.device.connect(clean=clean, previous=previous, cell=cell))

    def vanish(self) -> None:
        """The network drops everything that was under way; the broker may not notice for a while."""
        if self.at is not None:
            broker, number = self.at, self.number
            self.fleet.owners.pop((broker, number), None)
            self.fleet.losses.append((self.fleet.now + self.fleet.random.random() * 3, broker, number))
        self.at = None
        self.device.lost()
        self.up.clear()
        self.down.clear()

    def subscribe(self, topic_filter: str, qos: int) -> None:
        self._say(self.device.subscribe(topic_filter, qos))

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        self._say(self.device.publish(topic, payload, qos, retain=retain))

    def hear(self, data: bytes) -> None:
        connections, came = len(self.present), len(self.received)
        self._say(self.device.hear(data))
        if self.session_lost_at is None and 0 < connections < len(self.present) and not self.present[-1]:
            self.session_lost_at = came
        assert self.may_be_refused or self.device.refused is None, self.device.refused

    def _say(self, data: bytes) -> None:
        if data:
            self.up.append(data)

    def payloads(self) -> list[bytes]:
        return [payload for payload, _, _ in self.received]

    def unexplained_repeats(self) -> list[bytes]:
        """Received again without DUP at QoS 1, or at all at QoS 2."""
        seen: Counter[bytes] = Counter()
        bad = []
        for payload, qos, dup in self.received:
            if seen[payload] and not (qos == 1 and dup):
                bad.append(payload)
            seen[payload] += 1
        return bad


class Fleet:
    """Machines, the links between them, and the clients."""

    def __init__(
        self,
        seed: int,
        scheme: str,
        brokers: int = 3,
        *,
        ring: bool = False,
        given: Iterable[tuple[str, str]] | None = None,
        **settings: object,
    ) -> None:
        """Each broker is linked with each, with two others in a `ring`, or as is `given`."""
        self.random = Random(seed)
        self.now = 1000.0
        settings.setdefault("handoff_timeout_s", 1.0)
        settings.setdefault("overlay", "interest")  # where more can go wrong
        names = tuple(BrokerId(f"b{n}") for n in range(1, brokers + 1))
        around = zip(names, names[1:] + names[:1], strict=True)
        links = tuple(around if ring else combinations(names, 2))
        if given is not None:
            links = tuple((BrokerId(one), BrokerId(other)) for one, other in given)
        self.machines: dict[BrokerId, Machine] = {}
        for name in names:
            made = Settings(me=name, brokers=names, links=links, scheme=scheme, **settings)  # type: ignore[arg-type]
            self.machines[name] = Machine(made, self.now)
        self.links: Queues[tuple[int, bytes]] = Queues()
        for a, b in links:
            self.links.put((a, b), ())
            self.links.put((b, a), ())
        self.cut: set[frozenset[BrokerId]] = set()
        self.skew_s: dict[BrokerId, float] = {}
        """How far a broker's clock is ahead of the fleet's."""
        self.timers: dict[tuple[BrokerId, TimerKey], float] = {}
        self.owners: dict[tuple[BrokerId, int], FleetClient] = {}
        self.losses: list[tuple[float, BrokerId, int]] = []
        self.clients: list[FleetClient] = []
        self.connections = 0
        self.records: list[Record] = []
        """Of all machines, in the order they were taken."""
        self.notices: list[str] = []
        for name in self.machines:
            self.links_come_up(name)

    def links_come_up(self, name: BrokerId) -> None:
        """Each end of a link tells the other what it has received."""
        for other in [b for a, b in self.links if a == name]:
            for here, there in ((name, other), (other, name)):
                received = self.machines[there].outboxes.received[here]
                self.machines[here].link_acked(there, received, self.clock(here))
        self.take_outputs()

    def client(self, name: str, version: Version = Version.V5, **more: Any) -> FleetClient:
        client = FleetClient(self, name, version, **more)
        self.clients.append(client)
        return client

    def clock(self, broker: BrokerId) -> float:
        """The time by the broker's own clock."""
        return self.now + self.skew_s.get(broker, 0.0)

    def take_outputs(self) -> None:
        """Most machines have none: a step concerns one or two of them."""
        for name, machine in self.machines.items():
            out = machine.host.out
            if (
                out.frames
                or out.dirty
                or out.timers
                or out.records
                or out.closing
                or out.logins
                or out.notices
            ):
                self._take_outputs_of(name, machine, out)

    def _take_outputs_of(self, name: BrokerId, machine: Machine, out: Outputs) -> None:
        while out.logins:
            login = out.logins.pop(0)
            machine.authenticated(login.connection, login.username, self.clock(name), allowed=True)
        for number, connection in list(out.dirty.items()):
            data = b"".join(connection.take_output())
            owner = self.owners.get((name, number))
            if data and owner is not None and owner.number == number and owner.at == name:
                owner.down.append(data)
        out.dirty.clear()
        for number in out.closing:
            machine.lost(number, self.clock(name))
            self.owners.pop((name, number), None)
        out.closing.clear()
        for peer, frames in out.frames.items():
            self.put_on_link((name, peer), frames)
        out.frames.clear()
        for key, at in out.timers.items():
            if at is None:
                self.timers.pop((name, key), None)
            else:
                self.timers[name, key] = at - self.skew_s.get(name, 0.0)
        out.timers.clear()
        self.records += out.records
        out.records.clear()
        self.notices += out.notices
        out.notices.clear()

    def step(self) -> bool:
        """One thing happens; False if nothing is under way."""
        self.take_outputs()
        self.now += 0.002
        choices = self.choices()
        if not choices:
            return False
        number = self.random.choice(range(sum([len(found) for _, found in choices])))
        for happens, found in choices:
            if number < len(found):
                happens(*found[number])
                break
            number -= len(found)
        self.take_outputs()
        return True

    def choices(self) -> list[Choice]:
        """What may happen next."""
        return [choice for choice in self.all_choices() if choice[1]]

    def all_choices(self) -> list[Choice]:
        """All that happens in a fleet, in an order that a seed can rely on, and what it may happen to now."""
        now = self.now
        return [
            (self._frame, self.frames_on_the_way()),
            (self._to_broker, [(client,) for client in self.clients if client.up and client.at]),
            (self._to_client, [(client,) for client in self.clients if client.down]),
            (self._timer, [key for key, at in self.timers.items() if at <= now and self.is_running(key[0])]),
            (self._loss, [(loss,) for loss in self.losses if loss[0] <= now]),
        ]

    def frames_on_the_way(self) -> list[Ends]:
        """The links that are open and have frames on them."""
        return [ends for ends in self.links.filled if self.is_open(*ends)]

    def put_on_link(self, ends: Ends, frames: list[tuple[int, bytes]]) -> None:
        """A broker sends frames to a neighbour."""
        self.links.put(ends, frames)

    def is_running(self, broker: BrokerId) -> bool:
        """Whether timers of the broker run out."""
        return True

    def is_open(self, source: BrokerId, target: BrokerId) -> bool:
        """Whether frames go from one broker to the other."""
        return frozenset((source, target)) not in self.cut

    def _frame(self, source: BrokerId, target: BrokerId) -> None:
        sequence, frame = self.links.take((source, target))
        self.machines[target].link_received(source, sequence, frame, self.clock(target))
        if self.has_taken(source, target, sequence):
            self.machines[source].link_acked(target, sequence, self.clock(source))

    def has_taken(self, source: BrokerId, target: BrokerId, sequence: int) -> bool:
        """Whether a frame is acknowledged; so is the last word of a broker that departed."""
        return self.machines[target].outboxes.received.get(source, sequence) >= sequence

    def _to_broker(self, client: FleetClient) -> None:
        assert client.at is not None
        self.machines[client.at].received(client.number, client.up.popleft(), self.clock(client.at))

    def _to_client(self, client: FleetClient) -> None:
        client.hear(client.down.popleft())

    def _timer(self, broker: BrokerId, key: TimerKey) -> None:
        del self.timers[broker, key]
        self.machines[broker].timer(key, self.clock(broker))

    def _loss(self, loss: tuple[float, BrokerId, int]) -> None:
        self.losses.remove(loss)
        self.machines[loss[1]].lost(loss[2], self.clock(loss[1]))

    def crash(self, name: str) -> None:
        """The process is killed and starts again from its journal; links resume where they broke."""
        broker = BrokerId(name)
        for client in self.clients:
            if client.at == broker:
                client.vanish()
        self.losses = [loss for loss in self.losses if loss[1] != broker]
        self.machines[broker].recovered(self.clock(broker))
        self.links_come_up(broker)

    def later(self, within_s: float) -> list[float]:
        """When something happens by itself: timers that run out within that time, and connections that are lost."""
        timers = [at for (name, _), at in self.timers.items() if self.is_running(name)]
        return [at for at in timers if at < self.now + within_s] + [at for at, _, _ in self.losses]

    def settle(self, steps: int = 20_000) -> None:
        """Let everything that is under way arrive; timers and losses come when their time does."""
        for _ in range(steps):
            if self.step():
                continue
            later = self.later(30)
            if not later:
                return
            self.now = max(self.now, min(later))
        raise AssertionError("the network does not come to rest")
