"""Long queues end, move and are acknowledged in steps that are short: nobody else waits for them."""

import asyncio
import os
import threading
from pathlib import Path
from random import Random

import pytest
from benchmarks.memory import NOW, Broker

from roamq.broker.discards import EVENTS_AT_ONCE, FILTERS_AT_ONCE, RELEASE_TIMER
from roamq.core.buffers import EventBuffer
from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.messages import Message, Routed
from roamq.net.clients.mqtt.codec import Connect, Version, encode
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.durable.snapshots import SYNCED_AT_ONCE_BYTES
from roamq.net.links.outboxes import Outboxes
from roamq.net.links.protocol import Frame
from roamq.net.ops.local import local_network
from roamq.schemes.messages.handover import StoredEvents
from roamq.schemes.parts.transfers import PART_EVENTS
from tests.net.fleet import Fleet
from tests.net.live import PlainClient, port_of, running, write_network
from tests.support.contexts import next_to_send
from tests.support.waiting import eventually

LONG = 3 * EVENTS_AT_ONCE + 1


def begun_anew() -> LiveBroker:
    """A broker at which a client with a long queue has just come back with Clean Start 1."""
    broker = Broker()
    broker.connect(1)
    broker.subscribe(1, "t")
    broker.lose(1)
    broker.connect(2)
    for number in range(LONG):
        broker.publish(2, "t", b"%d" % number)
    live = broker.live
    live.apply((int(InputKind.OPENED), NOW, 3, "0:mqtt", "127.0.0.1:50000"))
    live.received(NOW, 3, encode(Connect(client_id="client-1", clean_start=True), Version.V5))
    live.take()
    live.apply((int(InputKind.AUTHENTICATED), NOW, 3, "user-1", True))
    broker.settle()
    return live


def test_the_end_of_a_long_queue_is_cut_into_steps() -> None:
    live = begun_anew()
    left = [live.status().stored_events]
    while RELEASE_TIMER in live.timers:
        live.apply((int(InputKind.TIMER), NOW, RELEASE_TIMER))
        live.take()
        left.append(live.status().stored_events)

    assert left == [LONG, LONG - 1000, LONG - 2000, LONG - 3000, 0]
    assert live.status().stored_bytes == 0, "what is not released yet is counted, and nothing else is"


def test_a_queue_that_is_half_gone_survives_a_restart_as_it_is() -> None:
    live = begun_anew()
    live.apply((int(InputKind.TIMER), NOW, RELEASE_TIMER))
    live.take()
    again = snapshot.load(snapshot.dump(live))

    for one in (live, again):
        while RELEASE_TIMER in one.timers:
            one.apply((int(InputKind.TIMER), NOW, RELEASE_TIMER))
            one.take()
        assert one.status().stored_events == one.status().stored_bytes == 0
    assert snapshot.dump(again) == snapshot.dump(live)


def test_the_end_of_a_session_with_thousands_of_subscriptions_is_cut_into_steps() -> None:
    """Nothing is stored for it meanwhile, and the client may subscribe to the same again."""
    broker = Broker()
    broker.connect(1)
    broker.connect(2)
    for number in range(2 * FILTERS_AT_ONCE + 1):
        broker.subscribe(1, f"a/{number}/+")
    broker.lose(1)
    live = broker.live
    broker.publish(2, "a/7/x", b"for the old session")
    live.apply((int(InputKind.OPENED), NOW, 3, "0:mqtt", "127.0.0.1:50000"))
    live.received(NOW, 3, encode(Connect(client_id="client-1", clean_start=True), Version.V5))
    live.take()
    live.apply((int(InputKind.AUTHENTICATED), NOW, 3, "user-1", True))
    broker.settle()
    index = live.machine.broker.contexts.watched.index
    assert len(index) == 2 * FILTERS_AT_ONCE + 1
    assert live.status().stored_events == 0
    broker.publish(2, "a/7/x", b"for nobody")
    assert live.status().stored_events == 0
    broker.subscribe(3, "a/8/+")

    left = []
    for one in (live, snapshot.load(snapshot.dump(live))):
        while RELEASE_TIMER in one.timers:
            one.apply((int(InputKind.TIMER), NOW, RELEASE_TIMER))
            one.take()
            left.append(len(one.machine.broker.contexts.watched.index))
        broker.live = one
        broker.publish(2, "a/7/x", b"for nobody")
        assert one.status().stored_events == 0
        broker.publish(2, "a/8/x", b"for the new one")
        assert one.status().stored_events == 1

    assert left == [FILTERS_AT_ONCE + 2, 2, 1] * 2


@pytest.mark.parametrize("scheme", ["standard", "proactive", "prefetching", "logging", "prehandoff"])
def test_a_long_queue_moves_in_parts_and_in_order(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[object] = []
    add = Outboxes.add

    def note(outboxes: Outboxes, to: BrokerId, said: Message | Event) -> Frame | None:
        messages.append(said)
        return add(outboxes, to, said)

    monkeypatch.setattr(Outboxes, "add", note)
    fleet = Fleet(1, scheme, 2, handoff_timeout_s=1000.0)
    mover, publisher = fleet.client("mover"), fleet.client("publisher")
    mover.connect("b1")
    publisher.connect("b1")
    mover.subscribe("t", 1)
    fleet.settle()
    mover.vanish()
    sent = [b"%d" % number for number in range(2 * PART_EVENTS + 50)]
    for first in range(0, len(sent), 50):
        for payload in sent[first : first + 50]:
            publisher.publish("t", payload, 1)
        fleet.settle()
    mover.connect("b2")
    while not fleet.machines[BrokerId("b2")].status().stored_events:
        fleet.step()
    fleet.crash("b2")  # in the middle of it
    mover.connect("b2")
    fleet.settle(40_000)

    assert mover.payloads() == sent
    assert not fleet.machines[BrokerId("b1")].status().stored_events
    inside = (said.message for said in messages if isinstance(said, Routed))
    parts = [len(said.events) for said in inside if isinstance(said, StoredEvents)]
    assert sum(parts) == len(sent)
    assert max(parts) <= PART_EVENTS or scheme == "logging"


@pytest.mark.parametrize("seed", range(20))
def test_acknowledgements_in_any_order_are_taken_as_one_by_one(seed: int) -> None:
    """Beside a list that is searched from the front each time."""
    chance = Random(seed)
    context = Context(ClientId("c"), epoch=Epoch(1.0, BrokerId("b")), mode=Mode.SERVING, buffer=EventBuffer())
    flying: list[EventId] = []
    acknowledged: set[EventId] = set()
    number = 0
    for _ in range(400):
        if chance.random() < 0.5:
            number += 1
            event_id = EventId(BrokerId("b"), number)
            context.admit(Event(id=event_id, topic="t"))
            if chance.random() < 0.9 and next_to_send(context) is not None:
                flying.append(context.stored[context.in_flight - 1].event.id)
        known = [EventId(BrokerId("b"), chance.randint(0, number + 1)), *flying[-3:]]
        event_id = chance.choice(known)
        was_in_flight = event_id in flying
        assert context.acknowledge(event_id) == was_in_flight
        if was_in_flight:
            acknowledged.add(event_id)
            while flying and flying[0] in acknowledged:
                acknowledged.remove(flying.pop(0))
        if chance.random() < 0.02:
            context.return_in_flight()
            flying.clear()
            acknowledged.clear()
        assert context.in_flight == len(flying)
        assert [held.event.id for held in context.stored][: len(flying)] == flying


@pytest.mark.live
def test_a_segment_that_ends_waits_for_the_disk_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty-four mebibytes of journal take a disk hundreds of milliseconds."""
    left: list[tuple[bool, int]] = []
    synced: dict[int, int] = {}
    sync = os.fdatasync

    def note(file: int) -> None:
        size, inode = os.fstat(file).st_size, os.fstat(file).st_ino
        on_the_loop = threading.current_thread() is threading.main_thread()
        left.append((on_the_loop, size - synced.get(inode, 0)))
        synced[inode] = size
        sync(file)

    async def scenario() -> None:
        network = write_network(tmp_path, local_network(1, scheme="standard"))
        async with running(network) as servers:
            publisher = PlainClient("publisher")
            await publisher.connect(port_of(network, "b1"))
            for _ in range(4):
                publisher.publish("t", bytes(900_000), 1)
            await eventually(lambda: not publisher.unacknowledged)
            monkeypatch.setattr(os, "fdatasync", note)
            await servers["b1"].snapshots.take()
            monkeypatch.undo()
            publisher.drop()

    asyncio.run(scenario())

    assert any(size > 3_000_000 for on_the_loop, size in left if not on_the_loop)
    assert all(size < SYNCED_AT_ONCE_BYTES for on_the_loop, size in left if on_the_loop), left
