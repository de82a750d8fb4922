"""Retained messages: found by an index, replayed in slices, and no publisher fills the table for all."""

import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.net.clients.mqtt.codec import Connect, Subscribe, SubscriptionRequest, Unsubscribe, Version, encode
from roamq.net.machine import Machine
from roamq.net.topics.replays import REPLAY_TIMER, SLICE_STEPS, SPARE_SEARCHES
from roamq.net.topics.retained import THE_BROKER, RetainedMessages
from tests.net.fleet import Fleet
from tests.support.live_world import settings

LEVELS = st.sampled_from(["", "a", "b", "$SYS"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = (
    st.tuples(st.lists(LEVELS | st.just("+"), max_size=4), st.booleans())
    .map(lambda parts: "/".join([*parts[0], *(["#"] if parts[1] else [])]))
    .filter(bool)
)


def retained(
    topic: str,
    sequence: int = 1,
    *,
    publisher: str = "p",
    payload: bytes = b"x",
    expires_at: float | None = None,
) -> Event:
    return Event(
        id=EventId(BrokerId("b1"), sequence),
        topic=topic,
        payload=payload,
        published_at=float(sequence),
        publisher=ClientId(publisher),
        retain=True,
        expires_at=expires_at,
    )


@given(st.lists(TOPICS, max_size=12), FILTERS)
def test_the_index_finds_what_a_scan_finds(topics: list[str], text: str) -> None:
    table = RetainedMessages(100, 10_000)
    for sequence, topic in enumerate(topics, 1):
        table.observe(retained(topic, sequence))
    wanted = Filter(text)
    kept = {topic: retained(topic, sequence) for sequence, topic in enumerate(topics, 1)}

    found = sorted(event.id.sequence for event in table.matching(wanted, 0.0))

    assert found == sorted(event.id.sequence for event in kept.values() if wanted.matches(event))


@given(st.lists(st.tuples(TOPICS, st.booleans(), st.integers(1, 30)), max_size=30))
def test_counts_stay_true_whatever_is_kept_cleared_and_expired(steps: list[tuple[str, bool, int]]) -> None:
    table = RetainedMessages(100, 10_000)
    kept: dict[str, Event] = {}
    for sequence, (topic, clears, life) in enumerate(steps, 1):
        event = retained(topic, sequence, payload=b"" if clears else b"x" * life, expires_at=sequence + life)
        table.observe(event)
        kept = {name: one for name, one in kept.items() if not one.expired(float(sequence))}
        kept.pop(topic, None)
        if not clears:
            kept[topic] = event

    assert len(table) == len(kept), "expired ones are gone, though nobody has looked for them"
    assert table.bytes == sum(event.size_bytes for event in kept.values())
    assert {event.topic for event in table.matching(Filter("#"), 0.0)} == {
        topic for topic in kept if topic[0] != "$"
    }


def test_one_publisher_cannot_fill_the_table_for_all() -> None:
    table = RetainedMessages(100, 10_000, count_per_client_max=10, bytes_per_client_max=50)
    for number in range(1, 51):
        table.observe(retained(f"flood/{number}", number, publisher="mallory"))
    table.observe(retained("big", 60, publisher="other", payload=b"x" * 100))

    table.observe(retained("news", 61, publisher="honest"))

    assert [event.topic for event in table.matching(Filter("news"), 0.0)] == ["news"]
    assert len(table) <= 11
    assert table.refused >= 40


def test_a_message_that_is_replaced_for_ever_leaves_nothing_behind() -> None:
    table = RetainedMessages(100, 10_000)
    for number in range(1, 3001):
        # Each expires before the one that it replaces, or after it.
        table.observe(retained("news", number, expires_at=1e6 - number * (-1) ** number))
        table.observe(retained(f"once/{number}", number, expires_at=1e6))
        table.observe(retained(f"once/{number}", number + 1, payload=b""))

    assert len(table) == 1
    assert table._expiries is not None and len(table._expiries) == 1


def test_the_topics_that_were_cleared_first_are_forgotten_first() -> None:
    table = RetainedMessages(1000, 64_000)
    for number in range(2, 1002):
        table.observe(retained(f"{number}/{'x' * 60}", number, payload=b""))

    table.observe(retained("2/" + "x" * 60, 1))
    table.observe(retained("1001/" + "x" * 60, 1))

    assert [event.topic[:2] for event in table.events()] == ["2/"], "the other was cleared by a later event"
    assert len(table._cleared) == len(table._clearings) < 20


def test_many_that_expire_together_do_not_hold_up_the_next() -> None:
    table = RetainedMessages(10_000, 1_000_000)
    for number in range(1, 1001):
        table.observe(retained(f"a/{number}", number, expires_at=5000.0))

    table.observe(retained("b", 5000))
    assert len(table) > 900
    for number in range(20):
        table.observe(retained("b", 5001 + number))

    assert [event.topic for event in table.events()] == ["b"]


def machine_with(topics: int) -> Machine:
    machine = Machine(settings("b1", 1, "standard"), 1000.0)
    for number in range(topics):
        machine.retained.observe(
            retained(f"a/{number % 100}/{number}", number + 1, publisher=f"p{number % 50}")
        )
    return machine


def connect(machine: Machine, number: int, name: str) -> None:
    machine.opened(number, 1000.0, "test", "client")
    machine.received(number, encode(Connect(client_id=name), Version.V5), 1000.0)
    machine.authenticated(number, None, 1000.0, allowed=True)


@pytest.mark.slow
def test_a_subscription_to_everything_is_served_in_slices() -> None:
    """No input may hold the loop: the attack is 100 filters that match every one of 20,000 retained messages."""
    machine = machine_with(20_000)
    connect(machine, 1, "greedy")
    filters = ["#", *(f"a/+/{'+/' * n}#" for n in range(30)), *(f"a/{n}/#" for n in range(69))]
    requests = tuple(SubscriptionRequest(text, 0) for text in filters)
    replayed: list[int] = []
    hand = machine.broker.contexts.hand

    def counted(client: ClientId, event: Event) -> None:
        replayed[-1] += 1
        hand(client, event)

    machine.broker.contexts.hand = counted  # type: ignore[method-assign]
    replayed.append(0)
    machine.received(1, encode(Subscribe(1, requests), Version.V5), 1000.0)
    slices = 0
    while machine.out.timers.pop((REPLAY_TIMER, "greedy"), None) is not None:
        slices += 1
        replayed.append(0)
        machine.timer((REPLAY_TIMER, "greedy"), 1000.0)

    assert max(replayed) <= SLICE_STEPS
    # "#" and "a/+/#" match all of them, "a/+/+/#" too, and each of the last 69 filters 200.
    assert sum(replayed) == 3 * 20_000 + 69 * 200
    assert slices > 100


def test_a_search_goes_on_after_it_was_stored_and_leaves_out_what_came_later() -> None:
    table = RetainedMessages(10_000, 1_000_000)
    for number in range(1, 1001):
        table.observe(retained(f"a/{number}", number))
    search = table.search(Filter("a/#"))
    first, _ = search.go_on(0.0, 100)

    table.observe(retained("a/later", 2000))
    table, search = pickle.loads(pickle.dumps((table, search)))  # noqa: S301 - our own
    table.observe(retained("a/7", 2001))
    rest = []
    while not search.is_over:
        rest += search.go_on(0.0, 100)[0]

    topics = [event.topic for event in first + rest]
    assert len(topics) == len(set(topics))
    assert "a/later" not in topics, "it went to the subscriber when it came"
    assert len(topics) in (999, 1000)


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_every_retained_message_reaches_a_new_subscriber_once(scheme: str) -> None:
    fleet = Fleet(1, scheme)
    publisher, reader = fleet.client("publisher"), fleet.client("reader")
    publisher.connect("b1")
    fleet.settle()
    topics = [f"t/{number}" for number in range(600)]
    Random(1).shuffle(topics)
    for topic in topics:
        publisher.publish(topic, topic.encode(), 0, retain=True)
    fleet.settle()

    reader.connect("b2")
    reader.subscribe("t/#", 1)
    fleet.settle()

    assert sorted(reader.payloads()) == sorted(topic.encode() for topic in topics)


def test_the_brokers_figures_neither_wait_for_room_nor_take_that_of_clients() -> None:
    table = RetainedMessages(3, 10_000)
    for sequence in range(1, 6):
        table.observe(retained(f"$SYS/broker/{sequence}", sequence))
    for sequence in range(6, 11):
        table.observe(retained(f"client/{sequence}", sequence))
    assert len(list(table.matching(Filter("client/+"), 0.0))) == 3
    assert table.refused == 2
    for sequence in range(11, 16):
        table.observe(retained(f"$SYS/broker/{sequence - 10}", sequence, payload=b"later"))
    table.observe(retained("$SYS/broker/new", 16))

    figures = {event.topic: event.payload for event in table.matching(Filter("$SYS/#"), 0.0)}
    assert figures == {
        **{f"$SYS/broker/{number}": b"later" for number in range(1, 6)},
        "$SYS/broker/new": b"x",
    }
    table.observe(retained("client/6", 17, payload=b""))
    table.observe(retained("client/other", 18))
    assert table.refused == 2, "the place that was cleared is free, whatever the broker has told since"


def test_a_table_that_was_read_from_a_disk_counts_anew() -> None:
    """An earlier release counted the broker's figures among those of clients that are not known."""
    table = RetainedMessages(3, 10_000, count_per_client_max=3)
    for sequence in range(1, 4):
        table.observe(retained(f"$SYS/broker/{sequence}", sequence))
    for counted in (table._counts, table._sizes):
        counted[None] = counted.pop(THE_BROKER)
    table._expiries = None
    for sequence in range(4, 7):
        table.observe(retained(f"client/{sequence}", sequence))

    assert (len(table), table.refused) == (6, 0)
    assert table._counts == {THE_BROKER: 3, "p": 3}


def test_who_subscribes_again_and_again_does_not_pile_up_searches() -> None:
    """A SUBSCRIBE of 256 times "#" takes a kilobyte, and each search waited for all before it."""
    machine = machine_with(2_000)
    connect(machine, 1, "greedy")
    for number in range(20):
        again = tuple(SubscriptionRequest(text, 0) for text in ["#", "a/#"] * 100)
        machine.received(1, encode(Subscribe(1, again), Version.V5), 1000.0)
        other = tuple(SubscriptionRequest(f"a/{number}/{place}", 0) for place in range(100))
        machine.received(1, encode(Subscribe(2, other), Version.V5), 1000.0)
        left = tuple(request.topic_filter for request in other)
        machine.received(1, encode(Unsubscribe(3, left), Version.V5), 1000.0)
        machine.take_outputs()
    last = (SubscriptionRequest("a/7/7", 0), SubscriptionRequest("#", 0))
    machine.received(1, encode(Subscribe(4, last), Version.V5), 1000.0)

    searches = machine.replays._waiting[ClientId("greedy")]
    assert len(searches) <= SPARE_SEARCHES + 2 * 102
    assert {"#", "a/#", "a/7/7"} <= {search.filter.topic for search in searches}
