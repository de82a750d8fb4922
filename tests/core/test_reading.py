"""What was read ahead of the position: ranges that say it of every event, and no more of them than stored events."""

from hypothesis import given
from hypothesis import strategies as st

from roamq.core.buffers import EventBuffer
from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId
from roamq.core.local_queue import admit_later, close_local_queue, open_local_queue
from roamq.core.read_elsewhere import skip_to
from roamq.core.reading import NOTHING_AHEAD, above, is_ahead, joined, rows_of, settle
from tests.support.contexts import next_to_send
from tests.support.events import event

ORIGIN = BrokerId("o")


def a_context() -> Context:
    epoch = Epoch(0.0, BrokerId("b"))
    return Context(ClientId("c"), epoch=epoch, mode=Mode.ACTIVE, buffer=EventBuffer())


def test_ranges_that_overlap_are_united() -> None:
    rows = [(ORIGIN, 4, 6), (ORIGIN, 1, 2), (ORIGIN, 5, 9), (ORIGIN, 11, 11)]

    assert joined(rows) == {ORIGIN: ((1, 2), (4, 9), (11, 11))}
    assert joined([]) is NOTHING_AHEAD


def test_ranges_with_nothing_unread_between_them_are_one() -> None:
    position = {ORIGIN: 1}

    ahead = settle(position, ((ORIGIN, 3, 3), (ORIGIN, 6, 6), (ORIGIN, 9, 9)), [event(2).id, event(7).id])

    assert ahead == {ORIGIN: ((3, 6), (9, 9))}
    assert position == {ORIGIN: 1}


def test_the_position_takes_what_nothing_unread_is_before() -> None:
    position = {ORIGIN: 1}

    assert settle(position, ((ORIGIN, 3, 3), (ORIGIN, 6, 6)), [event(4).id]) == {ORIGIN: ((6, 6),)}
    assert position == {ORIGIN: 3}


def test_what_the_position_has_passed_is_forgotten() -> None:
    ahead = joined([(ORIGIN, 3, 5), (ORIGIN, 8, 8)])

    assert above(ahead, {ORIGIN: 4}) == ahead
    assert above(ahead, {ORIGIN: 5}) == {ORIGIN: ((8, 8),)}
    assert above(ahead, {ORIGIN: 8}) is NOTHING_AHEAD


@given(st.data())
def test_a_client_reads_every_event_once_whatever_it_acknowledges_and_wherever_it_goes(
    data: st.DataObject,
) -> None:
    """Brokers get the events at times of their own; the client acknowledges any of what it was sent, and moves."""
    last = 12
    read: list[int] = []
    here, come = a_context(), 0
    for _ in range(data.draw(st.integers(1, 6))):
        for sequence in range(come + 1, data.draw(st.integers(come, last)) + 1):
            come = sequence
            if here.is_new(event(sequence)):
                here.admit(event(sequence))
        while next_to_send(here) is not None:
            pass
        sent = [held.event.id for held in here.stored]
        for acknowledged in data.draw(st.permutations(sent)) if data.draw(st.booleans()) else ():
            if data.draw(st.booleans()):
                assert here.acknowledge(acknowledged)
                read.append(acknowledged.sequence)
        here.return_in_flight()
        assert sum(map(len, here.ahead.values())) <= len(here.stored)
        for sequence in range(1, come + 1):
            assert here.has_read(event(sequence).id) == (sequence in read)
        moved = a_context()
        open_local_queue(moved)
        seen_there = data.draw(st.integers(0, last))
        begun = data.draw(
            st.integers(0, min(come, seen_there))
        )  # a fence: the old broker has what came before
        for sequence in range(begun + 1, seen_there + 1):
            admit_later(moved, event(sequence))
        skip_to(moved, dict(here.position), rows_of(here.ahead))
        for waiting in here.events():
            if moved.is_new(waiting):
                moved.admit(waiting)
        close_local_queue(moved)
        here, come = moved, seen_there
        assert not any(is_ahead(here.ahead, held.event.id) for held in here.stored)
    for sequence in range(come + 1, last + 1):
        if here.is_new(event(sequence)):
            here.admit(event(sequence))
    while (held := next_to_send(here)) is not None:
        read.append(held.event.id.sequence)
    assert sorted(read) == list(range(1, last + 1))
