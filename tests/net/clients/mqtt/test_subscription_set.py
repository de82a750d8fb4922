"""A few subscriptions are asked one by one, many by an index: nobody can tell."""

from hypothesis import given
from hypothesis import strategies as st

from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.net.clients.mqtt.state import SessionState, Subscription
from roamq.net.clients.mqtt.subscriptions import SCANNED_MAX, SubscriptionSet

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
    assert subscriptions._index is None
    subscriptions.add(Subscription("b", 0))
    assert subscriptions._index is not None and len(subscriptions._index) == SCANNED_MAX + 1
