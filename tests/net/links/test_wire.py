"""Messages between brokers as bytes: what is written by hand for speed is what MessagePack would write."""

import msgspec
import pytest

from roamq.core.events import BrokerId, Event, EventId
from roamq.net.clients.mqtt.codec.publishing import EncodedMessage, cost_of
from roamq.net.links import wire


def event(payload_bytes: int, retain: bool = False, carried: bytes = b"") -> Event:
    payload = b"x" * payload_bytes
    return Event(
        EventId(BrokerId("b1"), 7),
        "t",
        payload=payload,
        published_at=1.5,
        qos=0,
        retain=retain,
        properties=EncodedMessage("t", payload, carried),
    )


@pytest.mark.parametrize("payload_bytes", [0, 64, *range(210, 240), 70_000])
def test_an_event_of_any_length_is_one_extension_and_comes_back(payload_bytes: int) -> None:
    said = event(payload_bytes)

    data = wire.encode(said)

    body = msgspec.msgpack.encode(wire.event_values(said))
    assert data == msgspec.msgpack.encode(msgspec.msgpack.Ext(2, body))
    read = wire.decode(data)
    assert isinstance(read, Event)
    assert wire.event_values(read) == wire.event_values(said)


@pytest.mark.parametrize("carried", [b"", b"\x01\x01"])
@pytest.mark.parametrize("retain", [False, True])
def test_an_event_that_came_costs_what_it_costs_where_it_entered(retain: bool, carried: bytes) -> None:
    read = wire.decode(wire.encode(event(64, retain, carried)))

    assert isinstance(read, Event)
    assert read.cost_bytes == cost_of("t", b"x" * 64, carried, retain=retain)


def test_values_that_a_later_release_adds_are_passed_over() -> None:
    said = event(3)

    read = wire.event_of_values((*wire.event_values(said), "new", 1))

    assert wire.event_values(read) == wire.event_values(said)
