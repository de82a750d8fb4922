"""Clients that send without a pause take turns, and what waits for a client is sent in slices."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.net.clients import turns
from roamq.net.clients.mqtt.codec import (
    Connect,
    EncodedMessage,
    Pingreq,
    Properties,
    Publish,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)
from roamq.net.clients.turns import Slices, Turns
from roamq.net.host import BURST_BYTES, BURST_TIMER
from roamq.net.links import wire
from roamq.net.machine import Machine
from roamq.net.ops.local import local_network
from tests.net.live import PlainClient, port_of, running, write_network
from tests.support.live_world import settings
from tests.support.waiting import eventually


class Talker:
    """A connection with a number of slices to handle."""

    def __init__(self, name: str, count: int, log: list[str]) -> None:
        self.name, self.left, self.log = name, count, log

    def take_turn(self) -> bool:
        self.log.append(self.name)
        self.left -= 1
        return self.left > 0

    def abort(self) -> None:
        raise AssertionError("it did nothing wrong")


class Loop:
    def __init__(self) -> None:
        self.ready: list[Any] = []

    def call_soon(self, act: Any) -> None:
        self.ready.append(act)


def test_those_who_have_more_to_say_take_turns_and_the_loop_gets_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock) * turns.ROUND_S / 3)
    log: list[str] = []
    loop = Loop()
    queue = Turns(loop)  # type: ignore[arg-type]
    for name in "ab":
        queue.add(Talker(name, 4, log))

    rounds = []
    while loop.ready:
        assert len(loop.ready) == 1
        before = len(log)
        loop.ready.pop()()
        rounds.append("".join(log[before:]))

    assert "".join(log) == "abababab"
    assert rounds[:2] == ["aba", "bab"], "after its time the loop looks at the sockets"
    assert len(queue) == 0


def test_a_connection_whose_slice_fails_is_closed_and_the_others_go_on() -> None:
    class Broken(Talker):
        aborted = False

        def take_turn(self) -> bool:
            super().take_turn()
            assert len(queue) == 2, "while it is handled it counts as one that has more to read"
            raise AssertionError

        def abort(self) -> None:
            self.aborted = True

    log: list[str] = []
    loop = Loop()
    queue = Turns(loop)  # type: ignore[arg-type]
    broken = Broken("a", 4, log)
    queue.add(broken)
    queue.add(Talker("b", 2, log))

    with pytest.raises(AssertionError):
        loop.ready.pop()()
    while loop.ready:
        loop.ready.pop()()

    assert broken.aborted
    assert log == ["a", "b", "b"]


def test_a_slice_is_as_long_as_its_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    slices = Slices()
    slices.add(bytes(1_000_000))
    sizes = []
    for cost_s in [0.0] * 3 + [1e-6] * 20:

        def act(data: bytes, cost_s: float = cost_s) -> None:
            sizes.append(len(data))
            now[0] += cost_s * len(data)

        slices.size = slices.handle(slices.next(), act)

    assert sizes[:3] == [2048, 4096, 8192], "what costs nothing may be long"
    assert all(size * 1e-6 <= turns.SLICE_S for size in sizes[-5:])
    assert min(sizes) >= turns.SLICE_BYTES_MIN
    assert len(slices) == 1_000_000 - sum(sizes)


def test_what_waits_for_a_client_is_sent_in_slices() -> None:
    """Without this the whole queue left in the input that let its client in, however long it was."""
    machine = Machine(settings("b1", 1, "standard"), 1000.0)
    properties = Properties(session_expiry_interval=1000)

    def enter(number: int, name: str, now: float) -> None:
        machine.opened(number, now, "test", "client")
        connect = Connect(client_id=name, clean_start=False, properties=properties)
        machine.received(number, encode(connect, Version.V5), now)
        machine.authenticated(number, None, now, allowed=True)

    enter(1, "sleeper", 1000.0)
    machine.received(1, encode(Subscribe(1, (SubscriptionRequest("t", 0),)), Version.V5), 1000.0)
    machine.lost(1, 1000.0)
    enter(2, "publisher", 1000.0)
    for number in range(2000):
        machine.received(2, encode(Publish("t", b"%d" % number), Version.V5), 1000.0)
    machine.take_outputs()

    enter(3, "sleeper", 1001.0)
    sent, now = b"", 1001.0
    slices = 0
    while True:
        out = machine.take_outputs()
        written = b"".join(out.dirty[3].take_output()) if 3 in out.dirty else b""
        sent += written
        assert len(written) < BURST_BYTES
        if (BURST_TIMER, "sleeper") not in out.timers:
            break
        slices += 1
        now += 0.001
        machine.timer((BURST_TIMER, "sleeper"), now)

    assert slices >= 2000 * 600 // BURST_BYTES
    assert sent.count(b"\x00\x01t") == 2000
    assert machine.broker.contexts[ClientId("sleeper")].stored.__len__() == 0
    assert BrokerId("b1") == machine.me


def test_what_a_link_brings_at_qos_0_leaves_for_all_receivers_alike() -> None:
    """The first receiver had each message encoded on the way that stores it, which counts as if a queue went out: after
    175 of them it rested, and had the others stored."""
    machine = Machine(settings("b1", 2, "standard"), 1000.0)
    names = {1: "first", 2: "second"}
    for number, name in names.items():
        machine.opened(number, 1000.0, "test", "client")
        machine.received(number, encode(Connect(client_id=name), Version.V5), 1000.0)
        machine.authenticated(number, None, 1000.0, allowed=True)
        machine.received(number, encode(Subscribe(1, (SubscriptionRequest("t", 0),)), Version.V5), 1000.0)
    machine.take_outputs()
    for mqtt in map(machine.mqtt, names):
        assert mqtt is not None
        mqtt.take_output()

    payload = b"x" * 64
    for number in range(1, 401):
        event = Event(
            EventId(BrokerId("b2"), number),
            "t",
            payload=payload,
            qos=0,
            properties=EncodedMessage("t", payload),
        )
        machine.link_received(BrokerId("b2"), number, wire.encode(event), 1001.0)

    out = machine.take_outputs()
    assert [len(out.dirty[number].take_output()) for number in names] == [400, 400]
    assert not any(key[0] == BURST_TIMER for key in out.timers)
    assert not any(machine.broker.contexts[ClientId(name)].stored for name in names.values())


@pytest.mark.live
@pytest.mark.parametrize("kind", ["mqtt", "ws"])
def test_what_comes_with_connect_and_goodbye_in_one_write_is_handled(tmp_path: Path, kind: str) -> None:
    """A client that says everything at once and leaves: nothing of it is lost, and in its order."""
    from tests.net.test_strangers import web_socket

    async def scenario() -> None:
        network = write_network(tmp_path, local_network(1, scheme="standard", durability="memory"))
        async with running(network):
            listener = PlainClient("listener")
            await listener.connect(port_of(network, "b1"))
            await listener.subscribe("t", 0)
            said = [encode(Publish("t", b"%d" % number), Version.V5) for number in range(20_000)]
            hello, ping = encode(Connect(client_id="hasty"), Version.V5), encode(Pingreq(), Version.V5)
            data = hello + b"".join(said) + ping + b"\xe0\x00"
            if kind == "ws":
                _, writer, protocol = await web_socket(port_of(network, "b1", "ws"))
                protocol.send_binary(data)
                data = b"".join(protocol.data_to_send())
            else:
                _, writer = await asyncio.open_connection("127.0.0.1", port_of(network, "b1"))
            writer.write(data)
            await eventually(lambda: len(listener.received) == 20_000)
            assert [payload for _, payload, *_ in listener.received] == [b"%d" % n for n in range(20_000)]
            writer.close()

    asyncio.run(scenario())
