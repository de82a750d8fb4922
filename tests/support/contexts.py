"""What a broker does with a context, where a test has the context alone."""

from roamq.core.context import Context, Held


def next_to_send(context: Context) -> Held | None:
    """The first stored event that is not in flight; it is counted as in flight from now on."""
    if context.in_flight >= min(len(context.stored), context.window):
        return None
    context.in_flight += 1
    return context.stored[context.in_flight - 1]
