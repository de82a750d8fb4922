"""Run a scenario on real brokers: `run_job` is a campaign's runner, like the simulator's.

The payload is the simulator's scenario, so the moves, filters and publications of a seed are the same; time is the wall
clock's. The field test writes what clients see as the records that the simulator writes, and the same Spark queries
measure both. QoS 0 promises nothing, so its clients are measured by what they received. Only the brokers know whether a
message was delivered live, from the store, or after a transfer (`ways`), and what became of virtual consumers
(`prehandoffs`): the test reads it from their records. If the scenario wants samples of what brokers store
(`records.buffer_s`), the test asks brokers for them, and for what they put on their links (`samples.py`).
"""

import asyncio
import random
import secrets
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from roamq.config import Source
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.matching import MatchIndex
from roamq.core.records import Record
from roamq.fieldtest.brokers import BrokerProcesses
from roamq.fieldtest.roamers import RoamingClient, RoamingSubscriber
from roamq.fieldtest.samples import BrokerSamples, last_hops, traffic_records
from roamq.net.clients.mqtt.codec import Properties
from roamq.net.clock import SteadyClock
from roamq.net.device import Device
from roamq.sim.options import Fault
from roamq.sim.scenario import Scenario, checked, mobility_of, topology_of, workload_of, world_of
from roamq.sim.workload import Publisher

QUALITIES = (0, 1, 2)
SETTLED_S = 1.0
PUBLISH_QOS = 2
CONSOLE_FILE = "console_file"
"""Key in the payload of a run: a file to write the address of a console to."""
LINK_DELAY_S = "link_delay_s"
"""Key in the payload of a run: the seconds that bytes are under way between two brokers; without it, as on loopback."""


class FieldTest:
    """One scenario, one seed, real brokers."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        folder: Path,
        console_file: Path | None = None,
        link_delay_s: float = 0.0,
    ) -> None:
        """`console_file`: the file that has the address of a console while the brokers run."""
        self.scenario = scenario
        self.seed = seed
        self.topology = topology_of(scenario)
        self.folder = folder
        options = {k: v for k, v in scenario.scheme.items() if k != "name"}
        self._console_file = console_file
        self.brokers = BrokerProcesses(
            self.topology,
            folder,
            scheme=scenario.scheme_name,
            options=options,
            durability="process",
            console_token=secrets.token_urlsafe(24) if console_file is not None else None,
            link_delay_s=link_delay_s,
        )
        self.records: list[Record] = []
        self.expected: dict[ClientId, set[tuple[str, int]]] = {}
        self.sizes: dict[tuple[str, int], int] = {}
        """(publisher, its number of the message) -> bytes of the message."""
        self.samples = BrokerSamples(self.brokers.metrics_ports, self.clock)
        self._index: MatchIndex[ClientId] = MatchIndex()
        self._begin = 0.0
        self._begin_wall_s = 0.0
        self.subscribers: list[RoamingSubscriber] = []

    def clock(self) -> float:
        return asyncio.get_running_loop().time() - self._begin

    def stream(self, purpose: str) -> random.Random:
        """Returns a random stream of the simulator: the same seed gives the same moves."""
        return random.Random(f"{self.seed}/{purpose}")

    async def run(self) -> list[Record]:
        scenario = self.scenario
        await self.brokers.start()
        if self._console_file is not None:
            self._console_file.touch(mode=0o600)
            self._console_file.write_text(self.brokers.console_url)
        try:
            self._begin, self._begin_wall_s = asyncio.get_running_loop().time(), SteadyClock().now()
            world = world_of(scenario, self.topology)
            load, model = workload_of(scenario), mobility_of(scenario)
            moving = []
            for number in range(scenario.clients):
                client = self._subscriber(number)
                for filter in load.subscriptions(number, world, self.stream(f"subscriptions/{number}")):
                    self._index.add(ClientId(client.device.name), filter)
                    client.device.subscribe(filter.topic, client.qos, filter.selector)
                steps = model.steps(number, world, self.stream(f"moves/{number}"))
                moving.append(client.follow(steps, scenario.duration_s))
            saying = [
                self._publish(number, publisher)
                for number, publisher in enumerate(load.publishers(world, self.stream))
            ]
            breaking = [self._break(fault) for fault in scenario.faults]
            await asyncio.gather(*moving, *saying, *breaking, self._sample())
            await self._drain()
            if scenario.records.buffer_s:
                await self.samples.take()
        finally:
            for client in self.subscribers:
                client.vanish()
            await self.brokers.stop()
        self._finish()
        return self.records

    def _subscriber(self, number: int) -> RoamingSubscriber:
        qos = QUALITIES[number % len(QUALITIES)]
        client = RoamingSubscriber(f"c{number}", self.brokers.ports, self.clock, qos, shows_ticket=True)
        self.subscribers.append(client)
        self.expected[ClientId(client.device.name)] = set()
        return client

    async def _publish(self, number: int, publisher: Publisher) -> None:
        """Publishes at one broker; connects to it again if it falls."""
        name = f"p{number}"
        device = Device(name, lambda message: None)
        client = RoamingClient(device, self.brokers.ports, self.clock)

        for count, publication in enumerate(publisher.publications, 1):
            if publication.time_s >= self.scenario.duration_s:
                break
            await asyncio.sleep(max(0.0, publication.time_s - self.clock()))
            while client.at is None and not await client.connect(publisher.broker):
                await asyncio.sleep(0.1)

            now = self.clock()
            said = f"{name};{count};{now:.6f};".encode()
            values = tuple((key, str(value)) for key, value in publication.attributes.items())
            payload = said + publication.payload[len(said) :]
            event = Event(
                id=EventId(BrokerId(name), count),
                topic=publication.topic,
                attributes=dict(publication.attributes),
                payload=payload,
            )
            self._expect(event, now, publisher.broker)
            client.send(
                device.publish(
                    publication.topic, payload, PUBLISH_QOS, properties=Properties(user_properties=values)
                )
            )
        while device.unfinished and self.clock() < self.scenario.duration_s + self.scenario.drain_s:
            if client.at is None:
                await client.connect(publisher.broker)
            await asyncio.sleep(0.1)
        client.vanish()

    def _expect(self, event: Event, now: float, broker: BrokerId) -> None:
        name, count = event.id
        self.sizes[name, count] = event.size_bytes
        matching = (self.subscribers[int(client.removeprefix("c"))] for client in self._index.match(event))
        # As in the simulator, a client is owed nothing while no broker has confirmed its subscription.
        owed = [ClientId(c.device.name) for c in matching if c.qos and c.device.is_subscribed]
        for client in owed:
            self.expected[client].add((name, count))
        self.records.append(Record("published", now, broker, name, name, count, count=len(owed)))

    async def _break(self, fault: Fault) -> None:
        await asyncio.sleep(max(0.0, fault.at_s - self.clock()))
        if fault.kind == "crash":
            self.brokers.kill(fault.target)
            await asyncio.sleep(fault.duration_s)
            await self.brokers.restart(fault.target)
        else:
            a, _, b = fault.target.partition("-")
            await self.brokers.cut(a, b)
            await asyncio.sleep(fault.duration_s)
            await self.brokers.mend(a, b)

    async def _sample(self) -> None:
        if every_s := self.scenario.records.buffer_s:
            await self.samples.follow(every_s, self.scenario.duration_s)

    async def _drain(self) -> None:
        """Connects all clients again, and waits until they have received what is owed, or until the drain ends."""
        everywhere = [str(broker) for broker in self.topology.brokers]
        end = self.scenario.duration_s + self.scenario.drain_s
        quiet_since = self.clock()
        while self.clock() < end:
            await asyncio.gather(*(client.settle(everywhere) for client in self.subscribers))
            if self._owed():
                quiet_since = self.clock()
            elif self.clock() - quiet_since > SETTLED_S:
                return  # nothing is missing, and nothing more has come for a while
            await asyncio.sleep(0.1)

    def _owed(self) -> int:
        return sum(len(self.expected[ClientId(c.device.name)] - c.seen) for c in self.subscribers if c.qos)

    def _finish(self) -> None:
        extra: Counter[tuple[str | None, int | None]] = Counter(
            key for c in self.subscribers for key in c.seen - self.expected[ClientId(c.device.name)]
        )
        self.records = [
            record._replace(count=(record.count or 0) + extra[record.origin, record.sequence])
            for record in self.records
        ]
        found = ways(self.folder / "records")
        for client in self.subscribers:
            self.records += [
                record._replace(detail=found.get((record.client, record.origin, record.sequence)))
                if record.kind == "delivered"
                else record
                for record in client.records
            ]
        self.records += prehandoffs(self.folder / "records", self._begin_wall_s)
        if self.scenario.records.buffer_s:
            self.records += self.samples.levels
            delivered = (record for record in self.records if record.kind == "delivered")
            crossings = self.samples.crossings + last_hops(delivered, self.sizes)
            self.records += traffic_records(crossings, self.scenario.records.bin_s)
        self.records.sort(key=lambda record: record.time_s)
        findings = {
            "loss": self._owed(),
            "duplication": sum(c.unflagged for c in self.subscribers if c.qos),
            "order": sum(c.reordered for c in self.subscribers if c.qos),
        }
        for name, count in findings.items():
            if count:
                text = f"{name}: {count} found among clients of QoS 1 and 2"
                self.records.append(Record("violation", self.clock_at_end, detail=text, count=count))

    @property
    def clock_at_end(self) -> float:
        return self.scenario.duration_s + self.scenario.drain_s


def ways(folder: Path) -> dict[tuple[str | None, str | None, int | None], str]:
    """(client, publisher, the publisher's number) -> how the broker says that it last delivered the event.

    Brokers number events themselves. Messages of a publisher at QoS 2 keep their order, so its n-th event is its n-th
    message.
    """
    columns = ["kind", "client", "origin", "sequence", "detail", "position"]
    table = pq.read_table(folder, columns=columns)
    rows = table.filter(pc.field("kind").isin(["published", "delivered"])).sort_by("position").to_pylist()
    published = sorted(
        (row["client"], row["sequence"], row["origin"]) for row in rows if row["kind"] == "published"
    )
    names: dict[tuple[str, int], tuple[str, int]] = {}
    counted: Counter[str] = Counter()
    for publisher, sequence, origin in published:
        counted[publisher] += 1
        names[origin, sequence] = publisher, counted[publisher]
    return {
        (row["client"], *names[row["origin"], row["sequence"]]): row["detail"]
        for row in rows
        if row["kind"] == "delivered" and (row["origin"], row["sequence"]) in names
    }


def prehandoffs(folder: Path, begin_wall_s: float) -> list[Record]:
    """Returns the brokers' records of virtual consumers, in the time of a field test that began at `begin_wall_s`."""
    table = pq.read_table(folder, columns=["position", *Record._fields])
    rows = table.filter(pc.field("kind") == "prehandoff").sort_by("position").to_pylist()
    found = [Record(**{name: row[name] for name in Record._fields}) for row in rows]
    return [record._replace(time_s=record.time_s - begin_wall_s) for record in found]


def run_job(payload: Mapping[str, Any], seed: int) -> list[Record]:
    """Runs the simulator's payload on real brokers, as a campaign's runner."""
    plain = dict(payload)
    console, delay_s = plain.pop(CONSOLE_FILE, None), plain.pop(LINK_DELAY_S, 0.0)
    scenario = checked(plain, Source("field test"))
    with tempfile.TemporaryDirectory(prefix="roamq-field-") as folder:
        console_file = Path(console) if console is not None else None
        test = FieldTest(scenario, seed, Path(folder), console_file, delay_s)
        return asyncio.run(test.run())
