"""Logging: each test focuses on sentences of [DIS] section 3.2.2."""

import pytest

from roamq.core.context import Epoch
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.logging import Logging, LoggingOptions
from roamq.schemes.messages.handover import ContextRequest, Release, StoredEvents, Subscriptions
from roamq.schemes.messages.logging import LoggedIds, StoredIds
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

OLD, NEW, CLIENT = BrokerId("b1"), BrokerId("b2"), ClientId("c")
NEWS = Filter.parse("news")
EPOCH = Epoch(10.0, NEW)


def broker(
    me: BrokerId, log_size: int = 1000, log_transferred: bool = False
) -> tuple[Logging, RecordingHost]:
    host = RecordingHost()
    options = LoggingOptions(log_size=log_size, log_transferred=log_transferred)
    return scheme_at(me, host, RecordingRouter(me, host), "logging", options), host


def old_broker(stored: int = 3) -> tuple[Logging, RecordingHost]:
    scheme, host = broker(OLD)
    scheme.on_connect(CLIENT, None)
    scheme.on_subscribe(CLIENT, NEWS)
    scheme.on_disconnect(CLIENT, "vanished")
    for sequence in range(1, stored + 1):
        scheme.on_event(event(sequence, topic="news"))
    host.take()
    return scheme, host


def new_broker(
    *logged: int, log_size: int = 1000, log_transferred: bool = False
) -> tuple[Logging, RecordingHost]:
    """Broker 2 has seen these events, for somebody else; the client has connected, its subscriptions have come."""
    scheme, host = broker(NEW, log_size, log_transferred)
    for sequence in logged:
        scheme.on_event(event(sequence, topic="news"))
    host.time = EPOCH.connected_at
    scheme.on_connect(CLIENT, OLD)
    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,), ids_follow=True))
    host.take()
    return scheme, host


def ids(*sequences: int) -> tuple[object, ...]:
    return tuple(event(s).id for s in sequences)


def test_the_old_broker_offers_the_ids_of_its_stored_events() -> None:
    """ "After Step 2 [...] Broker 1 sends a message with the IDs of its stored events to Broker 2." """
    scheme, host = old_broker()

    scheme.mailbox.receive(NEW, ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW))

    reply = Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,), ids_follow=True)
    offer = StoredIds(client=CLIENT, epoch=EPOCH, ids=ids(1, 2, 3))  # type: ignore[arg-type]
    assert host.take() == [("unicast", NEW, reply), ("unicast", NEW, offer)]


def test_nothing_stored_is_nothing_offered() -> None:
    scheme, host = old_broker(stored=0)

    scheme.mailbox.receive(NEW, ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW))

    assert host.take() == [("unicast", NEW, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(NEWS,)))]


def test_the_new_broker_names_what_its_log_holds_before_it_releases() -> None:
    """ "Broker 2 checks for these events in its log and sends any matched IDs to Broker 1" """
    scheme, host = new_broker(2, 3)

    scheme.mailbox.receive(OLD, StoredIds(client=CLIENT, epoch=EPOCH, ids=ids(1, 2, 3)))  # type: ignore[arg-type]

    known = LoggedIds(client=CLIENT, epoch=EPOCH, new_broker=NEW, ids=ids(2, 3))  # type: ignore[arg-type]
    release = Release(client=CLIENT, epoch=EPOCH, new_broker=NEW, fence={})
    assert host.take() == [("unicast", OLD, known), ("unicast", OLD, release)]


def test_a_log_without_any_of_them_answers_with_the_release_alone() -> None:
    scheme, host = new_broker()

    scheme.mailbox.receive(OLD, StoredIds(client=CLIENT, epoch=EPOCH, ids=ids(1)))  # type: ignore[arg-type]

    assert [type(effect[2]) for effect in host.take()] == [Release]


def test_the_log_is_bounded_and_forgets_the_oldest() -> None:
    """ "all brokers maintain a log of recently received events" """
    scheme, host = new_broker(1, 2, 3, log_size=2)

    scheme.mailbox.receive(OLD, StoredIds(client=CLIENT, epoch=EPOCH, ids=ids(1, 2, 3)))  # type: ignore[arg-type]

    assert host.take()[0][2].ids == ids(2, 3)


def test_the_old_broker_sends_only_the_rest() -> None:
    """ "instructing it to not send these events during Step 5" """
    scheme, host = old_broker()
    scheme.mailbox.receive(NEW, ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW))
    scheme.on_event(event(4, topic="news"))  # stored after the offer
    host.take()

    scheme.mailbox.receive(NEW, LoggedIds(client=CLIENT, epoch=EPOCH, new_broker=NEW, ids=ids(2, 3)))  # type: ignore[arg-type]
    scheme.mailbox.receive(NEW, Release(client=CLIENT, epoch=EPOCH, new_broker=NEW, fence={}))

    sent = host.take()[-1][2]
    assert isinstance(sent, StoredEvents)
    assert [e.id.sequence for e in sent.events] == [1, 4]


def test_logged_and_sent_events_are_replayed_in_their_order() -> None:
    scheme, host = new_broker(2)
    scheme.mailbox.receive(OLD, StoredIds(client=CLIENT, epoch=EPOCH, ids=ids(1, 2, 3)))  # type: ignore[arg-type]
    host.take()

    rest = (event(1, topic="news"), event(3, topic="news"), event(4, topic="news"))
    scheme.mailbox.receive(OLD, StoredEvents(client=CLIENT, epoch=EPOCH, events=rest, position={}))

    assert host.take() == [
        ("ready", CLIENT),
        ("deliver", CLIENT, event(1).id, "transferred"),
        ("deliver", CLIENT, event(2).id, "stored"),
        ("deliver", CLIENT, event(3).id, "transferred"),
        ("deliver", CLIENT, event(4).id, "transferred"),
    ]
    assert scheme.offered == {}


@pytest.mark.parametrize("log_transferred", [False, True])
def test_events_that_another_broker_sent_are_logged_if_asked_for(log_transferred: bool) -> None:
    """ "recently received events": the paper does not say whether by multicast alone."""
    scheme, _ = new_broker(2, log_transferred=log_transferred)
    scheme.mailbox.receive(OLD, StoredIds(client=CLIENT, epoch=EPOCH, ids=ids(1, 2)))  # type: ignore[arg-type]

    rest = (event(1, topic="news"),)
    scheme.mailbox.receive(OLD, StoredEvents(client=CLIENT, epoch=EPOCH, events=rest, position={}))

    assert [e.id.sequence for e in scheme.log] == ([2, 1] if log_transferred else [2])


def test_a_log_without_room_is_refused() -> None:
    with pytest.raises(ConfigError, match="log_size"):
        LoggingOptions(log_size=0)
