"""What comes late to a context: it goes before what waited for it, once, in order."""

import random

import pytest

from roamq.core.context import Context
from roamq.core.events import BrokerId, Event
from roamq.core.late import admit_late, end_late, hold_back, late_origins, take_of
from roamq.core.local_queue import admit_later, close_local_queue, next_early, open_local_queue
from tests.core.test_context import context
from tests.support.events import event

LATE = BrokerId("late")


def late(sequence: int) -> Event:
    return event(sequence, origin="late")


def ids(ctx: Context) -> list[int]:
    return [held.event.id.sequence for held in ctx.stored if held.event.id.origin == LATE]


@pytest.mark.parametrize("seed", range(40))
def test_all_comes_once_and_in_order_however_it_is_split(seed: int) -> None:
    """Some came to the old broker, some to the new one, some to both; the last ones to the new one alone."""
    rng = random.Random(seed)
    events = [late(number) for number in range(1, 13)]
    marker = rng.randrange(13)
    old = events[: rng.randint(marker, 12)]
    ctx = context()
    open_local_queue(ctx)
    given = rng.randint(0, len(old))
    closes_at = rng.randrange(13)
    hold_back(ctx, [LATE])
    for handed in old[:given]:
        ctx.admit(handed, "transferred")
    for number, direct in enumerate(events):
        if number == closes_at:
            close_local_queue(ctx)
        if (number >= marker or rng.random() < 0.3) and ctx.is_new(direct):
            assert admit_later(ctx, direct) if ctx.local_queue is not None else admit_late(ctx, direct)
    if ctx.local_queue is not None:
        close_local_queue(ctx)
    assert ids(ctx) == [one.id.sequence for one in old[:given]]

    assert end_late(ctx, [LATE], old[given:]) == []

    assert ids(ctx) == list(range(1, 13))
    assert ctx.late is None
    ctx.take_all()
    assert (ctx.bytes, ctx.buffer.bytes) == (0, 0)


def test_other_origins_do_not_wait() -> None:
    ctx = context()
    open_local_queue(ctx)
    admit_later(ctx, event(1))
    admit_later(ctx, late(5))
    hold_back(ctx, [LATE])
    close_local_queue(ctx)

    assert [held.event.id for held in ctx.stored] == [event(1).id]
    assert [one.id for one in ctx.waiting()] == [late(5).id]
    assert late_origins(ctx) == {LATE}


def test_what_was_sent_early_is_not_sent_again_and_older_ones_go_before_what_is_left() -> None:
    ctx = context()
    open_local_queue(ctx)
    ctx.delivers_early = True
    admit_later(ctx, late(3))
    assert next_early(ctx) is not None
    admit_later(ctx, late(4))
    hold_back(ctx, [LATE])
    close_local_queue(ctx)

    end_late(ctx, [LATE], [late(2), late(3)])

    assert ids(ctx) == [2, 4]


def test_what_has_no_room_is_named() -> None:
    ctx = context()
    hold_back(ctx, [LATE])
    ctx.limit_bytes = late(1).cost_bytes

    assert [one.id for one in end_late(ctx, [LATE], [late(1), late(2)])] == [late(2).id]


def test_what_is_owed_is_taken_out_by_origin() -> None:
    ctx = context()
    for one in (late(1), event(1), late(2)):
        ctx.admit(one)

    assert [one.id for one in take_of(ctx, frozenset({LATE}))] == [late(1).id, late(2).id]
    assert [held.event.id for held in ctx.stored] == [event(1).id]


def test_what_is_below_what_was_handed_over_does_not_wait_for_what_comes_late() -> None:
    """The client subscribed at the new broker alone: an event that only matches there lies between the others."""
    ctx = context()
    open_local_queue(ctx)
    for number in (3, 7):
        admit_later(ctx, late(number))
    hold_back(ctx, [LATE])
    for number in (2, 4):
        ctx.admit(late(number), "transferred")

    close_local_queue(ctx)

    assert ids(ctx) == [2, 3, 4]
    end_late(ctx, [LATE], [late(6)])
    assert ids(ctx) == [2, 3, 4, 6, 7]
