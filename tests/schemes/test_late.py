"""What one broker owes others of contexts that went there, and what it awaits: ends, and what they cost."""

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.records import Record
from roamq.schemes.messages.handover import (
    AskLate,
    ContextRequest,
    LateEvents,
    NoContext,
    Release,
    StoredEvents,
    Subscriptions,
)
from roamq.schemes.parts.late import ASK_TIMER
from roamq.schemes.parts.part import Departure
from roamq.schemes.standard import Standard
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

OLD, NEW, DEAD = (BrokerId(f"b{n}") for n in range(1, 4))
CLIENT = ClientId("c")
NEWS = Filter.parse("news/#")


class LosingRouter(RecordingRouter):
    """A router of a network from which b1 is gone, if `gone` says so."""

    gone = False

    def is_departed(self, broker: BrokerId) -> bool:
        return self.gone and broker == OLD


def broker(me: BrokerId) -> tuple[Standard, RecordingHost, LosingRouter]:
    host = RecordingHost()
    host.time = 10.0
    router = LosingRouter(me, host)
    scheme: Standard = scheme_at(me, host, router, "standard")
    scheme.contexts.late_after_s = 1.0
    return scheme, host, router


def awaiting() -> tuple[Standard, RecordingHost, LosingRouter]:
    """b2 has the client's context from b1, but for what the dead b3 had published."""
    scheme, host, router = broker(NEW)
    scheme.on_connect(CLIENT, OLD)
    context = scheme.contexts[CLIENT]
    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=context.epoch, filters=(NEWS,)))
    rest = StoredEvents(client=CLIENT, epoch=context.epoch, events=(), position={}, late=(DEAD,))
    scheme.mailbox.receive(OLD, rest)
    assert scheme.parts.awaited() == {OLD: 1}
    scheme.on_event(event(7, origin=DEAD, topic="news/x"))
    host.take()
    return scheme, host, router


def owing(clients: int) -> Standard:
    """b1 has given so many contexts to b2, but for what the dead b3 had published."""
    scheme, _, _ = broker(OLD)
    for number in range(clients):
        client, epoch = ClientId(f"c{number}"), Epoch(20.0 + number, NEW)
        scheme.on_connect(client, None)
        scheme.on_subscribe(client, NEWS)
        scheme.on_disconnect(client, "vanished")
        scheme.mailbox.receive(NEW, ContextRequest(client=client, epoch=epoch, new_broker=NEW))
        release = Release(client=client, epoch=epoch, new_broker=NEW, fence={DEAD: 5}, takes_late=True)
        scheme.mailbox.receive(NEW, release)
        scheme.on_timer(("late", client))
    assert len(scheme.handover.late.owing) == clients
    return scheme


@pytest.mark.parametrize("is_lost", [False, True])
def test_who_departed_sends_nothing_on_and_that_is_recorded(is_lost: bool) -> None:
    scheme, host, router = awaiting()
    router.gone = True
    scheme.on_departed(OLD, Departure(is_lost))

    assert [effect[0] for effect in host.take() if effect[0] == "deliver"] == ["deliver"], (
        "what waited goes on"
    )
    missed = Record("missed", 10.0, NEW, CLIENT, DEAD, peer=OLD, detail="broker_departed")
    assert [record for record in host.records if record.kind == "missed"] == [missed]
    assert scheme.parts.awaited() == {}


def test_who_has_forgotten_what_it_owed_is_asked_and_that_is_recorded() -> None:
    scheme, host, _ = awaiting()
    scheme.on_timer((ASK_TIMER,))
    question = AskLate(client=CLIENT, epoch=scheme.contexts[CLIENT].epoch)
    assert ("unicast", OLD, question) in host.take()
    answer = LateEvents(client=CLIENT, epoch=question.epoch, events=(), origins=None)
    scheme.mailbox.receive(OLD, answer)

    missed = Record("missed", 10.0, NEW, CLIENT, DEAD, peer=OLD, detail="store_lost")
    assert [record for record in host.records if record.kind == "missed"] == [missed]


def test_what_comes_late_and_whole_is_not_missed() -> None:
    scheme, host, _ = awaiting()
    context = scheme.contexts[CLIENT]
    late = (event(5, origin=DEAD, topic="news/x"),)
    rest = LateEvents(client=CLIENT, epoch=context.epoch, events=late, origins=(DEAD,))
    scheme.mailbox.receive(OLD, rest)

    assert [record for record in host.records if record.kind == "missed"] == []
    assert scheme.parts.awaited() == {}


class Unscanned(dict[Any, Any]):
    """A table that nobody may go through."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("somebody looks at everything")

    def _scan(self) -> NoReturn:
        raise AssertionError("somebody looks at everything")

    keys = values = items = _scan


def test_a_session_that_ends_costs_what_is_owed_to_its_client_and_nothing_for_others() -> None:
    late = owing(20).handover.late
    late.on_ended(ClientId("c0"), Epoch(100.0, NEW))  # from now on it is known whose is what
    late.owing, late.given_up = Unscanned(late.owing), Unscanned(late.given_up)

    late.on_ended(ClientId("c1"), Epoch(5.0, NEW))
    assert len(late.owing) == 19, "an earlier session of the client"
    for number in range(1, 20):
        late.on_ended(ClientId(f"c{number}"), Epoch(100.0, NEW))
    assert len(late.owing) == 0
    assert late.late == {}
    assert late._of_client == {}


@pytest.mark.parametrize("is_lost", [False, True])
def test_who_dies_halfway_through_a_hand_over_has_what_was_left(is_lost: bool) -> None:
    scheme, host, router = broker(NEW)
    scheme.on_connect(CLIENT, OLD)
    epoch = scheme.contexts[CLIENT].epoch
    scheme.mailbox.receive(OLD, Subscriptions(client=CLIENT, epoch=epoch, filters=(NEWS,)))
    router.gone = is_lost
    scheme.mailbox.receive(OLD, NoContext(client=CLIENT, epoch=epoch, forgot=True))

    why = "broker_departed" if is_lost else "store_lost"
    missed = Record("missed", 10.0, NEW, CLIENT, peer=OLD, detail=why)
    assert [record for record in host.records if record.kind == "missed"] == [missed]
