"""Takes stored events out of a context although its client has not read them; events in flight stay."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import cast

from roamq.core.context import Context
from roamq.core.events import Event, EventId, Seconds


def take_out(context: Context, is_taken: Callable[[Event], bool]) -> list[Event]:
    """Forget some of the events that are stored and not in flight, and return them; the others stay in order."""
    in_flight = context.in_flight
    sent, waiting = list(context.stored)[:in_flight], list(context.stored)[in_flight:]
    taken = [held.event for held in waiting if is_taken(held.event)]
    gone = {event.id for event in taken}
    context.keep([*sent, *(held for held in waiting if held.event.id not in gone)])
    for queue in (context.local_queue or (), *(context.late or {}).values()):
        later = [event for event in queue if is_taken(event)]
        for event in later:
            cast("deque[Event]", queue).remove(event)
            context.release(event)
        taken += later
    return taken


def drop_expired(context: Context, now: Seconds, has_begun: Callable[[Event], bool]) -> list[Event]:
    """Forget stored events that have expired, but for those in flight or begun (`Host.has_begun`); returns them."""
    waiting = islice(context.stored, context.in_flight, None)
    expired = [held[0] for held in waiting if held[0].expires_at is not None and held[0].expired(now)]
    expired = [event for event in expired if not has_begun(event)]
    if expired:
        gone = {event.id for event in expired}
        context.keep(held for held in context.stored if held.event.id not in gone)
    return expired


def give_up_first(context: Context, event_id: EventId) -> Event | None:
    """If `event_id` is the first stored event and not in flight, forget it to make room; returns it."""
    if context.in_flight or not context.stored or context.stored[0].event.id != event_id:
        return None
    event = context.stored.popleft().event
    context.release(event)
    return event
