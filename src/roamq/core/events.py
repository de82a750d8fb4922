"""Events: what clients publish, and the ids that order them.

An event is named by the broker where it entered and a number that this broker counts up: `(origin, sequence)`.
Links are FIFO, so at every broker the events of one origin arrive in sequence; "above the read position" is
therefore the whole test for "not yet seen" (docs/decisions/0002).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", str)
ClientId = NewType("ClientId", str)
Seconds = float

Value = str | float | int | bool
"""The type of an attribute: a string, a number or a boolean."""

NO_ATTRIBUTES: Mapping[str, Value] = {}

KEY_TOPIC_CHARACTERS_MAX: Final = 256
KEY_CHARACTERS_MAX: Final = 1024
KEY_ATTRIBUTES_MAX: Final = 32
"""The largest events that have a `match_key`: caches of matches bound the number of keys, and not their size."""


class EventId(NamedTuple):
    """Where an event entered the network, and its number there."""

    origin: BrokerId
    sequence: int


@dataclass(slots=True, kw_only=True, eq=False, init=False)
class Event:
    """What a client published. Events are compared and hashed by identity: one stored copy serves all contexts.

    Nobody assigns to an event: `Final` has the type checker see to that, because a frozen dataclass would take as long
    to make an event as a broker takes to deliver it (docs/decisions/0057).
    """

    id: Final[EventId]
    topic: Final[str]
    attributes: Final[Mapping[str, Value]]
    payload: Final[bytes]
    published_at: Final[Seconds]
    expires_at: Final[Seconds | None]
    publisher: Final[ClientId | None]
    qos: Final[int]
    retain: Final[bool]
    properties: Final[object | None]
    """What the clients' protocol has carried along unread (MQTT 5 properties); the core never looks inside."""
    assigned: Final[Mapping[str, ClientId] | None]
    """Filter of a shared group, as text -> the member that gets the event, decided where the event entered."""
    is_handed_on: Final[bool]
    """Whether the event is for shared groups alone: it entered before, and no member it was assigned to could take it.
    """
    cost_bytes: Final[int]
    """Bytes of memory that a stored event takes; its size, if the maker of the event gives no other number."""
    match_key: str | bytes | None = field(init=False, repr=False)
    """The key of match caches: events with equal keys match the same filters. None: the key would be too long, so no
    cache remembers the matches of this event."""
    size_bytes: int = field(init=False, repr=False)
    """The size of the event's payload, its topic and its attributes as text."""

    def __init__(
        self,
        id: EventId,
        topic: str,
        attributes: Mapping[str, Value] = NO_ATTRIBUTES,
        payload: bytes = b"",
        published_at: Seconds = 0.0,
        expires_at: Seconds | None = None,
        publisher: ClientId | None = None,
        qos: int = 1,
        retain: bool = False,
        properties: object | None = None,
        assigned: Mapping[str, ClientId] | None = None,
        is_handed_on: bool = False,
        cost_bytes: int | None = None,
    ) -> None:
        self.id = id
        self.topic = topic
        self.attributes = attributes
        self.payload = payload
        self.published_at = published_at
        self.expires_at = expires_at
        self.publisher = publisher
        self.qos = qos
        self.retain = retain
        self.properties = properties
        self.assigned = assigned
        self.is_handed_on = is_handed_on
        if attributes:
            items = attributes.items()
            said = len(topic) + sum(len(name) + len(str(value)) for name, value in items)
            self.size_bytes = len(payload) + said
            self.match_key = None
            if said <= KEY_CHARACTERS_MAX and len(attributes) <= KEY_ATTRIBUTES_MAX:
                # Every broker on the way looks the key up. Bytes are hashed once, and never equal a topic; `repr` tells
                # True from 1, as filters do and Python does not.
                self.match_key = repr((topic, sorted(items))).encode()
        else:
            length = len(topic)
            self.match_key = topic if length <= KEY_TOPIC_CHARACTERS_MAX else None
            self.size_bytes = len(payload) + length
        self.cost_bytes = self.size_bytes if cost_bytes is None else cost_bytes

    def expired(self, now: Seconds) -> bool:
        return self.expires_at is not None and now >= self.expires_at
