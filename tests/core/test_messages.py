"""How messages are counted and weighed."""

from dataclasses import fields
from typing import Any

import pytest

import roamq.schemes.table  # noqa: F401 - brings the messages of all schemes
from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import EVENT_ID_BYTES, HEADER_BYTES, Message, Routed, kind_of
from roamq.overlay.messages import Subscribe
from roamq.schemes.messages.copies import Forwarded, PassiveCopy
from roamq.schemes.messages.handover import StoredEvents
from roamq.schemes.messages.home_broker import Forward, Recall
from roamq.schemes.messages.logging import StoredIds
from roamq.schemes.messages.neighbors import NeighborList

FILTER = Filter.parse("t", "x > 1")
EVENT = Event(id=EventId(BrokerId("b"), 1), topic="t", payload=b"12345")
WHO: dict[str, Any] = {"client": ClientId("s"), "epoch": Epoch(1.0, BrokerId("b"))}
CONTENTS = {"filter", "filters", "event", "events", "ids", "held", "neighbors"}


def kinds() -> list[type[Message]]:
    """Every message of the core, the overlay and the schemes."""
    found = [Message]
    for kind in found:
        found.extend(kind.__subclasses__())
    return [
        kind for kind in found if kind.__module__.startswith(("roamq.core", "roamq.overlay", "roamq.schemes"))
    ]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_what_a_message_carries_is_weighed(kind: type[Message]) -> None:
    contents = {field.name for field in fields(kind)} & CONTENTS

    assert {kind.carries} - {""} == contents


@pytest.mark.parametrize(
    ("message", "units", "content_bytes"),
    [
        (Recall(**WHO), 1, 0),
        (Subscribe(filter=FILTER), 1, len(str(FILTER))),
        (PassiveCopy(**WHO, filters=(FILTER, FILTER)), 2, 2 * len(str(FILTER))),
        (PassiveCopy(**WHO, filters=()), 1, 0),
        (Forward(**WHO, event=EVENT), 1, EVENT.size_bytes),
        (Forwarded(**WHO, events=(EVENT,) * 3), 3, 3 * EVENT.size_bytes),
        (Forwarded(**WHO, events=(), last=True), 1, 0),
        (StoredIds(**WHO, ids=(EVENT.id,) * 4), 1, 4 * EVENT_ID_BYTES),
        (NeighborList(neighbors=(BrokerId("b1"), BrokerId("b22"))), 1, 5),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else str(value),
)
def test_a_message_stands_for_what_it_carries(message: Message, units: int, content_bytes: int) -> None:
    assert message.units == units
    assert message.size_bytes == HEADER_BYTES + content_bytes


def test_a_routed_message_counts_and_weighs_as_what_it_takes_along() -> None:
    transfer = StoredEvents(**WHO, events=(EVENT,) * 3, position={})

    routed = Routed(to=BrokerId("a"), sender=BrokerId("b"), message=transfer)

    assert (routed.units, routed.size_bytes) == (3, transfer.size_bytes)
    assert kind_of(routed) == "stored_event"


def test_a_transfer_of_nothing_is_a_word_of_control() -> None:
    assert kind_of(StoredEvents(**WHO, events=(), position={})) == "closing"
