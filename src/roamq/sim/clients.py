"""Simulated clients: they connect, vanish, move and receive; publishers publish."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from roamq.core.context import Context, Epoch, Ticket
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter, digest_of
from roamq.core.records import Record
from roamq.sim.acknowledgements import acknowledge, count_as_consumed
from roamq.sim.mobility import Step
from roamq.sim.workload import Publication

if TYPE_CHECKING:
    from roamq.sim.checkers import Checkers
    from roamq.sim.network import Network, SimHost

SPREAD_S = 2.0
"""Seconds that a late first subscription gets to reach every broker, before events are owed for it."""
CONFIRM_EVERY_S = 0.02
"""Seconds between a client's looks whether its subscription is confirmed, where brokers confirm subscriptions."""


class SimClient:
    """One subscriber that moves, along the steps of its mobility model."""

    def __init__(
        self,
        id: ClientId,
        filters: list[Filter],
        steps: Iterator[Step],
        network: "Network",
        checkers: "Checkers",
        *,
        carries_subscriptions: bool = False,
    ) -> None:
        self.id = id
        self.filters = filters
        self.network = network
        self.engine = network.engine
        self.recorder = network.recorder
        self.checkers = checkers
        self.host: SimHost | None = None
        """The host of the client's broker; None while the client is not connected."""
        self.last_broker: BrokerId | None = None
        self.home: BrokerId | None = None
        """The broker of the first connection."""
        self.epoch: Epoch | None = None
        """The epoch of the client's last context, if a broker told it to the client before the client left."""
        self.connection = 0
        """Grows with every connection and break: an action of an older connection carries a smaller number."""
        self.next_step: Step | None = None
        """The client's next step: a perfect prediction knows it."""
        self.carries_subscriptions = carries_subscriptions
        self.position: dict[BrokerId, int] = {}
        """Origin -> sequence of the last event received: what the client itself knows of its read position."""
        self._steps = steps
        self._requested_at: float | None = None
        self._connected_at = 0.0
        self._came_from: BrokerId | None = None
        self._stopped = False
        self._subscribed = False
        self._owed: set[Filter] = set(filters)
        self._wishes: dict[Filter, int] = {}
        """Filter -> how often the client has subscribed: each time, the wait until events are owed begins anew."""

    # --- moving -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._schedule_next()

    def visit_all(self) -> None:
        """Visits every broker before the run begins, and leaves there what a visit leaves."""
        carried = tuple(self.filters) if self.carries_subscriptions else ()
        for host in self.network.hosts.values():
            host.broker.on_connect(self.id, self.last_broker, carried)
            host.broker.on_disconnect(self.id, "vanished")

    def _schedule_next(self) -> None:
        self.next_step = next(self._steps, None)
        if self.next_step is not None:
            self.engine.at(max(self.next_step.time_s, self.engine.now), self._take, self.next_step)

    def _take(self, step: Step) -> None:
        if self._stopped:
            return
        upcoming = next(self._steps, None)
        self.next_step = upcoming
        if step.broker is not None:
            if self.host is not None and self.host.me != step.broker:
                self.disconnect()
            if self.host is None:
                self.connect(step.broker)
        else:
            self.disconnect()
        if step.cell is not None and self.host is not None:
            # The report follows the connect request over the same hop.
            delay_s = self.network.last_hop.delay_s
            self.engine.after(delay_s, self._report, self.connection, self.host, step.cell)
        if upcoming is not None:
            self.engine.at(max(upcoming.time_s, self.engine.now), self._take, upcoming)

    def _report(self, connection: int, host: "SimHost", cell: str) -> None:
        """The client's report of its cell reaches the broker."""
        if connection == self.connection and host.alive:
            host.enqueue("control", 0, self._located_at, connection, host, cell)

    def _located_at(self, connection: int, host: "SimHost", cell: str) -> None:
        if self.id in host.clients and host.connections[self.id] == connection:
            host.broker.on_location(self.id, cell)

    def stop_moving(self) -> None:
        """The run is over: a client that is away connects where it would have gone, and stays."""
        self._stopped = True
        if self.host is None and self.last_broker is not None:
            self.connect(self._settles_at())

    def _settles_at(self) -> BrokerId:
        """Returns the next broker on the planned way that is up; if none is, any broker that is up."""
        hosts = self.network.hosts
        step = self.next_step
        while step is not None and (step.broker is None or not hosts[step.broker].alive):
            step = next(self._steps, None)
        if step is not None and step.broker is not None:
            return step.broker
        assert self.last_broker is not None
        if hosts[self.last_broker].alive:
            return self.last_broker
        return next(broker for broker, host in hosts.items() if host.alive)

    def connect(self, broker: BrokerId) -> None:
        host = self.network.hosts[broker]
        if not host.alive:
            return  # no broker answers; the next step of the plan will find another
        self.connection += 1
        self.host = host
        self._requested_at = self._connected_at = self.engine.now
        self._came_from = self.last_broker
        self.recorder.record(Record("connected", self.engine.now, broker, self.id, peer=self._came_from))
        self.engine.after(self.network.last_hop.delay_s, self._arrive, self.connection, host)

    def _arrive(self, connection: int, host: "SimHost") -> None:
        """The connect request reaches the broker."""
        if host.alive:
            host.enqueue("control", 0, self._accept, connection, host)
        elif connection == self.connection:
            self.connection_broke()

    def _accept(self, connection: int, host: "SimHost") -> None:
        """The broker takes the connection, unless it is closed. The client names the broker it was at before."""
        if connection != self.connection:
            return
        if self.id in host.clients:  # the broker had not yet noticed that the old connection is gone
            count_as_consumed(host, self.id)
            host.broker.on_disconnect(self.id, "replaced")
        host.clients[self.id] = self
        host.connections[self.id] = connection
        previous, self.last_broker = self.last_broker, host.me
        self._came_from = previous
        carried = tuple(self.filters) if self.carries_subscriptions else ()
        ticket = None if self.home is None else self._ticket(self.home)
        host.broker.on_connect(self.id, previous, carried, ticket)
        self.home = self.home or host.me
        self.epoch = host.broker.contexts.epoch_of(self.id) if self.network.last_hop.shows_epoch else None
        if not self._subscribed:
            self._subscribed = True
            for filter in self.filters:
                host.broker.on_subscribe(self.id, filter)
                if filter not in self._owed:
                    self._owe_when_confirmed(host, filter, SPREAD_S)

    def _ticket(self, home: BrokerId) -> Ticket:
        """Returns the client's ticket. Where transmissions are lost, it cannot know what it has missed, and shows
        less."""
        if self.epoch is None or self.network.last_hop.loss or not self.network.last_hop.redelivers:
            return Ticket(home, self.epoch)
        return Ticket(home, self.epoch, dict(self.position), digest_of(self.filters))

    def disconnect(self) -> None:
        """The client vanishes without a word; the broker notices it later."""
        if self.host is None:
            return
        host, self.host = self.host, None
        connection = self.connection
        self.connection += 1
        self._requested_at = None
        if not self._subscribed:  # no broker has heard of its subscriptions: no event is owed until one has
            self._owe_nothing()
        self.recorder.record(Record("disconnected", self.engine.now, host.me, self.id, detail="vanished"))
        missed_after_s = self.network.last_hop.missed_after_s(self.engine.now - self._connected_at)
        self.engine.after(missed_after_s, self._noticed, host, connection)

    def _noticed(self, host: "SimHost", connection: int) -> None:
        if host.alive:
            host.enqueue("control", 0, self._notice, host, connection)

    def _notice(self, host: "SimHost", connection: int) -> None:
        if self.id in host.clients and not (self.host is host and self.connection > connection + 1):
            count_as_consumed(host, self.id)
            del host.clients[self.id]
            host.broker.on_disconnect(self.id, "vanished")

    def connection_broke(self) -> None:
        """The broker fell, or was down when the connect request came: the client is not connected any more."""
        if self.host is not None:
            self._requested_at = None
            self.recorder.record(
                Record("disconnected", self.engine.now, self.host.me, self.id, detail="crashed")
            )
            self.host = None
            self.connection += 1

    # --- subscriptions ------------------------------------------------------------------------------------

    def subscribe(self, filter: Filter, *, owed_after_s: float = 0.0) -> None:
        """Subscribes, if the client is connected. The subscription needs time to spread: the checkers expect matching
        events that are published `owed_after_s` or more after the broker has taken the subscription.
        """
        host = self.host
        if host is not None and self._is_accepted(host) and filter not in self.filters:
            self.filters.append(filter)
            self.checkers.asked(self.id, filter)
            host.enqueue("control", 0, self._subscribe_at, host, filter, owed_after_s)

    def _is_accepted(self, host: "SimHost") -> bool:
        """Whether the broker has taken this connection; before that it would count requests for the one before."""
        return self.id in host.clients and host.connections[self.id] == self.connection

    def _subscribe_at(self, host: "SimHost", filter: Filter, owed_after_s: float) -> None:
        if filter not in self.filters:
            return  # the client has unsubscribed since
        if self.id not in host.clients:
            self.filters.remove(filter)  # the connection broke before the broker read this
            return
        host.broker.on_subscribe(self.id, filter)
        self._owe_when_confirmed(host, filter, owed_after_s)

    def _owe_when_confirmed(self, host: "SimHost", filter: Filter, otherwise_after_s: float) -> None:
        """Events are owed once brokers confirm the subscription; where brokers do not confirm any, after a time."""
        context = host.broker.contexts.get(self.id)
        is_here = context is not None and filter in context.filters  # not at a home broker
        confirmation = host.broker.router.confirm() if is_here else {}
        if context is None or not confirmation:
            self._owe_after(otherwise_after_s, filter)
            return
        self._wishes[filter] = wish = self._wishes.get(filter, 0) + 1
        self._ask_for_confirmation(host, context, confirmation, filter, wish)

    def _ask_for_confirmation(
        self,
        host: "SimHost",
        context: Context,
        confirmation: Mapping[BrokerId, int],
        filter: Filter,
        wish: int,
    ) -> None:
        """Waits until brokers would send SUBACK: the context is whole, and every broker knows the subscription."""
        if context.local_queue is None and host.broker.router.passed(confirmation):
            self._owe(filter, wish)
        elif wish == self._wishes[filter] and filter in self.filters:
            again = (host, context, confirmation, filter, wish)
            self.engine.after(CONFIRM_EVERY_S, self._ask_for_confirmation, *again)

    def _owe_after(self, delay_s: float, filter: Filter) -> None:
        self._wishes[filter] = wish = self._wishes.get(filter, 0) + 1
        self.engine.after(delay_s, self._owe, filter, wish)

    def _owe_nothing(self) -> None:
        for filter in self.filters:
            if filter in self._owed:
                self._owed.remove(filter)
                self.checkers.unsubscribed(self.id, filter)

    def _owe(self, filter: Filter, wish: int) -> None:
        if filter in self.filters and filter not in self._owed and wish == self._wishes[filter]:
            self._owed.add(filter)
            self.checkers.subscribed(self.id, filter)

    def unsubscribe(self, filter: Filter) -> None:
        host = self.host
        if host is not None and self._is_accepted(host) and filter in self.filters:
            self.filters.remove(filter)
            if filter in self._owed:
                self._owed.remove(filter)
                self.checkers.unsubscribed(self.id, filter)
            host.enqueue("control", 0, self._unsubscribe_at, host, filter)

    def _unsubscribe_at(self, host: "SimHost", filter: Filter) -> None:
        if self.id in host.clients and filter not in self.filters:
            host.broker.on_unsubscribe(self.id, filter)

    # --- receiving ----------------------------------------------------------------------------------------

    def receive(self, connection: int, event: Event, how: str, is_settled: bool = False) -> None:
        """Takes an event that came over the last hop, unless the connection on which it was sent is gone.

        `is_settled`: the broker has counted on its arrival (`SimHost.deliver_at_once`) and needs no acknowledgement.
        """
        host = self.host
        if connection != self.connection or host is None:
            return
        now = self.engine.now
        self.checkers.delivered(self.id, event)
        origin, sequence = event.id
        if sequence > self.position.get(origin, 0):
            self.position[origin] = sequence
        if self.recorder.record_event_rows:
            self.recorder.records.append(
                Record(
                    "delivered",
                    now,
                    host.me,
                    self.id,
                    origin,
                    sequence,
                    detail=how,
                    duration_s=now - event.published_at,
                )
            )
        if self._requested_at is not None:
            waited = now - self._requested_at
            self._requested_at = None
            if self._came_from is not None:
                self.recorder.record(
                    Record(
                        "handoff", now, host.me, self.id, peer=self._came_from, detail=how, duration_s=waited
                    )
                )
        if is_settled:
            return
        if self.network.last_hop.in_flight:
            self.engine.after(self.network.last_hop.delay_s, acknowledge, host, self.id, connection, event.id)
        else:
            host.broker.on_acknowledge(self.id, event.id)


class SimPublisher:
    """A publisher at one broker, on the schedule of its workload."""

    def __init__(
        self,
        id: ClientId,
        broker: BrokerId,
        publications: Iterator[Publication],
        network: "Network",
        checkers: "Checkers",
        *,
        until_s: float,
    ) -> None:
        self.id = id
        self.broker = broker
        self.network = network
        self.engine = network.engine
        self.checkers = checkers
        self.until_s = until_s
        self._publications = publications

    def start(self) -> None:
        self._schedule_next()

    def _schedule_next(self) -> None:
        publication = next(self._publications, None)
        if publication is not None and publication.time_s < self.until_s:
            self.engine.at(max(publication.time_s, self.engine.now), self._publish, publication)

    def _publish(self, publication: Publication) -> None:
        if self.engine.now >= self.until_s:
            return  # flow control held it back to the end
        host = self.network.hosts[self.broker]
        if not host.alive:
            self._schedule_next()  # no broker took the publication: it was never accepted
            return
        if self.network.congested():
            self.network.publishers_held.append(lambda: self._publish(publication))
        elif host.enqueue("event", publication.size_bytes, self._accepted, host, publication):
            self._schedule_next()
        else:
            host.publisher_waits.append(lambda: self._publish(publication))

    def _accepted(self, host: "SimHost", publication: Publication) -> None:
        expected = self.checkers.expect(publication)
        event = host.broker.on_publish(
            self.id,
            publication.topic,
            publication.attributes,
            publication.payload,
            expires_at=None if publication.lifetime_s is None else self.engine.now + publication.lifetime_s,
        )
        self.checkers.published(event, expected)
        if host.recorder.record_event_rows:
            origin, sequence = event.id
            host.recorder.records.append(
                Record(
                    "published",
                    self.engine.now,
                    host.me,
                    self.id,
                    origin,
                    sequence,
                    count=len(expected),
                    bytes=event.size_bytes,
                )
            )
