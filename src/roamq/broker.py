"""A broker: a router and one mobility scheme, driven by inputs.

Inputs are the `on_...` methods; effects go to the `Host`. Nothing here waits, reads a clock or draws a number, so
the same object runs in the simulator and behind sockets, and a seed replays any fault.
"""

from collections.abc import Callable, Mapping
from typing import Final

from roamq.core.context import Ticket
from roamq.core.events import NO_ATTRIBUTES, BrokerId, ClientId, Event, EventId, Seconds, Value
from roamq.core.filters import Filter
from roamq.core.messages import Advertise, Afresh, Message, Routed, Subscribe, Unadvertise, Unsubscribe
from roamq.core.ports import Host
from roamq.overlay.base import Router
from roamq.schemes.base import Scheme

INCARNATION_BITS: Final = 40
"""Sequences of a broker's n-th life begin at n << 40: a restart without its store never reuses a number."""

_event_id: Final = tuple.__new__
"""Makes an `EventId` without a call of its own: one for every event there is."""


class Broker:
    """One broker of the network."""

    def __init__(
        self, me: BrokerId, host: Host, router: Router, scheme: Scheme, *, incarnation: int = 0
    ) -> None:
        self.me = me
        self.host = host
        self.router = router
        self.scheme = scheme
        self.sequence = incarnation << INCARNATION_BITS
        self.observer: Callable[[Event], None] | None = None
        """Told, before the contexts are, of events to retain and of those that are assigned to shared groups."""
        self._on_event = scheme.on_event
        self.on_acknowledge = scheme.on_acknowledge
        self.on_timer = scheme.on_timer
        self.on_location = scheme.on_location

    # --- from clients -------------------------------------------------------------------------------------

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        if old_broker == self.me:
            # It comes back to us, but somebody it never heard from may have fetched its context.
            old_broker = self.scheme.went_to(client) or old_broker
        self.scheme.on_ticket(client, ticket)
        self.scheme.on_connect(client, old_broker, carried)

    def on_disconnect(self, client: ClientId, reason: str = "vanished") -> None:
        self.scheme.on_disconnect(client, reason)

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        self.scheme.on_subscribe(client, filter)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        self.scheme.on_unsubscribe(client, filter)

    def on_leave(self, client: ClientId) -> None:
        self.scheme.on_leave(client)

    def on_advertise(self, filter: Filter) -> None:
        self.router.advertise(filter)

    def on_publish(
        self,
        publisher: ClientId | None,
        topic: str,
        attributes: Mapping[str, Value] = NO_ATTRIBUTES,
        payload: bytes = b"",
        *,
        expires_at: Seconds | None = None,
        qos: int = 1,
        retain: bool = False,
        properties: object | None = None,
    ) -> Event:
        """An event enters the network here: it gets its id, and goes wherever it is wanted."""
        event = Event(
            id=self.next_event_id(),
            topic=topic,
            attributes=attributes,
            payload=payload,
            published_at=self.host.now(),
            expires_at=expires_at,
            publisher=publisher,
            qos=qos,
            retain=retain,
            properties=properties,
        )
        self.inject(event)
        return event

    def next_event_id(self) -> EventId:
        self.sequence = sequence = self.sequence + 1
        return _event_id(EventId, (self.me, sequence))

    def inject(self, event: Event) -> None:
        """An event with the next id of this broker enters the network."""
        self.router.publish(event)
        self._arrived(event)

    def _arrived(self, event: Event) -> None:
        if (event.retain or event.assigned is not None) and self.observer is not None:
            self.observer(event)
        self._on_event(event)

    # --- from other brokers -------------------------------------------------------------------------------

    def on_message(self, sender: BrokerId, message: Message | Event) -> None:
        """A message came over the link from the neighbour `sender`."""
        if message.__class__ is Event:
            if self.router.receive_event(sender, message):
                self._arrived(message)
            return
        assert isinstance(message, Message)
        if isinstance(message, Routed):
            if message.to == self.me:
                self.scheme.on_message(message.sender, message.message)
            else:
                self.host.send(self.router.next_hop(message.to), message)
        elif isinstance(message, Subscribe | Unsubscribe | Advertise | Unadvertise | Afresh):
            self.router.receive(sender, message)
        else:
            self.scheme.on_message(sender, message)

    def on_restart(self) -> None:
        """The broker came back with what it had stored; everybody was disconnected by the fall."""
        self.scheme.on_restart()
