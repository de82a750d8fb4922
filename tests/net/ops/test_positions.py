"""Positions of brokers in the file, edited while the brokers run: they take effect, or the reload says why not."""

import asyncio
import json
import urllib.request
from pathlib import Path

import pytest

from roamq.core.errors import ConfigError
from roamq.net.ops.local import local_network
from roamq.net.ops.options import ServerOptions
from roamq.net.ops.reloading import reloaded
from roamq.net.server import Server
from tests.net.live import running, write_network

HERE, THERE = (48.2, 16.37), (48.1, 16.4)


def placed(folder: Path, text: str, *positions: tuple[float, float]) -> ServerOptions:
    """What b1 is started with if the brokers are at these positions."""
    for number, position in enumerate(positions, 1):
        table = f"[brokers.b{number}]\n"
        text = text.replace(table, f"{table}position = {list(position)}\n")
    return write_network(folder, text).server_options("b1")


@pytest.mark.live
def test_a_position_that_was_edited_takes_effect_at_a_reload(tmp_path: Path) -> None:
    def shown(server: Server) -> list[float]:
        url = f"http://127.0.0.1:{server.options.metrics_port}/api/network"
        with urllib.request.urlopen(url, timeout=10) as answer:
            place: list[float] = json.load(answer)["places"][0]["position"]
        return place

    async def scenario() -> None:
        text = local_network(1, scheme="standard", durability="memory")
        placed(tmp_path, text, HERE)
        async with running(write_network(tmp_path, (tmp_path / "network.toml").read_text())) as servers:
            assert await asyncio.to_thread(shown, servers["b1"]) == list(HERE)
            assert not servers["b1"].reload()["positions_changed"]
            placed(tmp_path, text, THERE)
            told = servers["b1"].reload()
            assert (told["positions_changed"], told["schemes_changed"]) == (True, False)
            assert await asyncio.to_thread(shown, servers["b1"]) == list(THERE)
            assert not servers["b1"].reload()["positions_changed"]

    asyncio.run(scenario())


def test_a_scheme_that_looks_at_the_ground_gets_the_positions_as_well(tmp_path: Path) -> None:
    text = local_network(2, scheme="prehandoff")
    before, after = placed(tmp_path, text, HERE, THERE), placed(tmp_path, text, HERE, HERE)

    changed = reloaded(before, after, before.settings)

    assert changed.schemes_changed and changed.positions_changed
    assert changed.settings is not None
    assert changed.settings.positions["b2"] == changed.settings.scheme_options["areas"]["b2"] == HERE


@pytest.mark.parametrize("joined_at", [HERE, None])
def test_a_broker_that_joined_keeps_its_position_and_a_reload_says_so(
    tmp_path: Path, joined_at: tuple[float, float] | None
) -> None:
    text = local_network(1) + '[brokers.b2]\nat = ["b1"]\n'
    before, after = placed(tmp_path, text, HERE, HERE), placed(tmp_path, text, HERE, THERE)

    reloaded(before, before, before.settings, {"b2": HERE})
    reloaded(before, after, before.settings, {})
    with pytest.raises(
        ConfigError, match=r"brokers\.b2\.position: the broker joined with.*`roamq leave`.* join again"
    ):
        reloaded(before, after, before.settings, {"b2": joined_at})
