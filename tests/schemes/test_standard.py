"""The standard algorithm, step by step: each test focuses on sentences of [DIS] section 3.1."""

from roamq.core.context import Epoch, Mode
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.messages.handover import ContextRequest, NoContext, Release, StoredEvents, Subscriptions
from roamq.schemes.standard import Standard
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

OLD, NEW, CLIENT = BrokerId("b1"), BrokerId("b2"), ClientId("c")
NEWS = Filter.parse("news/#")
EPOCH = Epoch(10.0, NEW)


def broker(me: BrokerId) -> tuple[Standard, RecordingHost, RecordingRouter]:
    host = RecordingHost()
    router = RecordingRouter(me, host)
    return scheme_at(me, host, router, "standard"), host, router


def old_broker() -> tuple[Standard, RecordingHost, RecordingRouter]:
    """Broker 1: the client subscribed here, and left when two events had come, of which it consumed the first."""
    scheme, host, router = broker(OLD)
    scheme.on_connect(CLIENT, None)
    scheme.on_subscribe(CLIENT, NEWS)
    scheme.on_event(event(1, topic="news/a"))
    scheme.on_acknowledge(CLIENT, event(1).id)
    scheme.on_disconnect(CLIENT, "vanished")
    scheme.on_event(event(2, topic="news/a"))
    host.take()
    return scheme, host, router


def new_broker() -> tuple[Standard, RecordingHost, RecordingRouter]:
    """Broker 2: the client has just connected."""
    scheme, host, router = broker(NEW)
    host.time = EPOCH.connected_at
    scheme.on_connect(CLIENT, OLD)
    return scheme, host, router


def test_a_disconnected_client_s_events_are_stored() -> None:
    """ "When a client disconnects from Broker 1, the broker begins to locally store the events that the client would
    have received if it had been connected." """
    scheme, host, _ = old_broker()

    assert [e.id.sequence for e in scheme.contexts[CLIENT].events()] == [2]
    assert host.effects == []


def test_back_at_the_same_broker_stored_events_are_replayed() -> None:
    """ "If the client reconnects to Broker 1, then the stored events are simply replayed to the client" """
    scheme, host, _ = old_broker()

    scheme.on_connect(CLIENT, OLD)

    assert host.take() == [("ready", CLIENT), ("deliver", CLIENT, event(2).id, "stored")]


def test_steps_1_and_2_the_new_broker_retrieves_the_subscriptions() -> None:
    """ "the client notifies Broker 2 that it was previously connected to Broker 1. Broker 2 retrieves the
    subscriptions associated with the client from Broker 1." """
    _, host, _ = new_broker()

    request = ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW)
    assert host.take() == [("unicast", OLD, request)]


def test_step_2_the_old_broker_answers_and_goes_on_storing() -> None:
    scheme, host, _ = old_broker()

    scheme.mailbox.receive(NEW, ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW))
    scheme.on_event(event(3, topic="news/b"))

    reply = Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,))
    assert host.take() == [("unicast", NEW, reply)]
    assert [e.id.sequence for c in scheme.held() for e in c.events()] == [2, 3]


def test_step_3_subscribe_before_the_old_broker_is_asked_to_unsubscribe() -> None:
    """ "Broker 2 subscribes to these subscriptions, and then sends a message to Broker 1 requesting it to
    unsubscribe." """
    scheme, host, router = new_broker()
    router.seen = {BrokerId("o"): 7}
    host.take()

    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,)))

    release = Release(client=CLIENT, epoch=EPOCH, new_broker=NEW, fence={BrokerId("o"): 7})
    assert host.take() == [("subscribe", NEWS), ("unicast", OLD, release)]


def test_step_4_new_events_wait_in_the_local_queue() -> None:
    """ "Broker 2 stores in a local queue new events it receives for the client." """
    scheme, host, _ = new_broker()
    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,)))
    host.take()

    scheme.on_event(event(4, topic="news/a"))

    assert host.take() == []
    assert list(scheme.contexts[CLIENT].local_queue or ()) != []


def test_step_5_the_old_broker_forwards_what_it_stored_and_unsubscribes() -> None:
    """ "Broker 1 forwards stored events to Broker 2." """
    scheme, host, _ = old_broker()
    scheme.mailbox.receive(NEW, ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW))
    host.take()

    scheme.mailbox.receive(NEW, Release(client=CLIENT, epoch=EPOCH, new_broker=NEW, fence={}))

    (unsubscribed, (_, to, message)) = host.take()
    assert unsubscribed == ("unsubscribe", NEWS)
    assert to == NEW
    assert isinstance(message, StoredEvents)
    assert [e.id.sequence for e in message.events] == [2]
    assert message.position == {"o": 1}
    assert scheme.held() == []
    assert len(scheme.contexts.buffer) == 0


def test_step_5_waits_until_nothing_can_be_missed() -> None:
    """ "To guarantee that no events are lost, we require that the common ancestor of Brokers 1 and 2 [...] sees the
    subscriptions from Broker 2 before the unsubscriptions from Broker 1": the fence says so for any overlay."""
    scheme, host, router = old_broker()
    scheme.mailbox.receive(NEW, ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW))
    host.take()
    scheme.mailbox.receive(NEW, Release(client=CLIENT, epoch=EPOCH, new_broker=NEW, fence={BrokerId("o"): 3}))
    assert host.take() == [], "an event that Broker 2 had seen before it subscribed has not come here yet"

    router.seen = {BrokerId("o"): 3}
    scheme.on_event(event(3, topic="news/a"))

    sent = [effect[2] for effect in host.take() if effect[0] == "unicast"]
    assert [e.id.sequence for e in sent[0].events] == [2, 3]


def test_step_6_replay_without_duplicates() -> None:
    """ "Broker 2 now replays both the events received from Broker 1, and the new events stored in its local queue, to
    the client. [...] Duplicates [...] are removed." """
    scheme, host, _ = new_broker()
    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,)))
    for sequence in (3, 4):
        scheme.on_event(event(sequence, topic="news/a"))
    host.take()

    stored = (event(2, topic="news/a"), event(3, topic="news/a"))
    scheme.mailbox.receive(
        OLD, StoredEvents(client=CLIENT, epoch=EPOCH, events=stored, position={BrokerId("o"): 1})
    )

    assert host.take() == [
        ("ready", CLIENT),
        ("deliver", CLIENT, event(2).id, "transferred"),
        ("deliver", CLIENT, event(3).id, "transferred"),
        ("deliver", CLIENT, event(4).id, "stored"),
    ]


def test_a_client_that_moves_on_is_followed_when_its_context_is_whole() -> None:
    """A chain of transfers (docs/decisions/0003): the third broker's request waits at the second."""
    scheme, host, _ = new_broker()
    third = BrokerId("b3")
    later = Epoch(11.0, third)
    scheme.on_disconnect(CLIENT, "vanished")
    host.take()

    scheme.mailbox.receive(third, ContextRequest(client=CLIENT, epoch=later, new_broker=third))
    assert host.take() == []
    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,)))
    host.take()
    scheme.mailbox.receive(OLD, StoredEvents(client=CLIENT, epoch=EPOCH, events=(event(2),), position={}))

    handed_on = Subscriptions(client=CLIENT, epoch=later, filters=(NEWS,))
    assert host.take() == [("ready", CLIENT), ("unicast", third, handed_on)]


def test_the_newest_connection_wins() -> None:
    """A broker that still believes in a client which shows up elsewhere lets it go."""
    scheme, host, _ = old_broker()
    scheme.on_connect(CLIENT, OLD)
    host.take()

    scheme.mailbox.receive(NEW, ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW))

    assert host.take()[0] == ("detach", CLIENT, "taken over")
    assert CLIENT not in scheme.contexts


def test_an_older_connection_does_not_take_a_context() -> None:
    scheme, host, _ = old_broker()
    earlier = Epoch(-1.0, NEW)

    scheme.mailbox.receive(NEW, ContextRequest(client=CLIENT, epoch=earlier, new_broker=NEW))

    refusal = NoContext(client=CLIENT, epoch=earlier, newer=Epoch(0.0, OLD))
    assert host.take() == [("unicast", NEW, refusal)]
    assert CLIENT in scheme.contexts


def test_unsubscribed_while_arriving_stays_unsubscribed() -> None:
    scheme, host, _ = new_broker()
    scheme.on_unsubscribe(CLIENT, NEWS)
    host.take()

    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,)))

    assert [effect[0] for effect in host.take()] == ["unicast"]


def test_gone_for_good_while_arriving_leaves_nothing_behind() -> None:
    scheme, host, _ = new_broker()
    scheme.on_leave(CLIENT)
    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,)))
    host.take()

    scheme.mailbox.receive(OLD, StoredEvents(client=CLIENT, epoch=EPOCH, events=(event(2),), position={}))

    assert host.take() == [("unsubscribe", NEWS)]
    assert scheme.held() == []


def test_an_event_of_a_filter_that_the_old_broker_did_not_know_keeps_its_place() -> None:
    """Subscribed at Broker 2 while arriving: event 2 came here only, event 3 to Broker 1 as well."""
    scheme, host, _ = new_broker()
    scheme.on_subscribe(CLIENT, Filter.parse("sports"))
    scheme.on_event(event(2, topic="sports"))
    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,)))
    host.take()

    stored = (event(1, topic="news/a"), event(3, topic="news/a"))
    scheme.mailbox.receive(OLD, StoredEvents(client=CLIENT, epoch=EPOCH, events=stored, position={}))

    assert [effect[2].sequence for effect in host.take() if effect[0] == "deliver"] == [1, 2, 3]


def test_a_context_is_serving_only_while_its_client_is_here() -> None:
    scheme, _, _ = new_broker()
    assert scheme.contexts[CLIENT].mode is Mode.SERVING
    scheme.on_disconnect(CLIENT, "vanished")
    assert scheme.contexts[CLIENT].mode is Mode.ACTIVE
