"""What a part of a mobility scheme may hear of: every method does nothing unless the part cares.

A part registers handlers for its messages with the mailbox when it is made. A scheme `add`s its parts, and passes on
to each what happens at the broker, in the order in which it added them.
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
    """It never answered what it was asked. Otherwise it has left: all its sessions are elsewhere, and it has answered
    or passed on whatever reached it."""
    went: Mapping[ClientId, Epoch] = {}
    """Where contexts went that were there, as it has told."""


class Part:
    """Base of the parts of a scheme."""

    hands_over: ClassVar[bool] = False
    """Whether the contexts that it holds belong to other brokers and have not gone there entirely."""

    pending: Sized = ("always",)
    """A part that cares for events only now and then puts here what it then looks through: while that is empty, the
    part is not called, since nearly all that a broker does is events."""

    def on_event(self, event: Event) -> None:
        """An event has entered the contexts that want it."""

    def on_passed(self) -> None:
        """The router has heard something by which a fence may have passed."""

    def on_subscribe(self, context: Context, filter: Filter) -> None:
        """The client of `context` is about to subscribe."""

    def on_unsubscribe(self, context: Context, filter: Filter) -> None:
        """The client of `context` is about to unsubscribe."""

    def on_leave(self, context: Context) -> bool:
        """The client of `context` is gone for good. True: the part sees to the end of the context itself."""
        return False

    def on_ended(self, client: ClientId, epoch: Epoch) -> None:
        """All that the client had up to a connection is over: so is what this part keeps of it for others to claim."""

    def on_timer(self, key: TimerKey) -> bool:
        """A timer has run out. True: it was this part's."""
        return False

    def on_joined(self, broker: BrokerId) -> None:
        """This broker has heard of one that joined, and has seen nothing of it yet."""

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        """A broker is gone for good: nothing is kept for it, and nothing more comes from there."""

    def went(self) -> Mapping[ClientId, Epoch]:
        """Where contexts went that were here: to which connection."""
        return {}

    def awaited(self) -> Mapping[BrokerId, int]:
        """Broker -> contexts here for which it has events that are to follow."""
        return {}

    def left_behind(self) -> int:
        """How many clients have a context here that waits for somebody to claim it, or for the rest of it to come."""
        return 0

    def on_restart(self) -> None:
        """The broker came back with its store; its timers are gone."""

    def held(self) -> list[Context]:
        """The contexts that this part keeps, besides those on the broker's table."""
        return []

    def copies_at(self, context: Context) -> tuple[BrokerId, ...]:
        """Brokers that keep a copy of the context on account of this part."""
        return ()

    def expected_at(self, client: ClientId) -> tuple[BrokerId, ...]:
        """Where this part expects the client next."""
        return ()


class Parts:
    """The parts of one scheme, or of the schemes of one broker: each hears what happens there, in their order."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._parts: list[Part] = []
        self._listeners: list[Part] = []
        """The parts that care for events."""
        self.pending: list[Sized] = []
        """What each of them looks through then; most of the time there is nothing in any."""
        self.of_subscriptions: list[Part] = []
        """The parts that care for what clients subscribe to."""
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
        """An event reached this broker, for the first time, and something is `pending`."""
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
        """A broker has joined; the router knows, so fences may have passed that speak of it."""
        for part in self._parts:
            part.on_joined(broker)
        self.on_passed()

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        """A broker is gone for good; the router knows, so fences may have passed."""
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
