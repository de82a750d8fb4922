"""Makes a context forget events that the client has read, as other brokers say, so that it does not admit them again.

Each of those brokers sends a position, and what was read ahead of it. A broker that serves the client itself knows
better than others, so nothing is in flight in these contexts, but for events handed over to the broker that sends this.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from roamq.core.context import Context
from roamq.core.events import BrokerId, Event, EventId
from roamq.core.reading import AheadRows, Position, above, advance, joined


def consume_through(context: Context, position: Position, ahead: Iterable[EventId] = ()) -> None:
    """The client consumed, elsewhere, events that were handed over from here: up to `position`, and `ahead` of it."""
    gone = set(ahead)
    while context.in_flight and context.stored[0][0].id[1] <= position.get(context.stored[0][0].id[0], 0):
        context.consume_first()
    if gone:
        context.acknowledge_ahead(gone)


def skip_to(context: Context, position: Position, ahead: AheadRows = ()) -> None:
    """Another broker says how far the client has read: forget stored events it has consumed.

    The position does not advance over events that were read `ahead`: unread events before them may be yet to come.
    """
    if not position and not ahead:
        return
    for read in position.items():
        advance(context.position, read)
        advance(context.reach, read)
    if ahead:
        context.ahead = joined((*context.ahead_rows, *ahead))
    if context.ahead:
        context.ahead = above(context.ahead, context.position)
    if any(context.has_read(held.event.id) for held in context.stored):
        assert not context.in_flight, "a served context does not learn its position from others"
        context.keep([held for held in context.stored if not context.has_read(held.event.id)])


def keep_unread(context: Context, reach: Mapping[BrokerId, int], held: Iterable[EventId]) -> None:
    """The client has consumed, elsewhere, all events up to `reach` but those `held`: forget the others."""
    unread = set(held)

    def is_wanted(event: Event) -> bool:
        return event.id in unread or event.id[1] > reach.get(event.id[0], 0)

    assert not context.in_flight, "a served context does not learn from others what was read"
    context.keep(entry for entry in context.stored if is_wanted(entry.event))
    for event in context.local_queue or ():
        if not is_wanted(event):
            context.release(event)
    if context.local_queue is not None:
        context.local_queue = deque(event for event in context.local_queue if is_wanted(event))
    for read in reach.items():
        advance(context.reach, read)


def start_over(context: Context, position: Position, ahead: AheadRows = ()) -> None:
    """Forget what is stored; the client has read up to `position`, and `ahead` of it."""
    context.take_all()
    context.local_queue = None
    context.position = position
    context.ahead = joined(ahead)
    context.reach = dict(position)
