"""Events: what is said, and the id that orders them.

An event is named by the broker where it entered and a number that broker counts up: `(origin, sequence)`.
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
"""What caches remember of events is bounded by their number: an event that says more than this has no key."""


class EventId(NamedTuple):
    """Where an event entered the network, and its number there."""

    origin: BrokerId
    sequence: int


@dataclass(slots=True, kw_only=True, eq=False, init=False)
class Event:
    """Something a client said. Compared and hashed by identity: one stored copy serves everybody.

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
    """What the world's protocol wants carried along unread (MQTT 5 properties); the core never looks inside."""
    assigned: Final[Mapping[str, ClientId] | None]
    """Filter of a shared group, as text -> the member that gets the event, decided where the event entered."""
    is_handed_on: Final[bool]
    """Whether the event is for shared groups alone: it entered before, and nobody it was assigned to could take it."""
    cost_bytes: Final[int]
    """What a stored event costs of the memory; its size, where nobody knows better."""
    match_key: str | bytes | None = field(init=False, repr=False)
    """Events with equal keys match the same filters: what match caches are keyed by. None: it would be too long to be
    remembered, and its match is found anew."""
    size_bytes: int = field(init=False, repr=False)
    """The event's payload, its topic and its attributes as text."""

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
                # Every broker on the way looks it up. Bytes are hashed once, and are never equal to a topic; `repr`
                # tells True from 1, as filters do and Python does not.
                self.match_key = repr((topic, sorted(items))).encode()
        else:
            length = len(topic)
            self.match_key = topic if length <= KEY_TOPIC_CHARACTERS_MAX else None
            self.size_bytes = len(payload) + length
        self.cost_bytes = self.size_bytes if cost_bytes is None else cost_bytes

    def expired(self, now: Seconds) -> bool:
        return self.expires_at is not None and now >= self.expires_at
