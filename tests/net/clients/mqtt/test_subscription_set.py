"""A few subscriptions are asked one by one, many by an index: nobody can tell."""

from hypothesis import given
from hypothesis import strategies as st

from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.net.clients.mqtt.state import SessionState, Subscription
from roamq.net.clients.mqtt.subscriptions import INDEXED_AT_ONCE, SCANNED_MAX, SubscriptionSet

FILTERS = ["a", "a/b", "a/+", "+/b", "#", "a/#", "b/+/c", "+/+/c", "b/#", "$SYS/#"]
TOPICS = ["a", "a/b", "b/x/c", "c", "$SYS/x", "a/b/c"]


@given(st.lists(st.tuples(st.sampled_from(FILTERS), st.booleans(), st.integers(0, 2)), max_size=30))
def test_routes_do_not_depend_on_how_many_subscriptions_there_are(
    changes: list[tuple[str, bool, int]],
) -> None:
    subscriptions = SubscriptionSet(SessionState(client_id=ClientId("c")))
    for topic_filter, is_wanted, qos in changes:
        if is_wanted:
            subscriptions.add(Subscription(topic_filter, qos))
        else:
            subscriptions.remove(topic_filter)
    wanted = subscriptions.filters
    kept = {name: one.qos for name, one in subscriptions._state.subscriptions.items()}

    for topic in TOPICS:
        event = Event(EventId(BrokerId("b"), 1), topic)
        matching = [name for name, filter in wanted.items() if filter.matches(event)]
        route = subscriptions.route(event)
        assert (route is None) == (not matching)
        if route is not None:
            assert route.qos == max(kept[name] for name in matching)


def test_a_few_subscriptions_need_no_index() -> None:
    subscriptions = SubscriptionSet(SessionState(client_id=ClientId("c")))
    for number in range(SCANNED_MAX):
        subscriptions.add(Subscription(f"a/{number}", 0))
    subscriptions.route(Event(EventId(BrokerId("b"), 1), "a/1"))
    assert subscriptions._index is None
    subscriptions.add(Subscription("b", 0))
    subscriptions.route(Event(EventId(BrokerId("b"), 2), "a/2"))
    assert subscriptions._index is not None and len(subscriptions._index) == SCANNED_MAX + 1


def test_thousands_of_subscriptions_enter_the_index_bit_by_bit() -> None:
    """A client comes back with them: each event finds all that match, whatever is in the index by then."""
    state = SessionState(client_id=ClientId("c"))
    for number in range(3 * INDEXED_AT_ONCE):
        state.subscriptions[f"a/{number}/+"] = Subscription(
            f"a/{number}/+", number % 3, identifier=number + 1
        )
    state.subscriptions["a/#"] = Subscription("a/#", 0, identifier=9999)
    subscriptions = SubscriptionSet(state)
    indexed = []
    for number in (0, 3 * INDEXED_AT_ONCE - 1, INDEXED_AT_ONCE, 2 * INDEXED_AT_ONCE, 5):
        route = subscriptions.route(Event(EventId(BrokerId("b"), 1 + number), f"a/{number}/x"))
        assert route is not None and route.identifiers == (number + 1, 9999)
        indexed.append(0 if subscriptions._index is None else len(subscriptions._index))
        if number == INDEXED_AT_ONCE:
            for gone in (0, 3 * INDEXED_AT_ONCE - 1):
                subscriptions.remove(f"a/{gone}/+")

    assert indexed == [250, 500, 750, 748, 748]
