"""The network of a simulation: hosts that are the world of a broker, and brokers that take time.

Links between brokers are in `link.py`. The last hop is a wireless one: what is lost there is lost, unless `retransmit`
is asked for; what a client did not receive it does not acknowledge, so its broker still holds it.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roamq.broker.broker import Broker
from roamq.core.context import UNLIMITED, Context
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import HEADER_BYTES, Message, MessageSource, Routed, kind_of
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.overlay.interest import ByInterest
from roamq.sim.acknowledgements import count_as_consumed
from roamq.sim.engine import Engine
from roamq.sim.inputs import Input, InputQueue, takes_its_turn, work_of
from roamq.sim.link import Link
from roamq.sim.options import LastHopOptions, LinkOptions, ServiceOptions, Work
from roamq.sim.recorder import Recorder

if TYPE_CHECKING:
    from roamq.sim.clients import SimClient

Effect = tuple[Callable[..., Any], tuple[Any, ...]]
"""An effect of a broker's input, which happens when the broker's service time for the input is over."""

LAST_HOP = {
    "live": ("delivery", 1),
    "stored": ("delivery", 1),
    "transferred": ("stored_delivery", 1),
    "forwarded": ("forward", 0),
}
"""How an event came -> how its last hop is counted; a message from a home broker was counted when it set out."""


def receive_all(sent: "list[tuple[SimClient, int, Event, str, bool]]") -> None:
    """The events that a broker sent together over the last hop arrive together."""
    for client, connection, event, how, is_settled in sent:
        client.receive(connection, event, how, is_settled)


def arrive(sender: BrokerId, event: Event, at: "list[Broker]") -> None:
    """An event that a broker passed on to several neighbours reaches them together."""
    for broker in at:
        broker.on_message(sender, event)


class SimHost:
    """The world of one simulated broker: implements `Host`, and models the time that the broker takes."""

    def __init__(self, me: BrokerId, network: "Network") -> None:
        self.me = me
        self.network = network
        self.engine = network.engine
        self.recorder = network.recorder
        self.links: dict[BrokerId, Link] = {}
        self.clients: dict[ClientId, SimClient] = {}
        self.connections: dict[ClientId, int] = {}
        """Client -> the number of its connection here: an event sent on another connection does not arrive."""
        self.broker: Broker  # set by the network
        self.alive = True
        self._faults = 0
        """Crashes that are not over: the broker is back when the last of them is over."""
        self._timers: dict[TimerKey, int] = {}
        self._timer_count = 0
        self._forgot = False
        """Whether the broker lost its store, and its neighbours have not been told."""
        self._life = 0
        """Grows with every crash: an input in service before a crash is not finished after it."""
        self._radio_free_at = 0.0
        last_hop = network.last_hop
        self._plain_last_hop_s = last_hop.delay_s if last_hop.is_plain else None
        self.settles_at_once = network.express and last_hop.is_plain
        self._together: list[tuple[SimClient, int, Event, str, bool]] = []
        """Events sent over the last hop in one turn of the engine; `_together_in` is the number of the turn."""
        self._together_in = -1
        self._service = network.service
        if self._service is None:
            self.deliver = self._transmit  # type: ignore[method-assign] # nothing is held back
        self._speed = self._service.speed.get(me, 1.0) if self._service else 1.0
        self._queue = InputQueue(
            limit_bytes=self._service.queue_bytes if self._service else None,
            control_first=self._service is not None and self._service.control_first,
        )
        self._busy = False
        self._effects: list[Effect] | None = None
        self._outbox: list[Effect] = []
        """Effects of the input in service: committed with the input, and released when its service time is over."""
        self._processing: dict[str, list[float]] = {}
        self.publisher_waits: deque[Callable[[], Any]] = deque()
        """Publishers that the full input queue holds back."""

    # --- the port -----------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.engine.now

    def send(self, to: BrokerId, message: Message | Event) -> None:
        if self._service is not None and takes_its_turn(self._service, message, self.me):
            self.enqueue("transfer", 0, self._send_stored, to, message)
            return
        if self._effects is not None:
            self._effects.append((self.links[to].send, (message,)))
        else:
            self.links[to].send(message)

    def _send_stored(self, to: BrokerId, message: Routed) -> None:
        assert self._effects is not None
        self._effects.append((self.links[to].send, (message,)))

    def send_each(self, to: BrokerId, source: MessageSource) -> None:
        for message in source:
            self.send(to, message)

    def pass_on(self, to: tuple[BrokerId, ...], event: Event) -> None:
        network = self.network
        if network.express and to:  # as `Link` does, where nothing can come in between
            count, now = len(to), self.engine.now
            self.recorder.traffic(now, "event", count, count, count * event.size_bytes)
            self.engine.after(
                network.link_delay_s, arrive, self.me, event, [network.hosts[b].broker for b in to]
            )
        else:
            for neighbour in to:
                self.send(neighbour, event)

    def unicast(self, to: BrokerId, via: BrokerId, message: Message) -> None:
        """Sends hop by hop, or over all hops at once where nothing can happen to a message (`Network.express`)."""
        if not self.network.express:
            self.send(via, Routed(to=to, sender=self.me, message=message))
            return
        network, now = self.network, self.engine.now
        hops, units = network.hops(self.me, to), message.units
        self.recorder.traffic(now, message.traffic_kind, units, units * hops, message.size_bytes * hops)
        for _ in range(hops):  # hop by hop, as events beside it: the sum is the same to the last bit
            now += network.link_delay_s
        self.engine.at(now, network.hosts[to].broker.mailbox.receive, self.me, message)

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        if self._effects is not None:
            self._effects.append((self._transmit, (to, event, how)))
        else:
            self._transmit(to, event, how)

    def window(self, client: ClientId) -> int:
        """Simulated clients take any number of events, unless the scenario lets them acknowledge."""
        return self.network.last_hop.in_flight or UNLIMITED

    def is_cut_off(self, neighbour: BrokerId) -> bool:
        """Simulated links take all messages."""
        return False

    def has_begun(self, context: Context, event: Event) -> bool:
        """Simulated clients have an event or do not have it."""
        return False

    def client_class(self, client: ClientId, context: Context | None) -> str:
        return self.network.client_class(client)

    def ready(self, client: ClientId) -> None:
        """Simulated clients do not wait for an answer."""

    def detach(self, client: ClientId, reason: str) -> None:
        if self.clients.pop(client, None) is not None:
            count_as_consumed(self, client)

    def take_session(self, context: Context, session: object | None) -> None:
        """Does nothing: simulated clients have no MQTT session."""

    def join_session(self, context: Context, session: object) -> None:
        """Does nothing: simulated clients have no MQTT sessions to join."""

    def end_session(self, context: Context) -> None:
        """Does nothing: simulated clients have no MQTT session to end."""

    def places_ended(
        self, client: ClientId, filters: tuple[Filter, ...], events: tuple[Event, ...] = ()
    ) -> None:
        """Does nothing: simulated clients share no subscriptions."""

    def set_timer(self, key: TimerKey, after: float) -> None:
        self._timer_count += 1
        self._timers[key] = self._timer_count
        self.engine.after(after, self._timer_runs_out, key, self._timer_count)

    def cancel_timer(self, key: TimerKey) -> None:
        self._timers.pop(key, None)

    def record(self, record: Record) -> None:
        self.recorder.record(record)

    # --- inputs -------------------------------------------------------------------------------------------

    def receive(self, sender: BrokerId, message: Message | Event) -> None:
        """A neighbour's message has arrived over a link."""
        if self._service is None:
            self.broker.on_message(sender, message)
        else:
            self.enqueue(kind_of(message), message.size_bytes, self.broker.on_message, sender, message)

    def enqueue(self, kind: str, size: int, action: Callable[..., Any], *args: Any) -> bool:
        """Puts an input into the broker's queue; returns False if the queue has no room for it.

        Events may be refused, control messages never: [PRO]'s brokers discard messages under overload.
        """
        if self._service is None:
            action(*args)
            return True
        if self._queue.refuses(kind, size):
            self._refuse(args[-1])
            return False
        self._queue.append(Input(kind, size, action, args))
        if not self._busy:
            self._serve_next()
        return True

    def link_towards(self, to: BrokerId) -> Link:
        """Returns the link over which messages for the broker `to` go on."""
        return self.links[self.broker.router.next_hop(to)]

    @property
    def takes_time(self) -> bool:
        """Whether the broker takes time for what it does."""
        return self._service is not None

    def _refuse(self, what: Any) -> None:
        """Records that the full input queue had no room for an event, or for a message that brings events.

        A publisher whose publication is refused learns it, and tries again.
        """
        events: tuple[Any, ...] = ()
        client = None
        if isinstance(what, Event):
            events = (what,)
        elif isinstance(what, Routed):
            events, client = what.message.carried, getattr(what.message, "client", None)
        for event in events:
            origin, sequence = event.id
            self.record(
                Record("dropped", self.engine.now, self.me, client, origin, sequence, detail="input_full")
            )

    def _serve_next(self) -> None:
        assert self._service is not None
        taken = self._queue.popleft()
        self._busy = True
        self._effects = []
        changes = self.broker.contexts.watched.index.version
        taken.action(*taken.args)
        changes = self.broker.contexts.watched.index.version - changes
        effects, self._effects = self._effects, None
        self._outbox = effects
        seconds = self._service.seconds(self._work(taken, effects, changes)) / self._speed
        cell = self._processing.setdefault(taken.kind, [0, 0.0])
        cell[0] += 1
        cell[1] += seconds
        self.engine.after(seconds, self._served, self._life, effects)

    def _work(self, taken: Input, effects: list[Effect], changes: int) -> Work:
        deliveries = sum(1 for effect, _ in effects if effect == self._transmit)
        return work_of(
            taken,
            me=self.me,
            sent=(args for _, args in effects),
            deliveries=deliveries,
            sends=len(effects) - deliveries,
            changes=changes,
            buffered=self.broker.contexts.buffered_by_last_event,
        )

    def _served(self, life: int, effects: list[Effect]) -> None:
        if life != self._life:
            return
        self._busy = False
        self._outbox = []
        for effect, args in effects:
            effect(*args)
        for _ in range(len(self.publisher_waits)):
            if not self._queue.has_room:
                break
            self.publisher_waits.popleft()()  # a publication still too large waits again
        self.network.let_publishers_go_on()
        if self._queue and not self._busy:
            self._serve_next()

    def congested(self) -> bool:
        """Whether flow control holds publishers back because of this broker."""
        service, queue = self._service, self._queue
        if service is None:
            return False
        return (service.window is not None and queue.events >= service.window) or (
            service.flow_bytes is not None and queue.bytes >= service.flow_bytes
        )

    def _timer_runs_out(self, key: TimerKey, ticket: int) -> None:
        # A timer that was replaced or cancelled has another ticket, or none.
        if self.alive and self._timers.get(key) == ticket:
            del self._timers[key]
            self.enqueue("control", 0, self.broker.on_timer, key)

    # --- the last hop -------------------------------------------------------------------------------------

    def _transmit(self, to: ClientId, event: Event, how: str) -> None:
        client = self.clients.get(to)
        if client is None:
            return
        engine = self.engine
        kind, count = LAST_HOP[how]
        self.recorder.traffic(engine.now, kind, count, 1, event.size_bytes)
        if self._plain_last_hop_s is not None:
            self._batch().append((client, self.connections[to], event, how, False))
            return
        options = self.network.last_hop
        arrival = engine.now + options.delay_s
        if options.bandwidth_bps:
            air_s = (HEADER_BYTES + event.size_bytes) * 8 / options.bandwidth_bps
            self._radio_free_at = max(engine.now, self._radio_free_at) + air_s
            arrival = self._radio_free_at + options.delay_s
        rng = self.network.last_hop_rng
        if options.loss and rng.random() < options.loss:
            if not options.retransmit:
                return
            arrival += options.retransmit_s
        connection = self.connections[to]
        engine.at(arrival, client.receive, connection, event, how)
        if options.duplication and rng.random() < options.duplication:
            engine.at(arrival, client.receive, connection, event, how)

    def _batch(self) -> "list[tuple[SimClient, int, Event, str, bool]]":
        """Returns the batch of this action's events. They arrive at one time: one entry of the engine for all."""
        engine = self.engine
        if self._together_in != engine.turn:
            self._together_in = engine.turn
            self._together = []
            assert self._plain_last_hop_s is not None
            engine.after(self._plain_last_hop_s, receive_all, self._together)
        return self._together

    def deliver_at_once(self, to: ClientId, event: Event) -> bool:
        """Delivers to a client that surely stays until the event arrives; else returns False: the event is stored.

        Where nothing breaks (`Network.express`) and the last hop is plain, these are most deliveries.
        """
        client = self.clients.get(to)
        assert self._plain_last_hop_s is not None
        if client is None or client.host is not self:
            return False
        now, step, connection = self.engine.now, client.next_step, self.connections[to]
        if (
            step is not None and step.time_s <= now + self._plain_last_hop_s
        ) or connection != client.connection:
            return False
        self.recorder.traffic(now, "delivery", 1, 1, event.size_bytes)
        self._batch().append((client, connection, event, "live", True))
        return True

    # --- faults -------------------------------------------------------------------------------------------

    def crash(self, *, keep_store: bool) -> None:
        """Lets the broker fall: connections break; without its store it forgets all that it knew.

        Links are reliable. With the store survive the messages of neighbours that the broker had not handled, and the
        messages that were committed with the input in service.
        """
        self.alive = False
        self._faults += 1
        self._life += 1
        self._busy = False
        self._timers.clear()
        for client in list(self.clients.values()):
            client.connection_broke()
        self.clients.clear()
        self._queue.keep((self.broker.on_message, self._send_stored) if keep_store else ())
        if not keep_store:
            self._outbox = []
            for link in self.links.values():
                link.waiting.clear()
            self.broker = self.network.make_broker(self, incarnation=self.broker.incarnation + 1)
            self._forgot = True

    def restart(self) -> None:
        self._faults -= 1
        if self._faults:
            return
        self.alive = True
        outbox, self._outbox = self._outbox, []
        for effect, args in outbox:
            if effect != self._transmit:  # no client is connected to receive a transmission
                effect(*args)
        self.broker.on_restart()
        if self._forgot and isinstance(self.broker.router, ByInterest):
            self._learn_again()
        self._forgot = False
        if self._queue and not self._busy:
            self._serve_next()
        for other in self.network.hosts.values():
            if self.me in other.links:
                other.links[self.me].resume()

    def _learn_again(self) -> None:
        """Lets both ends of each link find out, as the link comes up, that one of them has lost its store.

        Flooding does not need this, and a hierarchy does not get it: its runs with lost stores stay as they were.
        """
        for neighbour in sorted(self.links):
            other = self.network.hosts[neighbour]
            other.enqueue("control", 0, other.broker.router.neighbour_forgot, self.me)
            self.enqueue("control", 0, self.broker.router.neighbour_forgot, neighbour)

    def processing_records(self, now: float) -> list[Record]:
        """Returns records of the service time spent, by kind of input."""
        return [
            Record("processing", now, self.me, detail=kind, count=int(count), duration_s=seconds)
            for kind, (count, seconds) in sorted(self._processing.items())
        ]


class Network:
    """All hosts of a simulation, and the links between them."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        *,
        last_hop: LastHopOptions,
        service: ServiceOptions | None,
        last_hop_rng: random.Random,
        hops: Callable[[BrokerId, BrokerId], int],
        client_class: Callable[[ClientId], str] = lambda client: "",
    ) -> None:
        """`hops`: how many links apart two brokers are; `client_class`: the class of a client, if the scenario has
        classes."""
        self.engine = engine
        self.recorder = recorder
        self.last_hop = last_hop
        self.service = service
        self.last_hop_rng = last_hop_rng
        self.hosts: dict[BrokerId, SimHost] = {}
        self.publishers_held: deque[Callable[[], Any]] = deque()
        """Publishers that flow control holds back."""
        self.express = False
        """Whether unicast messages take all hops at once: the same times and counts for a fraction of the work. Only
        where links are plain, brokers take no time and nothing breaks, so that no hop can differ from the next."""
        self.hops = hops
        self.client_class = client_class
        self.link_delay_s = 0.0
        self._factory: Callable[[SimHost, int], Broker]

    def build(
        self,
        brokers: tuple[BrokerId, ...],
        links: list[tuple[BrokerId, BrokerId]],
        options: LinkOptions,
        factory: Callable[[SimHost, int], Broker],
        rng: Callable[[str], random.Random],
    ) -> None:
        """Makes a host per broker, two directed links per edge, and the brokers themselves."""
        self._factory = factory
        self.link_delay_s = options.delay_s
        self.hosts = {broker: SimHost(broker, self) for broker in brokers}
        for a, b in links:
            for source, target in ((a, b), (b, a)):
                stream = rng(f"link/{source}/{target}")
                self.hosts[source].links[target] = Link(self, source, self.hosts[target], options, stream)
        for host in self.hosts.values():
            host.broker = factory(host, 0)

    def congested(self) -> bool:
        """Whether flow control holds publishers back because of any broker: the slowest one sets the pace."""
        return self.service is not None and any(host.congested() for host in self.hosts.values())

    def let_publishers_go_on(self) -> None:
        while self.publishers_held and not self.congested():
            self.publishers_held.popleft()()

    def make_broker(self, host: SimHost, incarnation: int) -> Broker:
        return self._factory(host, incarnation)

    def cut(self, a: BrokerId, b: BrokerId) -> None:
        """Cuts a link: messages between `a` and `b` wait until it is mended."""
        self.hosts[a].links[b].cut = self.hosts[b].links[a].cut = True

    def mend(self, a: BrokerId, b: BrokerId) -> None:
        for source, target in ((a, b), (b, a)):
            link = self.hosts[source].links[target]
            link.cut = False
            link.resume()
