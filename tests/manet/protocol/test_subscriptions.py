"""What a broker knows of subscribers ends: when they take it back, or fall silent."""

from roamq.core.filters import Filter
from roamq.manet.protocol.messages import EventPublication, Greeting, Interest, NeighborHello, Register
from roamq.manet.protocol.subscriptions import News, SubscriptionTable
from tests.manet.protocol.test_broker import broker_at, floods, host, receive, with_bridge
from tests.manet.recording import WANTED, event, host_of, node

TTL_S = 120.0
OTHER = Filter.parse("number", "value BETWEEN 50 AND 60")


def interest(sequence: int, at: float, *filters: Filter) -> Interest:
    return Interest(30, sequence, filters, (0, 1), at)


def test_a_silent_subscriber_is_forgotten_and_nobody_brings_it_back() -> None:
    table = SubscriptionTable(TTL_S)
    silent = interest(1, 0.0, WANTED)
    assert table.learn(silent, 0.0) is News.CONDITIONS
    assert table.forget_silent(TTL_S) == []

    assert table.forget_silent(TTL_S + 1) == [30]

    assert table.interested(event(15)) == []
    assert table.learn(silent, TTL_S + 1, source=7) is News.NOTHING, "a broker that forgets later tells it"
    assert len(table) == 0


def test_a_subscriber_that_registers_again_is_kept() -> None:
    table = SubscriptionTable(TTL_S)
    table.learn(interest(1, 0.0, WANTED), 0.0)
    table.learn(interest(2, 100.0, WANTED), 100.0)

    assert table.forget_silent(TTL_S + 1) == []
    assert [known.sequence for known in table.interested(event(15))] == [2]


def test_what_is_taken_back_is_news_to_other_brokers() -> None:
    table = SubscriptionTable(TTL_S)
    table.learn(interest(1, 0.0, WANTED), 0.0)
    before = table.revision

    assert table.learn(interest(2, 1.0), 1.0) is News.CONDITIONS

    assert table.interested(event(15)) == []
    assert [known.filters for known in table.news_for(7, before)] == [()]
    assert table.learn(interest(1, 0.0, WANTED), 2.0, source=7) is News.NOTHING, "the older word came later"


def test_a_broker_stops_notifying_a_member_that_unsubscribed() -> None:
    broker = broker_at()
    receive(broker, Register(interest(1, 100.0, WANTED), frozenset()))
    receive(broker, Register(interest(2, 100.0), frozenset()))

    receive(broker, EventPublication(event(15)))

    assert floods(broker) == []
    assert 30 not in broker.members


def test_a_broker_tells_the_next_one_that_a_subscriber_unsubscribed() -> None:
    broker = broker_at()
    receive(broker, Register(interest(1, 100.0, WANTED), frozenset()))
    receive(broker, Register(interest(2, 100.0), frozenset()))

    with_bridge(broker)

    greeting = host(broker).sent()[-1][2]
    assert isinstance(greeting, Greeting)
    assert [(told.subscriber, told.filters) for told in greeting.interests] == [(30, ())]


def test_a_broker_forgets_silent_subscribers_when_it_beacons() -> None:
    broker = broker_at()
    broker.table.learn(interest(1, 100.0, WANTED), 100.0)
    receive(broker, EventPublication(event(15)))
    host(broker).time = 100.0 + TTL_S + 1

    broker.on_timer(("beacon", broker.region))

    assert len(broker.table) == 0
    assert broker.buffer.wanted_by(30) == []


def test_a_node_tells_its_broker_at_once_what_it_wants_now() -> None:
    subject = node(filters=(WANTED,))
    subject.local_broker, subject.region = 1, "1.1"
    subject.neighbors[1] = (NeighborHello(1, {1: 0.001}), 100.0)
    host_of(subject).forget()

    subject.subscribe(OTHER)
    subject.subscribe()

    said = [body.interest.filters for _, _, body in host_of(subject).sent() if isinstance(body, Register)]
    assert said == [(OTHER,), ()]
