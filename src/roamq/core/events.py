"""Events: what is said, and the id that orders them.

An event is named by the broker where it entered and a number that broker counts up: `(origin, sequence)`.
Links are FIFO, so at every broker the events of one origin arrive in sequence; "above the read position" is
therefore the whole test for "not yet seen" (docs/decisions/0002).
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", str)
ClientId = NewType("ClientId", str)
Seconds = float

Value = str | float | int | bool
"""The type of an attribute: a string, a number or a boolean."""

NO_ATTRIBUTES: Mapping[str, Value] = {}


class EventId(NamedTuple):
    """Where an event entered the network, and its number there."""

    origin: BrokerId
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Event:
    """Something a client said. Compared and hashed by identity: one stored copy serves everybody."""

    id: EventId
    topic: str
    attributes: Mapping[str, Value] = field(default_factory=lambda: NO_ATTRIBUTES)
    payload: bytes = b""
    published_at: Seconds = 0.0
    expires_at: Seconds | None = None
    publisher: ClientId | None = None
    qos: int = 1
    retain: bool = False
    properties: object | None = None
    """What the world's protocol wants carried along unread (MQTT 5 properties); the core never looks inside."""
    assigned: Mapping[str, BrokerId] | None = None
    """Shared group -> the broker whose member is due, decided where the event entered."""
    match_key: Hashable = field(init=False, repr=False)
    """Events with equal keys match the same filters: what match caches are keyed by."""
    size_bytes: int = field(init=False, repr=False)
    """What the event weighs in a buffer: its payload, its topic and its attributes as text."""

    def __post_init__(self) -> None:
        key: Hashable = self.topic
        size = len(self.payload) + len(self.topic)
        if self.attributes:
            # True == 1 for Python, but not for a filter: the type is part of the key.
            items = self.attributes.items()
            key = (self.topic, frozenset((n, v, v.__class__ is bool) for n, v in items))
            size += sum(len(name) + len(str(value)) for name, value in items)
        object.__setattr__(self, "match_key", key)
        object.__setattr__(self, "size_bytes", size)

    def expired(self, now: Seconds) -> bool:
        return self.expires_at is not None and now >= self.expires_at
