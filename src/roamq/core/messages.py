"""The base of every message between brokers, and the message that takes another one over several hops.

A message is a value: frozen, slotted, keyword-only. Its class says its traffic kind (`records.MULTICAST`,
`records.UNICAST`), how many messages of a paper it stands for and what it weighs; bytes on a wire belong to `net`.
The overlay's messages are in `overlay/messages.py`, those of the mobility schemes in `schemes/messages/`. An `Event`
travels as itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from roamq.core.events import BrokerId, Event, EventId
from roamq.core.filters import Filter

HEADER_BYTES = 40
"""What a message without content weighs: addresses, kind and client id."""

EVENT_ID_BYTES = 12
"""What the id of an event weighs: its origin and its number."""


@lru_cache(maxsize=4096)
def filter_bytes(filter: Filter) -> int:
    """What a filter weighs: its text."""
    return len(str(filter))


Content = Event | Filter | EventId | BrokerId


def weight(carried: Content) -> int:
    """What a thing that messages carry weighs, in bytes."""
    if isinstance(carried, Event):
        return carried.size_bytes
    if isinstance(carried, Filter):
        return filter_bytes(carried)
    return EVENT_ID_BYTES if isinstance(carried, EventId) else len(carried)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Base: one control message of header size, and what it carries."""

    kind: ClassVar[str] = "control"
    carries: ClassVar[str] = ""
    """The field by which the message is counted and weighed: a filter, an event, or several of them; ids; names."""
    priced_as: ClassVar[str] = ""
    """What each event in the message costs the brokers at both ends: a `transfer`, a `forward`, or nothing extra."""

    @property
    def carried(self) -> tuple[Content, ...]:
        if not self.carries:
            return ()
        value = getattr(self, self.carries)
        return value if isinstance(value, tuple) else (value,)

    @property
    def units(self) -> int:
        """How many messages of the paper this one stands for: a batch of n events is n messages, as the papers
        forward event by event, and so are n subscriptions ([DIS] section 4). A closing word alone is one."""
        carried = getattr(self, self.carries) if self.carries else None
        if carried.__class__ is not tuple:
            return 1
        return max(1, sum(isinstance(one, Event | Filter) for one in carried))

    @property
    def size_bytes(self) -> int:
        carried: Any = getattr(self, self.carries) if self.carries else ()
        if carried.__class__ is not tuple:
            return HEADER_BYTES + weight(carried)
        return HEADER_BYTES + sum(map(weight, carried))

    @property
    def traffic_kind(self) -> str:
        """The kind under which the message is counted: `closing` if it could bring events and brings none."""
        return "closing" if self.carries == "events" and not self.carried else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed(Message):
    """Any broker -> any broker, hop by hop along the overlay: `message` is for `to`."""

    to: BrokerId
    sender: BrokerId
    message: Message

    @property
    def units(self) -> int:
        return self.message.units

    @property
    def size_bytes(self) -> int:
        return self.message.size_bytes

    @property
    def traffic_kind(self) -> str:
        return self.message.traffic_kind


def kind_of(message: "Message | Event") -> str:
    """The traffic kind under which a message is counted."""
    return "event" if isinstance(message, Event) else message.traffic_kind


class MessageSource(ABC):
    """Many messages for one neighbour, each made when it is due. A snapshot may hold a source that has some left."""

    __slots__ = ()

    @abstractmethod
    def next_message(self) -> Message | None:
        """The next message; None at the end."""

    def __iter__(self) -> Iterator[Message]:
        while (message := self.next_message()) is not None:
            yield message
