"""Subscriptions on the device: each test focuses on sentences of [DIS] section 3.2.4."""

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.base import Scheme, SchemeOptions
from roamq.schemes.logging import LoggingOptions
from roamq.schemes.messages.handover import NoContext, Release, StoredEvents
from roamq.schemes.messages.logging import LoggedIds, StoredIds
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

OLD, NEW, CLIENT = BrokerId("b1"), BrokerId("b2"), ClientId("c")
NEWS = Filter.parse("news")
EPOCH = Epoch(10.0, NEW)
RELEASE = Release(client=CLIENT, epoch=EPOCH, new_broker=NEW, fence={})


def broker(kind: str, me: BrokerId, options: SchemeOptions | None = None) -> tuple[Scheme, RecordingHost]:
    host = RecordingHost()
    return scheme_at(me, host, RecordingRouter(me, host), kind, options), host


def old_broker(kind: str, options: SchemeOptions | None = None) -> tuple[Scheme, RecordingHost]:
    scheme, host = broker(kind, OLD, options)
    scheme.on_connect(CLIENT, None)
    scheme.on_subscribe(CLIENT, NEWS)
    scheme.contexts[CLIENT].session = "session"
    Scheme.on_disconnect(scheme, CLIENT, "vanished")
    scheme.on_event(event(1, topic="news"))
    host.take()
    return scheme, host


def test_the_client_sends_its_subscriptions_to_the_new_broker() -> None:
    """ "it can directly send the subscriptions to the new broker upon reconnection": it subscribes at once, and its
    first message to the old broker is already the release of step 3."""
    scheme, host = broker("standard+on-device", NEW)
    host.time = EPOCH.connected_at

    scheme.on_connect(CLIENT, OLD, (NEWS,))

    assert host.take() == [("subscribe", NEWS), ("unicast", OLD, RELEASE)]


def test_the_old_broker_does_not_transfer_the_subscriptions() -> None:
    """ "the old broker does not need to transfer the subscriptions to the new broker" """
    scheme, host = old_broker("standard+on-device")

    scheme.mailbox.receive(NEW, RELEASE)

    unsubscribed, (_, to, message) = host.take()
    assert (unsubscribed, to) == (("unsubscribe", NEWS), NEW)
    assert isinstance(message, StoredEvents)
    assert [e.id.sequence for e in message.events] == [1]
    assert message.session == "session", "what would have come with the subscriptions comes with the events"


def test_an_unknown_client_is_answered() -> None:
    scheme, host = broker("standard+on-device", OLD)

    scheme.mailbox.receive(NEW, RELEASE)

    assert host.take() == [("unicast", NEW, NoContext(client=CLIENT, epoch=EPOCH))]


def test_a_client_that_brings_nothing_is_treated_as_before() -> None:
    scheme, host = broker("standard+on-device", NEW)
    plain_host = RecordingHost()
    plain = scheme_at(NEW, plain_host, RecordingRouter(NEW, plain_host), "standard")

    scheme.on_connect(CLIENT, OLD)
    plain.on_connect(CLIENT, OLD)

    assert host.take() == plain_host.take()


def test_combined_with_logging_the_offer_follows_the_release() -> None:
    """ "subscriptions-on-the-device can be combined with prefetching or logging" (section 3.2.5)."""
    old, host = old_broker("logging+on-device", LoggingOptions())
    old.mailbox.receive(NEW, RELEASE)
    assert host.take() == [("unicast", NEW, StoredIds(client=CLIENT, epoch=EPOCH, ids=(event(1).id,)))]

    new, new_host = broker("logging+on-device", NEW, LoggingOptions())
    new.on_event(event(1, topic="news"))
    new_host.time = EPOCH.connected_at
    new.on_connect(CLIENT, OLD, (NEWS,))
    new_host.take()
    new.mailbox.receive(OLD, StoredIds(client=CLIENT, epoch=EPOCH, ids=(event(1).id,)))
    known = LoggedIds(client=CLIENT, epoch=EPOCH, new_broker=NEW, ids=(event(1).id,))
    assert new_host.take() == [("unicast", OLD, known)]

    old.mailbox.receive(NEW, known)
    assert host.take()[-1][2].events == ()


def test_an_empty_answer_to_the_offer_lets_the_old_broker_go_on() -> None:
    old, host = old_broker("logging+on-device", LoggingOptions())
    old.mailbox.receive(NEW, RELEASE)
    host.take()

    old.mailbox.receive(NEW, LoggedIds(client=CLIENT, epoch=EPOCH, new_broker=NEW, ids=()))

    assert [e.id.sequence for e in host.take()[-1][2].events] == [1]


def test_combined_with_prefetching_it_shortens_what_follows_a_wrong_prediction() -> None:
    scheme, host = broker("prefetching+on-device", NEW)
    host.time = EPOCH.connected_at

    scheme.on_connect(CLIENT, OLD, (NEWS,))

    assert host.take()[-1] == ("unicast", OLD, RELEASE)
