"""Small makers for tests."""

from roamq.core.events import BrokerId, Event, EventId, Value


def event(
    sequence: int = 1, *, origin: str = "o", topic: str = "t", payload: bytes = b"", **attributes: Value
) -> Event:
    """An event with the id (origin, sequence)."""
    return Event(id=EventId(BrokerId(origin), sequence), topic=topic, attributes=attributes, payload=payload)
