"""Which events a broker deletes when there is not enough space ([DRIP] section V-A2)."""

from hypothesis import given
from hypothesis import strategies as st

from roamq.manet.protocol.buffer import HeldEvents
from tests.manet.recording import event


def test_the_event_least_related_to_the_subscriptions_goes_first() -> None:
    """[DRIP] section V-A2: they "delete the events that are less related to the existing subscriptions"."""
    buffer = HeldEvents(capacity=2)
    buffer.add(event(1, 1, at=10.0), {1, 2})
    buffer.add(event(1, 2, at=20.0), {1})

    deleted = buffer.add(event(1, 3, at=5.0), {1, 2, 3})

    assert [victim.sequence for victim in deleted] == [2]


def test_among_equally_related_events_the_oldest_goes() -> None:
    """[DRIP] section V-A2: "newly published events always have higher priority to stay"."""
    buffer = HeldEvents(capacity=2)
    buffer.add(event(1, 1, at=20.0), {1})
    buffer.add(event(1, 2, at=10.0), {2})

    deleted = buffer.add(event(1, 3, at=15.0), {3})

    assert [victim.sequence for victim in deleted] == [2]


def test_what_was_deleted_is_not_taken_again() -> None:
    buffer = HeldEvents(capacity=1)
    buffer.add(event(1, 1, at=10.0), set())
    buffer.add(event(1, 2, at=20.0), set())

    assert buffer.get(event(1, 1).id) is None
    assert buffer.met(event(1, 1).id)


def test_a_newcomer_finds_what_it_wants_among_the_stored() -> None:
    buffer = HeldEvents(capacity=5)
    stored = [event(value, value) for value in (1, 2, 3)]
    for one in stored:
        buffer.add(one, set())

    buffer.add_subscriber(7, [stored[0], stored[2]])
    assert buffer.wanted_by(7) == [stored[0], stored[2]]

    buffer.add_subscriber(7, [stored[1]])  # new conditions replace the old ones
    assert buffer.wanted_by(7) == [stored[1]]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 100)), min_size=1, max_size=30), st.integers(1, 8)
)
def test_the_buffer_agrees_with_sorting_everything(arrivals: list[tuple[int, int]], capacity: int) -> None:
    buffer = HeldEvents(capacity)
    kept: list[tuple[int, float, int]] = []
    for sequence, (related, published_at) in enumerate(arrivals):
        buffer.add(event(1, sequence, at=float(published_at)), set(range(related)))
        kept = sorted([*kept, (related, float(published_at), sequence)])[-capacity:]

    assert sorted(stored.id.sequence for stored in buffer.events()) == sorted(entry[2] for entry in kept)
    assert all(len(buffer.wanted_by(node)) <= capacity for node in range(4))
