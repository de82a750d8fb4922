"""Many stored events as several messages, where a broker works in slices so that nobody waits for it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from roamq.broker.contexts import Contexts
from roamq.core.events import Event
from roamq.schemes.messages.handover import StoredEvents

PART_EVENTS: Final = 500
"""One message has no more stored events: reading them takes some three milliseconds."""


def messages_of(message: StoredEvents, contexts: Contexts) -> Iterator[StoredEvents]:
    """The message, or several that say the same: the first of them has what is not events."""
    *parts, last = in_parts(message.events, contexts)
    for part in parts:
        yield replace(message, events=part, last=False)
        message = replace(message, position={}, session=None)
    yield replace(message, events=last)


def one_by_one(message: StoredEvents) -> Iterator[StoredEvents]:
    """[PRO] section 1: "Bi sends all the subscriber messages to Bj", one by one, and then a closing word."""
    for group in (*((event,) for event in message.events), ()):
        yield replace(message, events=group, last=not group)


def in_parts(events: tuple[Event, ...], contexts: Contexts) -> list[tuple[Event, ...]]:
    """The events as they go to another broker: one part, unless whoever is served there would wait for it."""
    size = PART_EVENTS if contexts.works_in_slices else len(events)
    return [events[at : at + size] for at in range(0, len(events), size)] if events else [()]
