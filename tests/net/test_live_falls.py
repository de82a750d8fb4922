"""Broker processes that are killed: what was acknowledged is not lost, and QoS 2 stays exactly once."""

import asyncio
import contextlib
import json
import resource
import signal
import urllib.error
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roamq.net.durable.journal import Reader
from tests.net.live import BrokerProcesses, PlainClient
from tests.support.waiting import POLL_S, WAIT_S, eventually

pytestmark = pytest.mark.live


class Traffic:
    """Publishers that go on whatever happens, each with a window of unacknowledged messages."""

    def __init__(self, processes: BrokerProcesses, homes: dict[str, str], qos: int, window: int = 20) -> None:
        self.processes = processes
        self.qos = qos
        self.window = window
        self.writers = {PlainClient(name): broker for name, broker in homes.items()}
        self.stopping = False

    async def write(self, writer: PlainClient, broker: str) -> None:
        number = 0
        while not self.stopping or writer.unacknowledged:
            if not writer.is_open or writer.closed:
                with contextlib.suppress(OSError, AssertionError):
                    await writer.connect(self.processes.port(broker))
                await asyncio.sleep(POLL_S)
                continue
            while not self.stopping and len(writer.unacknowledged) < self.window:
                writer.publish(f"t/{writer.name}", b"%s %d" % (writer.name.encode(), number), self.qos)
                number += 1
            await asyncio.sleep(POLL_S)

    async def keep_reading(self, reader: PlainClient, broker: str) -> None:
        while not self.stopping:
            if not reader.is_open or reader.closed:
                with contextlib.suppress(OSError, AssertionError):
                    await reader.connect(self.processes.port(broker))
            await asyncio.sleep(POLL_S)

    async def flows_to(self, reader: PlainClient, messages: int = 100) -> None:
        """Wait until every publisher has so many more messages acknowledged, and the reader has received as many."""
        wanted = {writer: len(writer.acknowledged) + messages for writer in self.writers}
        received = len(reader.received) + messages
        await eventually(
            lambda: (
                len(reader.received) >= received
                and all(len(writer.acknowledged) >= count for writer, count in wanted.items())
            ),
            "the traffic",
        )


@pytest.mark.parametrize("qos", [1, 2])
def test_kill_9_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path, qos: int) -> None:
    async def scenario(processes: BrokerProcesses) -> None:
        reader = PlainClient("reader")
        await reader.connect(processes.port("b1"))
        await reader.subscribe("t/#", qos)
        traffic = Traffic(processes, {"near": "b1", "far": "b2"}, qos)
        tasks = [
            asyncio.ensure_future(traffic.write(writer, home)) for writer, home in traffic.writers.items()
        ]
        tasks.append(asyncio.ensure_future(traffic.keep_reading(reader, "b1")))
        for _ in range(2):
            await traffic.flows_to(reader)
            processes.kill("b1")
            await asyncio.to_thread(processes.start, "b1")
        await traffic.flows_to(reader)
        traffic.stopping = True
        await asyncio.wait_for(asyncio.gather(*tasks), WAIT_S)
        await reader.connect(processes.port("b1"))
        assert reader.session_present

        acknowledged = {payload for writer in traffic.writers for payload in writer.acknowledged}

        def received() -> Counter[bytes]:
            return Counter(payload for _, payload, *_ in reader.received)

        await eventually(lambda: acknowledged <= received().keys())
        assert len(acknowledged) > 100
        if qos == 2:
            assert max(received().values()) == 1
        # First occurrences of each publisher are in the order of publication.
        for writer in traffic.writers:
            mine = list(dict.fromkeys(p for topic, p, *_ in reader.received if topic == f"t/{writer.name}"))
            assert mine == sorted(mine, key=lambda payload: int(payload.split()[1]))
        # What came twice at QoS 1 was flagged: the client had not acknowledged it.
        seen: set[bytes] = set()
        for _, payload, _, dup in reader.received:
            assert payload not in seen or dup or payload in resent(traffic)
            seen.add(payload)
        for client in (reader, *traffic.writers):
            client.drop()

    with BrokerProcesses(tmp_path, 2, scheme="standard", durability="process") as processes:
        processes.start()
        asyncio.run(scenario(processes))


def resent(traffic: Traffic) -> set[bytes]:
    """At QoS 1 a publisher that did not see the acknowledgement publishes again, and the broker cannot know."""
    return (
        {payload for writer in traffic.writers for payload in writer.acknowledged}
        if traffic.qos == 1
        else set()
    )


def test_records_of_a_killed_broker_are_complete_and_single(tmp_path: Path) -> None:
    """What was not in the folder yet is made again from the journal."""

    async def scenario(processes: BrokerProcesses) -> None:
        client = PlainClient("c")
        await client.connect(processes.port("b1"))
        await client.subscribe("t", 1)
        for number in range(300):
            client.publish("t", b"%d" % number, 1)
        await eventually(lambda: len(client.acknowledged) == 300 and len(client.received) == 300)
        processes.kill("b1")
        client.drop()

    records = tmp_path / "records"
    with BrokerProcesses(tmp_path, 1, scheme="standard", durability="process", records=records) as processes:
        processes.start()
        asyncio.run(scenario(processes))
        processes.start("b1")
        processes.processes["b1"].send_signal(signal.SIGTERM)
        assert processes.processes["b1"].wait(WAIT_S) == 0

    rows = pq.read_table(records / "part=records").to_pylist()
    assert sum(row["kind"] == "published" for row in rows) == 300
    assert sum(row["kind"] == "delivered" for row in rows) == 300
    assert len({row["position"] for row in rows}) == len(rows)


def test_a_broker_that_is_down_stops_nobody_and_hears_of_everything_afterwards(tmp_path: Path) -> None:
    async def scenario(processes: BrokerProcesses) -> None:
        reader, writer, other = PlainClient("reader"), PlainClient("writer"), PlainClient("other")
        await reader.connect(processes.port("b2"))
        await reader.subscribe("t", 2)
        await other.connect(processes.port("b1"))
        await other.subscribe("t", 2)
        await writer.connect(processes.port("b1"))
        processes.kill("b2")
        for number in range(200):
            writer.publish("t", b"%d" % number, 1)
        await eventually(lambda: len(writer.acknowledged) == 200 and len(other.received) == 200)
        await asyncio.to_thread(processes.start, "b2")
        await reader.connect(processes.port("b2"))
        await eventually(lambda: len(reader.received) >= 200)
        assert [payload for _, payload, *_ in reader.received] == [b"%d" % number for number in range(200)]
        for client in (reader, writer, other):
            client.drop()

    with BrokerProcesses(tmp_path, 2, scheme="standard", durability="disk") as processes:
        processes.start()
        asyncio.run(scenario(processes))


@pytest.mark.parametrize("overlay", ["flooding", "hierarchy"])
def test_a_restart_without_memory_is_a_new_life_that_others_understand(tmp_path: Path, overlay: str) -> None:
    """With durability `memory` a killed broker forgets; its neighbours must not take its new numbers for old ones, and
    tell it again what their clients want."""

    async def scenario(processes: BrokerProcesses) -> None:
        reader, writer = PlainClient("reader"), PlainClient("writer")
        await reader.connect(processes.port("b2"))
        await reader.subscribe("t", 1)
        for life in range(2):
            await writer.connect(processes.port("b1"))
            if life and overlay == "hierarchy":
                # It has begun anew, and sends nothing on before `b2` has told it again what is wanted there.
                async with asyncio.timeout(WAIT_S):
                    while not any(payload == b"hello" for _, payload, *_ in reader.received):
                        writer.publish("t", b"hello", 1)
                        await asyncio.sleep(POLL_S)
            sent = [b"%d %d" % (life, number) for number in range(20)]
            for payload in sent:
                writer.publish("t", payload, 1)
            await eventually(lambda last=sent[-1]: any(payload == last for _, payload, *_ in reader.received))
            assert [payload for _, payload, *_ in reader.received if payload in sent] == sent
            if not life:
                processes.kill("b1")
                await asyncio.to_thread(processes.start, "b1")
        for client in (reader, writer):
            client.drop()

    options = {"scheme": "standard", "durability": "memory", "overlay": overlay}
    with BrokerProcesses(tmp_path, 2, **options) as processes:
        processes.start()
        asyncio.run(scenario(processes))


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of other processes can be set on Linux alone"
)
def test_a_disk_that_fills_up_delays_acknowledgements_and_loses_none(tmp_path: Path) -> None:
    """A bound on the size of files stands for the full disk: it can be set and lifted from outside."""

    def limit(process: int, size: int) -> None:
        hard = resource.prlimit(process, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(process, resource.RLIMIT_FSIZE, (size, hard))

    async def scenario(processes: BrokerProcesses) -> None:
        client = PlainClient("c")
        await client.connect(processes.port("b1"))
        await client.subscribe("t", 1)
        process = processes.processes["b1"].pid
        journal = tmp_path / "data" / "b1" / "segment-00000001.journal"
        limit(process, journal.stat().st_size + 20_000)
        sent = [b"<%d>" % number + bytes(1000) for number in range(100)]
        for payload in sent[:5]:  # there is room for these
            client.publish("t", payload, 1)
        await eventually(lambda: len(client.acknowledged) == 5)
        for payload in sent[5:]:
            client.publish("t", payload, 1)
        await eventually(lambda: is_stalled(processes))
        # Whatever the broker sent before it answered that it is stalled, we have read once it answers again.
        assert await asyncio.to_thread(is_stalled, processes)
        safe = len(client.acknowledged)
        assert 5 <= safe < 100
        assert await asyncio.to_thread(is_stalled, processes)
        assert len(client.acknowledged) == safe
        # A broker reads long inputs in slices: together they are what the client sent.
        read = Reader(journal.parent, 1, only_looks=True)
        written = b"".join(part for entry in read for part in entry if isinstance(part, bytes))
        assert all(payload in written for payload in client.acknowledged)
        assert journal.stat().st_size <= resource.prlimit(process, resource.RLIMIT_FSIZE)[0]

        limit(process, resource.RLIM_INFINITY)
        await eventually(lambda: len(client.acknowledged) == 100 and len(client.received) == 100)
        assert not is_stalled(processes)
        processes.kill("b1")
        await asyncio.to_thread(processes.start, "b1")
        await client.connect(processes.port("b1"))
        assert client.session_present
        client.drop()

    with BrokerProcesses(tmp_path, 1, scheme="standard", durability="process") as processes:
        processes.start()
        asyncio.run(scenario(processes))


def is_stalled(processes: BrokerProcesses) -> bool:
    try:
        processes.health("b1")
    except urllib.error.HTTPError as error:
        found = json.load(error)
        return error.code == 503 and found["status"] == "stalled" and "File too large" in found["reason"]
    return False


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_a_broker_that_is_down_holds_up_nobody_who_roams_between_others(
    tmp_path: Path, scheme: str, overlay: str
) -> None:
    """Each move finds the session and what was stored, though nobody hears from the third broker any more; one of the
    two may never have heard from it. When it is back, what it had taken comes once, in order."""

    async def scenario(brokers: BrokerProcesses) -> None:
        mover, writer, far = PlainClient("mover"), PlainClient("writer"), PlainClient("far")
        await mover.connect(brokers.port("b1"))
        await mover.subscribe("t", 1)
        await writer.connect(brokers.port("b1"))
        await far.connect(brokers.port("b3"))
        for number in range(20):
            far.publish("t", b"far %d" % number, 1)
        await eventually(lambda: not far.unacknowledged, "the acknowledgement")
        brokers.kill("b3")
        sent: list[bytes] = []

        def received() -> set[bytes]:
            return {payload for _, payload, *_ in mover.received}

        for broker in ("b2", "b1", "b2"):
            mover.drop()
            sent.append(b"near %d" % len(sent))
            writer.publish("t", sent[-1], 1)
            await eventually(lambda: not writer.unacknowledged, "the acknowledgement")
            await mover.connect(brokers.port(broker))
            assert mover.session_present
            await eventually(lambda: received() >= {*sent}, "what was stored")
            await mover.ping()  # what it has received is acknowledged
        await asyncio.to_thread(brokers.start, "b3")
        await far.connect(brokers.port("b3"))
        for number in range(20, 30):
            far.publish("t", b"far %d" % number, 1)
        await eventually(lambda: b"far 29" in received(), "what came late")
        payloads = list(dict.fromkeys(payload for _, payload, *_ in mover.received))
        of_far = [payload for payload in payloads if payload.startswith(b"far")]
        assert [payload for payload in payloads if payload not in of_far] == sent
        assert of_far == [b"far %d" % number for number in range(30)]
        for client in (mover, writer, far):
            client.drop()

    with BrokerProcesses(tmp_path, 3, scheme=scheme, overlay=overlay, durability="process") as brokers:
        brokers.start()
        asyncio.run(scenario(brokers))


def test_a_client_that_waits_for_its_session_is_not_taken_for_a_stranger(tmp_path: Path) -> None:
    """Its previous broker is down. It has logged in, so the time for that is not what ends its wait."""

    async def scenario(brokers: BrokerProcesses) -> None:
        client = PlainClient("c")
        await eventually(lambda: not brokers.health("b2")["links_down"], "the links")
        await client.connect(brokers.port("b1"))
        await client.subscribe("t", 1)
        client.drop()
        brokers.kill("b1")
        await client.connect(brokers.port("b2"))
        assert client.session_present is False
        client.drop()

    with BrokerProcesses(tmp_path, 2, extra="\n[bounds]\nconnect_timeout_s = 1.0\n") as brokers:
        brokers.start()
        asyncio.run(scenario(brokers))
