"""A broker's duties, with the node's packets recorded ([DRIP] section V)."""

from collections.abc import Callable

from roamq.core.events import Event
from roamq.core.records import Record
from roamq.manet.protocol.broker import MobileBroker
from roamq.manet.protocol.messages import (
    Alive,
    BridgeStatus,
    BrokerCandidate,
    EventCopies,
    EventPublication,
    Greeting,
    Interest,
    Introduction,
    IntroductionReply,
    NeighborHello,
    NodeId,
    Notification,
    Packet,
    Quit,
    Receipt,
    Register,
    Reply,
    Role,
)
from roamq.manet.protocol.messages import Body as MessageBody
from roamq.manet.protocol.predictability import ProphetConstants
from roamq.manet.protocol.prophet import Prophet
from roamq.manet.protocol.spreading import MultiCopyMultiDestination, Spreading
from tests.manet.recording import WANTED, RecordingHost, beacon, event, host_of, node

PEER, BRIDGE, FOREIGN, HOP = 1, 20, 21, 22


def broker_at(
    me: NodeId = 0, *, m: int = 2, new_spreading: Callable[[], Spreading] | None = None
) -> MobileBroker:
    subject = node(me, m=m, new_spreading=new_spreading)
    subject.stand_for_election(seats=10)
    subject.elected()
    assert subject.broker is not None
    host_of(subject).forget()
    return subject.broker


def host(broker: MobileBroker) -> RecordingHost:
    return host_of(broker.node)


def receive(broker: MobileBroker, body: MessageBody, path: tuple[NodeId, ...] = (30,)) -> None:
    broker.receive(body, path)


def interest(subscriber: NodeId, sequence: int = 1, nearest: tuple[NodeId, ...] = (0, 1)) -> Interest:
    return Interest(subscriber, sequence, (WANTED,), nearest, 100.0)


def with_bridge(broker: MobileBroker, peer: NodeId = PEER, bridge: NodeId = BRIDGE) -> None:
    receive(broker, BridgeStatus(peer, FOREIGN, 0.01), path=(bridge, HOP))


def floods(broker: MobileBroker) -> list[tuple[Event, ...]]:
    return [message.events for message in host(broker).said() if isinstance(message, Notification)]


def test_a_new_event_is_flooded_if_a_member_of_the_region_wants_it() -> None:
    """[DRIP] section V-A3: "it sends the event to the interested nodes according to their subscriptions"."""
    broker, wanted, unwanted = broker_at(), event(15, 1), event(50, 2)
    receive(broker, Register(interest(30), frozenset()))

    receive(broker, EventPublication(wanted))
    receive(broker, EventPublication(unwanted))

    assert floods(broker) == [(wanted,)]
    assert host(broker).records[-2:] == [
        Record("copied", 100.0, broker="n0", origin="n9", sequence=number, detail="source")
        for number in (1, 2)
    ]


def test_a_quit_deletes_the_subscriptions() -> None:
    """[DRIP] section V-A1: the previous local broker "would delete the corresponding subscriptions"."""
    broker = broker_at()
    receive(broker, Register(interest(30), frozenset()))
    receive(broker, Quit(30, 1))

    receive(broker, EventPublication(event(15)))

    assert floods(broker) == []


def test_a_quit_that_arrives_after_a_newer_registration_deletes_nothing() -> None:
    broker = broker_at()
    receive(broker, Register(interest(30, sequence=2), frozenset()))

    receive(broker, Quit(30, 1))

    assert 30 in broker.members


def test_a_subscriber_that_arrives_gets_what_it_missed_and_no_more() -> None:
    broker, missed, known = broker_at(), event(15, 1), event(16, 2)
    for published in (missed, known, event(50, 3)):
        receive(broker, EventPublication(published))

    receive(broker, Register(interest(30), frozenset({known.id})))

    assert floods(broker) == [(missed,)]


def test_a_subscriber_is_not_told_what_it_detected_itself() -> None:
    broker = broker_at()
    receive(broker, Register(interest(9), frozenset()))

    receive(broker, EventPublication(event(15, origin="n9")))

    assert floods(broker) == []


def test_brokers_without_a_bridge_cannot_talk() -> None:
    """[DRIP] section V-B1: where no bridge exists "the two corresponding broker nodes cannot communicate"."""
    broker = broker_at()
    receive(broker, Register(interest(30, nearest=(1, 2)), frozenset()))
    receive(broker, Quit(30, 1))

    receive(broker, EventPublication(event(15)))

    assert host(broker).sent() == []
    assert broker.contact is None


def test_a_contact_goes_over_the_bridge_and_offers_the_event() -> None:
    """[DRIP] section V-B1: "it first finds one bridge node B and contacts it. Then B relays the message"."""
    broker, wanted = broker_at(), event(15)
    broker.table.learn(interest(30, nearest=(1, 2)), 100.0)
    receive(broker, EventPublication(wanted))

    with_bridge(broker)

    ((hop, target, greeting),) = host(broker).sent()
    assert (hop, target) == (HOP, PEER)
    assert isinstance(greeting, Greeting)
    assert greeting.interests == (interest(30, nearest=(1, 2)),)
    assert greeting.offers == ((wanted.id, Role.CARRIER),)


def test_neighboring_brokers_need_no_bridge() -> None:
    broker = broker_at()
    broker.table.learn(interest(30), 100.0)
    broker.node.neighbors[PEER] = (NeighborHello(PEER, {}), 100.0)

    broker.contact_next()

    assert [(hop, target) for hop, target, _ in host(broker).sent()] == [(PEER, PEER)]


def test_one_contact_at_a_time() -> None:
    """[DRIP] section V-C: "a broker node can contact only one broker node at a time"."""
    broker = broker_at()
    broker.table.learn(interest(30), 100.0)
    with_bridge(broker, peer=1, bridge=20)
    with_bridge(broker, peer=2, bridge=23)
    assert [target for _, target, _ in host(broker).sent()] == [1]

    receive(broker, Reply(1, 1, ()))

    assert [target for _, target, _ in host(broker).sent()] == [1, 2]


def test_the_whole_contact() -> None:
    source, carrier, wanted = broker_at(0), broker_at(PEER), event(15)
    source.table.learn(interest(30, nearest=(1, 2, 3)), 100.0)
    receive(source, EventPublication(wanted))
    with_bridge(source)
    _, _, greeting = host(source).sent()[-1]

    receive(carrier, greeting, path=(0, HOP, BRIDGE, FOREIGN))
    hop, target, reply = host(carrier).sent()[-1]
    assert (hop, target, reply) == (FOREIGN, 0, Reply(1, 1, (wanted.id,)))
    assert carrier.table.interested(wanted) == [interest(30, nearest=(1, 2, 3))]

    receive(source, reply)
    _, _, handover = host(source).sent()[-1]
    assert handover == EventCopies(1, ((wanted, Role.CARRIER, frozenset({2, 3})),))

    receive(carrier, handover, path=(0, HOP, BRIDGE, FOREIGN))
    assert host(carrier).sent()[-1] == (FOREIGN, 0, Receipt(1))
    assert host(carrier).records[-1].detail == "carrier"
    assert carrier.spreading.destinations(wanted.id) == {2, 3}

    receive(source, Receipt(1))
    assert source.spreading.destinations(wanted.id) == {2, 3}
    assert source.contact is None


def test_subscriptions_are_told_once() -> None:
    broker = broker_at()
    broker.table.learn(interest(30), 100.0)
    with_bridge(broker)
    receive(broker, Reply(1, 1, ()))
    host(broker).forget()

    host(broker).time += 5.0
    with_bridge(broker)
    assert host(broker).sent() == []

    broker.table.learn(interest(31), 100.0)
    with_bridge(broker)
    ((_, _, greeting),) = host(broker).sent()
    assert isinstance(greeting, Greeting)
    assert greeting.interests == (interest(31),)


def test_subscriptions_are_not_told_to_who_told_them() -> None:
    broker = broker_at()
    receive(broker, Greeting(1, 1, (interest(30),), (), ()), path=(PEER,))
    broker.table.learn(interest(31), 100.0)
    host(broker).forget()

    with_bridge(broker)

    ((_, _, greeting),) = host(broker).sent()
    assert isinstance(greeting, Greeting)
    assert greeting.interests == (interest(31),)


def test_a_failed_contact_is_opened_again_over_another_bridge() -> None:
    broker = broker_at()
    broker.table.learn(interest(30), 100.0)
    with_bridge(broker, bridge=20)
    broker.on_timer(("contact", broker.region, 1))
    assert broker.contact is None
    host(broker).forget()

    host(broker).time += 2.0
    with_bridge(broker, bridge=25)

    assert [target for _, target, _ in host(broker).sent()] == [PEER]
    assert broker.contact is not None
    assert broker.contact.route.bridge == 25


def test_a_broker_that_knows_k_better_ones_resigns_and_publishes_what_it_held() -> None:
    """S_B holds "the top k largest in the network" ([DRIP] section IV-A): a surplus broker is none."""
    broker, wanted = broker_at(), event(15)
    broker.table.learn(interest(30, nearest=(1, 2)), 100.0)
    receive(broker, EventPublication(wanted))
    broker.node.neighbors[5] = (NeighborHello(1, {1: 0.1}), 100.0)
    better = tuple(Alive(BrokerCandidate(2.0, other), 99.0) for other in range(1, 11))

    receive(broker, Greeting(1, 0, (), better[:9], ()), path=(1,))
    assert broker.node.broker is broker
    receive(broker, Greeting(2, 0, (), better, ()), path=(1,))

    assert broker.node.broker is None
    assert broker.node.local_broker is None
    assert host(broker).records[-1] == Record("role", 100.0, broker="n0", detail="resigned")
    broker.node.receive(5, beacon(1, delay=0.01))
    assert host(broker).sent()[-1] == (5, 1, EventPublication(wanted))


def test_a_member_that_vanished_without_a_quit_is_forgotten() -> None:
    broker = broker_at()
    receive(broker, Register(interest(30), frozenset()))

    host(broker).time += 31.0
    broker.on_timer(("beacon", broker.region))

    assert broker.members == {}


# ---- baselines: Spray-and-Wait, PRoPHET -------------------------------------------------------------------


def test_spray_and_wait_looks_for_a_subscriber_s_own_broker_alone() -> None:
    """DRIP's carriers look for all l nearest brokers of a subscriber."""
    both = (Register(interest(30, nearest=(7, 8)), frozenset()), Quit(30, 1), EventPublication(event(15)))
    drip = broker_at()
    spraying = broker_at(new_spreading=lambda: MultiCopyMultiDestination(2, per_subscriber=1))
    for broker in (drip, spraying):
        for body in both:
            receive(broker, body)

    assert drip.spreading.destinations(event(15).id) == {7, 8}
    assert spraying.spreading.destinations(event(15).id) == {7}


def prophet_at(me: NodeId = 0) -> MobileBroker:
    return broker_at(me, new_spreading=lambda: Prophet(ProphetConstants()))


def test_brokers_that_predict_introduce_themselves_even_without_news() -> None:
    broker = prophet_at()
    broker.spreading.met(9, {}, 0, 90.0)

    with_bridge(broker)

    ((_, target, body),) = host(broker).sent()
    assert target == PEER
    assert isinstance(body, Introduction)
    assert body.predictabilities == {9: 0.5 * 0.999**200}
    receive(broker, IntroductionReply(Reply(1, 0, ()), {8: 0.9}), path=(PEER,))
    assert broker.spreading.predictabilities is not None
    assert broker.spreading.predictabilities.of(PEER) == 0.5
    assert broker.spreading.predictabilities.of(8) == 0.5 * 0.9 * 0.9
    host(broker).forget()
    with_bridge(broker)
    assert host(broker).sent() == [], "the next exchange is not due yet"


def test_an_introduction_is_answered_with_what_was_known_before_it() -> None:
    broker = prophet_at()
    greeting = Greeting(3, 0, (), (), ((event(15).id, Role.CARRIER),))

    receive(broker, Introduction(greeting, {8: 0.9}), path=(PEER, BRIDGE))

    assert [(target, body) for _, target, body in host(broker).sent()] == [
        (PEER, IntroductionReply(Reply(3, 0, (event(15).id,)), {}))
    ]
    assert broker.spreading.predictabilities is not None
    assert broker.spreading.predictabilities.of(PEER) == 0.5


def test_a_peer_that_is_better_at_it_gets_the_event_in_the_next_contact() -> None:
    broker = prophet_at()
    receive(broker, Register(interest(30, nearest=(8, 7)), frozenset()))
    receive(broker, Quit(30, 1))
    receive(broker, EventPublication(event(15)))
    with_bridge(broker)
    host(broker).forget()

    receive(broker, IntroductionReply(Reply(1, 1, ()), {8: 0.9}), path=(PEER,))

    (offered,) = (body for _, _, body in host(broker).sent() if isinstance(body, Introduction))
    assert offered.greeting.offers == ((event(15).id, Role.CARRIER),)


def test_a_broker_that_does_not_predict_takes_an_introduction_as_a_greeting() -> None:
    broker = broker_at()

    receive(broker, Introduction(Greeting(3, 0, (), (), ()), {8: 0.9}), path=(PEER, BRIDGE))

    assert [body for _, _, body in host(broker).sent()] == [Reply(3, 0, ())]


def test_an_introduction_that_cannot_be_sent_ends_the_contact() -> None:
    broker = prophet_at()
    with_bridge(broker)
    assert broker.contact is not None
    ((_, _, body),) = host(broker).sent()

    broker.on_route_lost(Packet(PEER, body, (0,), (), 200.0))

    assert broker.contact is None
