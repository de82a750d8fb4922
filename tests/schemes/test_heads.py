"""What is stored goes ahead of the release; the client gets it while the rest waits for the fence (decision 0145)."""

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.messages.handover import ContextRequest, NoContext, Release, StoredEvents, Subscriptions
from roamq.schemes.standard import Standard
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

OLD, NEW, NEXT, CLIENT = BrokerId("b1"), BrokerId("b2"), BrokerId("b3"), ClientId("c")
NEWS = Filter.parse("news/#")
EPOCH = Epoch(10.0, NEW)
REQUEST = ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW)


def broker(me: BrokerId) -> tuple[Standard, RecordingHost, RecordingRouter]:
    host = RecordingHost()
    router = RecordingRouter(me, host)
    scheme = scheme_at(me, host, router, "standard")
    scheme.contexts.sends_heads = True
    return scheme, host, router


def old_broker(stored: int = 1) -> tuple[Standard, RecordingHost, RecordingRouter]:
    """Broker 1: the client has consumed one event, and left before so many more came."""
    scheme, host, router = broker(OLD)
    scheme.on_connect(CLIENT, None)
    scheme.on_subscribe(CLIENT, NEWS)
    scheme.on_event(event(1, topic="news/a"))
    scheme.on_acknowledge(CLIENT, event(1).id)
    scheme.on_disconnect(CLIENT, "vanished")
    for sequence in range(2, 2 + stored):
        scheme.on_event(event(sequence, topic="news/a"))
    host.take()
    return scheme, host, router


def new_broker() -> tuple[Standard, RecordingHost, RecordingRouter]:
    """Broker 2: the client has connected, and Broker 1 has answered."""
    scheme, host, router = broker(NEW)
    host.time = EPOCH.connected_at
    scheme.on_connect(CLIENT, OLD)
    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,)))
    host.take()
    return scheme, host, router


def stored(*sequences: int, last: bool = True) -> StoredEvents:
    events = tuple(event(sequence, topic="news/a") for sequence in sequences)
    return StoredEvents(
        client=CLIENT, epoch=EPOCH, events=events, position={BrokerId("o"): 1}, last=last, session=None
    )


def sequences(message: StoredEvents) -> list[int]:
    return [one.id.sequence for one in message.events]


def test_the_old_broker_sends_what_it_has_stored_at_once_and_the_rest_after_the_fence() -> None:
    scheme, host, router = old_broker(stored=2)

    scheme.mailbox.receive(NEW, REQUEST)
    (_, _, subscriptions), (_, to, head) = host.take()
    assert isinstance(subscriptions, Subscriptions) and isinstance(head, StoredEvents)
    assert (to, sequences(head), head.position, head.last) == (NEW, [2, 3], {"o": 1}, False)
    assert len(scheme.contexts.buffer) == 0, "what was sent is the new broker's"

    scheme.mailbox.receive(NEW, Release(client=CLIENT, epoch=EPOCH, new_broker=NEW, fence={BrokerId("o"): 4}))
    assert host.take() == []
    router.seen = {BrokerId("o"): 4}
    scheme.on_event(event(4, topic="news/a"))

    rest = [effect[2] for effect in host.take() if effect[0] == "unicast"]
    assert [(sequences(message), message.last) for message in rest] == [([4], True)]
    assert scheme.held() == []


def test_an_empty_head_says_that_the_client_may_come_in() -> None:
    scheme, host, _ = old_broker(stored=0)

    scheme.mailbox.receive(NEW, REQUEST)

    _, (_, _, head) = host.take()
    assert (sequences(head), head.last) == ([], False)


def test_without_heads_nothing_goes_before_the_release() -> None:
    scheme, host, _ = old_broker()
    scheme.contexts.sends_heads = False

    scheme.mailbox.receive(NEW, REQUEST)

    assert [type(effect[2]) for effect in host.take()] == [Subscriptions]


def test_the_client_gets_the_head_while_new_events_wait_for_the_rest() -> None:
    scheme, host, _ = new_broker()
    scheme.on_event(event(5, topic="news/a"))

    scheme.mailbox.receive(OLD, stored(2, 3, last=False))
    assert host.take() == [
        ("ready", CLIENT),
        ("deliver", CLIENT, event(2).id, "transferred"),
        ("deliver", CLIENT, event(3).id, "transferred"),
    ]
    scheme.on_acknowledge(CLIENT, event(2).id)
    scheme.on_event(event(6, topic="news/a"))
    assert host.take() == []

    scheme.mailbox.receive(OLD, stored(4, 5))
    assert [effect[2].sequence for effect in host.take() if effect[0] == "deliver"] == [4, 5, 6]
    assert scheme.contexts[CLIENT].local_queue is None


def test_a_client_that_moves_on_takes_along_how_far_it_has_read() -> None:
    scheme, host, _ = new_broker()
    scheme.mailbox.receive(OLD, stored(2, 3, last=False))
    scheme.on_acknowledge(CLIENT, event(2).id)
    scheme.on_disconnect(CLIENT, "vanished")
    host.take()
    later = Epoch(20.0, NEXT)

    scheme.mailbox.receive(NEXT, ContextRequest(client=CLIENT, epoch=later, new_broker=NEXT))
    assert host.take() == [], "the context is not whole yet"
    scheme.mailbox.receive(OLD, stored(4))

    sent = [effect[2] for effect in host.take() if effect[0] == "unicast"]
    head = sent[1]
    assert isinstance(head, StoredEvents)
    assert (sequences(head), head.position) == ([3, 4], {"o": 2})


def test_who_comes_back_before_the_rest_has_come_need_not_wait() -> None:
    scheme, host, _ = new_broker()
    scheme.mailbox.receive(OLD, stored(2, last=False))
    scheme.on_disconnect(CLIENT, "vanished")
    host.take()

    scheme.on_connect(CLIENT, NEW)

    assert host.take() == [("ready", CLIENT), ("deliver", CLIENT, event(2).id, "transferred")]


def test_an_old_broker_that_lost_its_store_ends_the_wait() -> None:
    scheme, host, _ = new_broker()
    scheme.mailbox.receive(OLD, stored(2, last=False))
    scheme.on_event(event(4, topic="news/a"))
    host.take()

    scheme.mailbox.receive(OLD, NoContext(client=CLIENT, epoch=EPOCH))

    assert [effect[2].sequence for effect in host.take() if effect[0] == "deliver"] == [4]
