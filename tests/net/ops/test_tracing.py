"""Where is my message? The whole way of one message over three live brokers, with times and brokers."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.core.records import KINDS
from roamq.net.ops.local import local_network
from tests.net.live import PlainClient, port_of, running, write_network
from tests.support.waiting import eventually


@pytest.mark.live
@pytest.mark.parametrize("scheme", ["standard", "proactive", "home-broker"])
def test_a_message_is_followed_from_its_publisher_to_the_acknowledgement(tmp_path: Path, scheme: str) -> None:
    """Published at b1, stored at b2 for a client that is away, handed over to b3, acknowledged there."""

    async def ride() -> None:
        text = local_network(3, scheme=scheme, records=tmp_path / "records", steps=True)
        network = write_network(tmp_path, text.replace("[records]", "[records]\nflush_s = 0.05"))
        async with running(network):
            car, shop = PlainClient("car"), PlainClient("shop")
            await car.connect(port_of(network, "b2"))
            await car.subscribe("news/#", 1)
            await car.disconnect()
            await shop.connect(port_of(network, "b1"))
            shop.publish("news/today", b"hello", 1)
            await eventually(lambda: bool(shop.acknowledged))
            await car.connect(port_of(network, "b3"))
            await eventually(lambda: len(car.received) == 1)
            await car.ping()
            await car.disconnect()
            await shop.disconnect()

    asyncio.run(ride())
    found = CliRunner().invoke(cli, ["trace", "news/#", str(tmp_path / "network.toml"), "--json"])
    (message,) = json.loads(found.output)
    told = CliRunner().invoke(cli, ["trace", message["id"], str(tmp_path / "network.toml")])
    lines = told.output.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3}  ", line) for line in lines), told.output
    said = [line.partition("  ")[2].replace(message["id"], "M") for line in lines]

    def at(pattern: str) -> int:
        return next(number for number, line in enumerate(said) if re.fullmatch(pattern, line))

    way = [
        at(r"shop published M to news/today at b1, \d+ bytes"),
        at("M came to b2 over the link from b1"),
        at("b2 stored M for car, which is away"),
        at("car connected at b3; it was at b2"),
        at(r"b3 delivered M to car after \d+\.\d+ s, .*"),
        at("car acknowledged M to b3"),
    ]
    assert way == sorted(way), told.output
    if scheme == "standard":
        assert at("b2 handed the session of car over to b3, with 1 message") > way[2]


@pytest.mark.live
def test_steps_are_recorded_only_if_the_configuration_asks_for_them(tmp_path: Path) -> None:
    async def ride() -> None:
        network = write_network(tmp_path, local_network(1, records=tmp_path / "records"))
        async with running(network) as servers:
            car = PlainClient("car")
            await car.connect(port_of(network, "b1"))
            await car.subscribe("news/#", 1)
            car.publish("news/x", b"1", 1)
            await eventually(lambda: len(car.received) == 1)
            await car.ping()
            counts = servers["b1"].shell.counts
            assert counts["delivered"] == 1
            assert not any(counts[kind] for kind in ("routed", "stored", "acknowledged"))
            assert {"routed", "stored", "acknowledged"} <= KINDS.keys()
            await car.disconnect()

    asyncio.run(ride())
