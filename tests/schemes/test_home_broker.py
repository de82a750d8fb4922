"""The home broker: each test focuses on sentences of [DIS] section 3.2.3."""

from roamq.core.context import Epoch, Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.schemes.home_broker import HomeBroker, HomeBrokerOptions
from roamq.schemes.messages.home_broker import (
    ChangeSubscription,
    Consumed,
    Forward,
    Recall,
    Visiting,
    Welcome,
)
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

HOME, AWAY, THIRD = (BrokerId(f"b{n}") for n in (1, 2, 3))
CLIENT = ClientId("c")
NEWS, SPORTS = Filter.parse("news"), Filter.parse("sports")
VISIT, NEXT = Epoch(10.0, AWAY), Epoch(20.0, THIRD)


def broker(me: BrokerId, report_every: int = 100) -> tuple[HomeBroker, RecordingHost]:
    host = RecordingHost()
    options = HomeBrokerOptions(report_every=report_every)
    return scheme_at(me, host, RecordingRouter(me, host), "home-broker", options), host


def home() -> tuple[HomeBroker, RecordingHost]:
    """The home broker of a client that has left with one event unread."""
    scheme, host = broker(HOME)
    scheme.on_connect(CLIENT, None)
    scheme.on_subscribe(CLIENT, NEWS)
    scheme.on_disconnect(CLIENT, "vanished")
    scheme.on_event(event(1, topic="news"))
    host.take()
    return scheme, host


def visited(report_every: int = 100, *, welcome: bool = True) -> tuple[HomeBroker, RecordingHost]:
    scheme, host = broker(AWAY, report_every)
    host.time = VISIT.connected_at
    scheme.on_connect(CLIENT, HOME, ticket=Ticket(HOME))
    if welcome:
        scheme.mailbox.receive(HOME, Welcome(client=CLIENT, epoch=VISIT, session=None))
    return scheme, host


def forwarded(sequence: int, epoch: Epoch = VISIT) -> Forward:
    return Forward(client=CLIENT, epoch=epoch, event=event(sequence, topic="news"))


def sent(host: RecordingHost) -> list[tuple[BrokerId, Message]]:
    return [(effect[1], effect[2]) for effect in host.take() if effect[0] == "unicast"]


def forwards(host: RecordingHost) -> list[tuple[BrokerId, int]]:
    return [(to, message.event.id.sequence) for to, message in sent(host) if isinstance(message, Forward)]


def test_a_client_reconnects_logically_to_its_home_broker() -> None:
    """ "On a movein, a client reconnects to its physically closest broker. The client, however, reconnects logically to
    its home broker." """
    _, host = visited(welcome=False)

    visiting = Visiting(client=CLIENT, epoch=VISIT, visited=AWAY)
    assert host.take() == [("unicast", HOME, visiting)]


def test_the_home_broker_forwards_what_was_stored_and_what_comes() -> None:
    """ "Note that there is unicast traffic even when the client is connected." """
    scheme, host = home()

    scheme.mailbox.receive(AWAY, Visiting(client=CLIENT, epoch=VISIT, visited=AWAY))
    scheme.on_event(event(2, topic="news"))

    assert forwards(host) == [(AWAY, 1), (AWAY, 2)]


def test_subscriptions_remain_on_the_home_broker() -> None:
    """ "Subscriptions remain on the home broker": neither end subscribes or unsubscribes because the client moves."""
    scheme, host = home()
    scheme.mailbox.receive(AWAY, Visiting(client=CLIENT, epoch=VISIT, visited=AWAY))
    scheme.mailbox.receive(AWAY, Consumed(client=CLIENT, epoch=VISIT, position={}, left=True))

    assert {effect[0] for effect in host.take()} == {"unicast"}


def test_a_forwarded_event_reaches_the_client() -> None:
    scheme, host = visited()
    host.take()

    scheme.mailbox.receive(HOME, forwarded(1))

    assert host.take() == [("deliver", CLIENT, event(1).id, "forwarded")]


def test_what_the_client_did_not_consume_is_forwarded_to_its_next_place() -> None:
    scheme, host = home()
    scheme.mailbox.receive(AWAY, Visiting(client=CLIENT, epoch=VISIT, visited=AWAY))
    scheme.on_event(event(2, topic="news"))
    host.take()

    scheme.mailbox.receive(AWAY, Consumed(client=CLIENT, epoch=VISIT, position={BrokerId("o"): 1}, left=True))
    scheme.mailbox.receive(THIRD, Visiting(client=CLIENT, epoch=NEXT, visited=THIRD))

    assert forwards(host) == [(THIRD, 2)]


def test_what_was_acknowledged_out_of_order_is_not_forwarded_again() -> None:
    scheme, host = home()
    scheme.mailbox.receive(AWAY, Visiting(client=CLIENT, epoch=VISIT, visited=AWAY))
    scheme.on_event(event(2, topic="news"))
    report = Consumed(client=CLIENT, epoch=VISIT, position={}, ahead=(event(2).id,), left=True)
    scheme.mailbox.receive(AWAY, report)
    host.take()

    scheme.mailbox.receive(THIRD, Visiting(client=CLIENT, epoch=NEXT, visited=THIRD))

    assert forwards(host) == [(THIRD, 1)]


def test_nothing_is_forwarded_to_the_new_place_before_the_old_one_has_reported() -> None:
    scheme, host = home()
    scheme.mailbox.receive(AWAY, Visiting(client=CLIENT, epoch=VISIT, visited=AWAY))
    host.take()

    scheme.mailbox.receive(THIRD, Visiting(client=CLIENT, epoch=NEXT, visited=THIRD))
    scheme.on_event(event(2, topic="news"))
    assert sent(host) == [(AWAY, Recall(client=CLIENT, epoch=VISIT))]

    scheme.mailbox.receive(AWAY, Consumed(client=CLIENT, epoch=VISIT, position={BrokerId("o"): 1}, left=True))
    assert forwards(host) == [(THIRD, 2)]


def test_a_place_left_before_anything_came_there_is_skipped() -> None:
    scheme, host = home()
    scheme.mailbox.receive(AWAY, Visiting(client=CLIENT, epoch=VISIT, visited=AWAY))
    scheme.mailbox.receive(THIRD, Visiting(client=CLIENT, epoch=NEXT, visited=THIRD))
    scheme.mailbox.receive(THIRD, Consumed(client=CLIENT, epoch=NEXT, position={}, left=True))
    host.take()

    scheme.mailbox.receive(AWAY, Consumed(client=CLIENT, epoch=VISIT, position={}, left=True))

    assert sent(host) == []
    assert scheme.residents[CLIENT].at is None


def test_leaving_reports_how_far_the_client_read() -> None:
    scheme, host = visited()
    for sequence in (1, 2):
        scheme.mailbox.receive(HOME, forwarded(sequence))
    scheme.on_acknowledge(CLIENT, event(1).id)
    host.take()

    scheme.on_disconnect(CLIENT, "vanished")

    report = Consumed(client=CLIENT, epoch=VISIT, position={BrokerId("o"): 1}, left=True)
    assert sent(host) == [(HOME, report)]
    assert scheme.held() == []
    assert len(scheme.contexts.buffer) == 0


def test_a_long_visit_reports_now_and_then_so_that_home_may_forget() -> None:
    scheme, host = visited(report_every=2)
    host.take()
    for sequence in (1, 2, 3):
        scheme.mailbox.receive(HOME, forwarded(sequence))
        scheme.on_acknowledge(CLIENT, event(sequence).id)
    assert sent(host) == [(HOME, Consumed(client=CLIENT, epoch=VISIT, position={BrokerId("o"): 2}))]

    at_home, _ = home()
    at_home.mailbox.receive(AWAY, Visiting(client=CLIENT, epoch=VISIT, visited=AWAY))
    at_home.mailbox.receive(AWAY, Consumed(client=CLIENT, epoch=VISIT, position={BrokerId("o"): 1}))
    assert len(at_home.contexts.buffer) == 0


def test_an_event_for_a_visit_that_is_over_is_ignored() -> None:
    scheme, host = visited()
    scheme.on_disconnect(CLIENT, "vanished")
    host.take()

    scheme.mailbox.receive(HOME, forwarded(1))

    assert host.take() == []


def test_back_home_events_are_delivered_without_unicast() -> None:
    scheme, host = home()

    scheme.on_connect(CLIENT, HOME, ticket=Ticket(HOME))

    assert host.take() == [("ready", CLIENT), ("deliver", CLIENT, event(1).id, "stored")]


def test_subscribing_on_a_visit_reaches_home_and_an_older_change_is_void() -> None:
    scheme, host = visited()
    host.take()
    scheme.on_subscribe(CLIENT, SPORTS)
    ((to, change),) = sent(host)
    assert (to, change) == (
        HOME,
        ChangeSubscription(client=CLIENT, epoch=VISIT, filter=SPORTS, wanted=True),
    )

    at_home, host = home()
    at_home.mailbox.receive(THIRD, ChangeSubscription(client=CLIENT, epoch=NEXT, filter=SPORTS, wanted=False))
    at_home.mailbox.receive(AWAY, change)
    assert SPORTS not in at_home.contexts[CLIENT].filters


def test_without_a_ticket_the_way_home_leads_over_the_broker_before() -> None:
    scheme, host = broker(THIRD)
    scheme.on_connect(CLIENT, AWAY)
    assert sent(host)[0][0] == AWAY

    between, host = broker(AWAY)
    between.on_connect(CLIENT, HOME)
    host.take()
    message = Visiting(client=CLIENT, epoch=NEXT, visited=THIRD)
    between.mailbox.receive(THIRD, message)
    assert sent(host) == [(HOME, message)]
