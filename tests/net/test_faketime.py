"""Real processes whose wall clocks are wrong, or are set while they run: libfaketime makes them so."""

import asyncio
import time
from pathlib import Path

import pytest

from roamq.net.clients.mqtt.codec import Disconnect, ReasonCode
from tests.net.clients.test_tokens import EC, pem, token
from tests.net.live import BrokerProcesses, PlainClient
from tests.support.waiting import eventually

pytestmark = pytest.mark.live
LIBRARIES = [
    *Path("/usr/lib").glob("*/faketime/libfaketime.so.1"),
    *Path("/usr/lib/faketime").glob("libfaketime.so.1"),
]
needs_faketime = pytest.mark.skipif(not LIBRARIES, reason="libfaketime is not installed (Debian: faketime)")


def fake(patch: pytest.MonkeyPatch, setting: str, value: str) -> None:
    """What is started from now on sees another wall clock; the clock that nobody sets is as it is."""
    patch.setenv("LD_PRELOAD", str(LIBRARIES[0]))
    patch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    patch.setenv("FAKETIME_NO_CACHE", "1")
    patch.setenv(setting, value)


@needs_faketime
@pytest.mark.parametrize("ahead", ["+60", "-60"])
def test_a_client_moves_between_brokers_whose_clocks_differ_by_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: str
) -> None:
    with BrokerProcesses(tmp_path, 2, scheme="standard") as brokers:
        with monkeypatch.context() as patch:
            fake(patch, "FAKETIME", ahead)
            brokers.start("b1")
        brokers.start("b2")

        async def scenario() -> None:
            await eventually(lambda: not brokers.health("b2")["links_down"])
            mover, publisher = PlainClient("mover"), PlainClient("publisher")
            await publisher.connect(brokers.port("b2"))
            await mover.connect(brokers.port("b1"))
            await mover.subscribe("t", 2)
            sent = []
            for number, broker in enumerate(["b2", "b1", "b2", "b1"]):
                mover.drop()
                sent.append(b"%d" % number)
                publisher.publish("t", sent[-1], 2)
                await eventually(lambda: not publisher.unacknowledged)
                connack = await mover.connect(brokers.port(broker))
                assert connack.session_present, broker
                await eventually(lambda: [payload for _, payload, *_ in mover.received] == sent)
            for client in (mover, publisher):
                client.drop()

        asyncio.run(scenario())


@needs_faketime
def test_a_wall_clock_that_jumps_by_an_hour_and_back_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = tmp_path / "wall"
    wall.write_text("+0")
    with BrokerProcesses(tmp_path, 1, scheme="standard") as brokers:
        with monkeypatch.context() as patch:
            fake(patch, "FAKETIME_TIMESTAMP_FILE", str(wall))
            brokers.start("b1")

        async def served(number: int) -> None:
            client = PlainClient(f"c{number}")
            await client.connect(brokers.port("b1"))
            await client.subscribe("t", 1)
            client.publish("t", b"x", 1)
            await eventually(lambda: len(client.received) == 1)
            await client.ping()
            client.drop()

        async def scenario() -> None:
            stays = PlainClient("stays")
            await stays.connect(brokers.port("b1"))
            for number, offset in enumerate(["+0", "+3600", "+0", "-3600", "+0"]):
                wall.write_text(offset)
                await served(number)
                await stays.ping()
            assert not stays.closed
            stays.drop()
            brokers.kill("b1")
            with monkeypatch.context() as patch:
                fake(patch, "FAKETIME", "-3600")  # it comes back before it went
                brokers.start("b1")
            await served(9)

        asyncio.run(scenario())


TOKENS = """
[access]
anonymous = "never"
[access.jwt]
keys = ["issuer.pem"]
leeway_s = 0.0
"""


@needs_faketime
@pytest.mark.parametrize("at_first", ["+3600", "-3600"])
def test_a_token_lasts_as_long_as_it_says_at_a_broker_that_began_with_a_wrong_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_first: str
) -> None:
    """The wall clock is set right when the broker runs; the broker's own time follows in hours."""
    wall = tmp_path / "wall"
    wall.write_text(at_first)
    (tmp_path / "issuer.pem").write_bytes(pem(EC))
    with BrokerProcesses(tmp_path, 1, scheme="standard", extra=TOKENS) as brokers:
        with monkeypatch.context() as patch:
            fake(patch, "FAKETIME_TIMESTAMP_FILE", str(wall))
            brokers.start("b1")
        wall.write_text("+0")

        async def scenario() -> None:
            stays, goes = PlainClient("stays"), PlainClient("goes")
            connack = await stays.connect(brokers.port("b1"), password=token(exp=time.time() + 600))
            assert connack.reason is ReasonCode.SUCCESS
            ends_at = time.time() + 4
            connack = await goes.connect(brokers.port("b1"), password=token(exp=ends_at))
            assert connack.reason is ReasonCode.SUCCESS
            await stays.ping()
            await eventually(lambda: goes.closed)
            assert isinstance(goes.closed_because, Disconnect)
            assert goes.closed_because.reason is ReasonCode.MAXIMUM_CONNECT_TIME
            assert time.time() >= ends_at - 1
            await stays.ping()
            assert not stays.closed
            stays.drop()

        asyncio.run(scenario())
