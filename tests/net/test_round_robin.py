"""Live brokers behind a round-robin: each connection lands at the next of three; links with and without delay."""

import asyncio
from pathlib import Path

import pytest

from roamq.net.clients.mqtt.codec import Disconnect, ReasonCode
from tests.net.live import PlainClient
from tests.net.network import SCHEMES
from tests.net.turns import round_robin
from tests.support.waiting import eventually

pytestmark = pytest.mark.live


@pytest.mark.parametrize("delay", [0.0, 0.04])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_three_brokers_behind_a_round_robin_are_one(tmp_path: Path, scheme: str, delay: float) -> None:
    async def scenario() -> None:
        async with round_robin(tmp_path, 3, scheme, delay) as (port, _):
            lines = [PlainClient("clean", clean=True, expiry=0) for _ in range(6)]
            for line in lines:
                await line.connect(port)
                assert line.session_present is False
            for old in lines[:-1]:
                await eventually(lambda old=old: old.closed)
                assert isinstance(old.closed_because, Disconnect)
                assert old.closed_because.reason is ReasonCode.SESSION_TAKEN_OVER
            await lines[-1].ping()

            roamer, publisher = PlainClient("roamer"), PlainClient("publisher")
            member = PlainClient("member")
            await roamer.connect(port)
            await roamer.subscribe("t", 2)
            await member.connect(port)
            await member.subscribe("$share/group/t", 1)
            sent = [str(number).encode() for number in range(40)]
            for number, payload in enumerate(sent):
                if number % 4 == 0:
                    await publisher.connect(port)
                    for mover in (roamer, member):
                        await mover.connect(port)
                        assert mover.session_present
                publisher.publish("t", payload, 2)
                await eventually(lambda payload=payload: payload in publisher.acknowledged)
            await eventually(lambda: len(roamer.received) >= len(sent))
            await eventually(lambda: {message[1] for message in member.received} >= set(sent))
            assert [message[1] for message in roamer.received] == sent
            for client in (roamer, member, publisher, lines[-1]):
                client.drop()

    asyncio.run(scenario())
