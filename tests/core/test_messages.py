"""How messages are counted and weighed."""

from dataclasses import fields
from typing import Any

import pytest

from roamq.core import messages, prehandoff_messages
from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import EVENT_ID_BYTES, HEADER_BYTES, Message

FILTER = Filter.parse("t", "x > 1")
EVENT = Event(id=EventId(BrokerId("b"), 1), topic="t", payload=b"12345")
WHO: dict[str, Any] = {"client": ClientId("s"), "epoch": Epoch(1.0, BrokerId("b"))}
CONTENTS = {"filter", "filters", "event", "events", "ids", "held", "neighbors"}


def kinds() -> list[type[Message]]:
    found = {**vars(messages), **vars(prehandoff_messages)}.values()
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, Message)]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_what_a_message_carries_is_weighed(kind: type[Message]) -> None:
    contents = {field.name for field in fields(kind)} & CONTENTS

    assert {kind.carries} - {""} == contents


@pytest.mark.parametrize(
    ("message", "units", "content_bytes"),
    [
        (messages.Recall(**WHO), 1, 0),
        (messages.Subscribe(filter=FILTER), 1, len(str(FILTER))),
        (messages.PassiveCopy(**WHO, filters=(FILTER, FILTER)), 2, 2 * len(str(FILTER))),
        (messages.PassiveCopy(**WHO, filters=()), 1, 0),
        (messages.Forward(**WHO, event=EVENT), 1, EVENT.size_bytes),
        (messages.Forwarded(**WHO, events=(EVENT,) * 3), 3, 3 * EVENT.size_bytes),
        (messages.Forwarded(**WHO, events=(), last=True), 1, 0),
        (messages.StoredIds(**WHO, ids=(EVENT.id,) * 4), 1, 4 * EVENT_ID_BYTES),
        (messages.NeighborList(neighbors=(BrokerId("b1"), BrokerId("b22"))), 1, 5),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else str(value),
)
def test_a_message_stands_for_what_it_carries(message: Message, units: int, content_bytes: int) -> None:
    assert message.units == units
    assert message.size_bytes == HEADER_BYTES + content_bytes


def test_a_routed_message_counts_and_weighs_as_what_it_takes_along() -> None:
    transfer = messages.StoredEvents(**WHO, events=(EVENT,) * 3, position={})

    routed = messages.Routed(to=BrokerId("a"), sender=BrokerId("b"), message=transfer)

    assert (routed.units, routed.size_bytes) == (3, transfer.size_bytes)
    assert messages.kind_of(routed) == "stored_event"


def test_a_transfer_of_nothing_is_a_word_of_control() -> None:
    assert messages.kind_of(messages.StoredEvents(**WHO, events=(), position={})) == "closing"
