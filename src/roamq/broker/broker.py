"""A broker: a router, the contexts of its clients, and one mobility scheme, driven by inputs.

Inputs are the `on_...` methods; effects go to the `Host`. Nothing here waits, reads a clock or draws a number, so
the same object runs in the simulator and behind sockets, and a seed replays any fault.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Mailbox
from roamq.core.context import Context, Epoch, Ticket
from roamq.core.events import NO_ATTRIBUTES, BrokerId, ClientId, Event, EventId, Seconds, Value
from roamq.core.filters import Filter
from roamq.core.messages import Message, Routed
from roamq.core.ports import Host, TimerKey
from roamq.core.tuples import new_tuple
from roamq.overlay.base import Router
from roamq.overlay.messages import RoutingMessage

INCARNATION_BITS: Final = 40
"""Sequences of a broker's n-th life begin at n << 40: a restart without its store never reuses a number."""


class HeldElsewhere(Protocol):
    """What the parts of a scheme know of contexts that are here and belong elsewhere, or were here and have gone."""

    def went(self) -> dict[ClientId, Epoch]:
        """Client -> the connection to which its context went from here; its broker has to be asked for the context."""

    def awaited(self) -> Mapping[BrokerId, int]:
        """Broker -> the number of contexts here for which that broker has events that are to follow."""

    def left_behind(self) -> int:
        """How many clients have a context here that waits for a claim, or for the rest of the context to come."""


class MobilityScheme(Protocol):
    """What a broker asks of its mobility scheme; `schemes.base.Scheme` says what each input means."""

    counts_acknowledgements: ClassVar[bool]

    @property
    def parts(self) -> HeldElsewhere: ...

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None: ...

    def on_disconnect(self, client: ClientId, reason: str) -> None: ...

    def on_subscribe(self, client: ClientId, filter: Filter) -> None: ...

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None: ...

    def on_taken_back(self, client: ClientId, events: Iterable[Event]) -> None: ...

    def on_leave(self, client: ClientId) -> None: ...

    def on_ended(self, client: ClientId, epoch: Epoch) -> None: ...

    def on_location(self, client: ClientId, cell: str) -> None: ...

    def copies_at(self, context: Context) -> tuple[BrokerId, ...]: ...

    def expected_at(self, client: ClientId) -> tuple[BrokerId, ...]: ...

    def on_event(self, event: Event) -> None: ...

    def on_passed(self) -> None: ...

    def on_acknowledge(self, client: ClientId, event_id: EventId) -> None: ...

    def on_timer(self, key: TimerKey) -> None: ...

    def on_restart(self) -> None: ...

    @property
    def lets_brokers_depart(self) -> bool: ...

    def on_joined(self, broker: BrokerId) -> None: ...

    def on_departed(self, broker: BrokerId, departure: Any) -> None: ...

    def held(self) -> list[Context]: ...

    def on_the_way(self) -> list[Context]: ...

    def may_keep(self, context: Context) -> bool: ...


def learns_nothing(broker: "Broker", message: Message) -> bool:
    """False: nothing handles the message, so `Broker.on_message` returns it to the shell."""
    return False


class Broker:
    """One broker of the network. `build.build_broker` puts it together."""

    def __init__(
        self,
        me: BrokerId,
        host: Host,
        router: Router,
        contexts: Contexts,
        mailbox: Mailbox,
        scheme: MobilityScheme,
        *,
        first_number: int = 0,
        learns: "Callable[[Broker, Message], bool]" = learns_nothing,
    ) -> None:
        """`learns`: called with a message that has no handler. It may find a handler, and returns True if it did."""
        self.me = me
        self.host = host
        self._learns = learns
        self.router = router
        self.contexts = contexts
        self.mailbox = mailbox
        self.use(scheme)
        self.sequence = first_number
        """The sequence of the last event that entered here."""

    def use(self, scheme: MobilityScheme) -> None:
        """Give this broker's inputs to `scheme` from now on; callers of most inputs call the scheme's own methods."""
        contexts = self.contexts
        self.scheme = scheme
        self.on_connect = scheme.on_connect
        self.on_disconnect = scheme.on_disconnect
        self.on_subscribe = scheme.on_subscribe
        self.on_unsubscribe = scheme.on_unsubscribe
        self.on_taken_back = scheme.on_taken_back
        self.on_leave = scheme.on_leave
        self.on_ended = scheme.on_ended
        self.on_location = scheme.on_location
        self.on_acknowledge = (
            scheme.on_acknowledge if scheme.counts_acknowledgements else contexts.acknowledge
        )
        self.on_acknowledge_all = (
            self._acknowledge_each if scheme.counts_acknowledgements else contexts.acknowledge_all
        )
        self.on_timer = scheme.on_timer
        self.on_restart = scheme.on_restart
        self.on_joined = scheme.on_joined
        self.on_departed = scheme.on_departed
        self._on_event = scheme.on_event

    @property
    def incarnation(self) -> int:
        """The number of this broker's life, as its sequences have it; a start without the store begins another life."""
        return self.sequence >> INCARNATION_BITS

    def doubt(self) -> None:
        """This broker starts with no store, or an old one: it knows neither what it was told nor what it did."""
        self.router.doubt()
        self.contexts.is_doubted = True

    @property
    def may_have_forgotten(self) -> bool:
        """Whether a context that other brokers believe to be here may have gone on, in a life that this broker does not
        remember. Not under schemes that keep contexts at brokers for good: such a scheme knows where a context is."""
        return self.contexts.is_doubted and self.scheme.lets_brokers_depart

    # --- from clients -------------------------------------------------------------------------------------

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
        """Make an event that enters the network here, give it its id, and send it wherever it is wanted."""
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
        return new_tuple(EventId, (self.me, sequence))

    def take_back_event_id(self) -> None:
        """Make the last id free again: the event that got it does not enter the network after all."""
        self.sequence -= 1

    def inject(self, event: Event) -> None:
        """An event with the next id of this broker enters the network."""
        self.router.publish(event)
        self._on_event(event)

    def _acknowledge_each(self, client: ClientId, event_ids: Sequence[EventId]) -> None:
        for event_id in event_ids:
            self.scheme.on_acknowledge(client, event_id)

    # --- from other brokers -------------------------------------------------------------------------------

    def on_message(self, sender: BrokerId, message: Message | Event) -> Event | Routed | None:
        """Handle a message that came over the link from the neighbour `sender`. Returns what the shell has to look at:

        an event that was not here before, a message for this broker that has no handler, or one for a broker that
        departed.
        """
        if message.__class__ is Event:
            if not self.router.receive_event(sender, message):
                return None
            self._on_event(message)
            return message
        if isinstance(message, Routed):
            if self.router.is_departed(message.to):
                return message
            if message.to != self.me:
                self.host.send(self.router.next_hop(message.to), message)
            elif self.mailbox.handles(message.message) or self._learns(self, message.message):
                self.mailbox.receive(message.sender, message.message)
            else:
                return message
            return None
        assert isinstance(message, RoutingMessage), f"{message} came over a link without an address"
        if self.router.receive(sender, message):
            self.scheme.on_passed()
        return None

    def unicast(self, to: BrokerId, message: Message) -> None:
        """Send a message to any other broker."""
        self.router.unicast(to, message)
