"""Events that wait in a context's local queue, because older ones are on their way from another broker.

When all older ones are here, what waited follows them, less what they brought. A client that does not wait for them
gets what is in the local queue before them (early delivery).
"""

from collections import deque
from collections.abc import Iterable

from roamq.core.context import Context, Held
from roamq.core.events import Event, EventId
from roamq.core.reading import advance


def open_local_queue(context: Context) -> None:
    """Older events are on their way from another broker: what comes here meanwhile waits for them."""
    context.local_queue = deque()
    context.delivers_early = context.delivers_head = False


def admit_later(context: Context, event: Event) -> bool:
    """Put `event` into the local queue. False if there is no room for it."""
    assert context.local_queue is not None
    if not context.make_room(event):
        return False
    context.local_queue.append(event)
    return True


def next_early(context: Context) -> Event | None:
    """The next event of the local queue for a client that does not wait for older ones."""
    if not context.delivers_early or not context.local_queue or len(context.sent_early) >= context.window:
        return None
    event = context.local_queue.popleft()
    context.sent_early.append(event)
    return event


def close_local_queue(context: Context) -> None:
    """All older events are here: what waited in the local queue follows them, less what they brought."""
    waiting, context.local_queue = context.local_queue, None
    context.delivers_early = context.delivers_head = False
    if context.sent_early:
        _leave_out_what_was_sent_early(context)
    if context.late is not None:
        waiting = _hold_back_late(context, waiting or ())
    follow(context, waiting or ())


def _hold_back_late(context: Context, waiting: Iterable[Event]) -> deque[Event]:
    """What is of a late origin waits on; returns the rest. What comes late is above all that has come from the other
    broker, so an event below that, which the client has subscribed to here alone, has its place among it."""
    assert context.late is not None
    rest: deque[Event] = deque()
    for event in waiting:
        held_back = context.late.get(event.id[0]) if context.is_new(event) else None
        (rest if held_back is None else held_back).append(event)
    return rest


def follow(context: Context, waiting: Iterable[Event]) -> None:
    """What waited for older events, and is held already, follows them, less what they brought."""
    brought: set[EventId] | None = None
    for event in waiting:
        origin, sequence = event.id
        if context.is_new(event):
            context.reach[origin] = sequence
            context.queue().append(Held(event, "stored"))
            continue
        if brought is None:
            brought = {held.event.id for held in context.stored}
        if event.id in brought or context.has_read(event.id):
            context.release(event)
        else:
            context.insert_in_order(Held(event, "stored"))


def append_local_queue(context: Context) -> None:
    """All that waited in the local queue follows, whether the older events brought it as well or not."""
    for event in context.local_queue or ():
        advance(context.reach, event.id)
        context.queue().append(Held(event, "stored"))
    if context.local_queue is not None:
        context.local_queue.clear()


def _leave_out_what_was_sent_early(context: Context) -> None:
    """What the client is being sent already does not come from the other broker as well."""
    sent = {event.id for event in context.sent_early}
    context.keep(held for held in context.stored if held.event.id not in sent)
    for event_id in sent:
        advance(context.reach, event_id)
