"""The base of the parts of a mobility scheme: every method does nothing, unless the part overrides it.

A part registers handlers for its messages with the mailbox when it is made. A scheme `add`s its parts, and passes on to
each what happens at the broker, in the order in which it added them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import ClassVar, NamedTuple

from roamq.core.context import Context, Epoch
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.ports import TimerKey


class Departure(NamedTuple):
    """How a broker departed."""

    is_lost: bool
    """True: the broker never answered what others asked it. False: it has left; all its sessions are elsewhere, and it
    has answered or passed on every message that reached it."""
    went: Mapping[ClientId, Epoch] = {}
    """Client -> the connection to which its context went from the departed broker, as that broker has told."""


class Part:
    """Base of the parts of a scheme."""

    hands_over: ClassVar[bool] = False
    """Whether the contexts of this part belong to other brokers and have not gone there entirely."""

    pending: Sized = ("always",)
    """The entries that the part looks through at an event. While there are none, the scheme does not call `on_event` of
    the part: nearly all that a broker does is events."""

    def on_event(self, event: Event) -> None:
        """The broker's contexts have got an event that they want."""

    def on_passed(self) -> None:
        """The router has heard something by which a fence may have passed."""

    def on_subscribe(self, context: Context, filter: Filter) -> None:
        """The client of `context` is about to subscribe."""

    def on_unsubscribe(self, context: Context, filter: Filter) -> None:
        """The client of `context` is about to unsubscribe."""

    def on_leave(self, context: Context) -> bool:
        """The client of `context` is gone for good. Returns whether the part itself sees to the end of the context."""
        return False

    def on_ended(self, client: ClientId, epoch: Epoch) -> None:
        """All that the client had up to a connection is over: forget what this part keeps of it for others to claim."""

    def on_timer(self, key: TimerKey) -> bool:
        """A timer has run out. Returns whether it is this part's timer."""
        return False

    def on_joined(self, broker: BrokerId) -> None:
        """This broker has heard of a broker that joined, and has seen no events of it yet."""

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        """A broker is gone for good: this broker keeps nothing for it, and gets nothing more from it."""

    def went(self) -> Mapping[ClientId, Epoch]:
        """Client -> the connection to which its context went from here."""
        return {}

    def awaited(self) -> Mapping[BrokerId, int]:
        """Broker -> the number of contexts here to which it still owes events."""
        return {}

    def left_behind(self) -> int:
        """The number of clients with a context here that waits for a broker to claim it, or for the rest of its
        events."""
        return 0

    def on_restart(self) -> None:
        """The broker came back with its store; its timers are gone."""

    def held(self) -> list[Context]:
        """The contexts that this part keeps, besides those on the broker's table."""
        return []

    def copies_at(self, context: Context) -> tuple[BrokerId, ...]:
        """The brokers that keep a copy of the context because this part asked them to."""
        return ()

    def expected_at(self, client: ClientId) -> tuple[BrokerId, ...]:
        """The brokers at which this part expects the client next."""
        return ()


class Parts:
    """The parts of one scheme, or of all schemes of one broker: each hears what happens there, in their order."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._parts: list[Part] = []
        self._listeners: list[Part] = []
        """The parts that have an `on_event` of their own."""
        self.pending: list[Sized] = []
        """The entries that each of these parts looks through at an event; most of the time all are empty."""
        self.of_subscriptions: list[Part] = []
        """The parts that hear of clients' subscriptions."""
        for part in parts:
            self.add(part)

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)

    def add(self, part: Part) -> None:
        self._parts.append(part)
        if type(part).on_event is not Part.on_event:
            self._listeners.append(part)
            self.pending.append(part.pending)
        kind = type(part)
        if (kind.on_subscribe, kind.on_unsubscribe) != (Part.on_subscribe, Part.on_unsubscribe):
            self.of_subscriptions.append(part)

    def on_event(self, event: Event) -> None:
        """An event reached this broker for the first time, and something is `pending`."""
        for part in self._listeners:
            if part.pending:
                part.on_event(event)

    def on_passed(self) -> None:
        for part in self._parts:
            part.on_passed()

    def on_ended(self, client: ClientId, epoch: Epoch) -> None:
        for part in self._parts:
            part.on_ended(client, epoch)

    def on_joined(self, broker: BrokerId) -> None:
        """A broker has joined, and the router knows: fences that speak of it may have passed."""
        for part in self._parts:
            part.on_joined(broker)
        self.on_passed()

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        """A broker is gone for good, and the router knows: fences may have passed."""
        for part in self._parts:
            part.on_departed(broker, departure)
        self.on_passed()

    def on_restart(self) -> None:
        for part in self._parts:
            part.on_restart()

    def went(self) -> dict[ClientId, Epoch]:
        return {client: epoch for part in self._parts for client, epoch in part.went().items()}

    def awaited(self) -> Mapping[BrokerId, int]:
        return sum((Counter(part.awaited()) for part in self._parts), Counter())

    def left_behind(self) -> int:
        return sum(part.left_behind() for part in self._parts)

    def held(self) -> list[Context]:
        return [context for part in self._parts for context in part.held()]

    def on_the_way(self) -> list[Context]:
        """The contexts that belong to another broker and have not gone there entirely."""
        return [context for part in self._parts if part.hands_over for context in part.held()]
