"""A broker process is killed and stays dead while clients come and go at the others; then it comes back."""

import asyncio
import re
import urllib.request
from pathlib import Path

import pytest

from tests.net.live import BrokerProcesses, PlainClient
from tests.support.waiting import WAIT_S, eventually, wait_until

pytestmark = pytest.mark.live

BOUND = 20_000


def metrics(processes: BrokerProcesses, name: str, metric: str) -> dict[str, float]:
    """Of each neighbour of a broker."""
    url = f"http://127.0.0.1:{processes.network.brokers[name].metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        text = answer.read().decode()
    return {peer: float(value) for peer, value in re.findall(rf'{metric}{{peer="(\w+)"}} (\S+)', text)}


async def pass_by(processes: BrokerProcesses, first: int, last: int) -> None:
    """Clients with ever new names connect, subscribe and are gone."""
    for number in range(first, last):
        client = PlainClient(f"passer-by-{number}", clean=True, expiry=0)
        await client.connect(processes.port("b1" if number % 2 else "b2"))
        await client.subscribe(f"passing/{number}/#", 1)
        client.drop()


def test_a_process_that_was_dead_for_long_hears_what_it_has_missed(tmp_path: Path) -> None:
    async def run(processes: BrokerProcesses) -> None:
        roams, stays = PlainClient("roams"), PlainClient("stays")
        await roams.connect(processes.port("b3"))
        await roams.subscribe("news/#", 2)
        processes.kill("b3")
        await pass_by(processes, 0, 60)
        for name in ("b1", "b2"):
            assert metrics(processes, name, "roamq_link_cut_off") == {
                "b3": 1.0,
                "b2" if name == "b1" else "b1": 0.0,
            }
            assert metrics(processes, name, "roamq_link_outbox_messages_bytes")["b3"] < 2 * BOUND
        frames = metrics(processes, "b1", "roamq_link_outbox_frames")["b3"]
        await pass_by(processes, 60, 120)
        assert metrics(processes, "b1", "roamq_link_outbox_frames")["b3"] <= frames + 5
        await stays.connect(processes.port("b1"))
        await stays.subscribe("late/#", 1)
        processes.kill("b1")  # what it has left out is in its journal
        processes.start("b1")
        assert metrics(processes, "b1", "roamq_link_cut_off")["b3"] == 1.0
        await stays.connect(processes.port("b1"))
        assert stays.session_present
        writer = PlainClient("writer")
        await writer.connect(processes.port("b1"))
        for number in range(5):
            writer.publish("news/x", b"%d" % number, 1)
        await eventually(lambda: len(writer.acknowledged) == 5)

        processes.start("b3")
        for name in processes.network.brokers:
            wait_until(lambda name=name: not processes.health(name)["links_down"], f"links of {name}")
        wait_until(lambda: not metrics(processes, "b1", "roamq_link_outbox_frames")["b3"], "what b3 is told")
        for name in ("b1", "b2"):
            assert metrics(processes, name, "roamq_link_cut_off")["b3"] == 0.0
            assert metrics(processes, name, "roamq_link_cut_offs_total")["b3"] == 1.0
        await roams.connect(processes.port("b2"))
        assert roams.session_present
        reporter = PlainClient("reporter")
        await reporter.connect(processes.port("b3"))
        reporter.publish("late/y", b"from b3", 1)
        reporter.publish("news/x", b"5", 1)
        await eventually(lambda: [payload for _, payload, *_ in stays.received] == [b"from b3"])
        await eventually(lambda: len(roams.received) == 6)
        assert [payload for _, payload, *_ in roams.received] == [b"%d" % number for number in range(6)]
        for client in (roams, stays, writer, reporter):
            client.drop()

    with BrokerProcesses(tmp_path, 3) as processes:
        text = processes.path.read_text()
        processes.path.write_text(f"{text}\n[quotas]\noutbox_messages_bytes_max = {BOUND}\n")
        processes.start()
        asyncio.run(run(processes))
