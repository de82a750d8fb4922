"""Who has forgotten does not deny, nor does who is silent: what was asked for in vain is sought at every broker."""

from dataclasses import replace

import pytest

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.messages.handover import (
    ContextRequest,
    Holding,
    NoContext,
    StoredEvents,
    Subscriptions,
    WhoHolds,
)
from roamq.schemes.parts.inquiries import SILENT_TIMER
from roamq.schemes.parts.part import Departure
from roamq.schemes.standard import Standard
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

OLD, NEW, THIRD, FOURTH = (BrokerId(f"b{n}") for n in range(1, 5))
CLIENT = ClientId("c")
EPOCH = Epoch(10.0, NEW)
LAST, LATER = Epoch(7.0, OLD), Epoch(8.0, FOURTH)
"""Of the client: the last connection that b2 has heard of, and one that it has not."""
QUESTION = WhoHolds(client=CLIENT, epoch=EPOCH)
REQUEST = ContextRequest(client=CLIENT, epoch=EPOCH, new_broker=NEW)


class KnownRouter(RecordingRouter):
    """A router of a network of four brokers."""

    def brokers(self) -> tuple[BrokerId, ...]:
        return (OLD, NEW, THIRD, FOURTH)


def broker(me: BrokerId) -> tuple[Standard, RecordingHost]:
    host = RecordingHost()
    scheme: Standard = scheme_at(me, host, KnownRouter(me, host), "standard")
    return scheme, host


def asking() -> tuple[Standard, RecordingHost]:
    """The client came from b1 to b2; b1 has forgotten."""
    scheme, host = broker(NEW)
    host.time = EPOCH.connected_at
    scheme.on_connect(CLIENT, OLD)
    host.take()
    scheme.mailbox.receive(OLD, NoContext(client=CLIENT, epoch=EPOCH, forgot=True))
    return scheme, host


def holding(at: BrokerId | None = None, newer: Epoch | None = None, of: Epoch | None = None) -> Holding:
    return Holding(client=CLIENT, epoch=EPOCH, at=at, newer=newer, of=of)


def test_a_broker_that_begins_anew_says_that_it_may_have_forgotten() -> None:
    scheme, host = broker(OLD)
    scheme.mailbox.receive(NEW, REQUEST)
    assert host.take() == [("unicast", NEW, NoContext(client=CLIENT, epoch=EPOCH))]
    scheme.contexts.is_doubted = True
    scheme.mailbox.receive(NEW, REQUEST)
    assert host.take() == [("unicast", NEW, NoContext(client=CLIENT, epoch=EPOCH, forgot=True))]


def test_all_other_brokers_are_asked_and_the_first_that_knows_is_claimed_from() -> None:
    scheme, host = asking()
    assert host.take() == [("unicast", THIRD, QUESTION), ("unicast", FOURTH, QUESTION)]
    scheme.mailbox.receive(THIRD, holding(at=FOURTH))
    assert host.take() == [("unicast", FOURTH, REQUEST)]
    scheme.mailbox.receive(FOURTH, holding(at=FOURTH))
    assert host.take() == [], "it has been asked already"
    news = Filter.parse("news/#")
    scheme.mailbox.receive(FOURTH, Subscriptions(client=CLIENT, epoch=EPOCH, filters=(news,)))
    assert host.take()[0] == ("subscribe", news)


def test_a_client_begins_with_nothing_only_if_all_have_answered() -> None:
    scheme, host = asking()
    host.take()
    scheme.mailbox.receive(THIRD, holding())
    assert host.take() == []
    scheme.mailbox.receive(FOURTH, holding())
    assert host.take() == [("ready", CLIENT)]


def test_a_broker_that_is_named_and_has_forgotten_too_is_not_asked_again() -> None:
    scheme, host = asking()
    scheme.mailbox.receive(THIRD, holding(at=FOURTH))
    scheme.mailbox.receive(FOURTH, holding())
    host.take()
    scheme.mailbox.receive(FOURTH, NoContext(client=CLIENT, epoch=EPOCH, forgot=True))
    assert host.take() == [("ready", CLIENT)]


def test_a_later_connection_that_others_know_of_is_given_way_to() -> None:
    scheme, host = asking()
    host.take()
    scheme.mailbox.receive(THIRD, holding(newer=Epoch(12.0, THIRD)))
    scheme.mailbox.receive(FOURTH, holding())
    assert host.take() == [("detach", CLIENT, "taken over")]
    assert CLIENT not in scheme.contexts


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_broker_that_departed_is_not_waited_for(is_lost: bool) -> None:
    scheme, host = asking()
    scheme.mailbox.receive(THIRD, holding())
    host.take()
    scheme.on_departed(FOURTH, Departure(is_lost))
    assert host.take() == [("ready", CLIENT)]


def test_what_a_lost_broker_was_asked_for_is_sought_elsewhere() -> None:
    scheme, host = broker(NEW)
    host.time = EPOCH.connected_at
    scheme.on_connect(CLIENT, OLD)
    host.take()
    scheme.on_departed(OLD, Departure(is_lost=True))
    assert host.take() == [("unicast", THIRD, QUESTION), ("unicast", FOURTH, QUESTION)]


def test_a_broker_names_itself_or_where_the_context_went_or_a_later_connection() -> None:
    scheme, host = broker(THIRD)
    scheme.on_connect(CLIENT, None)
    scheme.on_disconnect(CLIENT, "vanished")
    host.take()
    scheme.mailbox.receive(NEW, QUESTION)
    assert host.take() == [("unicast", NEW, holding(at=THIRD, of=Epoch(0.0, THIRD)))]
    gone = Epoch(5.0, FOURTH)
    scheme.mailbox.receive(FOURTH, ContextRequest(client=CLIENT, epoch=gone, new_broker=FOURTH))
    host.take()
    scheme.mailbox.receive(NEW, QUESTION)
    assert host.take() == [("unicast", NEW, holding(at=FOURTH, of=gone))]
    scheme.handover.whereabouts.remember(CLIENT, Epoch(20.0, FOURTH))
    scheme.mailbox.receive(NEW, QUESTION)
    assert host.take() == [("unicast", NEW, holding(newer=Epoch(20.0, FOURTH)))]


def test_a_broker_that_awaits_the_context_again_does_not_lead_to_where_it_went_before() -> None:
    """The client went from b3 to b4, which begins anew, and back; it was at b2, and at b3 again, before b3 had it."""
    scheme, host = broker(THIRD)
    scheme.on_connect(CLIENT, None)
    scheme.mailbox.receive(FOURTH, ContextRequest(client=CLIENT, epoch=Epoch(5.0, FOURTH), new_broker=FOURTH))
    host.time = 8.0
    scheme.on_connect(CLIENT, FOURTH)
    scheme.on_disconnect(CLIENT, "vanished")
    host.time = 12.0
    scheme.on_connect(CLIENT, THIRD)
    host.take()
    scheme.mailbox.receive(NEW, REQUEST)
    assert host.take() == [], "it waits for what b3 awaits"
    scheme.mailbox.receive(NEW, QUESTION)
    assert host.take() == [("unicast", NEW, holding(at=THIRD, of=Epoch(8.0, THIRD)))]
    back = StoredEvents(client=CLIENT, epoch=Epoch(8.0, THIRD), events=(), position={})
    scheme.mailbox.receive(FOURTH, back)
    sent_away = NoContext(client=CLIENT, epoch=EPOCH, newer=Epoch(12.0, THIRD))
    assert [effect for effect in host.take() if effect[0] == "unicast"] == [("unicast", NEW, sent_away)]


def silent() -> tuple[Standard, RecordingHost]:
    """The client came from b1 to b2; b1 says nothing for as long as b2 is to wait."""
    scheme, host = broker(NEW)
    scheme.contexts.late_after_s = 1.0
    scheme.contexts.comes = (CLIENT, LAST)
    host.time = EPOCH.connected_at
    scheme.on_connect(CLIENT, OLD)
    assert ("set_timer", (SILENT_TIMER, CLIENT), 1.0) in host.take()
    scheme.on_timer((SILENT_TIMER, CLIENT))
    assert host.take() == [("unicast", THIRD, QUESTION), ("unicast", FOURTH, QUESTION)]
    return scheme, host


def subscriptions() -> Subscriptions:
    return Subscriptions(client=CLIENT, epoch=EPOCH, filters=(Filter.parse("news/#"),))


def test_what_a_silent_broker_was_asked_for_is_claimed_where_it_is_named_and_the_silent_one_does_not_count() -> (
    None
):
    scheme, host = silent()
    scheme.mailbox.receive(THIRD, holding(at=FOURTH, of=LATER))
    assert host.take() == [("unicast", FOURTH, REQUEST)]
    scheme.mailbox.receive(FOURTH, holding(at=FOURTH, of=LATER))
    assert host.take() == [], "it has been asked already"
    scheme.mailbox.receive(FOURTH, subscriptions())
    assert host.take()[0][0] == "subscribe"
    scheme.mailbox.receive(OLD, NoContext(client=CLIENT, epoch=EPOCH))
    scheme.mailbox.receive(THIRD, NoContext(client=CLIENT, epoch=EPOCH, forgot=True))
    assert host.take() == [], "the context is on its way from b4"


def test_a_silent_broker_is_waited_for_if_nobody_names_another_one() -> None:
    scheme, host = silent()
    scheme.mailbox.receive(THIRD, holding())
    scheme.mailbox.receive(FOURTH, holding(at=OLD, of=LAST))
    assert host.take() == []
    scheme.mailbox.receive(OLD, subscriptions())
    assert host.take()[0][0] == "subscribe"


def test_who_was_named_and_denies_is_not_the_last_to_be_heard() -> None:
    scheme, host = silent()
    scheme.mailbox.receive(THIRD, holding(at=FOURTH, of=LATER))
    host.take()
    scheme.mailbox.receive(FOURTH, NoContext(client=CLIENT, epoch=EPOCH))
    scheme.mailbox.receive(FOURTH, holding())
    assert host.take() == [], "b1 has not answered"
    scheme.mailbox.receive(OLD, NoContext(client=CLIENT, epoch=EPOCH))
    assert host.take() == [("ready", CLIENT)]


def sent_away() -> tuple[Standard, RecordingHost]:
    """b4 awaited the context, was asked for it, and awaits it for a later connection of the client now."""
    scheme, host = silent()
    scheme.mailbox.receive(THIRD, holding(at=FOURTH, of=LATER))
    host.take()
    later = NoContext(client=CLIENT, epoch=EPOCH, newer=Epoch(12.0, FOURTH), awaits=True)
    scheme.mailbox.receive(FOURTH, later)
    scheme.mailbox.receive(FOURTH, holding(at=FOURTH, of=LATER))
    return scheme, host


def test_a_later_connection_is_not_given_way_to_while_a_silent_broker_may_have_sent_the_context() -> None:
    scheme, host = sent_away()
    later = ContextRequest(client=CLIENT, epoch=Epoch(12.0, FOURTH), new_broker=FOURTH)
    scheme.mailbox.receive(FOURTH, later)
    assert host.take() == [], "b1 may have sent it"
    scheme.mailbox.receive(OLD, subscriptions())
    assert host.take()[0][0] == "subscribe"
    nothing_more = StoredEvents(client=CLIENT, epoch=EPOCH, events=(), position={})
    scheme.mailbox.receive(OLD, nothing_more)
    assert [effect[1] for effect in host.take() if effect[0] == "unicast"] == [FOURTH], "it goes on to b4"


def test_a_later_connection_is_given_way_to_when_all_have_answered() -> None:
    scheme, host = sent_away()
    scheme.mailbox.receive(OLD, NoContext(client=CLIENT, epoch=EPOCH))
    assert host.take() == [("detach", CLIENT, "taken over")]
    assert CLIENT not in scheme.contexts


def test_who_has_given_the_context_and_lost_its_store_is_as_good_as_silent() -> None:
    scheme, host = silent()
    scheme.mailbox.receive(THIRD, holding(at=FOURTH, of=LATER))
    scheme.mailbox.receive(FOURTH, holding(at=FOURTH, of=LATER))
    scheme.mailbox.receive(FOURTH, subscriptions())
    host.take()
    scheme.mailbox.receive(FOURTH, NoContext(client=CLIENT, epoch=EPOCH, forgot=True))
    scheme.mailbox.receive(OLD, NoContext(client=CLIENT, epoch=EPOCH, forgot=True))
    assert host.take() == [("ready", CLIENT)]


def test_a_claim_that_comes_another_way_to_who_has_answered_it_is_told_where_the_context_went() -> None:
    scheme, host = broker(THIRD)
    scheme.on_connect(CLIENT, None)
    scheme.on_disconnect(CLIENT, "vanished")
    host.take()
    scheme.mailbox.receive(NEW, REQUEST)
    assert [type(effect[2]) for effect in host.take()] == [Subscriptions]
    scheme.mailbox.receive(OLD, replace(REQUEST, after=Epoch(3.0, THIRD)))
    assert host.take() == [("unicast", NEW, NoContext(client=CLIENT, epoch=EPOCH, is_given=True))]


def awaiting_again(newer: NoContext) -> tuple[Standard, RecordingHost]:
    """The client was at b3 before and after it was at b2, and its context has come to neither: b1 tells b3 why."""
    scheme, host = broker(THIRD)
    host.time = 9.0
    scheme.on_connect(CLIENT, OLD)
    scheme.on_disconnect(CLIENT, "vanished")
    host.time = 12.0
    scheme.on_connect(CLIENT, THIRD)
    scheme.mailbox.receive(NEW, REQUEST)
    host.take()
    scheme.mailbox.receive(OLD, newer)
    return scheme, host


def answers_to(host: RecordingHost, broker: BrokerId) -> list[object]:
    return [effect[2] for effect in host.take() if effect[:2] == ("unicast", broker)]


def test_who_was_told_that_the_context_went_to_the_claimer_does_not_send_it_away() -> None:
    went = NoContext(client=CLIENT, epoch=Epoch(9.0, THIRD), newer=EPOCH)
    _, host = awaiting_again(went)
    again = ContextRequest(client=CLIENT, epoch=Epoch(12.0, THIRD), new_broker=THIRD)
    assert answers_to(host, NEW) == [again, NoContext(client=CLIENT, epoch=EPOCH, is_given=True)]


def test_who_was_told_that_the_claimer_waits_for_the_context_does_not_say_that_it_went_there() -> None:
    waits = NoContext(client=CLIENT, epoch=Epoch(9.0, THIRD), newer=EPOCH, awaits=True)
    _, host = awaiting_again(waits)
    again = ContextRequest(client=CLIENT, epoch=Epoch(12.0, THIRD), new_broker=THIRD)
    later = NoContext(client=CLIENT, epoch=EPOCH, newer=Epoch(12.0, THIRD), awaits=True)
    assert answers_to(host, NEW) == [again, later]


def test_a_broker_whose_own_connection_is_named_asks_the_others_and_not_itself() -> None:
    """b1 has heard that the client came back to b2, where its context has not come."""
    scheme, host = broker(NEW)
    scheme.contexts.late_after_s = 1.0
    host.time = EPOCH.connected_at
    scheme.on_connect(CLIENT, OLD)
    scheme.on_disconnect(CLIENT, "vanished")
    host.time = 12.0
    scheme.on_connect(CLIENT, NEW)
    host.take()
    own = NoContext(client=CLIENT, epoch=EPOCH, newer=Epoch(12.0, NEW), awaits=True)
    scheme.mailbox.receive(OLD, own)
    assert host.take() == [("unicast", THIRD, QUESTION), ("unicast", FOURTH, QUESTION)]
    scheme.mailbox.receive(THIRD, holding(newer=Epoch(12.0, NEW)))
    scheme.mailbox.receive(FOURTH, holding())
    assert host.take() == [("ready", CLIENT)]


def test_a_broker_that_restarts_does_not_wait_for_the_silent_either() -> None:
    scheme, host = broker(NEW)
    scheme.contexts.late_after_s = 1.0
    scheme.contexts.comes = (CLIENT, LAST)
    scheme.on_connect(CLIENT, OLD)
    host.take()
    scheme.on_restart()
    assert ("set_timer", (SILENT_TIMER, CLIENT), 1.0) in host.take()


def test_what_is_older_than_the_connection_at_the_silent_broker_was_left_behind() -> None:
    """b1 may have served the client from a copy, of which b4 has not heard."""
    scheme, host = silent()
    scheme.mailbox.receive(FOURTH, holding(at=FOURTH, of=Epoch(6.0, FOURTH)))
    scheme.mailbox.receive(
        THIRD, holding(at=FOURTH)
    )  # a broker of the release before does not say what it has
    assert host.take() == []
