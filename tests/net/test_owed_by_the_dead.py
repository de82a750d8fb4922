"""A broker that had messages for clients elsewhere dies for good: what may be lost is said, and nobody waits for it."""

import asyncio
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.asking import acting_doors
from roamq.cli.main import cli
from tests.net.around import processes_of
from tests.net.live import BrokerProcesses, PlainClient
from tests.net.test_new_lives import payloads
from tests.support.waiting import eventually

pytestmark = pytest.mark.live


def test_what_a_dead_broker_owed_is_waited_for_until_it_is_declared_dead_and_then_it_is_said(
    tmp_path: Path,
) -> None:
    """b3 is down while the client goes from b1 to b2, so that b1 owes it what b3 had published. Then b1 dies."""

    async def scenario(processes: BrokerProcesses) -> None:
        path = str(processes.path)
        reader, writer = PlainClient("reader"), PlainClient("writer")
        await eventually(lambda: not any(processes.health(f"b{n}")["links_down"] for n in range(1, 5)))
        await reader.connect(processes.port("b1"))
        await reader.subscribe("t", 1)
        processes.kill("b3")
        await reader.connect(processes.port("b2"))
        assert reader.session_present
        door = next(door for door in acting_doors(processes.path) if door.name == "b2")
        await eventually(lambda: door.ask("/api/status")["awaited"] == {"b1": 1}, "all but what b3 had")
        processes.kill("b1")
        await asyncio.to_thread(processes.start, "b3")
        await writer.connect(processes.port("b3"))
        writer.publish("t", b"from b3", 1)

        def alarms() -> list[str]:
            return [alarm["text"] for alarm in door.ask("/api/status")["alarms"]]

        await eventually(
            lambda: any("1 sessions here wait for messages that it has" in one for one in alarms())
        )
        assert door.ask("/api/status")["awaited"] == {"b1": 1}
        assert payloads(reader) == [], "b1 may have older ones of b3"

        said = await asyncio.to_thread(CliRunner().invoke, cli, ["forget", "b1", path])
        assert said.exit_code == 0, said.output
        assert "1 sessions at b2 waited for messages that b1 had for them" in said.output
        await eventually(lambda: payloads(reader) == [b"from b3"])
        happened = [one["text"] for one in door.ask("/api/events")["events"] if one["kind"] == "missed"]
        assert happened == [
            "missed: client 'reader' may have missed messages of b3: b1, which had them for it, is gone for good"
        ]
        assert door.ask("/api/status")["awaited"] == {}
        for client in (reader, writer):
            client.drop()

    links = tuple(combinations(("b1", "b2", "b3", "b4"), 2))
    with processes_of(tmp_path, links, scheme="standard") as processes:
        processes.start()
        asyncio.run(scenario(processes))
