"""Prefetching: each test focuses on sentences of [DIS] section 3.2.1. Brokers stand on a line: b1, b2, b3, ..."""

from dataclasses import replace

import pytest

from roamq.core.context import Epoch, Mode, Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.messages.handover import ContextRequest, Release, StoredEvents, Subscriptions
from roamq.schemes.messages.prefetching import Discard, Prefetch, Prefetched
from roamq.schemes.parts.prediction import Foretold, Learned
from roamq.schemes.prefetching import Prefetching, PrefetchingOptions
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

OLD, NEW, OTHER, FAR = (BrokerId(f"b{n}") for n in (1, 2, 3, 9))
CLIENT = ClientId("c")
NEWS = Filter.parse("news")
FIRST = Epoch(0.0, OLD)
"""Of the context that is prefetched."""
TICKET = Ticket(OLD, FIRST)


class Plan:
    """An oracle that says what a test wants."""

    def __init__(self, next_broker: BrokerId | None, other: BrokerId | None = None) -> None:
        self.next, self.other = next_broker, other

    def next_broker(self, client: ClientId) -> BrokerId | None:
        return self.next

    def other_broker(self, client: ClientId) -> BrokerId | None:
        return self.other


def broker(
    me: BrokerId, next_broker: BrokerId | None = NEW, targets: int = 1
) -> tuple[Prefetching, RecordingHost]:
    host = RecordingHost()
    options = PrefetchingOptions(targets=targets)
    router = RecordingRouter(me, host)
    return scheme_at(me, host, router, "prefetching", options, oracle=Plan(next_broker)), host


def left(next_broker: BrokerId | None = NEW) -> tuple[Prefetching, RecordingHost]:
    """Broker 1, just after its client disconnected."""
    scheme, host = broker(OLD, next_broker)
    scheme.on_connect(CLIENT, None)
    scheme.on_subscribe(CLIENT, NEWS)
    host.take()
    scheme.on_disconnect(CLIENT, "vanished")
    return scheme, host


def push(*targets: BrokerId) -> Prefetch:
    return Prefetch(client=CLIENT, epoch=FIRST, filters=(NEWS,), targets=targets or (NEW,))


def prefetched(*targets: BrokerId) -> tuple[Prefetching, RecordingHost]:
    """A predicted broker that has got everything, and one event since."""
    scheme, host = broker(NEW)
    scheme.mailbox.receive(OLD, push(*targets))
    stored = StoredEvents(client=CLIENT, epoch=FIRST, events=(event(1, topic="news"),), position={})
    scheme.mailbox.receive(OLD, stored)
    scheme.on_event(event(2, topic="news"))
    host.take()
    host.time = 10.0
    return scheme, host


def connect(scheme: Prefetching, old: BrokerId, ticket: Ticket | None) -> None:
    scheme.on_connect(CLIENT, old, ticket=ticket)


def test_the_subscriptions_travel_when_the_client_disconnects() -> None:
    """ "Steps 2-5 (the transfer of subscriptions and stored events) occur during period T1" """
    _, host = left()

    assert host.take() == [("unicast", NEW, push())]


def test_the_predicted_broker_subscribes_and_releases_without_the_client() -> None:
    scheme, host = broker(NEW)

    scheme.mailbox.receive(OLD, push())

    release = Release(client=CLIENT, epoch=FIRST, new_broker=NEW, fence={})
    assert host.take() == [("subscribe", NEWS), ("unicast", OLD, release)]
    assert scheme.held()[0].mode is Mode.ACTIVE


def test_the_old_broker_forwards_the_few_events_it_stored_meanwhile() -> None:
    """ "since state transfer occurs early, there are very few stored events that Broker 1 needs to forward" """
    scheme, host = left()
    scheme.on_event(event(1, topic="news"))
    host.take()

    scheme.mailbox.receive(NEW, Release(client=CLIENT, epoch=FIRST, new_broker=NEW, fence={}))

    unsubscribed, (_, to, message) = host.take()
    assert (unsubscribed, to) == (("unsubscribe", NEWS), NEW)
    assert [e.id.sequence for e in message.events] == [1]


def test_in_t3_only_step_6_takes_place() -> None:
    """ "In period T3 only Step 6 (the replay of stored events) takes place." No message leaves the broker."""
    scheme, host = prefetched()

    connect(scheme, OLD, TICKET)

    assert host.take() == [
        ("ready", CLIENT),
        ("deliver", CLIENT, event(1).id, "transferred"),
        ("deliver", CLIENT, event(2).id, "stored"),
    ]


def test_the_other_predicted_brokers_discard() -> None:
    """ "that particular broker replays all stored events, and informs the other brokers to discard the stored events
    and subscriptions for that client" """
    scheme, host = prefetched(NEW, OTHER)

    connect(scheme, OLD, TICKET)

    discard = Discard(client=CLIENT, epoch=FIRST, new_broker=NEW)
    sent = [effect for effect in host.take() if effect[0] == "unicast"]
    assert sent == [("unicast", OTHER, discard), ("unicast", OLD, discard)]


def test_discarding_forgets_events_and_subscriptions() -> None:
    scheme, host = prefetched()

    scheme.mailbox.receive(OTHER, Discard(client=CLIENT, epoch=FIRST, new_broker=OTHER))

    assert host.take() == [("unsubscribe", NEWS)]
    assert scheme.held() == []
    assert len(scheme.contexts.buffer) == 0


def test_a_discard_that_overtakes_its_copy_is_not_forgotten() -> None:
    scheme, host = broker(NEW)
    scheme.mailbox.receive(OTHER, Discard(client=CLIENT, epoch=FIRST, new_broker=OTHER))

    scheme.mailbox.receive(OLD, push())

    assert [effect[0] for effect in host.take()] == ["subscribe", "unicast", "unsubscribe"]
    assert scheme.held() == []
    assert scheme.discarded == set()


def test_a_wrong_prediction_is_put_right_by_the_closest_predicted_broker() -> None:
    """ "If the client reconnects to a completely different broker, the new broker can contact the closest broker from
    the set of prefetched brokers, and the state transfer happens as in the standard algorithm." """
    scheme, host = broker(OLD)
    scheme.predictor = Foretold(Plan(NEW), right=True)
    scheme.predictor.experience.went.update({OTHER: 2})
    scheme.target_count = 2
    scheme.on_connect(CLIENT, None)
    scheme.on_disconnect(CLIENT, "vanished")
    host.take()

    request = ContextRequest(client=CLIENT, epoch=Epoch(20.0, FAR), new_broker=FAR)
    scheme.mailbox.receive(FAR, request)

    passed_on = ContextRequest(client=CLIENT, epoch=Epoch(20.0, FAR), new_broker=FAR, of=FIRST)
    discard = Discard(client=CLIENT, epoch=FIRST, new_broker=FAR)
    assert host.take() == [("unicast", OTHER, passed_on), ("unicast", NEW, discard)]
    assert scheme.pushed == {}


def test_the_holder_of_a_copy_hands_it_over_as_in_the_standard_algorithm() -> None:
    """[DIS] section 4.1: "subscriptions and events [...] have to be transferred from the miss-predicted broker" """
    scheme, host = prefetched()
    later = Epoch(20.0, FAR)

    scheme.mailbox.receive(OLD, ContextRequest(client=CLIENT, epoch=later, new_broker=FAR, of=FIRST))
    scheme.mailbox.receive(FAR, Release(client=CLIENT, epoch=later, new_broker=FAR, fence={}))

    subscriptions, unsubscribed, stored = host.take()
    assert subscriptions == ("unicast", FAR, Subscriptions(client=CLIENT, epoch=later, filters=(NEWS,)))
    assert unsubscribed == ("unsubscribe", NEWS)
    assert [e.id.sequence for e in stored[2].events] == [1, 2]


def test_a_claim_to_a_copy_that_was_served_and_pushed_on_goes_after_it() -> None:
    """Broker 1 has heard nothing since it pushed; the client was here, left, and its context went to where it was
    expected next."""
    scheme, host = prefetched()
    connect(scheme, OLD, Ticket(OLD, FIRST))
    of = scheme.contexts[CLIENT].epoch
    scheme.predictor = Foretold(Plan(OTHER), right=True)
    scheme.on_disconnect(CLIENT, "vanished")
    host.take()

    request = ContextRequest(client=CLIENT, epoch=Epoch(20.0, FAR), new_broker=FAR, of=FIRST)
    scheme.mailbox.receive(OLD, request)

    assert host.take() == [("unicast", OTHER, replace(request, of=of))]


def test_back_where_nobody_expected_it_the_context_is_fetched_back() -> None:
    scheme, host = left()
    host.take()
    host.time = 20.0

    connect(scheme, OLD, TICKET)

    request = ContextRequest(client=CLIENT, epoch=Epoch(20.0, OLD), new_broker=OLD, of=FIRST)
    assert host.take() == [("unicast", NEW, request)]


def test_a_copy_of_another_visit_is_not_served() -> None:
    """The copy may be a stale one that is about to be discarded: only its client's ticket says which it is."""
    scheme, host = prefetched()

    connect(scheme, OLD, Ticket(OLD, Epoch(5.0, OLD)))

    request = ContextRequest(client=CLIENT, epoch=Epoch(10.0, NEW), new_broker=NEW)
    assert host.take() == [("unicast", OLD, request)]


def test_without_a_ticket_the_old_broker_says_which_copy_it_is() -> None:
    scheme, host = prefetched()
    connect(scheme, OLD, None)
    host.take()

    scheme.mailbox.receive(OLD, Prefetched(client=CLIENT, epoch=Epoch(10.0, NEW), of=FIRST))

    delivered = [effect for effect in host.take() if effect[0] == "deliver"]
    assert delivered == [("deliver", CLIENT, event(n).id, "stored") for n in (1, 2)]
    assert len(scheme.held()) == 1


def test_no_prediction_or_the_same_broker_leaves_the_context_where_it_is() -> None:
    for expected in (None, OLD):
        scheme, host = left(expected)
        assert host.take() == []
        assert CLIENT in scheme.contexts


def test_the_old_broker_is_no_target_among_several() -> None:
    """A client that is expected elsewhere, and perhaps here: the context goes there, without a copy from us to us."""
    scheme, host = broker(OLD, NEW, targets=3)
    assert isinstance(scheme.predictor, Foretold)
    scheme.predictor.experience.went.update({OLD: 5, OTHER: 3})
    scheme.on_connect(CLIENT, None)
    scheme.on_subscribe(CLIENT, NEWS)
    host.take()

    scheme.on_disconnect(CLIENT, "vanished")

    assert host.take() == [("unicast", NEW, push(NEW, OTHER)), ("unicast", OTHER, push(NEW, OTHER))]


def test_learned_predictions_are_what_happened_most() -> None:
    """ "Broker 1 can make this prediction based, for example, on statistics of the mobility patterns of its
    clients." """
    learned = Learned()
    assert learned.predict(CLIENT, 2) == ()
    for went_to in (NEW, OTHER, OTHER):
        learned.observed(went_to, None)

    assert learned.predict(CLIENT, 1) == (OTHER,)
    assert learned.predict(CLIENT, 2) == (OTHER, NEW)

    learned.assumed(OTHER)  # a prediction, which then turns out wrong, twice
    learned.observed(NEW, assumed=OTHER)
    learned.assumed(OTHER)
    learned.observed(NEW, assumed=OTHER)
    assert learned.predict(CLIENT, 1) == (NEW,)


def test_a_perfect_prediction_needs_a_world_that_knows_the_future() -> None:
    host = RecordingHost()
    with pytest.raises(ConfigError, match="simulator"):
        options = PrefetchingOptions(prediction="perfect")
        scheme_at(OLD, host, RecordingRouter(OLD, host), "prefetching", options)


def test_a_copy_that_waits_too_long_is_given_up() -> None:
    host = RecordingHost()
    options = PrefetchingOptions(timeout_s=60.0)
    scheme = scheme_at(NEW, host, RecordingRouter(NEW, host), "prefetching", options, oracle=Plan(NEW))
    scheme.mailbox.receive(OLD, push())
    key = next(effect[1] for effect in host.take() if effect[0] == "set_timer")

    scheme.on_timer(key)

    assert scheme.held() == []
