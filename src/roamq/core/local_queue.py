"""Events that wait in a context's local queue, because older ones are on their way from another broker.

When all older ones are here, the events that waited follow them, less those that came among the older ones as well. A
client that does not wait for older events gets those in the local queue before them (early delivery).
"""

from collections import deque
from collections.abc import Iterable

from roamq.core.context import Context, Held
from roamq.core.events import Event, EventId
from roamq.core.reading import advance


def open_local_queue(context: Context) -> None:
    """Let events that come here from now on wait for older ones, which are on their way from another broker."""
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
    """All older events are here: those in the local queue follow, less those that came among the older ones as well."""
    waiting, context.local_queue = context.local_queue, None
    context.delivers_early = context.delivers_head = False
    if context.sent_early:
        _leave_out_what_was_sent_early(context)
    if context.late is not None:
        waiting = _hold_back_late(context, waiting or ())
    follow(context, waiting or ())


def _hold_back_late(context: Context, waiting: Iterable[Event]) -> deque[Event]:
    """Let events of late origins wait on, and return the others. Late events have higher numbers than all that came
    from the other broker. So an event with a lower one, which the client subscribed to here alone, need not wait."""
    assert context.late is not None
    rest: deque[Event] = deque()
    for event in waiting:
        held_back = context.late.get(event.id[0]) if context.is_new(event) else None
        (rest if held_back is None else held_back).append(event)
    return rest


def follow(context: Context, waiting: Iterable[Event]) -> None:
    """Store events that waited for older ones, and that the buffer holds already, less those that came among these."""
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
    """Store all events that waited in the local queue, whether they came among the older ones as well or not."""
    for event in context.local_queue or ():
        advance(context.reach, event.id)
        context.queue().append(Held(event, "stored"))
    if context.local_queue is not None:
        context.local_queue.clear()


def _leave_out_what_was_sent_early(context: Context) -> None:
    """Release stored events from the other broker that the client has been sent early already."""
    sent = {event.id for event in context.sent_early}
    context.keep(held for held in context.stored if held.event.id not in sent)
    for event_id in sent:
        advance(context.reach, event_id)
