"""Events of some origins that wait in a context, because older ones of the same origins come late.

A context may go to another broker before all its events have come to the old one, because a broker on their way is out
of reach. The rest follows. Until then events of those origins that come to the new broker wait, and all others go on.
The old broker stores for the context only events of those origins.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from roamq.core.context import Context, Held
from roamq.core.events import BrokerId, Event, EventId
from roamq.core.forgetting import take_out
from roamq.core.local_queue import follow

NO_ORIGINS: Final[frozenset[BrokerId]] = frozenset()
UNKNOWN: Final = "@"
"""The beginning of a name that is no broker's, but stands for all origins that some broker had not heard of."""


def stands_for_unknown(origin: BrokerId) -> bool:
    """Whether a name stands for origins that the broker which owes their events had not heard of when it said so."""
    return origin.startswith(UNKNOWN)


def late_origins(context: Context) -> frozenset[BrokerId]:
    """The origins of which older events have not come to this context."""
    return NO_ORIGINS if context.late is None else frozenset(context.late)


def hold_back(context: Context, origins: Iterable[BrokerId]) -> None:
    """Older events of these origins come late: their events that come here wait, and so do those in the local queue
    when that is closed."""
    context.late = {origin: deque() for origin in sorted(origins)}


def hold_back_too(context: Context, origin: BrokerId) -> None:
    """Older events of one more origin may come late; none of its events has come here yet."""
    if context.late is not None:
        context.late.setdefault(origin, deque())


def admit_late(context: Context, event: Event) -> bool:
    """Put `event`, which is of a late origin, behind those of its origin that wait. False if there is no room."""
    assert context.late is not None
    if not context.make_room(event):
        return False
    context.late[event.id[0]].append(event)
    return True


def end_late(context: Context, origins: Iterable[BrokerId], events: Iterable[Event]) -> list[Event]:
    """Store late events, which are all there are of `origins`, and let those that waited follow. Returns events for
    which there is no room."""
    late, refused = context.late, list[Event]()
    if late is None:
        return refused
    have: set[EventId] | None = None
    for event in events:
        if event.id[0] not in late:
            continue
        if context.is_new(event):
            if not context.admit(event, "transferred"):
                refused.append(event)
            continue
        # The client was let in early and sent a later event of this origin: this one goes before those that are left.
        if have is None:
            have = {held.event.id for held in context.stored} | {early.id for early in context.sent_early}
        if event.id not in have and not context.has_read(event.id):
            if _hold_in_order(context, event):
                have.add(event.id)
            else:
                refused.append(event)
    for origin in origins:
        follow(context, late.pop(origin, ()))
    if not late:
        context.late = None
    return refused


def _hold_in_order(context: Context, event: Event) -> bool:
    """Store an older event before the later ones of its origin; False if there is no room for it."""
    if not context.make_room(event):
        return False
    context.insert_in_order(Held(event, "transferred"))
    return True


def take_of(context: Context, origins: frozenset[BrokerId]) -> tuple[Event, ...]:
    """Forget the stored events of these origins, and return them in order."""
    return tuple(take_out(context, lambda event: event.id[0] in origins))
