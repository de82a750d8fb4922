"""What stored events cost of the memory is what they are charged, within a factor of two."""

import gc
import tracemalloc

import pytest
from benchmarks import memory

from roamq.net.clients.mqtt.codec import (
    NO_PROPERTIES,
    Connect,
    Properties,
    Publish,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)
from roamq.net.machine import Machine
from tests.support.live_world import settings

EVENTS = 2000
MESSAGES = {
    "tiny": (b"x", NO_PROPERTIES),
    "1 kB": (b"x" * 1000, NO_PROPERTIES),
    "10 kB": (b"x" * 10_000, NO_PROPERTIES),
    "10 user properties": (
        b"x",
        Properties(user_properties=tuple((f"name {n}", f"value {n}") for n in range(10))),
    ),
    "long properties": (b"x", Properties(correlation_data=b"c" * 10_000, response_topic="r" * 1000)),
    "long user property": (b"x", Properties(user_properties=(("a", "v" * 5000),))),
    "expiry": (b"x" * 100, Properties(message_expiry_interval=1000)),
}


def enter(machine: Machine, number: int, name: str) -> None:
    machine.opened(number, 1000.0, "test", "client")
    connect = Connect(client_id=name, properties=Properties(session_expiry_interval=1000))
    machine.received(number, encode(connect, Version.V5), 1000.0)
    machine.authenticated(number, None, 1000.0, allowed=True)


@pytest.mark.parametrize("what", MESSAGES)
def test_a_stored_event_is_charged_what_it_costs(what: str) -> None:
    """The review's finding: 950 bytes of memory for 2 that were counted."""
    payload, properties = MESSAGES[what]
    machine = Machine(settings("b1", 1, "standard"), 1000.0)
    enter(machine, 1, "sleeper")
    enter(machine, 2, "publisher")
    machine.received(1, encode(Subscribe(1, (SubscriptionRequest("t", 1),)), Version.V5), 1000.0)
    machine.lost(1, 1000.0)
    machine.take_outputs()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(1, EVENTS + 1):
        packet = Publish("t", payload, 1, packet_id=number, properties=properties)
        machine.received(2, encode(packet, Version.V5), 1000.0)
        for connection in machine.take_outputs().dirty.values():
            connection.output.clear()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    status = machine.status()
    assert status.stored_events == EVENTS
    assert 0.5 < status.stored_bytes / grown < 2.0, (status.stored_bytes / EVENTS, grown / EVENTS)


@pytest.mark.parametrize("what", memory.KINDS)
def test_everything_that_a_client_leaves_behind_is_charged_what_it_costs(what: str) -> None:
    charged, grown = memory.measured(memory.KINDS[what])

    assert 0.5 < charged / grown < 2.0, (charged, grown)
