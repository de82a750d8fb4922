"""Contexts: the read position, what is stored, and one copy for all."""

from hypothesis import given
from hypothesis import strategies as st

from roamq.core.buffers import EventBuffer
from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.forgetting import drop_expired
from roamq.core.local_queue import admit_later, close_local_queue, next_early, open_local_queue
from roamq.core.read_elsewhere import skip_to
from tests.support.contexts import next_to_send
from tests.support.events import event

ME = BrokerId("b")


def context(buffer: EventBuffer | None = None, name: str = "c") -> Context:
    buffer = EventBuffer() if buffer is None else buffer
    return Context(ClientId(name), epoch=Epoch(0.0, ME), mode=Mode.ACTIVE, buffer=buffer)


def send_all(ctx: Context) -> list[EventId]:
    sent = []
    while (held := next_to_send(ctx)) is not None:
        sent.append(held.event.id)
    return sent


def test_an_event_at_or_below_the_reach_is_not_new() -> None:
    ctx = context()
    ctx.admit(event(3))

    assert [ctx.is_new(event(s)) for s in (2, 3, 4)] == [False, False, True]
    assert ctx.is_new(event(1, origin="other"))


def test_the_position_advances_in_the_order_of_delivery_only() -> None:
    ctx = context()
    for sequence in (1, 2, 3):
        ctx.admit(event(sequence))
    send_all(ctx)

    ctx.acknowledge(event(2).id)
    assert ctx.position == {}

    ctx.acknowledge(event(1).id)
    assert ctx.position == {"o": 2}
    assert [e.id.sequence for e in ctx.events()] == [3]


def test_an_acknowledgement_of_something_not_in_flight_changes_nothing() -> None:
    ctx = context()
    ctx.admit(event(1))

    assert not ctx.acknowledge(event(1).id)
    send_all(ctx)
    assert not ctx.acknowledge(event(9).id)
    assert len(ctx.stored) == 1


def test_what_was_not_acknowledged_is_sent_again_in_order() -> None:
    ctx = context()
    for sequence in (1, 2, 3):
        ctx.admit(event(sequence))
    send_all(ctx)
    ctx.acknowledge(event(2).id)  # out of order: the client has it, the position does not say so

    ctx.return_in_flight()

    assert [e.sequence for e in send_all(ctx)] == [1, 3]


def test_what_was_acknowledged_out_of_order_counts_as_read_unless_something_earlier_of_its_origin_waits() -> (
    None
):
    """At a broker that gets it later than the client did, it would be taken for new, and come twice."""
    ctx = context()
    for made in (event(1, origin="a"), event(1, origin="b"), event(2, origin="a"), event(2, origin="b")):
        ctx.admit(made)
    send_all(ctx)
    for made in (event(1, origin="b"), event(2, origin="a")):
        ctx.acknowledge(made.id)

    ctx.return_in_flight()

    assert ctx.position == {"b": 1}
    assert ctx.ahead == {"a": ((2, 2),)}
    assert not ctx.is_new(event(2, origin="a")) and ctx.is_new(event(3, origin="a"))
    assert [e.id for e in ctx.events()] == [event(1, origin="a").id, event(2, origin="b").id]


def test_what_was_read_ahead_is_not_new_where_it_comes_late() -> None:
    """It waits in the local queue, comes after that was closed, or not at all; the position passes it in the end."""
    ctx = context()
    open_local_queue(ctx)
    admit_later(ctx, event(2))
    skip_to(ctx, {}, ((BrokerId("o"), 2, 3),))
    ctx.admit(event(1))
    close_local_queue(ctx)

    assert [e.id.sequence for e in ctx.events()] == [1]
    assert ctx.bytes == event(1).cost_bytes
    assert [ctx.is_new(event(sequence)) for sequence in (2, 3, 4)] == [False, False, True]
    ctx.admit(event(4))
    assert ctx.ahead_rows == (("o", 2, 3),)
    for sent in send_all(ctx):
        ctx.acknowledge(sent)
    assert ctx.position == {"o": 4}
    assert ctx.ahead == {}


def test_the_window_bounds_what_is_in_flight() -> None:
    ctx = context()
    ctx.window = 2
    for sequence in (1, 2, 3):
        ctx.admit(event(sequence))

    assert [e.sequence for e in send_all(ctx)] == [1, 2]
    ctx.acknowledge(event(1).id)
    assert [e.sequence for e in send_all(ctx)] == [3]


def test_one_copy_serves_every_context_and_goes_with_the_last() -> None:
    buffer = EventBuffer()
    first, second = context(buffer, "c1"), context(buffer, "c2")
    shared = event(1, payload=bytes(100))

    first.admit(shared)
    second.admit(shared)
    assert (len(buffer), buffer.bytes) == (1, shared.size_bytes)

    first.take_all()
    assert len(buffer) == 1
    second.take_all()
    assert (len(buffer), buffer.bytes, buffer.peak_bytes) == (0, 0, shared.size_bytes)


def test_a_full_buffer_refuses_the_new_event_and_still_takes_one_it_has() -> None:
    first_event = event(1, payload=bytes(80))
    buffer = EventBuffer(limit_bytes=first_event.size_bytes + 10)
    first, second = context(buffer, "c1"), context(buffer, "c2")

    assert first.admit(first_event)
    assert not first.admit(event(2, payload=bytes(80)))
    assert second.admit(first_event)
    assert first.reach == {"o": 1}, "a refused event does not count as seen"


def test_the_local_queue_follows_what_is_transferred_less_what_that_brought() -> None:
    buffer = EventBuffer()
    ctx = context(buffer)
    open_local_queue(ctx)
    for sequence in (3, 4, 5):
        admit_later(ctx, event(sequence))
    for sequence in (1, 2, 3):
        ctx.admit(event(sequence), "transferred")

    close_local_queue(ctx)

    held = [(h.event.id.sequence, h.how) for h in ctx.stored]
    assert held == [(1, "transferred"), (2, "transferred"), (3, "transferred"), (4, "stored"), (5, "stored")]
    assert len(buffer) == 5


def delivering_early(*sequences: int) -> Context:
    """A context whose older events are still on their way, and whose client is handed the newer ones."""
    ctx = context()
    open_local_queue(ctx)
    ctx.delivers_early = True
    for sequence in sequences:
        admit_later(ctx, event(sequence))
    return ctx


def test_a_client_that_does_not_wait_gets_newer_events_first_and_the_position_stays() -> None:
    ctx = delivering_early(5, 6)

    assert [e.id.sequence for e in (next_early(ctx), next_early(ctx)) if e] == [5, 6]
    assert next_early(ctx) is None
    assert ctx.acknowledge(event(6).id)
    assert ctx.position == {}, "older ones have not been read"


def test_what_was_sent_early_is_not_sent_again_with_the_older_events() -> None:
    ctx = delivering_early(5, 6)
    next_early(ctx)

    for sequence in (3, 4, 5):  # what the other broker had stored meanwhile
        ctx.admit(event(sequence), "transferred")
    close_local_queue(ctx)

    assert [e.id.sequence for e in ctx.events()] == [3, 4, 6]
    assert ctx.acknowledge(event(5).id)
    assert not ctx.sent_early


def test_what_is_in_flight_is_not_pushed_from_its_place_and_sent_again() -> None:
    """A copy that serves while it is not whole: the other broker had no room for 4, and forwarded 5."""
    ctx = context()
    open_local_queue(ctx)
    for sequence in (4, 5):
        admit_later(ctx, event(sequence))
    ctx.admit(event(5), "transferred")
    sent = send_all(ctx)

    close_local_queue(ctx)
    sent += send_all(ctx)

    assert [event_id.sequence for event_id in sent] == [5, 4]
    for event_id in sent:
        assert ctx.acknowledge(event_id)
    assert ctx.position == {"o": 5}


def test_what_was_sent_early_and_not_acknowledged_returns_to_its_place() -> None:
    waiting, whole = delivering_early(5, 6), delivering_early(5, 6)
    next_early(waiting)
    next_early(whole)
    whole.admit(event(4), "transferred")
    close_local_queue(whole)

    waiting.return_in_flight()
    whole.return_in_flight()

    assert [e.id.sequence for e in waiting.local_queue or ()] == [5, 6]
    assert [e.id.sequence for e in whole.events()] == [4, 5, 6]


def test_learning_a_position_forgets_what_was_consumed_elsewhere() -> None:
    buffer = EventBuffer()
    ctx = context(buffer)
    for sequence in (1, 2, 3):
        ctx.admit(event(sequence))
    ctx.admit(event(1, origin="other"))

    skip_to(ctx, {BrokerId("o"): 2})

    assert [e.id for e in ctx.events()] == [("o", 3), ("other", 1)]
    assert len(buffer) == 2


def test_expired_events_leave_but_not_those_in_flight() -> None:
    ctx = context()
    for sequence, expiry in ((1, 5.0), (2, 5.0), (3, None)):
        ctx.admit(Event(id=EventId(BrokerId("o"), sequence), topic="t", expires_at=expiry))
    ctx.window = 1
    next_to_send(ctx)

    gone = drop_expired(ctx, 5.0, lambda event: False)

    assert [e.id.sequence for e in gone] == [2]
    assert [e.id.sequence for e in ctx.events()] == [1, 3]


operations = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.sampled_from("ab")),
        st.tuples(st.just("send"), st.just("")),
        st.tuples(st.just("ack"), st.integers(0, 5)),
        st.tuples(st.just("break"), st.just("")),
    ),
    max_size=60,
)


@given(operations)
def test_the_position_is_monotone_and_everything_is_consumed_exactly_once(
    steps: list[tuple[str, object]],
) -> None:
    """The invariant of docs/decisions/0002, under any order of acknowledgements and breaks."""
    buffer = EventBuffer()
    ctx = context(buffer)
    counters = {"a": 0, "b": 0}
    admitted: list[EventId] = []
    acknowledged: list[EventId] = []
    in_flight: list[EventId] = []
    for action, argument in steps:
        before = dict(ctx.position)
        if action == "admit":
            counters[str(argument)] += 1
            new = event(counters[str(argument)], origin=str(argument))
            assert ctx.is_new(new)
            ctx.admit(new)
            admitted.append(new.id)
        elif action == "send":
            in_flight += send_all(ctx)
        elif action == "ack" and in_flight:
            assert isinstance(argument, int)
            chosen = in_flight.pop(argument % len(in_flight))
            assert ctx.acknowledge(chosen)
            acknowledged.append(chosen)
        elif action == "break":
            ctx.return_in_flight()
            in_flight = []
        assert all(ctx.position.get(o, 0) >= s for o, s in before.items()), "the position went back"
    ctx.return_in_flight()
    rest = send_all(ctx)
    assert sorted(acknowledged + rest) == sorted(admitted)
    assert rest == [e for e in admitted if e in set(rest)], "order of admission"
    assert len(buffer) == len(rest)


def test_contexts_share_an_empty_queue_until_they_store_something() -> None:
    first, second = (
        Context(ClientId(name), epoch=Epoch(0.0, BrokerId("b")), mode=Mode.ACTIVE, buffer=EventBuffer())
        for name in "ab"
    )
    assert first.stored is second.stored
    said = Event(id=EventId(BrokerId("b"), 1), topic="t")
    assert first.admit(said)
    assert len(first.stored) == 1 and not second.stored
    open_local_queue(second)
    assert admit_later(second, said)
    close_local_queue(second)
    assert len(second.stored) == 1 and first.stored is not second.stored
